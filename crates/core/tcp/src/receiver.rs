//! [`Receiver`]: reassembly and what to acknowledge.
//!
//! Takes segments in any order, puts each byte into the stream once (the first copy wins, H26), and
//! answers with the acknowledgement fields: number, SACK blocks newest first (RFC 2018 §4), D-SACK for
//! what came twice (RFC 2883), the timestamp to echo (RFC 7323 §4.3) and a window whose right edge never
//! moves back (RFC 9293 §3.8.6).

use stored::{Absent, Rare};
use units::{SeqNum, WindowScale};
use wire::{SackBlock, SackBlocks};

use crate::StreamBuffer;
use crate::intervals::{Interval, Intervals};

/// A segment as the receiver sees it.
#[derive(Clone, Copy, Debug)]
pub struct SegmentIn<'a> {
    /// Sequence number of its first byte.
    pub seq: SeqNum,
    /// Its data.
    pub payload: &'a [u8],
    /// It ends the stream.
    pub fin: bool,
    /// Its TSval, when timestamps are in use.
    pub timestamp: Option<u32>,
    /// True when its timestamp may become TS.Recent: its acknowledgement is not an old one (Linux `tcp_ack`).
    pub moves_time: bool,
}

impl SegmentIn<'_> {
    fn end(&self) -> SeqNum {
        self.seq + self.payload.len() as u32 + u32::from(self.fin)
    }
}

/// Classification of a segment that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// It moved the left edge by this many bytes of data.
    InOrder {
        /// Bytes that became deliverable.
        advanced: u32,
    },
    /// It lies behind a hole.
    OutOfOrder,
    /// All of it was there before.
    Duplicate,
    /// It lies outside the window.
    OutOfWindow,
    /// Its timestamp is older than one already accepted (RFC 7323 §5.3).
    TooOld,
    /// It carries neither data nor an end: nothing to acknowledge.
    Empty,
    /// There is no memory for it: nothing of it was taken.
    NoMemory,
}

/// Promises that a receiver has made to its peer: a receiver that goes on in its place has to keep them.
///
/// Data behind holes is not among it: SACK is no promise (RFC 2018 §8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promises {
    /// The next byte expected.
    pub next: SeqNum,
    /// One past the last byte the peer was told it may send.
    pub right_edge: SeqNum,
    /// One past the last byte there was room for; up to one unit of the scale before `right_edge`.
    pub granted_edge: SeqNum,
    /// The stream ends at `next`.
    pub is_finished: bool,
    /// The end may be acknowledged ([`Receiver::allow_fin_ack`]).
    pub may_ack_fin: bool,
    /// TS.Recent (RFC 7323 §4.3), when timestamps are in use.
    pub ts_recent: Option<u32>,
    /// The number acknowledged last.
    pub last_ack_sent: SeqNum,
}

/// The receiving half of a connection.
#[derive(Clone, Debug, stored::Stored)]
pub struct Receiver {
    rcv_nxt: SeqNum,
    /// One past the last byte the peer was told it may send.
    right_edge: SeqNum,
    /// One past the last byte there was room for; up to one unit of the scale before `right_edge`.
    granted_edge: SeqNum,
    irregular: Rare<Irregular>,
    fin: Option<SeqNum>,
    may_ack_fin: bool,
    /// TS.Recent (RFC 7323 §4.3), when timestamps are in use.
    ts_recent: Option<u32>,
    last_ack_sent: SeqNum,
    sack: bool,
}

/// Data that has arrived otherwise than once and in order.
#[derive(Clone, Debug, Default, stored::Stored)]
struct Irregular {
    out_of_order: Intervals,
    /// Starts of the blocks most recently added to, newest first. None without holes.
    recent: [Option<SeqNum>; 4],
    d_sack: Option<SackBlock>,
}

impl Absent for Irregular {
    const ABSENT: &'static Self = &Self { out_of_order: Intervals::EMPTY, recent: [None; 4], d_sack: None };
    fn is_absent(&self) -> bool {
        self.out_of_order.is_empty() && self.d_sack.is_none()
    }
}

impl Receiver {
    /// A receiver that expects `rcv_nxt` and has offered `window` bytes from there.
    #[must_use]
    pub fn new(rcv_nxt: SeqNum, window: u32, sack: bool, ts_recent: Option<u32>) -> Self {
        Self {
            rcv_nxt,
            right_edge: rcv_nxt + window,
            granted_edge: rcv_nxt + window,
            irregular: Rare::default(),
            fin: None,
            may_ack_fin: false,
            ts_recent,
            last_ack_sent: rcv_nxt,
            sack,
        }
    }

