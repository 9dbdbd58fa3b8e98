//! [`plane`]: utilisation against queueing delay.

use figures::chart::{Axis, Chart, Ink, Mark, Point, Range, Series};

/// A scheme in the plane.
pub(super) struct Dot<'a> {
    pub(super) name: &'a str,
    pub(super) utilisation: f64,
    pub(super) delay_ms: f64,
    /// Number of its colour.
    pub(super) colour: usize,
}

/// Room at both ends of the delays, as a factor.
const ROOM: (f64, f64) = (1.3, 1.6);
/// The delays cover at least this ratio.
const RATIO_MIN: f64 = 4.0;

/// Utilisation (linear, rising) against the 95th percentile of the queueing delay (logarithmic): best is
/// top left.
/// `curves` hold pairs of utilisation and delay: the limits.
pub(super) fn plane(title: &str, dots: &[Dot<'_>], curves: &[Vec<(f64, f64)>]) -> Chart {
    let delays = || dots.iter().map(|dot| dot.delay_ms).chain(curves.iter().flatten().map(|p| p.1));
    let low = delays().fold(f64::INFINITY, f64::min).clamp(1.0, 1e6);
    let high = delays().fold(1.0, f64::max);
    let least = dots.iter().map(|dot| dot.utilisation).fold(0.9, f64::min);
    let least = (least * 10.0 - 0.3).floor().max(0.0) * 10.0;
    let delay = Range::Between(low / ROOM.0, (high * ROOM.1).max(low * RATIO_MIN));
    let limits = curves.iter().map(|curve| {
        let above = curve.iter().filter(|(utilisation, _)| 100.0 * utilisation >= least);
        Series::new("limit", Ink::Limit, Mark::Line, above.map(|(used, ms)| Point::new(*ms, 100.0 * used)))
    });
    let named = dots.iter().map(|dot| {
        let at = Point::new(dot.delay_ms, 100.0 * dot.utilisation);
        Series::new(dot.name, Ink::Colour(dot.colour), Mark::Named, [at])
    });
    Chart::new(title, Axis::log("queueing delay p95, ms").over(delay))
        .panel(Axis::linear("link used, %").over(Range::Between(least, 100.0)), limits.chain(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_scheme_and_the_limits_above_it_are_inside() {
        let dot = |name, utilisation, delay_ms| Dot { name, utilisation, delay_ms, colour: 0 };
        let dots = [dot("direct:cubic", 0.99, 3_000.0), dot("accel:<rate>", 0.7, 30.0)];
        let chart = plane("a & b", &dots, &[vec![(0.5, 10.0), (0.9, 20.0), (0.95, 40.0)]]);
        let Range::Between(least, most) = chart.panels[0].y.range else { panic!("{:?}", chart.panels[0].y) };
        assert!(least <= 70.0 && most == 100.0, "{least}");
        assert_eq!(chart.panels[0].series[0].points.len(), 2, "what lies below is left out");
        let svg = chart.half().into_string();
        assert!(svg.contains("accel:&lt;rate&gt;") && svg.contains("class=\"limit\""), "{svg}");
    }
}
