//! Delay of acknowledgements on their way back, by the clock of their sender (RFC 7323 §3.2, TSval).
//!
//! ```text
//!   dᵢ = (tᵢ − t₀) − tick·(TSvalᵢ − TSval₀)        arrival less departure, but for a constant
//!   waitᵢ = dᵢ − min(d of the last one to two minutes) − tick
//! ```
//!
//! The difference of two such delays needs no common clock (RFC 6817 §2.1), and the least of late stands for an empty
//! way. A TSval is as coarse as its tick, and a round trip that is too short is worse than one that is too long: the
//! tick is taken off. The tick is found by the time that passes: 1 ms of today's kernels, 4 or 10 ms of older ones,
//! 1 µs where Linux is told so.

use stored::Absent;
use units::{Duration, Instant};

/// Time from which on a tick is found,
const CALIBRATED_AFTER: Duration = Duration::from_secs(1);

/// where the time that passed is between these parts of it, in per cent: a way that fills meanwhile seems slow.
const TICK_PERCENT: (u64, u64) = (70, 160);

const TICKS: [Duration; 4] =
    [Duration::from_micros(1), Duration::from_millis(1), Duration::from_millis(4), Duration::from_millis(10)];

/// The least delay is remembered for one to two of these.
const MEMORY: Duration = Duration::from_secs(60);

/// Part, as a divisor, by which clocks run apart at least: the least delay may rise by that.
const SKEW_PARTS: u64 = 16_384;

/// A wait that lasts is the least of one to two of these.
const STEADY: Duration = Duration::from_millis(30);

/// Longest time that a way holds anything; if it is longer, the clock was set.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The way back of one flow: small, since each flow has one. Times are µs, moments ms since the first packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, stored::Stored)]
pub struct ReturnDelay {
    /// Time and TSval of the first timestamp seen. None before.
    first_at: Option<Instant>,
    first: u32,
    /// Place in [`TICKS`]; none while it is unknown.
    tick: Option<u8>,
    /// Least d of this minute and of the one before.
    least: (i32, i32),
    minute_at: u32,
    /// Least wait of this and of the last [`STEADY`].
    lasting: (u32, u32),
    lasting_at: u32,
}

impl Absent for ReturnDelay {
    const ABSENT: &'static Self = &Self {
        first_at: None,
        first: 0,
        tick: None,
        least: (0, 0),
        minute_at: 0,
        lasting: (0, 0),
        lasting_at: 0,
    };
    fn is_absent(&self) -> bool {
        self.first_at.is_none()
    }
}

/// Time that an acknowledgement has waited on its way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReturnWait {
    /// This one. Zero while the clock of its sender is unknown.
    pub this: Duration,
    /// The least of the last ones, of 30 to 60 ms.
    pub lasting: Duration,
}

impl ReturnDelay {
    /// Takes in a packet of the sender of acknowledgements, with its TSval, that came at `now`.
    pub fn on_packet(&mut self, tsval: u32, now: Instant) -> ReturnWait {
        let Some(first_at) = self.first_at else {
            *self = Self { first_at: Some(now), first: tsval, ..Self::default() };
            return ReturnWait::default();
        };
        let ticks = tsval.wrapping_sub(self.first);
        let elapsed = now.saturating_since(first_at);
        // One before the first came late; or half of all numbers have passed, of 1 µs in 36 minutes.
        if ticks >= 1 << 31 {
            if elapsed > MEMORY {
                *self = Self::default();
            }
            return ReturnWait::default();
        }
        let Some(tick) = self.tick.or_else(|| self.calibrate(ticks, elapsed)) else {
            return ReturnWait::default();
        };
        let tick = TICKS[usize::from(tick)];
        let at = u32::try_from(elapsed.as_millis()).unwrap_or(u32::MAX);
        let found = i32::try_from(micros(elapsed) - micros(tick) * i64::from(ticks)).ok().and_then(|delay| {
            self.note_least(delay, at);
            let least = self.least.0.min(self.least.1);
            let wait = u32::try_from(delay.saturating_sub(least)).unwrap_or(0);
            let wait = wait.saturating_sub(tick.as_micros() as u32);
            (Duration::from_micros(wait.into()) <= WAIT_MAX).then_some(wait)
        });
        let Some(wait) = found else {
            *self = Self::default();
            return ReturnWait::default();
        };
        self.note_lasting(wait, at);
        self.of(wait)
    }

    fn of(&self, this: u32) -> ReturnWait {
        let [this, lasting] =
            [this, self.lasting.0.min(self.lasting.1)].map(|us| Duration::from_micros(us.into()));
        ReturnWait { this, lasting }
    }

    /// The tick, once it is known; the least delay is then that of the first packet, 0.
    fn calibrate(&mut self, ticks: u32, elapsed: Duration) -> Option<u8> {
        if elapsed < CALIBRATED_AFTER {
            return None;
        }
        let is_it = |tick: &Duration| {
            let clock = tick.as_nanos().saturating_mul(ticks.into());
            let at = |percent| clock.saturating_mul(percent) / 100;
            (at(TICK_PERCENT.0)..at(TICK_PERCENT.1)).contains(&elapsed.as_nanos())
        };
        self.tick = TICKS.iter().position(is_it).map(|place| place as u8);
        self.tick
    }

