//! [`line_figure`]: values against one cause, panels beside a shared x axis, as one SVG.

use std::fmt::Write as _;

use crate::axis::{Axis, label};
use crate::html::escape;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 36.0;
const PANEL: f64 = 120.0;
const GAP: f64 = 52.0;
const TOP: f64 = 30.0;
const KEY: f64 = 26.0;

/// Colours that stay apart on light and dark, for up to four lines.
const COLOURS: [&str; 4] = ["#0b78d0", "#d0600b", "#3a9a3a", "#9a4fc0"];

/// One panel: what it shows, and its lines.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePanel {
    /// Heading, with the unit.
    pub title: String,
    /// Name and points of each line, by rising x.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// The panels below each other; x is spread by powers of ten when it covers more than two of them and has no zero.
#[must_use]
pub fn line_figure(title: &str, command: &str, x_title: &str, panels: &[LinePanel]) -> String {
    let height = TOP + KEY + panels.len() as f64 * (PANEL + GAP);
    let mut svg = format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" xmlns="http://www.w3.org/2000/svg"><title>{0}</title><desc>Made by: {1}</desc><style>text{{font:12px system-ui,sans-serif;fill:#333}}.bg{{fill:#fff}}.g{{stroke:#ddd}}.l{{fill:none;stroke-width:2}}@media(prefers-color-scheme:dark){{text{{fill:#ccc}}.bg{{fill:#16181c}}.g{{stroke:#30343a}}}}</style><rect class="bg" width="{WIDTH}" height="{height}"/>"#,
        escape(title),
        escape(command)
    );
    let all = || panels.iter().flat_map(|panel| &panel.lines);
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let xs: Vec<f64> = all().flat_map(|(_, points)| points.iter().map(|point| point.0)).collect();
    let (least, most) = xs.iter().fold((f64::MAX, 0.0f64), |(least, most), x| (least.min(*x), most.max(*x)));
    let pixels = (LEFT, WIDTH - RIGHT);
    let is_log = least > 0.0 && most > 100.0 * least;
    let x = if is_log { Axis::log(least, most, pixels) } else { Axis::linear_to(most, 8, pixels) };
    key(&mut svg, &names);
    for (number, panel) in panels.iter().enumerate() {
        let top = TOP + KEY + number as f64 * (PANEL + GAP);
        draw(&mut svg, panel, top, &x, &names);
        let end = WIDTH - RIGHT;
        let _ = write!(
            svg,
            r#"<text x="{end}" y="{:.0}" text-anchor="end">{}</text>"#,
            top + PANEL + 34.0,
            escape(x_title)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// The names of the lines in their colours.
fn key(svg: &mut String, names: &[&str]) {
    let mut at = LEFT;
    for (name, colour) in names.iter().zip(COLOURS.iter().cycle()) {
        let _ = write!(
            svg,
            r#"<path class="l" stroke="{colour}" d="M{at} 18h18"/><text x="{}" y="22">{}</text>"#,
            at + 24.0,
            escape(name)
        );
        at += 50.0 + name.chars().count() as f64 * 7.0;
    }
}

fn draw(svg: &mut String, panel: &LinePanel, top: f64, x: &Axis, names: &[&str]) {
    let largest =
        panel.lines.iter().flat_map(|(_, points)| points).fold(0.0f64, |max, point| max.max(point.1));
    let y = Axis::linear(largest, 4, (top + PANEL, top));
    let _ = write!(svg, r#"<text x="{LEFT}" y="{:.0}">{}</text>"#, top - 8.0, escape(&panel.title));
    for tick in y.ticks() {
        let at = y.at(*tick);
        let _ = write!(
            svg,
            r#"<path class="g" d="M{LEFT} {at:.1}H{}"/><text x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
            WIDTH - RIGHT,
            LEFT - 7.0,
            at + 4.0,
            label(*tick)
        );
    }
    for tick in x.ticks() {
        let _ = write!(
            svg,
            r#"<text x="{:.0}" y="{:.0}" text-anchor="middle">{}</text>"#,
            x.at(*tick),
            top + PANEL + 17.0,
            label(*tick)
        );
    }
    for (name, points) in &panel.lines {
        let place = names.iter().position(|other| other == name).unwrap_or(0);
        let colour = COLOURS[place % COLOURS.len()];
        let mut path = String::new();
        for (number, (px, py)) in points.iter().enumerate() {
            let word = if number == 0 { 'M' } else { 'L' };
            let (px, py) = (x.at(*px), y.at(*py));
            let _ = write!(path, "{word}{px:.1} {py:.1}");
            let _ = write!(svg, r#"<circle cx="{px:.1}" cy="{py:.1}" r="3" fill="{colour}"/>"#);
        }
        let _ = write!(svg, r#"<path class="l" stroke="{colour}" d="{path}"/>"#);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_colour_from_panel_to_panel() {
        let line = |name: &str, points: &[(f64, f64)]| (name.to_owned(), points.to_vec());
        let panels = [
            LinePanel { title: "a < b".to_owned(), lines: vec![line("one", &[(1.0, 2.0), (1e5, 3.0)])] },
            LinePanel {
                title: "c".to_owned(),
                lines: vec![line("two", &[(1.0, 5.0)]), line("one", &[(1.0, 1.0)])],
            },
        ];
        let svg = line_figure("title", "command", "flows", &panels);
        assert!(svg.contains("a &lt; b") && svg.contains(">flows<") && svg.contains(">100\u{2009}000<"));
        assert_eq!(
            svg.matches(&format!(r#"class="l" stroke="{}""#, COLOURS[0])).count(),
            3,
            "key and two panels"
        );
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
    }
}
