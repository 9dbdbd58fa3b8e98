//! [`Samples`]: count, extremes, exact mean and deviation, and percentiles in little memory.

use std::marker::PhantomData;

use figures::stats::nearest_rank;
use smallvec::SmallVec;
use units::{Bytes, Duration};

/// Quantity that is sampled in [`Samples`]: a whole number of the smallest unit.
pub(crate) trait Quantity: Copy {
    fn from_units(units: u64) -> Self;
    fn to_units(self) -> u64;
}

/// In nanoseconds.
impl Quantity for Duration {
    #[inline]
    fn from_units(units: u64) -> Self {
        Self::from_nanos(units)
    }
    #[inline]
    fn to_units(self) -> u64 {
        self.as_nanos()
    }
}

impl Quantity for Bytes {
    #[inline]
    fn from_units(units: u64) -> Self {
        Self::new(units)
    }
    #[inline]
    fn to_units(self) -> u64 {
        self.get()
    }
}

/// Sub-buckets per power of two: percentiles are right within 0.8 %.
const FINENESS: u32 = 6;

/// Number of samples in one bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    number: u16,
    count: u32,
}

/// A set of quantities of one kind. Mean and deviation are exact, percentiles come from logarithmic buckets.
#[derive(Clone, Debug)]
pub(crate) struct Samples<T> {
    count: u64,
    min: u64,
    max: u64,
    sum: u64,
    sum_of_squares: u128,
    /// Bucket of the last one: the next is likely to go there too.
    last: u32,
    /// In the order of their numbers; the round-trip times of a short flow fill only a few.
    buckets: SmallVec<[Bucket; 4]>,
    of: PhantomData<T>,
}

impl<T> Default for Samples<T> {
    fn default() -> Self {
        Self {
            count: 0,
            min: 0,
            max: 0,
            sum: 0,
            sum_of_squares: 0,
            last: 0,
            buckets: SmallVec::new(),
            of: PhantomData,
        }
    }
}

impl<T: Quantity> Samples<T> {
    pub(crate) fn record(&mut self, value: T) {
        let units = value.to_units();
        self.min = if self.count == 0 { units } else { self.min.min(units) };
        self.max = self.max.max(units);
        self.count += 1;
        self.sum = self.sum.saturating_add(units);
        self.sum_of_squares = self.sum_of_squares.saturating_add(u128::from(units) * u128::from(units));
        let number = bucket_of(units);
        if let Some(last) = self.buckets.get_mut(self.last as usize).filter(|last| last.number == number) {
            last.count = last.count.saturating_add(1);
            return;
        }
        let found = self.buckets.binary_search_by_key(&number, |bucket| bucket.number);
        self.last = found.unwrap_or_else(|at| at) as u32;
        match found {
            Ok(at) => self.buckets[at].count = self.buckets[at].count.saturating_add(1),
            Err(at) => self.buckets.insert(at, Bucket { number, count: 1 }),
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

    pub(crate) fn min(&self) -> Option<T> {
        (self.count > 0).then(|| T::from_units(self.min))
    }

    pub(crate) fn max(&self) -> Option<T> {
        (self.count > 0).then(|| T::from_units(self.max))
    }

    /// The values at these percentiles, by the nearest rank; `percents` rise.
    pub(crate) fn percentiles<const N: usize>(&self, percents: [u64; N]) -> [Option<T>; N] {
        let mut buckets = self.buckets.iter();
        let (mut seen, mut value) = (0, self.min);
        percents.map(|percent| {
            let rank = nearest_rank(self.count, percent, 100);
            while seen < rank {
                // Counts saturate: then there are fewer than the rank says.
                let Some(bucket) = buckets.next() else { return self.max() };
                seen += u64::from(bucket.count);
                value = middle_of(bucket.number).clamp(self.min, self.max);
            }
            Some(T::from_units(value))
        })
    }
}

impl Samples<Duration> {
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
                let exact = figures::stats::percentile(&values, 10 * percent as u32).unwrap();
                let found = found.unwrap().as_nanos();
                prop_assert!(found.abs_diff(exact) as f64 <= exact as f64 / 64.0);
            }
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((samples.mean_ns().unwrap() - mean).abs() <= mean / 1e9);
        }
    }

    #[test]
    fn nothing_is_not_zero() {
        let samples = Samples::<Duration>::default();
        assert!(
            samples.mean_ns().is_none() && samples.percentiles([50]) == [None] && samples.min().is_none()
        );
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_sample() {
        let mut samples = Samples::default();
        let mut deviations = Vec::new();
        for ms in [2, 4, 4, 4, 5, 5, 7, 9] {
            samples.record(Duration::from_millis(ms));
            deviations.push(samples.deviation_ns());
        }
        assert_eq!((deviations[0], samples.mean_ns()), (None, Some(5e6)), "one value has no deviation");
        // The sum of squared distances is 32, over n − 1 = 7.
        assert!((samples.deviation_ns().unwrap() - (32.0 / 7.0_f64).sqrt() * 1e6).abs() < 1.0);
    }

    #[test]
    fn bytes_go_in_and_bytes_come_out() {
        let mut samples = Samples::default();
        for bytes in [1_000, 0, 3_000] {
            samples.record(Bytes::new(bytes));
        }
        assert_eq!((samples.min(), samples.max()), (Some(Bytes::new(0)), Some(Bytes::new(3_000))));
        let [median] = samples.percentiles([50]).map(|bytes| bytes.unwrap().get());
        assert!(median.abs_diff(1_000) <= 8, "{median}");
        assert_eq!(samples.renewed().count(), 0);
    }
}
