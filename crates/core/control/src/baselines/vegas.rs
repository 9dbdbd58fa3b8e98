//! `vegas`: keep two to four segments in the queue, and look once per round trip.
//!
//! ```text
//!   diff = cwnd·(RTT − BaseRTT) ÷ RTT        segments in the queue
//!   avoidance, once a round:  diff < α: cwnd + 1     diff > β: cwnd − 1     else: as it is
//!   slow start:  doubles every other round; when diff > γ it ends, with cwnd = what fits without a queue
//!   loss:        ssthresh = 3⁄4·cwnd                 time-out: cwnd ÷ 2
//! ```
//!
//! RTT is the smallest of the round, so that delayed acknowledgements do not count as queue. A
//! round with fewer than three samples says too little: the window then grows as NewReno's (Linux),
//! or one of two segments would stay so for good. Source: L. Brakmo, L. Peterson, "TCP Vegas: End
//! to end congestion avoidance on a global Internet", IEEE JSAC 13(8), 1995.

use units::{Bytes, Duration};

use super::veno::queued;
use crate::round::{Round, Rounds};
use crate::window::{Rule, Window, WindowControl};
use crate::{Ack, Loss, LossKind, MSS_DEFAULT};

/// Samples without which a round is not judged (Linux `tcp_vegas_cong_avoid`: `cntRTT <= 2`).
const SAMPLES_MIN: u32 = 3;

/// Parameters of [`Vegas`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct VegasParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// α: fewer queued segments let the window grow. Default 2 (JSAC 13(8) §III-C, Linux).
    pub alpha_segments: u64,
    /// β: more queued segments let it shrink. Default 4 (JSAC 13(8) §III-C, Linux).
    pub beta_segments: u64,
    /// γ: more queued segments end slow start. Default 1 (Linux `gamma`).
    pub gamma_segments: u64,
    /// Share of the window that a loss leaves, in thousandths. Default 750 (§III-B); Linux has 500.
    pub loss_permille: u64,
}

impl Default for VegasParams {
    fn default() -> Self {
        Self {
            mss: MSS_DEFAULT,
            initial_window_segments: 10,
            alpha_segments: 2,
            beta_segments: 4,
            gamma_segments: 1,
            loss_permille: 750,
        }
    }
}

/// Vegas' congestion window.
pub type Vegas = WindowControl<VegasRule>;

impl Vegas {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: VegasParams) -> Self {
        let rule = VegasRule {
            params,
            base_rtt: None,
            rounds: Rounds::default(),
            is_growing_round: true,
            step: Step::Hold,
        };
        Self::with(rule, params.mss, params.initial_window_segments)
    }
}

/// Step that the last round has decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Step {
    Up,
    Hold,
    Down,
    /// Growth as NewReno's, by the acknowledgement that ended the round.
    Reno,
}

/// Vegas' rule.
#[derive(Clone, Debug, stored::Stored)]
pub struct VegasRule {
    params: VegasParams,
    base_rtt: Option<Duration>,
    rounds: Rounds,
    /// In slow start the window grows in every other round only.
    is_growing_round: bool,
    /// Taken with the next acknowledgement that may change the window.
    step: Step,
}

impl VegasRule {
    fn judge(&mut self, round: Round, window: &mut Window) {
        let (Some(base), Some(rtt)) = (self.base_rtt, round.min_rtt) else { return };
        if round.samples < SAMPLES_MIN {
            self.is_growing_round = true;
            self.step = Step::Reno;
            return;
        }
        let queue = queued(window, base, rtt);
        if window.is_slow_start() {
            self.is_growing_round = !self.is_growing_round;
            if queue > self.params.gamma_segments * window.mss {
                window.cwnd = window.cwnd.min(window.cwnd - queue + window.mss).max(2 * window.mss);
                window.ssthresh = window.cwnd;
            }
        } else if queue < self.params.alpha_segments * window.mss {
            self.step = Step::Up;
        } else if queue > self.params.beta_segments * window.mss {
            self.step = Step::Down;
        }
    }
}

impl Rule for VegasRule {
    const NAME: &'static str = "vegas";

    fn on_sample(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
        }
        if let Some(round) = self.rounds.on_ack(ack)
            && !ack.is_recovering
        {
            self.judge(round, window);
        }
    }

    fn slow_start(&mut self, acked: u64, window: &mut Window) -> u64 {
        if self.is_growing_round { window.slow_start(acked) } else { 0 }
    }

    fn avoid_congestion(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        match std::mem::replace(&mut self.step, Step::Hold) {
            Step::Up => window.cwnd += window.mss,
            Step::Hold => {}
            Step::Reno => window.reno(acked),
            Step::Down => {
                window.cwnd = window.cwnd.saturating_sub(window.mss).max(2 * window.mss);
                // Or it would be slow start again.
                window.ssthresh = window.ssthresh.min(window.cwnd);
            }
        }
    }

    fn threshold(&mut self, window: &Window, loss: &Loss) -> u64 {
        self.step = Step::Hold;
        match loss.kind {
            LossKind::Fast => window.share(self.params.loss_permille.min(1_000), 1_000),
            LossKind::Timeout => window.cwnd / 2,
        }
    }
}

#[cfg(test)]
#[path = "vegas/tests.rs"]
mod tests;
