//! `bic`: BIC searches the window of the last loss by halving the distance to it.
//!
//! ```text
//!   below W_max:   the distance to W_max ÷ 4 per round, at most S_max, at least a fifth
//!   at W_max:      as slowly away from it as towards it, then faster up to S_max (max probing)
//!   loss:          W_max = cwnd, or cwnd·(1 + β) ÷ 2 when cwnd < W_max (fast convergence)
//!                  ssthresh = β·cwnd
//! ```
//!
//! All steps in segments per round trip. Up to 14 segments it is NewReno. Constants and the quarter
//! (the paper halves) are those of Linux's `tcp_bic`, which [DR] measured. Source: L. Xu, K.
//! Harfoush, I. Rhee, "Binary increase congestion control (BIC) for fast long-distance networks",
//! INFOCOM 2004.

use units::Bytes;

use crate::window::{Rule, Window, WindowControl};
use crate::{Ack, Loss, LossKind, MSS_DEFAULT};

/// A step closes a quarter of the distance (Linux `BICTCP_B`).
const STEPS: u64 = 4;
/// Rounds per quarter segment near W_max (Linux `smooth_part`).
const SMOOTH_ROUNDS: u64 = 20;
/// Segments acknowledged for one of growth before the first loss (Linux `bictcp_update`).
const FIRST_EPOCH_SEGMENTS: u64 = 20;

/// Parameters of [`Bic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct BicParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// S_max: largest step in segments per round. Default 16 (Linux); the paper has 32.
    pub step_max_segments: u64,
    /// β: what a loss leaves, in thousandths. Default 800 (Linux); the paper has 875.
    pub beta_permille: u64,
    /// Window in segments up to which it is NewReno. Default 14 (INFOCOM 2004).
    pub low_window_segments: u64,
    /// Fast convergence. Default on (INFOCOM 2004, Linux `fast_convergence`).
    pub fast_convergence: bool,
}

impl Default for BicParams {
    fn default() -> Self {
        Self {
            mss: MSS_DEFAULT,
            initial_window_segments: 10,
            step_max_segments: 16,
            beta_permille: 800,
            low_window_segments: 14,
            fast_convergence: true,
        }
    }
}

/// BIC's congestion window.
pub type Bic = WindowControl<BicRule>;

impl Bic {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: BicParams) -> Self {
        let params = BicParams {
            beta_permille: params.beta_permille.clamp(1, 999),
            step_max_segments: params.step_max_segments.max(1),
            ..params
        };
        Self::with(BicRule { params, w_max: 0 }, params.mss, params.initial_window_segments)
    }
}

/// BIC's rule.
#[derive(Clone, Debug, stored::Stored)]
pub struct BicRule {
    params: BicParams,
    /// Window of the last loss, in bytes; zero when there was none.
    w_max: u64,
}

impl BicRule {
    /// Bytes acknowledged per segment of growth.
    fn price(&self, window: &Window) -> u64 {
        let Window { mss, cwnd, .. } = *window;
        if cwnd <= self.params.low_window_segments * mss {
            return cwnd;
        }
        let largest = cwnd / self.params.step_max_segments;
        let smallest = cwnd * SMOOTH_ROUNDS / STEPS;
        let price = if cwnd < self.w_max {
            let step = (self.w_max - cwnd) / STEPS;
            if step <= mss { smallest } else { window.share(mss, step).max(largest) }
        } else {
            let beyond = cwnd - self.w_max;
            if beyond < STEPS * mss {
                smallest
            } else if beyond < self.params.step_max_segments * (STEPS - 1) * mss {
                window.share((STEPS - 1) * mss, beyond)
            } else {
                largest
            }
        };
        if self.w_max == 0 { price.min(FIRST_EPOCH_SEGMENTS * mss) } else { price }
    }
}

impl Rule for BicRule {
    const NAME: &'static str = "bic";

    fn avoid_congestion(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        window.grow(self.price(window), acked);
    }

    fn threshold(&mut self, window: &Window, loss: &Loss) -> u64 {
        let beta = self.params.beta_permille;
        self.w_max = if self.params.fast_convergence && window.cwnd < self.w_max {
            window.share(1_000 + beta, 2_000)
        } else {
            window.cwnd
        };
        if loss.kind == LossKind::Timeout {
            self.w_max = 0;
        }
        if window.cwnd <= self.params.low_window_segments * window.mss {
            window.cwnd / 2
        } else {
            window.share(beta, 1_000)
        }
    }
}

#[cfg(test)]
#[path = "bic/tests.rs"]
mod tests;
