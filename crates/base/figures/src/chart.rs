//! Charts: panels below each other over one axis, as SVG.
//!
//! A [`Chart`] is data: what is seen, the axes with their units, and series of points. It is drawn light
//! and dark, for a wide column, for one of two beside each other, and for a telephone. Every drawing
//! carries its data as JSON, in its element `metadata`.
//!
//! What draws is our own: of the crates that draw charts none makes one SVG that follows the reader's light
//! or dark setting, wraps its words for a narrow column, and needs neither a font nor a script.

mod axis;
mod draw;
mod marks;
mod path;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize};

pub use draw::{Width, key};
pub use marks::class;

/// Contents of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Title that says what is seen.
    pub title: String,
    /// Note on the measurement, in a line below the title; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The command that makes it; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub made_by: String,
    /// The axis that all panels share.
    pub x: Axis,
    /// The panels, from the top.
    pub panels: Vec<Panel>,
    /// Names of lines stand at their right ends, not in a legend.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_named_at_ends: bool,
}

/// One diagram over the axis that all share.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Panel {
    /// The axis that goes up.
    pub y: Axis,
    /// Series to draw, the first lowest.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Spread of values: linear, logarithmic or by name.
    pub spread: Spread,
    /// Range of values that it covers.
    pub range: Range,
}

/// Spread of values along an axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// Equal steps for equal differences.
    #[default]
    Linear,
    /// Equal steps for equal ratios; only values above zero are shown.
    Log,
    /// Places 1, 2, … with these names; what follows `, ` stands in a line of its own. Of an axis that goes up the
    /// first is on top.
    Places(Vec<String>),
}

/// Range of values that an axis covers. Of places it is always all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Range {
    /// Range from zero, or from below it where values are, to the next tick above all values; logarithmic
    /// from a little below the least to a little above the largest.
    #[default]
    Round,
    /// Range from zero to exactly the largest value: for time, where empty space at the end would mislead.
    Exact,
    /// Range from here to the next tick above all values.
    From(f64),
    /// Range from here to exactly the largest value.
    ExactFrom(f64),
    /// Range from and to: what lies beyond is drawn at the edge.
    Between(f64, f64),
}

impl Axis {
    /// Linear from zero.
    #[must_use]
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// Linear from zero to exactly the largest value.
    #[must_use]
    pub fn exact(label: &str) -> Self {
        Self { range: Range::Exact, ..Self::linear(label) }
    }

    /// Logarithmic.
    #[must_use]
    pub fn log(label: &str) -> Self {
        Self { spread: Spread::Log, ..Self::linear(label) }
    }

    /// Places with names: the first is 1.
    #[must_use]
    pub fn places<S: Into<String>>(label: &str, names: impl IntoIterator<Item = S>) -> Self {
        Self { spread: Spread::Places(names.into_iter().map(Into::into).collect()), ..Self::linear(label) }
    }

    /// The same with another range.
    #[must_use]
    pub fn over(self, range: Range) -> Self {
        Self { range, ..self }
    }
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Name for the legend; a series without a name is not in it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Ink that it is drawn in.
    pub ink: Ink,
    /// Mark that it is drawn with.
    pub mark: Mark,
    /// Points from left to right.
    #[serde(flatten, serialize_with = "columns")]
    pub points: Vec<Point>,
}

impl Series {
    /// Points that are drawn so.
    #[must_use]
    pub fn new(name: &str, ink: Ink, mark: Mark, points: impl IntoIterator<Item = Point>) -> Self {
        Self { name: name.to_owned(), ink, mark, points: points.into_iter().collect() }
    }

    /// Values in bins of `width` each, from zero on: steps begin where their bin does, all else stands at
    /// its middle. A bin without a value breaks the line.
    #[must_use]
    pub fn of_bins(
        name: &str,
        ink: Ink,
        mark: Mark,
        width: f64,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        let middle = if matches!(mark, Mark::Steps | Mark::Ground) { 0.0 } else { 0.5 };
        let at = |(bin, value): (usize, Option<f64>)| {
            Point::new((bin as f64 + middle) * width, value.unwrap_or(f64::NAN))
        };
        Self::new(name, ink, mark, values.into_iter().enumerate().map(at))
    }
}

/// A point. One that is no number is left out, and breaks a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Place on the axis that goes up.
    pub y: f64,
    /// Lower and upper end of what is drawn around it: an error bar, a band, a stem.
    pub around: Option<(f64, f64)>,
}

