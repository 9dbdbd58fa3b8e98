//! HyStart: slow start ends when the queue begins, not when it overflows.
//!
//! Two signs, each enough, once the window has 16 segments:
//!
//! ```text
//!   train   the acknowledgements of a round have come without a gap for half of
//!           (the smallest round trip and 1 ms)
//!   delay   after eight samples of a round, its smallest round trip exceeds the smallest ever by an eighth of
//!           it, at least 4 ms and at most 16 ms
//! ```
//!
//! Source: S. Ha, I. Rhee, "Taming the elephants: New TCP slow start", Computer Networks 55(9),
//! with the constants of Linux. A half of the train condition assumes a sender that does not pace.

use units::{Bytes, Duration, Instant};

use crate::Ack;
use crate::window::Window;

/// No sign counts in a smaller window (Linux `hystart_low_window`).
const WINDOW_MIN_SEGMENTS: u64 = 16;
/// Acknowledgements further apart are of different trains (Linux `hystart_ack_delta_us`).
const GAP_MAX: Duration = Duration::from_millis(2);
/// Time that the sender's own bursts may add to a train (Linux `hystart_ack_delay`).
const BURST_TIME: Duration = Duration::from_millis(1);
/// Samples before a round's smallest round trip is compared (Linux `HYSTART_MIN_SAMPLES`).
const SAMPLES_MIN: u32 = 8;
/// Bounds of the rise in delay that counts (Linux `HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const RISE_MIN: Duration = Duration::from_millis(4);
/// See [`RISE_MIN`].
const RISE_MAX: Duration = Duration::from_millis(16);

/// The round under way.
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
pub(crate) struct HyStart {
    round: Option<Round>,
}

#[derive(Clone, Copy, Debug, stored::Stored)]
struct Round {
    began: Instant,
    /// It ends when more than this is delivered.
    ends_at: Bytes,
    /// Time of the last acknowledgement in the train that began with the round.
    last_in_train: Instant,
    min_rtt: Duration,
    samples: u32,
}

impl HyStart {
    /// Takes in a round trip during slow start; true when it ought to end.
    pub(crate) fn sees_queue(
        &mut self,
        ack: &Ack,
        rtt: Duration,
        smallest: Duration,
        window: &Window,
    ) -> bool {
        let begin = || Round {
            began: ack.now,
            ends_at: ack.delivered_total + ack.in_flight,
            last_in_train: ack.now,
            min_rtt: Duration::MAX,
            samples: 0,
        };
        let mut round = self.round.filter(|r| ack.delivered_total <= r.ends_at).unwrap_or_else(begin);
        let is_large = window.cwnd >= WINDOW_MIN_SEGMENTS * window.mss;
        let is_queueing =
            is_large && (round.has_long_train(ack.now, smallest) | round.has_risen(rtt, smallest));
        self.round = Some(round);
        is_queueing
    }
}

impl Round {
    fn has_long_train(&mut self, now: Instant, smallest: Duration) -> bool {
        if now.saturating_since(self.last_in_train) > GAP_MAX {
            return false;
        }
        self.last_in_train = now;
        now.saturating_since(self.began) > (smallest + BURST_TIME) / 2
    }

    fn has_risen(&mut self, rtt: Duration, smallest: Duration) -> bool {
        self.min_rtt = self.min_rtt.min(rtt);
        if self.samples < SAMPLES_MIN {
            self.samples += 1;
            return false;
        }
        self.min_rtt > smallest + (smallest / 8).clamp(RISE_MIN, RISE_MAX)
    }
}
