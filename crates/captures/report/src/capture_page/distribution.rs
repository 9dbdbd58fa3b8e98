//! Distributions over all flows: cumulative curves and boxes, and what the capture carried over time.

use std::collections::BTreeMap;

use figures::stats::{percentile, quantiles};
use serde::Serialize;
use units::{Duration, Instant};

/// Points of a cumulative curve at most.
const POINTS_MAX: usize = 400;
/// Curves and boxes at most: more cannot be told apart.
const GROUPS_MAX: usize = 6;
/// Bins of the capture's course at most; twice as wide when there are more.
const BINS_MAX: usize = 1_200;

/// Values of one figure by group, and over all.
#[derive(Clone, Debug, Default)]
pub(super) struct Distribution {
    groups: BTreeMap<String, Vec<f32>>,
}

/// One cumulative curve.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Curve {
    name: String,
    n: usize,
    /// Smallest, 5 %, 25 %, median, 75 %, 95 %, largest.
    quantiles: [f32; 7],
    /// Values at equal steps of the share, from the smallest to the largest.
    values: Vec<f32>,
}

impl Distribution {
    pub(super) fn add(&mut self, group: &str, value: f64) {
        match self.groups.get_mut(group) {
            Some(values) => values.push(value as f32),
            None => {
                self.groups.insert(group.to_owned(), vec![value as f32]);
            }
        }
    }

    /// The curve over all, then those of the largest groups if there are several.
    pub(super) fn curves(self) -> Vec<Curve> {
        let all: Vec<f32> = self.groups.values().flatten().copied().collect();
        if all.is_empty() {
            return Vec::new();
        }
        let mut groups: Vec<(String, Vec<f32>)> = self.groups.into_iter().collect();
        groups.sort_by_key(|(name, values)| (std::cmp::Reverse(values.len()), name.clone()));
        let has_several = groups.len() > 1;
        groups.truncate(if has_several { GROUPS_MAX } else { 0 });
        let mut curves = vec![curve("all".to_owned(), all)];
        curves.extend(groups.into_iter().map(|(name, values)| curve(name, values)));
        curves
    }
}

fn curve(name: String, mut values: Vec<f32>) -> Curve {
    values.sort_unstable_by(f32::total_cmp);
    Curve {
        name,
        n: values.len(),
        quantiles: [0, 50, 250, 500, 750, 950, 1000]
            .map(|per_mille| percentile(&values, per_mille).unwrap_or(f32::NAN)),
        values: quantiles(&values, POINTS_MAX),
    }
}

/// Bytes, packets and repeated bytes over time, in bins of one width.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    origin: Option<Instant>,
    width: Duration,
    /// Payload bytes, packets, repeated payload bytes.
    bins: Vec<[u64; 3]>,
}

/// A finished [`Course`].
#[derive(Clone, Debug, Serialize)]
pub(super) struct CourseData {
    bin_s: f64,
    bytes: Vec<u64>,
    packets: Vec<u64>,
    repeated: Vec<u64>,
}

impl Course {
    pub(super) fn add(&mut self, time: Instant, bytes: u64, is_repeated: bool) {
        let origin = *self.origin.get_or_insert(time);
        if self.width.is_zero() {
            self.width = Duration::from_millis(1);
        }
        let passed = time.saturating_since(origin).as_nanos();
        while (passed / self.width.as_nanos()) as usize >= BINS_MAX {
            self.widen();
        }
        let index = (passed / self.width.as_nanos()) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, [0; 3]);
        }
        let bin = &mut self.bins[index];
        bin[0] += bytes;
        bin[1] += 1;
        bin[2] += if is_repeated { bytes } else { 0 };
    }

    fn widen(&mut self) {
        self.width = self.width * 2;
        let narrow = std::mem::take(&mut self.bins);
        self.bins = narrow
            .chunks(2)
            .map(|pair| {
                pair.iter().fold([0; 3], |sum, bin| [sum[0] + bin[0], sum[1] + bin[1], sum[2] + bin[2]])
            })
            .collect();
    }

    pub(super) fn data(&self) -> CourseData {
        let column = |index: usize| self.bins.iter().map(|bin| bin[index]).collect();
        CourseData {
            bin_s: self.width.as_secs_f64(),
            bytes: column(0),
            packets: column(1),
            repeated: column(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_widen_and_lose_nothing() {
        let mut course = Course::default();
        for second in 0..5_000 {
            course.add(Instant::from_millis(second * 1_000), 10, second % 10 == 0);
        }
        let data = course.data();
        assert!(data.bytes.len() <= BINS_MAX && data.bytes.len() > BINS_MAX / 3, "{}", data.bytes.len());
        assert_eq!(data.bytes.iter().sum::<u64>(), 50_000);
        assert_eq!(data.packets.iter().sum::<u64>(), 5_000);
        assert_eq!(data.repeated.iter().sum::<u64>(), 5_000);
    }

    #[test]
    fn a_curve_keeps_its_ends_and_quantiles() {
        let mut distribution = Distribution::default();
        for value in 0..=10_000 {
            distribution.add("a", f64::from(value));
        }
        let curves = distribution.curves();
        assert_eq!(curves.len(), 1, "one group is all");
        assert_eq!(curves[0].quantiles, [0.0, 500.0, 2_500.0, 5_000.0, 7_500.0, 9_500.0, 10_000.0]);
        assert_eq!((curves[0].values.len(), curves[0].values[0]), (POINTS_MAX, 0.0));
        assert_eq!(curves[0].values[POINTS_MAX - 1], 10_000.0);
    }

    #[test]
    fn one_value_is_a_curve_too() {
        let mut distribution = Distribution::default();
        distribution.add("a", 3.0);
        distribution.add("b", 4.0);
        let names: Vec<String> = distribution.curves().into_iter().map(|curve| curve.name).collect();
        assert_eq!(names, ["all", "a", "b"]);
    }
}
