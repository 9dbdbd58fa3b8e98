//! [`Estimate`]: what several seeds say about a figure.

use core::fmt;

use figures::stats::{Moments, half_width};
use serde::{Deserialize, Serialize};

/// A mean over seeds, with how sure it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Half of its 95 % confidence interval (Student's t); none for a single value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<f64>,
}

impl Estimate {
    /// Of these values, one per seed; zero for none.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let moments = Moments::of(values.iter().copied());
        moments.map_or(Self::default(), |of| Self { mean: of.mean, ci95: half_width(&of) })
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
        assert!((five.ci95.unwrap() - 2.776 * (2.5f64 / 5.0).sqrt()).abs() < 1e-3);
        assert_eq!(
            (format!("{five:.0}"), format!("{:.2}", five.times(0.1))),
            ("3±2".into(), "0.30±0.20".into())
        );
        let one = Estimate::of(&[7.25]);
        assert_eq!((one.ci95, format!("{one:.1}")), (None, "7.2".to_owned()));
        assert_eq!(Estimate::of(&[]), Estimate::default());
    }
}
