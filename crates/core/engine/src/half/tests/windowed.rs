//! A server that fills every window, a radio queue without end, and the packets between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use units::{Duration, WindowScale};
use wire::{TcpFlags, TcpHeaderSpec, Timestamps, VirtioNetHeader};

use crate::boundary::Verdict;
use crate::direction::{Direction, End};
use crate::half::Half;
use crate::phase::Phase;
use crate::phase::windowed::{NONSENSE_MAX, Windowed};
use crate::{Action, EngineConfig, FlowState, PassReason, Policy};
use units::{Bytes, Instant, SeqNum};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 80);
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)), 40_000);
const MSS: u32 = 1_000;
const SCALE: WindowScale = WindowScale::new(7);

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// The engine with one flow, whose ISNs lie just before the wrap.
struct Bench {
    engine: Half,
    now: Instant,
    timestamps: bool,
}

const ISN: SeqNum = SeqNum::new(u32::MAX - 5_000);

impl Bench {
    fn new(timestamps: bool) -> Self {
        let policy = Policy { default: Action::Drwa, ..Policy::default() };
        let config = EngineConfig { policy, ..EngineConfig::default() };
        Self { engine: Half::new(Direction::Downlink, config).unwrap(), now: Instant::ZERO, timestamps }
    }

    /// Bench with the handshake's wired half 20 ms and its mobile half 40 ms.
    fn established(timestamps: bool) -> Self {
        let mut bench = Self::new(timestamps);
        let (syn, reply) = bench.syns();
        bench.unchanged(End::Sink, &syn, 0);
        bench.now = ms(20);
        bench.unchanged(End::Source, &reply, 0);
        bench.now = ms(60);
        let third = bench.client_packet(0, 500);
        bench.unchanged(End::Sink, &third, 0);
        assert_eq!(bench.engine.stats.flows_windowed, 1);
        bench
    }

    fn syns(&self) -> (TcpHeaderSpec, TcpHeaderSpec) {
        let syn = TcpHeaderSpec::new(CLIENT, SERVER, ISN, SeqNum::new(0), TcpFlags::SYN);
        let both = TcpFlags::SYN.with(TcpFlags::ACK);
        let reply = TcpHeaderSpec::new(SERVER, CLIENT, ISN, ISN + 1, both);
        let full = |spec, value| TcpHeaderSpec {
            window: 64_000,
            mss: Some(if self.timestamps { MSS as u16 + 12 } else { MSS as u16 }),
            window_scale: Some(SCALE),
            sack_permitted: true,
            timestamps: self.timestamps.then_some(Timestamps { value, echo: 0 }),
            ..spec
        };
        (full(syn, 1_000), full(reply, 5_000))
    }

    fn stamps(&self, value: u32, echo: u32) -> Option<Timestamps> {
        self.timestamps.then_some(Timestamps { value, echo })
    }

    /// The client has all of the first `acked` bytes; its clock is the bench's.
    fn client_packet(&self, acked: u32, window: u16) -> TcpHeaderSpec {
        let spec = TcpHeaderSpec::new(CLIENT, SERVER, ISN + 1, ISN + 1 + acked, TcpFlags::ACK);
        let timestamps = self.stamps(1_000 + self.now.as_millis() as u32, 5_000);
        TcpHeaderSpec { window, timestamps, ..spec }
    }

    fn server_packet(&self, offset: u32, echo: u32) -> TcpHeaderSpec {
        let spec = TcpHeaderSpec::new(SERVER, CLIENT, ISN + 1 + offset, ISN + 1, TcpFlags::ACK);
        TcpHeaderSpec { window: 500, timestamps: self.stamps(5_000, echo), ..spec }
    }

    /// Hands a packet in; what comes out of the other side.
    fn inject(&mut self, from: End, spec: &TcpHeaderSpec, len: usize) -> (Vec<u8>, Vec<u8>) {
        let payload = vec![7; len];
        let mut buf = [0; TcpHeaderSpec::MAX_LEN];
        let header = spec.emit(&mut buf, &[&payload]).unwrap();
        let before = [&buf[..header.len], &payload].concat();
        (before.clone(), self.pass(from, before))
    }

