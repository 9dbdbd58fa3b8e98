//! `new-reno`: the window-based baseline.
//!
//! ```text
//!   slow start            cwnd += bytes acknowledged                 RFC 5681 §3.1
//!   congestion avoidance  cwnd += MSS · acked ÷ cwnd                 RFC 5681 §3.1 eq. (3)
//!   loss                  ssthresh = max(cwnd ÷ 2, 2·MSS)            eq. (4)
//!   mark                  cwnd = ssthresh = 0.8·cwnd                 RFC 8511 §3
//!   time-out              ssthresh as above, cwnd = 1 MSS
//! ```
//!
//! DEVIATION: eq. (4) halves what is in flight, this halves cwnd, as Linux does; they differ only
//! for a sender short of data, whose window does not grow here. Shown by
//! `tests::a_loss_halves_the_window_once`.

use units::Bytes;

use crate::window::{Rule, Window, WindowControl};
use crate::{Ack, Loss, MSS_DEFAULT};

/// Parameters of [`NewReno`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct NewRenoParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// Window at which slow start ends first. None by default: at the first loss (RFC 5681 §3.1).
    /// \[MP\]'s servers begin with 64 KB.
    pub initial_ssthresh: Option<Bytes>,
}

impl Default for NewRenoParams {
    fn default() -> Self {
        Self { mss: MSS_DEFAULT, initial_window_segments: 10, initial_ssthresh: None }
    }
}

/// β_ecn: what a mark leaves of the window (RFC 8511 §3).
const MARK_LEAVES_PERCENT: u64 = 80;

/// NewReno's congestion window.
pub type NewReno = WindowControl<NewRenoRule>;

/// One segment more per round trip, half the window per loss.
#[derive(Clone, Debug, stored::Stored)]
pub struct NewRenoRule;

impl NewReno {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: NewRenoParams) -> Self {
        let mut control = Self::with(NewRenoRule, params.mss, params.initial_window_segments);
        control.window.ssthresh = params.initial_ssthresh.map_or(u64::MAX, Bytes::get);
        control
    }
}

impl Rule for NewRenoRule {
    const NAME: &'static str = "new-reno";

    fn avoid_congestion(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        window.reno(acked);
    }

    fn threshold(&mut self, window: &Window, _loss: &Loss) -> u64 {
        window.cwnd / 2
    }

    fn threshold_of_mark(&mut self, window: &Window, _ack: &Ack) -> u64 {
        window.share(MARK_LEAVES_PERCENT, 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::WindowPath;
    use crate::{Controller, LossKind, Mark};

    fn reno() -> WindowPath<NewReno> {
        let params = NewRenoParams { mss: Bytes::new(1_000), ..NewRenoParams::default() };
        WindowPath::new(NewReno::new(params), 1_000)
    }

    #[test]
    fn a_first_threshold_ends_slow_start() {
        let initial_ssthresh = Some(Bytes::new(30_000));
        let params = NewRenoParams { mss: Bytes::new(1_000), initial_ssthresh, ..NewRenoParams::default() };
        let mut path = WindowPath::new(NewReno::new(params), 1_000);
        for expected in [20_000, 30_000, 31_000] {
            path.round(50);
            assert_eq!(path.controller.control().window, Bytes::new(expected));
        }
    }

    #[test]
    fn slow_start_doubles_per_round() {
        let mut path = reno();
        path.round(50);
        assert_eq!(path.controller.control().window, Bytes::new(20_000));
        path.round(50);
        assert_eq!(path.controller.control().window, Bytes::new(40_000));
    }

    #[test]
    fn a_loss_halves_the_window_once() {
        let mut path = reno();
        path.lose(1_000, LossKind::Fast, true);
        path.lose(1_000, LossKind::Fast, false);
        path.recover(50);
        assert_eq!(path.controller.control().window, Bytes::new(5_000));
    }

    #[test]
    fn a_mark_leaves_four_fifths_and_a_scalable_one_by_its_share() {
        for (mark, left) in [
            (Mark::Classic, 8_000),
            (Mark::Scalable { share_ppm: 1_000_000 }, 5_000),
            (Mark::Scalable { share_ppm: 100_000 }, 9_500),
        ] {
            let mut path = reno();
            path.mark(1_000, 50, mark);
            assert_eq!(path.controller.control().window, Bytes::new(left), "{mark:?}");
            // It ends slow start.
            path.round(50);
            assert!(path.controller.control().window <= Bytes::new(left + 1_000), "{mark:?}");
        }
    }

    #[test]
    fn avoidance_adds_one_segment_per_window() {
        let mut path = reno();
        path.lose(1_000, LossKind::Fast, true);
        path.recover(50);
        for expected in [6_000, 7_000, 8_000] {
            path.round(50);
            assert_eq!(path.controller.control().window, Bytes::new(expected));
        }
    }

    #[test]
    fn a_time_out_restarts_from_one_segment() {
        let mut path = reno();
        path.lose(10_000, LossKind::Timeout, true);
        assert_eq!(path.controller.control().window, Bytes::new(1_000));
        for expected in [2_000, 4_000, 5_000, 6_000] {
            path.round(50);
            assert_eq!(path.controller.control().window, Bytes::new(expected));
        }
    }
}
