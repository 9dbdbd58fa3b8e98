//! Draws a [`Chart`]: titles, legends, frames, ticks. What stands inside the frames is drawn by
//! [`super::marks`].

use maud::{Markup, PreEscaped, html};

use super::axis::{Scale, label};
use super::marks::{self, Place};
use super::path::px;
use super::{Axis, Chart, Ink, Mark, Panel, Range, Series, Spread};
use crate::page;
use crate::words::{broken, shortened, wrapped};

/// Column that a chart is drawn for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// One over the whole width of a page, from about 620 pixels on.
    Wide,
    /// One of two beside each other; on a telephone it has the whole width.
    Half,
    /// A telephone's.
    Narrow,
    /// Panels as wide, and flat: three take half the height, so that they fit a sheet beside other things.
    Flat,
}

/// Pixels of a letter, about, and of a letter of the title.
const LETTER: f64 = 7.2;
const TITLE_LETTER: f64 = 10.2;
const TITLE_LINE: f64 = 23.0;
const LINE: f64 = 18.0;
/// Around all.
const EDGE: f64 = 14.0;
/// Distance between the sample of a series and its name, and from there to the next.
const SAMPLE: f64 = 36.0;
const APART: f64 = 18.0;
/// Distance from a panel's legend to its upper edge.
const ABOVE: f64 = 15.0;
/// Distance from a panel's lower edge to the next one's heading, without tick labels.
const GAP: f64 = 16.0;
/// Longest name of a place, in letters, where names have no room and are turned.
const TURNED_MAX: usize = 26;
/// Height and length of a letter turned by 40 degrees, as shares of its length.
const TURNED: (f64, f64) = (0.64, 0.77);
/// Height of a place of an axis that goes up.
const ROW: f64 = 34.0;
/// Distance between lines of one name, and between names at the ends of lines.
const NAME_LINE: f64 = 15.0;
/// Distance from the end of a line to its name.
const LEAD: f64 = 20.0;
/// The strip in which stretches of the axis are marked: distance and height.
const STRIP: (f64, f64) = (6.0, 11.0);

impl Width {
    fn pixels(self) -> f64 {
        match self {
            Self::Wide | Self::Flat => 860.0,
            Self::Half => 480.0,
            Self::Narrow => 390.0,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Wide => "chart wide",
            Self::Flat => "chart",
            Self::Half => "chart half",
            Self::Narrow => "chart narrow",
        }
    }

    /// Height of one of several panels.
    fn panel(self, panels: usize) -> f64 {
        let heights = match self {
            Self::Wide => [290.0, 200.0, 140.0],
            Self::Half => [190.0, 150.0, 110.0],
            Self::Narrow => [230.0, 165.0, 125.0],
            Self::Flat => [190.0, 110.0, 58.0],
        };
        heights[panels.clamp(1, 3) - 1]
    }

    fn ticks(self) -> usize {
        if matches!(self, Self::Wide | Self::Flat) { 10 } else { 6 }
    }
}

/// Key to several charts beside each other, as a line of a page: name, ink and mark.
#[must_use]
pub fn key<'a>(entries: impl IntoIterator<Item = (&'a str, Ink, Mark)>) -> Markup {
    let series = |(name, ink, mark): (&str, Ink, Mark)| Series::new(name, ink, mark, []);
    html! {
        @for series in entries.into_iter().map(series) {
            span class="item" {
                svg class="chart sample" viewBox="0 0 30 14" aria-hidden="true" {
                    (marks::sample(&series, (0.0, 7.0)))
                }
                (series.name)
            } " "
        }
    }
}

/// A drawing under way.
struct Drawing<'a> {
    chart: &'a Chart,
    width: Width,
    /// Left and right edge of all panels.
    sides: (f64, f64),
    x: Scale,
    parts: Vec<Markup>,
    /// Height used so far, from the top.
    at: f64,
}