    fn pass(&mut self, from: End, mut packet: Vec<u8>) -> Vec<u8> {
        let verdict = self.engine.handle_packet(from, &VirtioNetHeader::default(), &mut packet, self.now);
        assert_eq!(verdict, Verdict::Forward);
        assert!(self.engine.poll(self.now).is_none(), "it makes no packets");
        packet
    }

    fn unchanged(&mut self, from: End, spec: &TcpHeaderSpec, len: usize) {
        let (before, after) = self.inject(from, spec, len);
        assert_eq!(before, after);
    }

    /// An acknowledgement of the client; the window field that goes up.
    fn ack(&mut self, acked: u32, window: u16) -> u16 {
        let spec = self.client_packet(acked, window);
        let (mut before, after) = self.inject(End::Sink, &spec, 0);
        let parsed = wire::parse(&after).unwrap();
        assert!(wire::tcp_checksum_is_valid(&after, &parsed));
        let told = parsed.tcp().unwrap().window;
        // Nothing but the window, and the checksum with it.
        let at = parsed.tcp().unwrap().offset;
        before[at + 14..at + 18].copy_from_slice(&after[at + 14..at + 18]);
        assert_eq!(before, after);
        told
    }

    fn flow(&mut self) -> &mut Windowed {
        match &mut self.engine.flows.get_mut(0).unwrap().phase {
            Phase::Windowed(windowed) => windowed,
            other => panic!("{other:?}"),
        }
    }

    /// A server that fills the window over `wired_ms` and a radio of one segment per
    /// `per_segment_ms`, whose client says `own`; `hears_as` turns what is told into what the
    /// server believes. For each round of the transfer the last window.
    fn transfer(
        &mut self,
        seconds: u64,
        (wired_ms, radio_ms): (u64, u64),
        per_segment_ms: u64,
        own: u16,
    ) -> Vec<u64> {
        let mut windows = Vec::new();
        let (mut sent, mut acked) = (0u32, 0u32);
        let (mut edge, mut radio_free) = (64_000u32, self.now);
        let mut echo = 1_000u32;
        // When a segment's acknowledgement comes back to us, and when what it allows arrives.
        let mut acks = std::collections::VecDeque::new();
        let mut heard = std::collections::VecDeque::new();
        let end = self.now + Duration::from_secs(seconds);
        heard.push_back((self.now, edge, echo));
        while self.now < end {
            while let Some(&(at, new_edge, new_echo)) = heard.front().filter(|h| h.0 <= self.now) {
                heard.pop_front();
                (edge, echo) = (edge.max(new_edge), new_echo);
                let _ = at;
                while sent + MSS <= edge {
                    let data = self.server_packet(sent, echo);
                    self.unchanged(End::Source, &data, MSS as usize);
                    sent += MSS;
                    radio_free = radio_free.max(self.now) + Duration::from_millis(per_segment_ms);
                    acks.push_back((radio_free + Duration::from_millis(radio_ms), sent));
                }
            }
            while let Some(&(_, upto)) = acks.front().filter(|a| a.0 <= self.now) {
                acks.pop_front();
                acked = upto;
                let told = self.ack(acked, own);
                let new_edge = acked + SCALE.window(told);
                assert!(new_edge >= edge.min(acked + SCALE.window(own)), "the edge went back");
                windows.push(u64::from(SCALE.window(told)));
                let stamp = 1_000 + self.now.as_millis() as u32;
                heard.push_back((self.now + Duration::from_millis(wired_ms), new_edge, stamp));
            }
            self.now += Duration::from_millis(1);
        }
        assert!(acked > 0);
        windows
    }
}

#[test]
fn a_server_that_fills_the_window_is_held_to_three_round_trips() {
    for timestamps in [true, false] {
        let mut bench = Bench::established(timestamps);
        // 4 ms a segment: 250 kB/s; 20 ms and 40 ms of path hold 15,000 bytes; the client would take 640,000.
        let windows = bench.transfer(60, (20, 40), 4, 5_000);
        let last = windows.last().copied().unwrap();
        assert!((40_000..50_000).contains(&last), "{last} ({timestamps})");
        let rtt = bench.flow().rtt().unwrap().as_millis();
        assert!((165..195).contains(&rtt), "{rtt} ms");
        assert!(bench.engine.stats.windows_lowered > 1_000);
    }
}

