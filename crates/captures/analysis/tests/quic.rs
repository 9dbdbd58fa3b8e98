//! QUIC flows, from datagrams made here.

use std::net::SocketAddr;

use analysis::{Direction, QuicAnalyzer, QuicEvidence, QuicFlowReport, SpinState, UdpReport};
use capture::{LinkType, datagram};
use proptest::prelude::*;
use units::{Duration, Instant};

const V1: u32 = 1;
const V2: u32 = 0x6b33_43cf;
const IDLE: Duration = Duration::from_secs(900);

const INITIAL: u8 = 0;
const ZERO_RTT: u8 = 1;
const HANDSHAKE: u8 = 2;
const RETRY: u8 = 3;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// An IPv4 packet with a datagram.
fn frame(source: SocketAddr, destination: SocketAddr, ecn: u8, payload: &[u8]) -> Vec<u8> {
    let octets = |end: SocketAddr| match end.ip() {
        std::net::IpAddr::V4(ip) => ip.octets(),
        std::net::IpAddr::V6(_) => unreachable!("tests use IPv4"),
    };
    let len = |more: usize| u16::try_from(payload.len() + more).unwrap().to_be_bytes();
    let mut bytes = vec![0x45, ecn];
    bytes.extend(len(28));
    bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend(octets(source));
    bytes.extend(octets(destination));
    bytes.extend(source.port().to_be_bytes());
    bytes.extend(destination.port().to_be_bytes());
    bytes.extend(len(8));
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

/// What two ends send each other.
struct Tape {
    analyzer: QuicAnalyzer,
    client: SocketAddr,
    server: SocketAddr,
    /// Bytes of each packet that are kept.
    snaplen: usize,
    /// Makes payloads that differ.
    seed: u64,
}

impl Tape {
    fn new() -> Self {
        Self {
            analyzer: QuicAnalyzer::new(IDLE),
            client: address("10.0.0.1:50000"),
            server: address("10.0.0.2:443"),
            snaplen: usize::MAX,
            seed: 1,
        }
    }

    fn noise(&mut self) -> u8 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 40) as u8
    }

    fn noises(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.noise()).collect()
    }

    /// A packet with a long header whose protected part has `len` bytes.
    fn long(&mut self, version: u32, kind: u8, [to, from]: [&[u8]; 2], len: usize) -> Vec<u8> {
        let number = if version == V2 { (kind + 1) & 3 } else { kind };
        let mut bytes = vec![0xc0 | number << 4 | self.noise() & 0xf];
        bytes.extend(version.to_be_bytes());
        for id in [to, from] {
            bytes.push(id.len() as u8);
            bytes.extend(id);
        }
        if kind == INITIAL {
            bytes.push(0);
        }
        if kind != RETRY {
            bytes.extend((0x4000 | len as u16).to_be_bytes());
        }
        bytes.extend(self.noises(len));
        bytes
    }

    fn short(&mut self, to: &[u8], spin: bool, len: usize) -> Vec<u8> {
        let first = 0x40 | u8::from(spin) << 5 | self.noise() & 0x1f;
        [&[first][..], to, &self.noises(len)].concat()
    }

    fn send(&mut self, ms: u64, source: SocketAddr, destination: SocketAddr, payload: &[u8]) {
        self.send_us(ms * 1_000, source, destination, payload);
    }

    fn send_us(&mut self, us: u64, source: SocketAddr, destination: SocketAddr, payload: &[u8]) {
        let whole = frame(source, destination, 2, payload);
        let kept = &whole[..whole.len().min(self.snaplen)];
        // What is too short for a UDP header is no datagram: whoever reads the capture counts it.
        if let Ok(found) = datagram(LinkType::RAW, kept, whole.len() as u32) {
            self.analyzer.handle(0, 0, &found, kept, Instant::from_micros(us));
        }
    }

    fn up(&mut self, ms: u64, payload: &[u8]) {
        self.send(ms, self.client, self.server, payload);
    }

    fn down(&mut self, ms: u64, payload: &[u8]) {
        self.send(ms, self.server, self.client, payload);
    }

    /// A handshake of 10 ms to the server and 5 ms to the client, from `ms` on, with these IDs of the ends.
    fn open(&mut self, ms: u64, client_id: &[u8], server_id: &[u8]) {
        let original = self.noises(8);
        let initial = self.long(V1, INITIAL, [&original, client_id], 1_190);
        self.up(ms, &initial);
        let answer = self.long(V1, INITIAL, [client_id, server_id], 100);
        let answer = [answer, self.long(V1, HANDSHAKE, [client_id, server_id], 900)].concat();
        self.down(ms + 10, &answer);
        let reply = self.long(V1, INITIAL, [server_id, client_id], 40);
        let reply = [reply, self.long(V1, HANDSHAKE, [server_id, client_id], 60)].concat();
        self.up(ms + 15, &reply);
        let done = self.short(server_id, false, 40);
        self.up(ms + 16, &done);
    }

    fn finish(self) -> UdpReport {
        self.analyzer.finish()
    }

    /// The only flow.
    fn flow(self) -> QuicFlowReport {
        let mut found = self.finish();
        assert_eq!((found.quic.len(), found.other.datagrams), (1, 0), "{found:?}");
        found.quic.remove(0)
    }
}

