//! The path of a packet through the engine asks the allocator for nothing once flows and queues
//! have their size.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use control::{ControllerConfig, RateParams};
use engine::{Engine, EngineConfig, Middlebox, Port};
use units::{Duration, Instant, SeqNum, WindowScale};
use wire::{TcpFlags, TcpHeaderSpec, Timestamps, VirtioNetHeader};

const FLOWS: u32 = 40;
const FLOWS_PER_SUBSCRIBER: u32 = 4;
const SEGMENT: usize = 1_448;
const ROUND_TRIP: Duration = Duration::from_millis(30);
/// Slow enough that every segment leaves as it comes.
const BETWEEN: Duration = Duration::from_millis(1);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 80);

fn client(flow: u32) -> SocketAddr {
    let address = Ipv4Addr::from_bits(0x0a00_0000 + flow / FLOWS_PER_SUBSCRIBER);
    SocketAddr::new(address.into(), 1_024 + (flow % FLOWS_PER_SUBSCRIBER) as u16)
}

/// Downloads without end through an engine, every segment acknowledged a round trip later.
struct Downloads {
    engine: Engine,
    now: Instant,
    packet: Vec<u8>,
    /// What each server sends next.
    next: Vec<SeqNum>,
    /// Segments on their way to the clients, by the time their acknowledgements come back.
    acks: VecDeque<(Instant, u32, SeqNum)>,
    payload_made: u64,
}

impl Downloads {
    fn new(controller: ControllerConfig) -> Self {
        let config = EngineConfig { controller, ..EngineConfig::default() };
        let mut all = Self {
            engine: Engine::new(config).unwrap(),
            now: Instant::from_millis(1),
            packet: vec![0; 2_000],
            next: vec![SeqNum::new(1); FLOWS as usize],
            acks: VecDeque::with_capacity(10_000),
            payload_made: 0,
        };
        for flow in 0..FLOWS {
            let mut syn = all.spec(client(flow), SERVER, SeqNum::new(0), SeqNum::new(0), TcpFlags::SYN);
            (syn.mss, syn.window_scale, syn.sack_permitted) = (Some(1_460), Some(WindowScale::new(7)), true);
            all.inject(Port::Mobile, &syn, 0);
            let flags = TcpFlags::SYN.with(TcpFlags::ACK);
            let mut answer = all.spec(SERVER, client(flow), SeqNum::new(0), SeqNum::new(1), flags);
            (answer.mss, answer.window_scale, answer.sack_permitted) =
                (Some(1_460), Some(WindowScale::new(7)), true);
            all.inject(Port::Wired, &answer, 0);
            all.now += Duration::from_millis(20);
            let ack = all.spec(client(flow), SERVER, SeqNum::new(1), SeqNum::new(1), TcpFlags::ACK);
            all.inject(Port::Mobile, &ack, 0);
        }
        all
    }

    fn spec(
        &self,
        from: SocketAddr,
        to: SocketAddr,
        seq: SeqNum,
        ack: SeqNum,
        flags: TcpFlags,
    ) -> TcpHeaderSpec {
        let mut spec = TcpHeaderSpec::new(from, to, seq, ack, flags);
        spec.window = 60_000;
        let value = (self.now.as_nanos() / 1_000_000) as u32;
        spec.timestamps = Some(Timestamps { value, echo: value.saturating_sub(30) });
        spec
    }

    fn inject(&mut self, from: Port, spec: &TcpHeaderSpec, payload: usize) {
        let header = spec.emit_partial(&mut self.packet, payload).unwrap();
        let virtio = VirtioNetHeader::for_partial_checksum(header.transport_offset);
        self.engine.handle_packet(from, &virtio, &mut self.packet[..header.len + payload], self.now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(transmit) = self.engine.poll_transmit(self.now) {
            self.payload_made += (transmit.payload.0.len() + transmit.payload.1.len()) as u64;
        }
    }

    fn go_on(&mut self, segments: u32) {
        for flow in (0..FLOWS).cycle().take(segments as usize) {
            self.now += BETWEEN;
            let seq = self.next[flow as usize];
            let data = self.spec(SERVER, client(flow), seq, SeqNum::new(1), TcpFlags::ACK);
            self.inject(Port::Wired, &data, SEGMENT);
            let end = seq + SEGMENT as u32;
            self.next[flow as usize] = end;
            self.acks.push_back((self.now + ROUND_TRIP, flow, end));
            while let Some(&(at, flow, ack)) = self.acks.front().filter(|(at, ..)| *at <= self.now) {
                self.acks.pop_front();
                debug_assert!(at <= self.now);
                let ack = self.spec(client(flow), SERVER, SeqNum::new(1), ack, TcpFlags::ACK);
                self.inject(Port::Mobile, &ack, 0);
            }
            if self.engine.next_deadline().is_some_and(|at| at <= self.now) {
                self.engine.handle_timeout(self.now);
                self.collect();
            }
        }
    }
}

#[test]
fn packets_of_flows_under_way_do_not_allocate() {
    for controller in
        [ControllerConfig::Rate(RateParams::default()), ControllerConfig::Adaptive(Default::default())]
    {
        let name = format!("{controller:?}");
        let mut downloads = Downloads::new(controller);
        assert_eq!(downloads.engine.stats().flows_accelerated, u64::from(FLOWS));
        downloads.go_on(100_000);
        let before = downloads.payload_made;
        let allocations = allocation_counter::measure(|| downloads.go_on(40_000));
        let made = downloads.payload_made - before;
        assert!(made > 39_000 * SEGMENT as u64, "{made} B of payload are not 40,000 segments");
        // 80,000 packets came in; a queue may still double its size now and then.
        assert!(allocations.count_total <= 8, "{allocations:?} with {name}");
    }
}
