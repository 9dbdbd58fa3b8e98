//! [`Coverage`]: which bytes of a stream have been seen, as 64-bit positions.

use units::{Instant, SeqNum};

/// Holes remembered per direction; beyond it the oldest counts as seen.
const HOLES_MAX: usize = 4_096;

/// The 64-bit position of `seq` nearest to `reference`; the lower 32 bits are the sequence number itself.
pub(crate) fn unwrap(reference: u64, seq: SeqNum) -> u64 {
    let distance = seq.distance_from(SeqNum::new(reference as u32));
    reference.wrapping_add_signed(i64::from(distance))
}

/// The position to start a stream at: one turn of the circle above zero, so that earlier bytes have one too.
pub(crate) fn first_position(seq: SeqNum) -> u64 {
    (1 << 32) + u64::from(seq.get())
}

/// A range not seen though something above it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hole {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Time when the segment above it was seen.
    pub(crate) since: Instant,
    /// That segment's timestamp value.
    pub(crate) stamp: Option<u32>,
    /// The receiver has acknowledged it: the capture missed it.
    pub(crate) is_acked: bool,
    /// Time when a segment above it was last repaired, while this one was not.
    pub(crate) passed: Instant,
}

/// Result of adding a range.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Added {
    /// Bytes not seen before.
    pub(crate) fresh: u64,
    /// Bytes seen before.
    pub(crate) again: u64,
    /// The hole that the first fresh byte lay in.
    pub(crate) filled: Option<Hole>,
    /// Bytes below this range that were acknowledged, and that the capture turns out to have missed.
    pub(crate) missed: u64,
    /// Fresh bytes that counted as missed by the capture.
    pub(crate) recovered: u64,
}

/// Bytes acknowledged that the capture missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missed {
    pub(crate) bytes: u64,
    /// Packets that they were at least.
    pub(crate) packets: u64,
}

/// Bytes seen: all of `[first, next)` but the holes. Memory is proportional to the holes.
///
/// What was acknowledged above `next` is no hole yet: the capture may have the acknowledgement before its data,
/// if the two directions came from queues or clocks of their own.
#[derive(Clone, Debug)]
pub(crate) struct Coverage {
    pub(crate) first: u64,
    pub(crate) next: u64,
    /// Apart: few streams have any.
    holes: Option<Box<Holes>>,
}

/// Holes by position.
#[derive(Clone, Debug, Default)]
struct Holes(Vec<Hole>);

impl Coverage {
    pub(crate) fn new(position: u64) -> Self {
        Self { first: position, next: position, holes: None }
    }

    pub(crate) fn holes(&self) -> &[Hole] {
        self.holes.as_ref().map_or(&[], |holes| &holes.0)
    }

    /// True while something below the edge was neither seen nor acknowledged.
    pub(crate) fn has_open_hole(&self) -> bool {
        self.holes().last().is_some_and(|hole| !hole.is_acked)
    }

    /// Packets of up to `segment` bytes that were neither seen nor acknowledged, at least.
    pub(crate) fn open_packets(&self, segment: u64) -> u64 {
        let open = self.holes().iter().rev().take_while(|hole| !hole.is_acked);
        open.map(|hole| hole.packets(segment)).sum()
    }

    pub(crate) fn holes_mut(&mut self) -> &mut [Hole] {
        self.holes.as_mut().map_or(&mut [], |holes| &mut holes.0)
    }

    /// Adds `[start, end)`, seen at `now`; everything below `una` is acknowledged.
    #[inline]
    pub(crate) fn add(&mut self, start: u64, end: u64, now: Instant, stamp: Option<u32>, una: u64) -> Added {
        if start == self.next {
            self.next = end;
            return Added { fresh: end - start, ..Added::default() };
        }
        self.add_elsewhere(start, end, now, stamp, una)
    }

    fn add_elsewhere(&mut self, start: u64, end: u64, now: Instant, stamp: Option<u32>, una: u64) -> Added {
        if end <= start {
            return Added::default();
        }
        let hole = |start, end| Hole { start, end, since: now, stamp, is_acked: false, passed: now };
        if start > self.next {
            let acked = una.clamp(self.next, start);
            if acked > self.next {
                let missed = Hole { is_acked: true, ..hole(self.next, acked) };
                self.push_hole(self.holes().len(), missed);
            }
            if start > acked {
                self.push_hole(self.holes().len(), hole(acked, start));
            }
            let missed = acked - self.next;
            self.next = end;
            return Added { fresh: end - start, missed, ..Added::default() };
        }
        let mut added = Added::default();
        if start < self.first {
            added.fresh += end.min(self.first) - start;
            if end < self.first {
                let gap = hole(end, self.first);
                self.push_hole(0, gap);
            }
            self.first = start;
        }
        if end > self.next {
            added.fresh += end - self.next.max(start);
            self.next = end;
        }
        self.fill(start, end, &mut added);
        added.again = (end - start).saturating_sub(added.fresh);
        added
    }

