//! `copa`: a rate of one segment per δ of the measured queueing delay, with steps that double while they
//! point one way.
//!
//! ```text
//!   dq = RTTstanding − RTTmin            λt = 1 ÷ (δ·dq)            λ = cwnd ÷ RTTstanding          segments, s
//!   each acknowledgement:  λ ≤ λt: cwnd + v ÷ (δ·cwnd)     else: cwnd − v ÷ (δ·cwnd)
//!   once a window:  same direction for three windows and more: v doubles      it turns: v = 1
//!   start:  cwnd doubles each round trip until λ > λt
//!   mode:   no queue nearly empty (dq < 0.1·(RTTmax − RTTmin)) for five round trips: competitive, 1 ÷ δ additive up,
//!           halved by a loss; nearly empty again: default, δ = ½
//!   pace:   2·cwnd ÷ RTTstanding
//! ```
//!
//! A flow alone comes to rest where λ is the link's rate: 1 ÷ δ segments in the queue.
//! Source: V. Arun, H. Balakrishnan, "Copa: Practical delay-based congestion control for the Internet", NSDI
//! 2018 (\[CO\]), the corrected version.

use units::{Bytes, Duration, Instant, Rate};

use crate::round::Rounds;
use crate::{Ack, Control, Controller, Loss, LossKind, MSS_DEFAULT, RecentMax, RecentMin};

/// Windows in one direction after which v doubles (\[CO\] §2.1 step 4: "three RTTs").
const DIRECTION_WINDOWS: u32 = 3;
/// Round trips without a nearly empty queue that show a buffer-filling flow (\[CO\] §2.2: "5 RTTs").
const NEARLY_EMPTY_RTTS: u64 = 5;
/// Round trips RTTmax is of (\[CO\] §2.2: "the past four RTTs").
const RTT_MAX_RTTS: u64 = 4;
/// A queue is nearly empty with a tenth of the delay's range (\[CO\] §2.2: "0.1").
///
/// DEVIATION: or with one segment of the flow's, up to a quarter of the range. On a slow link a tenth of the
/// range is less than a segment takes; two flows that share it would take each other for one that fills the
/// queue. Shown by `two_flows_share_evenly_whoever_came_first`.
const NEARLY_EMPTY_DIVISOR: u64 = 10;
/// Pace over cwnd ÷ RTTstanding (\[CO\] §2.1: "paces packets at a rate of 2·cwnd/RTTstanding").
const PACING_GAIN: u64 = 2;
/// DEVIATION: \[CO\] names no least window; with less than two segments in flight a delayed acknowledgement
/// stops the flow.
const WINDOW_MIN_SEGMENTS: u64 = 2;
/// The largest v: it cannot double for longer than a window of 2³² segments lasts.
const VELOCITY_MAX: u64 = 1 << 32;
/// Fractions of a byte kept: a step of one acknowledgement is less than a byte in a large window.
const FRACTION: u64 = 1 << 10;
/// The largest window in bytes: what 10 Gbit/s bring in 10 s, eight times.
const WINDOW_MAX: u64 = 100_000_000_000;

/// Parameters of [`Copa`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct CopaParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// δ of the default mode, in thousandths per segment. Default 500 (\[CO\] §2.2).
    pub delta_permille: u64,
    /// The mode for links shared with flows that fill the queue. Default true (\[CO\] §2.2).
    pub competitive: bool,
}

impl Default for CopaParams {
    fn default() -> Self {
        Self { mss: MSS_DEFAULT, initial_window_segments: 10, delta_permille: 500, competitive: true }
    }
}

/// Direction in which the window moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Direction {
    Up,
    Down,
}

/// Mode, by the flows that share the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Mode {
    /// Alone, or with flows like this one.
    Default,
    /// Beside flows that fill the queue; 1 ÷ δ in thousandths of a segment.
    Competitive { inverse_delta_permille: u64 },
}

/// The round trips \[CO\] §2 keeps.
#[derive(Clone, Debug, stored::Stored)]
struct RoundTrips {
    smoothed: Option<Duration>,
    /// RTTmin, with a memory of 10 s (\[CO\] §2: "10 seconds").
    min: RecentMin<Duration>,
    standing: RecentMin<Duration>,
    max: RecentMax<Duration>,
    nearly_empty_at: Instant,
}

