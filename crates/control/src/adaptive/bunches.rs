//! How far apart acknowledgements come in bunches.
//!
//! ```text
//!   acknowledgements:  ||||         ||||         ||||         time →
//!                      ◀── spacing ─▶
//! ```
//!
//! A device whose uplink gets its turn every so often (H15) sends its acknowledgements together,
//! and what has arrived just after a turn is acknowledged a whole spacing later. Where that is as
//! long as the path itself, it is a part of the path: the link is to be kept busy over it.

use units::{Duration, Instant};

/// Spacings of which the smallest counts: a single long one is an outage or a lack of data.
const REMEMBERED: usize = 8;

/// Acknowledgements so close together came as one.
const BUNCH: Duration = Duration::from_millis(2);

/// What is further apart is an outage.
const SPACING_MAX: Duration = Duration::from_millis(100);

/// Acknowledgements that make a bunch: single ones far apart are a slow link, or one that merges
/// what it delivers.
const BUNCH_MIN: u32 = 3;

/// Acknowledgements as they come.
#[derive(Clone, Debug)]
pub(super) struct Bunches {
    started: Instant,
    last: Instant,
    /// Acknowledgements in it so far.
    len: u32,
    /// The window was in use when it began.
    is_limited: bool,
    /// When it was in use last.
    limited_at: Option<Instant>,
    spacings: [Duration; REMEMBERED],
    next: u8,
}

impl Bunches {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::ZERO,
            last: Instant::ZERO,
            len: 0,
            is_limited: false,
            limited_at: None,
            spacings: [Duration::ZERO; REMEMBERED],
            next: 0,
        }
    }

    /// Takes in an acknowledgement; true when it or one just before it found the window in use: the
    /// first of a bunch makes room in the window for the rest.
    pub(super) fn count(&mut self, is_limited: bool, now: Instant) -> bool {
        let silence = now.saturating_since(self.last);
        if silence > BUNCH {
            let spacing = now.saturating_since(self.started);
            // Mostly silence, or it is a stream with a pause in it.
            let is_bunch = self.len >= BUNCH_MIN && silence * 2 >= spacing && spacing <= SPACING_MAX;
            let counts = is_bunch && self.is_limited && is_limited;
            self.spacings[usize::from(self.next) % REMEMBERED] =
                if counts { spacing } else { Duration::ZERO };
            self.next = self.next.wrapping_add(1);
            (self.started, self.len, self.is_limited) = (now, 0, is_limited);
        }
        if is_limited {
            self.limited_at = Some(now);
        }
        self.last = now;
        self.len = self.len.saturating_add(1);
        self.limited_at.is_some_and(|at| now.saturating_since(at) <= BUNCH)
    }

    /// What the spacing adds to a path of `floor`: nothing up to half of it, all from as long as the path on.
    pub(super) fn delay(&self, floor: Duration) -> Duration {
        let spacing = self.spacings.iter().copied().min().unwrap_or(Duration::ZERO);
        (spacing * 2).max(floor).saturating_sub(floor).min(spacing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bunches of `n` acknowledgements every `every`; what they add to a path of 40 ms.
    fn delay(n: u64, every: u64, is_limited: bool) -> u64 {
        let mut bunches = Bunches::new();
        for bunch in 1..20 {
            for nth in 0..n {
                let now = Instant::from_millis(bunch * every) + Duration::from_micros(100 * nth);
                bunches.count(is_limited && nth == 0, now);
            }
        }
        bunches.delay(Duration::from_millis(40)).as_millis()
    }

    #[test]
    fn h15_bunches_as_far_apart_as_the_path_is_long_are_a_part_of_it() {
        assert_eq!([10, 20, 25, 30, 40, 60].map(|every| delay(5, every, true)), [0, 0, 10, 20, 40, 60]);
    }

    #[test]
    fn a_slow_link_and_a_lack_of_data_are_no_bunches() {
        assert_eq!(delay(1, 60, true), 0);
        assert_eq!(delay(5, 60, false), 0);
    }

    #[test]
    fn a_stream_that_pauses_is_no_bunch() {
        let mut bunches = Bunches::new();
        for ms in (0..2_000).filter(|ms| ms % 80 < 60) {
            bunches.count(true, Instant::from_millis(ms));
        }
        assert_eq!(bunches.delay(Duration::from_millis(40)), Duration::ZERO);
    }

    #[test]
    fn the_rest_of_a_bunch_is_limited_as_its_first() {
        let mut bunches = Bunches::new();
        let at = |us| Instant::from_millis(10) + Duration::from_micros(us);
        assert!(!bunches.count(false, at(0)));
        assert!(bunches.count(true, at(100)));
        assert!(bunches.count(false, at(200)));
        assert!(!bunches.count(false, at(2_300)));
    }
}