impl Chart {
    /// It as a file of its own, light or dark as the reader has it.
    #[must_use]
    pub fn file(&self, width: Width) -> String {
        self.drawn(width, true).into_string() + "\n"
    }

    /// It in a page, over its whole width, which says below it what it shows.
    #[must_use]
    pub fn figure(&self) -> Markup {
        self.captioned(&html! { (self.drawn(Width::Wide, false)) (self.drawn(Width::Narrow, false)) })
    }

    /// The same, flat, for a sheet that is printed: there is no narrow one.
    #[must_use]
    pub fn flat_figure(&self) -> Markup {
        self.captioned(&self.drawn(Width::Flat, false))
    }

    /// It in a page, for one of two columns.
    #[must_use]
    pub fn half_figure(&self) -> Markup {
        self.captioned(&self.drawn(Width::Half, false))
    }

    /// The drawing alone, for one of two columns of a page.
    #[must_use]
    pub fn half(&self) -> Markup {
        self.drawn(Width::Half, false)
    }

    fn captioned(&self, drawn: &Markup) -> Markup {
        html! {
            figure {
                figcaption {
                    b { (self.title) }
                    @if !self.note.is_empty() { br; (self.note) }
                }
                (drawn)
            }
        }
    }

    fn drawn(&self, width: Width, is_file: bool) -> Markup {
        let left = self.panels.iter().map(|panel| y_labels(panel, width)).fold(0.0, f64::max);
        let sides = (EDGE + left + 8.0, width.pixels() - EDGE - ends_room(self));
        let x = x_scale(self, width, sides);
        let mut drawing = Drawing { chart: self, width, sides, x, parts: Vec::new(), at: 2.0 };
        if is_file {
            drawing.heading();
        }
        let mut above = Vec::new();
        for panel in &self.panels {
            drawing.panel(panel, &mut above);
        }
        drawing.x_label();
        let (wide, height) = (width.pixels(), px(drawing.at + 10.0));
        let made_by =
            if self.made_by.is_empty() { String::new() } else { format!("Made by: {}", self.made_by) };
        html! {
            svg class=(width.class()) viewBox={ "0 0 " (wide) " " (height) }
                width=[is_file.then_some(wide)] height=[is_file.then_some(height)] role="img" aria-label=(self.title) xmlns="http://www.w3.org/2000/svg" {
                title { (self.title) }
                desc { (self.note) " " (made_by) }
                @if width != Width::Narrow { metadata { (self.json()) } }
                @if is_file {
                    style { (PreEscaped(page::FILE_STYLE)) }
                    rect class="paper" width="100%" height="100%" {}
                }
                @for part in &drawing.parts { (part) }
            }
        }
    }
}

