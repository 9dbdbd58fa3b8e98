//! Intervals of confidence, and a rank test.
//!
//! The distributions are [`statrs`]'s.

use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

use super::{Moments, median, percentile};

/// Share of the distribution below the upper end of a two-sided 95 % interval.
const UPPER: f64 = 0.975;
/// The normal distribution's quantile of that share.
const NORMAL_UPPER: f64 = 1.959_963_985;
/// Fewer values have no 95 % interval of their median: not even the whole range holds it so surely
/// (2·½⁵ > 0.05).
const MEDIAN_MIN: usize = 6;
/// Smaller samples have no [`mann_whitney`]: no order of theirs would be unlikely.
const RANKED_MIN: usize = 4;

/// Half of the 95 % confidence interval of the mean (Student's t with n − 1 degrees of freedom); none for a
/// single value.
#[must_use]
pub fn half_width(moments: &Moments) -> Option<f64> {
    let deviation = moments.deviation()?;
    let distribution = StudentsT::new(0.0, 1.0, (moments.count - 1) as f64).ok()?;
    Some(distribution.inverse_cdf(UPPER) * deviation / (moments.count as f64).sqrt())
}

/// The 95 % confidence interval of the difference of two means, the second one's less the first one's (Welch's t
/// with the degrees of freedom of Welch and Satterthwaite); none where either has a single value.
#[must_use]
pub fn difference_interval(first: &Moments, second: &Moments) -> Option<(f64, f64)> {
    let part = |moments: &Moments| Some(moments.deviation()?.powi(2) / moments.count as f64);
    let (a, b) = (part(first)?, part(second)?);
    let difference = second.mean - first.mean;
    if a + b == 0.0 {
        return Some((difference, difference));
    }
    let share = |part: f64, moments: &Moments| part * part / (moments.count - 1) as f64;
    let freedom = (a + b).powi(2) / (share(a, first) + share(b, second));
    let half = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(UPPER) * (a + b).sqrt();
    Some((difference - half, difference + half))
}

/// Share of the samples of a bootstrap below a 95 % interval, and as many above it, for `count` independent
/// observations: more than 2.5 % would say too much of few, since resampled ones vary by n − 1 of n, and the
/// normal distribution is not Student's (expanded percentiles: [HB]). Rises to 0.025; none for a
/// single one.
#[must_use]
pub fn bootstrap_tail(count: usize) -> Option<f64> {
    let freedom = count.checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(UPPER);
    Some(Normal::standard().cdf(-t * (count as f64 / freedom).sqrt()))
}

/// The 95 % confidence interval of the mean of `values` (Student's t); none for fewer than two.
#[must_use]
pub fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    let moments = Moments::of(values.iter().copied())?;
    half_width(&moments).map(|half| (moments.mean - half, moments.mean + half))
}

/// A median and where it may lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianInterval {
    /// The median.
    pub median: f64,
    /// The 95 % confidence interval; none for fewer than six values.
    pub interval: Option<(f64, f64)>,
    /// 5th percentile.
    pub p5: f64,
    /// 95th percentile.
    pub p95: f64,
}

/// The median with its 95 % confidence interval from order statistics (normal approximation of the binomial
/// ranks).
#[must_use]
pub fn median_interval(values: &[f64]) -> Option<MedianInterval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let spread = NORMAL_UPPER * count.sqrt() / 2.0;
    let rank = |at: f64| sorted.get(at.max(0.0) as usize).or(sorted.last()).copied();
    let interval = rank((count / 2.0 - spread).floor()).zip(rank((count / 2.0 + spread).ceil()));
    Some(MedianInterval {
        median: median(&sorted)?,
        interval: interval.filter(|_| sorted.len() >= MEDIAN_MIN),
        p5: percentile(&sorted, 50)?,
        p95: percentile(&sorted, 950)?,
    })
}

