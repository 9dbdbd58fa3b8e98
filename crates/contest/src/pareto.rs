//! [`plot`]: utilisation against queueing delay, as SVG.

use std::fmt::Write as _;

use report::escape;

/// A scheme in the plot.
pub(crate) struct Mark<'a> {
    pub name: &'a str,
    pub utilisation: f64,
    pub delay_ms: f64,
    /// Number of its colour.
    pub colour: usize,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
/// Plot area: left, right, top, bottom.
const AREA: (f64, f64, f64, f64) = (52.0, 704.0, 16.0, 352.0);
/// Width of a letter of the labels, about, and height of a line.
const LETTER: (f64, f64) = (6.4, 13.0);

/// Pixels of the two axes.
struct Scales {
    low_ms: f64,
    high_ms: f64,
    least: f64,
}

impl Scales {
    fn of(marks: &[Mark<'_>], curves: &[Vec<(f64, f64)>]) -> Self {
        let delays = || marks.iter().map(|m| m.delay_ms).chain(curves.iter().flatten().map(|p| p.1));
        let low = delays().fold(f64::INFINITY, f64::min).clamp(1.0, 1e6);
        let high = delays().fold(1.0, f64::max);
        let least = marks.iter().map(|m| m.utilisation).fold(0.9, f64::min);
        Self {
            low_ms: low / 1.3,
            high_ms: (high * 1.6).max(low * 4.0),
            least: (least * 10.0 - 0.3).floor().max(0.0) / 10.0,
        }
    }

    fn x(&self, ms: f64) -> f64 {
        let share = (ms.max(self.low_ms) / self.low_ms).ln() / (self.high_ms / self.low_ms).ln();
        AREA.0 + share.min(1.0) * (AREA.1 - AREA.0)
    }

    fn y(&self, utilisation: f64) -> f64 {
        let share = (utilisation - self.least) / (1.0 - self.least);
        AREA.3 - share.clamp(0.0, 1.0) * (AREA.3 - AREA.2)
    }
}

/// Utilisation (linear, rising) against the 95th percentile of the queueing delay (logarithmic): best is top left.
/// `curves` hold pairs of utilisation and delay: the limits.
pub(crate) fn plot(title: &str, marks: &[Mark<'_>], curves: &[Vec<(f64, f64)>]) -> String {
    let scales = Scales::of(marks, curves);
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{}</title>\n", escape(title));
    frame(&mut svg, &scales);
    for curve in curves {
        let drawn: Vec<String> = curve
            .iter()
            .filter(|(utilisation, _)| *utilisation >= scales.least)
            .map(|(utilisation, ms)| format!("{:.1} {:.1}", scales.x(*ms), scales.y(*utilisation)))
            .collect();
        if drawn.len() > 1 {
            let _ = writeln!(svg, "<path class=\"limit\" d=\"M{}\"/>", drawn.join("L"));
        }
    }
    let mut taken: Vec<[f64; 4]> = marks
        .iter()
        .map(|mark| (scales.x(mark.delay_ms), scales.y(mark.utilisation)))
        .map(|(x, y)| [x - 6.0, y - 6.0, x + 6.0, y + 6.0])
        .collect();
    for mark in marks {
        draw(&mut svg, mark, &scales, &mut taken);
    }
    svg.push_str("</svg>\n");
    svg
}

fn frame(svg: &mut String, scales: &Scales) {
    let decades = (0..7).flat_map(|power| [1.0, 2.0, 5.0].map(|f| f * 10f64.powi(power)));
    for ms in decades.filter(|ms| *ms >= scales.low_ms && *ms <= scales.high_ms) {
        let x = scales.x(ms);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} {}V{}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{ms}</text>",
            AREA.2,
            AREA.3,
            AREA.3 + 16.0
        );
    }
    let step = if scales.least > 0.75 { 5 } else { 10 };
    for percent in (0..=100).step_by(step).filter(|p| f64::from(*p) / 100.0 >= scales.least - 1e-9) {
        let y = scales.y(f64::from(percent) / 100.0);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{} {y:.1}H{}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{percent}</text>",
            AREA.0,
            AREA.1,
            AREA.0 - 6.0,
            y + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"unit\" x=\"{}\" y=\"{}\" text-anchor=\"end\">queueing delay p95, ms (log)</text>\
         <text class=\"unit\" x=\"{}\" y=\"{}\" transform=\"rotate(-90 {} {})\" text-anchor=\"end\">link used, %</text>",
        AREA.1,
        HEIGHT - 14.0,
        14,
        AREA.2,
        14,
        AREA.2
    );
}

