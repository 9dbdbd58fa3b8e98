//! Sorted, disjoint intervals of sequence numbers: what lies above a hole.

use units::SeqNum;

/// Holes remembered at most; data behind more of them is refused and must be sent again.
///
/// A window of 2 MB in which every second segment is missing has about 700.
const INTERVALS_MAX: usize = 1_024;

/// Half-open intervals `[start, end)` in order, none touching another.
///
/// INVARIANT: all lie within half the circle of one reference point (the owner's `rcv_nxt`), so that
/// the order of sequence numbers is total among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals(Vec<(SeqNum, SeqNum)>);

impl Intervals {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first interval that reaches `seq` or lies after it.
    fn position(&self, seq: SeqNum) -> usize {
        self.0.partition_point(|&(_, end)| end.is_before(seq))
    }

    /// Adds `[start, end)`; calls `fresh(from, to)` for each part that was not covered before.
    ///
    /// Returns the interval that now contains it, or `None` when there are too many to add another.
    pub(crate) fn insert(
        &mut self,
        start: SeqNum,
        end: SeqNum,
        mut fresh: impl FnMut(SeqNum, SeqNum),
    ) -> Option<(SeqNum, SeqNum)> {
        let first = self.position(start);
        let mut last = first;
        let mut merged = (start, end);
        let mut cursor = start;
        while let Some(&(s, e)) = self.0.get(last).filter(|&&(s, _)| s.is_at_or_before(end)) {
            if cursor.is_before(s) {
                fresh(cursor, s);
            }
            cursor = cursor.later_of(e);
            merged = (merged.0.earlier_of(s), merged.1.later_of(e));
            last += 1;
        }
        if last == first && self.0.len() >= INTERVALS_MAX {
            return None;
        }
        if cursor.is_before(end) {
            fresh(cursor, end);
        }
        self.0.splice(first..last, [merged]);
        Some(merged)
    }

    /// Removes the interval that starts at or before `seq`, giving its end if that lies beyond `seq`.
    pub(crate) fn take_reached(&mut self, seq: SeqNum) -> Option<SeqNum> {
        let mut reached = None;
        while let Some(&(start, end)) = self.0.first() {
            if start.is_after(seq) {
                break;
            }
            reached = Some(end);
            self.0.remove(0);
        }
        reached.filter(|end| end.is_after(seq))
    }

    /// The interval containing `seq`.
    pub(crate) fn containing(&self, seq: SeqNum) -> Option<(SeqNum, SeqNum)> {
        self.0.get(self.position(seq)).copied().filter(|&(s, e)| s.is_at_or_before(seq) && seq.is_before(e))
    }

    /// True when all of `[start, end)` is covered.
    pub(crate) fn covers(&self, start: SeqNum, end: SeqNum) -> bool {
        self.containing(start).is_some_and(|(_, e)| end.is_at_or_before(e))
    }

    /// All intervals, lowest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (SeqNum, SeqNum)> + '_ {
        self.0.iter().copied()
    }

    /// End of the highest interval.
    pub(crate) fn highest(&self) -> Option<SeqNum> {
        self.0.last().map(|&(_, end)| end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a set of single bytes.
        #[test]
        fn insert_equals_a_set_of_bytes(base: u32, adds in proptest::collection::vec((0u32..300, 1u32..40), 1..40)) {
            let at = |n: u32| SeqNum::new(base) + n;
            let mut intervals = Intervals::default();
            let mut bytes = std::collections::BTreeSet::new();
            for (start, len) in adds {
                let mut fresh = Vec::new();
                intervals.insert(at(start), at(start + len), |a, b| {
                    fresh.extend((0..b.since(a)).map(|k| a.since(SeqNum::new(base)) + k));
                });
                let expected: Vec<u32> = (start..start + len).filter(|b| !bytes.contains(b)).collect();
                prop_assert_eq!(fresh, expected);
                bytes.extend(start..start + len);
            }
            let covered: Vec<u32> = intervals.iter()
                .flat_map(|(a, b)| (a.since(SeqNum::new(base))..b.since(SeqNum::new(base))).collect::<Vec<_>>())
                .collect();
            prop_assert_eq!(covered, bytes.into_iter().collect::<Vec<_>>());
            let pairs: Vec<_> = intervals.iter().collect();
            for pair in pairs.windows(2) {
                prop_assert!(pair[0].1.is_before(pair[1].0));
            }
        }
    }

    #[test]
    fn too_many_holes_are_refused() {
        let mut intervals = Intervals::default();
        for i in 0..INTERVALS_MAX as u32 {
            assert!(intervals.insert(SeqNum::new(i * 10), SeqNum::new(i * 10 + 5), |_, _| ()).is_some());
        }
        assert!(intervals.insert(SeqNum::new(50_000), SeqNum::new(50_005), |_, _| ()).is_none());
        // Closing a hole is always possible.
        assert!(intervals.insert(SeqNum::new(5), SeqNum::new(10), |_, _| ()).is_some());
    }
}
