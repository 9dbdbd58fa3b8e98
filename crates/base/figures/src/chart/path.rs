//! [`Pen`]: an SVG path in tenths of a pixel.

use std::fmt::Write as _;

/// A pixel with one decimal.
pub(super) fn px(pixels: f64) -> f64 {
    let rounded = (pixels * 10.0).round() / 10.0;
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// Writes a path: tenths of a pixel, and no point that lies where the pen is or between two others on a
/// level line.
#[derive(Debug, Default)]
pub(super) struct Pen {
    path: String,
    at: Option<(i64, i64)>,
    /// End of a level stretch that is not written yet.
    level: Option<i64>,
}

fn tenths(pixels: f64) -> i64 {
    (pixels * 10.0).round() as i64
}

fn text(tenths: i64) -> String {
    let sign = if tenths < 0 { "-" } else { "" };
    match tenths.abs() {
        whole if whole % 10 == 0 => format!("{sign}{}", whole / 10),
        part => format!("{sign}{}.{}", part / 10, part % 10),
    }
}

impl Pen {
    /// Moves to here without a line.
    pub(super) fn lift(&mut self, x: f64, y: f64) {
        self.settle();
        let to = (tenths(x), tenths(y));
        let _ = write!(self.path, "M{} {}", text(to.0), text(to.1));
        self.at = Some(to);
    }

    /// A line to here, or its beginning.
    pub(super) fn line(&mut self, x: f64, y: f64) {
        let to = (tenths(x), tenths(y));
        let Some(at) = self.at else { return self.lift(x, y) };
        if to.1 == at.1 {
            // A level line that turns back is two.
            if self.level.is_some_and(|level| (level < to.0) != (at.0 < level)) {
                self.settle();
            }
            self.level = (to.0 != self.at.map_or(to.0, |at| at.0)).then_some(to.0);
            return;
        }
        self.settle();
        let x_at = self.at.map_or(at.0, |at| at.0);
        let _ = if to.0 == x_at {
            write!(self.path, "V{}", text(to.1))
        } else {
            write!(self.path, "L{} {}", text(to.0), text(to.1))
        };
        self.at = Some(to);
    }

    /// Writes the level stretch that is under way.
    fn settle(&mut self) {
        if let (Some(level), Some(at)) = (self.level.take(), self.at) {
            let _ = write!(self.path, "H{}", text(level));
            self.at = Some((level, at.1));
        }
    }

    /// Ends the line: the next begins elsewhere.
    pub(super) fn stop(&mut self) {
        self.settle();
        self.at = None;
    }

    /// Closes the area.
    pub(super) fn close(&mut self) {
        self.settle();
        self.path.push('Z');
        self.at = None;
    }

    /// Path data that was written.
    pub(super) fn finish(mut self) -> String {
        self.settle();
        self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: &[(f64, f64)]) -> String {
        let mut pen = Pen::default();
        points.iter().for_each(|(x, y)| pen.line(*x, *y));
        pen.finish()
    }

    #[test]
    fn level_stretches_are_one_and_points_in_one_place_too() {
        assert_eq!(
            drawn(&[(5.0, 10.0), (15.0, 10.0), (25.0, 10.01), (45.0, 5.0), (45.0, 0.0)]),
            "M5 10H25L45 5V0"
        );
        assert_eq!(drawn(&[(1.0, 1.0), (1.02, 1.0), (1.0, 1.04)]), "M1 1");
        assert_eq!(drawn(&[(0.0, 0.0), (10.0, 0.0), (5.0, 0.0), (5.0, -0.36)]), "M0 0H10H5V-0.4");
        let mut pen = Pen::default();
        pen.line(0.0, 0.0);
        pen.line(9.0, 0.0);
        pen.stop();
        pen.line(12.0, 0.0);
        assert_eq!(pen.finish(), "M0 0H9M12 0");
    }
}
