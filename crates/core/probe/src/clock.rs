//! [`ClockEstimate`]: how far the server's clock is ahead, as an interval, and how fast it drifts.
//!
//! A packet of delay d there, sent at t₁ and received at t₂, says `t₂ − t₁ = offset + d ≥ offset`; its
//! answer, sent at t₃ and received at t₄, says `t₃ − t₄ ≤ offset`. Nothing is assumed of how the two
//! ways share a round trip, so the offset is known to an interval as wide as the least round trip.
//! All samples must lie on their sides of one line `offset + drift · t`; of the lines that do, the one
//! with the widest strip around it is taken, after Moon, Skelly and Towsley [MS].

use serde::Serialize;

use crate::log::EchoSample;

/// Stretches of which only the least delay each way counts.
const STRETCHES: usize = 64;
/// Drifts beyond this are no clocks, ppm.
const DRIFT_MAX_PPM: f64 = 1_000.0;

/// The server's clock against the client's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockEstimate {
    /// The server's clock is at least this far ahead in the middle of the samples, ms.
    pub offset_low_ms: f64,
    /// And at most this far.
    pub offset_high_ms: f64,
    /// The server's clock gains so much, ppm.
    pub drift_ppm: f64,
    /// It gains at least this much, whatever the delays are, ppm.
    pub drift_low_ppm: f64,
    /// And at most this much.
    pub drift_high_ppm: f64,
    /// Length of the stretch the samples cover, s.
    pub seconds: f64,
}

/// Least delay of a stretch: when (s after the first), and the bound it sets on the offset (s).
type Bound = (f64, f64);

impl ClockEstimate {
    /// Estimate from round trips in the order of their departure; none of fewer than two.
    #[must_use]
    pub fn of(echoes: &[EchoSample]) -> Option<Self> {
        let first = echoes.iter().map(|echo| echo.sent).min()?;
        let last = echoes.iter().map(|echo| echo.sent).max()?;
        let span = last.saturating_since(first).as_secs_f64();
        if echoes.len() < 2 || span <= 0.0 {
            return None;
        }
        // Differences of clocks can be large: against the first one they are small.
        let base = signed(echoes.first()?.received.as_nanos(), echoes.first()?.sent.as_nanos());
        let mut upper: Vec<Option<Bound>> = vec![None; STRETCHES];
        let mut lower: Vec<Option<Bound>> = vec![None; STRETCHES];
        for echo in echoes {
            let at = |time: units::Instant| time.saturating_since(first).as_secs_f64();
            let place = ((at(echo.sent) / span * STRETCHES as f64) as usize).min(STRETCHES - 1);
            let above = (signed(echo.received.as_nanos(), echo.sent.as_nanos()) - base) as f64 / 1e9;
            let below = (signed(echo.echoed.as_nanos(), echo.returned.as_nanos()) - base) as f64 / 1e9;
            if let Some(slot) = upper.get_mut(place)
                && slot.is_none_or(|(_, bound)| above < bound)
            {
                *slot = Some((at(echo.sent), above));
            }
            if let Some(slot) = lower.get_mut(place)
                && slot.is_none_or(|(_, bound)| below > bound)
            {
                *slot = Some((at(echo.returned), below));
            }
        }
        let upper: Vec<Bound> = upper.into_iter().flatten().collect();
        let lower: Vec<Bound> = lower.into_iter().flatten().collect();
        let (low, high) = feasible(&upper, &lower);
        let drift = extreme(low, high, |slope| {
            let (bottom, top) = strip(&upper, &lower, slope);
            top - bottom
        });
        // In the middle, whatever the drift is: the highest and the lowest place of any line that fits.
        let middle = span / 2.0;
        let top = |slope: f64| strip(&upper, &lower, slope).1 + slope * middle;
        let bottom = |slope: f64| strip(&upper, &lower, slope).0 + slope * middle;
        let highest = top(extreme(low, high, top));
        let lowest = bottom(extreme(low, high, |slope| -bottom(slope)));
        let ms = |offset: f64| (base as f64 / 1e9 + offset) * 1e3;
        Some(Self {
            offset_low_ms: ms(lowest),
            offset_high_ms: ms(highest),
            drift_ppm: drift * 1e6,
            drift_low_ppm: low * 1e6,
            drift_high_ppm: high * 1e6,
            seconds: span,
        })
    }
}