    /// Takes `[start, end)` out of the holes.
    fn fill(&mut self, start: u64, end: u64, added: &mut Added) {
        let mut at = self.holes().partition_point(|hole| hole.end <= start);
        while let Some(hole) = self.holes_mut().get_mut(at).filter(|hole| hole.start < end) {
            let found = *hole;
            let (from, to) = (found.start.max(start), found.end.min(end));
            added.fresh += to - from;
            added.recovered += if found.is_acked { to - from } else { 0 };
            added.filled.get_or_insert(found);
            match (found.start < from, to < found.end) {
                (false, false) => {
                    self.remove_hole(at);
                    continue;
                }
                (true, false) => hole.end = from,
                (false, true) => hole.start = to,
                (true, true) => {
                    hole.end = from;
                    self.push_hole(at + 1, Hole { start: to, ..found });
                    at += 1;
                }
            }
            at += 1;
        }
    }

    fn push_hole(&mut self, at: usize, hole: Hole) {
        let Holes(holes) = &mut **self.holes.get_or_insert_default();
        holes.insert(at.min(holes.len()), hole);
        if holes.len() > HOLES_MAX {
            holes.remove(0);
        }
    }

    fn remove_hole(&mut self, at: usize) {
        if let Some(holes) = &mut self.holes {
            holes.0.remove(at);
        }
    }

    /// Everything below `ack` has arrived: gives what of it, among packets of up to `segment` bytes, the capture
    /// missed and was not yet told. What lies above all that was seen may come yet.
    pub(crate) fn acknowledge(&mut self, ack: u64, segment: u64) -> Missed {
        let mut missed = Missed::default();
        let below = self.holes_mut().iter_mut().rev().filter(|hole| hole.end <= ack);
        for hole in below.take_while(|hole| !hole.is_acked) {
            hole.is_acked = true;
            missed.bytes += hole.end - hole.start;
            missed.packets += hole.packets(segment);
        }
        missed
    }
}

impl Hole {
    /// Packets of up to `segment` bytes that it stands for, at least.
    fn packets(&self, segment: u64) -> u64 {
        (self.end - self.start).div_ceil(segment.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn counts_agree_with_a_set_of_bytes(ranges in prop::collection::vec((0_u64..200, 1_u64..40), 1..60)) {
            let mut seen = BTreeSet::new();
            let first = 1000 + ranges[0].0;
            let mut coverage = Coverage::new(first);
            for (start, len) in ranges {
                let (start, end) = (1000 + start, 1000 + start + len);
                let fresh = (start..end).filter(|byte| seen.insert(*byte)).count() as u64;
                let added = coverage.add(start, end, Instant::ZERO, None, 0);
                prop_assert_eq!((added.fresh, added.again), (fresh, len - fresh));
                let in_holes: u64 = coverage.holes().iter().map(|h| h.end - h.start).sum();
                prop_assert_eq!(coverage.next - coverage.first - in_holes, seen.len() as u64);
                prop_assert!(coverage.holes().windows(2).all(|w| w[0].end < w[1].start));
            }
        }

        #[test]
        fn positions_follow_the_wrap(start: u32, steps in prop::collection::vec(-100_000_i64..1_000_000, 1..50)) {
            let mut exact = first_position(SeqNum::new(start));
            for step in steps {
                let next = exact.wrapping_add_signed(step);
                prop_assert_eq!(unwrap(exact, SeqNum::new(next as u32)), next);
                exact = next;
            }
        }
    }

    #[test]
    fn a_gap_of_the_capture_is_told_once() {
        let ms = Instant::from_millis;
        let mut coverage = Coverage::new(100);
        coverage.add(100, 200, Instant::ZERO, None, 100);
        coverage.add(300, 400, Instant::ZERO, None, 100);
        assert_eq!(coverage.open_packets(60), 2);
        assert_eq!(coverage.acknowledge(400, 60), Missed { bytes: 100, packets: 2 });
        assert_eq!(coverage.acknowledge(400, 60), Missed::default());
        assert_eq!(coverage.open_packets(60), 0);
        // It was never seen, so its first sight is no repetition.
        let late = coverage.add(200, 300, ms(4), None, 400);
        assert_eq!((late.again, late.recovered), (0, 100));
    }

    #[test]
    fn what_is_acknowledged_before_it_is_seen_is_no_gap_until_it_is_passed() {
        let ms = Instant::from_millis;
        let mut coverage = Coverage::new(100);
        assert_eq!(coverage.acknowledge(400, 100), Missed::default());
        let first = coverage.add(100, 200, ms(1), None, 400);
        assert_eq!((first.fresh, first.missed, first.filled.is_some()), (100, 0, false));
        // Up to 400 the receiver has all; what follows up to 450 may be lost.
        let passed = coverage.add(450, 500, ms(2), None, 400);
        assert_eq!((passed.fresh, passed.missed), (50, 200));
        assert_eq!(
            coverage.holes().iter().map(|h| (h.start, h.end, h.is_acked)).collect::<Vec<_>>(),
            [(200, 400, true), (400, 450, false)]
        );
        assert!(coverage.has_open_hole());
    }
}
