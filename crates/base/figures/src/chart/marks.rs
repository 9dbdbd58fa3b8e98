//! Marks and names inside the frame of a panel.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::axis::Scale;
use super::path::{Pen, px};
use super::{Ink, Mark, Panel, Point, Series};

/// Place of a panel in the drawing.
pub(super) struct Place<'a> {
    pub(super) x: &'a Scale,
    pub(super) y: &'a Scale,
    /// Left and right.
    pub(super) sides: (f64, f64),
    /// Top and bottom.
    pub(super) heights: (f64, f64),
    /// The axis across has places with names.
    pub(super) is_places: bool,
}

const COLOURS: usize = 6;
const DASHES: usize = 4;
/// Distance between dots of several series at a place with a name, as a share of it.
const APART: f64 = 0.07;
/// Share of a place that bars take.
const BARS: f64 = 0.72;
/// Width of a letter of the names beside dots, and height of their line.
const LETTER: (f64, f64) = (6.9, 14.0);
/// Steps closer to each other than this are one, in pixels.
const COLUMN: f64 = 0.5;

/// The classes that an ink gives to an element: in pages its colour is `--c`.
#[must_use]
pub fn class(ink: Ink) -> String {
    match ink {
        Ink::Colour(number) => dashed(number, number / COLOURS),
        Ink::Dashed(number, dashes) => dashed(number, dashes),
        Ink::Cited(None) => "cited".to_owned(),
        Ink::Cited(Some(number)) => format!("cited c{}", number % COLOURS),
        Ink::Plain => "plain".to_owned(),
        Ink::Limit => "limit".to_owned(),
        Ink::Bad => "warned".to_owned(),
    }
}

fn dashed(number: usize, dashes: usize) -> String {
    let colour = number % COLOURS;
    if dashes.is_multiple_of(DASHES) {
        format!("c{colour}")
    } else {
        format!("c{colour} d{}", dashes % DASHES)
    }
}

/// Number of the shape of its dots.
fn shape(ink: Ink) -> usize {
    match ink {
        Ink::Colour(number) | Ink::Dashed(number, _) | Ink::Cited(Some(number)) => number % COLOURS,
        Ink::Cited(None) | Ink::Plain | Ink::Limit | Ink::Bad => 0,
    }
}

/// Draws all series: grounds and bands lowest, what is cited on top, for it is hollow and would be hidden
/// where both agree.
pub(super) fn all(panel: &Panel, place: &Place<'_>) -> Markup {
    let is_on_top = |series: &Series| matches!(series.ink, Ink::Cited(_));
    let is_ground = |series: &Series| matches!(series.mark, Mark::Ground | Mark::Band);
    let level = |series: &Series| if is_ground(series) { 0 } else { 1 + usize::from(is_on_top(series)) };
    let asides = asides(panel, place);
    let mut ordered: Vec<(&Series, &f64)> = panel.series.iter().zip(&asides).collect();
    ordered.sort_by_key(|(series, _)| level(series));
    let mut names = Names::of(panel, place);
    html! {
        @for (series, aside) in ordered { (one(series, aside, panel, place)) }
        @for series in panel.series.iter().filter(|s| s.mark == Mark::Named) { (names.beside(series)) }
    }
}

/// Offset of each series at places with names. Crosses stand where what is before them stands.
fn asides(panel: &Panel, place: &Place<'_>) -> Vec<f64> {
    let stands_aside = |series: &Series| matches!(series.mark, Mark::Dots | Mark::Stems);
    let count = panel.series.iter().filter(|s| stands_aside(s)).count();
    if !place.is_places || count == 0 {
        return vec![0.0; panel.series.len()];
    }
    let middle = (count - 1) as f64 / 2.0;
    let (mut number, mut last) = (0, 0.0);
    let aside = |series: &Series| {
        if stands_aside(series) {
            last = (f64::from(number) - middle) * APART;
            number += 1;
        }
        if stands_aside(series) || series.mark == Mark::Crosses { last } else { 0.0 }
    };
    panel.series.iter().map(aside).collect()
}

