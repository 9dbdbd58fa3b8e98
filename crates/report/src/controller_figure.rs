//! [`ControllerFigure`]: what a controller does to a link over time, as one SVG of three panels.
//!
//! The picture stands on a ground of its own, light or dark as the reader's system is, so that it can be read on any page.

use std::fmt::Write as _;

use crate::axis::{Axis, label};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 66.0;
const PANEL: f64 = 118.0;
const GAP: f64 = 34.0;
const BOTTOM: f64 = 34.0;

/// One line of a panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// What it is, for the legend.
    pub name: String,
    /// A value for each step of time, none where there is none.
    pub values: Vec<Option<f64>>,
    /// Seconds of a step.
    pub step_s: f64,
}

/// What a controller does to a link over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControllerFigure {
    /// First line.
    pub title: String,
    /// Second line: the link.
    pub link: String,
    /// The command that made it.
    pub command: String,
    /// Seconds shown.
    pub seconds: f64,
    /// What the link could carry, Mbit/s: drawn as ground.
    pub capacity: Curve,
    /// Rates over it, Mbit/s.
    pub rates: Vec<Curve>,
    /// Windows and data in flight, KB.
    pub amounts: Vec<Curve>,
    /// Queueing delay, ms.
    pub delays: Vec<Curve>,
}

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#333}.t{font-size:15px;font-weight:600;fill:#111}.s{fill:#555}\
.bg{fill:#fff}.g{stroke:#e4e4e4;fill:none}.x{stroke:#777;fill:none}.cap{fill:#dfe7ef}\
.c0{stroke:#0b63b0}.c1{stroke:#c4501b}.c2{stroke:#2a8a3e}.l{fill:none;stroke-width:1.5;stroke-linejoin:round}\
@media(prefers-color-scheme:dark){text{fill:#ccc}.t{fill:#f2f2f2}.s{fill:#aaa}.bg{fill:#16181c}.g{stroke:#30343a}\
.x{stroke:#888}.cap{fill:#28323d}.c0{stroke:#63aef0}.c1{stroke:#f08c5a}.c2{stroke:#6fcf84}}";

impl ControllerFigure {
    /// The picture, a whole file.
    #[must_use]
    pub fn svg(&self) -> String {
        let height = TOP + 3.0 * PANEL + 2.0 * GAP + BOTTOM;
        let escape = crate::html::escape;
        let mut svg = format!(
            r#"<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" xmlns="http://www.w3.org/2000/svg"><title>{0}</title><desc>{1}. Made by: {2}</desc><style>{STYLE}</style><rect class="bg" width="{WIDTH}" height="{height}" rx="6"/><text class="t" x="{LEFT}" y="20">{0}</text><text class="s" x="{LEFT}" y="37">{1}</text>"#,
            escape(&self.title),
            escape(&self.link),
            escape(&self.command),
        );
        let time = Axis::linear_to(self.seconds, 6, (LEFT, WIDTH - RIGHT));
        let mut top = TOP;
        self.panel(&mut svg, &time, top, ("Mbit/s", &self.rates, Some(&self.capacity)));
        top += PANEL + GAP;
        self.panel(&mut svg, &time, top, ("KB", &self.amounts, None));
        top += PANEL + GAP;
        self.panel(&mut svg, &time, top, ("ms", &self.delays, None));
        for tick in time.ticks() {
            let (px, py) = (time.at(*tick), top + PANEL + 16.0);
            let _ =
                write!(svg, r#"<text x="{px:.0}" y="{py:.0}" text-anchor="middle">{}</text>"#, label(*tick));
        }
        let _ = write!(
            svg,
            r#"<text class="s" x="{:.0}" y="{:.0}" text-anchor="end">seconds</text></svg>"#,
            WIDTH - RIGHT,
            height - 5.0
        );
        svg
    }

    fn panel(
        &self,
        svg: &mut String,
        time: &Axis,
        top: f64,
        (unit, curves, ground): (&str, &[Curve], Option<&Curve>),
    ) {
        let bottom = top + PANEL;
        let y = Axis::linear(scale(curves, ground), 4, (bottom, top));
        for tick in y.ticks() {
            let py = y.at(*tick);
            let _ = write!(
                svg,
                r#"<path class="g" d="M{LEFT} {py:.1}H{}"/><text x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
                WIDTH - RIGHT,
                LEFT - 7.0,
                py + 4.0,
                label(*tick)
            );
        }
        let middle = (top + bottom) / 2.0;
        let _ = write!(
            svg,
            r#"<text class="s" transform="translate(14 {middle:.0}) rotate(-90)" text-anchor="middle">{unit}</text>"#
        );
        if let Some(ground) = ground {
            let path = line(ground, time, &y, true);
            let end = time.at(ground.values.len() as f64 * ground.step_s);
            let _ = write!(svg, r#"<path class="cap" d="{path}H{end:.1}V{bottom}H{LEFT}Z"/>"#);
        }
        let mut x = LEFT + 6.0;
        for (number, curve) in curves.iter().enumerate() {
            let path = line(curve, time, &y, false);
            let _ = write!(svg, r#"<path class="l c{number}" d="{path}"/>"#);
        }
        let named = ground.into_iter().map(|g| ("cap", g)).chain(CLASSES.into_iter().zip(curves));
        for (class, curve) in named {
            let mark = if class == "cap" {
                format!(r#"<path class="cap" d="M{x:.0} {:.0}h16v9h-16Z"/>"#, top - 14.0)
            } else {
                format!(r#"<path class="{class}" d="M{x:.0} {:.0}h16"/>"#, top - 9.0)
            };
            let _ = write!(
                svg,
                r#"{mark}<text x="{:.0}" y="{:.0}">{}</text>"#,
                x + 21.0,
                top - 5.0,
                crate::html::escape(&curve.name)
            );
            x += 40.0 + 6.6 * curve.name.chars().count() as f64;
        }
        let _ = write!(svg, r#"<path class="x" d="M{LEFT} {bottom}H{}"/>"#, WIDTH - RIGHT);
    }
}

const CLASSES: [&str; 3] = ["l c0", "l c1", "l c2"];

/// The largest value worth showing: a line that leaves the others far below may leave the panel.
fn scale(curves: &[Curve], ground: Option<&Curve>) -> f64 {
    let largest = |curve: &Curve| curve.values.iter().flatten().copied().fold(0.0, f64::max);
    match (ground, curves.first()) {
        (Some(ground), _) => largest(ground) * 1.25,
        (None, Some(first)) => {
            let others = curves.iter().skip(1).map(largest).fold(0.0, f64::max);
            largest(first).max(others.min(largest(first) * 2.0))
        }
        (None, None) => 1.0,
    }
}

/// The curve's path, in whole-tenths pixels relative to each other; level steps where it `is_stairs`.
fn line(curve: &Curve, time: &Axis, y: &Axis, is_stairs: bool) -> String {
    let mut path = String::new();
    let mut last: Option<(i64, i64)> = None;
    let tenth = |pixels: f64| (pixels * 10.0).round() as i64;
    let text = |tenths: i64| label_tenths(tenths);
    for (i, value) in curve.values.iter().enumerate() {
        let Some(value) = value else {
            last = None;
            continue;
        };
        let centre = if is_stairs { 0.0 } else { 0.5 };
        let (px, py) = (tenth(time.at((i as f64 + centre) * curve.step_s)), tenth(y.at(*value)));
        match last {
            None => {
                let _ = write!(path, "M{} {}", text(px), text(py));
            }
            Some((_, y0)) if y0 == py => {
                // A level stretch is drawn when it ends.
                if curve.values.get(i + 1).copied().flatten().map(|v| tenth(y.at(v))) != Some(py) {
                    let _ = write!(path, "H{}", text(px));
                }
            }
            Some(_) if is_stairs => {
                let _ = write!(path, "H{}V{}", text(px), text(py));
            }
            Some(_) => {
                let _ = write!(path, "L{} {}", text(px), text(py));
            }
        }
        last = Some((px, py));
    }
    path
}

fn label_tenths(tenths: i64) -> String {
    if tenths % 10 == 0 {
        (tenths / 10).to_string()
    } else {
        format!("{}.{}", tenths / 10, (tenths % 10).abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: &[Option<f64>]) -> Curve {
        Curve { name: "a & b".to_owned(), values: values.to_vec(), step_s: 1.0 }
    }

    #[test]
    fn lines_break_where_there_is_no_value_and_level_stretches_are_short() {
        let (x, y) = (Axis::linear_to(10.0, 5, (0.0, 100.0)), Axis::linear(10.0, 2, (10.0, 0.0)));
        let path =
            line(&curve(&[Some(0.0), Some(0.0), Some(0.0), None, Some(5.0), Some(10.0)]), &x, &y, false);
        assert_eq!(path, "M5 10H25M45 5L55 0");
        assert_eq!(line(&curve(&[Some(0.0), Some(10.0)]), &x, &y, true), "M0 10H10V0");
    }

    #[test]
    fn a_figure_has_its_words_escaped_and_its_command() {
        let figure = ControllerFigure {
            title: "a < b".to_owned(),
            command: "cellerator model figure".to_owned(),
            seconds: 6.0,
            capacity: curve(&[Some(4.0); 6]),
            rates: vec![curve(&[Some(1.0); 6])],
            ..ControllerFigure::default()
        };
        let svg = figure.svg();
        assert!(svg.contains("a &lt; b") && svg.contains("a &amp; b") && svg.contains("model figure"));
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
    }

    #[test]
    fn a_line_far_above_the_first_does_not_flatten_it() {
        let (first, second) = (curve(&[Some(10.0)]), curve(&[Some(9_000.0)]));
        assert!((scale(&[first.clone(), second], None) - 20.0).abs() < 1e-9);
        assert!((scale(&[first.clone(), curve(&[Some(15.0)])], None) - 15.0).abs() < 1e-9);
        assert!((scale(&[first], Some(&curve(&[Some(8.0)]))) - 10.0).abs() < 1e-9);
    }
}
