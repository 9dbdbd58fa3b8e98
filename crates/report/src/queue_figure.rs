//! [`queue_figure`]: queues over time below each other, as one SVG.

use std::fmt::Write as _;

use crate::axis::{Axis, label};
use crate::html::escape;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const PANEL: f64 = 92.0;
const GAP: f64 = 44.0;
const TOP: f64 = 30.0;

/// One panel: what it shows, and a value for each step.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuePanel {
    /// Heading.
    pub name: String,
    /// Values, in packets; may be negative.
    pub values: Vec<f64>,
}

/// The panels below each other, steps from left to right; a panel whose values leave all bounds is cut at `limit`.
#[must_use]
pub fn queue_figure(title: &str, command: &str, panels: &[QueuePanel], limit: f64) -> String {
    let height = TOP + panels.len() as f64 * (PANEL + GAP);
    let mut svg = format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" xmlns="http://www.w3.org/2000/svg"><title>{0}</title><desc>Made by: {1}</desc><style>text{{font:12px system-ui,sans-serif;fill:#333}}.bg{{fill:#fff}}.g{{stroke:#ddd}}.l{{stroke:#0b63b0;fill:none}}@media(prefers-color-scheme:dark){{text{{fill:#ccc}}.bg{{fill:#16181c}}.g{{stroke:#30343a}}.l{{stroke:#63aef0}}}}</style><rect class="bg" width="{WIDTH}" height="{height}"/>"#,
        escape(title),
        escape(command)
    );
    let steps = panels.iter().map(|panel| panel.values.len()).max().unwrap_or(1).max(2);
    for (number, panel) in panels.iter().enumerate() {
        let top = TOP + number as f64 * (PANEL + GAP);
        let largest = panel.values.iter().fold(1.0f64, |max, v| max.max(v.abs())).min(limit);
        let x = Axis::linear_to((steps - 1) as f64, 6, (LEFT, WIDTH - RIGHT));
        let y = |value: f64| top + PANEL / 2.0 - value.clamp(-largest, largest) / largest * PANEL / 2.0;
        let _ = write!(svg, r#"<text x="{LEFT}" y="{:.0}">{}</text>"#, top - 8.0, escape(&panel.name));
        for value in [-largest, 0.0, largest] {
            let at = y(value);
            let text = if value < 0.0 { format!("−{}", label(-value)) } else { label(value) };
            let _ = write!(
                svg,
                r#"<path class="g" d="M{LEFT} {at:.1}H{}"/><text x="{}" y="{:.1}" text-anchor="end">{text}</text>"#,
                WIDTH - RIGHT,
                LEFT - 7.0,
                at + 4.0
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
        let mut path = String::new();
        for (step, value) in panel.values.iter().enumerate() {
            let word = if step == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{word}{:.1} {:.1}", x.at(step as f64), y(*value));
        }
        let _ = write!(svg, r#"<path class="l" d="{path}"/>"#);
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_panel_has_its_name_and_stays_in_its_place() {
        let panels = [
            QueuePanel { name: "a < b".to_owned(), values: vec![0.0, 5.0, -5.0] },
            QueuePanel { name: "far".to_owned(), values: vec![0.0, 1e12] },
        ];
        let svg = queue_figure("title", "command --x", &panels, 200.0);
        assert!(svg.contains("a &lt; b") && svg.contains("far") && svg.contains("command --x"));
        assert!(svg.contains(">200<"), "cut at the limit");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
    }
}
