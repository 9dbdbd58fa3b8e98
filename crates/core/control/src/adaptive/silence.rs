//! Bytes that may be in flight after a time-out.
//!
//! ```text
//!   time-out:                            W ≤ S,  S = MSS, or 32·MSS where the radio lost data within 10 s before
//!   acknowledgement of x bytes:          S ← S + 2·x, until S ≥ W
//! ```
//!
//! An outage, most likely: the data still waits in the radio's queue, and the window's worth of it once more
//! behind it would double that queue. So ask with little until something is heard, and then with twice what is
//! heard: what waits arrives meanwhile. A radio that loses data may have lost all of it: a burst of losses
//! passes with what is sent, not with time alone.

use units::{Bytes, Duration, Instant};

/// Segments that may be in flight after a time-out: all flows' first segments go anyway.
pub(super) const SILENT_SEGMENTS: u64 = 1;

/// The same where losses have been seen of late.
pub(super) const RETRY_SEGMENTS: u64 = 32;

/// Time for which a loss is recent.
const LOSS_MEMORY: Duration = Duration::from_secs(10);

/// Growth by what is acknowledged.
const GROWTH: u64 = 2;

/// S, and whether the radio loses data.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(super) struct Silence {
    allowed: Option<Bytes>,
    /// Time at which later data had last shown a loss of the radio's.
    lost_at: Option<Instant>,
}

impl Silence {
    /// Later data has shown a loss that no buffer made.
    pub(super) fn on_radio_loss(&mut self, now: Instant) {
        self.lost_at = Some(now);
    }

    /// A time-out; the radio's losses count where `retries`.
    pub(super) fn on_timeout(&mut self, mss: Bytes, retries: bool, now: Instant) {
        let is_lossy = self.lost_at.is_some_and(|at| now.saturating_since(at) < LOSS_MEMORY);
        let segments = if is_lossy && retries { RETRY_SEGMENTS } else { SILENT_SEGMENTS };
        self.allowed = Some(Bytes::new(mss.get().saturating_mul(segments)));
    }

    pub(super) fn on_ack(&mut self, delivered: Bytes) {
        self.allowed =
            self.allowed.map(|allowed| allowed + Bytes::new(delivered.get().saturating_mul(GROWTH)));
    }

    /// `window`, or S while that is less.
    pub(super) fn bound(&mut self, window: Bytes) -> Bytes {
        self.allowed = self.allowed.filter(|allowed| *allowed < window);
        self.allowed.unwrap_or(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes::new(1_000);
    const WINDOW: Bytes = Bytes::new(100_000);

    #[test]
    fn it_ends_when_twice_what_is_heard_exceeds_the_window() {
        let mut silence = Silence::default();
        assert_eq!(silence.bound(WINDOW), WINDOW);
        silence.on_timeout(MSS, true, Instant::from_millis(1));
        assert_eq!(silence.bound(WINDOW), MSS);
        silence.on_ack(Bytes::new(3_000));
        assert_eq!(silence.bound(WINDOW), Bytes::new(7_000));
        silence.on_ack(Bytes::new(47_000));
        assert_eq!(silence.bound(WINDOW), WINDOW);
        // It is over, not only large.
        assert_eq!(silence.bound(Bytes::new(900_000)), Bytes::new(900_000));
    }

    #[test]
    fn a_radio_that_lost_data_of_late_is_asked_with_more() {
        let mut silence = Silence::default();
        let after = |silence: &mut Silence, ms, retries| {
            silence.on_timeout(MSS, retries, Instant::from_millis(ms));
            silence.bound(WINDOW).get() / 1_000
        };
        silence.on_radio_loss(Instant::ZERO);
        assert_eq!(after(&mut silence, 9_999, true), 32);
        assert_eq!(after(&mut silence, 9_999, false), 1);
        assert_eq!(after(&mut silence, 10_000, true), 1);
    }
}