const CLIENT_ID: &[u8] = &[0xc1; 5];
const SERVER_ID: &[u8] = &[0x51; 8];

/// A flow of everything that a report can have, one of two connections, and other UDP.
pub(crate) fn report() -> UdpReport {
    let mut tape = Tape::new();
    tape.open(0, CLIENT_ID, SERVER_ID);
    let value = |us: u64| us / 60_000 % 2 == 1;
    for us in (100_000..1_000_000).step_by(500) {
        let up = tape.short(SERVER_ID, value(us), 30);
        tape.send_us(us, tape.client, tape.server, &up);
        let down = tape.short(CLIENT_ID, value(us - 40_000), 1_000);
        tape.send_us(us + 1, tape.server, tape.client, &down);
    }
    for ms in [2_000, 3_000] {
        let packet = tape.short(SERVER_ID, false, 50);
        tape.send(ms, address("10.0.0.77:61000"), tape.server, &packet);
        let packet = tape.short(CLIENT_ID, false, 50);
        tape.send(ms + 500, tape.server, address("10.0.0.77:61000"), &packet);
        tape.send(ms + 503, address("10.0.0.77:61000"), tape.server, &packet);
    }
    tape.client = address("10.0.0.3:50000");
    tape.open(4_000, &[], &[1; 8]);
    tape.open(4_100, &[], &[2; 8]);
    tape.send(4_200, tape.client, address("10.0.0.9:53"), &[7; 30]);
    tape.finish()
}

#[test]
fn a_handshake_shows_its_version_and_both_halves_of_its_round_trip() {
    let mut tape = Tape::new();
    tape.open(1_000, CLIENT_ID, SERVER_ID);
    let flow = tape.flow();
    assert_eq!(flow.recognized_by, QuicEvidence::Version);
    assert_eq!(flow.version.as_ref().unwrap().name.as_deref(), Some("1"));
    assert_eq!(flow.version, flow.version_offered);
    assert_eq!(flow.connection_id_bytes.as_array(), &[Some(5), Some(8)]);
    let handshake = flow.inferred.handshake;
    assert_eq!((handshake.to_server_ms, handshake.to_client_ms), (Some(10.0), Some(5.0)));
    assert_eq!((handshake.total_ms, handshake.complete_ms), (Some(15.0), Some(16.0)));
    assert_eq!(flow.inferred.client, Some(Direction::FromFirst));
    let [up, down] = flow.directions.as_array();
    assert_eq!((up.packets.initial, up.packets.handshake, up.packets.short), (2, 1, 1));
    assert_eq!((down.packets.initial, down.packets.handshake, down.packets.short), (1, 1, 0));
    assert_eq!((up.datagrams, down.datagrams, up.ect, up.ce), (3, 1, 3, 0));
    // 28 bytes of headers of each.
    assert_eq!(up.ip_bytes - up.payload_bytes, 84);
    assert_eq!(up.payload_max, 1_190 + 23);
    assert_eq!(flow.course.bytes, [vec![up.payload_bytes], vec![down.payload_bytes]]);
    assert_eq!((flow.pauses.count, flow.inferred.connections), (0, 1));
    assert!(flow.inferred.spin.unwrap().rtt.is_none());
}

