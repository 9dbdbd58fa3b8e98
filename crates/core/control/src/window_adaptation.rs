//! `window-adaptation`: \[WA\]'s window, set by what the base station reports.
//!
//! The base station knows what an end-to-end sender must guess: how much it can carry for a
//! subscriber (b̂) and how much waits (q̂). So send, in each step of length τ, what it will carry
//! and what is missing to a short queue q0, so that the link neither runs dry nor fills its buffer.
//! No slow start, no reaction to loss.
//!
//! ```text
//!   q(n+1) = q(n) + w(n) − b(n)                                   (1)
//!   w(n)   = b̂(n)·τ − g·(q̂(n) − q0),  at least 0                  (18) with g = 1
//! ```
//!
//! Three laws:
//! - [`Law::PerStep`]: w(n) is what may be sent in step n, as (1) says. What a step leaves unused is forgone.
//! - [`Law::InFlight`]: w(n) limits what is in flight, as a TCP window does in ns-2.
//! - [`Law::Predictive`] (default): the same aim where reports are late, lost or noisy. The queue
//!   that what is sent at this moment will find is reckoned from the last report, what was sent
//!   since, and what was carried since; it is held at a time's worth of the bandwidth, which is
//!   learned. See `predictor.rs`. The defaults come from
//!   `crates/core/sim/examples/window_adaptation_sweep.rs`.
//!
//! Reports count IP packets, the window counts payload; the conversion takes all segments as full.
//!
//! Without a valid report `rate` controls, warm because it sees everything; the next report takes over again.
//!
//! DEVIATION: one segment may always be in flight. With w = 0, nothing in flight and the next
//! reports lost, nothing would ever ask for the limits again. Shown by
//! `tests::a_segment_may_always_be_in_flight`.

mod predictor;

use units::{Bytes, Duration, Instant, Rate};

use crate::{
    Ack, Control, Controller, Feedback, HEADERS, Loss, MSS_DEFAULT, PACKET, RateControl, RateParams, Sent,
    quantum_for,
};
use predictor::Predictor;

/// Meaning of w(n).
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub enum Law {
    /// (18), as what is sent in a step.
    PerStep,
    /// (18), as what is in flight.
    InFlight,
    /// The queue predicted over the delay of the reports is held at its target.
    Predictive,
}

/// Parameters of [`WindowAdaptation`]; those of (18) are \[WA\]'s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct WindowAdaptationParams {
    /// Meaning of w(n). [`Law::Predictive`].
    pub law: Law,
    /// τ: length of a step, to be the period of the reports; not used by [`Law::Predictive`]. 10 ms.
    pub tau: Duration,
    /// q0: the queue aimed at by (18), in bytes of IP packets. 22,500 (15 packets of 1500 bytes).
    pub q0: Bytes,
    /// g: weight of the queue's deviation in (18), in thousandths, 0 to 2000. 1000 is the paper's;
    /// below it the loop is stable with a step of delay: λ² − λ + g = 0. Default 1000.
    pub gain_permille: u32,
    /// A report without a validity of its own is used for this long after its measurement. 500 ms.
    pub stale_after: Duration,
    /// [`Law::Predictive`]: the queue aimed at to begin with, as time at the bandwidth. 20 ms.
    pub target: Duration,
    /// [`Law::Predictive`]: share of the capacity that may go unused, in thousandths; `target` is
    /// learned from it. Zero leaves `target` as it is. 28.
    pub idle_permille: u32,
    /// [`Law::Predictive`]: time over which the bandwidth of the aim is averaged. 200 ms.
    pub target_memory: Duration,
    /// [`Law::Predictive`]: time over which the bandwidth of the forecast is averaged. 30 ms.
    pub forecast_memory: Duration,
    /// [`Law::Predictive`]: weight of a reported queue against the one reckoned, in thousandths, 1
    /// to 1000. 400.
    pub observer_permille: u32,
    /// Delay from here to the radio queue. Zero.
    pub forward_delay: Duration,
    /// Parameters of the controller used without reports. `rate` with R_cap 100 Mbit/s, since
    /// nobody says how fast the link may be.
    pub fallback: RateParams,
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
}

impl Default for WindowAdaptationParams {
    fn default() -> Self {
        Self {
            law: Law::Predictive,
            tau: Duration::from_millis(10),
            q0: PACKET.mul_ratio(15, 1),
            gain_permille: 1_000,
            stale_after: Duration::from_millis(500),
            target: Duration::from_millis(20),
            idle_permille: 28,
            target_memory: Duration::from_millis(200),
            forecast_memory: Duration::from_millis(30),
            observer_permille: 400,
            forward_delay: Duration::ZERO,
            fallback: RateParams { r_cap: Rate::from_mbps(100), ..RateParams::default() },
            mss: MSS_DEFAULT,
        }
    }
}

impl WindowAdaptationParams {
    /// The paper's algorithm under one reading of w(n), for reproduction.
    #[must_use]
    pub fn paper(law: Law) -> Self {
        Self { law, ..Self::default() }
    }

