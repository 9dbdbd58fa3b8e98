//! [`CompareReport`]: what a comparison has shown; `schemas/congestion-compare.schema.json`.

use std::cmp::Ordering;

use figures::stats;
use serde::Serialize;

use crate::split::Unit;

/// Results of a comparison, which `cellerator congestion compare --json` prints.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompareReport {
    /// Of this document: `cellerator/congestion-compare/1`.
    pub schema: &'static str,
    /// Connections that were compared, in words.
    pub users: String,
    /// Input of the hash, and unit that counts once.
    pub by: Unit,
    /// Seed that decides which half uses which congestion control.
    pub seed: u32,
    /// Time of the beginning, ms since 1970, by this machine's clock as it is.
    pub began_ms: u64,
    /// Planned duration, ms; none: until it is ended.
    pub planned_ms: Option<u64>,
    /// Elapsed duration, ms.
    pub elapsed_ms: u64,
    /// Cause of the end.
    pub ended_by: EndedBy,
    /// Group that used the other congestion control.
    pub other: Side,
    /// Group that used `adaptive`.
    pub adaptive: Side,
    /// Connections that had no room, and are missing.
    pub lost_connections: u64,
    /// Comparison of each metric.
    pub metrics: Vec<Metric>,
}

/// Cause of the end of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EndedBy {
    /// The time is over.
    Time,
    /// Ctrl-C, SIGTERM, `unload`.
    Signal,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Side {
    /// Its congestion control in the kernel.
    pub control: String,
    /// Clients or connections that were measured.
    pub units: u64,
    /// Connections that were measured.
    pub connections: u64,
    /// Of these, those that went on at the end: as they were at their last round trip.
    pub running: u64,
    /// Bytes that the other ends acknowledged.
    pub bytes: u64,
    /// Connections that the kernel did not give this congestion control; they are not measured.
    pub refused: u64,
}

/// A mean over clients or connections, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompareEstimate {
    /// Clients or connections that it is of.
    pub count: usize,
    /// The mean; of goodput the geometric one.
    pub value: f64,
    /// Lower end of the interval; none where a group has a single one.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl From<stats::Estimate> for CompareEstimate {
    fn from(one: stats::Estimate) -> Self {
        let interval = one.interval;
        Self {
            count: one.count,
            value: one.value,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
        }
    }
}

impl From<CompareEstimate> for stats::Estimate {
    fn from(one: CompareEstimate) -> Self {
        Self { count: one.count, value: one.value, interval: one.low.zip(one.high) }
    }
}

/// Something that is compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metric {
    /// `goodput`, `rtt`, `queueing-delay` or `resent`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["goodput", "rtt", "queueing-delay", "resent"])))]
    pub name: String,
    /// `bit/s`, `ms` or `%`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["bit/s", "ms", "%"])))]
    pub unit: String,
    /// Value of the group that used the other congestion control; none where nobody has such connections.
    pub other: Option<CompareEstimate>,
    /// Value of the group that used `adaptive`.
    pub adaptive: Option<CompareEstimate>,
    /// Effect of `adaptive`: for goodput the factor, otherwise the difference in the unit.
    pub change: Option<CompareEstimate>,
    /// Verdict by the interval of the change; none where there is none.
    pub shows: Option<Shows>,
}

/// Verdict by the interval of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Shows {
    /// `adaptive` has more of it.
    Higher,
    /// `adaptive` has less of it.
    Lower,
    /// It contains 1, or 0 of a difference.
    NoChange,
}

impl Metric {
    pub(super) fn of(name: &str, unit: &str, compared: stats::Comparison) -> Self {
        // A factor of 1, a difference of 0.
        let none = if unit == "bit/s" { 1.0 } else { 0.0 };
        let shows = compared.change.and_then(|change| change.side_of(none)).map(|side| match side {
            Ordering::Greater => Shows::Higher,
            Ordering::Less => Shows::Lower,
            Ordering::Equal => Shows::NoChange,
        });
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            other: compared.first.map(CompareEstimate::from),
            adaptive: compared.second.map(CompareEstimate::from),
            change: compared.change.map(CompareEstimate::from),
            shows,
        }
    }
}