#[test]
fn version_2_on_another_port_and_with_empty_ids_is_the_same() {
    let mut tape = Tape::new();
    tape.server.set_port(4_433);
    let initial = tape.long(V2, INITIAL, [&[9; 8], &[]], 1_175);
    tape.up(0, &initial);
    let early = tape.long(V2, ZERO_RTT, [&[9; 8], &[]], 300);
    tape.up(1, &early);
    let answer = tape.long(V2, INITIAL, [&[], &[]], 100);
    tape.down(30, &answer);
    let reply = tape.long(V2, HANDSHAKE, [&[], &[]], 100);
    tape.up(31, &reply);
    let flow = tape.flow();
    assert_eq!(flow.version.unwrap().name.as_deref(), Some("2"));
    assert_eq!(flow.connection_id_bytes.as_array(), &[Some(0), Some(0)]);
    assert_eq!(flow.directions[Direction::FromFirst].packets.zero_rtt, 1);
    let handshake = flow.inferred.handshake;
    assert_eq!((handshake.to_server_ms, handshake.to_client_ms), (Some(30.0), Some(1.0)));
}

#[test]
fn retry_and_version_negotiation_are_answers() {
    let mut tape = Tape::new();
    let ids: [&[u8]; 2] = [&[9; 8], CLIENT_ID];
    let initial = tape.long(V1, INITIAL, ids, 1_190);
    tape.up(0, &initial);
    let retry = tape.long(V1, RETRY, [CLIENT_ID, &[7; 8]], 60);
    tape.down(20, &retry);
    let again = tape.long(V1, INITIAL, [&[7; 8], CLIENT_ID], 1_190);
    tape.up(23, &again);
    let answer = tape.long(V1, INITIAL, [CLIENT_ID, SERVER_ID], 1_190);
    tape.down(43, &answer);
    let flow = tape.flow();
    assert_eq!(flow.directions[Direction::FromSecond].packets.retry, 1);
    assert_eq!(flow.inferred.handshake.total_ms, Some(23.0));
    assert_eq!(flow.inferred.connections, 1, "the same one with a token");

    // A version that nobody has; the server names its own, and the client's IDs.
    let mut tape = Tape::new();
    let unknown = tape.long(0x1a2a_3a4a, HANDSHAKE, ids, 1_200);
    tape.up(0, &unknown);
    let mut negotiation = vec![0x80, 0, 0, 0, 0, 5];
    negotiation.extend(CLIENT_ID);
    negotiation.push(8);
    negotiation.extend([9; 8]);
    negotiation.extend(V1.to_be_bytes());
    tape.down(20, &negotiation);
    let offered = tape.long(V1, INITIAL, ids, 1_190);
    tape.up(24, &offered);
    let flow = tape.flow();
    assert_eq!(flow.version_offered.unwrap().number, "0x1a2a3a4a");
    assert_eq!(flow.directions[Direction::FromSecond].packets.version_negotiation, 1);
    let handshake = flow.inferred.handshake;
    assert_eq!((handshake.to_server_ms, handshake.to_client_ms), (Some(20.0), Some(4.0)));
}

#[test]
fn another_version_is_known_by_the_ids_that_come_back() {
    for (answers_to, is_quic) in [(&[3; 8][..], true), (&[4; 8][..], false)] {
        let mut tape = Tape::new();
        let hello = tape.long(0x5130_3530, HANDSHAKE, [&[9; 8], &[3; 8]], 1_200);
        tape.up(0, &hello);
        let answer = tape.long(0x5130_3530, HANDSHAKE, [answers_to, &[8; 8]], 1_200);
        tape.down(20, &answer);
        let found = tape.finish();
        assert_eq!(found.quic_flows, u64::from(is_quic));
        assert_eq!(found.other.datagrams, if is_quic { 0 } else { 2 });
        for flow in found.quic {
            assert_eq!(flow.recognized_by, QuicEvidence::ConnectionIds);
            assert_eq!(flow.version.unwrap().name, None);
        }
    }
}

