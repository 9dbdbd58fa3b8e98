//! [`Agenda`]: when each of many nodes next has something to do.

use units::Instant;

/// A tournament tree over the deadlines of a row of nodes: a change costs the logarithm of their number,
/// the earliest of all nothing.
#[derive(Clone, Debug)]
pub(super) struct Agenda {
    /// The root at 1, the children of `n` at `2 n` and `2 n + 1`, the leaves from `leaves` on.
    tree: Vec<Option<Instant>>,
    leaves: usize,
}

impl Agenda {
    pub(super) fn new(deadlines: impl ExactSizeIterator<Item = Option<Instant>>) -> Self {
        let leaves = deadlines.len().next_power_of_two();
        let mut agenda = Self { tree: vec![None; 2 * leaves], leaves };
        for (index, deadline) in deadlines.enumerate() {
            agenda.set(index, deadline);
        }
        agenda
    }

    /// The earliest of all.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.tree[1]
    }

    /// Sets the deadline of node `index`.
    pub(super) fn set(&mut self, index: usize, deadline: Option<Instant>) {
        let mut node = self.leaves + index;
        self.tree[node] = deadline;
        while node > 1 {
            node /= 2;
            let earliest = [self.tree[2 * node], self.tree[2 * node + 1]].into_iter().flatten().min();
            if self.tree[node] == earliest {
                return;
            }
            self.tree[node] = earliest;
        }
    }

    /// The first node from `from` on that is due at `now`.
    pub(super) fn next_due(&self, from: usize, now: Instant) -> Option<usize> {
        let is_due = |node: usize| self.tree[node].is_some_and(|at| at <= now);
        if from >= self.leaves {
            return None;
        }
        let mut node = self.leaves + from;
        while !is_due(node) {
            node += 1;
            if node.is_power_of_two() {
                return None;
            }
            // A left child's parent begins where it begins.
            node >>= node.trailing_zeros();
        }
        while node < self.leaves {
            node *= 2;
            node += usize::from(!is_due(node));
        }
        Some(node - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Option<Instant> {
        Some(Instant::from_millis(ms))
    }

    #[test]
    fn nobody_is_never_due() {
        let agenda = Agenda::new([].into_iter());
        assert_eq!((agenda.earliest(), agenda.next_due(0, Instant::from_millis(9))), (None, None));
    }

    proptest! {
        #[test]
        fn it_answers_like_a_search_through_all(
            first in prop::collection::vec(prop::option::of(0_u64..20), 1..20),
            changes in prop::collection::vec((0_usize..20, prop::option::of(0_u64..20)), 0..40),
            now in 0_u64..20,
        ) {
            let mut all: Vec<_> = first.into_iter().map(|ms| ms.and_then(at)).collect();
            let mut agenda = Agenda::new(all.clone().into_iter());
            for (index, ms) in changes {
                let index = index % all.len();
                all[index] = ms.and_then(at);
                agenda.set(index, all[index]);
            }
            prop_assert_eq!(agenda.earliest(), all.iter().flatten().min().copied());
            let now = Instant::from_millis(now);
            for from in 0..=all.len() {
                let due = (from..all.len()).find(|&index| all[index].is_some_and(|at| at <= now));
                prop_assert_eq!(agenda.next_due(from, now), due);
            }
        }
    }
}
