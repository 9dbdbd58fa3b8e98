//! [`UnderWay`]: opaque packets that have left towards a client, and what is known of them.
//!
//! The hypothesis: what a subscriber is sent leaves its radio queue in the order in which it was sent. So a
//! host that answers to a packet sent at *t* says that all that was sent until *t* has left, arrived or lost.
//!
//! A TCP flow that passes shows that the hypothesis is false (two bearers, queues per flow behind the radio): its
//! own acknowledgement of a packet comes long after something later was answered.

use std::collections::VecDeque;

use control::SendStamp;
use units::{Duration, Instant, SeqNum};

use super::key::OpaqueKey;

/// Packets sent within this time without numbers of their own are one entry.
const MERGED: Duration = Duration::from_millis(1);

/// Number of the piece of time of [`MERGED`] that `at` lies in.
fn slot_of(at: Instant) -> u64 {
    at.as_nanos() / MERGED.as_nanos()
}

/// Longest time that an entry is kept, and most entries.
const KEPT: Duration = Duration::from_secs(30);
const ENTRIES_MAX: usize = 8_192;

/// Entries of others among which an acknowledgement is looked for at most.
const LOOKS: usize = 512;

/// TCP flows whose highest number is known.
const FLOWS: usize = 64;

/// Time after evidence that its segment had left at which an acknowledgement contradicts it; or this many
/// times the round trip.
const CONTRADICTS: Duration = Duration::from_millis(80);

/// Answers over which the bytes that an answer releases are smoothed.
const SMOOTHED: u64 = 8;

/// Most times the grain for which one answer counts, and most bytes more.
const GROWTH: u64 = 4;
const GROWN_AT_ONCE: u64 = 12_000;

/// Contradictions, one after the other, that are no accident.
const CONTRADICTIONS: u32 = 8;

/// Segments of a TCP flow that passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(crate) struct Numbered {
    pub(crate) flow: OpaqueKey,
    /// Number behind its last byte.
    pub(crate) end: SeqNum,
}

#[derive(Clone, Copy, Debug, stored::Stored)]
struct Entry {
    stamp: SendStamp,
    bytes: u32,
    numbered: Option<Numbered>,
}

/// A segment that has left, as others have said.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Released {
    numbered: Numbered,
    sent_at: Instant,
    released_at: Instant,
}

/// Bytes that an answer has released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// Bytes that have left the queue, as far as it was not known.
    pub(crate) bytes: u32,
    /// Stamp of what was answered.
    pub(crate) stamp: SendStamp,
}

/// Opaque packets under way, the oldest first.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(crate) struct UnderWay {
    entries: VecDeque<Entry>,
    /// The first ones do not count any more, and wait for an answer only.
    #[stored(since(5, 0))]
    uncounted: usize,
    bytes: u64,
    /// All that has ever left, in bytes: a place in the order of what leaves.
    #[stored(since(5, 0))]
    sent: u64,
    /// The last ones of which others have said so.
    released: VecDeque<Released>,
    /// Highest number sent of some flows.
    highest: VecDeque<Numbered>,
    evidence_at: Instant,
    /// Time of the last answer from a source that goes on answering.
    answered_at: Option<Instant>,
    contradictions: u32,
    /// Bytes that an answer releases, smoothed.
    #[stored(since(5, 0))]
    grain: u64,
}

impl UnderWay {
    /// Bytes under way.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time at which it was last known what has left.
    pub(crate) fn evidence_at(&self) -> Instant {
        self.evidence_at
    }

    /// Time of the last answer from a source that goes on answering: a passed flow, an echo request.
    pub(crate) fn answered_at(&self) -> Option<Instant> {
        self.answered_at
    }

    /// Bytes that an answer releases, smoothed.
    pub(crate) fn grain(&self) -> u64 {
        self.grain
    }

    /// The hypothesis does not hold.
    pub(crate) fn is_contradicted(&self) -> bool {
        self.contradictions >= CONTRADICTIONS
    }

    /// The place in the order of what leaves that is behind all that has left.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// A packet leaves.
    pub(crate) fn on_sent(&mut self, bytes: u32, stamp: SendStamp, numbered: Option<Numbered>) {
        self.bytes += u64::from(bytes);
        self.sent += u64::from(bytes);
        let now = stamp.sent_at;
        // What is sent again says nothing: what is said of it may be about the first time (RFC 6298 §3).
        let numbered = numbered.filter(|numbered| self.is_new(numbered));
        let counts = self.uncounted < self.entries.len();
        if let Some(last) = self.entries.back_mut().filter(|_| counts)
            && last.numbered.is_none()
            && numbered.is_none()
            && slot_of(last.stamp.sent_at) == slot_of(now)
        {
            (last.stamp.sent_at, last.bytes) = (now, last.bytes.saturating_add(bytes));
        } else {
            self.entries.push_back(Entry { stamp, bytes, numbered });
        }
        while self.entries.len() > ENTRIES_MAX {
            self.pop();
        }
        while self.entries.front().is_some_and(|entry| entry.stamp.sent_at <= now - KEPT) {
            self.pop();
        }
    }

