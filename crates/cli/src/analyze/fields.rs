//! Fields of the tables for people.

use analysis::SampleSummary;

/// A number, or a dash.
pub(super) fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// The least, the median and the 95th percentile of round trips, or a dash.
pub(super) fn rtt(summary: Option<SampleSummary>) -> String {
    summary.map_or_else(|| "-".to_owned(), |s| format!("{:.2}/{:.2}/{:.2}", s.min_ms, s.p50_ms, s.p95_ms))
}
