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
//! What the paper leaves open, what is done here, and the parameter that does it otherwise
//! (`docs/algorithms/rate.md` has the figures of each):
//! - R_max starts at R_cap: §IV-A says there is no slow ramp-up (`start_permille`).
//! - (5) is applied at most once per smallest round trip, not per ACK: twenty ACKs would otherwise take
//!   R_max to R_cap within one round trip (`raise_permille`).
//! - RTT is the round trip of the newest segment an ACK covers; of those of the last 50 ms the
//!   smallest, since ACKs that wait for the uplink are no queue (`rtt_window`), and unsmoothed
//!   (`rtt_permille`).
//! - k counts segments' worth of acknowledged bytes, over all flows of a subscriber, so that
//!   stretched or bunched ACKs give the same estimate: an ACK of ten segments counts ten, ten
//!   bunched ACKs end a block only at the last of the k segments; one R_i per k, without overlap.
//! - Before the first R (the first k segments), RTT > β uses the largest recent delivery rate
//!   (`beta_waits_for_r`).
//! - R_cap is what is configured; what was learned, from a start on or up to a bound
//!   (`r_cap_memory`, `r_cap_is_start`); what a base station reports (`r_cap_from_feedback`).
//! - α and β are round trips; with `is_over_base` they count from the smallest round trip on.
//!
//! DEVIATION: \[MA\] has no draining term. While RTT > β it sends at R, which is what leaves the queue, so a
//! queue once built stands. With `in_flight_cap` = c the data in flight is held to max(c, RTT_min +
//! c ÷ 2)·R̂, R̂ the largest delivery rate of `rate_window`. Shown by
//! `tests::the_cap_drains_a_standing_queue`; `None` follows the paper. RTT_min is the smallest
//! round trip ever, until one that the cap does not explain has lasted (H17). The defaults of c and
//! `rate_window` come from the sweep `crates/core/sim/examples/rate_sweep.rs`.
//!
//! Data sent beyond the peer's window is thrown away while something is missing, for a round trip
//! with the queue in it: c is a third for 10 s after that was seen, though not so small that less
//! than the peer's window is in flight (H18).

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Control, Controller, Feedback, Loss, MSS_DEFAULT, WindowedMax, WindowedMin, quantum_for};

mod capacity;

use capacity::LinkCapacity;

/// Start value of a learned R_cap: \[MA\]'s figure for LTE. On slower links too high a capacity
/// costs little, since the cap of the data in flight holds the queue short; a learned fade costs up
/// to 5 % of a link, so it is the least, too.
pub const R_CAP_START: Rate = Rate::from_mbps(100);

/// Parameters of [`RateControl`]; the defaults are \[MA\] Table 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
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
    /// R_cap: capacity of the link; nothing is sent faster. 5.6 Mbit/s (3G); the paper uses 100
    /// Mbit/s for LTE.
    pub r_cap: Rate,
    /// Learn R_cap, up to `r_cap`: 5/4 of the largest delivery rate of this time. `None`: it is known.
    pub r_cap_memory: Option<Duration>,
    /// With `r_cap_memory`: `r_cap` is where R_cap starts and what it never falls below, not what
    /// it may reach. False; the paper knows its link.
    pub r_cap_is_start: bool,
    /// While reports of a base station come, R_cap is the bandwidth they state. True.
    pub r_cap_from_feedback: bool,
    /// Time after its measurement for which a report without a validity of its own is used. 500 ms.
    pub stale_after: Duration,
    /// The first R_max, in thousandths of R_cap. 1000; the paper does not say.
    pub start_permille: u32,
    /// Time between two applications of (5), in thousandths of the smallest round trip; 0 for every
    /// ACK. 1000; the paper does not say.
    pub raise_permille: u32,
    /// Time whose smallest round trip is compared with α and β; `None`: each. 50 ms; the paper does not say.
    pub rtt_window: Option<Duration>,
    /// Weight of a new round trip in the smoothed one that is compared, in thousandths; 1000 for no
    /// smoothing. 1000; the paper does not say.
    pub rtt_permille: u32,
    /// Before the first R nothing happens above β; else the largest recent delivery rate stands in
    /// for it. False.
    pub beta_waits_for_r: bool,
    /// α and β count from the smallest round trip on, not from zero. False.
    pub is_over_base: bool,
    /// c: data in flight is held to max(c, RTT_min + c ÷ 2)·R̂; `None` follows the paper. 120 ms.
    pub in_flight_cap: Option<Duration>,
    /// Memory of R̂, the largest delivery rate the cap is computed from. 500 ms.
    pub rate_window: Duration,
    /// Data in flight allowed before the first delivery rate is known (only with a cap). 64 KiB.
    pub initial_window: Bytes,
    /// Segment size. Default [`MSS_DEFAULT`].
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
            r_cap_memory: None,
            r_cap_is_start: false,
            r_cap_from_feedback: true,
            stale_after: Duration::from_millis(500),
            start_permille: 1_000,
            raise_permille: 1_000,
            rtt_window: Some(Duration::from_millis(50)),
            rtt_permille: 1_000,
            beta_waits_for_r: false,
            is_over_base: false,
            in_flight_cap: Some(Duration::from_millis(120)),
            rate_window: Duration::from_millis(500),
            initial_window: Bytes::from_kib(64),
            mss: MSS_DEFAULT,
        }
    }
}

