//! [`picture_svg`]: a [`Picture`] as SVG, for a wide column and for a narrow one; [`picture_figure`]: both in a page that shows the one that fits.

use std::fmt::Write as _;

use scenario::results::{Picture, PictureAxis, PictureLine, PicturePanel, PictureSpread};

use crate::axis::{Axis, label};
use crate::html::escape;
use crate::terminal::wrapped;

/// Looks of a picture, in pages and in files alike. The colours are told apart by all kinds of colour vision (after Okabe and Ito); dashes and
/// marks tell lines apart without any.
pub(crate) const PICTURE_STYLE: &str = "\
.picture text { font: 13px system-ui, \"Segoe UI\", \"Helvetica Neue\", \"DejaVu Sans\", sans-serif; fill: var(--soft); }
.picture .title { font-size: 17px; font-weight: 600; fill: var(--fg); } .picture .name { fill: var(--fg); }
.picture.narrow .title { font-size: 16px; }
.picture .capacity { fill: var(--capacity); } .picture .grid { stroke: var(--rule); stroke-width: .8; } .picture .axis { stroke: var(--soft); stroke-width: 1; fill: none; }
.picture .p { fill: none; stroke: var(--k); stroke-width: 2; stroke-linejoin: round; } .picture .mark { fill: var(--k); }
.k0 { --k: var(--k-cubic); } .k1 { --k: var(--k-bbr); } .k2 { --k: var(--k-accelerated); } .k3 { --k: var(--soft); }
.picture .k0 .p { stroke-dasharray: 8 3; } .picture .k1 .p { stroke-dasharray: 2.5 2.5; } .picture .k2 .p { stroke-width: 2.8; } .picture .k3 .p { stroke-width: 1.4; }
";
const FILE_STYLE: &str = "\
svg { --bg: #fff; --fg: #1b1f24; --soft: #59636e; --rule: #d9dee3; --capacity: #dfe3e8; --k-cubic: #c2500c; --k-bbr: #7b4fb5; --k-accelerated: #0072b2; }
@media (prefers-color-scheme: dark) { svg { --bg: #12161b; --fg: #e4e8ec; --soft: #9aa5b1; --rule: #2e363f; --capacity: #2f3943; --k-cubic: #ff9b57; --k-bbr: #c9a6ff; --k-accelerated: #4db5ff; } }
.bg { fill: var(--bg); }
";

/// For which column a picture is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PictureWidth {
    /// From about 600 pixels on.
    Wide,
    /// A telephone's.
    Narrow,
}

/// Measures of a drawing, in pixels.
struct Layout {
    width: f64,
    panel: f64,
    /// Pixels of a letter of the title, and of other text, at most in the mean.
    letters: (f64, f64),
}

const LEFT: f64 = 52.0;
const RIGHT: f64 = 16.0;
const TITLE_LINE: f64 = 23.0;
const KEY_LINE: f64 = 22.0;
/// From a panel's lower edge to the next one's upper edge: tick labels, and the heading of the next.
const GAP: f64 = 54.0;
const BOTTOM: f64 = 44.0;
/// Lines of so many points have marks.
const MARKED: usize = 20;

impl Layout {
    fn of(width: PictureWidth, panels: usize) -> Self {
        let (wide, narrow) = if panels > 1 { (200.0, 165.0) } else { (290.0, 235.0) };
        match width {
            PictureWidth::Wide => Self { width: 860.0, panel: wide, letters: (11.0, 7.4) },
            PictureWidth::Narrow => Self { width: 390.0, panel: narrow, letters: (10.2, 7.4) },
        }
    }

    fn right(&self) -> f64 {
        self.width - RIGHT
    }
}

/// The picture as a file of its own, light or dark as the reader has it; `made_by` is the command.
#[must_use]
pub fn picture_svg(picture: &Picture, width: PictureWidth, made_by: &str) -> String {
    let style = format!("<style>\n{FILE_STYLE}{PICTURE_STYLE}</style>");
    let made_by = format!("<desc>Made by: {}</desc>", escape(made_by));
    drawn(picture, width, &format!("{made_by}{style}<rect class=\"bg\" width=\"100%\" height=\"100%\"/>"))
        + "\n"
}

/// The picture in a page, with its text below.
pub(crate) fn picture_figure(picture: &Picture) -> String {
    format!(
        "<figure class=\"of-cases\">\n{}\n{}\n<figcaption>{}</figcaption></figure>\n",
        drawn(picture, PictureWidth::Wide, ""),
        drawn(picture, PictureWidth::Narrow, ""),
        escape(&picture.text)
    )
}

fn drawn(picture: &Picture, width: PictureWidth, head: &str) -> String {
    let layout = Layout::of(width, picture.panels.len());
    let class = if width == PictureWidth::Wide { "wide" } else { "narrow" };
    let mut body = String::new();
    let mut at = 0.0;
    for line in wrapped(&picture.title, ((layout.width - 2.0 * RIGHT) / layout.letters.0) as usize) {
        at += TITLE_LINE;
        let _ = write!(body, r#"<text class="title" x="{RIGHT}" y="{at:.0}">{}</text>"#, escape(&line));
    }
    at = key(&mut body, picture, &layout, at + KEY_LINE + 4.0);
    let x = x_axis(picture, &layout);
    for (number, panel) in picture.panels.iter().enumerate() {
        at += if number == 0 { 36.0 } else { GAP };
        draw(&mut body, picture, panel, &x, (at, at + layout.panel), &layout);
        at += layout.panel;
    }
    let _ = write!(
        body,
        r#"<text x="{:.0}" y="{:.0}" text-anchor="end">{}</text>"#,
        layout.right(),
        at + 37.0,
        escape(&picture.x.label)
    );
    let (wide, height) = (layout.width, at + BOTTOM);
    format!(
        r#"<svg class="picture {class}" viewBox="0 0 {wide} {height:.0}" role="img" aria-label="{0}" xmlns="http://www.w3.org/2000/svg"><title>{0}</title>{head}{body}</svg>"#,
        escape(&picture.title)
    )
}

/// How a case looks, in every picture alike.
fn look(name: &str) -> usize {
    match name {
        name if name.contains("CUBIC") => 0,
        name if name.contains("BBR") => 1,
        name if name.starts_with("accelerated") => 2,
        _ => 3,
    }
}

/// The names of the lines with their looks from `at` on; where it ends.
fn key(svg: &mut String, picture: &Picture, layout: &Layout, at: f64) -> f64 {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for line in picture.panels.iter().flat_map(|panel| &panel.lines) {
        if !names.iter().any(|(name, _)| *name == line.name) {
            names.push((&line.name, line.points.len()));
        }
    }
    let has_capacity = picture.panels.iter().any(|panel| !panel.capacity.is_empty());
    let link = has_capacity.then_some(("what the link can carry", 0));
    let (mut x, mut y) = (RIGHT, at);
    for (number, (name, points)) in names.iter().copied().chain(link).enumerate() {
        let length = 40.0 + name.chars().count() as f64 * layout.letters.1;
        if x > RIGHT && x + length > layout.width {
            (x, y) = (RIGHT, y + KEY_LINE);
        }
        let look = look(name);
        let middle = y - 4.5;
        let _ = if number == names.len() {
            write!(svg, r#"<rect class="capacity" x="{x:.0}" y="{:.0}" width="30" height="12"/>"#, y - 10.0)
        } else {
            let dot = if points <= MARKED { mark(look, x + 15.0, middle) } else { String::new() };
            write!(svg, r#"<g class="k{look}"><path class="p" d="M{x:.0} {middle:.1}h30"/>{dot}</g>"#)
        };
        let _ = write!(svg, r#"<text class="name" x="{:.0}" y="{y:.0}">{}</text>"#, x + 36.0, escape(name));
        x += length + 18.0;
    }
    y
}

/// The axis from left to right, and for places the values that they stand for.
struct Across {
    axis: Axis,
    places: Vec<f64>,
}

impl Across {
    fn at(&self, value: f64) -> f64 {
        match self.places.iter().position(|place| *place == value) {
            Some(index) => self.axis.at(index as f64 + 1.0),
            None => self.axis.at(value),
        }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        if self.places.is_empty() {
            return self.axis.ticks().iter().map(|tick| (self.axis.at(*tick), label(*tick))).collect();
        }
        self.places.iter().map(|value| (self.at(*value), label(*value))).collect()
    }
}

fn x_axis(picture: &Picture, layout: &Layout) -> Across {
    let lines = picture.panels.iter().flat_map(|panel| &panel.lines);
    let mut values: Vec<f64> = lines.flat_map(|line| &line.points).map(|point| point.0).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let pixels = (LEFT, layout.right());
    let (least, most) = (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(1.0));
    match picture.x.spread {
        PictureSpread::Linear => Across { axis: Axis::linear_to(most, 8, pixels), places: Vec::new() },
        PictureSpread::Log => Across { axis: Axis::log_between(least, most, pixels), places: Vec::new() },
        PictureSpread::Places => Across { axis: Axis::places(values.len(), pixels), places: values },
    }
}

fn y_axis(axis: &PictureAxis, panel: &PicturePanel, pixels: (f64, f64)) -> Axis {
    let values =
        || panel.lines.iter().map(|line| &line.points).chain([&panel.capacity]).flatten().map(|p| p.1);
    let (least, most) = values().fold((f64::MAX, 0.0f64), |(least, most), y| (least.min(y), most.max(y)));
    match axis.spread {
        PictureSpread::Log => Axis::log_between(least.max(0.5), most, pixels),
        PictureSpread::Linear | PictureSpread::Places => Axis::linear(most, 5, pixels),
    }
}

fn draw(
    svg: &mut String,
    picture: &Picture,
    panel: &PicturePanel,
    x: &Across,
    (top, bottom): (f64, f64),
    layout: &Layout,
) {
    let y = y_axis(&panel.y, panel, (bottom, top));
    let right = layout.right();
    let _ = write!(svg, r#"<text x="{RIGHT}" y="{:.0}">{}</text>"#, top - 11.0, escape(&panel.y.label));
    for tick in y.ticks() {
        let at = y.at(*tick);
        let _ = write!(
            svg,
            r#"<path class="grid" d="M{LEFT} {at:.1}H{right}"/><text x="{:.0}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 7.0,
            at + 4.5,
            label(*tick)
        );
    }
    if let (Some(first), Some(last)) = (panel.capacity.first(), panel.capacity.last()) {
        let path = joined(&panel.capacity, x, &y);
        let _ = write!(
            svg,
            r#"<path class="capacity" d="M{:.1} {bottom:.1}L{path}L{:.1} {bottom:.1}Z"/>"#,
            x.at(first.0),
            x.at(last.0)
        );
    }
    let _ = write!(svg, r#"<path class="axis" d="M{LEFT} {bottom:.1}H{right}"/>"#);
    for (at, text) in x.ticks() {
        let _ = write!(
            svg,
            r#"<path class="axis" d="M{at:.1} {bottom:.1}v4"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">{text}</text>"#,
            bottom + 18.0
        );
    }
    for line in &panel.lines {
        let look = look(&line.name);
        let _ = write!(svg, r#"<g class="k{look}"><path class="p" d="M{}"/>"#, joined(&line.points, x, &y));
        if line.points.len() <= MARKED && picture.x.spread != PictureSpread::Linear {
            marks(svg, line, look, x, &y);
        }
        svg.push_str("</g>");
    }
}

fn joined(points: &[(f64, f64)], x: &Across, y: &Axis) -> String {
    let points: Vec<String> =
        points.iter().map(|(a, b)| format!("{:.1} {:.1}", x.at(*a), y.at(*b))).collect();
    points.join("L")
}

fn marks(svg: &mut String, line: &PictureLine, look: usize, x: &Across, y: &Axis) {
    line.points.iter().for_each(|(a, b)| svg.push_str(&mark(look, x.at(*a), y.at(*b))));
}

/// A circle, a square or a diamond.
fn mark(look: usize, x: f64, y: f64) -> String {
    let path = match look {
        0 => return format!(r#"<circle class="mark" cx="{x:.1}" cy="{y:.1}" r="4"/>"#),
        1 => format!("M{:.1} {:.1}h7.2v7.2h-7.2z", x - 3.6, y - 3.6),
        _ => format!("M{x:.1} {:.1}l5 5-5 5-5-5z", y - 5.0),
    };
    format!(r#"<path class="mark" d="{path}"/>"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(label: &str, spread: PictureSpread) -> PictureAxis {
        PictureAxis { label: label.to_owned(), spread }
    }

    fn picture() -> Picture {
        let line = |name: &str, points: &[(f64, f64)]| PictureLine {
            name: name.to_owned(),
            points: points.to_vec(),
        };
        Picture {
            name: "loss".to_owned(),
            title:
                "a title of many words that say what is seen & that do not fit into one line of a telephone"
                    .to_owned(),
            text: "x < y".to_owned(),
            runner: "sim".to_owned(),
            x: axis("loss, %", PictureSpread::Places),
            panels: vec![PicturePanel {
                y: axis("Mbit/s", PictureSpread::Linear),
                capacity: vec![(0.0, 50.0), (3.0, 50.0)],
                lines: vec![
                    line("direct CUBIC", &[(0.0, 47.0), (0.01, 40.0), (3.0, 0.7)]),
                    line("accelerated", &[(0.0, 47.0), (0.01, 47.0), (3.0, 45.0)]),
                ],
            }],
        }
    }

    #[test]
    fn places_are_equally_far_apart_and_named_by_their_values() {
        let layout = Layout::of(PictureWidth::Wide, 1);
        let x = x_axis(&picture(), &layout);
        let [a, b, c] = [0.0, 0.01, 3.0].map(|value| x.at(value));
        assert!((b - a - (c - b)).abs() < 1e-9 && a > LEFT && c < layout.right());
        assert_eq!(x.ticks().into_iter().map(|(_, text)| text).collect::<Vec<_>>(), ["0", "0.01", "3"]);
    }

    #[test]
    fn a_file_stands_alone_and_a_page_has_both_widths() {
        let svg = picture_svg(&picture(), PictureWidth::Narrow, "cellerator demo");
        assert!(
            svg.starts_with("<svg")
                && svg.contains("prefers-color-scheme: dark")
                && svg.contains("Made by: cellerator demo")
        );
        assert!(svg.matches("class=\"title\"").count() >= 3, "the title is wrapped: {svg}");
        assert!(
            svg.contains("class=\"k0\"")
                && svg.contains("class=\"k2\"")
                && svg.contains("what the link can carry")
        );
        let figure = picture_figure(&picture());
        assert!(
            figure.contains("picture wide")
                && figure.contains("picture narrow")
                && figure.contains("x &lt; y")
        );
        assert!(!figure.contains("<style>"));
    }
}