#[test]
fn an_initial_that_was_sent_again_gives_no_round_trip() {
    let mut tape = Tape::new();
    let initial = |tape: &mut Tape| tape.long(V1, INITIAL, [&[9; 8], CLIENT_ID], 1_190);
    for ms in [0, 1_000] {
        let packet = initial(&mut tape);
        tape.up(ms, &packet);
    }
    let answer = tape.long(V1, INITIAL, [CLIENT_ID, SERVER_ID], 1_190);
    tape.down(1_020, &answer);
    let reply = tape.long(V1, INITIAL, [SERVER_ID, CLIENT_ID], 1_190);
    tape.up(1_025, &reply);
    let handshake = tape.flow().inferred.handshake;
    assert_eq!((handshake.to_server_ms, handshake.total_ms), (None, None));
    assert_eq!(handshake.to_client_ms, Some(5.0));
}

#[test]
fn headers_that_are_cut_off_say_what_they_can() {
    // Of IPv4 and UDP without a link header: 64 and 96 bytes with Ethernet's.
    for snaplen in [50, 82] {
        let mut tape = Tape::new();
        tape.snaplen = snaplen;
        tape.open(0, CLIENT_ID, SERVER_ID);
        let flow = tape.flow();
        assert_eq!(flow.version.unwrap().name.as_deref(), Some("1"));
        assert_eq!(flow.inferred.handshake.to_server_ms, Some(10.0));
        assert_eq!(flow.inferred.handshake.to_client_ms, Some(5.0));
        let up = &flow.directions[Direction::FromFirst];
        assert_eq!((up.packets.initial, up.packets.short), (2, 1));
        assert_eq!(up.payload_max, 1_213, "lengths are those on the wire");
    }
    // 64 bytes do not have the server's ID: that the client changes the ID it uses tells as much.
    let mut tape = Tape::new();
    tape.snaplen = 50;
    tape.open(0, &[0xc1; 8], SERVER_ID);
    let flow = tape.flow();
    assert_eq!((flow.inferred.connections, flow.inferred.handshake.total_ms), (1, Some(15.0)));
    assert_eq!(flow.connection_id_bytes.as_array(), &[None, None]);
    // Nothing but the first byte: long or short.
    let mut tape = Tape::new();
    tape.snaplen = 29;
    tape.open(0, CLIENT_ID, SERVER_ID);
    let found = tape.finish();
    assert_eq!((found.quic_flows, found.other.datagrams), (0, 4), "{found:?}");
}

/// A flow that pauses, and goes on.
#[test]
fn pauses_and_the_answers_after_them() {
    let mut tape = Tape::new();
    tape.open(0, CLIENT_ID, SERVER_ID);
    for round in 1..=4_u64 {
        let at = round * 1_000;
        let request = tape.short(SERVER_ID, false, 100);
        tape.up(at, &request);
        let answer = tape.short(CLIENT_ID, false, 1_000);
        tape.down(at + 10 + round, &answer);
        let thanks = tape.short(SERVER_ID, false, 30);
        tape.up(at + 20, &thanks);
    }
    let push = tape.short(CLIENT_ID, false, 500);
    tape.down(6_000, &push);
    let thanks = tape.short(SERVER_ID, false, 30);
    tape.up(6_006, &thanks);
    let flow = tape.flow();
    assert_eq!(flow.pauses.count, 5);
    assert_eq!(flow.pauses.longest_ms, 6_000.0 - 4_020.0);
    let flowlets = flow.inferred.flowlets.unwrap();
    let [up, down] = flowlets.answers.as_array();
    assert_eq!(down.map(|times| (times.n, times.min_ms)), Some((4, 11.0)));
    assert_eq!(up.map(|times| (times.n, times.min_ms)), Some((1, 6.0)));
    assert_eq!(flowlets.rtt_min_ms, Some(17.0));
    assert_eq!(flow.inferred.spin.unwrap().state, SpinState::Unclear);
}

