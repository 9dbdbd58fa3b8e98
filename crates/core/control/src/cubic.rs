//! `cubic`: CUBIC with HyStart, as Linux has it.
//!
//! On a long path a segment per round trip fills the link in minutes. CUBIC grows by time instead:
//! fast away from the window of the last loss, slowly near it, then fast again.
//!
//! ```text
//!   W(t)  = C·(t − K)³ + W_max            K = ∛((W_max − cwnd) ÷ C)         RFC 9438 §4.2 eq. (1), (2)
//!   W_est += α·acked ÷ cwnd               α = 3·(1 − β) ÷ (1 + β)           §4.3, Reno-friendly region
//!   cwnd  → max(W(t + RTT), W_est)        within a round trip, at most 1.5·cwnd     §4.4, §4.5
//!   loss:  W_max = cwnd, or cwnd·(1 + β) ÷ 2 when cwnd < W_max (fast convergence)   §4.7
//!          ssthresh = β·cwnd                                                        §4.6
//!   mark:  the same with β_ecn = 0.85 for β                                         RFC 8511 §3
//! ```
//!
//! W, cwnd in segments, t, K in seconds; all of it in integers here. Slow start is left early when HyStart
//! (`hystart.rs`) sees the queue begin.
//!
//! DEVIATION: α stays 3·(1 − β) ÷ (1 + β) after W_est has passed the window of the last loss (§4.3
//! would set it to 1), RTT in W(t + RTT) is the smallest seen, and a time-out forgets W_max: all
//! three as Linux does. The figures of `docs/endpoint-models.md` compare it with Linux.

use units::{Bytes, Duration, Instant};

use crate::fixed_point::cube_root;
use crate::hystart::HyStart;
use crate::window::{Rule, Window, WindowControl};
use crate::{Ack, Loss, LossKind, MSS_DEFAULT, Sent};

/// Parameters of [`Cubic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct CubicParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// β: what a loss leaves of the window, in thousandths, 1 to 999. Default 700 (RFC 9438 §4.6);
    /// the 0.2 that \[MA\] cites as CUBIC's reduction is 800 here.
    pub beta_permille: u64,
    /// C: growth in thousandths of a segment per second³. Default 400 (RFC 9438 §5.1).
    pub c_permille: u64,
    /// Fast convergence (RFC 9438 §4.7). Default on.
    pub fast_convergence: bool,
    /// Leave slow start by HyStart (RFC 9438 §4.10, Linux `hystart`). Default on.
    pub hystart: bool,
}

impl Default for CubicParams {
    fn default() -> Self {
        Self {
            mss: MSS_DEFAULT,
            initial_window_segments: 10,
            beta_permille: 700,
            c_permille: 400,
            fast_convergence: true,
            hystart: true,
        }
    }
}

/// CUBIC's congestion window.
pub type Cubic = WindowControl<CubicRule>;

impl Cubic {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: CubicParams) -> Self {
        let rule = CubicRule {
            params: CubicParams { beta_permille: params.beta_permille.clamp(1, 999), ..params },
            w_max: 0,
            min_rtt: None,
            epoch: None,
            last_sent: Instant::ZERO,
            hystart: HyStart::default(),
        };
        Self::with(rule, params.mss, params.initial_window_segments)
    }

    /// A window of `window` bytes, in congestion avoidance.
    #[must_use]
    pub(crate) fn at(params: CubicParams, window: Bytes) -> Self {
        let mut new = Self::new(params);
        (new.window.cwnd, new.window.ssthresh) = (window.get(), window.get());
        new
    }

    /// A window of `window` bytes, in slow start.
    #[must_use]
    pub(crate) fn starting_at(params: CubicParams, window: Bytes) -> Self {
        let mut new = Self::new(params);
        new.window.cwnd = window.get();
        new
    }

    /// Goes on in congestion avoidance.
    pub(crate) fn end_slow_start(&mut self) {
        self.window.ssthresh = self.window.ssthresh.min(self.window.cwnd);
    }
}

/// β_ecn: what a mark leaves of the window, in thousandths (RFC 8511 §3). Linux has β for it.
const MARK_LEAVES_PERMILLE: u64 = 850;

/// Acknowledged segments for one of growth before the first loss has told W_max: 5 % per round trip (Linux
/// `bictcp_update`: `cnt = 20` while `last_max_cwnd` is 0).
const FIRST_EPOCH_SEGMENTS: u64 = 20;

/// Segments acknowledged per one of growth where nothing is to gain (Linux `bictcp_update`: `100 * cwnd`).
const PLATEAU_WINDOWS: u64 = 100;

/// Growth since a loss.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Epoch {
    began: Instant,
    /// K in milliseconds.
    k_ms: u64,
    /// Window at which the curve is flat, in bytes.
    origin: u64,
    /// W_est in bytes, and what was acknowledged towards its next segment.
    w_est: u64,
    est_credit: u64,
}

/// CUBIC's rule.
#[derive(Clone, Debug, stored::Stored)]
pub struct CubicRule {
    params: CubicParams,
    /// Window before the last loss, in bytes; zero when there was none.
    w_max: u64,
    /// Smallest round trip of the connection.
    min_rtt: Option<Duration>,
    epoch: Option<Epoch>,
    last_sent: Instant,
    hystart: HyStart,
}