fn one(series: &Series, aside: &f64, panel: &Panel, place: &Place<'_>) -> Markup {
    let class = class(series.ink);
    let at = |point: &Point| (place.x.at(point.x + aside), place.y.at(point.y));
    let drawn = || series.points.iter().filter(|point| point.is_drawn());
    let has_bars = matches!(series.mark, Mark::Line | Mark::Dotted | Mark::Dots | Mark::Named);
    let errors = if has_bars { error_bars(series, *aside, place) } else { String::new() };
    // A point alone would be no line.
    let is_alone = |at: usize| {
        let is_gap =
            |other: Option<usize>| other.and_then(|i| series.points.get(i)).is_none_or(|p| !p.is_drawn());
        is_gap(at.checked_sub(1)) && is_gap(Some(at + 1))
    };
    let alone =
        || series.points.iter().enumerate().filter(|(i, p)| p.is_drawn() && is_alone(*i)).map(|(_, p)| p);
    let dots = |points: &mut dyn Iterator<Item = &Point>| -> String {
        points.map(|point| dot(shape(series.ink), at(point))).collect()
    };
    let each = |shape: fn((f64, f64)) -> String| drawn().map(|point| shape(at(point))).collect::<String>();
    html! {
        g class=(class) {
            @if !errors.is_empty() { path class="error" d=(errors) {} }
            @match series.mark {
                Mark::Line => {
                    path class="line" d=(line(series, at)) {}
                    @if alone().next().is_some() { path class="dot" d=(dots(&mut alone())) {} }
                }
                Mark::Dotted => {
                    path class="line" d=(line(series, at)) {}
                    path class="dot" d=(dots(&mut drawn())) {}
                }
                Mark::Dots | Mark::Named => { path class="dot" d=(dots(&mut drawn())) {} }
                Mark::Crosses => { path class="cross" d=(each(cross)) {} }
                Mark::Stems => { path class="stem" d=(stems(series, at, place)) {} }
                Mark::Ticks => { path class="again" d=(each(tick)) {} }
                Mark::Bars => { path class="bar" d=(bars(series, panel, place)) {} }
                Mark::Steps => { path class="line" d=(steps(series, place, false)) {} }
                Mark::Ground => { path class="ground" d=(steps(series, place, true)) {} }
                Mark::Band => { path class="band" d=(band(series, place)) {} }
                Mark::Spans => {}
            }
        }
    }
}

/// The sample of a series in a legend, 30 pixels wide.
pub(super) fn sample(series: &Series, (x, y): (f64, f64)) -> Markup {
    let middle = (x + 15.0, y);
    let across = format!("M{} {}h30", px(x), px(y));
    let area = format!("M{} {}h30v11h-30Z", px(x), px(y - 5.5));
    html! {
        g class=(class(series.ink)) {
            @match series.mark {
                Mark::Line | Mark::Steps => { path class="line" d=(across) {} }
                Mark::Dotted => {
                    path class="line" d=(across) {}
                    path class="dot" d=(dot(shape(series.ink), middle)) {}
                }
                Mark::Dots | Mark::Named => { path class="dot" d=(dot(shape(series.ink), middle)) {} }
                Mark::Crosses => { path class="cross" d=(cross(middle)) {} }
                Mark::Stems => { path class="stem" d={ "M" (px(middle.0)) " " (px(y - 6.0)) "v12" } {} }
                Mark::Ticks => { path class="again" d=(tick(middle)) {} }
                Mark::Bars | Mark::Spans => { path class="bar" d=(area) {} }
                Mark::Ground => { path class="ground" d=(area) {} }
                Mark::Band => { path class="band" d=(area) {} }
            }
        }
    }
}

/// Line from point to point; what is no number breaks it.
fn line(series: &Series, at: impl Fn(&Point) -> (f64, f64)) -> String {
    let mut pen = Pen::default();
    for point in &series.points {
        if point.is_drawn() {
            let (x, y) = at(point);
            pen.line(x, y);
        } else {
            pen.stop();
        }
    }
    pen.finish()
}

