//! [`Scoreboard`]: what was sent and is not yet acknowledged (RFC 6675 §3).
//!
//! One entry per transmission, in sequence order and without gaps. An entry is split where an
//! acknowledgement, a SACK block or a shorter retransmission ends inside it.
//!
//! ```text
//!   snd_una                                             snd_nxt
//!     │ sent │ sacked │ lost │ sent again │ … │ sent │ FIN │
//!     in flight = all − sacked − lost        (RFC 6675 pipe)
//! ```

use std::collections::VecDeque;

use control::SendStamp;
use units::{Instant, SeqNum};

/// One transmission that is not yet acknowledged.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct Entry {
    pub(crate) seq: SeqNum,
    /// One past its last sequence number, a FIN included.
    pub(crate) end: SeqNum,
    /// Stamp of its latest transmission.
    pub(crate) stamp: SendStamp,
    /// Number of that transmission among all, counted with wrap-around: many share a point of time.
    /// [`EARLIER`] for what another sender has sent.
    nth: u32,
    pub(crate) is_sacked: bool,
    /// Believed lost and not sent again since.
    pub(crate) is_lost: bool,
    /// Sent more than once: no round-trip sample (Karn).
    pub(crate) is_retransmitted: bool,
}

impl Entry {
    pub(crate) fn len(&self) -> u32 {
        self.end.since(self.seq)
    }
    pub(crate) fn sent_at(&self) -> Instant {
        self.stamp.sent_at
    }
    /// Another sender has sent it, who knows when.
    pub(crate) fn is_earlier(&self) -> bool {
        self.nth == EARLIER
    }
    /// Its place in the order of transmissions; the number decides among the parts of one (RFC 8985 §6.2).
    pub(crate) fn order(&self) -> SendOrder {
        SendOrder { nth: self.nth, end: self.end }
    }
}

/// The transmissions of another sender, before all of one's own.
const EARLIER: u32 = 0;

/// A place in the order of transmissions.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct SendOrder {
    nth: u32,
    end: SeqNum,
}

impl SendOrder {
    /// One past the last number of it.
    pub(crate) fn end(self) -> SeqNum {
        self.end
    }

    /// True when this was sent after `other`.
    pub(crate) fn is_after(self, other: Self) -> bool {
        match self.nth.wrapping_sub(other.nth) as i32 {
            0 => self.end.is_after(other.end),
            later => later > 0,
        }
    }
}

/// Entries that SACK blocks may split what is under way into, however little that is and however much.
const ENTRIES_MIN: usize = 256;
const ENTRIES_MAX: usize = 16_384;

/// Transmissions whose memory is passed on at most: more of them belong to a flow that will need it again.
const SPARE_MAX: usize = 32;

/// Memory for notes of what is under way, without any.
#[derive(Debug)]
pub struct ScoreboardMemory(VecDeque<Entry>);

/// Entries from `snd_una` to `snd_nxt` and the sums over them.
#[derive(Clone, Debug, stored::Stored)]
pub(crate) struct Scoreboard {
    entries: VecDeque<Entry>,
    una: SeqNum,
    nxt: SeqNum,
    sacked_bytes: u32,
    lost_bytes: u32,
    /// Payload bytes of a segment at most, at least one (SMSS, RFC 5681 §2).
    mss: u32,
    /// Transmissions so far, counted with wrap-around.
    transmissions: u32,
    /// Lowest number marked lost since that was asked for.
    lowest_marked: Option<SeqNum>,
}

impl Scoreboard {
    pub(crate) fn new(start: SeqNum, mss: u32) -> Self {
        Self {
            mss: mss.max(1),
            entries: VecDeque::new(),
            una: start,
            nxt: start,
            sacked_bytes: 0,
            lost_bytes: 0,
            transmissions: 0,
            lowest_marked: None,
        }
    }

