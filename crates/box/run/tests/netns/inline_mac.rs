//! H13: a host of a bridged segment gets another Ethernet address while it is owed data. What its neighbours
//! would believe is believed: ARP, Neighbor Discovery, and the source address of what it sends itself.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use io::{FrameSocket, Namespace, SpawnOptions, VNET_HEADER_LEN, sysctl};
use run::InlineFallback;

use crate::accelerated::verdict;
use crate::inline::{HERE, build, start};
use crate::topology::{Connection, Topology, pattern, wait_until};

/// More than is under way at once, less than the client's receive buffer holds.
const OWED: usize = 40_000;

fn ip(at: &Namespace, arguments: &str) {
    let mut command = Command::new("ip");
    command.args(arguments.split_whitespace()).stdout(Stdio::null());
    let done = at.spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap();
    assert!(done.status.success(), "ip {arguments}");
}

/// Without routes the client hears what comes, and answers nothing.
fn set_mute(client: &Namespace, is_mute: bool) {
    if is_mute {
        for family in ["-4", "-6"] {
            ip(client, &format!("{family} route del default dev c0"));
        }
    }
    let verb = if is_mute { "del" } else { "add" };
    ip(client, &format!("-4 route {verb} 10.1.0.0/24 dev c0"));
    ip(client, &format!("-6 route {verb} fd01::/64 dev c0"));
    if !is_mute {
        for (family, gateway) in [("-4", "10.1.0.1"), ("-6", "fd01::1")] {
            ip(client, &format!("{family} route add default via {gateway} dev c0"));
        }
    }
}

/// Whether the kernel tells its neighbours of a new address.
fn set_announcing(client: &Namespace, announces: bool) {
    let value = if announces { "1" } else { "0" };
    sysctl::write(client, "net/ipv4/conf/c0/arp_notify", value).unwrap();
    sysctl::write(client, "net/ipv6/conf/c0/ndisc_notify", value).unwrap();
}

fn tap(client: &Namespace) -> FrameSocket {
    let index = client.netlink().unwrap().index_of("c0").unwrap();
    client.run(|| FrameSocket::open(index, "c0")).unwrap().unwrap()
}

/// Ethernet addresses to which segments of `server` have come since this was asked last.
fn destinations(tap: &FrameSocket, server: SocketAddr) -> Vec<[u8; 6]> {
    let (mut virtio, mut frame, mut found) = ([0; VNET_HEADER_LEN], vec![0; 70_000], Vec::new());
    while let Some(received) = tap.recv(&mut virtio, &mut frame).unwrap() {
        let Some(packet) = frame.get(14..received.len) else { continue };
        let Ok(parsed) = wire::parse_prefix(packet) else { continue };
        let is_its = parsed.tcp().is_some_and(|tcp| tcp.src_port == server.port());
        if is_its && parsed.ip.src == server.ip() {
            found.push(frame[..6].try_into().unwrap());
        }
    }
    found
}

/// A connection whose client was sent data and has acknowledged nothing of it.
fn owed(topology: &Topology, address: &str, tap: &FrameSocket) -> (Connection, Vec<u8>) {
    let mut connection = topology.connect(&topology.server, address);
    connection.exchange(b"opening.");
    set_mute(&topology.client, true);
    let sent = pattern(OWED);
    connection.server.write_all(&sent).unwrap();
    let server = connection.client.peer_addr().unwrap();
    wait_until("the data is under way", || !destinations(tap, server).is_empty());
    (connection, sent)
}

#[test]
fn h13_a_client_that_announces_its_new_address_is_sent_what_it_is_owed() {
    let (topology, config) = build("inlmac", InlineFallback::None);
    let program = start(&topology, &config);
    let tap = tap(&topology.client);
    set_announcing(&topology.client, true);
    // ARP for the one, a neighbour advertisement for the other.
    for (number, address) in HERE.into_iter().enumerate() {
        let (mut connection, sent) = owed(&topology, address, &tap);
        let server = connection.client.peer_addr().unwrap();
        let new = [2, 0, 0, 0, 1, number as u8];
        ip(&topology.client, &format!("link set c0 address 02:00:00:00:01:{number:02x}"));
        wait_until("what is owed goes to the new address", || destinations(&tap, server).contains(&new));
        // The last one may have been under way.
        destinations(&tap, server);
        wait_until("more goes there", || !destinations(&tap, server).is_empty());
        wait_until("nothing goes to the old one", || {
            let all = destinations(&tap, server);
            !all.is_empty() && all.iter().all(|to| *to == new)
        });
        set_mute(&topology.client, false);
        let mut got = vec![0; sent.len()];
        connection.client.read_exact(&mut got).unwrap();
        assert!(got == sent);
        connection.exchange(b"goes-on.");
        connection.download(1_000_000);
    }
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}

#[test]
fn h13_a_client_that_sends_from_a_new_address_is_sent_what_it_is_owed_there() {
    let (topology, config) = build("inlmacup", InlineFallback::None);
    let program = start(&topology, &config);
    let tap = tap(&topology.client);
    set_announcing(&topology.client, false);
    for (number, address) in HERE.into_iter().enumerate() {
        let (mut connection, sent) = owed(&topology, address, &tap);
        let server = connection.client.peer_addr().unwrap();
        let new = [2, 0, 0, 0, 2, number as u8];
        ip(&topology.client, &format!("link set c0 address 02:00:00:00:02:{number:02x}"));
        destinations(&tap, server);
        wait_until("it is sent again", || !destinations(&tap, server).is_empty());
        assert!(!destinations(&tap, server).contains(&new), "nobody has said so");
        set_mute(&topology.client, false);
        // Not an acknowledgement of what comes: nothing comes.
        connection.client.write_all(b"from me.").unwrap();
        wait_until("what is owed goes to the new address", || destinations(&tap, server).contains(&new));
        let mut got = vec![0; sent.len()];
        connection.client.read_exact(&mut got).unwrap();
        assert!(got == sent);
        let mut word = [0; 8];
        connection.server.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"from me.");
        connection.download(1_000_000);
    }
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}
