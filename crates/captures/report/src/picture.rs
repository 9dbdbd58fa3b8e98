//! A [`Picture`] as a [`Chart`].

use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use scenario::results::{Picture, PictureAxis, PicturePanel, PictureSpread};

/// Number of points from which lines have marks.
const MARKED: usize = 20;

/// It as a chart, without the text that stands beside it.
#[must_use]
pub fn picture_chart(picture: &Picture) -> Chart {
    let places = places(picture);
    let x = match picture.x.spread {
        PictureSpread::Places => Axis::places(&picture.x.label, places.iter().map(f64::to_string)),
        PictureSpread::Linear => Axis::exact(&picture.x.label),
        PictureSpread::Log => Axis::log(&picture.x.label),
    };
    let at = |x: f64| places.iter().position(|place| *place == x).map_or(x, |index| index as f64 + 1.0);
    let panel = |chart: Chart, panel: &PicturePanel| {
        let lines = panel.lines.iter().map(|line| {
            let is_marked = line.points.len() <= MARKED && picture.x.spread != PictureSpread::Linear;
            let mark = if is_marked { Mark::Dotted } else { Mark::Line };
            Series::new(
                &line.name,
                ink(&line.name),
                mark,
                line.points.iter().map(|(x, y)| Point::new(at(*x), *y)),
            )
        });
        chart.panel(y_axis(&panel.y), capacity(panel).into_iter().chain(lines).collect())
    };
    picture.panels.iter().fold(Chart::new(&picture.title, x), panel)
}

/// The values that places stand for, rising.
fn places(picture: &Picture) -> Vec<f64> {
    if picture.x.spread != PictureSpread::Places {
        return Vec::new();
    }
    let lines = picture.panels.iter().flat_map(|panel| &panel.lines);
    let mut values: Vec<f64> = lines.flat_map(|line| &line.points).map(|point| point.0).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn y_axis(axis: &PictureAxis) -> Axis {
    match axis.spread {
        PictureSpread::Log => Axis::log(&axis.label),
        PictureSpread::Linear | PictureSpread::Places => Axis::linear(&axis.label),
    }
}

/// Look of a case, in every picture alike.
fn ink(name: &str) -> Ink {
    match name {
        name if name.contains("CUBIC") => Ink::Dashed(1, 1),
        name if name.contains("BBR") => Ink::Dashed(3, 2),
        name if name.starts_with("accelerated") => Ink::Colour(0),
        _ => Ink::Limit,
    }
}

/// Capacity of the link; its values stand in the middle of their bins.
fn capacity(panel: &PicturePanel) -> Option<Series> {
    let [first, second, ..] = panel.capacity.as_slice() else { return None };
    let half = (second.0 - first.0) / 2.0;
    let steps = panel.capacity.iter().map(|(x, y)| Point::new(x - half, *y));
    Some(Series::new("what the link can carry", Ink::Limit, Mark::Ground, steps))
}

#[cfg(test)]
mod tests {
    use figures::chart::{Spread, Width};
    use scenario::results::PictureLine;

    use super::*;

    #[test]
    fn places_are_named_by_their_values_and_cases_look_alike_everywhere() {
        let axis = |label: &str, spread| PictureAxis { label: label.to_owned(), spread };
        let line = |name: &str, points: &[(f64, f64)]| PictureLine {
            name: name.to_owned(),
            points: points.to_vec(),
        };
        let picture = Picture {
            name: "loss".to_owned(),
            title: "what is seen".to_owned(),
            text: "x < y".to_owned(),
            runner: "sim".to_owned(),
            x: axis("loss, %", PictureSpread::Places),
            panels: vec![PicturePanel {
                y: axis("Mbit/s", PictureSpread::Linear),
                capacity: vec![(1.0, 50.0), (3.0, 50.0)],
                lines: vec![
                    line("direct CUBIC", &[(0.0, 47.0), (3.0, 0.7)]),
                    line("accelerated", &[(0.0, 47.0), (0.01, 47.0), (3.0, 45.0)]),
                ],
            }],
        };
        let chart = picture_chart(&picture);
        assert_eq!(chart.x.spread, Spread::Places(["0", "0.01", "3"].map(str::to_owned).into()));
        let series = &chart.panels[0].series;
        assert_eq!(series[0].points[0], Point::new(0.0, 50.0), "a step begins where its bin does");
        assert_eq!(series[1].points[1], Point::new(3.0, 0.7), "the third place");
        assert_eq!((series[1].ink, series[2].ink), (Ink::Dashed(1, 1), Ink::Colour(0)));
        assert!(chart.file(Width::Narrow).contains("what the link can carry"));
    }
}
