//! `westwood` and `westwood-plus`: the window after a loss is what the path was seen to carry.
//!
//! A radio link loses packets without being congested, and halving the window for each leaves it
//! idle. Westwood measures the rate of the returning acknowledgements and, at a loss, keeps exactly
//! what fills the path at that rate.
//!
//! ```text
//!   loss or time-out:  ssthresh = B̂·RTT_min          cwnd = ssthresh, after a time-out 1 segment
//!   growth:            as NewReno
//!
//!   westwood (2001):   b_k = d_k ÷ (t_k − t_{k−1}) per acknowledgement
//!                      B̂_k = (2τ − Δ)÷(2τ + Δ)·B̂_{k−1} + Δ÷(2τ + Δ)·(b_k + b_{k−1})
//!                      Δ = t_k − t_{k−1}, τ = 0.5 s
//!   westwood-plus:     b_k = D_k ÷ Δ_k once per round trip, at least 50 ms
//!                      B̂_k = 0.9·B̂_{k−1} + 0.1·b_k
//! ```
//!
//! The 2001 filter takes acknowledgements that were compressed on their way for bandwidth and
//! estimates too much; Westwood+ was made for that.
//!
//! Sources: S. Mascolo et al., "TCP Westwood: Bandwidth estimation for enhanced transport over
//! wireless links", MobiCom 2001; L. Grieco, S. Mascolo, "Performance evaluation and comparison of
//! Westwood+, New Reno and Vegas TCP congestion control", ACM CCR 34(2), 2004. The 50 ms are
//! Linux's.

use units::{Bytes, Duration, Instant, Rate};

use crate::window::{Rule, Window, WindowControl};
use crate::{Ack, Loss, MSS_DEFAULT};

/// Parameters of [`Westwood`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct WestwoodParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// τ: time constant of the filter. Default 500 ms (MobiCom 2001 §2.2).
    pub tau: Duration,
}

impl Default for WestwoodParams {
    fn default() -> Self {
        Self { mss: MSS_DEFAULT, initial_window_segments: 10, tau: Duration::from_millis(500) }
    }
}

/// Parameters of [`WestwoodPlus`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct WestwoodPlusParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// Weight of the old estimate, in thousandths. Default 900 (CCR 34(2) §2).
    pub filter_permille: u64,
    /// Shortest time of a sample. Default 50 ms (Linux `TCP_WESTWOOD_RTT_MIN`).
    pub sample_time_min: Duration,
}

impl Default for WestwoodPlusParams {
    fn default() -> Self {
        Self {
            mss: MSS_DEFAULT,
            initial_window_segments: 10,
            filter_permille: 900,
            sample_time_min: Duration::from_millis(50),
        }
    }
}

/// TCP Westwood of 2001.
pub type Westwood = WindowControl<WestwoodRule<PerAck>>;
/// TCP Westwood+.
pub type WestwoodPlus = WindowControl<WestwoodRule<PerRoundTrip>>;

impl Westwood {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: WestwoodParams) -> Self {
        let estimator = PerAck {
            tau: params.tau.max(Duration::from_millis(1)),
            last: None,
            pending: 0,
            rate: 0,
            sample: 0,
        };
        let rule = WestwoodRule { estimator, min_rtt: None };
        Self::with(rule, params.mss, params.initial_window_segments)
    }
}

impl WestwoodPlus {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: WestwoodPlusParams) -> Self {
        let estimator = PerRoundTrip { params, began: None, bytes: 0, rtt: Duration::ZERO, rate: None };
        let rule = WestwoodRule { estimator, min_rtt: None };
        Self::with(rule, params.mss, params.initial_window_segments)
    }
}

/// Estimator of the bandwidth.
pub trait Estimator {
    /// Name of the algorithm with this estimator.
    const NAME: &'static str;
    /// Takes in an acknowledgement.
    fn on_ack(&mut self, ack: &Ack);
    /// B̂, once there is one.
    fn rate(&self) -> Option<Rate>;
}