fn draw(svg: &mut String, mark: &Mark<'_>, scales: &Scales, taken: &mut Vec<[f64; 4]>) {
    let (x, y) = (scales.x(mark.delay_ms), scales.y(mark.utilisation));
    let _ = write!(svg, "<g class=\"c{}\">", mark.colour);
    let _ = match mark.name.split(':').next() {
        Some("direct") => write!(svg, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>"),
        Some("split") => {
            write!(
                svg,
                "<rect class=\"dot\" x=\"{:.1}\" y=\"{:.1}\" width=\"8.4\" height=\"8.4\"/>",
                x - 4.2,
                y - 4.2
            )
        }
        _ => write!(svg, "<path class=\"dot\" d=\"M{x:.1} {:.1}l6 6l-6 6l-6 -6Z\"/>", y - 6.0),
    };
    let width = mark.name.chars().count() as f64 * LETTER.0;
    let (left, top) = place(width, (x, y), taken);
    taken.push([left, top, left + width, top + LETTER.1]);
    let _ = writeln!(
        svg,
        "<text class=\"name\" x=\"{left:.1}\" y=\"{:.1}\">{}</text></g>",
        top + LETTER.1 - 3.0,
        escape(mark.name)
    );
}

/// Where a label of this width stands free, nearest first; left and top.
fn place(width: f64, (x, y): (f64, f64), taken: &[[f64; 4]]) -> (f64, f64) {
    let sides = |dy: f64| [(x + 9.0, y - LETTER.1 / 2.0 + dy), (x - 9.0 - width, y - LETTER.1 / 2.0 + dy)];
    let steps = (0..14).flat_map(|n| [f64::from(n) * 7.0, f64::from(n) * -7.0]);
    let is_free = |&(left, top): &(f64, f64)| {
        let inside =
            left >= AREA.0 && left + width <= AREA.1 + 14.0 && top >= 0.0 && top + LETTER.1 <= AREA.3;
        let apart =
            |t: &[f64; 4]| left >= t[2] || left + width <= t[0] || top >= t[3] || top + LETTER.1 <= t[1];
        inside && taken.iter().all(apart)
    };
    steps.flat_map(sides).find(is_free).unwrap_or((x + 9.0, y - LETTER.1 / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_is_up_and_left_and_labels_keep_apart() {
        let mark = |name, utilisation, delay_ms| Mark { name, utilisation, delay_ms, colour: 0 };
        let marks = [mark("direct:cubic", 0.99, 3_000.0), mark("accel:<rate>", 0.7, 30.0)];
        let scales = Scales::of(&marks, &[]);
        assert!(scales.x(30.0) < scales.x(3_000.0) && scales.y(0.99) < scales.y(0.7));
        assert!(scales.least <= 0.7 && scales.x(30.0) >= AREA.0);
        let svg = plot("a & b", &marks, &[vec![(0.5, 10.0), (0.9, 20.0), (0.95, 40.0)]]);
        assert!(
            svg.contains("a &amp; b")
                && svg.contains("accel:&lt;rate&gt;")
                && svg.contains("class=\"limit\"")
        );
        let first = place(60.0, (300.0, 100.0), &[]);
        let second = place(60.0, (300.0, 100.0), &[[first.0, first.1, first.0 + 60.0, first.1 + LETTER.1]]);
        assert_ne!(first, second);
    }
}