    /// A receiver that keeps what another one has told the peer.
    #[must_use]
    pub fn resumed(before: &Promises, sack: bool) -> Self {
        Self {
            right_edge: before.right_edge,
            granted_edge: before.granted_edge,
            fin: before.is_finished.then_some(before.next),
            may_ack_fin: before.may_ack_fin,
            last_ack_sent: before.last_ack_sent,
            ..Self::new(before.next, 0, sack, before.ts_recent)
        }
    }

    /// Promises made to the peer so far.
    #[must_use]
    pub fn promises(&self) -> Promises {
        Promises {
            next: self.rcv_nxt,
            right_edge: self.right_edge,
            granted_edge: self.granted_edge,
            is_finished: self.is_finished(),
            may_ack_fin: self.may_ack_fin,
            ts_recent: self.ts_recent,
            last_ack_sent: self.last_ack_sent,
        }
    }

    /// True when the peer may send SACK blocks, and is sent some.
    #[must_use]
    pub fn has_sack(&self) -> bool {
        self.sack
    }

    /// The next byte expected; the end of the stream itself does not count.
    #[must_use]
    pub fn next(&self) -> SeqNum {
        self.rcv_nxt
    }

    /// One past the last byte the peer may send.
    #[must_use]
    pub fn right_edge(&self) -> SeqNum {
        self.right_edge
    }

    /// Takes what ends at `end`, too, although the peer was told less.
    pub fn allow_until(&mut self, end: SeqNum) {
        self.right_edge = self.right_edge.later_of(end);
    }

    /// TS.Recent: the value to echo.
    #[must_use]
    pub fn ts_recent(&self) -> Option<u32> {
        self.ts_recent
    }

    /// Takes `value` for TS.Recent, which is too old to judge by (RFC 7323 §5.5).
    pub fn renew_timestamp(&mut self, value: u32) {
        self.ts_recent = self.ts_recent.map(|_| value);
    }

    /// End of the stream, once its FIN was seen.
    #[must_use]
    pub fn fin(&self) -> Option<SeqNum> {
        self.fin
    }

