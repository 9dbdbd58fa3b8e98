//! Percentiles by nearest rank: always a value that occurred.
//!
//! The percentile p of n values in rising order is the value of rank ⌈p·n⌉, at least 1: the smallest
//! with at least the share p of all values at or below it ([HF] definition 1). Ranks are counted in integers,
//! so that no share is moved by rounding.

/// The rank, from 1, of the share `part` of `whole` among `count` values; `part` above `whole` is taken as
/// `whole`.
#[must_use]
pub fn nearest_rank(count: u64, part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    let rank = (u128::from(count) * u128::from(part).min(whole)).div_ceil(whole);
    // At most `count`, which is 64 bits wide.
    u64::try_from(rank).unwrap_or(count).max(1)
}

/// The smallest value with at least `per_mille` thousandths of all values at or below it.
///
/// `sorted` is in rising order; none when it is empty. `per_mille` above 1000 is taken as 1000.
#[must_use]
pub fn percentile<T: Copy>(sorted: &[T], per_mille: u32) -> Option<T> {
    at(sorted, u64::from(per_mille), 1000)
}

fn at<T: Copy>(sorted: &[T], part: u64, whole: u64) -> Option<T> {
    let rank = nearest_rank(sorted.len() as u64, part, whole);
    usize::try_from(rank - 1).ok().and_then(|index| sorted.get(index)).copied()
}

/// The same of a histogram: `counts` has values in rising order and how often each occurred; none when
/// nothing did.
#[must_use]
pub fn percentile_of_counts<T>(counts: impl Iterator<Item = (T, u64)> + Clone, per_mille: u32) -> Option<T> {
    let total: u64 = counts.clone().map(|(_, count)| count).sum();
    let rank = nearest_rank(total, u64::from(per_mille), 1000);
    let mut seen = 0;
    let mut counts = counts;
    counts
        .find(|(_, count)| {
            seen += count;
            seen >= rank
        })
        .map(|(value, _)| value)
}

/// `points` values at equal steps of the share, from the smallest to the largest: a cumulative distribution.
/// All values where there are fewer.
#[must_use]
pub fn quantiles<T: Copy>(sorted: &[T], points: usize) -> Vec<T> {
    let points = points.min(sorted.len()) as u64;
    (0..points).filter_map(|point| at(sorted, point, (points - 1).max(1))).collect()
}

/// The middle value; of an even number of values the mean of the middle two.
///
/// This is the usual median of a small sample; the percentile 50 of many values is [`percentile`] of 500,
/// which occurred. `sorted` is in rising order.
#[must_use]
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    sorted.get(middle.checked_sub(1)?).map(|lower| f64::midpoint(*lower, upper))
}

/// The percentiles that are told of many values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles<T> {
    /// Smallest.
    pub min: T,
    /// 5th percentile.
    pub p5: T,
    /// Median.
    pub p50: T,
    /// 95th percentile.
    pub p95: T,
    /// 99th percentile.
    pub p99: T,
    /// Largest.
    pub max: T,
}

impl<T: Copy> Quantiles<T> {
    /// Quantiles of values in rising order; none without any.
    #[must_use]
    pub fn of(sorted: &[T]) -> Option<Self> {
        let at = |per_mille| percentile(sorted, per_mille);
        Some(Self { min: at(0)?, p5: at(50)?, p50: at(500)?, p95: at(950)?, p99: at(990)?, max: at(1000)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let values = [10, 20, 30, 40];
        let got = [0, 250, 251, 500, 950, 1000, 4000].map(|p| percentile(&values, p));
        assert_eq!(got, [10, 10, 20, 20, 40, 40, 40].map(Some));
        assert_eq!(percentile::<u8>(&[], 500), None);
        let quantiles = Quantiles::of(&(1..=100).collect::<Vec<_>>()).unwrap();
        assert_eq!(quantiles, Quantiles { min: 1, p5: 5, p50: 50, p95: 95, p99: 99, max: 100 });
        assert_eq!(Quantiles::<u8>::of(&[]), None);
    }

    #[test]
    fn a_rank_is_within_the_values_however_many() {
        assert_eq!(nearest_rank(0, 1, 2), 1);
        assert_eq!(nearest_rank(u64::MAX, 1000, 1000), u64::MAX);
        assert_eq!(nearest_rank(100, 7, 100), 7, "0.07 times 100 is more than 7 in floating point");
        assert_eq!(nearest_rank(10, 1, 0), 10);
    }

    #[test]
    fn medians_of_odd_and_even_numbers() {
        let got = [&[][..], &[3.0], &[1.0, 2.0], &[1.0, 2.0, 9.0]].map(median);
        assert_eq!(got, [None, Some(3.0), Some(1.5), Some(2.0)]);
    }

    #[test]
    fn a_distribution_keeps_its_ends() {
        let sorted: Vec<u32> = (0..=10_000).collect();
        let curve = quantiles(&sorted, 400);
        assert_eq!((curve.len(), curve[0], curve[399]), (400, 0, 10_000));
        assert_eq!(quantiles(&[1, 2, 3], 400), [1, 2, 3]);
        assert_eq!(quantiles(&[7], 400), [7]);
        assert!(quantiles::<u8>(&[], 400).is_empty() && quantiles(&[1], 0).is_empty());
    }

    proptest! {
        #[test]
        fn a_histogram_says_the_same(mut values in vec(0_u8..20, 0..200), share in 0_u32..1100) {
            values.sort_unstable();
            let counts = (0_u8..20).map(|v| (v, values.iter().filter(|x| **x == v).count() as u64));
            prop_assert_eq!(percentile_of_counts(counts, share), percentile(&values, share));
        }

        #[test]
        fn enough_values_are_at_or_below(mut values in vec(0_u16..500, 1..200), share in 0_u32..=1000) {
            values.sort_unstable();
            let found = percentile(&values, share).unwrap();
            let below = values.partition_point(|v| *v < found) as u64;
            let at_or_below = values.partition_point(|v| *v <= found) as u64;
            let wanted = u64::from(share) * values.len() as u64;
            prop_assert!(at_or_below * 1000 >= wanted);
            prop_assert!(below == 0 || below * 1000 < wanted, "a smaller value would do");
        }
    }
}
