//! H13: the accelerator as a bridge between two interfaces, in one Ethernet segment.

use std::io::{IoSlice, Read, Write};
use std::net::UdpSocket;

use io::netlink::{Cidr, Link};
use io::{FrameSocket, VNET_HEADER_LEN};
use run::{Config, InlineFallback};

use crate::accelerated::verdict;
use crate::crash::{assert_reset, fill, with_debt};
use crate::topology::{PATIENCE, Program, SIGCONT, SIGKILL, SIGSTOP, Topology, wait_until};

/// The server's addresses in the clients' own networks.
pub const HERE: [&str; 2] = ["10.1.0.9", "fd01::9"];

/// Client and server in one segment, with the box as the cable between them, which has no addresses.
pub fn build(what: &str, fallback: InlineFallback) -> (Topology, Config) {
    let topology = Topology::build(what);
    settle_in(&topology);
    let config = Config { inline: Some(fallback), ..topology.config() };
    (topology, config)
}

/// Gives and takes the addresses that make it one segment.
pub fn settle_in(topology: &Topology) {
    let server = topology.server.netlink().unwrap();
    let s0 = server.index_of("s0").unwrap();
    for (address, length) in HERE.into_iter().zip([24, 64]) {
        match server.add_address(s0, format!("{address}/{length}").parse::<Cidr>().unwrap()) {
            Err(error) if error.is_already_there() => {}
            result => result.unwrap(),
        }
    }
    for (interface, addresses) in
        [("m0", ["10.1.0.1/24", "fd01::1/64"]), ("w0", ["10.2.0.1/24", "fd02::1/64"])]
    {
        for address in addresses {
            let (netlink, address) = (topology.netlink(), address.parse().unwrap());
            match netlink.delete_address(netlink.index_of(interface).unwrap(), address) {
                Err(error) if error.is_not_there() => {}
                result => result.unwrap(),
            }
        }
    }
}

pub fn start(topology: &Topology, config: &Config) -> Program {
    let mut program = Program::launch_with(topology, config, &["--engine"]);
    program.await_line("ready: bridging w0 and m0");
    program
}

pub fn bridges(topology: &Topology) -> Vec<Link> {
    let links = topology.netlink().links().unwrap();
    links.into_iter().filter(|link| link.name.starts_with("cellbr")).collect()
}

/// The address of an interface there, as its neighbours see it.
fn mac(topology: &Topology, interface: &str) -> String {
    let (namespace, name) =
        if interface == "c0" { (&topology.client, "c0") } else { (&topology.server, "s0") };
    let mut command = std::process::Command::new("ip");
    command.args(["-br", "link", "show", name]).stdout(std::process::Stdio::piped());
    let output = namespace.spawn(command, io::SpawnOptions::default()).unwrap().wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().nth(2).unwrap().to_owned()
}

#[test]
fn h13_downloads_pass_a_bridge_that_neither_end_sees() {
    let (topology, config) = build("inline", InlineFallback::None);
    let program = start(&topology, &config);
    for address in HERE {
        let connection = topology.connect(&topology.server, address);
        assert_eq!(connection.peer, connection.client.local_addr().unwrap());
        connection.download(20_000_000);
    }
    let mut command = std::process::Command::new("ip");
    command.args(["neighbour", "show", "dev", "c0"]).stdout(std::process::Stdio::piped());
    let neighbours = topology.client.spawn(command, io::SpawnOptions::default()).unwrap();
    let neighbours = String::from_utf8(neighbours.wait_with_output().unwrap().stdout).unwrap();
    let server = mac(&topology, "s0");
    assert!(neighbours.contains(&server), "the client talks to {server} itself: {neighbours}");
    assert_eq!(topology.status().steering, "inline");
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}

#[test]
fn h13_frames_that_are_none_of_ours_pass_with_their_tags() {
    let (topology, config) = build("inltag", InlineFallback::None);
    let program = start(&topology, &config);
    let open = |namespace: &io::Namespace, name: &str| {
        let index = namespace.netlink().unwrap().index_of(name).unwrap();
        namespace.run(|| FrameSocket::open(index, name)).unwrap().unwrap()
    };
    let (client, server) = (open(&topology.client, "c0"), open(&topology.server, "s0"));
    let plain = [&[2; 6][..], &[4; 6], &[0x88, 0xb5], &[7; 50]].concat();
    let tagged = [&plain[..12], &[0x81, 0x00, 0x20, 0x07], &plain[12..]].concat();
    let doubly = [&plain[..12], &[0x88, 0xa8, 0, 3, 0x81, 0x00, 0x20, 0x07], &plain[12..]].concat();
    for (from, to) in [(&client, &server), (&server, &client)] {
        for frame in [&plain, &tagged, &doubly] {
            from.send(&[0; VNET_HEADER_LEN], &[IoSlice::new(frame)]).unwrap();
        }
        let (mut virtio, mut frame, mut got) = ([0; VNET_HEADER_LEN], [0; 2_000], Vec::new());
        wait_until("the frames have come", || {
            while let Some(received) = to.recv(&mut virtio, &mut frame).unwrap() {
                if frame[..12] == plain[..12] {
                    let tag = received.tag.map(|tag| tag.to_vec()).unwrap_or_default();
                    got.push([&frame[..12], &tag[..], &frame[12..received.len]].concat());
                }
            }
            got.len() >= 3
        });
        assert_eq!(got, [plain.clone(), tagged.clone(), doubly.clone()]);
    }
    program.stop(&topology);
}

