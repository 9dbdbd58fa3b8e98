//! `rate`: \[MA\]'s rate-based congestion control.
//!
//! Loss says nothing about congestion on a radio link, delay does. So: estimate the bandwidth from
//! returning ACKs; when the round trip is long, send at the estimate; when it is short, move the limit
//! towards the link's capacity. Loss never changes the rate.
//!
//! ```text
//!   R_i   = (ack_{i+k} − ack_i) ÷ (t_{i+k} − t_i)               (3)
//!   R     ← (1 − λ)·R + λ·R_i                                    (4)
//!   RTT > β:  R_max ← R
//!   RTT < α:  R_max ← μ·R_max + (1 − μ)·R_cap                    (5)
//! ```
//!
//! What the paper leaves open, and what is done here:
//! - R_max starts at R_cap: §IV-A says there is no slow ramp-up.
//! - (5) is applied at most once per smallest round trip, not per ACK: twenty ACKs would otherwise take
//!   R_max to R_cap within one round trip.
//! - RTT is the round trip of the newest segment an ACK covers, unsmoothed.
//! - k counts segments' worth of acknowledged bytes, so that stretched or bunched ACKs give the same
//!   estimate; one R_i per k, without overlap.
//! - Before the first R (the first k segments), RTT > β uses the largest recent delivery rate.
//!
//! DEVIATION: \[MA\] has no draining term. While RTT > β it sends at R, which is what leaves the queue, so a
//! queue once built stands. With `in_flight_cap` = c the data in flight is held to max(c, RTT_min + c ÷ 2)·R̂, R̂
//! the largest delivery rate of `rate_window`. Shown by `tests::the_cap_drains_a_standing_queue`; `None` follows the
//! paper. RTT_min is the smallest round trip ever, until one that the cap does not explain has lasted (H17).
//! The defaults of c and `rate_window` come from the sweep `crates/sim/examples/rate_sweep.rs`.

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Control, Controller, Loss, WindowedMax, quantum_for};

/// Parameters of [`RateControl`]; the defaults are \[MA\] Table 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateParams {
    /// k: segments acknowledged per estimate. 250.
    pub k_segments: u32,
    /// λ: weight of a new estimate, in thousandths. 200 (0.2).
    pub lambda_permille: u32,
    /// α: a round trip below it means no congestion. 140 ms.
    pub alpha: Duration,
    /// β: a round trip above it means congestion. 260 ms.
    pub beta: Duration,
    /// μ: weight of the old limit when raising it, in thousandths. 800 (0.8).
    pub mu_permille: u32,
    /// R_cap: capacity of the link. 5.6 Mbit/s (3G); the paper uses 100 Mbit/s for LTE.
    pub r_cap: Rate,
    /// c: data in flight is held to max(c, RTT_min + c ÷ 2)·R̂; `None` follows the paper. 120 ms.
    pub in_flight_cap: Option<Duration>,
    /// Memory of R̂, the largest delivery rate the cap is computed from. 500 ms.
    pub rate_window: Duration,
    /// Data in flight allowed before the first delivery rate is known (only with a cap). 64 KiB.
    pub initial_window: Bytes,
    /// Segment size. 1448 bytes.
    pub mss: Bytes,
}

impl Default for RateParams {
    fn default() -> Self {
        Self {
            k_segments: 250,
            lambda_permille: 200,
            alpha: Duration::from_millis(140),
            beta: Duration::from_millis(260),
            mu_permille: 800,
            r_cap: Rate::from_kbps(5_600),
            in_flight_cap: Some(Duration::from_millis(120)),
            rate_window: Duration::from_millis(500),
            initial_window: Bytes::from_kib(64),
            mss: Bytes::new(1_448),
        }
    }
}

impl RateParams {
    /// The paper's algorithm without additions, for reproduction: no in-flight cap.
    #[must_use]
    pub fn paper() -> Self {
        Self { in_flight_cap: None, ..Self::default() }
    }
}

/// \[MA\]'s rate control.
#[derive(Clone, Debug)]
pub struct RateControl {
    params: RateParams,
    /// R, once k segments have been acknowledged.
    r: Option<Rate>,
    r_max: Rate,
    /// Start of the estimate under way: t_i and the bytes acknowledged by then.
    block: Option<(Instant, Bytes)>,
    last_raise: Option<Instant>,
    delivery_rate: WindowedMax<Rate>,
    smallest_rtt: Duration,
}

/// The limit never falls below this: one segment every 290 ms still probes the link.
const RATE_MIN: Rate = Rate::from_kbps(40);

