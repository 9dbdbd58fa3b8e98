//! Connections made packet by packet, as a capture would hold them.
#![allow(dead_code, clippy::unwrap_used)] // Each test file uses a part; broken test data shall stop the test.

use std::net::SocketAddr;

use analysis::{Analyzer, Config, Event, FlowReport, Sink};
use capture::{LinkType, decode};
use units::{Instant, SeqNum, WindowScale};
use wire::{SackBlock, TcpFlags, TcpHeaderSpec, Timestamps};

/// Payload of a full segment, bytes.
pub const MSS: u32 = 1000;

/// Keeps everything.
#[derive(Default)]
pub struct Kept {
    pub flows: Vec<FlowReport>,
    pub events: Vec<Event>,
}

impl Sink for Kept {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.flows.push(flow.clone());
    }
    fn on_event(&mut self, event: &Event) {
        self.events.push(*event);
    }
}

/// One packet: microseconds, header, payload length.
pub type Packet = (u64, TcpHeaderSpec, u32);

/// A connection between two ends, written down packet by packet. Sequence numbers count from each end's SYN.
#[derive(Clone)]
pub struct Tape {
    pub packets: Vec<Packet>,
    pub ends: [SocketAddr; 2],
    pub isn: [u32; 2],
    pub timestamps: bool,
    ids: [u16; 2],
}

/// What is unusual about a packet.
#[derive(Clone, Copy, Default)]
pub struct With<'a> {
    pub flags: TcpFlags,
    pub sack: &'a [(u32, u32)],
    pub window: Option<u16>,
    /// Timestamp value and echo in milliseconds; the time and zero if not given.
    pub stamps: Option<(u32, u32)>,
    /// Packets missing before this one in the sender's identifications.
    pub missing: u16,
}

impl Tape {
    pub fn new() -> Self {
        Self {
            packets: Vec::new(),
            ends: ["10.0.0.1:1000".parse().unwrap(), "10.0.0.2:80".parse().unwrap()],
            isn: [1_000, 77_000],
            timestamps: false,
            ids: [1, 1],
        }
    }

    /// After a handshake seen beside the client, 40 ms from the server; the server's data starts at 1.
    pub fn opened() -> Self {
        Self::new().open()
    }

    pub fn open(mut self) -> Self {
        let syn = With { flags: TcpFlags::SYN, ..With::default() };
        self.send(0, 0, 0, 0, 0, &syn);
        self.send(40_000, 1, 0, 1, 0, &syn);
        self.send(40_010, 0, 1, 1, 0, &With::default());
        self
    }

    /// After a handshake seen beside the receiver of end 0's data.
    pub fn at_receiver(timestamps: bool) -> Self {
        let mut tape = Self::new();
        tape.timestamps = timestamps;
        let syn = With { flags: TcpFlags::SYN, ..With::default() };
        tape.send(0, 0, 0, 0, 0, &syn);
        tape.send(10, 1, 0, 1, 0, &syn);
        tape.send(40_000, 0, 1, 1, 0, &With::default());
        tape
    }

    /// The packets of end `from` were captured `late_us` later than those of the other end.
    pub fn lagging(&self, from: usize, late_us: u64) -> Self {
        let mut tape = self.clone();
        let source = tape.ends[from];
        let late = tape.packets.iter_mut().filter(|(_, spec, _)| spec.src == source);
        late.for_each(|(us, _, _)| *us += late_us);
        tape.packets.sort_by_key(|(us, _, _)| *us);
        tape
    }

    /// Adds a packet of end `from`; `seq` and `ack` count from the SYNs.
    pub fn send(&mut self, us: u64, from: usize, seq: u32, ack: u32, len: u32, with: &With<'_>) {
        let is_first_syn = with.flags.contains(TcpFlags::SYN) && ack == 0;
        let flags = if is_first_syn { with.flags } else { with.flags | TcpFlags::ACK };
        let number = |end: usize, n: u32| SeqNum::new(self.isn[end].wrapping_add(n));
        let acked = if is_first_syn { SeqNum::new(0) } else { number(1 - from, ack) };
        let mut spec =
            TcpHeaderSpec::new(self.ends[from], self.ends[1 - from], number(from, seq), acked, flags);
        spec.window = with.window.unwrap_or(50_000);
        self.ids[from] = self.ids[from].wrapping_add(1 + with.missing);
        spec.id = self.ids[from];
        let (value, echo) = with.stamps.unwrap_or((us as u32 / 1_000, 0));
        spec.timestamps = (self.timestamps || with.stamps.is_some()).then_some(Timestamps { value, echo });
        for (start, end) in with.sack {
            spec.sack.push(SackBlock { start: number(1 - from, *start), end: number(1 - from, *end) });
        }
        if with.flags.contains(TcpFlags::SYN) {
            (spec.mss, spec.sack_permitted, spec.window_scale) =
                (Some(1_460), true, Some(WindowScale::new(2)));
        }
        self.packets.push((us, spec, len));
    }

    /// Full segment number `n` of end 0's data.
    pub fn data(&mut self, us: u64, n: u32) {
        self.send(us, 0, 1 + n * MSS, 1, MSS, &With::default());
    }

    /// End 1 acknowledges everything before segment `n`, with SACK blocks of segments.
    pub fn ack(&mut self, us: u64, n: u32, sack: &[(u32, u32)]) {
        let blocks: Vec<(u32, u32)> = sack.iter().map(|(a, b)| (1 + a * MSS, 1 + b * MSS)).collect();
        self.send(us, 1, 1, 1 + n * MSS, 0, &With { sack: &blocks, ..With::default() });
    }

    pub fn analyze(&self) -> Kept {
        analyze(&self.packets)
    }

    /// The only flow.
    pub fn flow(&self) -> FlowReport {
        let mut kept = self.analyze();
        assert_eq!(kept.flows.len(), 1, "flows");
        kept.flows.remove(0)
    }
}

pub fn analyze(packets: &[Packet]) -> Kept {
    analyze_with(packets, Config::default())
}

pub fn analyze_with(packets: &[Packet], config: Config) -> Kept {
    let mut analyzer = Analyzer::new(config, Kept::default());
    packets.iter().for_each(|packet| hand_in(&mut analyzer, packet));
    let mut kept = analyzer.finish();
    kept.flows.sort_by_key(|flow| flow.id);
    kept
}

pub fn hand_in(analyzer: &mut Analyzer<Kept>, (us, spec, len): &Packet) {
    let mut header = [0; TcpHeaderSpec::MAX_LEN];
    let emitted = spec.emit_partial(&mut header, *len as usize).unwrap();
    let frame = &header[..emitted.len];
    let segment = decode(LinkType::RAW, frame, emitted.total_len as u32).unwrap();
    analyzer.handle_segment(0, &segment, Instant::from_micros(*us));
}
