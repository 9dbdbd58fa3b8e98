//! Tests of state that only the inside shows: it must not pile up, stick, or be forgotten.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use control::{ControllerConfig, FixedParams, RateParams};
use units::{Duration, Rate, SeqNum};
use wire::{TcpFlags, TcpHeaderSpec};

use super::*;
use crate::WindowPolicy;

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 80);
/// Segments of the tests: the default MSS of IPv4.
const MSS: u32 = 536;

/// Clients `n` and `n + PER_PORT` are two flows of one address.
const PER_PORT: u32 = 1_000;

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn client(n: u32) -> SocketAddr {
    SocketAddr::new(
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n % PER_PORT)),
        40_000 + (n / PER_PORT) as u16,
    )
}

/// An engine with one flow of client 1, both ISNs zero.
pub(super) struct Bench {
    pub(super) engine: Half,
    pub(super) now: Instant,
    client_window: u16,
}

impl Bench {
    fn new(config: EngineConfig) -> Self {
        Self::of(Direction::Downlink, config)
    }

    fn of(direction: Direction, config: EngineConfig) -> Self {
        Self { engine: Half::new(direction, config).unwrap(), now: Instant::ZERO, client_window: 60_000 }
    }

    pub(super) fn established(config: EngineConfig) -> Self {
        let mut bench = Self::new(config);
        bench.establish(1);
        bench
    }

    fn shake_hands(&mut self, n: u32) {
        self.client_sends(n, 0, 0, TcpFlags::SYN);
        self.server_sends(n, 0, 0, TcpFlags::SYN.with(TcpFlags::ACK), 0);
        self.client_sends(n, 1, 1, TcpFlags::ACK);
    }

    fn establish(&mut self, n: u32) {
        let before = self.engine.stats.flows_accelerated;
        self.shake_hands(n);
        assert_eq!(self.engine.stats.flows_accelerated, before + 1);
    }

    fn inject(&mut self, from: End, spec: &TcpHeaderSpec, len: usize) -> Verdict {
        let payload = vec![7; len];
        let mut buf = [0; TcpHeaderSpec::MAX_LEN];
        let header = spec.emit(&mut buf, &[&payload]).unwrap();
        let mut packet = [&buf[..header.len], &payload].concat();
        self.engine.handle_packet(from, &VirtioNetHeader::default(), &mut packet, self.now)
    }

    fn client_sends(&mut self, n: u32, seq: u32, ack: u32, flags: TcpFlags) -> Verdict {
        let spec = TcpHeaderSpec::new(client(n), SERVER, SeqNum::new(seq), SeqNum::new(ack), flags);
        self.inject(End::Sink, &TcpHeaderSpec { window: self.client_window, ..spec }, 0)
    }

    fn server_sends(&mut self, n: u32, seq: u32, ack_add: u32, flags: TcpFlags, len: usize) -> Verdict {
        let ack = SeqNum::new(1 + ack_add);
        let spec = TcpHeaderSpec::new(SERVER, client(n), SeqNum::new(seq), ack, flags);
        self.inject(End::Source, &TcpHeaderSpec { window: 60_000, urgent: 9, ..spec }, len)
    }

    /// Payload bytes sent to clients until `at`.
    fn run_to(&mut self, at: Instant) -> usize {
        let mut sent = 0;
        loop {
            while let Some(made) = self.engine.poll(self.now) {
                let (a, b) = self.engine.made_payload(&made);
                sent += a.len() + b.len();
            }
            match self.engine.next_deadline().filter(|&next| next <= at) {
                Some(next) => {
                    self.now = self.now.max(next);
                    self.engine.handle_timeout(self.now);
                }
                None => break,
            }
        }
        self.now = at;
        sent
    }

    fn flow(&mut self) -> &mut Relay {
        self.engine.flows.get_mut(0).and_then(|flow| flow.phase.relay_mut()).unwrap()
    }
}

#[test]
fn addresses_that_never_had_a_flow_are_not_remembered() {
    let mut bench = Bench::new(EngineConfig::default());
    for n in 0..100 {
        bench.server_sends(n, 0, 0, TcpFlags::SYN, 0);
        bench.client_sends(n, 0, 1, TcpFlags::RST.with(TcpFlags::ACK));
    }
    bench.run_to(ms(10));
    assert_eq!((bench.engine.stats.flows_now, bench.engine.subscribers.len()), (0, 0));
}

#[test]
fn a_device_that_was_served_is_remembered() {
    let mut bench = Bench::established(EngineConfig::default());
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(50));
    bench.client_sends(1, 1, 501, TcpFlags::ACK);
    bench.client_sends(1, 1, 501, TcpFlags::RST.with(TcpFlags::ACK));
    bench.run_to(ms(599_000));
    assert_eq!((bench.engine.stats.flows_now, bench.engine.subscribers.len()), (0, 1));
    bench.run_to(ms(601_000));
    assert_eq!(bench.engine.subscribers.len(), 0);
}

