//! `highspeed`: HighSpeed TCP takes larger steps up and smaller ones down the larger the window is.
//!
//! ```text
//!   p(w) = 0.078 ÷ w^1.2                                            RFC 3649 §5
//!   b(w) = 0.5 − 0.4·(log w − log 38) ÷ (log 83000 − log 38)        from 0.5 at 38 segments to 0.1 at 83,000
//!   a(w) = w²·p(w)·2·b(w) ÷ (2 − b(w))      = 0.156·w^0.8·b ÷ (2 − b)
//!   growth: a(w) segments per window        loss: ssthresh = (1 − b(w))·cwnd
//! ```
//!
//! Up to 38 segments it is NewReno: a = 1, b = 0.5. Computed in integers to one per cent of the
//! formulas; RFC 3649 Appendix B lists rounded values.

use units::Bytes;

use crate::fixed_point::{exp2, log2};
use crate::window::{Rule, Window, WindowControl};
use crate::{Ack, Loss, MSS_DEFAULT};

/// W: up to here it is NewReno, in segments (RFC 3649 §5).
const LOW_WINDOW: u64 = 38;
/// W_1, the window the constants are chosen for, in segments (RFC 3649 §5: High_Window).
const HIGH_WINDOW: u64 = 83_000;

/// Parameters of [`HighSpeed`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct HighSpeedParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// B: the decrease at 83,000 segments, in thousandths, up to 500. Default 100 (RFC 3649 §5).
    pub high_decrease_permille: u64,
}

impl Default for HighSpeedParams {
    fn default() -> Self {
        Self { mss: MSS_DEFAULT, initial_window_segments: 10, high_decrease_permille: 100 }
    }
}

/// HighSpeed TCP's congestion window.
pub type HighSpeed = WindowControl<HighSpeedRule>;

impl HighSpeed {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: HighSpeedParams) -> Self {
        let rule = HighSpeedRule { high_decrease_permille: params.high_decrease_permille.min(500) };
        Self::with(rule, params.mss, params.initial_window_segments)
    }
}

/// HighSpeed TCP's rule.
#[derive(Clone, Debug, stored::Stored)]
pub struct HighSpeedRule {
    high_decrease_permille: u64,
}

impl HighSpeedRule {
    /// b(w) in millionths.
    fn decrease_ppm(&self, segments: u64) -> u64 {
        let at = log2(segments.clamp(LOW_WINDOW, HIGH_WINDOW)) - log2(LOW_WINDOW);
        let whole = log2(HIGH_WINDOW) - log2(LOW_WINDOW);
        500_000 - (500 - self.high_decrease_permille) * 1_000 * at / whole
    }

    /// a(w) in thousandths of a segment.
    fn increase_permille(&self, segments: u64) -> u64 {
        if segments <= LOW_WINDOW {
            return 1_000;
        }
        let segments = segments.min(HIGH_WINDOW);
        let b = u128::from(self.decrease_ppm(segments));
        // w^0.8 in 65,536ths.
        let power = u128::from(exp2(log2(segments) * 4 / 5));
        let a = 156 * power * b / (2_000_000 - b) / 65_536;
        u64::try_from(a).unwrap_or(u64::MAX).max(1_000)
    }
}

impl Rule for HighSpeedRule {
    const NAME: &'static str = "highspeed";

    fn avoid_congestion(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        let increase = self.increase_permille(window.cwnd / window.mss);
        window.grow(window.share(1_000, increase), acked);
    }

    fn threshold(&mut self, window: &Window, _loss: &Loss) -> u64 {
        let decrease = self.decrease_ppm(window.cwnd / window.mss);
        window.share(1_000_000 - decrease, 1_000_000)
    }
}

#[cfg(test)]
#[path = "highspeed/tests.rs"]
mod tests;
