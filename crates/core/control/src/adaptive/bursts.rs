//! Bytes that are acknowledged at once after a silence.
//!
//! ```text
//!   acknowledged │            ┌──      ┐
//!                │        ┌───┘ ╱      │ surplus: what came at once less what
//!                │    ┌───┘ ╱          │ the forecast rate brings in that time
//!                │ ───┘ ╱              ┘
//!                └──────────────────▶ time
//! ```
//!
//! Radio repairs hold back what is behind them and then let it go at once (RLC acknowledged mode).
//! While they do, nothing is acknowledged and nothing sent, and the link runs dry, although no
//! round trip ever comes near the floor. What is let go so again and again was on the path for
//! longer: it is to be in flight on top (BBR has the largest surplus for the same).

use units::{Bytes, Duration, Instant, Rate};

/// Stretches of time of which the smallest surplus counts: single ones are the link's own changes.
const REMEMBERED: usize = 8;

/// Place from below of the surplus that counts where the radio loses data all the time, as a queue
/// too long does not: such a link is one with many repairs.
const LOSSY_RANK: usize = 6;

/// A stretch in which one surplus is looked for; a round trip where that is more.
const STRETCH: Duration = Duration::from_millis(100);

/// Surpluses of late.
#[derive(Clone, Debug, stored::Stored)]
pub(super) struct Bursts {
    /// Time since which the forecast rate is held against what was acknowledged.
    since: Instant,
    acknowledged: Bytes,
    ends: Instant,
    largest: u32,
    /// Surpluses in bytes: there is one of these per subscriber.
    past: [u32; REMEMBERED],
    next: u32,
}

impl Bursts {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::ZERO,
            acknowledged: Bytes::ZERO,
            ends: Instant::ZERO,
            largest: 0,
            past: [0; REMEMBERED],
            next: 0,
        }
    }

    /// Takes in an acknowledgement while `forecast` was expected; without a full window nothing is learnt.
    pub(super) fn count(
        &mut self,
        bytes: Bytes,
        is_limited: bool,
        forecast: Rate,
        floor: Duration,
        now: Instant,
    ) {
        self.acknowledged += bytes;
        let expected = forecast.bytes_in(now.saturating_since(self.since));
        if self.acknowledged <= expected {
            (self.since, self.acknowledged) = (now, Bytes::ZERO);
        } else if is_limited {
            let surplus = self.acknowledged.get() - expected.get();
            self.largest = self.largest.max(u32::try_from(surplus).unwrap_or(u32::MAX));
        }
        if now >= self.ends {
            self.past[self.next as usize % REMEMBERED] = self.largest;
            self.next = self.next.wrapping_add(1);
            (self.largest, self.ends) = (0, now + STRETCH.max(floor));
            (self.since, self.acknowledged) = (now, Bytes::ZERO);
        }
    }

    /// Bytes that come at once in every stretch of time; in most of them where `is_lossy`.
    pub(super) fn surplus(&self, is_lossy: bool) -> Bytes {
        let mut past = self.past;
        past.sort_unstable();
        Bytes::from(past[if is_lossy { LOSSY_RANK } else { 0 }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORECAST: Rate = Rate::from_mbps(8);

    /// Acknowledgements of 1000 bytes at the given milliseconds, under a forecast of 1000 bytes a
    /// millisecond.
    fn surplus(times: impl Iterator<Item = u64>, is_limited: bool) -> u64 {
        count(times, is_limited).surplus(false).get()
    }

    fn count(times: impl Iterator<Item = u64>, is_limited: bool) -> Bursts {
        let mut bursts = Bursts::new();
        for at in times {
            let now = Instant::from_millis(at);
            bursts.count(Bytes::new(1_000), is_limited, FORECAST, Duration::from_millis(20), now);
        }
        bursts
    }

    #[test]
    fn a_smooth_link_has_no_surplus() {
        // A segment each millisecond is just what is expected, and the first begins the account.
        assert!(surplus(1..2_000, true) <= 1_000);
    }

    #[test]
    fn what_is_let_go_at_once_again_and_again_is_the_surplus() {
        // Thirty segments every 30 ms: the first of them ends the account of before.
        let held = |n: u64| n / 30 * 30;
        let surplus = surplus((30..2_000).map(held), true);
        assert!((28_000..=31_000).contains(&surplus), "{surplus} bytes");
    }

    #[test]
    fn bursts_now_and_then_are_none() {
        let times = (1..3_000).map(|at| if at % 600 < 40 { at / 600 * 600 + 40 } else { at });
        assert!(surplus(times, true) <= 1_000);
    }

    #[test]
    fn where_data_is_lost_bursts_in_most_stretches_count() {
        // A hold of 30 ms in every stretch of 100 ms but each fourth.
        let held = |at: u64| {
            if at % 400 < 300 && at % 100 >= 50 && at % 100 < 80 { at / 100 * 100 + 80 } else { at }
        };
        let bursts = count((1..4_000).map(held), true);
        assert!(bursts.surplus(false).get() <= 2_000);
        assert!((25_000..=32_000).contains(&bursts.surplus(true).get()), "{:?}", bursts.surplus(true));
    }

    #[test]
    fn without_a_full_window_nothing_is_learnt() {
        assert_eq!(surplus((30..2_000).map(|n| n / 30 * 30), false), 0);
    }
}
