//! Losses: of the radio, which no window avoids, or of a buffer that is smaller than the window.
//!
//! ```text
//!   three round trips in a row lose an eighth over b ──▶ lower the ceiling ──▶ nearer to a buffer's?
//!          ▲                                                    ▲         yes: it stays, and rises slowly
//!          │                                                    └── by a quarter, ◀── no: twice
//!          └────────── b ← their share: they are the radio's ◀── the third time: it goes ◀── no
//! ```
//!
//! (Three times, because a link whose capacity falls meanwhile looks like a lossy radio once.)
//!
//! Both kinds look alike until the window is changed: a full buffer loses less of a smaller one,
//! the radio the same share of whatever is sent. Round trips say nothing, since a small buffer adds
//! little to them and radio repairs a lot.

use units::{Bytes, Duration, Instant};

/// Round trips with heavy losses that make a buffer smaller than the window: a burst on the radio
/// lies in one, or in the seam of two.
const HEAVY_ROUNDS: u8 = 3;

/// Losses so much above the radio's own are heavy, in thousandths of the data.
const HEAVY_PERMILLE: u64 = 125;

/// Round trips on which a lower ceiling is judged, after the one that still has the losses of before.
const TRIAL_ROUNDS: u32 = 3;

/// Lower and lower ceilings that are tried before the losses are taken for the radio's.
const TRIALS: u8 = 3;

/// Each of them is lower by this than the one before, in thousandths.
const TRIAL_STEP_PERMILLE: u64 = 250;

/// Round trips after which the radio's share is asked for again: the path may be another one.
const BASE_ROUNDS: u32 = 64;

/// Round trips with losses, more or less in a row, that make them the radio's own.
const STEADY_ROUNDS: u8 = 16;

/// More of them are not remembered.
const STEADY_MAX: u8 = 32;

/// For each round trip without a loss so many with one are forgotten: a small buffer overflows now and then.
const STEADY_FADE: u8 = 4;

/// Bytes delivered and lost.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    delivered: u32,
    lost: u32,
}

impl Account {
    fn add(&mut self, other: Self) {
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.lost = self.lost.saturating_add(other.lost);
    }

    fn lost_permille(self) -> u64 {
        let (lost, delivered) = (u64::from(self.lost), u64::from(self.delivered));
        (lost * 1_000).checked_div(lost + delivered).unwrap_or(0)
    }
}

/// One per subscriber is kept: four bytes do.
fn narrow(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

/// A ceiling that has yet to show that it helps.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// More than this share lost is the radio's: halfway between what was lost without it and what
    /// a buffer would lose.
    most: u64,
    rounds: u32,
    since: Account,
}

/// What is lost, round trip by round trip, and what follows for the window.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    /// The least by which the ceiling rises, four times.
    mss: Bytes,
    /// A ceiling has to show that it helps.
    has_trials: bool,
    /// What a buffer that is smaller than the window takes.
    ceiling: Option<Bytes>,
    round: Account,
    round_ends: Instant,
    heavy: Account,
    heavy_rounds: u8,
    trial: Option<Trial>,
    /// Trials in a row that did not help.
    failed: u8,
    /// b: what is lost whatever the window, in thousandths.
    base: u64,
    /// For so many more round trips that is believed.
    base_rounds: u32,
    /// Round trips with a loss less, fourfold, those without.
    steady: u8,
}

impl Losses {
    pub(super) fn new(mss: Bytes, has_trials: bool) -> Self {
        Self {
            mss,
            has_trials,
            ceiling: None,
            round: Account::default(),
            round_ends: Instant::ZERO,
            heavy: Account::default(),
            heavy_rounds: 0,
            trial: None,
            failed: 0,
            base: 0,
            base_rounds: 0,
            steady: 0,
        }
    }

    /// What the buffer takes, when it is smaller than the window.
    pub(super) fn ceiling(&self) -> Option<Bytes> {
        self.ceiling
    }

    /// Takes in a loss.
    pub(super) fn on_lost(&mut self, bytes: Bytes) {
        self.round.lost = self.round.lost.saturating_add(narrow(bytes));
    }

    /// Takes in a delivery under a window, `round_trip` after it was sent.
    pub(super) fn on_delivered(&mut self, bytes: Bytes, window: Bytes, round_trip: Duration, now: Instant) {
        self.round.delivered = self.round.delivered.saturating_add(narrow(bytes));
        if now >= self.round_ends {
            let round = core::mem::take(&mut self.round);
            self.round_ends = now + round_trip;
            self.judge(round, window);
        }
    }

    /// Something is lost in nearly every round trip: at random, by the radio.
    pub(super) fn is_steady(&self) -> bool {
        self.steady >= STEADY_ROUNDS
    }

