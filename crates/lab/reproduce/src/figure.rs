//! [`Figure`]: what is drawn, as data.

use figures::chart::Mark;
use figures::stats::{self, Moments};
use serde::{Deserialize, Serialize};

use crate::Source;

/// Quantity that an axis shows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Axis {
    /// Quantity and unit.
    pub name: String,
    /// Logarithmic instead of linear from zero.
    #[serde(default)]
    pub log: bool,
    /// Start of a linear axis, if not at zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// Names of the places 1, 2, … in place of numbers; what follows a comma stands in a line of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
}

impl Axis {
    /// Linear from zero.
    #[must_use]
    pub fn linear(name: &str) -> Self {
        Self { name: name.to_owned(), log: false, from: None, places: Vec::new() }
    }
    /// Linear from `start`.
    #[must_use]
    pub fn linear_from(name: &str, start: f64) -> Self {
        Self { from: Some(start), ..Self::linear(name) }
    }
    /// Places with names: the first is 1.
    #[must_use]
    pub fn named<S: AsRef<str>>(name: &str, places: impl IntoIterator<Item = S>) -> Self {
        let places = places.into_iter().map(|place| place.as_ref().to_owned()).collect();
        Self { places, ..Self::linear(name) }
    }
    /// Logarithmic.
    #[must_use]
    pub fn log(name: &str) -> Self {
        Self { log: true, ..Self::linear(name) }
    }
}

/// A point, with its standard deviation where there is one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// Standard deviation of `y`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
}

impl Point {
    /// A point without a spread.
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, deviation: None }
    }
    /// A mean with its standard deviation.
    #[must_use]
    pub fn of(x: f64, moments: Moments) -> Self {
        Self { x, y: moments.mean, deviation: moments.deviation() }
    }
}

/// Mark of a series.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "Mark", rename_all = "lowercase")]
#[allow(dead_code)]
enum DocumentedMark {
    /// From point to point.
    Line,
    /// From point to point, with a dot at each.
    Dotted,
    /// Dots alone.
    Dots,
    /// A small cross at each point.
    Crosses,
    /// A line from the axis up to each point.
    Stems,
    /// Level steps over a filled ground; each point begins a step.
    Ground,
}

/// Points that belong together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Name for the legend.
    pub name: String,
    /// Source of the values: the paper's is drawn dashed with hollow dots, a limit grey.
    pub source: Source,
    /// Mark that draws it.
    #[cfg_attr(feature = "schema", schemars(with = "DocumentedMark"))]
    pub mark: Mark,
    /// From left to right.
    pub points: Vec<Point>,
}

impl Series {
    /// Points that are drawn so.
    #[must_use]
    pub fn new(name: &str, source: Source, mark: Mark, points: Vec<Point>) -> Self {
        Self { name: name.to_owned(), source, mark, points }
    }
    /// Means at places across; what was not measured is left out.
    #[must_use]
    pub fn of(
        name: &str,
        source: Source,
        mark: Mark,
        means: impl IntoIterator<Item = (f64, Option<Moments>)>,
    ) -> Self {
        let point = |(x, mean): (f64, Option<Moments>)| Some(Point::of(x, mean?));
        Self::new(name, source, mark, means.into_iter().filter_map(point).collect())
    }
    /// Dots at the places 1, 2, … of an axis; what was not measured leaves its place empty.
    #[must_use]
    pub fn at_places(name: &str, source: Source, means: impl IntoIterator<Item = Option<Moments>>) -> Self {
        Self::of(name, source, Mark::Dots, (1..).map(f64::from).zip(means))
    }
    /// A line at the height `y`.
    #[must_use]
    pub fn level(name: &str, source: Source, across: (f64, f64), y: f64) -> Self {
        Self::new(name, source, Mark::Line, vec![Point::new(across.0, y), Point::new(across.1, y)])
    }
    /// Cumulative distribution of sorted values: how many percent are at most so large.
    #[must_use]
    pub fn distribution(name: &str, sorted: &[f64]) -> Self {
        let at =
            |percent: u32| stats::percentile(sorted, 10 * percent).map(|v| Point::new(v, percent.into()));
        Self::new(name, Source::Ours, Mark::Line, (0..=100).filter_map(at).collect())
    }
    /// Values in bins of `bin` each, at their middles; what has no value breaks nothing and is left out.
    #[must_use]
    pub fn over_time(name: &str, source: Source, bin: f64, values: &[Option<f64>]) -> Self {
        let at = |(i, value): (usize, &Option<f64>)| value.map(|y| Point::new((i as f64 + 0.5) * bin, y));
        Self::new(name, source, Mark::Line, values.iter().enumerate().filter_map(at).collect())
    }
}

/// One of the diagrams that stand above each other over the same axis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Panel {
    /// The axis that goes up.
    pub y: Axis,
    /// Series of the panel, the first lowest.
    pub series: Vec<Series>,
}

