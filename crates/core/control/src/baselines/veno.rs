//! `veno`: a loss means congestion only when there is a queue.
//!
//! Vegas' estimate of the queue tells Reno what kind of loss it sees. With fewer than β segments
//! queued a loss is taken for the radio's and costs a fifth of the window; with more, the window is
//! halved as ever, and grows at half the speed before that.
//!
//! ```text
//!   N = cwnd·(RTT − BaseRTT) ÷ RTT          segments in the queue
//!   avoidance:  N < β: a segment per window        N ≥ β: a segment per two windows
//!   loss:       N < β: ssthresh = 4⁄5·cwnd         N ≥ β: ssthresh = cwnd ÷ 2
//! ```
//!
//! RTT is the smallest of the last round, so that delayed acknowledgements do not count as queue.
//! Source: C. P. Fu, S. C. Liew, "TCP Veno: TCP enhancement for transmission over wireless access
//! networks", IEEE JSAC 21(2), 2003.

use units::{Bytes, Duration};

use crate::round::Rounds;
use crate::window::{Rule, Window, WindowControl};
use crate::{Ack, Loss, LossKind, MSS_DEFAULT};

/// Parameters of [`Veno`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct VenoParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// β: segments in the queue from which on a loss is congestion's. Default 3 (JSAC 21(2) §II).
    pub beta_segments: u64,
    /// Share of the window that a loss without a queue leaves, in thousandths. Default 800 (§II-B).
    pub random_loss_permille: u64,
}

impl Default for VenoParams {
    fn default() -> Self {
        Self { mss: MSS_DEFAULT, initial_window_segments: 10, beta_segments: 3, random_loss_permille: 800 }
    }
}

/// Veno's congestion window.
pub type Veno = WindowControl<VenoRule>;

impl Veno {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: VenoParams) -> Self {
        let rule = VenoRule { params, base_rtt: None, rounds: Rounds::default(), rtt: None };
        Self::with(rule, params.mss, params.initial_window_segments)
    }
}

/// Veno's rule.
#[derive(Clone, Debug, stored::Stored)]
pub struct VenoRule {
    params: VenoParams,
    base_rtt: Option<Duration>,
    rounds: Rounds,
    /// Smallest round trip of the last round.
    rtt: Option<Duration>,
}

impl VenoRule {
    /// N ≥ β.
    fn has_queue(&self, window: &Window) -> bool {
        let (Some(base), Some(rtt)) = (self.base_rtt, self.rtt) else { return false };
        queued(window, base, rtt) >= self.params.beta_segments * window.mss
    }
}

/// Bytes of `window` that wait in queues when its round trip is `rtt` instead of `base`.
pub(crate) fn queued(window: &Window, base: Duration, rtt: Duration) -> u64 {
    window.share(rtt.saturating_sub(base).as_nanos(), rtt.as_nanos())
}

impl Rule for VenoRule {
    const NAME: &'static str = "veno";

    fn on_sample(&mut self, ack: &Ack, _window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
        }
        if let Some(round) = self.rounds.on_ack(ack) {
            self.rtt = round.min_rtt.or(self.rtt);
        }
    }

    fn avoid_congestion(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        let windows = if self.has_queue(window) { 2 } else { 1 };
        window.grow(windows * window.cwnd, acked);
    }

    fn threshold(&mut self, window: &Window, loss: &Loss) -> u64 {
        let threshold = if loss.kind == LossKind::Fast && !self.has_queue(window) {
            window.share(self.params.random_loss_permille.min(1_000), 1_000)
        } else {
            window.cwnd / 2
        };
        self.rtt = None;
        threshold
    }
}

#[cfg(test)]
#[path = "veno/tests.rs"]
mod tests;