impl CubicRule {
    /// Begins an epoch below `window`; what is left of it with `beta`.
    fn reduce(&mut self, window: &Window, beta: u64) -> u64 {
        self.epoch = None;
        self.w_max = if self.params.fast_convergence && window.cwnd < self.w_max {
            window.share(1_000 + beta, 2_000)
        } else {
            window.cwnd
        };
        window.share(beta, 1_000)
    }

    /// K: how long after a loss the curve is back at W_max.
    fn k_ms(&self, window: &Window) -> u64 {
        let missing = u128::from(self.w_max.saturating_sub(window.cwnd));
        let c = u128::from(window.mss) * u128::from(self.params.c_permille.max(1));
        cube_root(missing * 1_000 * 1_000_000_000 / c)
    }

    fn begin_epoch(&self, window: &Window, now: Instant) -> Epoch {
        let k_ms = self.k_ms(window);
        let origin = self.w_max.max(window.cwnd);
        Epoch { began: now, k_ms, origin, w_est: window.cwnd, est_credit: 0 }
    }

    /// W(t) in bytes.
    fn target(&self, epoch: &Epoch, mss: u64, now: Instant) -> u64 {
        let t_ms = (now.saturating_since(epoch.began) + self.min_rtt.unwrap_or(Duration::ZERO)).as_millis();
        // Beyond 1000 s from the flat part the curve is out of any window's reach.
        let distance = u128::from(t_ms.abs_diff(epoch.k_ms).min(1_000_000));
        let per_segment = u128::from(self.params.c_permille) * distance.pow(3);
        let offset = per_segment * u128::from(mss) / (1_000 * 1_000_000_000);
        let offset = u64::try_from(offset).unwrap_or(u64::MAX);
        if t_ms < epoch.k_ms {
            epoch.origin.saturating_sub(offset)
        } else {
            epoch.origin.saturating_add(offset)
        }
    }

    /// Bytes acknowledged per segment of growth along the curve.
    fn price(&self, target: u64, window: &Window) -> u64 {
        let price = if target > window.cwnd {
            window.share(window.mss, target - window.cwnd)
        } else {
            window.cwnd.saturating_mul(PLATEAU_WINDOWS)
        };
        if self.w_max == 0 { price.min(FIRST_EPOCH_SEGMENTS * window.mss) } else { price }
    }

    /// Advances W_est; the price at which the window follows it when it is ahead.
    fn friendly_price(&self, epoch: &mut Epoch, acked: u64, window: &Window) -> Option<u64> {
        let beta = self.params.beta_permille;
        // One segment per cwnd ÷ α acknowledged.
        let per = window.share(1_000 + beta, 3 * (1_000 - beta)).max(1);
        epoch.est_credit += acked;
        epoch.w_est += epoch.est_credit / per * window.mss;
        epoch.est_credit %= per;
        let ahead = epoch.w_est.checked_sub(window.cwnd).filter(|ahead| *ahead > 0)?;
        Some(window.share(window.mss, ahead))
    }
}

impl Rule for CubicRule {
    const NAME: &'static str = "cubic";

    fn on_sample(&mut self, ack: &Ack, window: &mut Window) {
        let Some(rtt) = ack.rtt else { return };
        // Linux: round trips of the first second of an epoch still hold the queue of the loss.
        if self.epoch.is_some_and(|e| ack.now.saturating_since(e.began) < Duration::from_secs(1)) {
            return;
        }
        let min = self.min_rtt.map_or(rtt, |min| min.min(rtt));
        self.min_rtt = Some(min);
        if self.params.hystart && window.is_slow_start() && self.hystart.sees_queue(ack, rtt, min, window) {
            window.ssthresh = window.cwnd;
        }
    }

    fn avoid_congestion(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        let mut epoch = self.epoch.take().unwrap_or_else(|| self.begin_epoch(window, ack.now));
        let price = self.price(self.target(&epoch, window.mss, ack.now), window);
        let friendly = self.friendly_price(&mut epoch, acked, window);
        let price = friendly.map_or(price, |friendly| price.min(friendly));
        // RFC 9438 §4.4: at most half a window per round trip.
        window.grow(price.max(2 * window.mss), acked);
        self.epoch = Some(epoch);
    }

    fn threshold(&mut self, window: &Window, loss: &Loss) -> u64 {
        let threshold = self.reduce(window, self.params.beta_permille);
        if loss.kind == LossKind::Timeout {
            self.w_max = 0;
            self.min_rtt = None;
            self.hystart = HyStart::default();
        }
        threshold
    }

    fn threshold_of_mark(&mut self, window: &Window, _ack: &Ack) -> u64 {
        self.reduce(window, MARK_LEAVES_PERMILLE.max(self.params.beta_permille))
    }

    fn on_send(&mut self, sent: &Sent) {
        if sent.in_flight == Bytes::ZERO
            && sent.is_app_limited
            && let Some(epoch) = self.epoch.as_mut()
        {
            // RFC 9438 §5.8: time without data is no time of growth.
            epoch.began = (epoch.began + sent.now.saturating_since(self.last_sent)).min(sent.now);
        }
        self.last_sent = sent.now;
    }
}

#[cfg(test)]
#[path = "cubic/tests.rs"]
mod tests;
