//! [`Saturation`]: the rate that never lets a link's queue run empty.
//!
//! Twice the most that came in 50 ms of the last ten seconds. While the link is not full, what comes is
//! what is sent, and the rate doubles with each report; when it is, half of what is sent is dropped by
//! its full queue. A link that suddenly carries twice as much as in the last ten seconds stays full.

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant, Rate};

use crate::message::StatusReport;
use crate::receiver::SEARCH_REPORTS;

/// The first rate, and the least.
const FLOOR: Rate = Rate::from_mbps(1);
/// Time for which the most is remembered: a link that was interrupted comes back as it was.
const MEMORY: Duration = Duration::from_secs(10);
/// Factor by which more is sent than came.
const FACTOR: u64 = 2;

/// The sender's side of a recording.
#[derive(Clone, Debug)]
pub struct Saturation {
    rate_max: Rate,
    packet: Bytes,
    /// Rates that came, falling, and when each was told: the first is the most.
    came: VecDeque<(Instant, Rate)>,
}

impl Saturation {
    /// Saturation with packets of this length, never above `rate_max`.
    #[must_use]
    pub fn new(rate_max: Rate, packet: Bytes) -> Self {
        Self { rate_max, packet, came: VecDeque::new() }
    }

    /// The present rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        let most = self.came.front().map_or(Rate::ZERO, |(_, rate)| *rate);
        Rate::from_bps(most.as_bps().saturating_mul(FACTOR)).max(FLOOR).min(self.rate_max)
    }

    /// The rate after a report.
    pub fn on_status(&mut self, report: &StatusReport, now: Instant) -> Rate {
        let bytes = Bytes::new(self.packet.get().saturating_mul(report.recent.into()));
        let rate = Rate::from_transfer(bytes, SEARCH_REPORTS);
        while self.came.back().is_some_and(|(_, less)| *less <= rate) {
            self.came.pop_back();
        }
        self.came.push_back((now, rate));
        while self.came.front().is_some_and(|(told, _)| now.saturating_since(*told) > MEMORY) {
            self.came.pop_front();
        }
        self.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_twice_the_most_of_ten_seconds() {
        // A packet in 50 ms is 200 kbit/s.
        let mut saturation = Saturation::new(Rate::from_mbps(50), Bytes::new(1_250));
        let mut on = |ms: u64, recent: u32| {
            let report = StatusReport { recent, ..StatusReport::default() };
            saturation.on_status(&report, Instant::from_millis(ms)).as_bps() / 1_000_000
        };
        assert_eq!(on(50, 0), 1, "nothing came yet");
        assert_eq!(on(100, 5), 2);
        assert_eq!(on(150, 50), 20);
        assert_eq!(on(200, 10), 20, "the most counts");
        assert_eq!(on(5_000, 30), 20);
        assert_eq!(on(10_151, 0), 12, "it is forgotten after ten seconds, and the next one counts");
        assert_eq!(on(15_100, 0), 1);
        assert_eq!(on(15_200, 1_000), 50, "never above what is allowed");
    }
}
