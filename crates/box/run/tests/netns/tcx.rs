//! Steering by BPF programs: what they take, what they leave to the kernel, and for how long.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use io::{Namespace, SpawnOptions};
use run::{Answer, Config, Question, Status, SteeringChoice, WatchdogConfig};
use socket2::{Domain, SockRef, Socket, Type};
use wire::{TcpFlags, TcpHeaderSpec};

use crate::accelerated::verdict;
use crate::nat::masquerade;
use crate::raw::{Raw, syn};
use crate::topology::{
    Connection, PATIENCE, Program, SERVER, SIGCONT, SIGKILL, SIGSTOP, Topology, wait_until,
};

fn by_tcx(topology: &Topology) -> Config {
    Config { steering: SteeringChoice::Tcx, ..topology.config() }
}

/// What the one running instance says of itself.
fn status(topology: &Topology) -> Status {
    let found = run::find(&topology.state).unwrap();
    match run::choose(found, None).unwrap().ask(&Question::Status).unwrap() {
        Answer::Status(status) => *status,
        other => panic!("{other:?}"),
    }
}

fn counter(topology: &Topology, name: &str) -> u64 {
    status(topology).processor.counters.get(name).copied().unwrap_or_else(|| panic!("no counter {name}"))
}

fn exec_in(namespace: &Namespace, program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    command.args(arguments);
    let status = namespace.spawn(command, SpawnOptions::default()).unwrap().wait().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// Connections over both families that run when the accelerator starts: it knows none of them (H11).
fn passed_connections(topology: &Topology) -> [Connection; 2] {
    SERVER.map(|address| {
        let mut connection = topology.connect(&topology.server, address);
        connection.exchange(b"before-1");
        connection
    })
}

#[test]
fn h11_flows_that_are_passed_leave_the_process_and_come_back_with_their_ports() {
    let topology = Topology::build("bypass");
    let mut passed = passed_connections(&topology);
    let program = Program::start_engine(&topology, &by_tcx(&topology));
    assert_eq!(status(&topology).steering, "tcx");
    passed.iter_mut().for_each(|connection| connection.exchange(b"noticed."));
    assert_eq!(counter(&topology, "bypass_flows"), 2);
    let before = (topology.steered_packets(), counter(&topology, "bypass_packets"));
    for _ in 0..50 {
        passed.iter_mut().for_each(|connection| connection.exchange(b"leftout."));
    }
    assert_eq!(topology.steered_packets(), before.0, "packets of passed flows went through the process");
    assert!(counter(&topology, "bypass_packets") >= before.1 + 200);
    // A new flow beside them is accelerated.
    topology.connect(&topology.server, SERVER[0]).download(1_000_000);
    assert_eq!(counter(&topology, "bypass_flows_ended"), 0);
    for connection in passed {
        connection.download(300_000);
    }
    wait_until("both have left the map", || counter(&topology, "bypass_flows_ended") == 2);
    let passed_bytes = status(&topology).processor.passed_bytes;
    let reasons: Vec<&str> = passed_bytes.keys().map(String::as_str).collect();
    assert_eq!(reasons, ["unknown"], "flows that began before");
    assert!((600_000..800_000).contains(&passed_bytes["unknown"]), "{passed_bytes:?}");
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (1, 0), "{said}");
}

#[test]
fn bytes_that_pass_are_counted_by_the_reason() {
    let topology = Topology::build("reasons");
    let program = Program::start_engine(&topology, &by_tcx(&topology));
    let multipath = |domain| Socket::new(domain, Type::STREAM, Some(socket2::Protocol::MPTCP)).unwrap();
    for address in SERVER {
        let any = SocketAddr::new(address.parse().unwrap(), 0);
        let listener = topology.server.run(|| multipath(Domain::for_address(any))).unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(1).unwrap();
        let listener = TcpListener::from(listener);
        let to = listener.local_addr().unwrap();
        let client = topology.client.run(|| multipath(Domain::for_address(to))).unwrap();
        client.connect_timeout(&to.into(), PATIENCE).unwrap();
        let client = TcpStream::from(client);
        let (server, peer) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        Connection { client, server, peer }.download(1_000_000);
    }
    topology.connect(&topology.server, SERVER[0]).download(1_000_000);
    let passed = status(&topology).processor.passed_bytes;
    assert_eq!(passed.keys().collect::<Vec<_>>(), ["mptcp"], "{passed:?}");
    // The first segments came to the process, and headers are counted, too.
    assert!((1_800_000..2_400_000).contains(&passed["mptcp"]), "{passed:?}");
    program.stop(&topology);
}

