//! [`Observer`]: the TCP headers that pass a point, and what they say about windows and repeats.

use std::collections::BTreeMap;
use std::net::IpAddr;

use figures::stats::percentile;
use units::{Instant, SeqNum, WindowScale};
use wire::TcpFlags;

use crate::results::WindowFigures;

/// One end of a connection.
pub type Endpoint = (IpAddr, u16);

/// Fields kept of a TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Time at which it passed.
    pub at: Instant,
    /// Sender.
    pub from: Endpoint,
    /// Receiver.
    pub to: Endpoint,
    /// First sequence number.
    pub seq: SeqNum,
    /// Acknowledgement number; counts only with ACK.
    pub ack: SeqNum,
    /// Window field, not scaled.
    pub window: u16,
    /// Flags.
    pub flags: TcpFlags,
    /// The window scale option, on SYNs.
    pub scale: Option<WindowScale>,
    /// Bytes of data.
    pub payload_len: u32,
}

/// Segments kept at most: some 100 MB, minutes at the highest rates a link here carries.
const SEGMENTS_MAX: usize = 1_000_000;

/// Notes the TCP segments it is shown.
#[derive(Debug)]
pub struct Observer {
    segments: Option<Vec<Segment>>,
}

impl Observer {
    /// An observer that notes segments, or one that does nothing.
    #[must_use]
    pub fn new(notes: bool) -> Self {
        // Reserved at once: growing would copy in the middle of a run.
        Self { segments: notes.then(|| Vec::with_capacity(SEGMENTS_MAX / 8)) }
    }

    /// Notes a packet if it is TCP and there is room.
    pub fn observe(&mut self, packet: &[u8], at: Instant) {
        let Some(segments) = self.segments.as_mut().filter(|s| s.len() < SEGMENTS_MAX) else { return };
        let Ok(parsed) = wire::parse(packet) else { return };
        let Some(tcp) = parsed.tcp() else { return };
        segments.push(Segment {
            at,
            from: (parsed.ip.src, tcp.src_port),
            to: (parsed.ip.dst, tcp.dst_port),
            seq: tcp.seq,
            ack: tcp.ack,
            window: tcp.window,
            flags: tcp.flags,
            scale: tcp.options.window_scale,
            payload_len: u32::try_from(tcp.payload_len).unwrap_or(u32::MAX),
        });
    }

    /// Segments that were noted.
    #[must_use]
    pub fn into_segments(self) -> Vec<Segment> {
        self.segments.unwrap_or_default()
    }
}

/// Segments of `segments` to or from one of a server's `ports`.
#[must_use]
pub fn of_ports(segments: &[Segment], ports: &[u16]) -> Vec<Segment> {
    let is_of = |segment: &&Segment| [segment.from.1, segment.to.1].iter().any(|port| ports.contains(port));
    segments.iter().filter(is_of).copied().collect()
}

/// The receive window that the senders of `acks` advertised: field times scale, SYNs left out.
///
/// The scale counts only if both sides sent the option; `data` holds the other side's SYNs.
#[must_use]
pub fn window(acks: &[Segment], data: &[Segment]) -> Option<WindowFigures> {
    let scales = |segments: &[Segment]| -> BTreeMap<(Endpoint, Endpoint), WindowScale> {
        let syns = segments.iter().filter(|s| s.flags.contains(TcpFlags::SYN));
        syns.filter_map(|s| Some(((s.from, s.to), s.scale?))).collect()
    };
    let (own, peers) = (scales(acks), scales(data));
    let scale_of = |s: &Segment| {
        let both = peers.contains_key(&(s.to, s.from));
        own.get(&(s.from, s.to)).copied().filter(|_| both).unwrap_or(WindowScale::NONE)
    };
    let counted = |s: &&Segment| {
        s.flags.contains(TcpFlags::ACK) && !s.flags.intersects(TcpFlags::SYN.with(TcpFlags::RST))
    };
    let mut windows: Vec<u64> =
        acks.iter().filter(counted).map(|s| u64::from(scale_of(s).window(s.window))).collect();
    windows.sort_unstable();
    let scale = own.values().copied().max().unwrap_or(WindowScale::NONE);
    Some(WindowFigures {
        max_bytes: *windows.last()?,
        median_bytes: percentile(&windows, 500)?,
        scale: scale.shift(),
    })
}

/// Number of data segments in `segments`, and of those all of whose bytes had passed before.
#[must_use]
pub fn repeats(segments: &[Segment]) -> (u64, u64) {
    let mut flows: BTreeMap<(Endpoint, Endpoint), Seen> = BTreeMap::new();
    let (mut data, mut repeated) = (0, 0);
    for segment in segments {
        if segment.flags.contains(TcpFlags::SYN) {
            flows.insert((segment.from, segment.to), Seen::starting_at(segment.seq));
        }
        if segment.payload_len == 0 {
            continue;
        }
        data += 1;
        let seen = flows.entry((segment.from, segment.to)).or_insert_with(|| Seen::starting_at(segment.seq));
        repeated += u64::from(!seen.add(segment.seq, segment.payload_len));
    }
    (data, repeated)
}

/// The bytes of one direction of a flow that have passed, as disjoint ranges of positions.
struct Seen {
    base: SeqNum,
    base_position: u64,
    /// Start to end, disjoint and not touching.
    ranges: BTreeMap<u64, u64>,
}

impl Seen {
    fn starting_at(seq: SeqNum) -> Self {
        // Positions start high enough that nothing seen late lies below zero.
        Self { base: seq, base_position: 1 << 40, ranges: BTreeMap::new() }
    }

    /// Adds `len` bytes at `seq`; false when all of them had been added before.
    fn add(&mut self, seq: SeqNum, len: u32) -> bool {
        let distance = i64::from(seq.distance_from(self.base));
        let start = self.base_position.saturating_add_signed(distance);
        let end = start + u64::from(len);
        if distance > 0 {
            (self.base, self.base_position) = (seq, start);
        }
        let before = self.ranges.range(..=start).next_back().map(|(s, e)| (*s, *e));
        if before.is_some_and(|(_, e)| e >= end) {
            return false;
        }
        let mut merged = (start, end);
        let touching: Vec<u64> =
            self.ranges.range(..=end).rev().take_while(|(_, e)| **e >= start).map(|(s, _)| *s).collect();
        for key in touching {
            if let Some(range_end) = self.ranges.remove(&key) {
                merged = (merged.0.min(key), merged.1.max(range_end));
            }
        }
        self.ranges.insert(merged.0, merged.1);
        true
    }
}

#[cfg(test)]
mod tests;
