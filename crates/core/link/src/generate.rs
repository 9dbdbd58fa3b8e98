//! The generator of synthetic cellular traces.
//!
//! A trace is made millisecond by millisecond from three processes, each with its own random
//! sequence:
//!
//! 1. the *radio rate*: `exp(slow + fast)`, both first-order autoregressive (a driver's path and the
//!    cell's load change over seconds, fading over tenths of a second), scaled to the wanted mean;
//! 2. *outages*: a Poisson process with log-normal lengths above 200 ms;
//! 3. *scheduling*: the base station turns to other users for exponentially long pauses, and
//!    otherwise grants a transmission every few milliseconds on average, which carries all
//!    that the radio rate has made possible since the last one.
//!
//! The parameters of each preset were set by hand so that the figures of [`crate::TraceStats`] lie in
//! the ranges of [`crate::Preset::targets`], which come from public measurements.

use units::Duration;

use crate::random::{Stage, Stream};
use crate::trace::TraceBuilder;
use crate::{LinkError, OPPORTUNITY, Trace};

/// The rate is redrawn at this distance.
const RATE_STEP_MS: usize = 10;

/// Parameters of the generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Mean rate of the trace in Mbit/s.
    pub mean_mbps: f64,
    /// Highest radio rate in Mbit/s.
    pub peak_mbps: f64,
    /// Deviation of the slow part of the rate's logarithm.
    pub slow_deviation: f64,
    /// Its time constant in seconds.
    pub slow_s: f64,
    /// Deviation of the fast part.
    pub fast_deviation: f64,
    /// Its time constant in seconds.
    pub fast_s: f64,
    /// Outages per minute.
    pub outages_per_min: f64,
    /// Median length in seconds, above 0.2.
    pub outage_s_p50: f64,
    /// 95th percentile of the lengths in seconds.
    pub outage_s_p95: f64,
    /// Mean time between grants in ms, at least 1.
    pub grant_ms: f64,
    /// Mean time in ms between two pauses of the scheduler.
    pub turn_ms: f64,
    /// Mean length in ms of such a pause.
    pub pause_ms: f64,
}

/// The 95 % point of the standard normal distribution.
const NORMAL_P95: f64 = 1.645;
/// Outages are at least this long, in seconds.
const OUTAGE_S_MIN: f64 = 0.2;

impl Model {
    /// Generates a trace of exactly `length`, the same for the same seed on every platform.
    ///
    /// # Errors
    ///
    /// [`LinkError::Setting`] when `length` is not between 1 s and 24 h.
    pub fn generate(&self, length: Duration, seed: u64) -> Result<Trace, LinkError> {
        let ms_total = length.as_millis();
        if !(1_000..=24 * 3_600_000).contains(&ms_total) {
            return Err(LinkError::setting("seconds", "a trace must last from 1 second to 24 hours"));
        }
        let count = usize::try_from(ms_total).unwrap_or(usize::MAX);
        let is_on = self.scheduled_ms(count, seed);
        let rates = self.rates(&is_on, seed);
        let mut grants = Stream::new(seed ^ 1, Stage::TraceSchedule);
        let mut builder = TraceBuilder::new("generated trace");
        let mut credit = 0.0;
        for (ms, on) in is_on.iter().enumerate() {
            if !on {
                continue;
            }
            // Mbit/s times ms is kbit: 125 bytes.
            credit += rates[ms / RATE_STEP_MS] * 125.0 / OPPORTUNITY.get() as f64;
            if grants.unit() * self.grant_ms >= 1.0 {
                continue;
            }
            let whole = credit as u64;
            credit -= whole as f64;
            for _ in 0..whole {
                builder.push(ms + 1, ms as u64)?;
            }
        }
        // The last opportunity sets the period.
        builder.push(count + 1, ms_total)?;
        builder.finish()
    }

    /// Milliseconds in which the user can be served: no outage, no pause.
    fn scheduled_ms(&self, count: usize, seed: u64) -> Vec<bool> {
        let mut is_on = vec![true; count];
        let mut random = Stream::new(seed, Stage::TraceSchedule);
        let mut at = random.exponential() * self.turn_ms;
        while at < count as f64 {
            let end = at + random.exponential() * self.pause_ms;
            clear(&mut is_on, at, end);
            at = end + random.exponential() * self.turn_ms;
        }
        let mut random = Stream::new(seed, Stage::TraceOutage);
        let spread =
            libm::log((self.outage_s_p95 - OUTAGE_S_MIN) / (self.outage_s_p50 - OUTAGE_S_MIN)) / NORMAL_P95;
        let gap_ms_mean = 60_000.0 / self.outages_per_min;
        let mut at = random.exponential() * gap_ms_mean;
        while at < count as f64 {
            let above = (self.outage_s_p50 - OUTAGE_S_MIN) * libm::exp(spread * random.normal());
            let end = at + (OUTAGE_S_MIN + above) * 1e3;
            clear(&mut is_on, at, end);
            at = end + random.exponential() * gap_ms_mean;
        }
        is_on
    }

    /// The radio rate in Mbit/s of each step, scaled so that the whole trace has its mean rate.
    fn rates(&self, is_on: &[bool], seed: u64) -> Vec<f64> {
        let mut random = Stream::new(seed, Stage::TraceRate);
        let mut slow = Autoregressive::new(self.slow_deviation, self.slow_s, &mut random);
        let mut fast = Autoregressive::new(self.fast_deviation, self.fast_s, &mut random);
        let steps = is_on.chunks(RATE_STEP_MS);
        let mut rates: Vec<f64> =
            steps.clone().map(|_| libm::exp(slow.next(&mut random) + fast.next(&mut random))).collect();
        // The peak cuts some of the mean away, so scale and cut a few times.
        let wanted = self.mean_mbps * is_on.len() as f64;
        for _ in 0..4 {
            let served: f64 = steps
                .clone()
                .zip(&rates)
                .map(|(step, rate)| step.iter().filter(|on| **on).count() as f64 * rate)
                .sum();
            if served > 0.0 {
                rates.iter_mut().for_each(|rate| *rate = (*rate * wanted / served).min(self.peak_mbps));
            }
        }
        rates
    }
}

fn clear(is_on: &mut [bool], from_ms: f64, to_ms: f64) {
    let (from, to) = ((from_ms as usize).min(is_on.len()), (to_ms as usize).min(is_on.len()));
    is_on[from..to].fill(false);
}

/// A normal process with exponentially falling autocorrelation.
struct Autoregressive {
    value: f64,
    keep: f64,
    noise: f64,
}

impl Autoregressive {
    fn new(deviation: f64, time_s: f64, random: &mut Stream) -> Self {
        let keep = libm::exp(-(RATE_STEP_MS as f64) / (time_s * 1e3));
        let noise = deviation * libm::sqrt(1.0 - keep * keep);
        Self { value: deviation * random.normal(), keep, noise }
    }

    fn next(&mut self, random: &mut Stream) -> f64 {
        let value = self.value;
        self.value = self.keep * value + self.noise * random.normal();
        value
    }
}
