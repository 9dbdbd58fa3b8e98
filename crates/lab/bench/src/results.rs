//! [`Results`]: what was measured, and what it comes to. Every part has the same shape.

use std::collections::BTreeMap;
use std::fmt;

use figures::{distinct, stats};
use serde::{Deserialize, Serialize};

use crate::Machine;

/// Name and version of the document; its schema is `schemas/bench-results.schema.json`.
pub const SCHEMA: &str = "cellerator/bench-results/2";

/// Everything that one or more runs of `cellerator bench` found out on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// The parts, in the order of the table.
    pub parts: Vec<Part>,
    /// Parts that were measured to their end, of those wanted, when the user ended the last run early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
}

/// Progress of a run that the user ended. Prints as `interrupted after 3 of 8 parts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Interrupted {
    /// Parts that were measured to their end.
    pub finished: usize,
    /// All that were wanted.
    pub of: usize,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted after {} of {} parts", self.finished, self.of)
    }
}

/// One part: some cases, each measured in some ways, round by round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name on the command line.
    pub name: String,
    /// Title of the part.
    pub title: String,
    /// Method of the measurement.
    pub how: String,
    /// Version of cellerator.
    pub cellerator: String,
    /// Machine of the measurement.
    pub machine: Machine,
    /// The command line.
    pub command: String,
    /// Time at which it ended: seconds since 1970-01-01 UTC.
    pub ended_unix_s: u64,
    /// Duration of the part, seconds.
    pub took_s: f64,
    /// Rounds in which every way was measured once.
    pub rounds: u32,
    /// Share of processor time that others used just before each round, 0 to 1.
    pub busy_before: Vec<f64>,
    /// Parts left out and why, one line each: a peer that is not installed, a way that failed.
    pub missing: Vec<String>,
    /// Metrics that were measured.
    pub metrics: Vec<Metric>,
    /// Programs in the box.
    pub ways: Vec<WayNote>,
    /// Each case and way, over all rounds.
    pub rows: Vec<Row>,
    /// Figures from the rows.
    pub figures: Vec<Figure>,
    /// Every measurement, in the order made.
    pub samples: Vec<Sample>,
}

/// Something that is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Its name, the key of its values.
    pub name: String,
    /// Heading of its column, with its unit.
    pub title: String,
    /// Digits behind the point that mean something.
    pub digits: u8,
}

/// Description of a way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WayNote {
    /// Its name, the key in rows and samples.
    pub name: String,
    /// Title of the way.
    pub title: String,
    /// Programs that run in the box, as Markdown.
    pub in_the_box: String,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Case that was measured, such as `4 flows`.
    pub case: String,
    /// Name of the way that carried packets through the box.
    pub way: String,
    /// Round, from 1.
    pub round: u32,
    /// Values by name of the metric.
    pub values: BTreeMap<String, f64>,
}

/// One case in one way, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The case, as in samples.
    pub case: String,
    /// Name of the way, as in samples.
    pub way: String,
    /// Values by name of the metric.
    pub values: BTreeMap<String, Spread>,
}

/// One figure: two rows compared within each round, or one row by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Title of the figure.
    pub title: String,
    /// Aim of the figure, which its median should reach, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aim: Option<Aim>,
    /// Median and extremes of the comparisons.
    pub value: Spread,
    /// Comparisons: rounds in which both rows were measured.
    pub pairs: u32,
    /// Unit behind the number, with its space; empty for ratios.
    pub unit: String,
    /// Digits behind the point that mean something.
    pub digits: u8,
}

impl Figure {
    /// Whether the median is as it should be; `None` without an aim.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        Some(match self.aim? {
            Aim::AtLeast(bound) => self.value.median >= bound,
            Aim::AtMost(bound) => self.value.median <= bound,
        })
    }
}

/// Aim of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

/// Median and extremes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The middle value; of an even number, the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of some values; `None` of none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let median = stats::median(&values)?;
        Some(Self { median: rounded(median), min: rounded(min), max: rounded(max) })
    }
}

/// To six digits behind the point: more would be noise.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

impl Sample {
    /// One measurement.
    pub(crate) fn new<'a>(
        case: impl Into<String>,
        way: crate::Way,
        round: u32,
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), rounded(value))).collect();
        Self { case: case.into(), way: way.name().to_owned(), round, values }
    }

    /// Adds a value, if there is one.
    pub(crate) fn add(&mut self, name: &str, value: Option<f64>) {
        self.values.extend(value.map(|value| (name.to_owned(), rounded(value))));
    }
}

impl Results {
    /// Without parts.
    #[must_use]
    pub fn new() -> Self {
        Self { schema: SCHEMA.to_owned(), parts: Vec::new(), interrupted: None }
    }

    /// Puts `part` in the place of an earlier one of its name, or in its place in `order`.
    pub fn put(&mut self, part: Part, order: &[&str]) {
        let place = |name: &str| order.iter().position(|other| *other == name).unwrap_or(order.len());
        self.parts.retain(|other| other.name != part.name);
        self.parts.push(part);
        self.parts.sort_by_key(|part| place(&part.name));
    }

    /// The part of that name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }
}

impl Default for Results {
    fn default() -> Self {
        Self::new()
    }
}

impl Part {
    /// The row of a case and way.
    #[must_use]
    pub fn row(&self, case: &str, way: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.way == way)
    }

    /// The largest share of processor time that others used just before a round.
    #[must_use]
    pub fn busiest(&self) -> f64 {
        self.busy_before.iter().copied().fold(0.0, f64::max)
    }
}

/// The rows that `samples` come to, in the order of cases first, then of ways as they were first measured.
pub(crate) fn rows(samples: &[Sample], ways: &[&str]) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in distinct(samples.iter().map(|sample| sample.case.as_str())) {
        for way in ways {
            let of = || samples.iter().filter(|sample| sample.case == case && sample.way == *way);
            let mut names: Vec<&String> = of().flat_map(|sample| sample.values.keys()).collect();
            names.sort_unstable();
            names.dedup();
            let values: BTreeMap<String, Spread> = names
                .into_iter()
                .filter_map(|name| {
                    let spread = Spread::of(of().filter_map(|sample| sample.values.get(name).copied()))?;
                    Some((name.clone(), spread))
                })
                .collect();
            if !values.is_empty() {
                rows.push(Row { case: case.to_owned(), way: (*way).to_owned(), values });
            }
        }
    }
    rows
}
