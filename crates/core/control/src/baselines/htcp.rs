//! `htcp`: H-TCP grows by the time since the last loss and backs off by how full the queue gets.
//!
//! ```text
//!   Δ: seconds since the last loss
//!   α(Δ) = 1 + 10·(Δ − Δ_L) + ((Δ − Δ_L) ÷ 2)²      for Δ > Δ_L = 1 s, else 1
//!   growth: 2·(1 − β)·α segments per window, at least one
//!   loss:   ssthresh = β·cwnd
//!           β = RTT_min ÷ RTT_max within 0.5 … 0.8; 0.5 when the throughput differs by a fifth
//!               the last loss
//! ```
//!
//! Backing off by RTT_min ÷ RTT_max empties the queue and no more. Every flow on a link has the
//! same Δ, so that flows become equal whatever their round trips. Source: D. Leith, R. Shorten,
//! "H-TCP: TCP congestion control for high bandwidth-delay product paths", draft-leith-tcp-htcp-06.

use units::{Bytes, Duration, Instant, Rate};

use crate::window::{Rule, Window, WindowControl};
use crate::{Ack, Loss, LossKind, MSS_DEFAULT};

/// Parameters of [`HTcp`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct HTcpParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// Δ_L: time after a loss for which it grows as NewReno. Default 1 s (§2).
    pub low_speed_time: Duration,
    /// Smallest β, in thousandths. Default 500 (§2).
    pub beta_min_permille: u64,
    /// Largest β, in thousandths. Default 800 (§2).
    pub beta_max_permille: u64,
    /// Change of throughput between losses above which β is its smallest, in thousandths. Default 200 (§2).
    pub throughput_change_permille: u64,
}

impl Default for HTcpParams {
    fn default() -> Self {
        Self {
            mss: MSS_DEFAULT,
            initial_window_segments: 10,
            low_speed_time: Duration::from_secs(1),
            beta_min_permille: 500,
            beta_max_permille: 800,
            throughput_change_permille: 200,
        }
    }
}

/// H-TCP's congestion window.
pub type HTcp = WindowControl<HTcpRule>;

impl HTcp {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: HTcpParams) -> Self {
        let beta_min = params.beta_min_permille.clamp(1, 999);
        let beta_max = params.beta_max_permille.clamp(beta_min, 999);
        let rule = HTcpRule {
            params: HTcpParams { beta_min_permille: beta_min, beta_max_permille: beta_max, ..params },
            beta_permille: beta_min,
            last_loss: Instant::ZERO,
            min_rtt: Duration::MAX,
            max_rtt: Duration::ZERO,
            measured: Measured::default(),
            throughput_before: None,
        };
        Self::with(rule, params.mss, params.initial_window_segments)
    }
}

/// Throughput over the round trips since the last loss.
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
struct Measured {
    began: Option<Instant>,
    bytes: u64,
    largest: Rate,
}

impl Measured {
    fn on_ack(&mut self, ack: &Ack, rtt: Duration) {
        let Some(began) = self.began else {
            self.began = Some(ack.now);
            return;
        };
        self.bytes += ack.delivered.get();
        let time = ack.now.saturating_since(began);
        if !time.is_zero() && time >= rtt {
            self.largest = self.largest.max(Rate::from_transfer(Bytes::new(self.bytes), time));
            (self.began, self.bytes) = (Some(ack.now), 0);
        }
    }
}

/// H-TCP's rule.
#[derive(Clone, Debug, stored::Stored)]
pub struct HTcpRule {
    params: HTcpParams,
    beta_permille: u64,
    last_loss: Instant,
    min_rtt: Duration,
    /// Largest round trip since the last loss.
    max_rtt: Duration,
    measured: Measured,
    /// Largest throughput between the last two losses.
    throughput_before: Option<Rate>,
}

impl HTcpRule {
    /// 2·(1 − β)·α(Δ) in thousandths.
    fn increase_permille(&self, now: Instant) -> u64 {
        let beyond = now.saturating_since(self.last_loss).saturating_sub(self.params.low_speed_time);
        let ms = u128::from(beyond.as_millis().min(1_000_000));
        // 10·ms ÷ 1000 and (ms ÷ 2000)², both times 1000.
        let alpha = 1_000 + 10 * ms + ms * ms / 4_000;
        let increase = 2 * (1_000 - u128::from(self.beta_permille)) * alpha / 1_000;
        u64::try_from(increase).unwrap_or(u64::MAX).max(1_000)
    }

    fn update_beta(&mut self) {
        let throughput = self.measured.largest;
        let has_changed = self.throughput_before.is_none_or(|before| {
            let difference = throughput.as_bps().abs_diff(before.as_bps());
            Rate::from_bps(difference) > before.mul_ratio(self.params.throughput_change_permille, 1_000)
        });
        self.throughput_before = Some(throughput);
        self.beta_permille = if has_changed || self.max_rtt.is_zero() {
            self.params.beta_min_permille
        } else {
            let ratio = u128::from(self.min_rtt.as_nanos()) * 1_000 / u128::from(self.max_rtt.as_nanos());
            (ratio as u64).clamp(self.params.beta_min_permille, self.params.beta_max_permille)
        };
    }
}

impl Rule for HTcpRule {
    const NAME: &'static str = "htcp";

    fn on_sample(&mut self, ack: &Ack, _window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.min_rtt = self.min_rtt.min(rtt);
            // A recovery's round trips hold the queue of the loss before, and its deliveries are repairs.
            if !ack.is_recovering {
                self.max_rtt = self.max_rtt.max(rtt);
                self.measured.on_ack(ack, rtt);
            }
        }
    }

    fn avoid_congestion(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        window.grow(window.share(1_000, self.increase_permille(ack.now)), acked);
    }

    fn threshold(&mut self, window: &Window, loss: &Loss) -> u64 {
        if loss.kind == LossKind::Timeout {
            // §2: after a time-out nothing is known of the path.
            self.throughput_before = None;
            self.beta_permille = self.params.beta_min_permille;
        } else {
            self.update_beta();
        }
        self.last_loss = loss.now;
        self.max_rtt = Duration::ZERO;
        self.measured = Measured::default();
        window.share(self.beta_permille, 1_000)
    }
}

#[cfg(test)]
#[path = "htcp/tests.rs"]
mod tests;