impl RoundTrips {
    /// `segment`: what one segment takes at this flow's rate.
    fn on_sample(&mut self, rtt: Duration, segment: Duration, now: Instant) {
        // RFC 6298 §2.3: α = ⅛.
        let smoothed = self.smoothed.map_or(rtt, |srtt| srtt.mul_ratio(7, 8) + rtt / 8);
        if self.smoothed.replace(smoothed).is_none() {
            self.nearly_empty_at = now;
        }
        self.min.update(rtt, now);
        // [CO] §2.1: RTTstanding is the smallest of the last τ = srtt ÷ 2.
        self.standing.update_within(smoothed / 2, rtt, now);
        self.max.update_within(smoothed * RTT_MAX_RTTS, rtt, now);
        if let (Some(queueing), Some(max), Some(min)) = (self.queueing(), self.max.get(), self.min.get())
            && queueing <= ((max - min) / NEARLY_EMPTY_DIVISOR).max(segment.min((max - min) / 4))
        {
            self.nearly_empty_at = now;
        }
    }

    /// dq.
    fn queueing(&self) -> Option<Duration> {
        Some(self.standing.get()? - self.min.get()?)
    }

    /// Somebody keeps the queue full.
    fn is_never_empty(&self, now: Instant) -> bool {
        self.smoothed
            .is_some_and(|srtt| now.saturating_since(self.nearly_empty_at) > srtt * NEARLY_EMPTY_RTTS)
    }
}

/// Copa's congestion window.
#[derive(Clone, Debug, stored::Stored)]
pub struct Copa {
    params: CopaParams,
    /// cwnd in 1024ths of a byte.
    cwnd: u64,
    is_slow_start: bool,
    mode: Mode,
    round_trips: RoundTrips,
    rounds: Rounds,
    /// cwnd in 1024ths of a byte when the round under way began.
    cwnd_of_round: u64,
    direction: Option<Direction>,
    /// Windows that the direction has been the same.
    windows: u32,
    /// v.
    velocity: u64,
    /// A loss of this round trip has been answered.
    is_loss_answered: bool,
    /// cwnd and slow start before the last time-out, should it have been none.
    before_timeout: Option<(u64, bool)>,
}

impl Copa {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: CopaParams) -> Self {
        let params = CopaParams {
            mss: params.mss.clamp(Bytes::new(1), Bytes::new(65_535)),
            initial_window_segments: params.initial_window_segments.clamp(WINDOW_MIN_SEGMENTS, 1 << 20),
            delta_permille: params.delta_permille.clamp(1, 1_000_000),
            competitive: params.competitive,
        };
        let cwnd = params.mss.get() * params.initial_window_segments * FRACTION;
        Self {
            params,
            cwnd,
            is_slow_start: true,
            mode: Mode::Default,
            round_trips: RoundTrips {
                smoothed: None,
                min: RecentMin::default(),
                standing: RecentMin::default(),
                max: RecentMax::default(),
                nearly_empty_at: Instant::ZERO,
            },
            rounds: Rounds::default(),
            cwnd_of_round: cwnd,
            direction: None,
            windows: 0,
            velocity: 1,
            is_loss_answered: false,
            before_timeout: None,
        }
    }

    fn window(&self) -> u64 {
        self.cwnd / FRACTION
    }

    /// 1 ÷ δ in thousandths of a segment.
    fn inverse_delta_permille(&self) -> u64 {
        match self.mode {
            Mode::Default => self.default_inverse_delta_permille(),
            Mode::Competitive { inverse_delta_permille } => inverse_delta_permille,
        }
    }

    fn default_inverse_delta_permille(&self) -> u64 {
        1_000_000 / self.params.delta_permille
    }

    /// λ ≤ λt: cwnd ÷ RTTstanding ≤ 1 ÷ (δ·dq), without a division.
    fn is_below_target(&self) -> bool {
        let (Some(queueing), Some(standing)) = (self.round_trips.queueing(), self.round_trips.standing.get())
        else {
            return true;
        };
        let rate = u128::from(self.window()) * u128::from(queueing.as_nanos()) * 1_000;
        let target = u128::from(self.inverse_delta_permille())
            * u128::from(self.params.mss.get())
            * u128::from(standing.as_nanos());
        rate <= target
    }

    /// v ÷ (δ·cwnd) segments for each of those that `acked` bytes are, in 1024ths of a byte.
    fn step(&self, acked: u64) -> u64 {
        let numerator = u128::from(self.velocity)
            * u128::from(self.inverse_delta_permille())
            * u128::from(self.params.mss.get())
            * u128::from(acked)
            * u128::from(FRACTION);
        let step = numerator / (1_000 * u128::from(self.window().max(1)));
        // Within a round trip at most what slow start would do.
        u64::try_from(step).unwrap_or(u64::MAX).min(acked.saturating_mul(FRACTION))
    }

    fn set(&mut self, cwnd: u64) {
        let least = WINDOW_MIN_SEGMENTS * self.params.mss.get();
        self.cwnd = cwnd.clamp(least * FRACTION, WINDOW_MAX * FRACTION);
    }

    /// \[CO\] §2.1 step 4, once a window.
    fn judge_direction(&mut self) {
        let direction = if self.cwnd > self.cwnd_of_round { Direction::Up } else { Direction::Down };
        self.cwnd_of_round = self.cwnd;
        if self.direction.replace(direction) != Some(direction) {
            (self.windows, self.velocity) = (1, 1);
            return;
        }
        self.windows = self.windows.saturating_add(1);
        if self.windows > DIRECTION_WINDOWS {
            self.velocity = (self.velocity * 2).min(VELOCITY_MAX);
        }
    }

    /// An acknowledgement points the other way: v falls at once.
    ///
    /// DEVIATION: \[CO\] §2.1 looks once a window, which is up to a window too late: with v = 16 the window
    /// has then overshot by 16 ÷ δ segments, and it swings on with that. Meta's mvfst resets v at once,
    /// too. Shown by `a_flow_alone_keeps_about_one_over_delta_segments_in_the_queue`.
    fn turn(&mut self, direction: Direction) {
        if self.velocity > 1 && self.direction != Some(direction) {
            (self.direction, self.windows, self.velocity) = (Some(direction), 0, 1);
            self.cwnd_of_round = self.cwnd;
        }
    }

    /// \[CO\] §2.2, once a round trip.
    fn judge_mode(&mut self, now: Instant) {
        let least = self.default_inverse_delta_permille();
        let is_shared = self.params.competitive && self.round_trips.is_never_empty(now);
        self.mode = match self.mode {
            _ if !is_shared => Mode::Default,
            Mode::Default => Mode::Competitive { inverse_delta_permille: least },
            // One more segment per round trip without a loss; its halving is `on_loss`'s.
            Mode::Competitive { inverse_delta_permille: inverse } if !self.is_loss_answered => {
                Mode::Competitive { inverse_delta_permille: inverse.saturating_add(1_000).min(1_000_000_000) }
            }
            mode => mode,
        };
        self.is_loss_answered = false;
    }
}