impl Point {
    /// A point with nothing around it.
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, around: None }
    }

    /// A mean with its deviation.
    #[must_use]
    pub fn with_deviation(x: f64, y: f64, deviation: Option<f64>) -> Self {
        Self { x, y, around: deviation.map(|deviation| (y - deviation, y + deviation)) }
    }

    /// A value and from where to where it goes.
    #[must_use]
    pub const fn within(x: f64, y: f64, low: f64, high: f64) -> Self {
        Self { x, y, around: Some((low, high)) }
    }

    fn is_drawn(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self::new(x, y)
    }
}

/// Points as columns: `x` as `{"from", "step"}` where it rises evenly; numbers to five digits, what is no
/// number `null`.
fn columns<S: serde::Serializer>(points: &[Point], serializer: S) -> Result<S::Ok, S::Error> {
    let xs: Vec<f64> = points.iter().map(|point| point.x).collect();
    let y: Vec<f64> = points.iter().map(|point| five_digits(point.y)).collect();
    let has_around = points.iter().any(|point| point.around.is_some());
    let end = |of: fn((f64, f64)) -> f64| {
        points.iter().map(|p| p.around.map(of).map(five_digits)).collect::<Vec<_>>()
    };
    let mut map = serializer.serialize_map(None)?;
    match even_step(&xs) {
        Some((from, step)) => {
            map.serialize_entry("x", &Even { from: five_digits(from), step: five_digits(step) })?;
        }
        None => map.serialize_entry("x", &xs.iter().map(|x| five_digits(*x)).collect::<Vec<_>>())?,
    }
    map.serialize_entry("y", &y)?;
    if has_around {
        map.serialize_entry("low", &end(|around| around.0))?;
        map.serialize_entry("high", &end(|around| around.1))?;
    }
    map.end()
}

/// Numbers that rise evenly.
#[derive(Serialize)]
struct Even {
    from: f64,
    step: f64,
}

/// The first of three or more numbers that rise evenly, and their step.
fn even_step(xs: &[f64]) -> Option<(f64, f64)> {
    let [first, .., last] = xs else { return None };
    let step = (last - first) / (xs.len() - 1) as f64;
    let is_even = |(i, x): (usize, &f64)| (first + i as f64 * step - x).abs() <= step.abs() * 1e-6;
    (xs.len() > 2 && xs.iter().enumerate().all(is_even)).then_some((*first, step))
}

fn five_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(4 - value.abs().log10().floor() as i32);
    if scale.is_normal() { (value * scale).round() / scale } else { value }
}

/// Ink of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ink {
    /// The colour of this number. There are six; the next six are the same with dashes, and so on. Dots
    /// differ in shape as well.
    Colour(usize),
    /// A colour with dashes of another kind.
    Dashed(usize, usize),
    /// Others' figures: the colour of the text, or that of ours beside it, dashed and hollow.
    Cited(Option<usize>),
    /// The colour of the text.
    Plain,
    /// A bound: grey.
    Limit,
    /// A warning.
    Bad,
}

/// Mark of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Line from point to point.
    Line,
    /// Line from point to point, with a dot at each.
    Dotted,
    /// Dots.
    Dots,
    /// Dots, each with the series' name beside it.
    Named,
    /// A small cross at each point.
    Crosses,
    /// A vertical line: from the axis to each point, or over what is around it.
    Stems,
    /// A short vertical line at each point.
    Ticks,
    /// A bar from the axis to each point; bars of several series stand beside each other.
    Bars,
    /// Level steps; each point begins one, the last is as wide as the one before.
    Steps,
    /// The same, filled down to the axis, in grey: what there is to use.
    Ground,
    /// Area from the lower to the upper end of what is around each point, filled.
    Band,
    /// Along the axis, from what is low to what is high around a point: a stretch of it is marked below the
    /// panel.
    Spans,
}

impl Chart {
    /// A chart without panels.
    #[must_use]
    pub fn new(title: &str, x: Axis) -> Self {
        Self { title: title.to_owned(), x, ..Self::default() }
    }

    /// The same with one more panel below.
    #[must_use]
    pub fn panel(mut self, y: Axis, series: Vec<Series>) -> Self {
        self.panels.push(Panel { y, series });
        self
    }

    /// Its data as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        // A number that is none is `null`: nothing here cannot be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
