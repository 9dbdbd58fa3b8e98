//! [`Capacity`]: how much the link can carry, and when.

use std::sync::Arc;

use units::{Bytes, Duration, Rate};

use crate::{LinkError, Trace};

const UNITS_PER_BYTE: u128 = 8 * 1_000_000_000;

/// Capacity of a link at each point of time since its start.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Capacity {
    /// Everything at once: packets leave as they come.
    #[default]
    Unlimited,
    /// A rate that never changes. Zero is allowed: nothing ever leaves.
    Constant(Rate),
    /// Rates in turn.
    Steps(RateSteps),
    /// Mahimahi's delivery opportunities.
    Trace(Arc<Trace>),
}

/// A list of rates, each held for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateSteps {
    steps: Vec<Step>,
    repeats: bool,
    /// A packet keeps the rate it began with.
    is_held: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    end: Duration,
    rate: Rate,
}

impl RateSteps {
    /// Rates that follow each other, each for its duration; then again from the start, or (`repeats`
    /// false) the last one for ever. Zero rates are allowed.
    ///
    /// # Errors
    ///
    /// [`LinkError::Setting`] for an empty list or a step without length.
    pub fn new(steps: &[(Duration, Rate)], repeats: bool) -> Result<Self, LinkError> {
        if steps.is_empty() {
            return Err(LinkError::setting("capacity", "a list of rate steps needs at least one step"));
        }
        let mut end = Duration::ZERO;
        let mut list = Vec::with_capacity(steps.len());
        for (index, &(length, rate)) in steps.iter().enumerate() {
            if length.is_zero() {
                let problem = format!("step {} lasts no time; give it a length", index + 1);
                return Err(LinkError::setting("capacity", problem));
            }
            end += length;
            list.push(Step { end, rate });
        }
        Ok(Self { steps: list, repeats, is_held: false })
    }

    /// The same, but a packet is sent to its end at the rate with which it began, as ns-2's links
    /// do: they reckon a packet's time when it begins. One that begins while the rate is low holds
    /// up the link long after.
    #[must_use]
    pub fn holding_rates(self) -> Self {
        Self { is_held: true, ..self }
    }

    /// [`RateSteps::at`] for a packet: the rate and the time until which it is sent at that rate.
    pub(crate) fn for_packet_at(&self, t: Duration) -> (Rate, Duration) {
        let (rate, end) = self.at(t);
        (rate, if self.is_held && !rate.is_zero() { Duration::MAX } else { end })
    }

    fn total(&self) -> Duration {
        self.steps.last().map_or(Duration::ZERO, |step| step.end)
    }

    /// True when no step ever carries anything.
    pub(crate) fn is_dead(&self) -> bool {
        self.steps.iter().all(|step| step.rate.is_zero())
    }

    /// The rate at `t` and the time at which it may change.
    pub(crate) fn at(&self, t: Duration) -> (Rate, Duration) {
        let total = self.total();
        if !self.repeats && t >= total {
            return (self.steps.last().map_or(Rate::ZERO, |step| step.rate), Duration::MAX);
        }
        let cycle_start = Duration::from_nanos(t.as_nanos() / total.as_nanos() * total.as_nanos());
        let within = t - cycle_start;
        let index = self.steps.partition_point(|step| step.end <= within);
        let step = self.steps[index];
        let is_last_for_ever = !self.repeats && index + 1 == self.steps.len();
        (step.rate, if is_last_for_ever { Duration::MAX } else { cycle_start + step.end })
    }

    /// Bit-nanoseconds offered in `[0, t)`.
    fn cumulative(&self, t: Duration) -> u128 {
        let total = self.total();
        let cycles = if self.repeats { t.as_nanos() / total.as_nanos() } else { 0 };
        let within = Duration::from_nanos(t.as_nanos() - cycles * total.as_nanos());
        let mut sum = 0;
        if cycles > 0 {
            sum += u128::from(cycles) * self.within_one_cycle(total);
        }
        sum + self.within_one_cycle(within)
    }

    fn within_one_cycle(&self, t: Duration) -> u128 {
        let mut sum = 0;
        let mut start = Duration::ZERO;
        for (index, step) in self.steps.iter().enumerate() {
            let holds_on = !self.repeats && index + 1 == self.steps.len();
            let end = if holds_on { t } else { step.end.min(t) };
            sum += units_in(step.rate, end - start);
            if end >= t {
                break;
            }
            start = step.end;
        }
        sum
    }
}