impl Drawing<'_> {
    fn letters(&self, letter: f64) -> usize {
        ((self.width.pixels() - 2.0 * EDGE) / letter) as usize
    }

    fn text(&mut self, class: &str, text: &str, line: f64) {
        self.at += line;
        let y = px(self.at);
        self.parts.push(html! { text class=(class) x=(EDGE) y=(y) { (text) } });
    }

    fn heading(&mut self) {
        for line in wrapped(&self.chart.title, self.letters(TITLE_LETTER)) {
            self.text("title", &line, TITLE_LINE);
        }
        for line in wrapped(&self.chart.note, self.letters(LETTER)).iter().filter(|line| !line.is_empty()) {
            self.text("soft", line, LINE);
        }
        self.at += 6.0;
    }

    /// One panel; `above` is what legends have said, which need not be said again.
    fn panel(&mut self, panel: &Panel, above: &mut Vec<Series>) {
        for line in wrapped(&name(&panel.y), self.letters(LETTER)).iter().filter(|line| !line.is_empty()) {
            self.text("soft", line, LINE);
        }
        let is_said = |entry: &Series| self.chart.is_named_at_ends && is_line(entry) || above.contains(entry);
        let new: Vec<Series> = entries(panel).into_iter().filter(|entry| !is_said(entry)).collect();
        if !new.is_empty() {
            self.legend(&new);
        }
        above.extend(new);
        let top = self.at + ABOVE;
        let height = match &panel.y.spread {
            Spread::Places(names) => ROW * names.len() as f64,
            Spread::Linear | Spread::Log => self.width.panel(self.chart.panels.len()),
        };
        let bottom = top + height;
        let y = y_scale(panel, (bottom, top), self.width);
        let (left, right) = (px(self.sides.0), px(self.sides.1));
        self.parts.push(html! {
            @for (number, tick) in y.ticks().iter().enumerate() {
                path class="grid" d={ "M" (left) " " (px(y.at(*tick))) "H" (right) } {}
                @let lines = tick_lines(&panel.y, number, *tick);
                @let first = y.at(*tick) + 4.5 - NAME_LINE / 2.0 * (lines.len() - 1) as f64;
                @for (line, part) in lines.iter().enumerate() {
                    text class="tick" x=(px(left - 7.0)) y=(px(first + NAME_LINE * line as f64)) text-anchor="end" {
                        (part)
                    }
                }
            }
        });
        if self.chart.x.spread == Spread::Log || is_places(&panel.y) {
            let across = |tick: &f64| format!("M{} {}V{}", px(self.x.at(*tick)), px(top), px(bottom));
            let grid: String = self.x.ticks().iter().map(across).collect();
            self.parts.push(html! { path class="grid" d=(grid) {} });
        }
        let place = Place {
            x: &self.x,
            y: &y,
            sides: self.sides,
            heights: (top, bottom),
            is_places: is_places(&self.chart.x),
        };
        let drawn = marks::all(panel, &place);
        self.parts.push(drawn);
        if self.chart.is_named_at_ends {
            self.ends(panel, &y, (top, bottom));
        }
        if !panel.series.iter().any(|series| series.points.iter().any(super::Point::is_drawn)) {
            let (x, y) = (px((left + right) / 2.0), px((top + bottom) / 2.0));
            self.parts.push(html! { text class="soft" x=(x) y=(y) text-anchor="middle" { "no data" } });
        }
        self.at = bottom;
        self.strips(panel);
        let level = px(self.at);
        self.parts.push(html! { path class="axis" d={ "M" (left) " " (level) "H" (right) } {} });
        self.ticks();
        self.at += GAP;
    }

    /// The names of lines at their right ends, apart from each other, with a thin line from the one to the other.
    fn ends(&mut self, panel: &Panel, y: &Scale, (top, bottom): (f64, f64)) {
        let end = |series: &Series| {
            let last = series.points.iter().rev().find(|point| point.is_drawn())?;
            Some((self.x.at(last.x), y.at(last.y)))
        };
        let named = panel.series.iter().filter(|series| is_line(series));
        let mut ends: Vec<(&Series, (f64, f64))> =
            named.filter_map(|series| Some((series, end(series)?))).collect();
        ends.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let levels = apart(&ends.iter().map(|end| end.1.1).collect::<Vec<_>>(), NAME_LINE, (top, bottom));
        let drawn = html! {
            @for ((series, (x, from)), level) in ends.iter().zip(levels) {
                @let at = self.sides.1 + LEAD;
                g class=(marks::class(series.ink)) {
                    path class="error" d={ "M" (px(x + 6.0)) " " (px(*from)) "L" (px(at - 3.0)) " " (px(level)) } {}
                }
                text class="name" x=(px(at)) y=(px(level + 4.5)) { (series.name) }
            }
        };
        self.parts.push(drawn);
    }

    /// Stretches of the axis that are marked below a panel.
    fn strips(&mut self, panel: &Panel) {
        for series in panel.series.iter().filter(|series| series.mark == Mark::Spans) {
            let top = px(self.at + STRIP.0);
            let stretches = series.points.iter().filter(|point| point.is_drawn()).map(|point| {
                let (from, to) = (self.x.at(point.x), self.x.at(point.y));
                (
                    px(from),
                    px((to - from).max(1.2)),
                    format!("{} from {} to {}", series.name, label(point.x), label(point.y)),
                )
            });
            let drawn = html! {
                rect class="strip" x=(px(self.sides.0)) y=(top) width=(px(self.sides.1 - self.sides.0)) height=(STRIP.1) {}
                g class=(marks::class(series.ink)) {
                    @for (x, width, what) in stretches {
                        rect class="bar" x=(x) y=(top) width=(width) height=(STRIP.1) { title { (what) } }
                    }
                }
            };
            self.parts.push(drawn);
            self.at += STRIP.0 + STRIP.1;
        }
    }

    /// Marks and labels of the axis across, where they have room.
    fn ticks(&mut self) {
        let level = self.at;
        match &self.chart.x.spread {
            Spread::Places(names) => self.names(names),
            Spread::Linear | Spread::Log => {
                let mut free = 0.0;
                for tick in self.x.ticks() {
                    let text = label(*tick);
                    let half = text.chars().count() as f64 * LETTER / 2.0;
                    let at = self.x.at(*tick);
                    // A label at the end of the axis must not leave the picture.
                    let middle = at.min(self.width.pixels() - 2.0 - half);
                    let has_room = middle - half >= free;
                    if has_room {
                        free = middle + half + LETTER;
                    }
                    self.parts.push(html! {
                        path class="axis" d={ "M" (px(at)) " " (px(level)) "v4" } {}
                        @if has_room {
                            text class="tick" x=(px(middle)) y=(px(level + LINE)) text-anchor="middle" { (text) }
                        }
                    });
                }
                self.at += LINE;
            }
        }
    }

    /// Names of places: in lines below each other, or turned where these are too narrow.
    fn names(&mut self, names: &[String]) {
        let level = self.at;
        let longest = |of: &dyn Fn(&str) -> usize| names.iter().map(|name| of(name)).max().unwrap_or(0);
        let part = |name: &str| name.split(", ").map(|part| part.chars().count()).max().unwrap_or(0);
        let is_turned = longest(&part) as f64 * LETTER > self.x.step();
        // The first names must not leave the picture.
        let room = |at: f64| TURNED_MAX.min(((at - EDGE) / (LETTER * TURNED.1)) as usize).max(6);
        for (number, name) in names.iter().enumerate() {
            let at = px(self.x.at(number as f64 + 1.0));
            let (low, high) = (px(level), px(level + LINE));
            let turned = format!("translate({at} {}) rotate(-40)", px(level + 13.0));
            self.parts.push(html! {
                path class="axis" d={ "M" (at) " " (low) "v4" } {}
                @if is_turned {
                    text class="tick" transform=(turned) text-anchor="end" {
                        title { (name) } (shortened(name, room(at)))
                    }
                } @else {
                    @for (line, part) in name.split(", ").enumerate() {
                        text class="tick" x=(at) y=(px(high + NAME_LINE * line as f64)) text-anchor="middle" { (part) }
                    }
                }
            });
        }
        self.at += if is_turned {
            18.0 + longest(&|name| name.chars().count().min(TURNED_MAX)) as f64 * LETTER * TURNED.0
        } else {
            LINE + NAME_LINE * (longest(&|name| name.split(", ").count()).max(1) - 1) as f64
        };
    }

    fn x_label(&mut self) {
        if self.chart.x.label.is_empty() {
            return;
        }
        self.at -= GAP - 2.0;
        let right = px(self.sides.1);
        for line in broken(&name(&self.chart.x), ((self.sides.1 - EDGE) / LETTER) as usize) {
            self.at += LINE - 1.0;
            let y = px(self.at);
            self.parts.push(html! { text class="soft" x=(right) y=(y) text-anchor="end" { (line) } });
        }
    }

    /// The names of the series with what they are drawn in.
    fn legend(&mut self, entries: &[Series]) {
        let right = self.width.pixels() - EDGE;
        let columns = ((right - EDGE - SAMPLE) / LETTER) as usize;
        let mut x = f64::MAX;
        for series in entries {
            let lines = broken(&series.name, columns);
            let letters = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            let length = SAMPLE + letters as f64 * LETTER;
            if x > EDGE && x + length > right || lines.len() > 1 {
                (x, self.at) = (EDGE, self.at + LINE + 1.0);
            }
            let (at, y) = (px(x), self.at);
            self.parts.push(html! {
                (marks::sample(series, (at, y - 4.5)))
                @for (number, line) in lines.iter().enumerate() {
                    text class="name" x=(px(at + SAMPLE)) y=(px(y + LINE * number as f64)) { (line) }
                }
            });
            self.at += LINE * (lines.len() - 1) as f64;
            x = if lines.len() > 1 { f64::MAX } else { x + length + APART };
        }
    }
}