/// The filter of 2001: a sample per acknowledgement, weighted by the time between them.
#[derive(Clone, Debug, stored::Stored)]
pub struct PerAck {
    tau: Duration,
    last: Option<Instant>,
    /// Bytes acknowledged at the same instant as the sample before.
    pending: u64,
    /// B̂ and the last sample, in bit/s.
    rate: u64,
    sample: u64,
}

impl PerAck {
    fn filter(&mut self, sample: u64, time: Duration) {
        let (tau2, time) = (2 * u128::from(self.tau.as_nanos()), u128::from(time.as_nanos()));
        let kept = u128::from(self.rate) * tau2.saturating_sub(time);
        let added = (u128::from(sample) + u128::from(self.sample)) * time;
        self.rate = u64::try_from((kept + added) / (tau2 + time)).unwrap_or(u64::MAX);
        self.sample = sample;
    }
}

impl Estimator for PerAck {
    const NAME: &'static str = "westwood";

    fn on_ack(&mut self, ack: &Ack) {
        let Some(last) = self.last else {
            self.last = Some(ack.now);
            return;
        };
        self.pending += ack.delivered.get();
        let time = ack.now.saturating_since(last);
        if time.is_zero() {
            return;
        }
        self.last = Some(ack.now);
        let bytes = Bytes::new(std::mem::take(&mut self.pending));
        // MobiCom 2001 §2.2: silence longer than τ reads as samples of zero.
        let idle = time.saturating_sub(self.tau);
        if !idle.is_zero() {
            self.filter(0, idle.min(self.tau * 2));
        }
        let time = time.min(self.tau);
        self.filter(Rate::from_transfer(bytes, time).as_bps(), time);
    }

    fn rate(&self) -> Option<Rate> {
        (self.rate > 0).then_some(Rate::from_bps(self.rate))
    }
}

/// The filter of Westwood+: a sample per round trip.
#[derive(Clone, Debug, stored::Stored)]
pub struct PerRoundTrip {
    params: WestwoodPlusParams,
    began: Option<Instant>,
    bytes: u64,
    rtt: Duration,
    rate: Option<Rate>,
}

impl Estimator for PerRoundTrip {
    const NAME: &'static str = "westwood-plus";

    fn on_ack(&mut self, ack: &Ack) {
        self.rtt = ack.rtt.unwrap_or(self.rtt);
        let Some(began) = self.began else {
            self.began = Some(ack.now);
            return;
        };
        self.bytes += ack.delivered.get();
        let time = ack.now.saturating_since(began);
        if time < self.rtt.max(self.params.sample_time_min) {
            return;
        }
        let sample = Rate::from_transfer(Bytes::new(self.bytes), time);
        let kept = self.params.filter_permille.min(1_000);
        self.rate = Some(match self.rate {
            // The first sample is all there is.
            None => sample,
            Some(rate) => {
                let old = rate.mul_ratio(kept, 1_000).as_bps();
                Rate::from_bps(old.saturating_add(sample.mul_ratio(1_000 - kept, 1_000).as_bps()))
            }
        });
        (self.began, self.bytes) = (Some(ack.now), 0);
    }

    fn rate(&self) -> Option<Rate> {
        self.rate
    }
}

/// NewReno's growth, and B̂·RTT_min after a loss.
#[derive(Clone, Debug, stored::Stored)]
pub struct WestwoodRule<E> {
    estimator: E,
    min_rtt: Option<Duration>,
}

impl<E: Estimator> Rule for WestwoodRule<E> {
    const NAME: &'static str = E::NAME;

    fn on_sample(&mut self, ack: &Ack, _window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
        self.estimator.on_ack(ack);
    }

    fn avoid_congestion(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        window.reno(acked);
    }

    fn threshold(&mut self, window: &Window, _loss: &Loss) -> u64 {
        match (self.estimator.rate(), self.min_rtt) {
            // A loss never raises the window.
            (Some(rate), Some(rtt)) => rate.bytes_in(rtt).get().min(window.cwnd),
            _ => window.cwnd / 2,
        }
    }
}

#[cfg(test)]
#[path = "westwood/tests.rs"]
mod tests;
