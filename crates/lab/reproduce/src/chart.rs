//! [`chart`]: what a [`Figure`] is drawn as.

use figures::chart::{Axis as ChartAxis, Chart, Ink, Point as ChartPoint, Range, Series as Curve};

use crate::{Axis, Figure, Panel, Point, Series, Source};

/// The chart of `figure`, which `command` makes; its caption stands where it is shown.
#[must_use]
pub fn chart(figure: &Figure, command: &str) -> Chart {
    let panel = |panel: &Panel| figures::chart::Panel {
        y: axis(&panel.y, Range::Round, Range::From),
        series: curves(panel),
    };
    Chart {
        title: figure.title.clone(),
        note: String::new(),
        made_by: command.to_owned(),
        x: axis(&figure.x, Range::Exact, Range::ExactFrom),
        panels: figure.panels.iter().map(panel).collect(),
        ..Chart::default()
    }
}

/// An axis over `all` values, or over those that follow where it begins.
fn axis(axis: &Axis, all: Range, following: fn(f64) -> Range) -> ChartAxis {
    let Axis { name, log, from, places } = axis;
    match (places.is_empty(), log) {
        (false, _) => ChartAxis::places(name, places.clone()),
        (true, true) => ChartAxis::log(name),
        (true, false) => ChartAxis::linear(name).over(from.map_or(all, following)),
    }
}

/// The series of a panel. Crosses of what was simulated are named once in the legend, in grey: they have the
/// colour of what they are beside.
fn curves(panel: &Panel) -> Vec<Curve> {
    let mut curves = Vec::new();
    let mut is_named = false;
    for (series, ink) in panel.series.iter().zip(inks(panel)) {
        let is_simulated = series.source == Source::Simulated;
        if is_simulated && !is_named {
            curves.push(Curve::new("simulated", Ink::Limit, series.mark, []));
            is_named = true;
        }
        let name = if is_simulated { "" } else { &series.name };
        curves.push(curve(name, series, ink));
    }
    curves
}

fn curve(name: &str, series: &Series, ink: Ink) -> Curve {
    let point = |point: &Point| ChartPoint::with_deviation(point.x, point.y, point.deviation);
    Curve::new(name, ink, series.mark, series.points.iter().map(point))
}

/// Ink of each series: a colour by its place among ours. Several of the paper's take the colours in the same
/// order, so that each has that of its fellow; one alone is black.
fn inks(panel: &Panel) -> Vec<Ink> {
    let papers = panel.series.iter().filter(|series| series.source == Source::Paper).count();
    let (mut paper, mut ours) = (0.., 0..);
    let mut above = Ink::Plain;
    let ink = |series: &Series| {
        above = match series.source {
            Source::Paper if papers > 1 => Ink::Cited(paper.next()),
            Source::Paper => Ink::Cited(None),
            Source::Limit => Ink::Limit,
            Source::Ours | Source::Adaptive | Source::Ratio => ours.next().map_or(Ink::Plain, Ink::Colour),
            // What was simulated has the colour of what it is beside.
            Source::Simulated => above,
        };
        above
    };
    panel.series.iter().map(ink).collect()
}

#[cfg(test)]
mod tests {
    use figures::chart::{Spread, Width};

    use super::*;
    use crate::Mark;

    fn figure() -> Figure {
        let points =
            |y: f64| vec![Point::new(1.0, y), Point { deviation: Some(1.0), ..Point::new(4.0, y + 1.0) }];
        let series = |name: &str, source, mark, y| Series::new(name, source, mark, points(y));
        Figure::titled("a < b", "c & d", Axis::linear("seconds"))
            .panel(
                Axis::linear_from("Mbit/s", 2.0),
                vec![
                    series("capacity", Source::Limit, Mark::Ground, 5.0),
                    series("paper", Source::Paper, Mark::Dotted, 3.0),
                    series("ours", Source::Ours, Mark::Line, 3.0),
                ],
            )
            .panel(Axis::log("ms"), vec![series("delay", Source::Ours, Mark::Dots, 30.0)])
    }

    #[test]
    fn a_chart_shows_everything_and_how_it_is_made() {
        let chart = chart(&figure(), "cellerator reproduce x");
        assert_eq!((chart.x.range, chart.panels[0].y.range), (Range::Exact, Range::From(2.0)));
        assert_eq!(chart.panels[1].y.spread, Spread::Log);
        assert_eq!(chart.panels[0].series[2].points[1].around, Some((3.0, 5.0)));
        let file = chart.file(Width::Wide);
        for part in ["a &lt; b", ">capacity<", "Mbit/s", "ms, logarithmic", "Made by: cellerator reproduce x"]
        {
            assert!(file.contains(part), "{part}");
        }
        assert!(!file.contains("NaN") && !file.contains("inf"));
    }

    #[test]
    fn the_papers_series_have_the_colours_of_their_fellows() {
        let mut panel = figure().panels.remove(0);
        assert_eq!(inks(&panel), [Ink::Limit, Ink::Cited(None), Ink::Colour(0)]);
        panel.series.push(Series::new("paper 2", Source::Paper, Mark::Line, Vec::new()));
        panel.series.push(Series::new("ours 2", Source::Adaptive, Mark::Line, Vec::new()));
        let (first, second) = (Some(0), Some(1));
        let wanted = [Ink::Limit, Ink::Cited(first), Ink::Colour(0), Ink::Cited(second), Ink::Colour(1)];
        assert_eq!(inks(&panel), wanted);
    }

    #[test]
    fn what_was_simulated_is_a_cross_of_the_same_colour_and_named_once() {
        let one = |y: f64| {
            let points = vec![Point::new(1.0, y), Point::new(2.0, y)];
            let series = ["a", "b"].map(|name| Series::new(name, Source::Ours, Mark::Dots, points.clone()));
            Figure::titled("t", "c", Axis::named("x", ["p", "q"])).panel(Axis::linear("y"), series.to_vec())
        };
        let mut lab = one(3.0);
        lab.put_beside(&one(4.0));
        let chart = chart(&lab, "");
        let drawn: Vec<(&str, Ink, usize)> =
            chart.panels[0].series.iter().map(|s| (s.name.as_str(), s.ink, s.points.len())).collect();
        let wanted = [
            ("a", Ink::Colour(0), 2),
            ("simulated", Ink::Limit, 0),
            ("", Ink::Colour(0), 2),
            ("b", Ink::Colour(1), 2),
            ("", Ink::Colour(1), 2),
        ];
        assert_eq!(drawn, wanted);
        assert_eq!(chart.x.spread, Spread::Places(vec!["p".to_owned(), "q".to_owned()]));
    }
}