    /// True when all data up to the end of the stream has arrived.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.fin == Some(self.rcv_nxt)
    }

    /// True when data lies behind a hole.
    #[must_use]
    pub fn has_holes(&self) -> bool {
        !self.irregular.out_of_order.is_empty()
    }

    /// End of the highest byte held, in order or not.
    #[must_use]
    pub fn highest(&self) -> SeqNum {
        self.irregular.out_of_order.highest().unwrap_or(self.rcv_nxt)
    }

    /// Lets [`Receiver::ack`] cover the FIN once all data before it has arrived.
    ///
    /// An accelerator calls it when the client has acknowledged everything; an end host at once.
    pub fn allow_fin_ack(&mut self) {
        self.may_ack_fin = true;
    }

    /// True when an acknowledgement now would cover the FIN.
    #[must_use]
    pub fn acks_fin(&self) -> bool {
        self.may_ack_fin && self.is_finished()
    }

    /// Takes in a segment, putting its new bytes into `buffer`.
    pub fn on_segment(&mut self, segment: &SegmentIn<'_>, buffer: &mut StreamBuffer) -> Arrival {
        if let (Some(recent), Some(value)) = (self.ts_recent, segment.timestamp)
            && (value.wrapping_sub(recent) as i32) < 0
        {
            return Arrival::TooOld;
        }
        let len = segment.payload.len() as u32;
        if len == 0 && !segment.fin {
            self.note_timestamp(segment);
            return Arrival::Empty;
        }
        let start = segment.seq;
        let end = start + len;
        if end.is_before(self.rcv_nxt) || (end == self.rcv_nxt && !self.is_new_fin(segment)) {
            if end.is_at_or_after(self.rcv_nxt - 0x4000_0000) {
                self.note_timestamp(segment);
                // Of the end itself only what is acknowledged: beyond, it would read as a hole's far side.
                let end = (end + u32::from(segment.fin)).earlier_of(self.ack_number());
                self.note_duplicate(start, end);
                return Arrival::Duplicate;
            }
            return Arrival::OutOfWindow;
        }
        let from = start.later_of(self.rcv_nxt);
        let to = end.earlier_of(self.right_edge);
        let is_empty_fin = from == end && segment.fin;
        if to.is_before(from) || (from == to && !is_empty_fin) || self.is_behind_end(end) {
            return Arrival::OutOfWindow;
        }
        let arrival = self.place(segment, Interval::new(from, to), buffer);
        if arrival != Arrival::NoMemory {
            self.note_timestamp(segment);
            if segment.fin || self.fin.is_some() {
                self.note_fin(segment.fin && to == end, end);
            }
        }
        arrival
    }

    fn is_new_fin(&self, segment: &SegmentIn<'_>) -> bool {
        segment.fin && !self.is_finished()
    }

    /// Data behind the end of a stream that has arrived as a whole is nonsense.
    fn is_behind_end(&self, end: SeqNum) -> bool {
        self.is_finished() && end.is_after(self.rcv_nxt)
    }

    /// Data has arrived up to `end`, where the stream `is_end` or not. A FIN that data lies behind was none:
    /// nothing has been acknowledged of it, and the data would wait for ever.
    fn note_fin(&mut self, is_end: bool, end: SeqNum) {
        self.fin = self.fin.filter(|fin| fin.is_at_or_after(self.highest()));
        if is_end && end.is_at_or_after(self.highest()) {
            self.fin = Some(end);
        }
    }

    /// Puts the part of a segment that lies in the window into `buffer`.
    fn place(&mut self, segment: &SegmentIn<'_>, part: Interval, buffer: &mut StreamBuffer) -> Arrival {
        let bytes_of = |part: Interval| {
            let offset = |seq: SeqNum| seq.since(segment.seq) as usize;
            &segment.payload[offset(part.start)..offset(part.end)]
        };
        if part.start == self.rcv_nxt && !self.has_holes() {
            if buffer.write(part.start, bytes_of(part)).is_err() {
                return Arrival::NoMemory;
            }
            self.rcv_nxt = part.end;
            return Arrival::InOrder { advanced: part.end.since(part.start) };
        }
        if part.start == part.end {
            let is_next = part.start == self.rcv_nxt;
            return if is_next { Arrival::InOrder { advanced: 0 } } else { Arrival::OutOfOrder };
        }
        let out_of_order = &self.irregular.out_of_order;
        if out_of_order.covers(part) {
            self.note_duplicate(part.start, part.end);
            self.note_recent(part.start);
            return Arrival::Duplicate;
        }
        if !out_of_order.admits(part) {
            return Arrival::OutOfWindow;
        }
        if buffer.reserve(part.end).is_err() {
            return Arrival::NoMemory;
        }
        let before = self.rcv_nxt;
        let reached = self.irregular.change(|Irregular { out_of_order, recent, .. }| {
            out_of_order.insert(part, |fresh| {
                let written = buffer.write(fresh.start, bytes_of(fresh));
                debug_assert!(written.is_ok(), "there is room for all of it");
            });
            let reached = out_of_order.take_reached(before);
            if out_of_order.is_empty() {
                *recent = [None; 4];
            }
            reached
        });
        if let Some(reached) = reached {
            self.rcv_nxt = reached;
            return Arrival::InOrder { advanced: reached.since(before) };
        }
        self.note_recent(part.start);
        Arrival::OutOfOrder
    }

    /// RFC 7323 §4.3 (3), §5.3 R2: only a segment that reaches back to the last ACK, and up to it, updates
    /// TS.Recent; so does a keep-alive, which ends just below.
    fn note_timestamp(&mut self, segment: &SegmentIn<'_>) {
        if let (Some(recent), Some(value)) = (self.ts_recent.as_mut(), segment.timestamp)
            && segment.moves_time
            && segment.seq.is_at_or_before(self.last_ack_sent)
            && segment.end().is_at_or_after(self.last_ack_sent - 1)
        {
            *recent = value;
        }
    }

    fn note_duplicate(&mut self, start: SeqNum, end: SeqNum) {
        if self.sack && start.is_before(end) {
            self.irregular.change(|irregular| irregular.d_sack = Some(SackBlock { start, end }));
        }
    }

    /// The block with `seq` is the newest. Each block is remembered once, or one that grows would push out
    /// the others before they were reported (RFC 2018 §4).
    fn note_recent(&mut self, seq: SeqNum) {
        self.irregular.change(|Irregular { out_of_order, recent, .. }| {
            let block = out_of_order.containing(seq);
            let is_in_it = |other: SeqNum| block.is_some_and(|block| block.contains(other));
            let before = std::mem::replace(recent, [Some(seq), None, None, None]);
            let others = before.into_iter().flatten().filter(|&other| !is_in_it(other));
            for (slot, other) in recent.iter_mut().skip(1).zip(others) {
                *slot = Some(other);
            }
        });
    }

    /// The acknowledgement number: covers the FIN only after [`Receiver::allow_fin_ack`].
    #[must_use]
    pub fn ack_number(&self) -> SeqNum {
        self.rcv_nxt + u32::from(self.acks_fin())
    }

    /// The number to acknowledge, to be put into a packet that leaves at once; updates what
    /// [`Receiver::ts_recent`] is judged by.
    pub fn ack(&mut self) -> SeqNum {
        self.ack_up_to(self.ack_number())
    }

    /// The same, up to `limit` only.
    pub fn ack_up_to(&mut self, limit: SeqNum) -> SeqNum {
        let ack = self.ack_number().earlier_of(limit);
        self.last_ack_sent = ack;
        ack
    }

    /// The window field for `free` bytes beyond the left edge, never taking back what was granted.
    ///
    /// A field says whole units of the scale only, so the edge it tells lies up to one unit beyond the
    /// granted one and may move within that unit (RFC 7323 §2.4); all that was ever told is accepted.
    /// Rounding each up from the last would let the edge creep: with units larger than a segment it would
    /// never stop.
    #[inline]
    pub fn window_field(&mut self, free: u32, scale: WindowScale) -> u16 {
        self.window_field_from(self.ack_number(), free, scale)
    }

    /// The same beside `ack`, which may be less than [`Receiver::ack_number`].
    #[inline]
    pub fn window_field_from(&mut self, ack: SeqNum, free: u32, scale: WindowScale) -> u16 {
        // Where nothing is free, what lies behind `ack` may have come beyond what was granted: that grants no more.
        let free = if free > 0 { free.saturating_add(self.ack_number().since(ack)) } else { 0 };
        let unit = 1u32 << scale.shift();
        let granted = self.granted_edge.distance_from(ack).max(0).unsigned_abs();
        let room = scale.field(free);
        let field = scale.field(granted.saturating_add(unit - 1)).max(room);
        if room > 0 {
            self.granted_edge = self.granted_edge.later_of(ack + scale.window(room));
        }
        self.right_edge = self.right_edge.later_of(ack + scale.window(field));
        field
    }

    /// Bytes the window would grow by if `free` bytes were offered now.
    #[must_use]
    #[inline]
    pub fn window_growth(&self, free: u32) -> u32 {
        let offered = self.right_edge.distance_from(self.ack_number()).max(0).unsigned_abs();
        free.saturating_sub(offered)
    }

    /// True when [`Receiver::sack_blocks`] would report something that came twice.
    #[must_use]
    pub fn has_d_sack(&self) -> bool {
        self.irregular.d_sack.is_some()
    }

    /// True when `[start, end)` would go into one of the `n` SACK blocks added to last, or they are fewer.
    #[must_use]
    pub fn is_near_newest(&self, start: SeqNum, end: SeqNum, n: usize) -> bool {
        let mut newest = SackBlocks::default();
        for seq in self.irregular.recent.into_iter().flatten() {
            if let Some(interval) = self.irregular.out_of_order.containing(seq) {
                push_new(&mut newest, interval, n);
            }
        }
        newest.len() < n || newest.iter().any(|b| start.is_at_or_before(b.end) && end.is_at_or_after(b.start))
    }

    /// Gives up to `room` SACK blocks, D-SACK first and then newest first; a D-SACK is given once.
    pub fn sack_blocks(&mut self, room: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if !self.sack {
            return blocks;
        }
        let room = room.min(4);
        if let Some(block) = self.irregular.d_sack {
            self.irregular.change(|irregular| irregular.d_sack = None);
            if room > 0 {
                blocks.push(block);
            }
        }
        for seq in self.irregular.recent.into_iter().flatten() {
            if let Some(interval) = self.irregular.out_of_order.containing(seq) {
                push_new(&mut blocks, interval, room);
            }
        }
        for interval in self.irregular.out_of_order.iter() {
            push_new(&mut blocks, interval, room);
        }
        blocks
    }
}

fn push_new(blocks: &mut SackBlocks, interval: Interval, room: usize) {
    let Interval { start, end } = interval;
    let block = SackBlock { start, end };
    if blocks.len() < room && !blocks.iter().any(|&b| b == block) {
        blocks.push(block);
    }
}

#[cfg(test)]
#[path = "receiver/tests.rs"]
mod tests;