    /// Nothing of its flow up to there was sent before, as far as it is known.
    fn is_new(&mut self, numbered: &Numbered) -> bool {
        let known = self.highest.iter_mut().find(|known| known.flow == numbered.flow);
        if let Some(known) = known {
            let is_new = numbered.end.is_after(known.end);
            known.end = known.end.later_of(numbered.end);
            return is_new;
        }
        if self.highest.len() >= FLOWS {
            self.highest.pop_front();
        }
        self.highest.push_back(*numbered);
        // It may have begun long before.
        false
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.uncounted = self.uncounted.saturating_sub(1);
        self.bytes -= u64::from(entry.bytes);
        Some(entry)
    }

    /// Something that was sent at `sent_at` was answered: bytes that have left with it or before.
    pub(crate) fn release_until(&mut self, sent_at: Instant, now: Instant) -> u32 {
        let mut bytes = 0u32;
        while self.entries.front().is_some_and(|entry| entry.stamp.sent_at <= sent_at) {
            bytes = bytes.saturating_add(self.release_first(now));
        }
        self.on_released(bytes, now);
        bytes
    }

    /// All up to a place in the order of what leaves has left: bytes that were not known to.
    pub(crate) fn release_to(&mut self, place: u64, now: Instant) -> u32 {
        let mut bytes = 0u32;
        while let Some(first) = self.entries.front() {
            if self.released() + u64::from(first.bytes) > place {
                break;
            }
            bytes = bytes.saturating_add(self.release_first(now));
        }
        // The entry that has some of it.
        let left = u32::try_from(place.saturating_sub(self.released())).unwrap_or(0);
        if left > 0
            && let Some(first) = self.entries.front_mut()
        {
            first.bytes -= left;
            self.bytes -= u64::from(left);
            bytes = bytes.saturating_add(left);
        }
        self.on_released(bytes, now);
        bytes
    }

    fn release_first(&mut self, now: Instant) -> u32 {
        let Some(entry) = self.pop() else { return 0 };
        if let Some(numbered) = entry.numbered {
            if self.released.len() >= LOOKS {
                self.released.pop_front();
            }
            self.released.push_back(Released { numbered, sent_at: entry.stamp.sent_at, released_at: now });
        }
        entry.bytes
    }

    fn on_released(&mut self, bytes: u32, now: Instant) {
        self.evidence_at = now;
        if bytes > 0 {
            // The first answer after an outage releases all that waited for it.
            let bytes = u64::from(bytes).min(self.grain * GROWTH + GROWN_AT_ONCE);
            self.grain = (self.grain * (SMOOTHED - 1) + bytes) / SMOOTHED;
        }
    }

    /// Time at which the newest one under way was sent.
    pub(crate) fn newest(&self) -> Option<Instant> {
        self.entries.back().map(|entry| entry.stamp.sent_at)
    }

    /// Forgets what was sent until then: it does not count any more. Its answer is evidence all the same.
    pub(crate) fn forget_until(&mut self, sent_at: Instant) {
        while let Some(entry) = self.entries.get_mut(self.uncounted)
            && entry.stamp.sent_at <= sent_at
        {
            self.bytes -= u64::from(std::mem::take(&mut entry.bytes));
            self.uncounted += 1;
        }
        // Only what has a number can be answered.
        while self.uncounted > 0 && self.entries.front().is_some_and(|entry| entry.numbered.is_none()) {
            self.pop();
        }
    }

    /// The place in the order of what leaves up to which all is known to have left. What an older version has stored
    /// has no places: it is before all of them.
    fn released(&self) -> u64 {
        self.sent.saturating_sub(self.bytes)
    }

    /// Takes in a reply to what was sent at `stamp`, up to the `place` in the order of what leaves; what
    /// comes later will be answered, too.
    pub(crate) fn on_reply(&mut self, place: u64, stamp: SendStamp, now: Instant) -> Answer {
        self.answered_at = Some(now);
        Answer { bytes: self.release_to(place, now), stamp }
    }

    /// A TCP flow that passes has acknowledged everything below `ack`: that is an answer to the newest segment of it
    /// that ends there or before.
    pub(crate) fn on_ack(&mut self, flow: OpaqueKey, ack: SeqNum, now: Instant) -> Option<Answer> {
        let is_of_it = |numbered: &Numbered| numbered.flow == flow;
        // Nobody has what was never sent.
        if !self.highest.iter().any(|highest| is_of_it(highest) && !ack.is_after(highest.end)) {
            return None;
        }
        let is_covered = |numbered: &Numbered| !numbered.end.is_after(ack);
        let is_answered =
            |released: &Released| is_of_it(&released.numbered) && is_covered(&released.numbered);
        let mut found = None;
        for (at, entry) in self.entries.iter().enumerate().take(LOOKS) {
            match entry.numbered.filter(is_of_it) {
                Some(numbered) if is_covered(&numbered) => found = Some((at, entry.stamp)),
                Some(_) => break,
                None => {}
            }
        }
        if let Some((_, stamp)) = found {
            self.answered_at = Some(now);
            let bytes = self.release_until(stamp.sent_at, now);
            self.released.retain(|released| !is_answered(released));
            self.contradictions = 0;
            return Some(Answer { bytes, stamp });
        }
        // It had left already, as others have said: its acknowledgement should be on its way, too.
        let newest = self.released.iter().rev().find(|released| is_answered(released));
        let Released { sent_at, released_at, .. } = *newest?;
        self.released.retain(|released| !is_answered(released));
        let path = released_at.saturating_since(sent_at);
        let is_late = now.saturating_since(released_at) > CONTRADICTS.max(path);
        self.contradictions = if is_late { self.contradictions + 1 } else { 0 };
        None
    }
}
