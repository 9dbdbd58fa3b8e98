//! [`Percentiles`]: a set of delays in figures.

use figures::stats::percentile;
use units::Duration;

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
