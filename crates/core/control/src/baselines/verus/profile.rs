//! The delay profile: which delay goes with which window. \[VE\] §4.2.

use units::Duration;

/// Windows that are told apart for each doubling.
///
/// DEVIATION: \[VE\] has a point for each number of segments. With 16 for each doubling it is within 4 % of
/// that, and a window of a million segments fits.
const PER_DOUBLING: u64 = 16;
/// Points: up to 2²⁴ segments.
const POINTS: usize = 16 * 25;
/// DEVIATION: what was never tried is believed in up to this many times what was. The authors' spline goes on
/// without end, and starts again from slow start when it does not come back.
const EXTRAPOLATION: u64 = 2;

/// A point of the curve: a window in segments, and its delay.
type Point = (u64, Duration);

/// Delays that have been learned, and the curve through them.
#[derive(Clone, Debug, stored::Stored)]
pub(super) struct Profile {
    learned: Vec<Option<Duration>>,
    curve: Vec<Point>,
}

/// The point that `window` belongs to: the octave, and sixteenths of it.
fn index_of(window: u64) -> usize {
    let window = window.max(1);
    let octave = u64::from(window.ilog2());
    let sixteenth = ((u128::from(window) * u128::from(PER_DOUBLING)) >> octave) as u64 - PER_DOUBLING;
    usize::try_from(octave * PER_DOUBLING + sixteenth).map_or(POINTS - 1, |index| index.min(POINTS - 1))
}

/// The smallest window of a point.
fn window_of(index: usize) -> u64 {
    let (octave, sixteenth) = (index as u64 / PER_DOUBLING, index as u64 % PER_DOUBLING);
    ((PER_DOUBLING + sixteenth) << octave).div_ceil(PER_DOUBLING)
}

impl Profile {
    pub(super) fn new() -> Self {
        Self { learned: vec![None; POINTS], curve: Vec::new() }
    }

    /// Learns that a segment sent at `window` took `rtt`.
    pub(super) fn learn(&mut self, window: u64, rtt: Duration) {
        if let Some(point) = self.learned.get_mut(index_of(window)) {
            // [VE] §4.2 with the authors' weight of ⅞ for what was.
            *point = Some(point.map_or(rtt, |delay| delay.mul_ratio(7, 8) + rtt / 8));
        }
    }

    /// Draws the curve: the rising one nearest to what was learned, straight between its points.
    ///
    /// DEVIATION: \[VE\] fits a spline, which floats are needed for and which need not rise.
    pub(super) fn draw(&mut self) {
        // Pool adjacent violators: neighbours that fall become one block of their mean.
        let mut blocks: Vec<(Duration, u64, Vec<u64>)> = Vec::new();
        for (index, delay) in self.learned.iter().enumerate() {
            let Some(delay) = *delay else { continue };
            blocks.push((delay, 1, vec![window_of(index)]));
            while let [.., before, last] = blocks.as_mut_slice()
                && before.0 > last.0
            {
                let count = before.1 + last.1;
                before.0 = before.0.mul_ratio(before.1, count) + last.0.mul_ratio(last.1, count);
                before.1 = count;
                before.2.append(&mut last.2);
                blocks.pop();
            }
        }
        let points =
            blocks.into_iter().flat_map(|(delay, _, windows)| windows.into_iter().map(move |w| (w, delay)));
        self.curve = points.collect();
    }

    /// The largest window whose delay is at most `delay`; none where nothing was learned.
    pub(super) fn window_for(&self, delay: Duration) -> Option<u64> {
        let (first, last) = (self.curve.first()?, self.curve.last()?);
        let above = self.curve.partition_point(|&(_, at)| at <= delay);
        if above == 0 {
            // Below all that was tried: as if the curve came from nothing.
            return Some(first.0.saturating_mul(delay.as_nanos()) / first.1.as_nanos().max(1));
        }
        let below = self.curve[above - 1];
        let Some(&next) = self.curve.get(above) else {
            // Beyond all that was tried: on in the direction from the shortest delay to the longest.
            let rise = last.1 - first.1;
            let farthest = last.0.saturating_mul(EXTRAPOLATION);
            if rise.is_zero() {
                return Some(farthest);
            }
            let excess = u128::from((delay - last.1).as_nanos()) * u128::from(last.0 - first.0);
            let more = u64::try_from(excess / u128::from(rise.as_nanos())).unwrap_or(u64::MAX);
            return Some(last.0.saturating_add(more.max(1)).min(farthest));
        };
        let part = u128::from((delay - below.1).as_nanos()) * u128::from(next.0 - below.0);
        Some(below.0 + (part / u128::from((next.1 - below.1).as_nanos().max(1))) as u64)
    }

    /// The delay that goes with `window`; none where nothing was learned.
    pub(super) fn delay_at(&self, window: u64) -> Option<Duration> {
        let above = self.curve.partition_point(|&(at, _)| at <= window);
        self.curve.get(above.saturating_sub(1)).map(|&(_, delay)| delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_curve_answers_with_what_was_learned_and_between() {
        let mut profile = Profile::new();
        for (window, delay) in [(8, 40), (16, 40), (32, 80)] {
            profile.learn(window, ms(delay));
        }
        assert_eq!(profile.window_for(ms(60)), None, "not drawn yet");
        profile.draw();
        assert_eq!(profile.window_for(ms(40)), Some(16));
        assert_eq!(profile.window_for(ms(60)), Some(24));
        assert_eq!(profile.window_for(ms(80)), Some(33), "one more is tried");
        assert_eq!(profile.window_for(ms(20)), Some(4));
        assert_eq!(profile.window_for(ms(10_000)), Some(64), "no more than twice what was tried");
        assert_eq!(profile.delay_at(20), Some(ms(40)));
    }

    #[test]
    fn points_are_a_sixteenth_of_a_doubling_apart() {
        assert_eq!((index_of(1), index_of(16), index_of(17), index_of(32)), (0, 64, 65, 80));
        assert!((1..POINTS).all(|index| window_of(index) >= window_of(index - 1)));
        assert!((64..POINTS).all(|index| index_of(window_of(index)) == index));
    }

    proptest! {
        #[test]
        fn the_curve_rises(seen in proptest::collection::vec((1u64..1 << 24, 1u64..2_000), 1..60)) {
            let mut profile = Profile::new();
            for (window, delay) in seen {
                profile.learn(window, ms(delay));
            }
            profile.draw();
            prop_assert!(profile.curve.is_sorted());
            let windows: Vec<_> = (0..2_000).step_by(50).map(|delay| profile.window_for(ms(delay))).collect();
            prop_assert!(windows.is_sorted(), "{:?}", windows);
        }
    }
}
