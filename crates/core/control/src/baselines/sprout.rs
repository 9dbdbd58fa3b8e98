//! `sprout`: no more in flight than the link will deliver in 100 ms with 95 % probability.
//!
//! ```text
//!   model:    packets arrive as a Poisson process of rate λ; λ is a Brownian motion of σ packets/s/√s; at λ = 0, an
//!             outage, it stays and leaves at λz a second
//!   each tick τ:   Pr(λ) ← spread by σ·√τ                                  evolution
//!                  Pr(λ) ← Pr(λ) · Pr(k packets in τ | λ), to sum 1         observation
//!   forecast:      F = the 5 % quantile of how many packets come in 100 ms:  Σ Pr(λ)·Pr(N ≤ F | λ) ≥ 0.05
//!   W = F·MSS
//! ```
//!
//! What the receiver infers in the paper is inferred from acknowledgements here, by the sender.
//! Source: K. Winstein, A. Sivaraman, H. Balakrishnan, "Stochastic forecasts achieve high throughput and low
//! delay over cellular networks", NSDI 2013 (\[SP\]).

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Control, Controller, Loss, LossKind, MSS_DEFAULT, Sent};

#[path = "sprout/belief.rs"]
mod belief;

use belief::{Belief, Observation};

/// Ticks that are made up for after a silence: a second of them. A retransmission timer ends most silences
/// sooner.
const TICKS_AT_ONCE_MAX: u64 = 50;
/// Ticks whose data sent is remembered: round trips of up to ten seconds.
const MARKS_MAX: usize = 512;
/// DEVIATION: a forecast of nothing still lets two segments go, or nothing would be acknowledged. \[SP\]
/// §3.4 sends heartbeats.
const WINDOW_MIN_SEGMENTS: u64 = 2;

/// Parameters of [`Sprout`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct SproutParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// τ: length of a tick, 1 ms to 1 s. Default 20 ms (\[SP\] §3.2).
    pub tick: Duration,
    /// The largest λ in packets per second. Default 1000 (\[SP\] §3.1): 11.6 Mbit/s; a faster link is not
    /// believed in.
    pub rate_max_packets: u64,
    /// σ: Brownian noise in packets per second per √second. Default 200 (\[SP\] §3.1).
    pub sigma_packets: u64,
    /// λz: outages that end per 1000 seconds of outage. Default 1000 (\[SP\] §3.1: once a second).
    pub outage_escape_permille: u64,
    /// Time that the forecast covers. Default 100 ms (\[SP\] §3.4).
    pub horizon: Duration,
    /// The risk of that not being delivered, in thousandths. Default 50 (\[SP\] §3.3: the 5 % quantile).
    pub risk_permille: u64,
}

impl Default for SproutParams {
    fn default() -> Self {
        Self {
            mss: MSS_DEFAULT,
            tick: Duration::from_millis(20),
            rate_max_packets: 1_000,
            sigma_packets: 200,
            outage_escape_permille: 1_000,
            horizon: Duration::from_millis(100),
            risk_permille: 50,
        }
    }
}

/// Sprout's forecast as a window.
#[derive(Clone, Debug, stored::Stored)]
pub struct Sprout {
    params: SproutParams,
    belief: Box<Belief>,
    /// F in packets.
    forecast: u64,
    /// Time at which the tick under way ends; none before the first transmission.
    tick_ends_at: Option<Instant>,
    delivered_in_tick: u64,
    /// All that was delivered or found lost.
    gone: u64,
    in_flight: u64,
    min_rtt: Option<Duration>,
    /// Times at which ticks ended, and what `gone` will be once all that was sent until then has arrived.
    marks: VecDeque<(Instant, u64)>,
}

