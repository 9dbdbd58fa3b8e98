//! [`Meters`]: what is shown of a half beside its counters: levels as running sums, and distributions.
//!
//! Nothing here takes a look at more than the flow that is being handled, so that a caller gets an answer in
//! a time that does not depend on the number of flows. Meters are not part of a stored engine: levels are
//! reckoned anew from the flows when it goes on elsewhere, and the rest begins at zero there.

use units::{Bytes, Duration};

use crate::report::FlowState;

/// Upper bounds of a [`Histogram`]'s buckets, in microseconds; the last bucket has none.
pub const BOUNDS_US: [u64; 12] =
    [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000];

/// Counts of times by their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl Histogram {
    /// Takes in a time.
    #[inline]
    pub(crate) fn record(&mut self, time: Duration) {
        let us = time.as_micros();
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[bucket] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Times in each bucket alone: at most its bound, and more than the bound before. The last one has all that
    /// were longer.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// All times together, in microseconds.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }
}

/// Part of a flow in the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) state: FlowState,
    /// Acknowledged to its source and not by its sink, bytes.
    pub(crate) debt: u32,
}

/// Levels and distributions of a half.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meters {
    /// Flows in the table by state, in the order of [`FlowState::ALL`].
    flows: [u64; FlowState::COUNT],
    debt: u64,
    /// Flows that came into the table: their handshake began.
    pub flows_opened: u64,
    /// Flows that left it.
    pub flows_ended: u64,
    /// Segments with data, or the end of the stream, made for sinks; a super-packet counts as those that the
    /// kernel cuts it into.
    pub data_segments: u64,
    /// Bytes of those, IP headers included.
    pub data_bytes: u64,
    /// Segments of those that had been sent before.
    pub segments_retransmitted: u64,
    /// Payload bytes of those, as soon as they are sent.
    pub bytes_retransmitted: u64,
    /// Acknowledgements by which a sink said that data had arrived twice (D-SACK, RFC 2883): a needless
    /// retransmission, or a copy that the network made.
    pub duplicates_reported: u64,
    /// Round trips between here and the sinks, by segments that were sent once.
    pub round_trip: Histogram,
    /// Excess of each of those over the shortest one that its flow had seen: an estimate of the time spent
    /// in queues.
    pub queueing: Histogram,
}

impl Meters {
    /// Flows in the table in that state.
    #[must_use]
    pub fn flows(&self, state: FlowState) -> u64 {
        self.flows[state.index()]
    }

    /// Bytes acknowledged to sources that sinks have not acknowledged, over all flows.
    #[must_use]
    pub fn debt(&self) -> Bytes {
        Bytes::new(self.debt)
    }

    /// A flow is in the table.
    pub(crate) fn add(&mut self, level: Level) {
        self.flows[level.state.index()] += 1;
        self.debt += u64::from(level.debt);
    }

    /// It is not any more.
    pub(crate) fn remove(&mut self, level: Level) {
        self.flows[level.state.index()] -= 1;
        self.debt -= u64::from(level.debt);
    }

    /// It has changed.
    #[inline]
    pub(crate) fn follow(&mut self, before: Level, after: Level) {
        if before != after {
            self.remove(before);
            self.add(after);
        }
    }

    /// Begins anew with the flows that there are.
    pub(crate) fn reckon(&mut self, levels: impl Iterator<Item = Level>) {
        *self = Self::default();
        levels.for_each(|level| self.add(level));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut histogram = Histogram::default();
        let times = [0, 1_000, 1_001, 5_000_000, 5_000_001, u64::MAX / 2_000];
        times.iter().for_each(|us| histogram.record(Duration::from_micros(*us)));
        let counts = histogram.counts();
        assert_eq!((counts[0], counts[1], counts[11], counts[12]), (2, 1, 1, 2));
        assert_eq!(counts.iter().sum::<u64>(), 6);
        assert_eq!(histogram.sum_us(), times.iter().sum::<u64>());
    }

    #[test]
    fn levels_follow_a_flow() {
        let level = |state, debt| Level { state, debt };
        let mut meters = Meters::default();
        meters.add(level(FlowState::Observing, 0));
        meters.add(level(FlowState::Accelerated, 700));
        meters.follow(level(FlowState::Observing, 0), level(FlowState::Accelerated, 300));
        assert_eq!((meters.flows(FlowState::Accelerated), meters.debt()), (2, Bytes::new(1_000)));
        meters.remove(level(FlowState::Accelerated, 700));
        assert_eq!((meters.flows(FlowState::Accelerated), meters.debt()), (1, Bytes::new(300)));
        meters.reckon([level(FlowState::Closed, 5)].into_iter());
        assert_eq!((meters.flows(FlowState::Accelerated), meters.flows(FlowState::Closed)), (0, 1));
    }
}
