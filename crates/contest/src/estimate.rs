//! [`Estimate`]: what several seeds say about a figure.

use core::fmt;

use serde::{Deserialize, Serialize};

/// A mean over seeds, with how sure it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Half of its 95 % confidence interval (Student's t); none for a single value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<f64>,
}

/// 97.5 % points of Student's t for 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// The same for many.
const NORMAL: f64 = 1.960;

impl Estimate {
    /// Of these values, one per seed; zero for none.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        if values.is_empty() {
            return Self::default();
        }
        let mean = values.iter().sum::<f64>() / count;
        let freedom = values.len() - 1;
        let ci95 = (freedom > 0).then(|| {
            let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / freedom as f64;
            let t = STUDENT.get(freedom - 1).copied().unwrap_or(NORMAL);
            t * (variance / count).sqrt()
        });
        Self { mean, ci95 }
    }

    /// Times `factor`, for another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, ci95: self.ci95.map(|half| half * factor) }
    }
}

impl fmt::Display for Estimate {
    /// `94.6±0.3`, or `94.6` for a single value; the precision is that of both.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(1);
        write!(f, "{:.decimals$}", self.mean)?;
        self.ci95.map_or(Ok(()), |half| write!(f, "±{half:.decimals$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        // Mean 3, deviation √2.5, √5 of it, t of 4 degrees of freedom.
        let five = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((five.ci95.unwrap() - 2.776 * (2.5f64 / 5.0).sqrt()).abs() < 1e-12);
        assert_eq!(
            (format!("{five:.0}"), format!("{:.2}", five.times(0.1))),
            ("3±2".into(), "0.30±0.20".into())
        );
        let one = Estimate::of(&[7.25]);
        assert_eq!((one.ci95, format!("{one:.1}")), (None, "7.2".to_owned()));
        assert_eq!(Estimate::of(&[]), Estimate::default());
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert!((Estimate::of(&many).ci95.unwrap() - NORMAL * 29.011_5 / 10.0).abs() < 1e-3);
    }
}