    fn note_least(&mut self, delay: i32, at: u32) {
        if u64::from(at.saturating_sub(self.minute_at)) >= MEMORY.as_millis() {
            self.least = (delay, self.least.0.saturating_add((MEMORY / SKEW_PARTS).as_micros() as i32));
            self.minute_at = at;
        }
        self.least.0 = self.least.0.min(delay);
    }

    fn note_lasting(&mut self, wait: u32, at: u32) {
        if u64::from(at.saturating_sub(self.lasting_at)) >= STEADY.as_millis() {
            self.lasting = (wait, self.lasting.0);
            self.lasting_at = at;
        }
        self.lasting.0 = self.lasting.0.min(wait);
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets every 5 ms from 0 to `until` ms; a clock of `tick_us`, fast by `ppm`; the way back takes 20 ms and
    /// `wait`. Each time with what was found.
    fn feed(tick_us: u64, ppm: i64, until: u64, wait: impl Fn(u64) -> u64) -> Vec<(u64, ReturnWait)> {
        let mut way = ReturnDelay::default();
        let seen = (0..until).step_by(5).map(|ms| {
            let clock_us = (ms as i64 * (1_000_000 + ppm) / 1_000) as u64;
            let tsval = (clock_us / tick_us) as u32;
            let arrival = Instant::from_millis(ms + 20 + wait(ms));
            (ms, way.on_packet(tsval.wrapping_add(u32::MAX - 500), arrival))
        });
        seen.collect()
    }

    #[test]
    fn a_wait_on_the_way_back_is_seen_whatever_the_tick() {
        for tick_us in [1u64, 1_000, 4_000, 10_000] {
            let tick_ms = tick_us.div_ceil(1_000);
            for (ms, found) in feed(tick_us, 0, 8_000, |ms| if ms >= 3_000 { 200 } else { 0 }) {
                let (this, lasting) = (found.this.as_millis(), found.lasting.as_millis());
                let expected = if ms >= 3_000 { 200 } else { 0 };
                assert!(this <= expected && this + 2 * tick_ms >= expected, "{tick_us} µs, {ms} ms: {this}");
                // What lasts is known 60 ms later.
                if !(3_000..3_065).contains(&ms) {
                    assert!(lasting <= this && lasting + 2 * tick_ms >= expected, "{ms} ms: {lasting}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_said_before_the_tick_is_known_and_of_a_clock_that_is_none() {
        let early = feed(1_000, 0, 700, |ms| ms / 3);
        assert!(early.iter().all(|(_, found)| *found == ReturnWait::default()));
        // A tick of 100 ms, and one that stands still.
        for tick_us in [100_000, 1 << 40] {
            let none = feed(tick_us, 0, 20_000, |_| 0);
            assert!(none.iter().all(|(_, found)| *found == ReturnWait::default()), "{tick_us}");
        }
    }

    #[test]
    fn a_way_that_fills_meanwhile_is_no_other_tick() {
        let found = feed(1_000, 0, 4_000, |ms| (ms / 2).min(300));
        let (_, last) = found[found.len() - 1];
        assert!((297..=300).contains(&last.this.as_millis()), "{last:?}");
    }

    #[test]
    fn clocks_that_run_apart_are_no_wait() {
        for ppm in [-100, 100] {
            let found = feed(1_000, ppm, 600_000, |_| 0);
            let most = found.iter().map(|(_, found)| found.this.as_millis()).max();
            // 6 ms a minute, for one to two minutes, less what is allowed for it.
            assert!(most <= Some(8), "{ppm} ppm: {most:?}");
        }
    }

    #[test]
    fn a_clock_that_goes_through_all_its_numbers_is_known_again() {
        let mut way = ReturnDelay::default();
        let mut last = ReturnWait::default();
        // 80 minutes; the way back is full while half of all numbers have passed, and before the end.
        for ms in (0..4_800_000u64).step_by(20) {
            let wait = if (2_100_000..2_200_000).contains(&ms) || ms > 4_790_000 { 150 } else { 0 };
            last = way.on_packet((ms * 1_000) as u32, Instant::from_millis(ms + wait));
            if (2_210_000..4_790_000).contains(&ms) {
                assert!(last.lasting <= Duration::from_millis(8), "{ms} ms: {last:?}");
            }
        }
        assert!((145..=150).contains(&last.lasting.as_millis()), "{last:?}");
    }

    #[test]
    fn a_clock_that_is_set_and_a_packet_from_before_are_no_wait() {
        let mut way = ReturnDelay::default();
        for ms in (0..3_000u64).step_by(10) {
            way.on_packet(1_000 + ms as u32, Instant::from_millis(ms));
        }
        assert_eq!(way.on_packet(900, Instant::from_millis(3_000)).this, Duration::ZERO);
        // Twenty seconds back, and on from there.
        for ms in (3_010..6_000u64).step_by(10) {
            let found = way.on_packet(1_000 + ms as u32 - 2_000, Instant::from_millis(ms + 18_000));
            assert!(found.this <= Duration::from_secs(10));
        }
        assert_eq!(way.on_packet(1_000 + 6_000 - 2_000, Instant::from_millis(24_000)).this, Duration::ZERO);
    }
}