/// 40 ms to the server and back, 20 ms to the client, a packet of each end in half a millisecond.
#[test]
fn the_spin_bit_shows_round_trips_of_a_flow() {
    let mut tape = Tape::new();
    tape.open(0, CLIENT_ID, SERVER_ID);
    // The client's value changes every 60 ms, and the server's 40 ms later.
    let value = |us: u64| us / 60_000 % 2 == 1;
    for us in (100_000..3_000_000).step_by(500) {
        let up = tape.short(SERVER_ID, value(us), 30);
        tape.send_us(us, tape.client, tape.server, &up);
        let down = tape.short(CLIENT_ID, value(us - 40_000), 1_000);
        tape.send_us(us + 1, tape.server, tape.client, &down);
    }
    let spin = tape.flow().inferred.spin.unwrap();
    assert_eq!((spin.state, spin.refused), (SpinState::Spinning, 0));
    assert!((spin.rtt.unwrap().p50_ms - 60.0).abs() < 1.0, "{spin:?}");
    let [client, server] = spin.answers.as_array().map(|answers| answers.unwrap().p50_ms);
    assert!((client - 20.0).abs() < 1.0 && (server - 40.0).abs() < 1.0, "{spin:?}");
}

#[test]
fn a_client_whose_address_changes_is_known_by_its_connection_id() {
    let other = address("10.0.0.77:61000");
    let moved = |server_id: &[u8], used: &[u8]| {
        let mut tape = Tape::new();
        tape.open(0, CLIENT_ID, server_id);
        let answer = tape.short(CLIENT_ID, false, 500);
        tape.send(500, tape.server, other, &answer);
        for ms in [510, 520] {
            let packet = tape.short(used, false, 50);
            tape.send(ms, other, tape.server, &packet);
        }
        let answer = tape.short(CLIENT_ID, false, 500);
        tape.send(530, tape.server, other, &answer);
        if used == SERVER_ID {
            // What was under way then.
            let late = tape.short(CLIENT_ID, false, 500);
            tape.down(540, &late);
            let late = tape.short(SERVER_ID, false, 500);
            tape.up(541, &late);
        }
        tape.finish()
    };
    let found = moved(SERVER_ID, SERVER_ID);
    let flow = &found.quic[0];
    let [step] = flow.inferred.moves[..] else { panic!("{found:?}") };
    assert_eq!((step.from, step.to, step.time_ns), (address("10.0.0.1:50000"), other, 510_000_000));
    assert_eq!((flow.first, found.other.datagrams), (address("10.0.0.1:50000"), 0));
    let [up, down] = flow.directions.as_array().each_ref().map(|way| way.datagrams);
    assert_eq!((up, down), (6, 4), "what the server sent there before is counted, too");
    // Another ID may be anybody's, and an empty or short one everybody's.
    for (id, used) in [(SERVER_ID, &[0x52; 8][..]), (&[], &[0x51; 8]), (&[0x51; 3], &[0x51; 8])] {
        let found = moved(id, used);
        assert!(found.quic[0].inferred.moves.is_empty(), "{id:x?}");
        assert_eq!((found.quic_flows, found.other.datagrams), (1, 4));
    }
}

#[test]
fn an_id_that_two_connections_have_moves_nobody() {
    let mut tape = Tape::new();
    tape.open(0, CLIENT_ID, SERVER_ID);
    tape.client = address("10.0.0.8:50001");
    tape.open(10, CLIENT_ID, SERVER_ID);
    let packet = tape.short(SERVER_ID, false, 50);
    tape.send(500, address("10.0.0.9:50002"), tape.server, &packet);
    let found = tape.finish();
    assert_eq!((found.quic_flows, found.other.datagrams), (2, 1));
    assert!(found.quic.iter().all(|flow| flow.inferred.moves.is_empty()));
}