impl RateControl {
    /// A controller at R_max = R_cap.
    #[must_use]
    pub fn new(params: RateParams) -> Self {
        Self {
            r: None,
            r_max: params.r_cap,
            block: None,
            last_raise: None,
            delivery_rate: WindowedMax::new(params.rate_window),
            smallest_rtt: Duration::MAX,
            params,
        }
    }

    /// R, the smoothed bandwidth estimate of (4).
    #[must_use]
    pub fn bandwidth(&self) -> Option<Rate> {
        self.r
    }

    /// (3) and (4): one R_i per k segments' worth of acknowledged bytes.
    fn estimate(&mut self, ack: &Ack) {
        let Some((since, base)) = self.block else {
            self.block = Some((ack.now, ack.delivered_total));
            return;
        };
        let acked = ack.delivered_total - base;
        let k_bytes = u64::from(self.params.k_segments) * self.params.mss.get();
        let elapsed = ack.now.saturating_since(since);
        if acked.get() < k_bytes || elapsed.is_zero() {
            return;
        }
        let r_i = Rate::from_transfer(acked, elapsed);
        let lambda = u64::from(self.params.lambda_permille.min(1_000));
        self.r = Some(match self.r {
            None => r_i,
            Some(r) => {
                let kept = r.mul_ratio(1_000 - lambda, 1_000).as_bps();
                Rate::from_bps(kept.saturating_add(r_i.mul_ratio(lambda, 1_000).as_bps()))
            }
        });
        self.block = Some((ack.now, ack.delivered_total));
    }

    /// How long the data in flight may take at R̂: never less than the path itself, or R̂ would fall with every
    /// round trip.
    fn cap_time(&self, c: Duration) -> Duration {
        if self.smallest_rtt == Duration::MAX { c } else { c.max(self.smallest_rtt + c / 2) }
    }

    /// H17: with the cap in force a round trip of more than the cap's time is not of our making. When even the
    /// smallest of the sampler's memory (10 s) is, the path has become longer.
    fn re_baseline(&mut self, recent_min: Option<Duration>) {
        if let (Some(c), Some(recent)) = (self.params.in_flight_cap, recent_min)
            && recent > self.cap_time(c).mul_ratio(5, 4)
        {
            self.smallest_rtt = recent;
        }
    }

    /// (5) and its counterpart: compares one round trip with α and β.
    fn adapt(&mut self, rtt: Duration, now: Instant) {
        if rtt > self.params.beta {
            if let Some(r) = self.r.or(self.delivery_rate.get()) {
                self.r_max = r.clamp(RATE_MIN, self.params.r_cap.max(RATE_MIN));
            }
        } else if rtt < self.params.alpha {
            let due = self.last_raise.is_none_or(|at| now.saturating_since(at) >= self.smallest_rtt);
            if due {
                let mu = u64::from(self.params.mu_permille.min(1_000));
                let kept = self.r_max.mul_ratio(mu, 1_000).as_bps();
                let added = self.params.r_cap.mul_ratio(1_000 - mu, 1_000).as_bps();
                self.r_max = Rate::from_bps(kept.saturating_add(added));
                self.last_raise = Some(now);
            }
        }
    }
}

impl Controller for RateControl {
    fn name(&self) -> &'static str {
        "rate"
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(sample) = ack.rate {
            // A sample taken while data was short is a lower bound: it may raise R̂, never replace it.
            if !sample.is_app_limited || self.delivery_rate.get().is_none_or(|r| sample.rate > r) {
                self.delivery_rate.update(sample.rate, ack.now);
            }
        }
        self.estimate(ack);
        if let Some(rtt) = ack.rtt {
            self.smallest_rtt = self.smallest_rtt.min(rtt);
            self.re_baseline(ack.min_rtt);
            self.adapt(rtt, ack.now);
        }
    }

    fn on_loss(&mut self, _loss: &Loss) {}

    fn control(&self) -> Control {
        let window = match (self.params.in_flight_cap, self.delivery_rate.get()) {
            (None, _) => Bytes::MAX,
            (Some(_), None) => self.params.initial_window,
            (Some(c), Some(rate)) => {
                let least = Bytes::new(self.params.mss.get().saturating_mul(4));
                rate.bytes_in(self.cap_time(c)).max(least)
            }
        };
        Control { window, pacing_rate: self.r_max, send_quantum: quantum_for(self.r_max, self.params.mss) }
    }
}

#[cfg(test)]
#[path = "rate/tests.rs"]
mod tests;
