//! H33: what is not TCP, nor an ICMP error about it, enters the process only beside accelerated flows of its subscriber.

use std::net::UdpSocket;

use run::{Config, SteeringChoice};

use crate::handover::pause;
use crate::topology::{PATIENCE, Program, SERVER, Topology, wait_until};

const DATAGRAMS: u64 = 300;

#[test]
fn h33_udp_never_enters() {
    let topology = Topology::build("udp");
    let program = Program::start_engine(&topology, &topology.config());
    for address in SERVER {
        let echo = topology.server.run(|| UdpSocket::bind((address, 0))).unwrap().unwrap();
        let to = echo.local_addr().unwrap();
        let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
        let client = topology.client.run(|| UdpSocket::bind(any)).unwrap().unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect(to).unwrap();
        let before = topology.steered_packets();
        for number in 0..DATAGRAMS {
            let mut datagram = [0; 1_200];
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            client.send(&datagram).unwrap();
            let mut heard = [0; 1_500];
            let (len, from) = echo.recv_from(&mut heard).unwrap();
            echo.send_to(&heard[..len], from).unwrap();
            assert_eq!(client.recv(&mut heard).unwrap(), datagram.len());
            assert_eq!(heard[..8], datagram[..8]);
        }
        // Neighbours may be looked for meanwhile, which is ICMPv6.
        let steered = topology.steered_packets() - before;
        assert!(steered < DATAGRAMS / 10, "{steered} packets of {} went through the process", 2 * DATAGRAMS);
    }
    program.stop(&topology);
}

/// Two ends of a datagram socket between client and server.
fn datagram_sockets(topology: &Topology, address: &str) -> [UdpSocket; 2] {
    let server = topology.server.run(|| UdpSocket::bind((address, 0))).unwrap().unwrap();
    let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let client = topology.client.run(|| UdpSocket::bind(any)).unwrap().unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    [client, server]
}

#[test]
fn h33_udp_to_a_subscriber_takes_turns_with_its_accelerated_flows_and_no_longer_once_they_rest() {
    takes_turns("turns", SteeringChoice::Tcx);
}

#[test]
fn h33_udp_takes_turns_where_rules_steer_too() {
    takes_turns("turnsrules", SteeringChoice::Rules);
}

fn takes_turns(name: &str, steering: SteeringChoice) {
    let topology = Topology::build(name);
    let config = Config { steering, ..topology.config() };
    let program = Program::start_engine(&topology, &config);
    let taken = || topology.status().processor.counters["opaque_packets"];
    for address in SERVER {
        let mut tcp = topology.connect(&topology.server, address);
        tcp.exchange(b"to-begin");
        let [client, server] = datagram_sockets(&topology, address);
        client.send(b"here").unwrap();
        let mut heard = [0; 3_000];
        let (_, to) = server.recv_from(&mut heard).unwrap();
        pause(100);
        let before = taken();
        // The second length is that of fragments.
        for len in [1_200, 2_800] {
            for number in 0..DATAGRAMS / 2 {
                let mut datagram = vec![0x5a; len];
                datagram[..8].copy_from_slice(&number.to_be_bytes());
                server.send_to(&datagram, to).unwrap();
                assert_eq!(client.recv(&mut heard).unwrap(), len);
                assert_eq!(heard[..len], datagram, "as it was sent, in the order in which it was");
            }
        }
        let came = taken() - before;
        assert!(came >= DATAGRAMS / 2, "{address}: {came} packets took turns");
        // Nothing of the other direction comes in.
        let steered = topology.steered_packets();
        for number in 0..DATAGRAMS {
            client.send(&number.to_be_bytes()).unwrap();
            server.recv_from(&mut heard).unwrap();
        }
        let steered = topology.steered_packets() - steered;
        assert!(steered < DATAGRAMS / 10, "{steered} packets of the client went through the process");
        let seen = || topology.status().processor.counters["quic_handshakes"];
        let before = seen();
        for version in [[0, 0, 0, 1], [0x6b, 0x33, 0x43, 0xcf], [5; 4]] {
            let answer = [&[0x81][..], &version, &[8], &[7; 8], &[2, 3, 3], &[0; 50]].concat();
            server.send_to(&[&[0xe0][..], &version, &[2, 3, 3, 8], &[7; 8], &[0; 50]].concat(), to).unwrap();
            client.recv(&mut heard).unwrap();
            client.send(&answer).unwrap();
            assert_eq!(server.recv(&mut heard).unwrap(), answer.len());
            assert_eq!(heard[..answer.len()], answer);
        }
        let by_rules = matches!(steering, SteeringChoice::Rules);
        assert_eq!(seen() - before, if by_rules { 0 } else { 2 }, "rules lead no datagrams of clients here");
        tcp.exchange(b"still-on");
        // Five seconds without a byte for the accelerated flow.
        wait_until("its datagrams pass by", || {
            pause(400);
            let before = topology.steered_packets();
            for _ in 0..20 {
                server.send_to(b"passing", to).unwrap();
                client.recv(&mut heard).unwrap();
            }
            topology.steered_packets() < before + 5
        });
        tcp.exchange(b"at-last.");
        // A route is made by a thread of its own.
        pause(100);
        let before = taken();
        server.send_to(b"again", to).unwrap();
        client.recv(&mut heard).unwrap();
        assert_eq!(taken(), before + 1, "{address}: it takes turns again");
        tcp.download(200_000);
    }
    program.stop(&topology);
}