/// Two-sided p-value of the Mann-Whitney test that both samples come from one distribution (normal
/// approximation with ties); none when either has fewer than four values.
#[must_use]
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len().min(b.len()) < RANKED_MIN {
        return None;
    }
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|v| (*v, true)).chain(b.iter().map(|v| (*v, false))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut rank_sum, mut ties, mut before) = (0.0, 0.0, 0.0);
    for equal in all.chunk_by(|x, y| x.0.total_cmp(&y.0).is_eq()) {
        let size = equal.len() as f64;
        let rank = before + (size + 1.0) / 2.0;
        rank_sum += rank * equal.iter().filter(|one| one.1).count() as f64;
        ties += size * size * size - size;
        before += size;
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let total = n + m;
    let u = rank_sum - n * (n + 1.0) / 2.0;
    let variance = n * m / 12.0 * ((total + 1.0) - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return Some(1.0);
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    Some(2.0 * Normal::standard().sf(z))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(range: std::ops::Range<i32>) -> Vec<f64> {
        range.map(f64::from).collect()
    }

    #[test]
    fn a_difference_has_the_interval_of_welch() {
        let of = |values: &[f64]| Moments::of(values.iter().copied()).unwrap();
        // Equal spread and size: the degrees of freedom are 2n - 2, and the quantile of 8 of them is 2.306.
        let (first, second) = (of(&[1.0, 2.0, 3.0, 4.0, 5.0]), of(&[4.0, 5.0, 6.0, 7.0, 8.0]));
        let (low, high) = difference_interval(&first, &second).unwrap();
        assert!((low - (3.0 - 2.306)).abs() < 1e-3 && (high - (3.0 + 2.306)).abs() < 1e-3, "{low} {high}");
        // One without spread: only the other one's degrees of freedom count, 4, with the quantile 2.776.
        let same = of(&[0.0, 0.0, 0.0]);
        let (low, high) = difference_interval(&same, &first).unwrap();
        let half = 2.776 * (2.5_f64 / 5.0).sqrt();
        assert!((low - (3.0 - half)).abs() < 1e-3 && (high - (3.0 + half)).abs() < 1e-3, "{low} {high}");
        assert_eq!(difference_interval(&same, &same), Some((0.0, 0.0)));
        assert_eq!(difference_interval(&of(&[1.0]), &first), None);
    }

    #[test]
    fn intervals_of_means_are_students() {
        // Quantiles of the printed table, for 1, 4, 9, 29 and 99 degrees of freedom.
        for (count, t) in [(2, 12.706), (5, 2.776), (10, 2.262), (30, 2.045), (100, 1.984)] {
            let values = numbers(0..count);
            let moments = Moments::of(values.iter().copied()).unwrap();
            let wanted = t * moments.deviation().unwrap() / f64::from(count).sqrt();
            assert!((half_width(&moments).unwrap() / wanted - 1.0).abs() < 3e-4, "{count}");
            let (low, high) = mean_interval(&values).unwrap();
            assert!((low + high - 2.0 * moments.mean).abs() < 1e-9 && low < high);
        }
        assert_eq!((mean_interval(&[1.0]), mean_interval(&[])), (None, None));
    }

    #[test]
    fn bootstraps_of_few_go_further_out() {
        let tails = [5, 10, 20, 100, 100_000].map(|count| bootstrap_tail(count).unwrap());
        assert!(tails.windows(2).all(|two| two[0] < two[1]) && tails[4] < 0.025, "{tails:?}");
        // By the printed table of t, 2.776 and 2.262, and that of the normal distribution.
        assert!((tails[0] - 0.000_96).abs() < 2e-5 && (tails[1] - 0.008_55).abs() < 5e-5, "{tails:?}");
        assert!((tails[4] - 0.025).abs() < 1e-5, "{tails:?}");
        assert_eq!((bootstrap_tail(1), bootstrap_tail(0)), (None, None));
    }

    #[test]
    fn medians_have_intervals_by_rank() {
        let found = median_interval(&numbers(1..101)).unwrap();
        assert_eq!((found.median, found.p5, found.p95), (50.5, 5.0, 95.0));
        // Ranks 40 and 61 of 100 are the textbook's.
        let (low, high) = found.interval.unwrap();
        assert!((40.0..=42.0).contains(&low) && (60.0..=62.0).contains(&high), "{found:?}");
        assert_eq!(median_interval(&numbers(0..5)).unwrap().interval, None);
        assert_eq!(median_interval(&numbers(0..6)).unwrap().interval, Some((0.0, 5.0)));
        assert_eq!(median_interval(&[]), None);
    }

    #[test]
    fn ranks_tell_samples_apart() {
        let (low, high) = (numbers(0..20), numbers(15..35));
        assert!(mann_whitney(&low, &low).unwrap() > 0.9);
        assert!(mann_whitney(&low, &high).unwrap() < 0.001);
        assert_eq!(mann_whitney(&[1.0; 5], &[1.0; 5]), Some(1.0));
        assert_eq!(mann_whitney(&[1.0; 5], &[1.0; 3]), None);
        // scipy.stats.mannwhitneyu([1..8], [5..12], method="asymptotic"): p = 0.0135.
        let p = mann_whitney(&numbers(1..9), &numbers(5..13)).unwrap();
        assert!((p - 0.0135).abs() < 0.002, "{p}");
    }
}