#[test]
fn passed_flows_can_be_kept_in_the_process() {
    let topology = Topology::build("nobypass");
    let mut passed = passed_connections(&topology);
    let program = Program::start_engine(&topology, &Config { bypass: false, ..by_tcx(&topology) });
    let before = topology.steered_packets();
    for _ in 0..10 {
        passed.iter_mut().for_each(|connection| connection.exchange(b"throughit"[..8].try_into().unwrap()));
    }
    assert!(topology.steered_packets() >= before + 40);
    assert_eq!(counter(&topology, "bypass_flows"), 0);
    program.stop(&topology);
}

/// A connection from the client's port 7001.
fn connect_from_7001(topology: &Topology, listener: &TcpListener) -> Connection {
    let to = listener.local_addr().unwrap();
    let connect = || {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:7001" } else { "[::]:7001" }.parse().unwrap();
        socket.bind(&any.into()).unwrap();
        socket.connect_timeout(&to.into(), PATIENCE).unwrap();
        TcpStream::from(socket)
    };
    let client = topology.client.run(connect).unwrap();
    let (server, peer) = listener.accept().unwrap();
    for end in [&client, &server] {
        end.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    Connection { client, server, peer }
}

#[test]
fn h26_ports_of_a_passed_flow_used_again_are_a_new_flow() {
    let topology = Topology::build("reuse");
    let listeners =
        SERVER.map(|address| topology.server.run(|| TcpListener::bind((address, 0))).unwrap().unwrap());
    let mut passed = listeners.each_ref().map(|listener| connect_from_7001(&topology, listener));
    let program = Program::start_engine(&topology, &by_tcx(&topology));
    passed.iter_mut().for_each(|connection| connection.exchange(b"passing."));
    assert_eq!(counter(&topology, "bypass_flows"), 2);
    // Both ends forget their connections, and nobody on the way hears of it.
    let silence = "add table inet quiet; add chain inet quiet out { type filter hook output priority 0; }; \
                   add rule inet quiet out tcp flags & (fin | rst) != 0 drop";
    let hosts = [&topology.client, &topology.server];
    hosts.iter().for_each(|host| exec_in(host, "nft", &[silence]));
    for Connection { client, server, .. } in passed {
        for end in [client, server] {
            SockRef::from(&end).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        }
    }
    hosts.iter().for_each(|host| exec_in(host, "nft", &["delete table inet quiet"]));
    assert_eq!(counter(&topology, "bypass_flows_ended"), 0);
    for listener in &listeners {
        connect_from_7001(&topology, listener).download(500_000);
    }
    assert_eq!(counter(&topology, "bypass_flows_ended"), 2);
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}

#[test]
fn what_the_table_has_no_room_for_leaves_the_process() {
    let topology = Topology::build("tablefull");
    let program = Program::start_with_table(&topology, "1");
    let mut accelerated = topology.connect(&topology.server, SERVER[0]);
    accelerated.exchange(b"engine's");
    let mut passed = topology.connect(&topology.server, SERVER[1]);
    passed.exchange(b"kernel's");
    assert_eq!(counter(&topology, "bypass_flows"), 1);
    let before = topology.steered_packets();
    for _ in 0..20 {
        passed.exchange(b"kernel's");
    }
    assert_eq!(topology.steered_packets(), before);
    accelerated.exchange(b"engine's");
    assert!(topology.steered_packets() > before);
    program.stop(&topology);
}

#[test]
fn h37_without_a_watchdog_too_a_hang_is_passed_by() {
    let topology = Topology::build("heartbeat");
    let config = Config {
        watchdog: WatchdogConfig { hang_after_ms: 500, ..crate::topology::unwatched() },
        ..by_tcx(&topology)
    };
    let program = Program::start(&topology, &config);
    let mut connections = passed_connections(&topology);
    for _ in 0..2 {
        program.signal(SIGSTOP);
        connections.iter_mut().for_each(|connection| connection.exchange(b"hanging."));
        let before = topology.steered_packets();
        topology.connect(&topology.server, SERVER[0]).download(1_000_000);
        assert_eq!(topology.steered_packets(), before, "redirected to a process that hangs");
        program.signal(SIGCONT);
        wait_until("it steers again", || {
            connections.iter_mut().for_each(|connection| connection.exchange(b"resumed."));
            topology.steered_packets() > before + 20
        });
    }
    program.signal(SIGKILL);
    program.wait();
    connections.iter_mut().for_each(|connection| connection.exchange(b"survived"));
    assert!(topology.bpf_programs().is_empty(), "{:?}", topology.bpf_programs());
}

#[test]
fn a_source_that_is_elsewhere_is_left_to_the_strict_filter() {
    let topology = Topology::build("spoof");
    for strict in [false, true] {
        topology.set("net/ipv4/conf/m0/rp_filter", if strict { "1" } else { "0" });
        topology.set("net/ipv4/conf/all/rp_filter", "0");
        let program = Program::start(&topology, &by_tcx(&topology));
        let raw = Raw::open(&topology.client, "c0");
        let mut server = Raw::open(&topology.server, "s0");
        // Nobody at the client's side has an address of the servers' network.
        let [honest, forged] = ["10.1.0.77:5000", "10.2.0.99:5000"].map(|from| from.parse().unwrap());
        let to = "10.2.0.2:9".parse().unwrap();
        assert!(raw.send(&syn(forged, to, 1), &[]));
        assert!(raw.send(&syn(honest, to, 2), &[]));
        let first = server.see(|seen| seen.tcp.flags == TcpFlags::SYN && seen.destination() == to);
        assert_eq!(first.source(), if strict { honest } else { forged });
        if !strict {
            server.see(|seen| seen.source() == honest);
        }
        let from_clients = status(&topology).sides[1].received_packets;
        assert_eq!(from_clients, if strict { 1 } else { 2 });
        program.stop(&topology);
    }
}

#[test]
fn fragments_and_last_hops_are_left_to_the_kernel() {
    let topology = Topology::build("untouched");
    let program = Program::start(&topology, &by_tcx(&topology));
    let raw = Raw::open(&topology.client, "c0");
    let mut back = Raw::open(&topology.client, "c0");
    for to in ["10.2.0.2:9", "[fd02::2]:9"].map(|to| to.parse::<SocketAddr>().unwrap()) {
        let from = if to.is_ipv4() { "10.1.0.2:6000" } else { "[fd01::2]:6000" }.parse().unwrap();
        let last = TcpHeaderSpec { hop_limit: 1, ..syn(from, to, 1) };
        assert!(raw.send(&last, &[]));
        assert!(raw.send(&syn(from, to, 1), &[]));
        back.see(|seen| seen.source() == to && seen.tcp.flags.contains(TcpFlags::RST));
    }
    // Two SYNs, and two answers.
    assert_eq!(topology.steered_packets(), 4);
    program.stop(&topology);
}

#[test]
fn only_what_goes_from_one_side_to_the_other_is_taken() {
    let topology = Topology::build("third");
    topology.cable(
        &topology.client,
        "c1",
        ["10.3.0.2/24", "fd03::2/64"],
        "m1",
        ["10.3.0.1/24", "fd03::1/64"],
    );
    // Its answers go the same way back.
    exec_in(&topology.client, "ip", &["route", "replace", "default", "via", "10.3.0.1"]);
    let program = Program::start(&topology, &by_tcx(&topology));
    let mut connection = topology.connect(&topology.server, SERVER[0]);
    connection.exchange(b"third-if");
    connection.download(1_000_000);
    assert_eq!(topology.steered_packets(), 0);
    program.stop(&topology);
}

/// Needs a kernel that has VLAN devices.
#[test]
fn tagged_packets_are_for_the_interface_of_their_tag() {
    let topology = Topology::build("vlan");
    if !topology.has_vlan_devices() {
        println!("this kernel has no VLAN devices: nothing to test");
        return;
    }
    let ends = [(&topology.middle, "w0", "1"), (&topology.server, "s0", "2")];
    for (namespace, device, end) in ends {
        let (vlan, address) = (format!("{device}.5"), format!("10.5.0.{end}/24"));
        exec_in(namespace, "ip", &["link", "add", "link", device, "name", &vlan, "type", "vlan", "id", "5"]);
        exec_in(namespace, "ip", &["address", "add", &address, "dev", &vlan]);
        exec_in(namespace, "ip", &["link", "set", &vlan, "up"]);
    }
    exec_in(&topology.server, "ip", &["route", "replace", "default", "via", "10.5.0.1"]);
    for (wired, flows) in [("w0.5", 1), ("w0", 0)] {
        let program =
            Program::start_engine(&topology, &Config { wired: wired.to_owned(), ..by_tcx(&topology) });
        topology.connect(&topology.server, "10.5.0.2").download(3_000_000);
        let said = program.stop(&topology);
        assert_eq!(verdict(&said), (flows, 0), "{said}");
    }
}

#[test]
fn h36_where_it_would_pass_something_by_rules_steer_and_it_says_why() {
    type Prepare = fn(&Topology);
    let cases: [(Prepare, &str); 4] = [
        (masquerade, "connections are tracked or translated"),
        (
            |topology| {
                let rules = "add table inet fw; add chain inet fw pre { type filter hook prerouting priority raw; }; \
                             add rule inet fw pre iifname m0 ip saddr 10.9.0.0/16 drop";
                topology.exec("nft", &[rules]);
            },
            "a filter would be passed by, or would break flows: rule 'iifname \"m0\" ip saddr 10.9.0.0/16 drop'",
        ),
        (
            |topology| drop(topology.exec("tc", &["qdisc", "add", "dev", "w0", "clsact"])),
            "w0 has a queueing discipline for what comes in (clsact)",
        ),
        (|topology| topology.set("net/ipv6/conf/m0/forwarding", "0"), "IPv6 forwarding is off for m0 alone"),
    ];
    for (prepare, why) in cases {
        let topology = Topology::build("why");
        prepare(&topology);
        let (status, said) = Program::launch(&topology, &by_tcx(&topology)).wait();
        assert!(!status.success() && said.contains("no steering by tcx") && said.contains(why), "{said}");
        assert_eq!(topology.leftovers(), [""; 0]);
        let program = Program::start_engine(&topology, &topology.config());
        let line = program.said.iter().find(|line| line.starts_with("# steering by")).unwrap();
        assert!(line.starts_with("# steering by rules, not by tcx:") && line.contains(why), "{line}");
        topology.connect(&topology.server, SERVER[0]).download(100_000);
        let said = program.stop(&topology);
        assert_eq!(verdict(&said), (1, 0), "{said}");
    }
}

#[test]
fn one_interface_is_steered_once_whatever_steers_it() {
    let topology = Topology::build("once");
    let steerings = [SteeringChoice::Tcx, SteeringChoice::Rules];
    for (first, second) in [(0, 0), (0, 1), (1, 0)] {
        let [first, second] =
            [first, second].map(|at: usize| Config { steering: steerings[at], ..topology.config() });
        let program = Program::start(&topology, &first);
        let (status, said) = Program::launch(&topology, &second).wait();
        assert!(!status.success() && said.contains("'w0' is steered already"), "{said}");
        program.stop(&topology);
    }
}
