//! [`compare`]: two groups beside each other, their means and the change with intervals of confidence.

use core::cmp::Ordering;

use super::{Moments, difference_interval, half_width};

/// A mean, or what changes between two, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Values that it is of.
    pub count: usize,
    /// The mean; a geometric one where the values are logarithms.
    pub value: f64,
    /// Lower and upper end of the interval; none where a group has a single value.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Side of `value` on which the interval lies: `Equal` where it contains it. None without an interval.
    #[must_use]
    pub fn side_of(&self, value: f64) -> Option<Ordering> {
        let (low, high) = self.interval?;
        Some(match (low > value, high < value) {
            (true, _) => Ordering::Greater,
            (_, true) => Ordering::Less,
            _ => Ordering::Equal,
        })
    }

    /// Words for it: `2.50 ms [1.00, 4.00]`. Signed if it is a difference; else nothing lies below 0.
    #[must_use]
    pub fn told(&self, scale: f64, unit: &str, is_signed: bool) -> String {
        let number = |value: f64| {
            let value = value * scale;
            if is_signed { format!("{value:+.2}") } else { format!("{value:.2}") }
        };
        // Of few values the interval of a mean may reach to where nothing can lie.
        let least = if is_signed { f64::MIN } else { 0.0 };
        let interval = self
            .interval
            .map(|(low, high)| format!(" [{}, {}]", number(low.max(least)), number(high)))
            .unwrap_or_default();
        format!("{} {unit}{interval}", number(self.value))
    }
}

/// Two groups beside each other; none where a group has no values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Mean of the first one (Student's t).
    pub first: Option<Estimate>,
    /// Mean of the second one.
    pub second: Option<Estimate>,
    /// The second one's less the first one's (Welch's t); the factor, where the values are logarithms.
    pub change: Option<Estimate>,
}

/// Compares the values of two groups. Means of logarithms are told as geometric means, and their difference as a factor.
#[must_use]
pub fn compare(
    first: impl IntoIterator<Item = f64>,
    second: impl IntoIterator<Item = f64>,
    are_logarithms: bool,
) -> Comparison {
    let shown = |value: f64| if are_logarithms { value.exp() } else { value };
    let estimate = |count: usize, value: f64, interval: Option<(f64, f64)>| Estimate {
        count,
        value: shown(value),
        interval: interval.map(|(low, high)| (shown(low), shown(high))),
    };
    let mean = |moments: &Moments| {
        let around = half_width(moments).map(|half| (moments.mean - half, moments.mean + half));
        estimate(moments.count, moments.mean, around)
    };
    let (first, second) = (Moments::of(first), Moments::of(second));
    let change = first
        .as_ref()
        .zip(second.as_ref())
        .map(|(a, b)| estimate(a.count + b.count, b.mean - a.mean, difference_interval(a, b)));
    Comparison { first: first.as_ref().map(mean), second: second.as_ref().map(mean), change }
}

/// Name of a metric where people read it.
#[must_use]
pub fn metric_words(name: &str) -> &str {
    match name {
        "rtt" => "round trip",
        "queueing-delay" => "time in queues",
        "resent" => "sent again",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_factors_have_intervals() {
        let plain = compare([10.0, 12.0, 14.0], [20.0, 22.0, 24.0], false);
        let change = plain.change.unwrap();
        assert_eq!((change.count, change.value, plain.first.unwrap().value), (6, 10.0, 12.0));
        // Welch: 4 degrees of freedom, t = 2.776, standard error √(4/3 + 4/3).
        let (low, high) = change.interval.unwrap();
        assert!((low - 5.466).abs() < 1e-3 && (high - 14.534).abs() < 1e-3, "{low} {high}");
        assert_eq!(
            (change.side_of(0.0), change.side_of(10.0)),
            (Some(Ordering::Greater), Some(Ordering::Equal))
        );
        assert_eq!(change.side_of(15.0), Some(Ordering::Less));

        let logarithms = [[1.0f64, 4.0], [8.0, 2.0]].map(|group| group.map(f64::ln));
        let factor = compare(logarithms[0], logarithms[1], true);
        let values = [factor.first, factor.second, factor.change].map(|one| one.unwrap().value);
        assert!(values.iter().zip([2.0, 4.0, 2.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{values:?}");
        assert_eq!(factor.change.unwrap().side_of(1.0), Some(Ordering::Equal));
    }

    #[test]
    fn of_none_nothing_is_said_and_one_alone_has_no_interval() {
        assert_eq!(compare([], [], false), Comparison::default());
        let alone = compare([1.0], [2.0, 3.0], false);
        assert_eq!((alone.first.unwrap().interval, alone.change.unwrap().interval), (None, None));
        assert_eq!(alone.change.unwrap().side_of(0.0), None);
    }

    #[test]
    fn an_estimate_is_told_in_its_unit() {
        let estimate = |value, interval| Estimate { count: 3, value, interval };
        assert_eq!(estimate(2e6, None).told(1e-6, "Mbit/s", false), "2.00 Mbit/s");
        assert_eq!(estimate(2.0, Some((-1.0, 5.0))).told(1.0, "ms", false), "2.00 ms [0.00, 5.00]");
        assert_eq!(estimate(2.0, Some((-1.0, 5.0))).told(1.0, "ms", true), "+2.00 ms [-1.00, +5.00]");
    }
}