#[test]
fn changes_of_connection_ids_are_counted() {
    let mut tape = Tape::new();
    tape.open(0, CLIENT_ID, SERVER_ID);
    for (ms, id) in [(50, SERVER_ID), (60, &[0x61; 8]), (70, &[0x61; 8]), (80, &[0x62; 8])] {
        let packet = tape.short(id, false, 50);
        tape.up(ms, &packet);
    }
    // The new one moves, too.
    let packet = tape.short(&[0x62; 8], false, 50);
    tape.send(90, address("10.0.0.1:50009"), tape.server, &packet);
    let flow = tape.flow();
    assert_eq!(flow.inferred.connection_id_changes.as_array(), &[Some(2), Some(0)]);
    assert_eq!(flow.inferred.moves.len(), 1);
}

#[test]
fn connections_between_the_same_ports() {
    // At a time: one flow, of which round trips are not told.
    let mut tape = Tape::new();
    tape.open(0, CLIENT_ID, SERVER_ID);
    tape.open(50, &[0xc2; 5], &[0x52; 8]);
    let flow = tape.flow();
    assert_eq!(flow.inferred.connections, 2);
    assert!(flow.inferred.spin.is_none() && flow.inferred.flowlets.is_none());
    assert_eq!(flow.inferred.handshake.total_ms, None);
    // One after the other: two flows.
    let mut tape = Tape::new();
    tape.open(0, &[], SERVER_ID);
    tape.open(10_000, &[], &[0x52; 8]);
    let found = tape.finish();
    assert_eq!(found.quic.len(), 2);
    assert!(found.quic.iter().all(|flow| flow.inferred.handshake.total_ms == Some(15.0)));
}

#[test]
fn a_flow_without_its_handshake_is_a_guess_by_port_and_shape() {
    let of = |count: u64, port: u16, mask: u8| {
        let mut tape = Tape::new();
        tape.server.set_port(port);
        for ms in 0..count {
            let mut packet = tape.short(SERVER_ID, false, 40);
            packet[0] &= mask;
            tape.up(ms, &packet);
        }
        let found = tape.finish();
        assert_eq!(found.quic_flows + found.other.conversations, 1);
        found.quic.first().map(|flow| flow.recognized_by)
    };
    assert_eq!(of(40, 443, 0xff), Some(QuicEvidence::Port));
    assert_eq!(of(10, 443, 0xff), None, "too few");
    assert_eq!(of(40, 4_433, 0xff), None, "another port");
    assert_eq!(of(40, 443, 0xe1), None, "bits that are always the same are not encrypted");
}

#[test]
fn other_udp_is_counted_by_port() {
    let mut tape = Tape::new();
    let resolver = address("10.0.0.9:53");
    for n in 0..3_u64 {
        let query = tape.noises(30);
        tape.send(n, tape.client, resolver, &query);
        tape.send(n, resolver, tape.client, &query);
    }
    let game = tape.noises(400);
    tape.send(9, address("10.0.0.1:40000"), address("10.0.0.7:27015"), &game);
    // Port 443, but no QUIC: the first byte of DTLS (RFC 9443 §3).
    tape.send(10, tape.client, tape.server, &[22; 600]);
    let found = tape.finish();
    assert_eq!((found.datagrams, found.quic_flows), (8, 0));
    let other = &found.other;
    assert_eq!((other.conversations, other.datagrams), (3, 8));
    let ports: Vec<_> = other.ports.iter().map(|of| (of.port, of.conversations, of.datagrams)).collect();
    assert_eq!(ports, [(443, 1, 1), (27_015, 1, 1), (53, 1, 6)], "most bytes first");
    assert_eq!(other.ip_bytes, 6 * 58 + 428 + 628);
}

#[test]
fn datagrams_seen_twice_count_once() {
    let mut tape = Tape::new();
    tape.open(0, CLIENT_ID, SERVER_ID);
    let packet = tape.short(SERVER_ID, false, 50);
    for ms in [50, 50, 51] {
        tape.up(ms, &packet);
    }
    let flow = tape.flow();
    let up = &flow.directions[Direction::FromFirst];
    assert_eq!((up.datagrams, up.duplicates, up.packets.short), (4, 2, 2));
}