impl Controller for Copa {
    fn name(&self) -> &'static str {
        "copa"
    }

    fn on_ack(&mut self, ack: &Ack) {
        if ack.delivered == Bytes::ZERO {
            return;
        }
        if let Some(rtt) = ack.rtt {
            let segment = rtt.mul_ratio(self.params.mss.get(), self.window());
            self.round_trips.on_sample(rtt, segment, ack.now);
        }
        if self.rounds.on_ack(ack).is_some() {
            self.judge_mode(ack.now);
            if !self.is_slow_start {
                self.judge_direction();
            }
        }
        let acked = ack.delivered.get();
        let is_below = self.is_below_target();
        self.turn(if is_below { Direction::Up } else { Direction::Down });
        if self.is_slow_start && !is_below {
            self.is_slow_start = false;
            self.cwnd_of_round = self.cwnd;
        }
        // A window that is not in use says nothing of the link; in slow start half of it is enough.
        let is_used = ack.is_window_limited
            || (self.is_slow_start && self.window() < ack.in_flight_before.get().saturating_mul(2));
        if !is_below {
            self.set(self.cwnd.saturating_sub(self.step(acked)));
        } else if is_used {
            let growth = if self.is_slow_start { acked.saturating_mul(FRACTION) } else { self.step(acked) };
            self.set(self.cwnd.saturating_add(growth));
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        if loss.is_new_event && !self.is_loss_answered {
            self.is_loss_answered = true;
            if let Mode::Competitive { inverse_delta_permille } = self.mode {
                let least = self.default_inverse_delta_permille();
                let inverse_delta_permille = (inverse_delta_permille / 2).max(least);
                self.mode = Mode::Competitive { inverse_delta_permille };
            }
        }
        if loss.kind == LossKind::Timeout {
            // DEVIATION: [CO] says nothing of time-outs; RFC 5681 §3.1's loss window, then slow start.
            if loss.is_new_event {
                self.before_timeout = Some((self.cwnd, self.is_slow_start));
            }
            self.set(loss.in_flight.get().saturating_add(self.params.mss.get()).saturating_mul(FRACTION));
            self.is_slow_start = true;
            (self.direction, self.windows, self.velocity) = (None, 0, 1);
        }
    }

    fn on_undo(&mut self, _now: Instant) {
        if let Some((cwnd, is_slow_start)) = self.before_timeout.take() {
            self.set(self.cwnd.max(cwnd));
            self.is_slow_start = is_slow_start;
        }
    }

    fn control(&self) -> Control {
        let pacing_rate = self.round_trips.standing.get().map_or(Rate::MAX, |standing| {
            Rate::from_transfer(Bytes::new(self.window().saturating_mul(PACING_GAIN)), standing)
        });
        Control { window: Bytes::new(self.window()), pacing_rate, send_quantum: self.params.mss }
    }
}

#[cfg(test)]
#[path = "copa/tests.rs"]
mod tests;