fn signed(a: u64, b: u64) -> i64 {
    a.cast_signed().wrapping_sub(b.cast_signed())
}

/// Slopes for which a line has every sample on its side.
fn feasible(upper: &[Bound], lower: &[Bound]) -> (f64, f64) {
    let limit = DRIFT_MAX_PPM / 1e6;
    let (mut low, mut high) = (-limit, limit);
    for (at_below, below) in lower {
        for (at_above, above) in upper {
            let (time, room) = (at_above - at_below, above - below);
            if time > 0.0 {
                high = high.min(room / time);
            } else if time < 0.0 {
                low = low.max(room / time);
            }
        }
    }
    if low <= high { (low, high) } else { (high, low) }
}

/// Offsets at time zero that a line of this slope can have.
fn strip(upper: &[Bound], lower: &[Bound], slope: f64) -> (f64, f64) {
    let top = upper.iter().map(|(at, bound)| bound - slope * at).fold(f64::INFINITY, f64::min);
    let bottom = lower.iter().map(|(at, bound)| bound - slope * at).fold(f64::NEG_INFINITY, f64::max);
    (bottom, top)
}

/// Place at which a concave function of the slope is largest.
fn extreme(mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..120 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if of(a) < of(b) { low = a } else { high = b }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use units::{Duration, Instant};

    use super::*;

    /// Echoes over ways of 30 and 10 ms with queues, to a clock ahead by `offset_ms` that gains `ppm`.
    fn echoes(offset_ms: i64, ppm: f64, seconds: u64, seed: u64) -> Vec<EchoSample> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let begin = 1_000_000_000_000_u64;
        let there = |time: u64| {
            let gained = (time - begin) as f64 * ppm / 1e6;
            Instant::from_nanos((time.cast_signed() + offset_ms * 1_000_000 + gained as i64).unsigned_abs())
        };
        (0..seconds * 50)
            .map(|number| {
                let sent = begin + number * 20_000_000;
                let mut queue =
                    || if random.random_bool(0.7) { random.random_range(0..200_000_000) } else { 0 };
                let came = sent + 30_000_000 + queue();
                let left = came + 15_000;
                let returned = left + 10_000_000 + queue();
                EchoSample {
                    number: number as u32,
                    sent: Instant::from_nanos(sent),
                    received: there(came),
                    echoed: there(left),
                    returned: Instant::from_nanos(returned),
                }
            })
            .collect()
    }

    #[test]
    fn the_offset_lies_in_an_interval_as_wide_as_the_least_round_trip() {
        for (offset, ppm) in [(0, 0.0), (86_400_000, 40.0), (-900_000, -200.0)] {
            let echoes = echoes(offset, ppm, 20, 3);
            let estimate = ClockEstimate::of(&echoes).unwrap();
            let middle = offset as f64 + 10_000.0 * ppm / 1e6;
            assert!((estimate.offset_low_ms..estimate.offset_high_ms).contains(&middle), "{estimate:?}");
            let width = estimate.offset_high_ms - estimate.offset_low_ms;
            assert!((39.9..41.5).contains(&width), "{estimate:?}");
            assert!((estimate.drift_ppm - ppm).abs() < 10.0, "{ppm}: {estimate:?}");
            assert!(estimate.drift_low_ppm <= ppm && ppm <= estimate.drift_high_ppm, "{estimate:?}");
            // The ways differ by 20 ms: half the round trip would be off by ten.
            assert!((middle - f64::midpoint(estimate.offset_low_ms, estimate.offset_high_ms)).abs() > 9.0);
        }
    }

    #[test]
    fn round_trips_do_not_contain_the_time_of_the_answer() {
        let echo = echoes(5, 0.0, 1, 1)[0];
        assert!(echo.round_trip() >= Duration::from_millis(40));
        assert_eq!(echo.round_trip() + Duration::from_micros(15), echo.returned.saturating_since(echo.sent));
        assert!(ClockEstimate::of(&[echo]).is_none());
    }
}
