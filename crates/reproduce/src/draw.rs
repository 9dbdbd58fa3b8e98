//! [`svg`]: a [`Figure`] as one SVG that stands alone, light and dark.

use std::fmt::Write as _;

use report::{Axis as Scale, axis_label, escape};

use crate::{Axis, Figure, Mark, Panel, Point, Series, Source};

const WIDTH: f64 = 720.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const PANEL: f64 = 150.0;
const SMALL_PANEL: f64 = 92.0;
const GAP: f64 = 20.0;
const LEGEND: f64 = 18.0;
const BOTTOM: f64 = 40.0;
/// Width of a letter, about.
const LETTER: f64 = 7.0;
/// Height of a line of a place's name.
const NAME_LINE: f64 = 12.0;
/// How far series stand apart at a named place, as a share of it.
const APART: f64 = 0.07;
const COLOURS: usize = 6;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#333}.t{font-size:14px;font-weight:600;fill:#111}.s{fill:#555}\
.bg{fill:#fff}.g{stroke:#e4e4e4;fill:none}.x{stroke:#777;fill:none}.ground{fill:#dfe7ef;stroke:none}\
.paper{--k:#111}.limit{--k:#777}.k0{--k:#0b63b0}.k1{--k:#c4501b}.k2{--k:#2a8a3e}.k3{--k:#93368a}.k4{--k:#8a6d00}.k5{--k:#4a4fc4}\
.l{fill:none;stroke:var(--k);stroke-width:1.6;stroke-linejoin:round}.paper.l{stroke-dasharray:5 4}\
.d{fill:var(--k);stroke:var(--k)}.paper.d{fill:none;stroke-width:1.5}.n{font-size:10.5px}.e{stroke:var(--k);stroke-width:1.2;fill:none}.c{stroke:var(--k);stroke-width:1.6;fill:none}\
@media(prefers-color-scheme:dark){text{fill:#ccc}.t{fill:#f2f2f2}.s{fill:#aaa}.bg{fill:#16181c}.g{stroke:#30343a}\
.x{stroke:#888}.ground{fill:#28323d}.paper{--k:#eee}.limit{--k:#999}.k0{--k:#63aef0}.k1{--k:#f08c5a}.k2{--k:#6fcf84}\
.k3{--k:#e08ad6}.k4{--k:#e3c23f}.k5{--k:#a5a9ff}}";

/// The picture, a whole file that loads nothing.
#[must_use]
pub fn svg(figure: &Figure, command: &str) -> String {
    let is_small = figure.panels.len() > 2;
    let panel_height = if is_small { SMALL_PANEL } else { PANEL };
    let legends = legend_lines(&figure.panels);
    let legend_height: f64 = legends.iter().map(|lines| *lines as f64 * LEGEND).sum();
    let count = figure.panels.len() as f64;
    let names = figure.x.places.iter().map(|name| name.split(", ").count()).max().unwrap_or(1);
    let below = BOTTOM + (names - 1) as f64 * NAME_LINE;
    let height = TOP + legend_height + count * (panel_height + GAP) - GAP + below;
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" xmlns="http://www.w3.org/2000/svg"><title>{0}</title><desc>{1} Made by: {2}</desc><style>{STYLE}</style><rect class="bg" width="{WIDTH}" height="{height}" rx="6"/><text class="t" x="{LEFT}" y="19">{0}</text>"#,
        escape(&figure.title),
        escape(&figure.caption),
        escape(command)
    );
    let across = scale(
        &figure.x,
        figure.panels.iter().flat_map(|panel| &panel.series),
        |point| (point.x, point.x),
        (LEFT, WIDTH - RIGHT),
        true,
    );
    let mut top = TOP;
    for (panel, lines) in figure.panels.iter().zip(&legends) {
        if *lines > 0 {
            legend(&mut out, panel, top);
        }
        top += *lines as f64 * LEGEND;
        let up = scale(
            &panel.y,
            panel.series.iter(),
            |point| (point.y - point.deviation.unwrap_or(0.0), point.y + point.deviation.unwrap_or(0.0)),
            (top + panel_height, top),
            false,
        );
        frame(&mut out, panel, &up, (top, panel_height));
        draw_all(&mut out, panel, &across, &up, !figure.x.places.is_empty());
        top += panel_height + GAP;
    }
    ticks(&mut out, &figure.x, &across, top - GAP);
    let _ = write!(
        out,
        r#"<text class="s" x="{:.0}" y="{:.0}" text-anchor="end">{}</text></svg>"#,
        WIDTH - RIGHT,
        height - 7.0,
        escape(&axis_name(&figure.x))
    );
    out
}

/// Draws what a panel shows, the paper's on top: it is hollow, and would be hidden under ours where both agree. At named places
/// the series stand beside each other.
fn draw_all(out: &mut String, panel: &Panel, across: &Scale, up: &Scale, is_named: bool) {
    let classes = classes(panel);
    let places = places(panel);
    let middle = places.last().map_or(0.0, |last| *last as f64 / 2.0);
    for is_paper in [false, true] {
        for ((number, series), class) in places.iter().zip(&panel.series).zip(&classes) {
            if (series.source == Source::Paper) == is_paper {
                let number = *number;
                let aside = if is_named { (number as f64 - middle) * APART } else { 0.0 };
                draw(out, &aside_by(series, aside), class, across, up);
            }
        }
    }
}

/// Which of those beside each other a series is: what was simulated has the place of what it is beside.
fn places(panel: &Panel) -> Vec<usize> {
    let mut count = 0;
    let place = |series: &Series| {
        count += usize::from(series.source != Source::Simulated);
        usize::saturating_sub(count, 1)
    };
    panel.series.iter().map(place).collect()
}

/// `series`, moved across.
fn aside_by(series: &Series, aside: f64) -> Series {
    let points = series.points.iter().map(|point| Point { x: point.x + aside, ..*point }).collect();
    Series { points, ..series.clone() }
}

/// Marks and labels of the axis across.
fn ticks(out: &mut String, axis: &Axis, across: &Scale, bottom: f64) {
    for (number, tick) in across.ticks().iter().enumerate() {
        let x = across.at(*tick);
        let _ = write!(out, r#"<path class="x" d="M{x:.1} {bottom:.1}v4"/>"#);
        if let Some(name) = axis.places.get(number) {
            for (line, part) in name.split(", ").enumerate() {
                let y = bottom + 17.0 + line as f64 * NAME_LINE;
                let part = escape(part);
                let _ = write!(
                    out,
                    r#"<text class="n" x="{x:.1}" y="{y:.1}" text-anchor="middle">{part}</text>"#
                );
            }
            continue;
        }
        let label = axis_label(*tick);
        // A label at the end of the axis must not leave the picture.
        let half = label.chars().count() as f64 * LETTER / 2.0;
        let x = x.min(WIDTH - 2.0 - half);
        let _ =
            write!(out, r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{label}</text>"#, bottom + 17.0);
    }
}

fn axis_name(axis: &Axis) -> String {
    if axis.log { format!("{}, log scale", axis.name) } else { axis.name.clone() }
}

/// A scale over all values; `of` gives a point's lower and its upper end.
fn scale<'a>(
    axis: &Axis,
    series: impl Iterator<Item = &'a Series>,
    of: impl Fn(&Point) -> (f64, f64),
    pixels: (f64, f64),
    is_exact: bool,
) -> Scale {
    if !axis.places.is_empty() {
        return Scale::places(axis.places.len(), pixels);
    }
    let values: Vec<(f64, f64)> = series.flat_map(|s| &s.points).map(of).collect();
    let largest = values.iter().map(|v| v.1).filter(|v| v.is_finite()).fold(0.0, f64::max);
    if axis.log {
        let smallest = values.iter().map(|v| v.0).filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        return Scale::log_between(if smallest.is_finite() { smallest } else { 1.0 }, largest, pixels);
    }
    if let Some(start) = axis.from {
        return if is_exact {
            Scale::between_exactly(start, largest, 8, pixels)
        } else {
            Scale::between(start, largest, 4, pixels)
        };
    }
    if is_exact { Scale::linear_to(largest, 8, pixels) } else { Scale::linear(largest, 4, pixels) }
}

/// Classes for each series: a colour by its place among ours. Several of the paper's take the colours in the same order, so
/// that each has that of its fellow; one alone is black.
fn classes(panel: &Panel) -> Vec<String> {
    let papers = panel.series.iter().filter(|s| s.source == Source::Paper).count();
    let (mut paper, mut ours) = (0, 0);
    let mut above = String::new();
    let next = |count: &mut usize| {
        *count += 1;
        format!("k{}", (*count - 1) % COLOURS)
    };
    let class = |series: &Series| {
        above = match series.source {
            Source::Paper if papers > 1 => format!("paper {}", next(&mut paper)),
            Source::Paper => "paper".to_owned(),
            Source::Limit => "limit".to_owned(),
            Source::Ours | Source::Adaptive | Source::Ratio => next(&mut ours),
            // What was simulated has the colour of what it is beside.
            Source::Simulated => std::mem::take(&mut above),
        };
        above.clone()
    };
    panel.series.iter().map(class).collect()
}

/// Series that the legend names; of those simulated the first, which stands for all.
fn in_legend(panel: &Panel) -> impl Iterator<Item = (usize, &Series)> {
    let first = panel.series.iter().position(|series| series.source == Source::Simulated);
    let is_named =
        move |(i, series): &(usize, &Series)| series.source != Source::Simulated || first == Some(*i);
    panel.series.iter().enumerate().filter(is_named)
}

fn legend_name(series: &Series) -> &str {
    if series.source == Source::Simulated { "simulated" } else { &series.name }
}

/// Where each legend entry stands: line and x.
fn legend_places(panel: &Panel) -> Vec<(usize, f64)> {
    let (mut line, mut x) = (0, LEFT);
    let mut places = Vec::new();
    for (_, series) in in_legend(panel) {
        let width = 26.0 + legend_name(series).chars().count() as f64 * LETTER + 14.0;
        if x + width > WIDTH - RIGHT && x > LEFT {
            (line, x) = (line + 1, LEFT);
        }
        places.push((line, x));
        x += width;
    }
    places
}

/// Lines of each panel's legend; none where it is that of the panel above.
fn legend_lines(panels: &[Panel]) -> Vec<usize> {
    let entries = |panel: &Panel| -> Vec<(String, Source, Mark)> {
        panel.series.iter().map(|s| (s.name.clone(), s.source, s.mark)).collect()
    };
    let lines = |panel: &Panel| legend_places(panel).last().map_or(0, |(line, _)| line + 1);
    let above = |i: usize| i.checked_sub(1).and_then(|above| panels.get(above));
    let is_same = |i: usize, panel: &Panel| above(i).is_some_and(|above| entries(above) == entries(panel));
    panels.iter().enumerate().map(|(i, panel)| if is_same(i, panel) { 0 } else { lines(panel) }).collect()
}

fn legend(out: &mut String, panel: &Panel, top: f64) {
    let classes = classes(panel);
    for ((index, series), (line, x)) in in_legend(panel).zip(legend_places(panel)) {
        let class = classes.get(index).map_or("", String::as_str);
        let y = top + line as f64 * LEGEND + 7.0;
        let _ = match series.mark {
            Mark::Ground => write!(out, r#"<path class="ground" d="M{x:.0} {:.1}h20v9h-20Z"/>"#, y - 5.0),
            Mark::Dots => {
                write!(out, r#"<circle class="d {class}" cx="{:.1}" cy="{y:.1}" r="3.2"/>"#, x + 10.0)
            }
            Mark::Crosses => {
                // What was simulated has many colours, and in the legend none.
                let class = if series.source == Source::Simulated { "limit" } else { class };
                write!(out, r#"<path class="c {class}" d="{}"/>"#, cross(x + 10.0, y))
            }
            Mark::Line | Mark::Stems => write!(out, r#"<path class="l {class}" d="M{x:.0} {y:.1}h20"/>"#),
            Mark::Dotted => write!(
                out,
                r#"<path class="l {class}" d="M{x:.0} {y:.1}h20"/><circle class="d {class}" cx="{:.1}" cy="{y:.1}" r="3.2"/>"#,
                x + 10.0
            ),
        };
        let _ = write!(
            out,
            r#"<text x="{:.0}" y="{:.1}">{}</text>"#,
            x + 26.0,
            y + 4.0,
            escape(legend_name(series))
        );
    }
}

/// A small cross around a place.
fn cross(x: f64, y: f64) -> String {
    format!("M{:.1} {:.1}l8 8m0 -8l-8 8", x - 4.0, y - 4.0)
}

fn frame(out: &mut String, panel: &Panel, up: &Scale, (top, height): (f64, f64)) {
    for tick in up.ticks() {
        let y = up.at(*tick);
        let _ = write!(
            out,
            r#"<path class="g" d="M{LEFT} {y:.1}H{}"/><text x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
            WIDTH - RIGHT,
            LEFT - 7.0,
            y + 4.0,
            axis_label(*tick)
        );
    }
    let _ = write!(
        out,
        r#"<text class="s" transform="translate(14 {:.0}) rotate(-90)" text-anchor="middle">{}</text>"#,
        top + height / 2.0,
        escape(&axis_name(&panel.y))
    );
}

fn draw(out: &mut String, series: &Series, class: &str, across: &Scale, up: &Scale) {
    let at = |point: &Point| (across.at(point.x), up.at(point.y));
    let floor = up.at(0.0);
    let has_bars = series.mark != Mark::Crosses;
    for point in series.points.iter().filter(|point| has_bars && point.deviation.is_some()) {
        let (x, _) = at(point);
        let spread = point.deviation.unwrap_or(0.0);
        let (low, high) = (up.at(point.y - spread), up.at(point.y + spread));
        let _ = write!(
            out,
            r#"<path class="e {class}" d="M{x:.1} {low:.1}V{high:.1}M{0:.1} {low:.1}h6M{0:.1} {high:.1}h6"/>"#,
            x - 3.0
        );
    }
    let mut path = String::new();
    match series.mark {
        Mark::Line | Mark::Dotted => {
            for point in &series.points {
                let (x, y) = at(point);
                let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { 'M' } else { 'L' });
            }
            let _ = write!(out, r#"<path class="l {class}" d="{path}"/>"#);
        }
        Mark::Stems => {
            for point in &series.points {
                let (x, y) = at(point);
                let _ = write!(path, "M{x:.1} {floor:.1}V{y:.1}");
            }
            let _ = write!(out, r#"<path class="l {class}" d="{path}"/>"#);
        }
        Mark::Ground => ground(out, series, across, up),
        Mark::Crosses => {
            for point in &series.points {
                let (x, y) = at(point);
                path.push_str(&cross(x, y));
            }
            let _ = write!(out, r#"<path class="c {class}" d="{path}"/>"#);
        }
        Mark::Dots => {}
    }
    if matches!(series.mark, Mark::Dots | Mark::Dotted) {
        let radius = if series.source == Source::Paper { 4.6 } else { 3.2 };
        for point in &series.points {
            let (x, y) = at(point);
            let _ = write!(out, r#"<circle class="d {class}" cx="{x:.1}" cy="{y:.1}" r="{radius}"/>"#);
        }
    }
}

/// Level steps over a filled ground; the last step is as wide as the one before.
fn ground(out: &mut String, series: &Series, across: &Scale, up: &Scale) {
    let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else { return };
    let step = series.points.len().checked_sub(2).and_then(|i| series.points.get(i));
    let end = last.x + step.map_or(0.0, |before| last.x - before.x);
    let mut path = format!("M{:.1} {:.1}", across.at(first.x), up.at(0.0));
    for (i, point) in series.points.iter().enumerate() {
        let until = series.points.get(i + 1).map_or(end, |next| next.x);
        let _ = write!(path, "V{:.1}H{:.1}", up.at(point.y), across.at(until));
    }
    let _ = write!(out, r#"<path class="ground" d="{path}V{:.1}Z"/>"#, up.at(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let points =
            |y: f64| vec![Point::new(1.0, y), Point { deviation: Some(1.0), ..Point::new(4.0, y + 1.0) }];
        let series = |name: &str, source, mark, y| Series::new(name, source, mark, points(y));
        Figure::titled("a < b", "c & d", Axis::linear("seconds"))
            .panel(
                Axis::linear("Mbit/s"),
                vec![
                    series("capacity", Source::Limit, Mark::Ground, 5.0),
                    series("paper", Source::Paper, Mark::Dotted, 3.0),
                    series("ours", Source::Ours, Mark::Line, 3.0),
                ],
            )
            .panel(Axis::log("ms"), vec![series("delay", Source::Ours, Mark::Dots, 30.0)])
    }

    #[test]
    fn a_picture_stands_alone_and_shows_everything() {
        let svg = svg(&figure(), "cellerator reproduce x");
        for part in [
            "a &lt; b",
            "capacity",
            "Mbit/s",
            "ms, log scale",
            "class=\"ground\"",
            "class=\"l paper\"",
            "reproduce x",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("href") && !svg.contains("url("), "loads nothing");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn the_papers_series_have_the_colours_of_their_fellows() {
        let mut panel = figure().panels.remove(0);
        assert_eq!(classes(&panel), ["limit", "paper", "k0"]);
        panel.series.push(Series::new("paper 2", Source::Paper, Mark::Line, Vec::new()));
        panel.series.push(Series::new("ours 2", Source::Adaptive, Mark::Line, Vec::new()));
        assert_eq!(classes(&panel), ["limit", "paper k0", "k0", "paper k1", "k1"]);
    }

    #[test]
    fn what_was_simulated_is_a_cross_of_the_same_colour_at_the_same_place() {
        let one = |y: f64| {
            let points = vec![Point::new(1.0, y), Point::new(2.0, y)];
            let series = ["a", "b"].map(|name| Series::new(name, Source::Ours, Mark::Dots, points.clone()));
            Figure::titled("t", "c", Axis::named("x", ["p", "q"])).panel(Axis::linear("y"), series.to_vec())
        };
        let mut lab = one(3.0);
        lab.put_beside(&one(4.0));
        let panel = &lab.panels[0];
        assert_eq!(classes(panel), ["k0", "k0", "k1", "k1"]);
        assert_eq!(places(panel), [0, 0, 1, 1]);
        let svg = svg(&lab, "");
        assert_eq!(svg.matches(">simulated<").count(), 1, "named once in the legend");
        assert_eq!(svg.matches("class=\"c k").count(), 2);
    }

    #[test]
    fn places_have_names_and_series_stand_beside_each_other() {
        let points = || vec![Point::new(1.0, 3.0), Point::new(2.0, 4.0)];
        let series = |name: &str, source| Series::new(name, source, Mark::Dots, points());
        let panel = || vec![series("paper", Source::Paper), series("ours", Source::Ours)];
        let figure = Figure::titled("t", "c", Axis::named("network", ["AT&T, Boston", "Sprint"]))
            .panel(Axis::linear("a"), panel())
            .panel(Axis::linear("b"), panel());
        let svg = svg(&figure, "");
        assert!(
            svg.contains(">AT&amp;T</text>")
                && svg.contains(">Boston</text>")
                && svg.contains(">Sprint</text>")
        );
        assert_eq!(svg.matches(">ours</text>").count(), 1, "one legend for two panels alike");
        let across: Vec<&str> =
            svg.split("<circle class=\"d").skip(3).map(|c| c.split("cx=\"").nth(1).unwrap()).collect();
        let first = |text: &str| text.split('"').next().unwrap().parse::<f64>().unwrap();
        // Ours are drawn first, the paper's on top and to the left.
        assert!(first(across[0]) > first(across[2]), "{across:?}");
    }

    #[test]
    fn an_empty_figure_can_be_drawn() {
        let empty = Figure::titled("", "", Axis::log("x")).panel(Axis::log("y"), Vec::new());
        assert!(svg(&empty, "").ends_with("</svg>"));
    }
}