fn error_bars(series: &Series, aside: f64, place: &Place<'_>) -> String {
    let bar = |point: &Point| {
        let (low, high) = point.around?;
        let x = place.x.at(point.x + aside);
        let (low, high) = (px(place.y.at(low)), px(place.y.at(high)));
        Some(format!("M{0} {low}V{high}M{1} {low}h6M{1} {high}h6", px(x), px(x - 3.0)))
    };
    series.points.iter().filter(|point| point.is_drawn()).filter_map(bar).collect()
}

/// All stems of a column of half a pixel are one.
fn stems(series: &Series, at: impl Fn(&Point) -> (f64, f64), place: &Place<'_>) -> String {
    let mut columns: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for point in series.points.iter().filter(|point| point.is_drawn()) {
        let (x, y) = at(point);
        let ends =
            point.around.map_or((y, place.y.floor()), |(low, high)| (place.y.at(high), place.y.at(low)));
        let (top, bottom) = (ends.0.min(ends.1), ends.0.max(ends.1));
        let column = columns.entry((x / COLUMN).round() as i64).or_insert((top, bottom));
        *column = (column.0.min(top), column.1.max(bottom));
    }
    let stem = |(column, (top, bottom)): (i64, (f64, f64))| {
        format!("M{} {}V{}", px(column as f64 * COLUMN), px(top), px(bottom.max(top + 0.8)))
    };
    columns.into_iter().map(stem).collect()
}

/// Bars of all series of the panel beside each other.
fn bars(series: &Series, panel: &Panel, place: &Place<'_>) -> String {
    let all: Vec<&Series> = panel.series.iter().filter(|s| s.mark == Mark::Bars).collect();
    let number = all.iter().position(|other| std::ptr::eq(*other, series)).unwrap_or(0);
    let mut xs: Vec<f64> =
        all.iter().flat_map(|s| &s.points).map(|p| p.x).filter(|x| x.is_finite()).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let least =
        xs.windows(2).map(|two| place.x.at(two[1]) - place.x.at(two[0])).fold(f64::INFINITY, f64::min);
    let room = if place.is_places { place.x.step() } else { least.min(60.0) };
    let width = room * BARS / all.len() as f64;
    let bar = |point: &Point| {
        let left = place.x.at(point.x) + (number as f64 - all.len() as f64 / 2.0) * width;
        let (y, floor) = (place.y.at(point.y), place.y.floor());
        format!("M{} {}V{}h{}V{}Z", px(left), px(floor), px(y), px((width - 1.0).max(0.8)), px(floor))
    };
    series.points.iter().filter(|point| point.is_drawn()).map(bar).collect()
}

/// Level steps; what is no number is a gap. Steps within half a pixel are one.
fn steps(series: &Series, place: &Place<'_>, is_filled: bool) -> String {
    let mut pen = Pen::default();
    let floor = place.y.floor();
    let width = |i: usize| {
        let next = series.points.get(i + 1).map(|next| next.x);
        let before = i.checked_sub(1).and_then(|before| series.points.get(before)).map(|before| before.x);
        let x = series.points[i].x;
        next.unwrap_or_else(|| x + before.map_or(0.0, |before| x - before))
    };
    let mut written = None;
    for (i, point) in series.points.iter().enumerate() {
        let (from, to) = (place.x.at(point.x), place.x.at(width(i)));
        match (point.is_drawn(), written) {
            (false, Some(x)) => {
                if is_filled {
                    pen.line(x, floor);
                    pen.close();
                } else {
                    pen.stop();
                }
                written = None;
            }
            (false, None) => {}
            (true, Some(x)) if to - x < COLUMN && i + 1 < series.points.len() => {}
            (true, _) => {
                if is_filled && written.is_none() {
                    pen.lift(from, floor);
                }
                let y = place.y.at(point.y);
                pen.line(from, y);
                pen.line(to, y);
                written = Some(to);
            }
        }
    }
    if let (true, Some(x)) = (is_filled, written) {
        pen.line(x, floor);
        pen.close();
    }
    pen.finish()
}