/// Diagrams above each other over one axis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// Name in its experiment's text; empty where title and caption come from elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Caption, which says what to look at.
    pub caption: String,
    /// The axis they share.
    pub x: Axis,
    /// The diagrams, from top to bottom.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// A figure without diagrams, whose title and caption are in its experiment's text under this name.
    #[must_use]
    pub fn new(name: &str, x: Axis) -> Self {
        Self { name: name.to_owned(), ..Self::titled("", "", x) }
    }
    /// A figure without diagrams.
    #[must_use]
    pub fn titled(title: &str, caption: &str, x: Axis) -> Self {
        let (title, caption) = (title.to_owned(), caption.to_owned());
        Self { name: String::new(), title, caption, x, panels: Vec::new() }
    }
    /// Puts the points of `simulated` beside the lab's, as a mark of their own. Curves over time are
    /// left alone: two of them would hide each other.
    pub(crate) fn put_beside(&mut self, simulated: &Self) {
        for (panel, beside) in self.panels.iter_mut().zip(&simulated.panels) {
            let mut with = Vec::new();
            for series in panel.series.drain(..) {
                let is_there = series.points.iter().any(|point| point.y.is_finite());
                let is_ours = is_there
                    && series.source != Source::Paper
                    && matches!(series.mark, Mark::Dots | Mark::Dotted);
                let fellow = beside
                    .series
                    .iter()
                    .find(|s| is_ours && s.name == series.name && s.source == series.source);
                let points = fellow.map_or(Vec::new(), |s| s.points.clone());
                let name = format!("{}, simulated", series.name);
                with.push(series);
                if !points.is_empty() {
                    with.push(Series {
                        points,
                        ..Series::new(&name, Source::Simulated, Mark::Crosses, Vec::new())
                    });
                }
            }
            panel.series = with;
        }
    }

    /// The same with one more diagram below.
    #[must_use]
    pub fn panel(mut self, y: Axis, series: Vec<Series>) -> Self {
        self.panels.push(Panel { y, series });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, source: Source, mark: Mark, y: f64) -> Series {
        Series::new(name, source, mark, vec![Point::new(1.0, y)])
    }

    fn names(figure: &Figure) -> Vec<&str> {
        figure.panels[0].series.iter().map(|series| series.name.as_str()).collect()
    }

    #[test]
    fn points_of_the_simulation_stand_behind_those_of_the_lab() {
        let figure = |y: f64, lines: f64| {
            let all = vec![
                series("paper", Source::Paper, Mark::Dots, 1.0),
                series("ours", Source::Ours, Mark::Dots, y),
                series("curve", Source::Ours, Mark::Line, lines),
                series("adaptive", Source::Adaptive, Mark::Dotted, y),
            ];
            Figure::new("f", Axis::linear("x")).panel(Axis::linear("y"), all)
        };
        let mut lab = figure(2.0, 5.0);
        lab.put_beside(&figure(3.0, 6.0));
        let wanted = ["paper", "ours", "ours, simulated", "curve", "adaptive", "adaptive, simulated"];
        assert_eq!(names(&lab), wanted);
        let beside = &lab.panels[0].series[2];
        assert_eq!((beside.source, beside.mark, beside.points[0].y), (Source::Simulated, Mark::Crosses, 3.0));
        assert_eq!(lab.panels[0].series[1].points[0].y, 2.0, "the lab's own stay");
    }

    /// A series of another name or source is not the same, and without a point of the lab nothing is
    /// compared.
    #[test]
    fn only_what_is_the_same_is_put_beside() {
        let one = |name: &str, source, y: f64| {
            let figure = Figure::new("f", Axis::linear("x"));
            figure.panel(Axis::linear("y"), vec![series(name, source, Mark::Dots, y)])
        };
        for other in [one("b", Source::Ours, 1.0), one("a", Source::Adaptive, 1.0)] {
            let mut lab = one("a", Source::Ours, 1.0);
            lab.put_beside(&other);
            assert_eq!(names(&lab), ["a"]);
        }
        let mut nothing = one("a", Source::Ours, f64::NAN);
        nothing.put_beside(&one("a", Source::Ours, 1.0));
        assert_eq!(names(&nothing), ["a"]);
    }

    #[test]
    fn bins_without_a_value_are_left_out_and_others_stand_at_their_middles() {
        let drawn = Series::over_time("s", Source::Ours, 0.5, &[Some(1.0), None, Some(3.0)]);
        let points: Vec<(f64, f64)> = drawn.points.iter().map(|p| (p.x, p.y)).collect();
        assert_eq!(points, [(0.25, 1.0), (1.25, 3.0)]);
    }

    #[test]
    fn a_spread_needs_more_than_one_value() {
        let deviation = |moments| Point::of(2.0, moments).deviation;
        let one = Moments::of([5.0]).unwrap();
        assert_eq!((deviation(one), deviation(Moments::told(5.0, 0.5))), (None, Some(0.5)));
    }

    #[test]
    fn axes_are_stored_with_what_they_have_only() {
        let stored = |axis: &Axis| serde_json::to_string(axis).unwrap();
        assert_eq!(stored(&Axis::linear("s")), r#"{"name":"s","log":false}"#);
        assert_eq!(stored(&Axis::linear_from("s", 2.0)), r#"{"name":"s","log":false,"from":2.0}"#);
        let named = Axis::named("s", ["a", "b"]);
        assert_eq!(serde_json::from_str::<Axis>(&stored(&named)).unwrap(), named);
        assert!(Axis::log("s").log && named.places == ["a", "b"]);
    }
}
