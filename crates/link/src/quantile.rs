//! Percentiles by nearest rank: always a value that occurred.

use units::Duration;

/// The smallest value with at least `per_mille` thousandths of all values at or below it.
///
/// `sorted` is in rising order; none when it is empty. `per_mille` above 1000 is taken as 1000.
#[must_use]
pub fn percentile<T: Copy>(sorted: &[T], per_mille: u32) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    let rank = (sorted.len() as u128 * u128::from(per_mille.min(1000))).div_ceil(1000);
    let index = usize::try_from(rank).unwrap_or(usize::MAX).saturating_sub(1);
    sorted.get(index.min(last)).copied()
}

/// A set of delays in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Percentiles {
    /// Number of values.
    pub count: u64,
    /// Mean, rounded down.
    pub mean: Duration,
    /// 5th percentile.
    pub p5: Duration,
    /// Median.
    pub p50: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Largest.
    pub max: Duration,
}

impl Percentiles {
    /// Figures of `values`, all zero when there is none.
    #[must_use]
    pub fn of(mut values: Vec<Duration>) -> Self {
        values.sort_unstable();
        let at = |per_mille| percentile(&values, per_mille).unwrap_or_default();
        let sum: u128 = values.iter().map(|value| u128::from(value.as_nanos())).sum();
        let mean = sum.checked_div(values.len() as u128).unwrap_or(0);
        Self {
            count: values.len() as u64,
            mean: Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)),
            p5: at(50),
            p50: at(500),
            p95: at(950),
            p99: at(990),
            max: at(1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let values = [10, 20, 30, 40];
        let got = [0, 250, 251, 500, 950, 1000].map(|p| percentile(&values, p));
        assert_eq!(got, [10, 10, 20, 20, 40, 40].map(Some));
        assert_eq!(percentile::<u8>(&[], 500), None);
    }

    #[test]
    fn figures_of_a_set() {
        let set = Percentiles::of((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!(
            (set.count, set.p50, set.p99),
            (100, Duration::from_millis(50), Duration::from_millis(99))
        );
        assert_eq!((set.mean, set.max), (Duration::from_micros(50_500), Duration::from_millis(100)));
        assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
    }
}