    pub(crate) fn una(&self) -> SeqNum {
        self.una
    }
    pub(crate) fn nxt(&self) -> SeqNum {
        self.nxt
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    pub(crate) fn sacked_bytes(&self) -> u32 {
        self.sacked_bytes
    }
    pub(crate) fn lost_bytes(&self) -> u32 {
        self.lost_bytes
    }
    pub(crate) fn mss(&self) -> u32 {
        self.mss
    }
    /// Bytes between the oldest unacknowledged number and the next one (`FlightSize`, RFC 5681 §2).
    pub(crate) fn outstanding(&self) -> u32 {
        self.nxt.since(self.una)
    }
    /// True when no more than one segment is unacknowledged: an entry may hold many.
    pub(crate) fn is_lone_segment(&self) -> bool {
        self.outstanding() <= self.mss
    }
    /// True when the peer holds that many segments behind holes.
    pub(crate) fn has_sacked_segments(&self, segments: u32) -> bool {
        self.sacked_bytes >= self.mss.saturating_mul(segments)
    }
    /// The oldest entry is believed lost.
    pub(crate) fn is_head_lost(&self) -> bool {
        self.front().is_some_and(|entry| entry.is_lost)
    }
    /// Bytes believed to be in the network (`pipe`, RFC 6675 §4).
    pub(crate) fn in_flight(&self) -> u32 {
        self.outstanding() - self.sacked_bytes - self.lost_bytes
    }
    pub(crate) fn front(&self) -> Option<&Entry> {
        self.entries.front()
    }
    pub(crate) fn back(&self) -> Option<&Entry> {
        self.entries.back()
    }
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
    pub(crate) fn entry(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index)
    }

    /// Appends a first transmission of `[nxt, nxt + len)`.
    pub(crate) fn push(&mut self, len: u32, stamp: SendStamp) {
        self.count_transmission();
        self.append(len, stamp, self.transmissions);
    }

    /// Appends the transmissions of another sender, which went before all of this one: `[nxt, nxt + len)`.
    pub(crate) fn push_earlier(&mut self, len: u32, stamp: SendStamp) {
        self.append(len, stamp, EARLIER);
    }

    /// One more, and never the number of those of another sender.
    fn count_transmission(&mut self) {
        self.transmissions = self.transmissions.wrapping_add(1).max(EARLIER + 1);
    }

    fn append(&mut self, len: u32, stamp: SendStamp, nth: u32) {
        let seq = self.nxt;
        self.nxt += len;
        self.entries.push_back(Entry {
            seq,
            end: self.nxt,
            stamp,
            nth,
            is_sacked: false,
            is_lost: false,
            is_retransmitted: false,
        });
    }

    /// Counts everything up to `to` as sent and acknowledged; nothing is under way.
    pub(crate) fn skip_to(&mut self, to: SeqNum) {
        self.nxt = to;
        self.una = to;
    }

    /// The first entry whose end lies after `seq`.
    pub(crate) fn position(&self, seq: SeqNum) -> usize {
        self.entries.partition_point(|e| e.end.is_at_or_before(seq))
    }

    /// Number of entries from which on SACK blocks split no further one (H20).
    ///
    /// Those of a receiver lie at the ends of segments. One that reports single bytes would have us keep, and
    /// go through with every acknowledgement, an entry for each of them (CVE-2019-11478).
    pub(crate) fn entries_max(&self) -> usize {
        (2 * self.outstanding().div_ceil(self.mss) as usize).clamp(ENTRIES_MIN, ENTRIES_MAX)
    }

    /// Makes an entry boundary at `seq`, if one entry spans it.
    pub(crate) fn split_at(&mut self, seq: SeqNum) {
        let index = self.position(seq);
        let Some(entry) = self.entries.get_mut(index) else { return };
        if entry.seq.is_before(seq) {
            let mut rest = *entry;
            rest.seq = seq;
            entry.end = seq;
            self.entries.insert(index + 1, rest);
        }
    }

    /// Removes everything before `ack`, handing each removed entry to `delivered`.
    pub(crate) fn acknowledge(&mut self, ack: SeqNum, mut delivered: impl FnMut(&Entry)) {
        self.split_at(ack);
        while self.entries.front().is_some_and(|e| e.end.is_at_or_before(ack)) {
            let Some(entry) = self.entries.pop_front() else { break };
            self.sacked_bytes -= if entry.is_sacked { entry.len() } else { 0 };
            self.lost_bytes -= if entry.is_lost { entry.len() } else { 0 };
            delivered(&entry);
        }
        self.una = ack;
    }

    /// Marks `[start, end)` as held by the peer, handing each newly marked entry to `delivered`.
    ///
    /// From `entries_max` entries on none is split for it, and what it covers of one in part stays unmarked.
    pub(crate) fn sack(
        &mut self,
        start: SeqNum,
        end: SeqNum,
        entries_max: usize,
        mut delivered: impl FnMut(&Entry),
    ) {
        if self.entries.len() < entries_max {
            self.split_at(start);
            self.split_at(end);
        }
        let mut index = self.position(start);
        index += usize::from(self.entries.get(index).is_some_and(|e| e.seq.is_before(start)));
        while let Some(entry) = self.entries.get_mut(index).filter(|e| e.end.is_at_or_before(end)) {
            if !entry.is_sacked {
                delivered(entry);
                if entry.is_lost {
                    entry.is_lost = false;
                    self.lost_bytes -= entry.len();
                }
                entry.is_sacked = true;
                self.sacked_bytes += entry.len();
            }
            index += 1;
        }
    }