#[test]
fn silence_ends_a_flow() {
    let mut tape = Tape::new();
    tape.open(0, CLIENT_ID, SERVER_ID);
    let packet = tape.short(SERVER_ID, false, 50);
    tape.up(1_000 * 1_000, &packet);
    let found = tape.finish();
    assert_eq!((found.quic_flows, found.other.conversations), (1, 1), "what comes later has no handshake");
}

#[test]
fn a_flood_of_ports_takes_bounded_memory_and_hides_no_datagram() {
    const FLOOD: u64 = 100_000;
    let mut tape = Tape::new();
    tape.open(0, CLIENT_ID, SERVER_ID);
    let initial = tape.long(V1, INITIAL, [&[9; 8], CLIENT_ID], 1_190);
    for n in 0..FLOOD {
        let source = SocketAddr::from(([10, 1, (n >> 8) as u8, n as u8], 1_024 + (n >> 16) as u16));
        tape.send_us(20_000 + n, source, tape.server, &initial);
        let target = SocketAddr::from(([10, 0, 0, 3], 9_999));
        tape.send_us(20_000 + n, source, target, &[0; 20]);
        if n % 1_000 == 0 {
            let packet = tape.short(SERVER_ID, false, 50);
            tape.send_us(20_000 + n, tape.client, tape.server, &packet);
        }
    }
    let found = tape.finish();
    assert_eq!(found.datagrams, 4 + 2 * FLOOD + FLOOD / 1_000);
    assert_eq!(found.quic_flows, FLOOD + 1);
    assert_eq!(found.ended_early, FLOOD + 1 - (1 << 16), "those that were silent longest");
    assert_eq!((found.quic.len(), found.quic_flows_left_out), (10_000, FLOOD + 1 - 10_000));
    assert_eq!(found.other.datagrams, FLOOD);
    let flow = &found.quic[0];
    assert_eq!(flow.directions[Direction::FromFirst].datagrams, 3 + FLOOD / 1_000, "one that goes on stays");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever comes, every datagram is somewhere, and the result is the same again.
    #[test]
    fn any_datagrams_are_all_counted(
        packets in prop::collection::vec((0_u64..400_000, 0_usize..4, 0_usize..4, 0_usize..6, prop::collection::vec(any::<u8>(), 0..80), 28_usize..120), 0..120),
    ) {
        let run = || {
            let mut tape = Tape::new();
            let ends = ["10.0.0.1:443", "10.0.0.2:50000", "10.0.0.3:50000", "10.0.0.4:4433"].map(address);
            let mut at = 0;
            let mut taken = 0;
            for (gap, from, to, kind, bytes, snaplen) in &packets {
                at += gap;
                let version = [V1, V2, 0, 0x1a2a_3a4a][kind % 4];
                let id = &[*from as u8; 8][..*kind];
                let payload = match kind {
                    0..4 => tape.long(version, (bytes.len() % 4) as u8, [id, &[7; 4]], bytes.len()),
                    4 => tape.short(id, bytes.len() % 2 == 0, bytes.len()),
                    _ => bytes.clone(),
                };
                tape.snaplen = *snaplen;
                tape.send_us(at, ends[*from], ends[*to], &payload);
                taken += 1;
            }
            (taken, tape.finish())
        };
        let (taken, found) = run();
        prop_assert_eq!(found.datagrams, taken);
        let of_quic: u64 = found
            .quic
            .iter()
            .flat_map(|flow| flow.directions.as_array())
            .map(|way| way.datagrams + way.duplicates)
            .sum();
        prop_assert_eq!(of_quic + found.other.datagrams, taken);
        prop_assert_eq!(found.quic.len() as u64, found.quic_flows);
        let text = |found: &UdpReport| format!("{} {}", serde_json::to_string(found).unwrap(), serde_json::to_string(&found.quic).unwrap());
        prop_assert_eq!(text(&found), text(&run().1));
    }
}