    fn judge(&mut self, round: Account, window: Bytes) {
        self.steady = match round.lost {
            0 => self.steady.saturating_sub(STEADY_FADE),
            _ => (self.steady + 1).min(STEADY_MAX),
        };
        if self.trial.is_some() {
            return self.try_on(round);
        }
        self.base_rounds = self.base_rounds.saturating_sub(1);
        if self.base_rounds == 0 {
            self.base = 0;
        }
        let is_heavy = round.lost_permille() > HEAVY_PERMILLE + self.base;
        if !is_heavy {
            self.heavy_rounds = 0;
            self.heavy = Account::default();
            return self.raise(window);
        }
        self.heavy_rounds += 1;
        self.heavy.add(round);
        if self.heavy_rounds >= HEAVY_ROUNDS || self.ceiling.is_some() {
            // What arrived in a round trip is what the path and its buffer hold.
            let held = Bytes::from(round.delivered).max(Bytes::new(window.get() / 2));
            let ceiling = self.ceiling.unwrap_or(window).min(held);
            self.ceiling = Some(ceiling);
            let of_a_buffer = narrow(ceiling).saturating_sub(round.delivered);
            let expected = Account { delivered: round.delivered, lost: of_a_buffer }.lost_permille();
            let most = u64::midpoint(self.heavy.lost_permille(), expected);
            self.trial = self.has_trials.then_some(Trial { most, rounds: 0, since: Account::default() });
            self.heavy_rounds = 0;
            self.heavy = Account::default();
        }
    }

    fn try_on(&mut self, round: Account) {
        let Some(trial) = &mut self.trial else { return };
        if trial.rounds > 0 {
            trial.since.add(round);
        }
        trial.rounds += 1;
        if trial.rounds <= TRIAL_ROUNDS {
            return;
        }
        let (most, since) = (trial.most, trial.since.lost_permille());
        self.trial = None;
        if since <= most {
            self.failed = 0;
            return;
        }
        self.failed += 1;
        match self.ceiling {
            Some(ceiling) if self.failed < TRIALS => {
                let lower = ceiling.mul_ratio(1_000 - TRIAL_STEP_PERMILLE, 1_000);
                self.ceiling = Some(lower);
                // A buffer would lose so much less.
                let most = since.saturating_sub(TRIAL_STEP_PERMILLE / 2);
                self.trial = Some(Trial { most, rounds: 0, since: Account::default() });
            }
            _ => {
                self.failed = 0;
                self.ceiling = None;
                self.base = since;
                self.base_rounds = BASE_ROUNDS;
            }
        }
    }

    fn raise(&mut self, window: Bytes) {
        let Some(ceiling) = self.ceiling else { return };
        let raised = Bytes::new(ceiling.get() + ceiling.get() / 32 + self.mss.get() / 4);
        self.ceiling = (raised.get() / 2 < window.get()).then_some(raised);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 200_000;

    /// Round trips of 50 ms in which `share` of the window, in thousandths, is lost; the mean
    /// window of the last half.
    fn mean_window(rounds: u64, mut share: impl FnMut(u64, u64) -> u64) -> u64 {
        let mut losses = Losses::new(Bytes::new(1_448), true);
        let mut sum = 0;
        for round in 0..rounds {
            let window = losses.ceiling().map_or(WINDOW, |ceiling| ceiling.get().min(WINDOW));
            let lost = window * share(round, window) / 1_000;
            losses.on_lost(Bytes::new(lost));
            let now = Instant::from_millis(50 * (round + 1));
            losses.on_delivered(
                Bytes::new(window - lost),
                Bytes::new(window),
                Duration::from_millis(50),
                now,
            );
            sum += if round >= rounds / 2 { window } else { 0 };
        }
        sum / (rounds - rounds / 2)
    }

    #[test]
    fn a_small_buffer_bounds_the_window() {
        // What exceeds 120,000 bytes is lost.
        let mean = mean_window(400, |_, window| window.saturating_sub(120_000) * 1_000 / window);
        assert!((110_000..140_000).contains(&mean), "{mean} bytes");
    }

    #[test]
    fn losses_that_no_window_avoids_do_not_bound_it() {
        for share in [100, 150, 250, 400] {
            // Ten of a round's hundred segments give or take some.
            let mean =
                mean_window(400, |round, _| share + [0, 60, 20, 90, 40, 70, 10, 80][round as usize % 8] - 46);
            assert!(mean > WINDOW * 90 / 100, "{share} of 1,000 lost: {mean} bytes");
        }
    }

    /// Round trips of 100 segments with one of them lost where `is_lost` says so.
    fn is_steady(is_lost: impl Fn(u64) -> bool) -> bool {
        let mut losses = Losses::new(Bytes::new(1_448), true);
        for round in 0..200 {
            losses.on_lost(Bytes::new(if is_lost(round) { 1_448 } else { 0 }));
            let now = Instant::from_millis(50 * (round + 1));
            losses.on_delivered(Bytes::new(144_800), Bytes::new(WINDOW), Duration::from_millis(50), now);
        }
        losses.is_steady()
    }

    #[test]
    fn losses_in_nearly_every_round_trip_are_the_radios() {
        assert!(is_steady(|_| true));
        assert!(is_steady(|round| round % 10 != 0));
        assert!(!is_steady(|round| round % 3 != 0));
        assert!(!is_steady(|round| round % 20 < 10));
        assert!(!is_steady(|_| false));
    }

    #[test]
    fn a_burst_bounds_nothing() {
        let mean = mean_window(400, |round, _| if round % 20 < 2 { 500 } else { 0 });
        assert_eq!(mean, WINDOW);
    }

    #[test]
    fn a_small_buffer_on_a_lossy_radio_is_found_too() {
        // A fifth of all and then what exceeds 100,000 bytes.
        let mean = mean_window(400, |_, window| {
            let left = window * 8 / 10;
            200 + left.saturating_sub(80_000) * 1_000 / window
        });
        assert!(mean < 170_000, "{mean} bytes");
    }
}