/// Entries of the legend: each series that has a name, once, without its points. A name beside a dot need
/// not be said again.
fn entries(panel: &Panel) -> Vec<Series> {
    let mut entries: Vec<Series> = Vec::new();
    for series in panel.series.iter().filter(|s| !s.name.is_empty() && s.mark != Mark::Named) {
        let entry = Series::new(&series.name, series.ink, series.mark, []);
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries
}

/// It has a name and a right end.
fn is_line(series: &Series) -> bool {
    !series.name.is_empty() && matches!(series.mark, Mark::Line | Mark::Dotted | Mark::Steps)
}

/// Pixels that names at the ends of lines take.
fn ends_room(chart: &Chart) -> f64 {
    if !chart.is_named_at_ends {
        return 0.0;
    }
    let lines = chart.panels.iter().flat_map(|panel| &panel.series).filter(|series| is_line(series));
    let longest = lines.map(|series| series.name.chars().count()).max();
    longest.map_or(0.0, |letters| LEAD + letters as f64 * LETTER)
}

/// Levels, which rise, moved as little as puts them `least` apart, and between both ends as far as there is room.
fn apart(levels: &[f64], least: f64, (top, bottom): (f64, f64)) -> Vec<f64> {
    // Those that stand as closely as they may: how many, and the mean of where their first one would stand.
    let mut blocks: Vec<(usize, f64)> = Vec::new();
    for (number, level) in levels.iter().enumerate() {
        blocks.push((1, level - number as f64 * least));
        while let [.., (count, first), (next_count, next)] = blocks[..]
            && first > next
        {
            let together = count + next_count;
            let mean = (first * count as f64 + next * next_count as f64) / together as f64;
            blocks.truncate(blocks.len() - 2);
            blocks.push((together, mean));
        }
    }
    let last = bottom - (levels.len().max(1) - 1) as f64 * least;
    let firsts = blocks.into_iter().flat_map(|(count, first)| vec![first; count]);
    firsts.enumerate().map(|(n, first)| first.min(last).max(top) + n as f64 * least).collect()
}

/// Lines of text beside a tick of the axis that goes up.
fn tick_lines(axis: &Axis, number: usize, tick: f64) -> Vec<String> {
    match &axis.spread {
        Spread::Places(names) => names[number].split(", ").map(str::to_owned).collect(),
        Spread::Linear | Spread::Log => vec![label(tick)],
    }
}

fn is_places(axis: &Axis) -> bool {
    matches!(axis.spread, Spread::Places(_))
}

/// Name of an axis, and whether it is logarithmic.
fn name(axis: &Axis) -> String {
    let is_said = axis.label.is_empty() || axis.label.contains("logarithmic");
    let spread = if axis.spread == Spread::Log && !is_said { ", logarithmic" } else { "" };
    format!("{}{spread}", axis.label)
}

/// Pixels of the widest label of the axis that goes up.
fn y_labels(panel: &Panel, width: Width) -> f64 {
    let scale = y_scale(panel, (1.0, 0.0), width);
    let lines = scale.ticks().iter().enumerate().flat_map(|(i, tick)| tick_lines(&panel.y, i, *tick));
    let longest = lines.map(|line| line.chars().count()).max().unwrap_or(1);
    longest as f64 * LETTER
}

fn x_scale(chart: &Chart, width: Width, sides: (f64, f64)) -> Scale {
    let series = chart.panels.iter().flat_map(|panel| &panel.series);
    let values = series.flat_map(|series| {
        // The last step is as wide as the one before.
        let last = series.points.len().checked_sub(2).and_then(|before| series.points.get(before..));
        let step = last.map_or(0.0, |two| two[1].x - two[0].x);
        let is_step = matches!(series.mark, Mark::Steps | Mark::Ground);
        let end = series.points.last().filter(|_| is_step).map(|last| last.x + step);
        let to = series.points.iter().filter(|_| series.mark == Mark::Spans).map(|point| point.y);
        series.points.iter().map(|point| point.x).chain(end).chain(to).collect::<Vec<_>>()
    });
    scale(&chart.x, values, width.ticks(), sides)
}

fn y_scale(panel: &Panel, pixels: (f64, f64), width: Width) -> Scale {
    let ticks = if width == Width::Wide { 5 } else { 4 };
    let series = panel.series.iter().filter(|series| series.mark != Mark::Spans);
    let values =
        series.flat_map(|series| &series.points).filter(|point| point.is_drawn()).flat_map(|point| {
            let around = point.around.map(|(low, high)| [low, high]);
            [point.y].into_iter().chain(around.into_iter().flatten())
        });
    // Names are read from the top.
    let pixels = if is_places(&panel.y) { (pixels.1, pixels.0) } else { pixels };
    scale(&panel.y, values, ticks, pixels)
}

fn scale(axis: &Axis, values: impl Iterator<Item = f64>, ticks: usize, pixels: (f64, f64)) -> Scale {
    let is_log = axis.spread == Spread::Log;
    let shown = values.filter(|value| value.is_finite() && !(is_log && *value <= 0.0));
    let ends = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    let (least, largest) = if ends.0 <= ends.1 { ends } else { (0.0, 1.0) };
    match (&axis.spread, axis.range) {
        (Spread::Places(names), _) => Scale::places(names.len(), pixels),
        (Spread::Log, Range::Between(from, to)) => Scale::log(from, to, pixels),
        (Spread::Log, _) => Scale::log(if least > 0.0 { least } else { 1.0 }, largest, pixels),
        (Spread::Linear, Range::Round) => Scale::round(least.min(0.0), largest, ticks, pixels),
        (Spread::Linear, Range::Exact) => Scale::exact(least.min(0.0), largest, ticks, pixels),
        (Spread::Linear, Range::From(from)) => Scale::round(from, largest.max(from), ticks, pixels),
        (Spread::Linear, Range::ExactFrom(from)) => Scale::exact(from, largest.max(from), ticks, pixels),
        (Spread::Linear, Range::Between(from, to)) => Scale::exact(from, to, ticks, pixels),
    }
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn names_are_moved_as_little_as_needed() {
        let edges = (0.0, 100.0);
        assert_eq!(apart(&[10.0, 50.0], 15.0, edges), [10.0, 50.0]);
        assert_eq!(apart(&[50.0, 50.0, 50.0], 15.0, edges), [35.0, 50.0, 65.0]);
        assert_eq!(apart(&[20.0, 50.0, 52.0], 15.0, edges), [20.0, 43.5, 58.5]);
        assert_eq!(apart(&[96.0, 98.0], 15.0, edges), [85.0, 100.0], "the lower edge");
        assert_eq!(apart(&[-3.0, 2.0], 15.0, edges), [0.0, 15.0], "the upper edge");
        assert!(apart(&[], 15.0, edges).is_empty());
    }
}