impl RateParams {
    /// R_cap learned, from [`R_CAP_START`] on: for a link of which nothing is known.
    #[must_use]
    pub fn learning() -> Self {
        let r_cap_memory = Some(Duration::from_secs(10));
        Self { r_cap: R_CAP_START, r_cap_memory, r_cap_is_start: true, ..Self::default() }
    }

    /// The paper's algorithm without additions, for reproduction: no in-flight cap, no filter of
    /// round trips, R_cap known.
    #[must_use]
    pub fn paper() -> Self {
        Self { in_flight_cap: None, rtt_window: None, r_cap_from_feedback: false, ..Self::default() }
    }
}

/// \[MA\]'s rate control.
#[derive(Clone, Debug, stored::Stored)]
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
    /// Round trips of the last `rtt_window`.
    recent_rtt: Option<WindowedMin<Duration>>,
    smoothed_rtt: Option<Duration>,
    capacity: LinkCapacity,
    /// Time at which a peer last threw something away that lay beyond its window, and that window.
    discarded: Option<(Instant, Bytes)>,
    now: Instant,
}

/// Time for which a peer that has discarded something is believed to do so again (ours; H18).
const DISCARDS_REMEMBERED: Duration = Duration::from_secs(10);

/// The limit never falls below this: one segment every 290 ms still probes the link (ours: \[MA\] (5)
/// has no least rate, and from a rate of nothing it would not come back).
const RATE_MIN: Rate = Rate::from_kbps(40);

