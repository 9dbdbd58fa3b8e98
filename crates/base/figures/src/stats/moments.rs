//! [`Moments`]: mean and standard deviation.

use core::fmt;

/// Mean and standard deviation of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Number of values, at least one.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sum of the squares of what differs from the mean.
    squares: f64,
}

impl Moments {
    /// Moments of `values`; none if there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        Some(Self { count: values.len(), mean, squares })
    }

    /// A mean and the deviation of a sample that somebody else tells, without the number of values: it
    /// counts as two.
    #[must_use]
    pub const fn told(mean: f64, deviation: f64) -> Self {
        Self { count: 2, mean, squares: deviation * deviation }
    }

    /// Standard deviation of a sample (n − 1): what is told of runs, which stand for those that could have
    /// been made. None for a single value.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }

    /// Standard deviation of these values (n): where they are all there are, as the bins of a trace or the
    /// packets of a run.
    #[must_use]
    pub fn population_deviation(&self) -> f64 {
        (self.squares / self.count as f64).sqrt()
    }
}

impl fmt::Display for Moments {
    /// `1.25 ±0.50`, or `1.25` for a single value; the precision is that of both.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(2);
        write!(f, "{:.decimals$}", self.mean)?;
        self.deviation().map_or(Ok(()), |deviation| write!(f, " ±{deviation:.decimals$}"))
    }
}

/// The arithmetic mean; none of no values.
#[must_use]
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Moments::of(values).map(|moments| moments.mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_none_one_and_more() {
        assert_eq!((Moments::of([]), mean([])), (None, None));
        let one = Moments::of([3.0]).unwrap();
        assert_eq!((one.mean, one.count, one.deviation(), one.population_deviation()), (3.0, 1, None, 0.0));
        assert_eq!(
            (format!("{one}"), format!("{:.1}", Moments::of([1.0, 2.0]).unwrap())),
            ("3.00".into(), "1.5 ±0.7".into())
        );
        assert_eq!(Moments::told(4.0, 0.5).deviation(), Some(0.5));
        let many = Moments::of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((many.mean, many.population_deviation()), (5.0, 2.0));
        assert!((many.deviation().unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
    }
}
