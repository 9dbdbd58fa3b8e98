//! Statistics: percentiles by one rule, moments, intervals of confidence, a rank test.
//!
//! All of it is deterministic: the same values in the same order give the same figures, without random
//! resampling.

mod comparison;
mod confidence;
mod moments;
mod rank;

pub use comparison::{Comparison, Estimate, compare, metric_words};
pub use confidence::{
    MedianInterval, bootstrap_tail, difference_interval, half_width, mann_whitney, mean_interval,
    median_interval,
};
pub use moments::{Moments, mean};
pub use rank::{Quantiles, median, nearest_rank, percentile, percentile_of_counts, quantiles};
