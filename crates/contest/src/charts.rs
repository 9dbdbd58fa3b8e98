//! [`chart`]: lines over a common axis, as SVG that scales to its column.

use std::fmt::Write as _;

use report::escape;

/// A line: its colour, none for the trace, which is an area, and its points.
pub(crate) struct Line {
    pub colour: Option<usize>,
    pub points: Vec<(f64, f64)>,
}

/// An axis: what it says, and whether it is logarithmic.
pub(crate) struct Axis {
    pub unit: &'static str,
    pub is_log: bool,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
/// Plot area: left, right, top, bottom.
const AREA: (f64, f64, f64, f64) = (58.0, 706.0, 14.0, 214.0);

/// Values of an axis, and its pixels.
struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, is_log: bool, (from, to): (f64, f64)) -> Self {
        let high = values.fold(0.0, f64::max).max(if is_log { 10.0 } else { 1e-3 });
        // Delays below a millisecond are one opportunity.
        Self { low: if is_log { 1.0 } else { 0.0 }, high, is_log, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Round values, about five of them.
    fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let all = (0..7).flat_map(|power| [1.0, 3.0].map(|f| f * 10f64.powi(power)));
            return all.filter(|tick| *tick <= self.high).collect();
        }
        let rough = self.high / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|f| f * power).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        (0..=(self.high / step) as u32).map(|n| f64::from(n) * step).collect()
    }
}

/// Lines with their axes.
pub(crate) fn chart(title: &str, lines: &[Line], (x, y): (&Axis, &Axis)) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = Scale::new(points().map(|p| p.0), x.is_log, (AREA.0, AREA.1));
    let up = Scale::new(points().map(|p| p.1), y.is_log, (AREA.3, AREA.2));
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{}</title>\n", escape(title));
    for tick in across.ticks() {
        let at = across.at(tick);
        // Writing into a String cannot fail.
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1} {}V{}\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
            AREA.2,
            AREA.3,
            AREA.3 + 16.0
        );
    }
    for tick in up.ticks() {
        let at = up.at(tick);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{} {at:.1}H{}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
            AREA.0,
            AREA.1,
            AREA.0 - 6.0,
            at + 4.0
        );
    }
    for line in lines {
        draw(&mut svg, line, &across, &up);
    }
    let _ = writeln!(
        svg,
        "<text class=\"unit\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
         <text class=\"unit\" x=\"14\" y=\"{}\" transform=\"rotate(-90 14 {})\" text-anchor=\"end\">{}</text>\n</svg>",
        AREA.1,
        HEIGHT - 8.0,
        escape(x.unit),
        AREA.2,
        AREA.2,
        escape(y.unit)
    );
    svg
}

fn draw(svg: &mut String, line: &Line, across: &Scale, up: &Scale) {
    let (Some(first), Some(last)) = (line.points.first(), line.points.last()) else { return };
    let path: Vec<String> =
        line.points.iter().map(|(a, b)| format!("{:.1} {:.1}", across.at(*a), up.at(*b))).collect();
    let path = path.join("L");
    let _ = match line.colour {
        Some(colour) => {
            writeln!(svg, "<g class=\"c{colour}\"><path class=\"line\" d=\"M{path}\"/></g>")
        }
        None => {
            let (first, last, floor) = (across.at(first.0), across.at(last.0), AREA.3);
            writeln!(svg, "<path class=\"capacity\" d=\"M{first:.1} {floor}L{path}L{last:.1} {floor}Z\"/>")
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_have_round_ticks_and_keep_inside() {
        let linear = Scale::new([7.3, 93.0].into_iter(), false, (0.0, 100.0));
        assert_eq!(linear.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert!(linear.at(93.0) <= 100.0 && linear.at(200.0) <= 100.0);
        let log = Scale::new([0.2, 400.0].into_iter(), true, (0.0, 100.0));
        assert_eq!(log.ticks(), [1.0, 3.0, 10.0, 30.0, 100.0, 300.0]);
        assert!(log.at(0.2) == 0.0 && log.at(20.0) > log.at(10.0));
        let axis = |is_log| Axis { unit: "ms", is_log };
        let line = |colour| Line { colour, points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let svg = chart("a & b", &[line(None), line(Some(3))], (&axis(false), &axis(true)));
        assert!(
            svg.contains("a &amp; b") && svg.contains("class=\"capacity\"") && svg.contains("class=\"c3\"")
        );
    }
}