#[test]
fn a_flow_that_ends_leaves_its_room_to_the_others() {
    let params = FixedParams { window: Bytes::new(500), ..FixedParams::default() };
    let mut bench = Bench::established(EngineConfig {
        controller: ControllerConfig::Fixed(params),
        ..EngineConfig::default()
    });
    bench.establish(1 + PER_PORT);
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    assert_eq!(bench.run_to(ms(10)), 500);
    bench.server_sends(1 + PER_PORT, 1, 0, TcpFlags::ACK, 400);
    assert_eq!(bench.run_to(ms(20)), 0, "the first flow has all the room");
    bench.client_sends(1, 1, 1, TcpFlags::RST.with(TcpFlags::ACK));
    assert_eq!(bench.run_to(ms(30)), 400);
}

#[test]
fn an_urgent_mark_is_forgotten_when_delivered() {
    let mut bench = Bench::established(EngineConfig::default());
    bench.server_sends(1, 1, 0, TcpFlags::ACK.with(TcpFlags::URG), 500);
    bench.run_to(ms(50));
    assert!(bench.flow().urgent_end().is_some());
    bench.client_sends(1, 1, 501, TcpFlags::ACK);
    // Two gigabytes later its number would lie ahead again.
    assert_eq!(bench.flow().urgent_end(), None);
}

#[test]
fn a_trickle_says_nothing_about_the_link() {
    let params = RateParams { r_cap: Rate::from_mbps(100), ..RateParams::default() };
    let controller = ControllerConfig::Rate(params);
    let mut bench = Bench::established(EngineConfig { controller, ..EngineConfig::default() });
    let window = |bench: &Bench| bench.engine.path_of(0).unwrap().controller.control().window;
    let mut seq = 1;
    for _ in 0..60 {
        bench.server_sends(1, seq, 0, TcpFlags::ACK, MSS as usize);
        seq += MSS;
    }
    // Acknowledged at 8 Mbit/s from 50 ms on.
    bench.run_to(ms(50));
    for i in 1..=60 {
        bench.client_sends(1, 1, 1 + i * MSS, TcpFlags::ACK);
        bench.run_to(bench.now + Duration::from_micros(536));
    }
    let before = window(&bench);
    for _ in 0..20 {
        bench.server_sends(1, seq, 0, TcpFlags::ACK, 100);
        seq += 100;
        bench.run_to(bench.now + Duration::from_millis(50));
        bench.client_sends(1, 1, seq, TcpFlags::ACK);
        bench.run_to(bench.now + Duration::from_millis(50));
    }
    assert!(window(&bench) >= before, "{:?} after a trickle, {before:?} before", window(&bench));
}

#[test]
fn h20_a_flow_whose_client_has_shut_its_window_shares_in_half_of_the_memory() {
    let most = Bytes::from_mib(1);
    let config = EngineConfig {
        buffer_max: most,
        subscriber_buffer_max: most,
        flow_buffer_max: most,
        ..EngineConfig::default()
    };
    let mut bench = Bench::established(config.clone());
    let mut limits = |window| {
        bench.client_window = window;
        bench.client_sends(1, 1, 1, TcpFlags::ACK);
        let stats = bench.engine.stats.clone();
        [0, 400, 600].map(|kib| memory_limit(&config, &stats, kib << 10, bench.flow()).get() >> 10)
    };
    assert_eq!(limits(60_000), [1_024, 512, 256]);
    assert_eq!(limits(0), [512, 64, 16]);
}

#[test]
fn memory_that_is_in_no_use_is_given_back_once_a_second() {
    let mut bench = Bench::established(EngineConfig::default());
    let (relay, mut pool) = (bench.flow(), crate::memory::buffer_pool::BufferPool::default());
    let buffer = relay.buffer_mut();
    let start = buffer.start();
    buffer.write(start, &[7; 150_000]).unwrap();
    buffer.advance_to(start + 149_000);
    // In the first second much of it had been needed, in the second one none.
    for (at, kib) in [(1_000, 256), (1_500, 256), (1_999, 256), (2_000, 128)] {
        relay.give_back(&mut pool, false, ms(at));
        assert_eq!(relay.memory() >> 10, kib, "{at}");
    }
}

#[test]
fn only_the_right_numbers_complete_a_handshake() {
    let mut bench = Bench::new(EngineConfig::default());
    bench.client_sends(1, 0, 0, TcpFlags::SYN);
    bench.server_sends(1, 0, 0, TcpFlags::SYN.with(TcpFlags::ACK), 0);
    for (seq, ack, flags) in [(1, 2, TcpFlags::ACK), (2, 1, TcpFlags::ACK), (1, 1, TcpFlags::PSH)] {
        bench.client_sends(1, seq, ack, flags);
        assert_eq!(bench.engine.stats.flows_accelerated, 0, "{seq} {ack}");
    }
    bench.client_sends(1, 1, 1, TcpFlags::ACK);
    assert_eq!(bench.engine.stats.flows_accelerated, 1);
}