/// Area between what is around the points; what is no number is a gap.
fn band(series: &Series, place: &Place<'_>) -> String {
    let mut pen = Pen::default();
    for run in series.points.split(|point| !point.is_drawn()).filter(|run| !run.is_empty()) {
        let ends = |point: &Point| point.around.unwrap_or((point.y, point.y));
        run.iter().for_each(|point| pen.line(place.x.at(point.x), place.y.at(ends(point).1)));
        run.iter().rev().for_each(|point| pen.line(place.x.at(point.x), place.y.at(ends(point).0)));
        pen.close();
    }
    pen.finish()
}

fn cross((x, y): (f64, f64)) -> String {
    format!("M{} {}l8 8m0-8l-8 8", px(x - 4.0), px(y - 4.0))
}

fn tick((x, y): (f64, f64)) -> String {
    format!("M{} {}v7", px(x), px(y - 3.5))
}

/// A circle, a square, a diamond, a triangle, another, or a bar.
fn dot(shape: usize, (x, y): (f64, f64)) -> String {
    let (x, y) = (px(x), px(y));
    match shape {
        0 => format!("M{} {y}a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", px(x - 4.0)),
        1 => format!("M{} {}h7.2v7.2h-7.2Z", px(x - 3.6), px(y - 3.6)),
        2 => format!("M{x} {}l5 5-5 5-5-5Z", px(y - 5.0)),
        3 => format!("M{x} {}l4.8 8.4h-9.6Z", px(y - 5.2)),
        4 => format!("M{x} {}l4.8-8.4h-9.6Z", px(y + 5.2)),
        _ => format!("M{} {}h9.6v4h-9.6Z", px(x - 4.8), px(y - 2.0)),
    }
}

/// Names beside dots, which keep apart from dots and from each other.
struct Names<'a> {
    place: &'a Place<'a>,
    /// Left, top, right and bottom of what is taken.
    taken: Vec<[f64; 4]>,
}

impl<'a> Names<'a> {
    fn of(panel: &Panel, place: &'a Place<'a>) -> Self {
        let dots = panel.series.iter().filter(|series| series.mark == Mark::Named).flat_map(|s| &s.points);
        let around = |point: &Point| {
            let (x, y) = (place.x.at(point.x), place.y.at(point.y));
            [x - 6.0, y - 6.0, x + 6.0, y + 6.0]
        };
        Self { place, taken: dots.filter(|point| point.is_drawn()).map(around).collect() }
    }

    fn beside(&mut self, series: &Series) -> Markup {
        let width = series.name.chars().count() as f64 * LETTER.0;
        let mut free = |point: &Point| {
            let at = (self.place.x.at(point.x), self.place.y.at(point.y));
            let (left, top) = self.free(width, at);
            self.taken.push([left, top, left + width, top + LETTER.1]);
            (px(left), px(top + LETTER.1 - 3.0))
        };
        let places: Vec<(f64, f64)> =
            series.points.iter().filter(|point| point.is_drawn()).map(&mut free).collect();
        html! { @for (x, y) in places { text class="beside" x=(x) y=(y) { (series.name) } } }
    }

    /// Position where a name of this width stands free, nearest first; left and top.
    fn free(&self, width: f64, (x, y): (f64, f64)) -> (f64, f64) {
        let middle = y - LETTER.1 / 2.0;
        let sides = |dy: f64| [(x + 9.0, middle + dy), (x - 9.0 - width, middle + dy)];
        let steps = (0..24).flat_map(|n| [f64::from(n) * 7.0, f64::from(n) * -7.0]);
        let is_free = |&(left, top): &(f64, f64)| {
            let (right, bottom) = (left + width, top + LETTER.1);
            let is_inside = left >= self.place.sides.0
                && right <= self.place.sides.1 + 10.0
                && top >= self.place.heights.0 - 6.0
                && bottom <= self.place.heights.1;
            let is_apart = |t: &[f64; 4]| left >= t[2] || right <= t[0] || top >= t[3] || bottom <= t[1];
            is_inside && self.taken.iter().all(is_apart)
        };
        let edge = (self.place.sides.1 - width).max(self.place.sides.0);
        steps.flat_map(sides).find(is_free).unwrap_or(((x + 9.0).min(edge), middle))
    }
}