/// Where a bridge of the kernel's stands by, datagrams to a host take it, also while the process stands still.
#[test]
fn h13_datagrams_pass_by_the_bridge_that_stands_by() {
    let (topology, mut config) = build("inludp", InlineFallback::Bridge);
    // Nothing else passes by it meanwhile.
    config.watchdog.hang_after_ms = 60_000;
    let program = start(&topology, &config);
    let mut idle = topology.connect(&topology.server, HERE[0]);
    let pairs = [("10.1.0.2", HERE[0]), ("fd01::2", HERE[1])].map(|(client, server)| {
        let open = |namespace: &io::Namespace, address| {
            let socket = namespace.run(|| UdpSocket::bind((address, 0))).unwrap().unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        };
        let (client, server) = (open(&topology.client, client), open(&topology.server, server));
        client.connect(server.local_addr().unwrap()).unwrap();
        server.connect(client.local_addr().unwrap()).unwrap();
        (client, server)
    });
    let exchange = |number: u8| {
        for (client, server) in &pairs {
            for (from, to) in [(client, server), (server, client)] {
                // One that comes twice is read in the place of the next one.
                let (sent, mut got) = ([number; 1_200], [0; 1_500]);
                from.send(&sent).unwrap();
                let len = to.recv(&mut got).unwrap();
                assert!(got[..len] == sent, "number {number}, and {} came", got[0]);
            }
        }
    };
    // By ARP and neighbour discovery the hosts find each other, which the process has to do with.
    (0..20).for_each(exchange);
    program.signal(SIGSTOP);
    (20..40).for_each(exchange);
    program.signal(SIGCONT);
    idle.exchange(b"survived");
    program.stop(&topology);
}

#[test]
fn h13_killed_in_the_middle_of_a_transfer_the_kernel_goes_on_bridging() {
    let (topology, config) = build("inlkill", InlineFallback::Bridge);
    let program = start(&topology, &config);
    assert_eq!(bridges(&topology).len(), 1);
    let mut idle = HERE.map(|address| topology.connect(&topology.server, address));
    idle.iter_mut().for_each(|connection| connection.exchange(b"opening."));
    // A download that is under way, with whatever debt it has: it may be reset.
    let under_way = topology.connect(&topology.server, HERE[0]);
    let (mut server, mut client) = (under_way.server, under_way.client);
    let sender = std::thread::spawn(move || server.write_all(&vec![7; 100_000_000]).is_ok());
    client.read_exact(&mut vec![0; 1_000_000]).unwrap();
    program.signal(SIGKILL);
    program.wait();
    idle.iter_mut().for_each(|connection| connection.exchange(b"survived"));
    for address in HERE {
        topology.connect(&topology.server, address).download(5_000_000);
    }
    drop(client);
    drop(sender);
    // The next start takes over from the bridge, and a stop in good order leaves nothing.
    let program = start(&topology, &config);
    assert_eq!(bridges(&topology).len(), 1, "its own");
    for connection in idle {
        connection.download(1_000_000);
    }
    topology.connect(&topology.server, HERE[0]).download(1_000_000);
    program.stop(&topology);
    assert!(bridges(&topology).is_empty());
}

#[test]
fn h02_killed_as_a_bridge_flows_with_debt_are_reset_and_the_others_go_on() {
    let (topology, config) = build("inlowed", InlineFallback::Bridge);
    let mut program = start(&topology, &config);
    let mut idle = HERE.map(|address| topology.connect(&topology.server, address));
    idle.iter_mut().for_each(|connection| connection.exchange(b"opening."));
    let owed: Vec<_> = (0..6).map(|n| with_debt(&topology, HERE[n % 2])).collect();
    program.signal(SIGKILL);
    owed.into_iter().for_each(assert_reset);
    program.await_line("6 flows reset: 12 of 12 ends are gone");
    program.wait();
    idle.iter_mut().for_each(|connection| connection.exchange(b"survived"));
    assert_eq!(bridges(&topology).len(), 1, "it stays");
    let program = start(&topology, &config);
    idle.into_iter().for_each(|connection| connection.download(1_000_000));
    program.stop(&topology);
    assert!(bridges(&topology).is_empty());
}