#[test]
fn the_round_trip_holds_both_halves() {
    for (timestamps, wired) in [(true, 35), (false, 20)] {
        let mut bench = Bench::established(timestamps);
        let mut acked = 0;
        for round in 0..4u64 {
            // An acknowledgement passes up, and 35 ms later data echoes its TSval; 50 ms down and back.
            bench.now = ms(1_000 + round * 200);
            bench.ack(acked, 500);
            let stamp = 1_000 + bench.now.as_millis() as u32;
            bench.now += Duration::from_millis(35);
            let data = bench.server_packet(acked, stamp);
            bench.unchanged(End::Source, &data, MSS as usize);
            bench.now += Duration::from_millis(50);
            acked += MSS;
            bench.ack(acked, 500);
        }
        assert_eq!(bench.flow().rtt(), Some(Duration::from_millis(50 + wired)), "{timestamps}");
    }
}

#[test]
fn the_clients_own_window_is_never_exceeded() {
    let mut bench = Bench::established(true);
    bench.transfer(5, (20, 40), 4, 5_000);
    let acked = bench.flow().una().since(ISN + 1);
    assert_eq!(bench.ack(acked, 0), 0);
    assert_eq!(bench.ack(acked, 3), 3);
    let lowered = bench.engine.stats.windows_lowered;
    assert!(bench.ack(acked, 60_000) < 60_000);
    assert_eq!(bench.engine.stats.windows_lowered, lowered + 1);
}

#[test]
fn a_repeated_segment_is_not_timed() {
    let mut bench = Bench::established(true);
    let data = bench.server_packet(0, 1_060);
    bench.unchanged(End::Source, &data, MSS as usize);
    bench.now = ms(500);
    bench.unchanged(End::Source, &data, MSS as usize);
    bench.now = ms(550);
    bench.ack(MSS, 500);
    assert_eq!(bench.flow().rtt(), None);
    assert!(bench.flow().mobile_time(ISN + 1 + MSS, ms(600)).is_none());
}

#[test]
fn what_waits_behind_a_hole_is_not_timed() {
    let mut bench = Bench::established(true);
    let data = bench.server_packet(MSS, 1_060);
    bench.unchanged(End::Source, &data, MSS as usize);
    let mut spec = bench.client_packet(0, 500);
    let block = wire::SackBlock { start: ISN + 1 + MSS, end: ISN + 1 + 2 * MSS };
    spec.sack.push(block);
    bench.unchanged(End::Sink, &spec, 0);
    bench.now = ms(5_000);
    let hole = bench.server_packet(0, 1_060);
    bench.unchanged(End::Source, &hole, MSS as usize);
    bench.ack(2 * MSS, 500);
    assert!(bench.flow().mobile_time(ISN + 1 + 2 * MSS, ms(6_000)).is_none());
}

#[test]
fn a_flow_whose_data_goes_another_way_is_let_go() {
    let mut bench = Bench::established(true);
    for n in 1..=NONSENSE_MAX {
        assert_eq!(bench.engine.stats.flows_now, 1, "{n}");
        assert_eq!(bench.ack(n * MSS, 500), 500);
    }
    assert_eq!(bench.engine.stats.flows_now, 0);
    assert_eq!(bench.engine.stats.passed_for(PassReason::Desynchronised), 1);
}

#[test]
fn data_beyond_the_window_moves_nothing() {
    let mut bench = Bench::established(true);
    let stray = bench.server_packet(1 << 29, 1_060);
    bench.unchanged(End::Source, &stray, MSS as usize);
    assert_eq!(bench.flow().in_flight(), Bytes::ZERO);
}

#[test]
fn a_damaged_segment_passes_and_is_not_believed() {
    let mut bench = Bench::established(true);
    let data = bench.server_packet(0, 1_060);
    let (mut packet, _) = bench.inject(End::Source, &data, MSS as usize);
    let before = bench.flow().nxt();
    *packet.last_mut().unwrap() ^= 1;
    packet[27] ^= 8;
    let after = bench.pass(End::Source, packet.clone());
    assert_eq!((packet, bench.flow().nxt()), (after, before));
    assert_eq!(bench.engine.stats.bad_checksums, 1);
}

