//! [`Scale`]: maps values to pixels, with round tick marks.

/// Room at both ends of a logarithmic axis that begins and ends between powers of ten.
const LOG_MARGIN: f64 = 1.15;
/// Over larger ratios only powers of ten are marked.
const SHORT_RATIO: f64 = 300.0;
/// Powers of ten marked at most.
const POWERS_MAX: i32 = 8;
/// The least value on a logarithmic axis.
const LOG_MIN: f64 = 1e-12;

/// An axis from `low` to `high` laid over pixels `start` to `end` (which may be descending).
#[derive(Clone, Debug)]
pub(super) struct Scale {
    is_log: bool,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    ticks: Vec<f64>,
}

impl Scale {
    /// Round ticks from the one at or below `least` to the one at or above `largest`, about `ticks_max`
    /// intervals at most.
    pub(super) fn round(least: f64, largest: f64, ticks_max: usize, (start, end): (f64, f64)) -> Self {
        let (least, largest) = spread_out(least, largest);
        let step = round_step(largest / ticks_max as f64 - least / ticks_max as f64);
        let first = (least / step + 1e-9).floor();
        let last = (largest / step - 1e-9).ceil().max(first + 1.0);
        let ticks = (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect();
        Self { is_log: false, low: first * step, high: last * step, start, end, ticks }
    }

    /// Scale from exactly `least` to exactly `largest`: a stretch of time.
    pub(super) fn exact(least: f64, largest: f64, ticks_max: usize, pixels: (f64, f64)) -> Self {
        let (least, largest) = spread_out(least, largest);
        let mut scale = Self::round(least, largest, ticks_max, pixels);
        let slack = (largest - least) * 1e-6;
        scale.ticks.retain(|t| *t >= least - slack && *t <= largest + slack);
        (scale.low, scale.high) = (least, largest);
        scale
    }

    /// Equal ratios from a little below `smallest` to a little above `largest`. Ticks stand at powers of
    /// ten, and over a short range at twice and five times such powers too.
    pub(super) fn log(smallest: f64, largest: f64, (start, end): (f64, f64)) -> Self {
        let smallest = if smallest.is_finite() { smallest.max(LOG_MIN) } else { 1.0 };
        let largest = if largest.is_finite() { largest.max(smallest) } else { smallest };
        let (low, high) = (smallest / LOG_MARGIN, (largest * LOG_MARGIN).min(f64::MAX));
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let every = ((last - first) / POWERS_MAX + 1) as usize;
        let at = |factors: &[f64]| -> Vec<f64> {
            let all =
                (first..=last).step_by(every).flat_map(|p| factors.iter().map(move |f| f * 10f64.powi(p)));
            all.filter(|tick| *tick >= low && *tick <= high).collect()
        };
        let ticks = match at(if high / low > SHORT_RATIO { &[1.0] } else { &[1.0, 2.0, 5.0] }) {
            few if few.len() < 3 => at(&[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
            enough => enough,
        };
        Self { is_log: true, low, high, start, end, ticks }
    }

    /// Places 1 to `count`, each in the middle of an equal share.
    pub(super) fn places(count: usize, (start, end): (f64, f64)) -> Self {
        let ticks = (1..=count).map(|i| i as f64).collect();
        Self { is_log: false, low: 0.5, high: count.max(1) as f64 + 0.5, start, end, ticks }
    }

    /// The pixel of `value`, kept inside the axis; what is no number stands at its low end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.low } else { value.clamp(self.low, self.high) };
        let share = if self.is_log {
            // Differences of logarithms: the ratio of the ends may be beyond any number.
            (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            // Halved, so that the distance of the largest numbers is one.
            (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0)
        };
        self.start + share * (self.end - self.start)
    }

    /// The pixel that stems, bars and grounds begin at: that of zero, or of the end nearest to it.
    pub(super) fn floor(&self) -> f64 {
        self.at(0.0)
    }

    /// Tick values, rising.
    pub(super) fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// Pixels of a place.
    pub(super) fn step(&self) -> f64 {
        (self.end - self.start).abs() / (self.high - self.low)
    }
}

/// Finite, and not the same.
fn spread_out(least: f64, largest: f64) -> (f64, f64) {
    let (least, largest) = match (least.is_finite(), largest.is_finite()) {
        (true, true) => (least.min(largest), largest.max(least)),
        (true, false) => (least, least),
        (false, true) => (largest, largest),
        (false, false) => (0.0, 0.0),
    };
    // A tenth of the largest number is room enough for the step above it.
    let (least, largest) = (least.max(f64::MIN / 10.0), largest.min(f64::MAX / 10.0));
    let room = if least == 0.0 { 1.0 } else { least.abs() };
    if largest - least > room * 1e-9 { (least, largest) } else { (least, least + room) }
}

/// The next of 1, 2, 2.5, 5 times a power of ten that is at least `rough`.
fn round_step(rough: f64) -> f64 {
    let magnitude = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|f| f * magnitude >= rough * 0.999_999);
    factor.unwrap_or(10.0) * magnitude
}

/// A tick label: no more digits than the value has, thousands set apart by a thin space, a power of ten
/// where that would be long.
pub(super) fn label(value: f64) -> String {
    if value < 0.0 {
        return format!("−{}", label(-value));
    }
    if value >= 1e9 || (value > 0.0 && value < 1e-3) {
        let power = (value.log10() + 1e-9).floor();
        let factor = label(value / 10f64.powf(power));
        let power: String = format!("{power:.0}").chars().map(raised).collect();
        return if factor == "1" { format!("10{power}") } else { format!("{factor}·10{power}") };
    }
    if value >= 1_000.0 {
        let whole = value.round() as u64;
        let front = label((whole / 1_000) as f64);
        return format!("{front}\u{2009}{:03}", whole % 1_000);
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn raised(digit: char) -> char {
    match digit {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        other => other.to_digit(10).and_then(|d| char::from_u32(0x2070 + d)).unwrap_or(other),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round_and_cover_all_values() {
        let pixels = (100.0, 0.0);
        let scale = Scale::round(0.0, 5.6, 4, pixels);
        assert_eq!(scale.ticks(), [0.0, 2.0, 4.0, 6.0]);
        assert!((scale.at(0.0) - 100.0).abs() < 1e-9 && scale.at(6.0).abs() < 1e-9);
        assert_eq!(Scale::round(62.0, 113.0, 4, pixels).ticks(), [60.0, 80.0, 100.0, 120.0]);
        assert_eq!(Scale::round(-7.0, 7.0, 4, pixels).ticks(), [-10.0, -5.0, 0.0, 5.0, 10.0]);
        assert_eq!(Scale::exact(0.0, 23.7, 6, pixels).ticks(), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(Scale::exact(30.0, 60.0, 6, pixels).ticks(), [30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0]);
        assert_eq!(Scale::log(60.0, 792.0, pixels).ticks(), [100.0, 200.0, 500.0]);
        assert_eq!(Scale::log(1.0, 1e4, pixels).ticks().len(), 5);
        assert_eq!(Scale::log(20.0, 24.0, pixels).ticks(), [20.0, 25.0], "a short range has ticks too");
        assert!((Scale::places(4, (0.0, 80.0)).at(1.0) - 10.0).abs() < 1e-9);
        assert_eq!(Scale::places(0, pixels).ticks().len(), 0);
    }

    #[test]
    fn labels_are_short() {
        let got = [0.25, 10.0, 2500.0, 1e6, -2.5, 0.0, 3e12, 1e300, 2e-5].map(label);
        let wanted = [
            "0.25",
            "10",
            "2\u{2009}500",
            "1\u{2009}000\u{2009}000",
            "−2.5",
            "0",
            "3·10¹²",
            "10³⁰⁰",
            "2·10⁻⁵",
        ];
        assert_eq!(got, wanted);
    }

    #[test]
    fn the_ends_of_a_logarithmic_axis_may_be_any_numbers() {
        let scale = Scale::log(0.0, 1.1e298, (300.0, 10.0));
        assert_eq!([1e-300, 1e305].map(|value| scale.at(value).round()), [300.0, 10.0]);
    }

    proptest! {
        #[test]
        fn any_range_has_few_ticks_and_finite_pixels(a in any::<f64>(), b in any::<f64>(), value in any::<f64>()) {
            let pixels = (300.0, 10.0);
            for scale in [Scale::round(a, b, 5, pixels), Scale::exact(a, b, 5, pixels), Scale::log(a, b, pixels)] {
                prop_assert!(scale.ticks().len() <= 30, "{scale:?}");
                prop_assert!((10.0..=300.0).contains(&scale.at(value)), "{} of {scale:?}", scale.at(value));
            }
        }
    }
}