#[test]
fn h02_killed_as_a_bridge_uploads_with_debt_are_reset_though_the_wire_is_cut() {
    let (topology, config) = build("inlup", InlineFallback::None);
    let mut program = Program::launch_with(&topology, &config, &["--both-ways", "--engine"]);
    program.await_line("ready: bridging w0 and m0");
    let owed: Vec<_> = HERE
        .iter()
        .map(|address| {
            let mut connection = topology.connect(&topology.server, address);
            connection.exchange(b"opening.");
            fill(&mut connection.client);
            connection
        })
        .collect();
    program.signal(SIGKILL);
    owed.into_iter().for_each(assert_reset);
    program.await_line("2 flows reset: 4 of 4 ends are gone");
    program.wait();
    wait_until("nothing is left", || topology.leftovers().is_empty());
}

#[test]
fn h02_of_a_bridge_whose_watchdog_died_too_the_next_start_resets() {
    let (topology, config) = build("inldog", InlineFallback::Bridge);
    let program = start(&topology, &config);
    let mut idle = topology.connect(&topology.server, HERE[0]);
    idle.exchange(b"opening.");
    let owed = HERE.map(|address| with_debt(&topology, address));
    let dog = program.watchdog().unwrap();
    // Else it might start another one in between.
    program.signal(SIGSTOP);
    io::PidFd::open(dog).unwrap().send_signal(SIGKILL).unwrap();
    program.signal(SIGKILL);
    program.wait();
    assert_eq!(bridges(&topology).len(), 1, "nobody was left to say anything");
    let mut program = start(&topology, &config);
    owed.into_iter().for_each(assert_reset);
    program.await_line("2 flows reset: 4 of 4 ends are gone");
    idle.exchange(b"survived");
    program.stop(&topology);
}

#[test]
fn h02_started_again_while_its_watchdog_is_at_work_one_bridge_is_left() {
    let (topology, config) = build("inlagain", InlineFallback::Bridge);
    let mut first = start(&topology, &config);
    let owed = HERE.map(|address| with_debt(&topology, address));
    first.signal(SIGKILL);
    wait_until("it is dead", || io::ProcessId::of(first.pid()).is_err());
    let second = start(&topology, &config);
    owed.into_iter().for_each(assert_reset);
    first.await_line("flows reset");
    wait_until("the first one's bridge is gone", || bridges(&topology).len() == 1);
    topology.connect(&topology.server, HERE[0]).download(1_000_000);
    second.stop(&topology);
}

#[test]
fn h13_a_hung_process_is_bridged_past_and_goes_on_afterwards() {
    let (topology, config) = build("inlhang", InlineFallback::Bridge);
    let mut program = start(&topology, &config);
    let mut idle = topology.connect(&topology.server, HERE[0]);
    idle.exchange(b"opening.");
    program.signal(SIGSTOP);
    topology.connect(&topology.server, HERE[0]).download(2_000_000);
    idle.exchange(b"hanging.");
    program.signal(SIGCONT);
    program.await_line("bridging here again");
    topology.connect(&topology.server, HERE[1]).download(2_000_000);
    program.stop(&topology);
}

#[test]
fn h13_an_interface_is_for_one_accelerator_bridged_or_steered() {
    let (topology, bridged) = build("inltwo", InlineFallback::None);
    let refused = |config: &Config| {
        let (status, said) = Program::launch_with(&topology, config, &["--engine"]).wait();
        assert!(!status.success() && said.contains("' is steered already (by 'w0-m0', process"), "{said}");
    };
    let program = start(&topology, &bridged);
    let netlink = topology.netlink();
    for (interface, address) in [("m0", "10.1.0.1/24"), ("w0", "10.2.0.1/24")] {
        netlink.add_address(netlink.index_of(interface).unwrap(), address.parse().unwrap()).unwrap();
    }
    let steered = Config { inline: None, ..bridged.clone() };
    let with_bridge = Config { inline: Some(InlineFallback::Bridge), ..bridged.clone() };
    [&bridged, &with_bridge, &steered].into_iter().for_each(refused);
    assert!(bridges(&topology).is_empty());
    program.stop(&topology);
    let program = Program::start_engine(&topology, &steered);
    [&bridged, &with_bridge].into_iter().for_each(refused);
    program.stop(&topology);
}
