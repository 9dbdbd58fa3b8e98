//! Grain of the link's deliveries: the time scale on which its service looks smooth.
//!
//! ```text
//!   fine, a 5G carrier:   ||||||||||||||||||||||||||||||||     G ≈ 0.5 ms
//!   coarse, LTE shared:   ||   |||| |        ||||      | ||    G ≈ 10–40 ms
//! ```
//!
//! G = Σg² ÷ Σg over the gaps g between acknowledgements: the mean length of the gap in which a
//! random moment lies. What is measured over less than about two of these is chance, over much more
//! is the past. So it scales all times of the controller for which nature has no milliseconds: the
//! bins, the patience, the least headroom.

use units::{Duration, Instant};

/// Time of gaps after which half of what is known is forgotten.
const MEMORY: Duration = Duration::from_secs(1);

/// Time of gaps below which nothing is known.
const KNOWN: Duration = Duration::from_millis(100);

/// Longest gap that counts in full: longer ones are outages, or a lack of data.
const GAP_MAX: Duration = Duration::from_millis(30);

/// Gaps between acknowledgements of late.
#[derive(Clone, Debug, stored::Stored)]
pub(super) struct Grain {
    last: Instant,
    /// Σg, in microseconds.
    time: u64,
    /// Σg², in square microseconds.
    squares: u64,
}

impl Grain {
    pub(super) fn new() -> Self {
        Self { last: Instant::ZERO, time: 0, squares: 0 }
    }

    /// Takes in an acknowledgement. Only while the window is in use a gap is the link's.
    pub(super) fn count(&mut self, is_limited: bool, now: Instant) {
        let gap = now.saturating_since(self.last).min(GAP_MAX).as_nanos() / 1_000;
        self.last = now;
        if !is_limited {
            return;
        }
        self.time += gap;
        self.squares += gap * gap;
        if self.time >= MEMORY.as_nanos() / 1_000 {
            self.time /= 2;
            self.squares /= 2;
        }
    }

    /// G, once enough is known.
    pub(super) fn get(&self) -> Option<Duration> {
        (self.time >= KNOWN.as_nanos() / 1_000).then(|| Duration::from_micros(self.squares / self.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grain(gaps_us: impl Iterator<Item = u64>, is_limited: bool) -> Option<u64> {
        let mut grain = Grain::new();
        let mut now = Instant::from_millis(1_000);
        grain.last = now;
        for gap in gaps_us {
            now += Duration::from_micros(gap);
            grain.count(is_limited, now);
        }
        grain.get().map(|g| g.as_nanos() / 1_000)
    }

    #[test]
    fn even_gaps_are_the_grain() {
        assert_eq!(grain([500].into_iter().cycle().take(10_000), true), Some(500));
        assert_eq!(grain([9_000].into_iter().cycle().take(500), true), Some(9_000));
    }

    #[test]
    fn long_gaps_count_by_the_time_they_take() {
        // Nine of ten gaps are of 1 ms, but half of the time passes in those of 9 ms.
        let gaps = [1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 9_000];
        assert_eq!(grain(gaps.into_iter().cycle().take(5_000), true), Some(5_000));
    }

    #[test]
    fn an_outage_says_little() {
        // A millisecond each, and twice a second nothing for 200 ms.
        let gaps = (0..3_000u64).map(|n| if n % 400 == 0 { 200_000 } else { 1_000 });
        assert!(grain(gaps, true).is_some_and(|g| g < 4_000));
    }

    #[test]
    fn nothing_is_known_at_first_or_without_a_full_window() {
        assert_eq!(grain([1_000].into_iter().cycle().take(50), true), None);
        assert_eq!(grain([1_000].into_iter().cycle().take(5_000), false), None);
    }
}