    /// (18): w(n) in bytes of IP packets.
    #[must_use]
    pub fn window(&self, bandwidth: Rate, queue: Bytes) -> Bytes {
        let carried = i128::from(bandwidth.bytes_in(self.tau).get());
        let deviation = i128::from(queue.get()) - i128::from(self.q0.get());
        let w = carried - deviation * i128::from(self.gain_permille) / 1_000;
        Bytes::new(u64::try_from(w.max(0)).unwrap_or(u64::MAX))
    }
}

/// The last report, as far as it is still needed.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Known {
    bandwidth: Rate,
    valid_until: Instant,
}

/// \[WA\]'s window adaptation.
#[derive(Clone, Debug, stored::Stored)]
pub struct WindowAdaptation {
    params: WindowAdaptationParams,
    /// Boxed: most of its size, and rarely used.
    fallback: Box<RateControl>,
    now: Instant,
    /// Payload in flight, as of the last event.
    in_flight: u64,
    known: Option<Known>,
    /// Payload that may still be sent in this step ([`Law::PerStep`]), or be in flight ([`Law::InFlight`]).
    allowance: u64,
    /// Apart, because all controllers share one enum and none else is so large.
    predictor: Box<Predictor>,
}

impl WindowAdaptation {
    /// A controller that has had no report.
    #[must_use]
    pub fn new(mut params: WindowAdaptationParams) -> Self {
        params.mss = params.mss.max(Bytes::new(1));
        params.fallback.mss = params.mss;
        Self {
            fallback: Box::new(RateControl::new(params.fallback)),
            now: Instant::ZERO,
            in_flight: 0,
            known: None,
            allowance: 0,
            predictor: Box::new(Predictor::new(&params)),
            params,
        }
    }

    /// True while a report is valid; otherwise `rate` controls.
    #[must_use]
    pub fn is_informed(&self) -> bool {
        self.known.is_some_and(|known| self.now <= known.valid_until)
    }

    /// Payload bytes in `wire` bytes of IP packets.
    fn payload(&self, wire: u64) -> u64 {
        let mss = self.params.mss.get();
        (u128::from(wire) * u128::from(mss) / u128::from(mss + HEADERS.get())) as u64
    }

    /// Bytes of IP packets that `payload` takes.
    fn wire(&self, payload: u64) -> u64 {
        payload.saturating_add(payload.div_ceil(self.params.mss.get()).saturating_mul(HEADERS.get()))
    }

    /// Payload that may be in flight.
    fn window(&self) -> u64 {
        let least = self.params.mss.get();
        let window = match self.params.law {
            Law::PerStep => self.in_flight.saturating_add(self.allowance),
            Law::InFlight => self.allowance,
            Law::Predictive => {
                let room = self.predictor.room(self.now, self.wire(self.in_flight));
                self.in_flight.saturating_add(self.payload(room))
            }
        };
        window.max(least)
    }
}

impl Controller for WindowAdaptation {
    fn name(&self) -> &'static str {
        "window-adaptation"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.now = self.now.max(ack.now);
        self.in_flight = ack.in_flight.get();
        self.predictor.on_delivered(self.wire(ack.delivered.get()), ack.rate, ack.min_rtt, self.now);
        self.fallback.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.now = self.now.max(loss.now);
        self.in_flight = loss.in_flight.get();
        self.fallback.on_loss(loss);
    }

    fn on_send(&mut self, sent: &Sent) {
        self.now = self.now.max(sent.now);
        let bytes = sent.bytes.get();
        self.in_flight = sent.in_flight.get().saturating_add(bytes);
        if self.params.law == Law::PerStep {
            self.allowance = self.allowance.saturating_sub(bytes);
        }
        self.predictor.note_limited(!sent.is_app_limited);
        self.predictor.on_sent(self.wire(bytes), self.now);
        self.fallback.on_send(sent);
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.now = self.now.max(feedback.now);
        let valid_until = feedback.valid_until(self.params.stale_after);
        let is_news = self.predictor.on_report(feedback, self.wire(self.in_flight));
        let Some(bandwidth) = self.predictor.bandwidth().filter(|_| is_news) else { return };
        self.known = Some(Known { bandwidth, valid_until });
        let (Some(b), Some(q)) = (feedback.bandwidth, feedback.queue) else { return };
        self.allowance = self.payload(self.params.window(b, q).get());
    }

    fn on_undo(&mut self, now: Instant) {
        self.fallback.on_undo(now);
    }

    fn control(&self) -> Control {
        let Some(Known { bandwidth, .. }) = self.known.filter(|_| self.is_informed()) else {
            return self.fallback.control();
        };
        let pacing_rate = match self.params.law {
            // The window is the control; the pace only keeps the start of a step from being one burst.
            Law::Predictive => bandwidth.mul_ratio(4, 1).max(PACE_MIN),
            Law::PerStep | Law::InFlight => Rate::MAX,
        };
        Control {
            window: Bytes::new(self.window()),
            pacing_rate,
            send_quantum: quantum_for(bandwidth, self.params.mss),
        }
    }
}

/// Slowest pace: a link that stands still may go on at any time, and then this must not be what limits it
/// (ours).
const PACE_MIN: Rate = Rate::from_mbps(10);

#[cfg(test)]
mod tests;
