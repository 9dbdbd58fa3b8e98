//! Means, medians with intervals, and a rank test: deterministic, without random resampling.

use core::fmt;

/// A median and where it may lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// Lower end of the 95 % confidence interval; none for fewer than six values.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// 5th percentile.
    pub p5: f64,
    /// 95th percentile.
    pub p95: f64,
}

/// Mean and standard deviation of a sample (n − 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Mean.
    pub mean: f64,
    /// Standard deviation; none for fewer than two values.
    pub deviation: Option<f64>,
}

impl Moments {
    /// Of `values`; none if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        Some(Self { mean, deviation: (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()) })
    }
}

impl fmt::Display for Moments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.deviation {
            Some(deviation) => write!(f, "{:.3} ({deviation:.3})", self.mean),
            None => write!(f, "{:.3} (-)", self.mean),
        }
    }
}

/// The 95 % confidence interval of the mean of `values` (Student's t); none for fewer than two.
#[must_use]
pub fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    /// Two-sided 95 % quantiles of Student's t for 1 to 20 degrees of freedom.
    const T: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    let moments = Moments::of(values)?;
    let (n, deviation) = (values.len(), moments.deviation?);
    // Beyond the table the normal quantile with its first correction is right to three digits.
    let t = T.get(n - 2).copied().unwrap_or_else(|| 1.96 + 2.4 / (n - 1) as f64);
    let half = t * deviation / (n as f64).sqrt();
    Some((moments.mean - half, moments.mean + half))
}

/// The median with its 95 % confidence interval from order statistics (normal approximation of the binomial ranks).
#[must_use]
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let middle = sorted.get(n / 2)?;
    let median = if n % 2 == 1 { *middle } else { (sorted[n / 2 - 1] + middle) / 2.0 };
    let spread = 1.96 * (n as f64).sqrt() / 2.0;
    let rank = |at: f64| sorted[(at.max(0.0) as usize).min(n - 1)];
    // Below six values not even the whole range holds the median with 95 %.
    let is_enough = n >= 6;
    let share = |share: f64| sorted[((n - 1) as f64 * share).round() as usize];
    Some(Interval {
        median,
        low: is_enough.then(|| rank((n as f64 / 2.0 - spread).floor())),
        high: is_enough.then(|| rank((n as f64 / 2.0 + spread).ceil())),
        p5: share(0.05),
        p95: share(0.95),
    })
}

/// Two-sided p-value of the Mann-Whitney test that both samples come from one distribution (normal approximation with
/// ties); none when either has fewer than four values.
#[must_use]
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() < 4 || b.len() < 4 {
        return None;
    }
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|v| (*v, true)).chain(b.iter().map(|v| (*v, false))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut rank_sum, mut ties, mut at) = (0.0, 0.0, 0);
    while at < all.len() {
        let end = at + all[at..].iter().take_while(|one| one.0.total_cmp(&all[at].0).is_eq()).count();
        let size = (end - at) as f64;
        let rank = (at + 1 + end) as f64 / 2.0;
        rank_sum += rank * all[at..end].iter().filter(|one| one.1).count() as f64;
        ties += size * size * size - size;
        at = end;
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let total = n + m;
    let u = rank_sum - n * (n + 1.0) / 2.0;
    let variance = n * m / 12.0 * ((total + 1.0) - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return Some(1.0);
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    Some(two_sided(z))
}

/// Two-sided tail of the normal distribution (Abramowitz and Stegun 7.1.26: right within 1.5e-7).
fn two_sided(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    poly * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_have_intervals_by_rank() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let interval = median_interval(&values).unwrap();
        assert_eq!(interval.median, 50.5);
        // Ranks 40 and 61 of 100 are the textbook's.
        assert!((40.0..=42.0).contains(&interval.low.unwrap()), "{interval:?}");
        assert!((60.0..=62.0).contains(&interval.high.unwrap()), "{interval:?}");
        assert!(median_interval(&[1.0, 2.0]).unwrap().low.is_none());
        assert!(median_interval(&[]).is_none());
    }

    #[test]
    fn ranks_tell_samples_apart() {
        let low: Vec<f64> = (0..20).map(f64::from).collect();
        let high: Vec<f64> = (15..35).map(f64::from).collect();
        assert!(mann_whitney(&low, &low).unwrap() > 0.9);
        assert!(mann_whitney(&low, &high).unwrap() < 0.001);
        assert_eq!(mann_whitney(&[1.0; 5], &[1.0; 5]), Some(1.0));
        // scipy.stats.mannwhitneyu([1..8], [5..12], method="asymptotic"): p = 0.0135.
        let a: Vec<f64> = (1..=8).map(f64::from).collect();
        let b: Vec<f64> = (5..=12).map(f64::from).collect();
        assert!((mann_whitney(&a, &b).unwrap() - 0.0135).abs() < 0.002, "{:?}", mann_whitney(&a, &b));
    }

    #[test]
    fn deviation_is_that_of_a_sample() {
        let moments = Moments::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(moments.mean, 5.0);
        assert!((moments.deviation.unwrap() - 2.138).abs() < 0.001);
    }
}
