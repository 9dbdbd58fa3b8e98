//! H23: ICMP takes the way of TCP, so that errors about what the engine sends can reach it.

use std::io::ErrorKind;
use std::net::UdpSocket;

use io::netlink::LinkChange;
use run::{Config, SteeringChoice};

use crate::accelerated::verdict;
use crate::nat::masquerade;
use crate::topology::{PATIENCE, Program, SERVER, Topology};

/// A datagram to a port that nobody has draws an ICMP error.
fn is_refused(topology: &Topology, address: &str) -> bool {
    let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = topology.client.run(|| UdpSocket::bind(any)).unwrap().unwrap();
    socket.connect((address, 9)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(b"anybody?").unwrap();
    socket.recv(&mut [0; 8]).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[test]
fn h23_icmp_errors_come_through_the_engine() {
    for translates in [false, true] {
        let topology = Topology::build("icmp");
        if translates {
            masquerade(&topology);
        }
        let program = Program::start_engine(&topology, &topology.config());
        for address in SERVER {
            // Addresses of links may still be looked for: that is ICMPv6 too, but not ours.
            let before = topology.steered_packets();
            assert!(is_refused(&topology, address), "{address}, translating: {translates}");
            assert!(topology.steered_packets() > before, "{address}");
            topology.connect(&topology.server, address).download(100_000);
        }
        program.stop(&topology);
        SERVER.iter().for_each(|address| assert!(is_refused(&topology, address)));
    }
}

/// The wired and the mobile interface's MTU are those of other networks: hosts learn of the
/// narrower one by ICMP, but what the engine sends comes from no host that could.
fn set_mtu(topology: &Topology, bytes: u32) {
    let netlink = topology.netlink();
    let mobile = netlink.index_of("m0").unwrap();
    netlink.change_link(mobile, &LinkChange { mtu: Some(bytes), ..LinkChange::default() }).unwrap();
}

#[test]
fn h23_a_mobile_interface_narrower_than_the_hosts_is_kept_to() {
    for steering in [SteeringChoice::Auto, SteeringChoice::Rules] {
        let topology = Topology::build("narrow");
        set_mtu(&topology, 1_300);
        let program = Program::start_engine(&topology, &Config { steering, ..topology.config() });
        for address in SERVER {
            topology.connect(&topology.server, address).download(1_000_000);
        }
        assert_eq!(verdict(&program.stop(&topology)), (2, 0));
    }
}

#[test]
fn h23_a_mobile_interface_that_becomes_narrower_is_kept_to() {
    let topology = Topology::build("narrows");
    let program = Program::start_engine(&topology, &topology.config());
    let mut connections = SERVER.map(|address| topology.connect(&topology.server, address));
    connections.iter_mut().for_each(|connection| connection.exchange(b"wide----"));
    set_mtu(&topology, 1_300);
    for connection in connections {
        connection.download(1_000_000);
    }
    assert_eq!(verdict(&program.stop(&topology)), (2, 0));
}

#[test]
fn h23_a_route_to_a_client_that_states_a_smaller_mtu_is_kept_to() {
    let topology = Topology::build("routemtu");
    topology.exec("ip", &["route", "add", "10.1.0.2/32", "dev", "m0", "mtu", "1300"]);
    topology.exec("ip", &["-6", "route", "add", "fd01::2/128", "dev", "m0", "mtu", "1300"]);
    let engine = Program::start_engine(&topology, &topology.config());
    SERVER.iter().for_each(|address| topology.connect(&topology.server, address).download(300_000));
    let said = engine.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}