/// Bits times 10^9 that `rate` moves in `time`: exact, unlike whole bytes.
pub(crate) fn units_in(rate: Rate, time: Duration) -> u128 {
    u128::from(rate.as_bps()) * u128::from(time.as_nanos())
}

/// Bits times 10^9 in `size`.
pub(crate) fn units_of(size: Bytes) -> u128 {
    u128::from(size.get()) * UNITS_PER_BYTE
}

/// Whole bytes in `units`: bits times 10^9.
pub(crate) fn whole_bytes(units: u128) -> Bytes {
    Bytes::new(u64::try_from(units / UNITS_PER_BYTE).unwrap_or(u64::MAX))
}

impl Capacity {
    /// Exact number of bytes that could leave in `[from, to)` since the start.
    ///
    /// For rates, whole bytes completed by `to` less those completed by `from`: neighbouring
    /// intervals add up. [`Bytes::MAX`] when unlimited.
    #[must_use]
    pub fn offered_bytes(&self, from: Duration, to: Duration) -> Bytes {
        if to <= from {
            return Bytes::ZERO;
        }
        match (self.cumulative(from), self.cumulative(to)) {
            (Some(before), Some(through)) => whole_bytes(through) - whole_bytes(before),
            _ => Bytes::MAX,
        }
    }

    /// Bit-nanoseconds offered in `[0, t)`; none when unlimited.
    pub(crate) fn cumulative(&self, t: Duration) -> Option<u128> {
        match self {
            Self::Unlimited => None,
            Self::Constant(rate) => Some(units_in(*rate, t)),
            Self::Steps(steps) => Some(steps.cumulative(t)),
            Self::Trace(trace) => Some(units_of(trace.offered_bytes(Duration::ZERO, t))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn steps_hold_repeat_and_sum_exactly() -> Result<(), LinkError> {
        let list = [(ms(10_000), Rate::from_kbps(384)), (ms(10_000), Rate::from_bps(38_400))];
        let again = RateSteps::new(&list, true)?;
        assert_eq!(again.at(ms(25_000)), (Rate::from_kbps(384), ms(30_000)));
        assert_eq!(again.at(ms(30_000)), (Rate::from_bps(38_400), ms(40_000)));
        let once = RateSteps::new(&list, false)?;
        assert_eq!(once.at(ms(10_000)), (Rate::from_bps(38_400), Duration::MAX));
        assert_eq!(once.at(ms(99_000)), (Rate::from_bps(38_400), Duration::MAX));

        let cycle = 480_000 + 48_000;
        let again = Capacity::Steps(again);
        assert_eq!(again.offered_bytes(ms(0), ms(40_000)), Bytes::new(2 * cycle));
        assert_eq!(again.offered_bytes(ms(5_000), ms(15_000)), Bytes::new(240_000 + 24_000));
        let once = Capacity::Steps(once);
        assert_eq!(once.offered_bytes(ms(0), ms(30_000)), Bytes::new(cycle + 48_000));
        Ok(())
    }

    #[test]
    fn neighbouring_intervals_add_up() {
        let odd = Capacity::Constant(Rate::from_bps(7_777_777));
        let bins: u64 = (0..1000).map(|i| odd.offered_bytes(ms(i), ms(i + 1)).get()).sum();
        assert_eq!(bins, odd.offered_bytes(ms(0), ms(1000)).get());
        assert_eq!(bins, 7_777_777 / 8);
    }

    #[test]
    fn bad_steps_are_named() {
        assert!(RateSteps::new(&[], true).is_err());
        let error = RateSteps::new(&[(ms(0), Rate::ZERO)], true).unwrap_err();
        assert!(error.to_string().contains("step 1 lasts no time"), "{error}");
    }

    #[test]
    fn a_held_rate_lasts_as_long_as_the_packet() {
        let steps = [(ms(10), Rate::from_kbps(12)), (ms(10), Rate::ZERO), (ms(10), Rate::from_mbps(12))];
        let steps = RateSteps::new(&steps, true).unwrap();
        assert_eq!(steps.for_packet_at(ms(5)), (Rate::from_kbps(12), ms(10)));
        let held = steps.holding_rates();
        assert_eq!(held.for_packet_at(ms(5)), (Rate::from_kbps(12), Duration::MAX));
        assert_eq!(
            held.for_packet_at(ms(15)),
            (Rate::ZERO, ms(20)),
            "nothing begins while nothing is carried"
        );
    }
}