#[test]
fn it_ends_with_both_ends_or_a_reset() {
    let mut bench = Bench::established(true);
    let fin = TcpFlags::FIN.with(TcpFlags::ACK);
    let end = TcpHeaderSpec { flags: fin, ..bench.server_packet(0, 1_060) };
    bench.unchanged(End::Source, &end, 0);
    assert_eq!(bench.engine.stats.flows_now, 1);
    let end = TcpHeaderSpec { flags: fin, ..bench.client_packet(1, 500) };
    bench.unchanged(End::Sink, &end, 0);
    assert_eq!(bench.engine.stats.passed_for(PassReason::Closed), 1);

    let mut bench = Bench::established(true);
    let reset = TcpHeaderSpec { flags: TcpFlags::RST, ..bench.client_packet(0, 0) };
    bench.unchanged(End::Sink, &reset, 0);
    assert_eq!(bench.engine.stats.passed_for(PassReason::Reset), 1);
    assert_eq!(bench.engine.stats.flows_now, 0);
}

#[test]
fn silence_and_a_stop_let_it_go() {
    let mut bench = Bench::established(true);
    let idle = bench.engine.config().idle_timeout;
    let deadline = bench.engine.next_deadline().unwrap();
    bench.engine.handle_timeout(deadline);
    assert_eq!(bench.engine.stats.flows_now, 1, "the handshake's deadline is not the flow's");
    bench.engine.handle_timeout(bench.now + idle);
    assert_eq!(bench.engine.stats.passed_for(PassReason::Idle), 1);

    let mut bench = Bench::established(true);
    bench.engine.drain(bench.now);
    assert_eq!(bench.engine.stats.passed_for(PassReason::Draining), 1);
    assert_eq!(bench.ack(0, 500), 500);
}

#[test]
fn its_own_syn_again_passes_and_a_new_one_begins_anew() {
    let mut bench = Bench::established(true);
    let (syn, reply) = bench.syns();
    bench.unchanged(End::Sink, &syn, 0);
    bench.unchanged(End::Source, &reply, 0);
    assert_eq!(bench.engine.stats.half_open_now, 0);
    let new = TcpHeaderSpec { seq: ISN + 77, ..syn };
    bench.unchanged(End::Sink, &new, 0);
    assert_eq!(
        (bench.engine.stats.flows_now, bench.engine.stats.half_open_now),
        (1, 0),
        "anybody may send it"
    );
    let accepted = TcpHeaderSpec { ack: ISN + 78, ..reply };
    bench.unchanged(End::Source, &accepted, 0);
    assert_eq!((bench.engine.stats.flows_now, bench.engine.stats.half_open_now), (1, 1));
}

#[test]
fn it_is_seen_in_reports() {
    let mut bench = Bench::established(true);
    bench.transfer(5, (20, 40), 4, 5_000);
    let report = bench.engine.flow_reports().next().unwrap();
    assert_eq!((report.state, report.state.name()), (FlowState::Windowed, "drwa"));
    assert!(report.srtt.is_some() && report.client_window < Bytes::new(640_000));
    assert!(report.in_flight > Bytes::ZERO && report.debt == Bytes::ZERO);
}

/// An acknowledgement that overtook the first data has told the server a window: it is not taken back.
#[test]
fn a_window_told_before_the_third_packet_stands() {
    let mut bench = Bench::new(true);
    let (syn, reply) = bench.syns();
    bench.unchanged(End::Sink, &syn, 0);
    bench.unchanged(End::Source, &reply, 0);
    bench.now = ms(60);
    let overtakes = bench.client_packet(0, 2_000);
    bench.unchanged(End::Sink, &TcpHeaderSpec { seq: ISN + 101, ..overtakes }, 0);
    assert_eq!(bench.engine.stats.flows_windowed, 0);
    let request = bench.client_packet(0, 2_000);
    bench.unchanged(End::Sink, &request, 100);
    assert_eq!(bench.engine.stats.flows_windowed, 1);
}