/// More than a trickle of datagrams to a subscriber without accelerated flows.
fn flood(topology: &Topology, address: &str) {
    let [client, server] = datagram_sockets(topology, address);
    client.send(b"here").unwrap();
    let mut heard = [0; 3_000];
    let (_, to) = server.recv_from(&mut heard).unwrap();
    for number in 0..DATAGRAMS {
        let mut datagram = [0x5a; 1_200];
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        server.send_to(&datagram, to).unwrap();
        assert_eq!(client.recv(&mut heard).unwrap(), 1_200);
        assert_eq!(heard[..1_200], datagram, "as it was sent, in the order in which it was");
    }
}

#[test]
fn h33_more_than_a_trickle_of_udp_alone_is_led_here_where_echo_requests_may_ask() {
    let topology = Topology::build("trickle");
    let config = Config { echo_markers: true, steering: SteeringChoice::Tcx, ..topology.config() };
    let program = Program::start_engine(&topology, &config);
    // What the server's kernel has not asked for.
    let unasked = || {
        let found = topology.server.run(|| std::fs::read_to_string("/proc/net/snmp")).unwrap().unwrap();
        let lines: Vec<&str> = found.lines().filter_map(|line| line.strip_prefix("Icmp: ")).collect();
        let at = lines[0].split(' ').position(|name| name == "InEchoReps").unwrap();
        lines[1].split(' ').nth(at).unwrap().parse::<u64>().unwrap()
    };
    // The watch of filters permits it.
    pause(200);
    for address in SERVER {
        let before = topology.status().processor.counters;
        flood(&topology, address);
        let after = topology.status().processor.counters;
        let news = |name: &str| after[name] - before[name];
        assert!(news("opaque_packets") > DATAGRAMS / 2, "{address}: {} took turns", news("opaque_packets"));
        wait_until("requests are answered", || {
            let now = topology.status().processor.counters;
            now["markers_sent"] > before["markers_sent"] && now["markers_answered"] == now["markers_sent"]
        });
        assert!(news("markers_sent") < DATAGRAMS / 4, "{address}: one for several datagrams");
    }
    assert_eq!(unasked(), 0, "replies are for nobody else");
    program.stop(&topology);
}

#[test]
fn h33_udp_alone_stays_with_the_kernel_where_nothing_would_answer() {
    let topology = Topology::build("notrickle");
    let program = Program::start_engine(&topology, &topology.config());
    pause(200);
    let before = topology.steered_packets();
    SERVER.into_iter().for_each(|address| flood(&topology, address));
    let steered = topology.steered_packets() - before;
    assert!(steered < DATAGRAMS / 10, "{steered} packets went through the process");
    program.stop(&topology);
}

#[test]
fn h33_more_than_a_trickle_of_tcp_that_passes_is_led_here_alone() {
    for (name, steering, schedules) in [
        ("passing", SteeringChoice::Tcx, true),
        ("passingrules", SteeringChoice::Rules, true),
        ("passingby", SteeringChoice::Tcx, false),
    ] {
        let topology = Topology::build(name);
        // They began before.
        let connections = SERVER.map(|address| topology.connect(&topology.server, address));
        let program = Program::start_engine(&topology, &Config { steering, schedules, ..topology.config() });
        pause(200);
        for connection in connections {
            let taken = || topology.status().processor.counters["opaque_tcp_bytes"];
            let (before, steered) = (taken(), topology.steered_packets());
            connection.download(3_000_000);
            let came = taken() - before;
            let steered = topology.steered_packets() - steered;
            assert!(schedules || steered < 50, "{name}: {steered} packets went through the process");
            assert!(if schedules { came > 1_000_000 } else { came == 0 }, "{name}: {came} B took turns");
        }
        program.stop(&topology);
    }
}

/// A datagram that a filter drops is dropped, whether what is sent to its subscriber comes here or not.
#[test]
fn h36_a_filter_of_datagrams_is_passed_by_neither_at_first_nor_when_it_comes_later() {
    for (name, steering, is_later) in [
        ("udpfirst", SteeringChoice::Tcx, false),
        ("udplater", SteeringChoice::Tcx, true),
        ("udpfirstrules", SteeringChoice::Rules, false),
        ("udplaterrules", SteeringChoice::Rules, true),
    ] {
        let topology = Topology::build(name);
        let filter = || {
            let chain = "add table inet fw; \
                         add chain inet fw forward { type filter hook forward priority 0; }; \
                         add rule inet fw forward iifname w0 oifname m0 udp length 100 drop";
            topology.exec("nft", &[chain]);
        };
        if !is_later {
            filter();
        }
        let program = Program::start_engine(&topology, &Config { steering, ..topology.config() });
        let taken = || topology.status().processor.counters["opaque_packets"];
        let mut tcp = topology.connect(&topology.server, SERVER[0]);
        tcp.exchange(b"to-begin");
        let [client, server] = datagram_sockets(&topology, SERVER[0]);
        client.send(b"here").unwrap();
        let mut heard = [0; 1_500];
        let (_, to) = server.recv_from(&mut heard).unwrap();
        let mut hears = |len: usize| {
            tcp.exchange(b"still-on");
            server.send_to(&vec![0x5a; len], to).unwrap();
            server.send_to(b"next", to).unwrap();
            client.recv(&mut heard).unwrap() == len && client.recv(&mut heard).is_ok()
        };
        pause(200);
        if is_later {
            assert!(hears(92) && taken() > 0, "{name}: they take turns");
            filter();
            wait_until("it is noticed", || !hears(92));
        }
        let before = taken();
        for _ in 0..20 {
            assert!(!hears(92), "{name}: it is dropped");
            assert!(hears(93), "{name}: another one is not");
        }
        assert_eq!(taken(), before, "{name}");
        program.stop(&topology);
    }
}
