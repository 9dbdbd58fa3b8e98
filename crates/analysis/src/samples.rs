//! [`Samples`]: count, extremes, exact mean and deviation, and percentiles in little memory.

use smallvec::SmallVec;
use units::Duration;

/// Sub-buckets per power of two: percentiles are right within 0.8 %.
const FINENESS: u32 = 6;

/// A set of times. Mean and deviation are exact, percentiles come from logarithmic buckets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    count: u64,
    min: u64,
    max: u64,
    sum: u64,
    sum_of_squares: u128,
    /// Where the last one went: the next is likely to go there too.
    last: u32,
    /// Bucket and count, in order; the round-trip times of a short flow fill only a few.
    buckets: SmallVec<[(u16, u32); 4]>,
}

impl Samples {
    pub(crate) fn record(&mut self, value: Duration) {
        let ns = value.as_nanos();
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.max = self.max.max(ns);
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
        self.sum_of_squares = self.sum_of_squares.saturating_add(u128::from(ns) * u128::from(ns));
        let bucket = bucket_of(ns);
        if let Some(entry) = self.buckets.get_mut(self.last as usize).filter(|entry| entry.0 == bucket) {
            entry.1 = entry.1.saturating_add(1);
            return;
        }
        let found = self.buckets.binary_search_by_key(&bucket, |b| b.0);
        self.last = found.unwrap_or_else(|at| at) as u32;
        match found {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(1),
            Err(at) => self.buckets.insert(at, (bucket, 1)),
        }
    }

    /// A new set with the memory that this one holds.
    pub(crate) fn renewed(&mut self) -> Self {
        let mut buckets = std::mem::take(&mut self.buckets);
        buckets.clear();
        Self { buckets, ..Self::default() }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn min(&self) -> Option<Duration> {
        (self.count > 0).then_some(Duration::from_nanos(self.min))
    }

    pub(crate) fn max(&self) -> Option<Duration> {
        (self.count > 0).then_some(Duration::from_nanos(self.max))
    }

    /// Arithmetic mean in nanoseconds.
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Standard deviation of the sample (n − 1) in nanoseconds; none for fewer than two.
    pub(crate) fn deviation_ns(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let (n, sum) = (self.count as f64, self.sum as f64);
        let variance = (self.sum_of_squares as f64 - sum * sum / n) / (n - 1.0);
        Some(variance.max(0.0).sqrt())
    }

    /// The values with so many percent of all at or below them, by the nearest rank; `percents` rise.
    pub(crate) fn percentiles<const N: usize>(&self, percents: [u64; N]) -> [Option<Duration>; N] {
        let mut buckets = self.buckets.iter();
        let (mut seen, mut value) = (0, self.min);
        percents.map(|percent| {
            let rank = (self.count * percent).div_ceil(100).max(1);
            while seen < rank {
                // Counts saturate: then there are fewer than the rank says.
                let Some(&(bucket, count)) = buckets.next() else { return self.max() };
                seen += u64::from(count);
                value = middle_of(bucket).clamp(self.min, self.max);
            }
            Some(Duration::from_nanos(value))
        })
    }
}

fn bucket_of(value: u64) -> u16 {
    let exponent = value.checked_ilog2().unwrap_or(0);
    if exponent < FINENESS {
        return value as u16;
    }
    let shift = exponent - FINENESS;
    ((u64::from(shift) << FINENESS) + (value >> shift)) as u16
}

fn middle_of(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < 1 << (FINENESS + 1) {
        return bucket;
    }
    let shift = (bucket >> FINENESS) - 1;
    let low = (bucket - (shift << FINENESS)) << shift;
    low + (1 << shift >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buckets_are_in_order_and_fine_enough(value in 0_u64..u64::MAX / 2) {
            let middle = middle_of(bucket_of(value));
            prop_assert!(middle.abs_diff(value) as f64 <= value as f64 / 127.0);
            prop_assert!(bucket_of(value) <= bucket_of(value + 1));
        }

        #[test]
        fn percentiles_are_near_the_exact_ones(mut values in prop::collection::vec(0_u64..10_000_000_000, 1..300)) {
            let mut samples = Samples::default();
            values.iter().for_each(|v| samples.record(Duration::from_nanos(*v)));
            values.sort_unstable();
            let percents = [50, 95, 99, 100];
            for (percent, found) in percents.into_iter().zip(samples.percentiles(percents)) {
                let exact = values[(values.len() * percent as usize).div_ceil(100).max(1) - 1];
                let found = found.unwrap().as_nanos();
                prop_assert!(found.abs_diff(exact) as f64 <= exact as f64 / 64.0);
            }
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((samples.mean_ns().unwrap() - mean).abs() <= mean / 1e9);
        }
    }

    #[test]
    fn nothing_is_not_zero() {
        let samples = Samples::default();
        assert!(
            samples.mean_ns().is_none() && samples.percentiles([50]) == [None] && samples.min().is_none()
        );
    }
}
