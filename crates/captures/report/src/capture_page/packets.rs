//! [`PacketLog`]: the packets of one flow in a few bytes each.
//!
//! One record per packet: a byte that says what follows, then only what cannot be predicted from the packets
//! before, as variable-length integers (7 bits a byte, the lowest first; signed values zigzag). `decode.js`
//! reads it.
//!
//! | bit of the first byte | follows, in this order |
//! |---|---|
//! | (always) | time since the last packet (zero for the first), as [`put_time`] |
//! | 0 | nothing: the direction |
//! | 1 | signed: position, from where the direction's data ended |
//! | 2 | payload length; else that of the last packet of this direction |
//! | 3 | signed: acknowledgement, from the last one plus one; 0 is none |
//! | 4 | signed: window, from the last one plus one; 0 is unknown |
//! | 5 | number of SACK blocks, then each: signed start from the acknowledgement, length |
//! | 6 | a byte (1: by Karn's rule, 2: by timestamps), then these round-trip times |
//! | 7 | flags (8 bits), kind (see [`kind_code`]) with 16: needless, 32: duplicate ACK, 64: congestion experienced |

use analysis::{Cause, Direction, PacketKind, PacketView, PerDirection, SpuriousBy};
use units::Duration;
use wire::TcpFlags;

/// Longest log of one flow, bytes; packets beyond it are counted, not drawn.
const LOG_MAX: usize = 20 << 20;

/// Values that the next packet of a direction is predicted from.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    next: u64,
    len: u64,
    ack: u64,
    window: u64,
}

/// The packets of one flow, encoded.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketLog {
    bytes: Vec<u8>,
    packets: u32,
    time_ns: u64,
    last: PerDirection<Last>,
    /// Retransmissions: time, direction, index of the packet.
    repeats: Vec<(u64, Direction, u32)>,
    /// Those found not to have been needed: index, how it is known.
    needless: Vec<(u32, u8)>,
    /// Packets beyond the longest log.
    left_out: u64,
}

impl PacketLog {
    pub(super) fn push(&mut self, packet: &PacketView<'_>) {
        if self.bytes.len() > LOG_MAX {
            self.left_out += 1;
            return;
        }
        let control_at = self.bytes.len();
        self.bytes.push(packet.direction.into());
        let now = packet.time.as_nanos();
        if self.packets == 0 {
            self.time_ns = now;
        }
        put_time(&mut self.bytes, now as i64 - self.time_ns as i64);
        self.time_ns = now;
        let mut has = self.put_place(packet) | self.put_answer(packet);
        has |= self.put_samples(packet);
        let kind = kind_code(packet);
        if kind != 0 || packet.flags != TcpFlags::ACK {
            has |= 1 << 7;
            self.bytes.extend([packet.flags.bits() as u8, kind]);
        }
        self.bytes[control_at] |= has;
        if matches!(packet.kind, PacketKind::Retransmission { .. }) {
            self.repeats.push((now, packet.direction, self.packets));
        }
        self.packets += 1;
    }

    fn put_place(&mut self, packet: &PacketView<'_>) -> u8 {
        let out = &mut self.bytes;
        let last = &mut self.last[packet.direction];
        let mut has = 0;
        if packet.position != last.next {
            has |= 1 << 1;
            put_signed(out, packet.position.wrapping_sub(last.next) as i64);
        }
        if packet.len != last.len {
            has |= 1 << 2;
            put(out, packet.len);
            last.len = packet.len;
        }
        if !packet.flags.contains(TcpFlags::RST) {
            let extra = [TcpFlags::SYN, TcpFlags::FIN].map(|flag| u64::from(packet.flags.contains(flag)));
            last.next = last.next.max(packet.position + packet.len + extra[0] + extra[1]);
        }
        has
    }