    /// Marks an entry lost; returns its length, zero when it already was, or is held by the peer.
    pub(crate) fn mark_lost(&mut self, index: usize) -> u32 {
        match self.entries.get_mut(index) {
            Some(entry) if !entry.is_lost && !entry.is_sacked => {
                entry.is_lost = true;
                self.lost_bytes += entry.len();
                let lowest = self.lowest_marked.map_or(entry.seq, |lowest| lowest.earlier_of(entry.seq));
                self.lowest_marked = Some(lowest);
                entry.len()
            }
            _ => 0,
        }
    }

    /// Marks the oldest segment lost; returns the bytes newly marked.
    pub(crate) fn lose_head(&mut self) -> u32 {
        self.split_at(self.una + self.mss);
        self.mark_lost(0)
    }

    /// Makes segments no longer than `mss`; what is under way and longer is lost. Returns the bytes newly
    /// marked.
    pub(crate) fn lower_mss(&mut self, mss: u32) -> u32 {
        self.mss = mss.max(1);
        // The last segment of an entry may have fitted; it is no harm to send it again.
        let is_longer = |entry: &Entry| entry.len() > mss;
        (0..self.len())
            .map(|index| if self.entry(index).is_some_and(is_longer) { self.mark_lost(index) } else { 0 })
            .sum()
    }

    /// The lowest number marked lost since this was asked last.
    pub(crate) fn take_lowest_marked(&mut self) -> Option<SeqNum> {
        self.lowest_marked.take()
    }

    /// The place of the transmission made last.
    pub(crate) fn last_order(&self) -> SendOrder {
        SendOrder { nth: self.transmissions, end: self.nxt }
    }

    /// Takes back every loss mark: the originals were under way after all.
    pub(crate) fn unmark_all_lost(&mut self) {
        for entry in &mut self.entries {
            entry.is_lost = false;
        }
        self.lost_bytes = 0;
    }

    /// Forgets every SACK mark (the peer reneged, RFC 2018 §8).
    pub(crate) fn forget_sacks(&mut self) {
        for entry in &mut self.entries {
            entry.is_sacked = false;
        }
        self.sacked_bytes = 0;
    }

    /// Index of the lost entry with the lowest number.
    pub(crate) fn first_lost(&self) -> Option<usize> {
        if self.lost_bytes == 0 {
            return None;
        }
        self.entries.iter().position(|e| e.is_lost)
    }

    /// Notes that the entry at `index` was sent again.
    pub(crate) fn on_retransmission(&mut self, index: usize, stamp: SendStamp) {
        self.count_transmission();
        if let Some(entry) = self.entries.get_mut(index) {
            entry.nth = self.transmissions;
            if entry.is_lost {
                entry.is_lost = false;
                self.lost_bytes -= entry.len();
            }
            entry.is_retransmitted = true;
            entry.stamp = stamp;
        }
    }

    /// True when there is no memory for entries yet.
    pub(crate) fn lacks_memory(&self) -> bool {
        self.entries.capacity() == 0
    }

    pub(crate) fn adopt_memory(&mut self, memory: ScoreboardMemory) {
        if self.lacks_memory() {
            self.entries = memory.0;
        }
    }

    pub(crate) fn take_memory(&mut self) -> Option<ScoreboardMemory> {
        let is_unused = self.entries.is_empty() && (1..=SPARE_MAX).contains(&self.entries.capacity());
        is_unused.then(|| ScoreboardMemory(std::mem::take(&mut self.entries)))
    }

    /// INVARIANT: entries are contiguous from `una` to `nxt` and the sums are right.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut at = self.una;
        let (mut sacked, mut lost) = (0, 0);
        for e in &self.entries {
            assert_eq!(e.seq, at);
            assert!(e.seq.is_before(e.end));
            assert!(!(e.is_sacked && e.is_lost));
            sacked += if e.is_sacked { e.len() } else { 0 };
            lost += if e.is_lost { e.len() } else { 0 };
            at = e.end;
        }
        assert_eq!(at, self.nxt);
        assert_eq!((sacked, lost), (self.sacked_bytes, self.lost_bytes));
    }
}

#[cfg(test)]
mod tests;