impl RateControl {
    /// A controller at its first R_max.
    #[must_use]
    pub fn new(params: RateParams) -> Self {
        Self {
            r: None,
            r_max: params.r_cap.mul_ratio(u64::from(params.start_permille.min(1_000)), 1_000).max(RATE_MIN),
            recent_rtt: params.rtt_window.map(WindowedMin::new),
            smoothed_rtt: None,
            capacity: LinkCapacity::new(&params),
            discarded: None,
            now: Instant::ZERO,
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

    /// Bytes that c lets be in flight at R̂.
    fn capped(&self, c: Duration, rate: Rate) -> Bytes {
        let most = rate.bytes_in(self.cap_time(c));
        match self.discarded {
            Some((at, window)) if self.now.saturating_since(at) < DISCARDS_REMEMBERED => {
                // A path that is long by itself varies by more.
                let path =
                    if self.smallest_rtt == Duration::MAX { Duration::ZERO } else { self.smallest_rtt };
                most.min(rate.bytes_in(self.cap_time(c / 3).max(path.mul_ratio(3, 2))).max(window))
            }
            _ => most,
        }
    }

    /// Time that the data in flight may take at R̂: never less than the path itself, or R̂ would
    /// fall with every round trip.
    fn cap_time(&self, c: Duration) -> Duration {
        if self.smallest_rtt == Duration::MAX { c } else { c.max(self.smallest_rtt + c / 2) }
    }

    /// H17: with the cap in force a round trip of more than the cap's time is not of our making.
    /// When even the smallest of the sampler's memory (10 s) is, the path has become longer.
    fn re_baseline(&mut self, recent_min: Option<Duration>) {
        if let (Some(c), Some(recent)) = (self.params.in_flight_cap, recent_min)
            && recent > self.cap_time(c).mul_ratio(5, 4)
        {
            self.smallest_rtt = recent;
        }
    }

    /// The round trip that is compared with α and β.
    fn compared(&mut self, rtt: Duration, now: Instant) -> Duration {
        let rtt = self.recent_rtt.as_mut().map_or(rtt, |recent| {
            recent.update(rtt, now);
            recent.get().unwrap_or(rtt)
        });
        let weight = u64::from(self.params.rtt_permille.min(1_000));
        let smoothed = self
            .smoothed_rtt
            .map_or(rtt, |old| old.mul_ratio(1_000 - weight, 1_000) + rtt.mul_ratio(weight, 1_000));
        self.smoothed_rtt = Some(smoothed);
        smoothed
    }

    /// (5) and its counterpart: compares a round trip with α and β.
    fn adapt(&mut self, rtt: Duration, now: Instant) {
        let base = if self.params.is_over_base { self.smallest_rtt } else { Duration::ZERO };
        let r_cap = self.capacity.get(now);
        if rtt > base + self.params.beta {
            let stand_in = self.delivery_rate.get().filter(|_| !self.params.beta_waits_for_r);
            if let Some(r) = self.r.or(stand_in) {
                self.r_max = r.clamp(RATE_MIN, r_cap);
            }
        } else if rtt < base + self.params.alpha {
            let pause = self.smallest_rtt.mul_ratio(u64::from(self.params.raise_permille), 1_000);
            let due = self.last_raise.is_none_or(|at| now.saturating_since(at) >= pause);
            if due {
                let mu = u64::from(self.params.mu_permille.min(1_000));
                let kept = self.r_max.mul_ratio(mu, 1_000).as_bps();
                let added = r_cap.mul_ratio(1_000 - mu, 1_000).as_bps();
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
        self.now = self.now.max(ack.now);
        if ack.discarded > Bytes::ZERO {
            self.discarded = Some((ack.now, ack.peer_window));
        }
        if let Some(sample) = ack.rate {
            self.capacity.on_sample(&sample, ack.now);
            // A sample taken while data was short is a lower bound: it may raise R̂, never replace it.
            if !sample.is_app_limited || self.delivery_rate.get().is_none_or(|r| sample.rate > r) {
                self.delivery_rate.update(sample.rate, ack.now);
            }
        }
        self.estimate(ack);
        if let Some(rtt) = ack.rtt {
            self.smallest_rtt = self.smallest_rtt.min(rtt);
            self.re_baseline(ack.min_rtt);
            let compared = self.compared(rtt, ack.now);
            self.adapt(compared, ack.now);
        }
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.now = self.now.max(feedback.now);
        self.capacity.on_feedback(feedback);
    }

    fn on_loss(&mut self, _loss: &Loss) {}

    fn control(&self) -> Control {
        let window = match (self.params.in_flight_cap, self.delivery_rate.get()) {
            (None, _) => Bytes::MAX,
            (Some(_), None) => self.params.initial_window,
            (Some(c), Some(rate)) => {
                let least = Bytes::new(self.params.mss.get().saturating_mul(4));
                self.capped(c, rate).max(least)
            }
        };
        // What R_cap was when R_max was raised to it may be more than it is.
        let pacing_rate = self.r_max.min(self.capacity.get(self.now));
        Control { window, pacing_rate, send_quantum: quantum_for(pacing_rate, self.params.mss) }
    }
}

#[cfg(test)]
#[path = "rate/tests.rs"]
mod tests;
