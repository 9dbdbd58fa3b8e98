//! Sorted, disjoint intervals of sequence numbers: what lies above a hole.

use units::SeqNum;

/// Holes remembered at most; data behind more of them is refused and must be sent again.
///
/// A window of 2 MB in which every second segment is missing has about 700.
const INTERVALS_MAX: usize = 1_024;

/// Numbers from `start` up to, but not including, `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(crate) struct Interval {
    pub start: SeqNum,
    pub end: SeqNum,
}

impl Interval {
    pub(crate) fn new(start: SeqNum, end: SeqNum) -> Self {
        Self { start, end }
    }

    pub(crate) fn contains(self, seq: SeqNum) -> bool {
        self.start.is_at_or_before(seq) && seq.is_before(self.end)
    }
}

/// Half-open intervals in order, none touching another.
///
/// INVARIANT: all lie within half the circle of one reference point (the owner's `rcv_nxt`), so that
/// the order of sequence numbers is total among them.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(crate) struct Intervals(Vec<Interval>);

impl Intervals {
    pub(crate) const EMPTY: Self = Self(Vec::new());

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first interval that reaches `seq` or lies after it.
    fn position(&self, seq: SeqNum) -> usize {
        self.0.partition_point(|other| other.end.is_before(seq))
    }

    /// True when there are few enough to add `new`, or it touches one.
    pub(crate) fn admits(&self, new: Interval) -> bool {
        let touches = |other: &Interval| other.start.is_at_or_before(new.end);
        self.0.len() < INTERVALS_MAX || self.0.get(self.position(new.start)).is_some_and(touches)
    }

    /// Adds `new`; calls `fresh` for each part of it that was not covered before.
    pub(crate) fn insert(&mut self, new: Interval, mut fresh: impl FnMut(Interval)) {
        let first = self.position(new.start);
        let mut last = first;
        let mut merged = new;
        let mut cursor = new.start;
        while let Some(&other) = self.0.get(last).filter(|other| other.start.is_at_or_before(new.end)) {
            if cursor.is_before(other.start) {
                fresh(Interval::new(cursor, other.start));
            }
            cursor = cursor.later_of(other.end);
            merged.start = merged.start.earlier_of(other.start);
            merged.end = merged.end.later_of(other.end);
            last += 1;
        }
        if cursor.is_before(new.end) {
            fresh(Interval::new(cursor, new.end));
        }
        self.0.splice(first..last, [merged]);
    }

    /// Removes the intervals that start at or before `seq`, giving the end of the last if that lies beyond
    /// `seq`.
    pub(crate) fn take_reached(&mut self, seq: SeqNum) -> Option<SeqNum> {
        let mut reached = None;
        while let Some(&first) = self.0.first() {
            if first.start.is_after(seq) {
                break;
            }
            reached = Some(first.end);
            self.0.remove(0);
        }
        reached.filter(|end| end.is_after(seq))
    }

    /// The interval containing `seq`.
    pub(crate) fn containing(&self, seq: SeqNum) -> Option<Interval> {
        self.0.get(self.position(seq)).copied().filter(|interval| interval.contains(seq))
    }

    /// True when all of `part` is covered.
    pub(crate) fn covers(&self, part: Interval) -> bool {
        self.containing(part.start).is_some_and(|interval| part.end.is_at_or_before(interval.end))
    }

    /// All intervals, lowest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Interval> + '_ {
        self.0.iter().copied()
    }

    /// End of the highest interval.
    pub(crate) fn highest(&self) -> Option<SeqNum> {
        self.0.last().map(|interval| interval.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a set of single bytes.
        #[test]
        fn insert_equals_a_set_of_bytes(base: u32, adds in proptest::collection::vec((0u32..300, 1u32..40), 1..40)) {
            let at = |n: u32| SeqNum::new(base) + n;
            let mut intervals = Intervals::default();
            let mut bytes = std::collections::BTreeSet::new();
            for (start, len) in adds {
                let mut fresh = Vec::new();
                intervals.insert(Interval::new(at(start), at(start + len)), |part| {
                    fresh.extend((0..part.end.since(part.start)).map(|k| part.start.since(SeqNum::new(base)) + k));
                });
                let expected: Vec<u32> = (start..start + len).filter(|b| !bytes.contains(b)).collect();
                prop_assert_eq!(fresh, expected);
                bytes.extend(start..start + len);
            }
            let covered: Vec<u32> = intervals.iter()
                .flat_map(|i| (i.start.since(SeqNum::new(base))..i.end.since(SeqNum::new(base))).collect::<Vec<_>>())
                .collect();
            prop_assert_eq!(covered, bytes.into_iter().collect::<Vec<_>>());
            let pairs: Vec<_> = intervals.iter().collect();
            for pair in pairs.windows(2) {
                prop_assert!(pair[0].end.is_before(pair[1].start));
            }
        }
    }

    #[test]
    fn too_many_holes_are_refused() {
        let mut intervals = Intervals::default();
        let of = |start: u32, end: u32| Interval::new(SeqNum::new(start), SeqNum::new(end));
        for i in 0..INTERVALS_MAX as u32 {
            assert!(intervals.admits(of(i * 10, i * 10 + 5)));
            intervals.insert(of(i * 10, i * 10 + 5), |_| ());
        }
        assert!(!intervals.admits(of(50_000, 50_005)));
        assert!(!intervals.admits(of(6, 9)), "it touches none");
        // Closing a hole is always possible.
        assert!(intervals.admits(of(5, 10)) && intervals.admits(of(7, 10)) && intervals.admits(of(5, 7)));
    }
}
