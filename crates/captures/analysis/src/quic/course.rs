//! [`Course`]: a flow's throughput over time in a bounded number of bins.

use units::{Duration, Instant};

use crate::direction::{Direction, PerDirection};

/// Bins at most; when a flow lasts longer two become one.
const BINS_MAX: usize = 128;
/// Width of the first bins.
const WIDTH_MIN: Duration = Duration::from_millis(100);
/// Doublings of the width at most: bins of 120 days.
const DOUBLINGS_MAX: u32 = 27;

/// Bytes of each direction in bins of equal width from the first packet on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    bins: Vec<PerDirection<u64>>,
    doublings: u32,
}

impl Course {
    /// Counts `bytes`, sent `after` the flow's first packet.
    pub(crate) fn add(&mut self, direction: Direction, after: Duration, bytes: u64) {
        let mut bin = after.as_nanos() / self.width().as_nanos();
        while bin >= BINS_MAX as u64 && self.doublings < DOUBLINGS_MAX {
            self.double();
            bin /= 2;
        }
        let bin = (bin as usize).min(BINS_MAX - 1);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, PerDirection::default());
        }
        if let Some(bin) = self.bins.get_mut(bin) {
            bin[direction] += bytes;
        }
    }

    fn double(&mut self) {
        self.doublings += 1;
        for at in 0..self.bins.len().div_ceil(2) {
            let pair = self.bins.get(2 * at..).unwrap_or_default();
            let sum = |direction| pair.iter().take(2).map(|bin| bin[direction]).sum();
            let joined = PerDirection::each(sum);
            if let Some(bin) = self.bins.get_mut(at) {
                *bin = joined;
            }
        }
        self.bins.truncate(self.bins.len().div_ceil(2));
    }

    /// Width of a bin.
    pub(crate) fn width(&self) -> Duration {
        WIDTH_MIN * (1 << self.doublings)
    }

    /// Bytes of `direction` in each bin.
    pub(crate) fn bytes(&self, direction: Direction) -> Vec<u64> {
        self.bins.iter().map(|bin| bin[direction]).collect()
    }
}

/// First and last packet of something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    bounds: Option<(Instant, Instant)>,
}

impl Span {
    pub(crate) fn add(&mut self, now: Instant) {
        let (first, last) = self.bounds.unwrap_or((now, now));
        self.bounds = Some((first, last.max(now)));
    }

    /// Time from the first to the last; none without a packet.
    pub(crate) fn duration(self) -> Option<Duration> {
        self.bounds.map(|(first, last)| last.saturating_since(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bins_keep_all_bytes_and_stay_few(packets in prop::collection::vec((0_u64..4_000_000, any::<bool>(), 0_u64..2_000), 1..200)) {
            let mut course = Course::default();
            let mut sums = [0, 0];
            for (ms, is_second, bytes) in &packets {
                let direction = Direction::from_second_if(*is_second);
                course.add(direction, Duration::from_millis(*ms), *bytes);
                sums[usize::from(*is_second)] += bytes;
            }
            for direction in Direction::BOTH {
                let bins = course.bytes(direction);
                prop_assert_eq!(bins.iter().sum::<u64>(), sums[usize::from(direction)]);
                prop_assert!(bins.len() <= BINS_MAX);
                // Each where it belongs.
                for (at, bin) in bins.iter().enumerate() {
                    let is_here = |ms: u64| (Duration::from_millis(ms).as_nanos() / course.width().as_nanos()) as usize == at;
                    let own: u64 = packets.iter().filter(|p| is_here(p.0) && p.1 == (direction == Direction::FromSecond)).map(|p| p.2).sum();
                    prop_assert_eq!(own, *bin);
                }
            }
        }
    }

    #[test]
    fn times_beyond_all_bins_go_to_the_last_one() {
        let mut course = Course::default();
        course.add(Direction::FromFirst, Duration::MAX, 7);
        assert_eq!(course.bytes(Direction::FromFirst).last(), Some(&7));
    }
}
