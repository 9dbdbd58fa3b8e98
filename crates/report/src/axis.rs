//! [`Axis`]: maps values to pixels, with round tick marks.

/// How values are spread along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Equal steps for equal differences, from zero.
    Linear,
    /// Equal steps for equal ratios.
    Log,
}

/// An axis from `low` to `high` laid over pixels `start` to `end` (which may be descending).
#[derive(Clone, Debug)]
pub struct Axis {
    spread: Spread,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    ticks: Vec<f64>,
}

/// Room at both ends of a logarithmic axis that begins and ends between powers of ten.
const LOG_MARGIN: f64 = 1.15;
/// Over larger ratios only powers of ten are marked.
const SHORT_RATIO: f64 = 300.0;

impl Axis {
    /// From zero to just above `largest`, at most `ticks_max` intervals.
    pub fn linear(largest: f64, ticks_max: usize, (start, end): (f64, f64)) -> Self {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let step = round_step(largest / ticks_max.max(1) as f64);
        let count = (largest / step).ceil();
        let ticks = (0..=count as usize).map(|i| i as f64 * step).collect();
        Self { spread: Spread::Linear, low: 0.0, high: count * step, start, end, ticks }
    }

    /// From zero to exactly `largest`: for time, where empty space at the end would mislead.
    pub fn linear_to(largest: f64, ticks_max: usize, pixels: (f64, f64)) -> Self {
        let mut axis = Self::linear(largest, ticks_max, pixels);
        if largest > 0.0 {
            axis.high = largest;
            axis.ticks.retain(|t| *t <= largest * 1.000_001);
        }
        axis
    }

    /// Whole powers of ten around `smallest` to `largest`, both above zero.
    pub fn log(smallest: f64, largest: f64, (start, end): (f64, f64)) -> Self {
        let low = smallest.max(1e-6).log10().floor();
        let high = largest.max(smallest * 1.01).log10().ceil().max(low + 1.0);
        let ticks = (0..=(high - low) as i32).map(|i| 10f64.powf(low + f64::from(i))).collect();
        Self { spread: Spread::Log, low: 10f64.powf(low), high: 10f64.powf(high), start, end, ticks }
    }

    /// From about `least` to about `largest`, to the next tick on both sides, at most `ticks_max` intervals.
    pub fn between(least: f64, largest: f64, ticks_max: usize, (start, end): (f64, f64)) -> Self {
        let span = if largest > least { largest - least } else { 1.0 };
        let step = round_step(span / ticks_max.max(1) as f64);
        let (first, last) =
            ((least / step).floor(), (largest / step).ceil().max((least / step).floor() + 1.0));
        let ticks = (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect();
        Self { spread: Spread::Linear, low: first * step, high: last * step, start, end, ticks }
    }

    /// From exactly `least` to exactly `largest`: a stretch of time.
    pub fn between_exactly(least: f64, largest: f64, ticks_max: usize, pixels: (f64, f64)) -> Self {
        let mut axis = Self::between(least, largest, ticks_max, pixels);
        if largest > least {
            (axis.low, axis.high) = (least, largest);
            axis.ticks.retain(|t| *t >= least - 1e-9 && *t <= largest * 1.000_001);
        }
        axis
    }

    /// Equal ratios from a little below `smallest` to a little above `largest`, both above zero. Ticks stand at powers of ten, and over
    /// a short range at twice and five times such powers too.
    pub fn log_between(smallest: f64, largest: f64, (start, end): (f64, f64)) -> Self {
        let smallest = smallest.max(1e-6);
        let (low, high) = (smallest / LOG_MARGIN, largest.max(smallest) * LOG_MARGIN);
        let factors: &[f64] = if high / low > SHORT_RATIO { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        let ticks = all.filter(|tick| *tick >= low && *tick <= high).collect();
        Self { spread: Spread::Log, low, high, start, end, ticks }
    }

    /// Places 1 to `count`, each in the middle of an equal share.
    pub fn places(count: usize, (start, end): (f64, f64)) -> Self {
        let ticks = (1..=count).map(|i| i as f64).collect();
        Self { spread: Spread::Linear, low: 0.5, high: count.max(1) as f64 + 0.5, start, end, ticks }
    }

    /// The pixel of `value`, kept inside the axis; what is no number stands at its low end.
    pub fn at(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.low } else { value.clamp(self.low, self.high) };
        let share = match self.spread {
            Spread::Linear => (value - self.low) / (self.high - self.low),
            Spread::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        self.start + share * (self.end - self.start)
    }

    /// Tick values, rising.
    pub fn ticks(&self) -> &[f64] {
        &self.ticks
    }
    /// How values are spread.
    pub fn spread(&self) -> Spread {
        self.spread
    }
}

/// The next of 1, 2, 2.5, 5 times a power of ten that is at least `rough`.
fn round_step(rough: f64) -> f64 {
    let magnitude = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|f| f * magnitude >= rough * 0.999_999);
    factor.unwrap_or(10.0) * magnitude
}

/// A tick label: no more digits than the value has, thousands set apart by a thin space.
pub fn label(value: f64) -> String {
    if value >= 1_000.0 {
        let whole = value.round() as u64;
        let front = label((whole / 1_000) as f64);
        return format!("{front}\u{2009}{:03}", whole % 1_000);
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_largest() {
        let axis = Axis::linear(5.6, 4, (100.0, 0.0));
        assert_eq!(axis.ticks(), [0.0, 2.0, 4.0, 6.0]);
        assert!((axis.at(0.0) - 100.0).abs() < 1e-9 && axis.at(6.0).abs() < 1e-9);
        assert_eq!(Axis::log(3.0, 420.0, (0.0, 1.0)).ticks().len(), 4);
        assert!((Axis::log(1.0, 100.0, (0.0, 1.0)).at(10.0) - 0.5).abs() < 1e-9);
        assert_eq!(Axis::linear_to(23.7, 6, (0.0, 1.0)).ticks(), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(Axis::linear(f64::NAN, 4, (0.0, 1.0)).ticks().len(), 5);
    }

    #[test]
    fn an_axis_may_begin_elsewhere() {
        assert_eq!(Axis::between(62.0, 113.0, 4, (0.0, 1.0)).ticks(), [60.0, 80.0, 100.0, 120.0]);
        let time = Axis::between_exactly(30.0, 60.0, 6, (0.0, 300.0));
        assert_eq!(time.ticks(), [30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0]);
        assert!((time.at(45.0) - 150.0).abs() < 1e-9 && time.at(10.0).abs() < 1e-9);
        assert_eq!(Axis::log_between(60.0, 792.0, (0.0, 1.0)).ticks(), [100.0, 200.0, 500.0]);
        assert_eq!(Axis::log_between(1.0, 1e4, (0.0, 1.0)).ticks().len(), 5);
        assert!((Axis::places(4, (0.0, 80.0)).at(1.0) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(label(0.25), "0.25");
        assert_eq!(label(10.0), "10");
        assert_eq!(label(2500.0), "2\u{2009}500");
        assert_eq!(label(1e6), "1\u{2009}000\u{2009}000");
    }
}