impl Sprout {
    /// A belief in which all rates are equally likely (\[SP\] §3.1).
    #[must_use]
    pub fn new(params: SproutParams) -> Self {
        let ms = Duration::from_millis;
        let params = SproutParams {
            mss: params.mss.clamp(Bytes::new(1), Bytes::new(65_535)),
            tick: params.tick.clamp(ms(1), ms(1_000)),
            rate_max_packets: params.rate_max_packets.clamp(1, 1_000_000),
            sigma_packets: params.sigma_packets.clamp(1, 1_000_000),
            outage_escape_permille: params.outage_escape_permille.clamp(1, 1_000_000),
            horizon: params.horizon.clamp(ms(1), ms(10_000)),
            risk_permille: params.risk_permille.clamp(1, 999),
        };
        let belief = Box::new(Belief::new(&params));
        let forecast = belief.forecast(params.risk_permille);
        Self {
            params,
            belief,
            forecast,
            tick_ends_at: None,
            delivered_in_tick: 0,
            gone: 0,
            in_flight: 0,
            min_rtt: None,
            marks: VecDeque::new(),
        }
    }

    /// Closes the ticks that have ended by `now`.
    fn advance(&mut self, now: Instant) {
        let tick = self.params.tick;
        let ends_at = *self.tick_ends_at.get_or_insert(now + tick);
        if now < ends_at {
            return;
        }
        let due = now.saturating_since(ends_at).as_nanos() / tick.as_nanos() + 1;
        let skipped = due.saturating_sub(TICKS_AT_ONCE_MAX);
        let mut ends_at = ends_at + tick * skipped;
        for _ in 0..due - skipped {
            self.close_tick(ends_at);
            ends_at += tick;
        }
        self.tick_ends_at = Some(ends_at);
        self.forecast = self.belief.forecast(self.params.risk_permille);
    }

    fn close_tick(&mut self, now: Instant) {
        self.belief.evolve();
        if let Some(observation) = self.observation(now) {
            self.belief.observe(observation);
        }
        self.delivered_in_tick = 0;
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back((now, self.gone.saturating_add(self.in_flight)));
    }

    /// Observation of the tick that ends at `now`.
    ///
    /// A link that has nothing to deliver delivers nothing. So a count is one only if the queue held data all
    /// the tick: if of what was sent a tick and a round trip before its end not all has arrived. Else the
    /// link could have had more.
    ///
    /// DEVIATION: \[SP\] §3.2 has the sender announce its pauses ("time-to-next") and leaves such ticks out.
    /// A TCP sender cannot announce; to leave them out would keep a window that is too small for the link for
    /// good.
    fn observation(&mut self, now: Instant) -> Option<Observation> {
        let packets_permille =
            Bytes::new(self.delivered_in_tick).mul_ratio(1_000, self.params.mss.get()).get();
        let before = self.min_rtt.map(|rtt| rtt + self.params.tick)?;
        while self.marks.get(1).is_some_and(|&(at, _)| at + before <= now) {
            self.marks.pop_front();
        }
        let was_busy = self.marks.front().is_some_and(|&(at, due)| at + before <= now && self.gone < due);
        match packets_permille {
            count if was_busy => Some(Observation::Exactly(count)),
            0 => None,
            count => Some(Observation::AtLeast(count)),
        }
    }
}

impl Controller for Sprout {
    fn name(&self) -> &'static str {
        "sprout"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.min_rtt = ack.min_rtt.or(self.min_rtt);
        self.advance(ack.now);
        self.delivered_in_tick = self.delivered_in_tick.saturating_add(ack.delivered.get());
        self.gone = self.gone.saturating_add(ack.delivered.get());
        self.in_flight = ack.in_flight.get();
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.advance(loss.now);
        self.gone = self.gone.saturating_add(loss.lost.get());
        self.in_flight = loss.in_flight.get();
        if loss.kind == LossKind::Timeout {
            // What was under way is not: nobody waits for it.
            self.marks.clear();
        }
    }

    fn on_send(&mut self, sent: &Sent) {
        self.advance(sent.now);
        self.in_flight = sent.in_flight.get().saturating_add(sent.bytes.get());
    }

    fn on_round_trip(&mut self, rtt: Duration, _now: Instant) {
        self.min_rtt.get_or_insert(rtt);
    }

    fn control(&self) -> Control {
        let segments = self.forecast.max(WINDOW_MIN_SEGMENTS);
        Control {
            window: Bytes::new(self.params.mss.get().saturating_mul(segments)),
            pacing_rate: Rate::MAX,
            send_quantum: self.params.mss,
        }
    }
}

#[cfg(test)]
#[path = "sprout/tests.rs"]
mod tests;