mod hand_back;
mod image;
mod notices;
mod operation;
mod room;
mod shown;
mod watched;
mod windowed;

/// ICMP "fragmentation needed" (RFC 792, RFC 1191) from a router behind us, about the server's
/// segment at `seq`.
fn too_big(mtu: u16, seq: u32) -> Vec<u8> {
    let sum = |bytes: &[u8]| {
        let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&b| u32::from(b)));
        let sum = words.sum::<u32>();
        !(((sum & 0xffff) + (sum >> 16)) as u16)
    };
    let ip = |protocol: u8, len: u16, from: [u8; 4], to: [u8; 4]| {
        let mut header =
            [&[0x45, 0][..], &len.to_be_bytes(), &[0, 0, 0x40, 0, 64, protocol, 0, 0], &from, &to].concat();
        let sum = sum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    };
    let quote = [
        ip(6, 1_500, [192, 0, 2, 1], [10, 0, 0, 1]),
        [80u16.to_be_bytes(), 40_000u16.to_be_bytes()].concat(),
        seq.to_be_bytes().to_vec(),
    ]
    .concat();
    let mut icmp = [&[3, 4, 0, 0, 0, 0][..], &mtu.to_be_bytes(), &quote].concat();
    let check = sum(&icmp);
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    let outer = ip(1, 20 + icmp.len() as u16, [10, 0, 0, 254], [192, 0, 2, 1]);
    [outer, icmp].concat()
}

#[test]
fn h23_too_big_re_cuts_what_is_under_way_and_goes_on_to_the_server() {
    let mut bench = Bench::established(EngineConfig::default());
    *bench.flow().sender_mut() = tcp::Sender::new(tcp::SenderConfig {
        peer_seq: SeqNum::new(0),
        start: SeqNum::new(1),
        mss: 1_460,
        sack: false,
        window: 60_000,
        policy: WindowPolicy::Honour,
        rto_max: Duration::from_secs(10),
        timeout_segments: 1,
    });
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 2_920);
    assert_eq!(bench.run_to(ms(30)), 2_920);
    let mut forged = too_big(600, 70_000);
    let verdict = |bench: &mut Bench, packet: &mut Vec<u8>| {
        bench.engine.handle_packet(End::Sink, &VirtioNetHeader::default(), packet, ms(31))
    };
    assert_eq!(verdict(&mut bench, &mut forged), Verdict::Forward);
    assert_eq!(bench.engine.stats.path_mtu_lowered, 0, "its number is not under way");
    let mut tiny = too_big(60, 1);
    tiny[22] ^= 1;
    verdict(&mut bench, &mut tiny);
    assert_eq!(bench.engine.stats.path_mtu_lowered, 0, "its checksum is wrong");

    let mut right = too_big(600, 1);
    assert_eq!(verdict(&mut bench, &mut right), Verdict::Forward);
    assert_eq!((bench.engine.stats.path_mtu_lowered, bench.flow().mss()), (1, 560));
    assert_eq!(bench.run_to(ms(200)), 2_920, "all of it again");
    let mut lower = too_big(100, 1);
    verdict(&mut bench, &mut lower);
    assert_eq!(bench.flow().mss(), 512, "no path is believed to be narrower than 552");
}

#[test]
fn h23_an_interface_narrower_than_the_client_says_is_kept_to() {
    let mut bench = Bench::new(EngineConfig::default());
    bench.engine.set_mtu(500, ms(0));
    bench.establish(1);
    assert_eq!(bench.flow().mss(), 460);
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 920);
    assert_eq!(bench.run_to(ms(30)), 920);

    bench.engine.set_mtu(400, ms(30));
    assert_eq!(bench.flow().mss(), 360);
    assert_eq!(bench.run_to(ms(200)), 920, "what was under way was too long");
    bench.engine.set_mtu(1_500, ms(200));
    assert_eq!(bench.flow().mss(), 360, "it is not told that the rest of the way is wider");
    bench.establish(2);
    assert_eq!(bench.engine.flows.get_mut(1).and_then(|flow| flow.phase.relay_mut()).unwrap().mss(), MSS);
}

#[test]
fn h01_a_debt_that_lasts_longer_than_silence_may_is_not_dropped() {
    let idle_timeout = Duration::from_secs(5);
    let mut bench = Bench::established(EngineConfig { idle_timeout, ..EngineConfig::default() });
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(100_000));
    assert_eq!((bench.engine.stats.flows_now, bench.engine.debt()), (1, Bytes::new(500)));
    bench.run_to(ms(121_000));
    assert_eq!((bench.engine.stats.flows_now, bench.engine.stats.bytes_acked_but_lost), (0, 500));
    assert_eq!(bench.engine.stats.passed_for(PassReason::ClientGone), 1);

    bench.establish(2);
    bench.run_to(bench.now + idle_timeout + Duration::from_secs(5));
    assert_eq!(bench.engine.stats.passed_for(PassReason::Idle), 1, "without debt it does");
}