    fn put_answer(&mut self, packet: &PacketView<'_>) -> u8 {
        let out = &mut self.bytes;
        let last = &mut self.last[packet.direction];
        let mut has = 0;
        let ack = packet.ack.map_or(0, |ack| ack + 1);
        if ack != last.ack {
            has |= 1 << 3;
            put_signed(out, ack.wrapping_sub(last.ack) as i64);
            last.ack = ack;
        }
        let window = packet.window.map_or(0, |window| window + 1);
        if window != last.window {
            has |= 1 << 4;
            put_signed(out, window.wrapping_sub(last.window) as i64);
            last.window = window;
        }
        if let (Some(ack), false) = (packet.ack, packet.sack.is_empty()) {
            has |= 1 << 5;
            put(out, packet.sack.len() as u64);
            for (start, end) in packet.sacked() {
                put_signed(out, start.wrapping_sub(ack) as i64);
                put(out, end - start);
            }
        }
        has
    }

    fn put_samples(&mut self, packet: &PacketView<'_>) -> u8 {
        let (karn, stamps) = (packet.rtt_karn, packet.rtt_timestamps);
        if karn.is_none() && stamps.is_none() {
            return 0;
        }
        self.bytes.push(u8::from(karn.is_some()) | (u8::from(stamps.is_some()) << 1));
        for rtt in [karn, stamps].into_iter().flatten() {
            put_time(&mut self.bytes, Duration::as_nanos(rtt) as i64);
        }
        1 << 6
    }

    /// The retransmission sent at `sent_ns` was not needed.
    pub(super) fn on_spurious(&mut self, direction: Direction, sent_ns: u64, by: SpuriousBy) {
        let found = self.repeats.iter().rev().find(|r| r.0 == sent_ns && r.1 == direction);
        self.needless.extend(found.map(|&(_, _, index)| (index, by as u8)));
    }

    /// All of it: the records, then the needless ones as index and reason, then how many these are.
    pub(super) fn finish(mut self) -> FinishedLog {
        put(&mut self.bytes, self.needless.len() as u64);
        for (index, by) in self.needless {
            put(&mut self.bytes, u64::from(index));
            self.bytes.push(by);
        }
        FinishedLog { bytes: self.bytes.into_boxed_slice(), packets: self.packets, left_out: self.left_out }
    }
}

/// The log of a flow that has ended.
#[derive(Clone, Debug, Default)]
pub(super) struct FinishedLog {
    pub(super) bytes: Box<[u8]>,
    pub(super) packets: u32,
    /// Packets beyond the longest log.
    pub(super) left_out: u64,
}

impl FinishedLog {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// The kind of a packet in the lower four bits, flags above.
fn kind_code(packet: &PacketView<'_>) -> u8 {
    let mut needless = false;
    let kind = match packet.kind {
        PacketKind::Usual => 0,
        PacketKind::Retransmission { cause, was_acknowledged } => {
            needless = was_acknowledged;
            match cause {
                Cause::Syn => 1,
                Cause::Rto => 2,
                Cause::RtoRecovery => 3,
                Cause::Fast => 4,
                Cause::Tlp => 5,
                Cause::Unclear => 6,
            }
        }
        PacketKind::WindowProbe => 7,
        PacketKind::KeepAlive => 8,
        PacketKind::Repaired => 9,
        PacketKind::Reordered => 10,
    };
    let flag = |is_set: bool, bit: u8| u8::from(is_set) << bit;
    kind | flag(needless, 4) | flag(packet.is_duplicate_ack, 5) | flag(packet.ecn == 3, 6)
}

/// A variable-length integer.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Nanoseconds, as microseconds where that is exact: most captures have no finer clock. The lowest bit of the
/// (zigzag) number says which: 1 for nanoseconds.
fn put_time(out: &mut Vec<u8>, ns: i64) {
    let value = if ns % 1_000 == 0 { (ns / 1_000) << 1 } else { (ns << 1) | 1 };
    put_signed(out, value);
}

#[cfg(test)]
mod tests;
