//! [`HalfOpen`]: the handshakes under way, oldest first, of all and of each subscriber.
//!
//! Anybody can send a SYN in anybody's name. So there are so many handshakes at most, and a new one takes the
//! place of the oldest: whoever floods loses his own first, and a handshake of a host has the time in which
//! the whole place is filled once.

use std::collections::BTreeMap;

/// Handshakes under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct HalfOpen {
    /// Number that the next one gets.
    next: u64,
    /// Flows by the number that they got.
    by_age: BTreeMap<u64, u32>,
    /// The same by subscriber.
    by_subscriber: BTreeMap<(u32, u64), u32>,
    /// Number and subscriber of each flow.
    known: BTreeMap<u32, (u64, u32)>,
    /// How many each subscriber has.
    counts: BTreeMap<u32, u32>,
}

impl HalfOpen {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_age.len()
    }

    /// How many a subscriber has.
    pub(crate) fn count_of(&self, subscriber: u32) -> u32 {
        self.counts.get(&subscriber).copied().unwrap_or(0)
    }

    /// A flow's handshake begins.
    pub(crate) fn add(&mut self, flow: u32, subscriber: u32) {
        let number = self.next;
        self.next += 1;
        self.by_age.insert(number, flow);
        self.by_subscriber.insert((subscriber, number), flow);
        self.known.insert(flow, (number, subscriber));
        *self.counts.entry(subscriber).or_default() += 1;
    }

    /// It is over; false when there was none.
    pub(crate) fn remove(&mut self, flow: u32) -> bool {
        let Some((number, subscriber)) = self.known.remove(&flow) else { return false };
        self.by_age.remove(&number);
        self.by_subscriber.remove(&(subscriber, number));
        if let Some(count) = self.counts.get_mut(&subscriber) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&subscriber);
            }
        }
        true
    }

    /// The oldest one.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.by_age.first_key_value().map(|(_, flow)| *flow)
    }

    /// The oldest one of a subscriber.
    pub(crate) fn oldest_of(&self, subscriber: u32) -> Option<u32> {
        self.by_subscriber.range((subscriber, 0)..=(subscriber, u64::MAX)).next().map(|(_, flow)| *flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_comes_first_of_all_and_of_each_subscriber() {
        let mut half_open = HalfOpen::default();
        for (flow, subscriber) in [(7, 1), (3, 2), (9, 1), (4, 2)] {
            half_open.add(flow, subscriber);
        }
        assert_eq!((half_open.len(), half_open.count_of(1), half_open.count_of(3)), (4, 2, 0));
        assert_eq!((half_open.oldest(), half_open.oldest_of(2)), (Some(7), Some(3)));
        assert!(half_open.remove(7) && !half_open.remove(7));
        assert_eq!((half_open.oldest(), half_open.oldest_of(1)), (Some(3), Some(9)));
        for flow in [3, 9, 4] {
            half_open.remove(flow);
        }
        assert_eq!((half_open.len(), half_open.oldest(), half_open.oldest_of(1)), (0, None, None));
        assert!(half_open.counts.is_empty() && half_open.by_subscriber.is_empty());
    }
}
