//! `c2tcp`: CUBIC whose window starts again from one segment when no round trip of an interval was below a
//! setpoint.
//!
//! ```text
//!   setpoint = interval = α·RTTmin
//!   good:    RTT ≤ setpoint: cwnd + (setpoint ÷ RTT) ÷ cwnd, besides what CUBIC adds;  n = 1        cwnd in segments
//!   normal:  RTT > setpoint, not for an interval yet
//!   bad:     not one RTT ≤ setpoint for an interval: ssthresh = CUBIC's, cwnd = 1;  again after interval ÷ √n, n + 1
//!   tuner:   mean RTT m over a period against the target T:
//!            m > T: α·(1 − 2·(m − T) ÷ m)         m < T: α·(1 + (T − m) ÷ 2m)         1 ≤ α ≤ 10
//! ```
//!
//! It is CoDel's detector of a standing queue (RFC 8289 §4) at the sender: one short round trip within the
//! interval tells a burst from a queue. Source: S. Abbasloo, Y. Xu, H. J. Chao, "C2TCP: A flexible cellular
//! TCP to meet stringent delay requirements", IEEE JSAC 37(4), 2019 (\[C2\]), and its authors' code.

use units::{Bytes, Duration, Instant};

use crate::fixed_point::square_root;
use crate::{Ack, Control, Controller, Cubic, CubicParams, Loss, LossKind, MSS_DEFAULT, Sent};

/// The bounds of α in hundredths (the authors' server: `TARGET_RATIO_MIN` 100, `TARGET_RATIO_MAX` 1000).
const ALPHA_BOUNDS_PERCENT: (u64, u64) = (100, 1_000);
/// Factor by which √n is scaled, for interval ÷ √n.
const MILLION: u64 = 1_000_000;

/// Parameters of [`C2tcp`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct C2tcpParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// T: mean round trip the tuner aims at. Default 100 ms: what the authors' first evaluation sets.
    pub target: Duration,
    /// First α in hundredths, 100 to 1000. Default 150 (`run.sh`: "Actual Initial_alpha=1.5").
    pub initial_alpha_percent: u64,
    /// Period of the tuner. Default 500 ms, ours; none for a constant α.
    pub tuning_period: Option<Duration>,
}

impl Default for C2tcpParams {
    fn default() -> Self {
        Self {
            mss: MSS_DEFAULT,
            initial_window_segments: 10,
            target: Duration::from_millis(100),
            initial_alpha_percent: 150,
            tuning_period: Some(Duration::from_millis(500)),
        }
    }
}

/// Condition of the queue by the last round trips.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Condition {
    /// The last round trip was short.
    Good,
    /// None has been for a while; it is bad `at`, for the `count`th time.
    Late { at: Instant, count: u64 },
}

/// The mean round trip of a tuning period.
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
struct Period {
    began: Option<Instant>,
    sum: Duration,
    samples: u64,
}

/// CUBIC's window under C2TCP's detector.
#[derive(Clone, Debug, stored::Stored)]
pub struct C2tcp {
    params: C2tcpParams,
    cubic: Cubic,
    condition: Condition,
    /// α in hundredths.
    alpha_percent: u64,
    min_rtt: Option<Duration>,
    period: Period,
    /// Bytes towards the next segment that the good condition has earned.
    credit: u64,
}

impl C2tcp {
    /// CUBIC's first window, and α at its first value.
    #[must_use]
    pub fn new(params: C2tcpParams) -> Self {
        let cubic = CubicParams {
            mss: params.mss,
            initial_window_segments: params.initial_window_segments,
            ..CubicParams::default()
        };
        Self {
            params,
            cubic: Cubic::new(cubic),
            condition: Condition::Good,
            alpha_percent: params.initial_alpha_percent.clamp(ALPHA_BOUNDS_PERCENT.0, ALPHA_BOUNDS_PERCENT.1),
            min_rtt: None,
            period: Period::default(),
            credit: 0,
        }
    }

    /// α·RTTmin: setpoint and interval.
    fn setpoint(&self) -> Option<Duration> {
        Some(self.min_rtt?.mul_ratio(self.alpha_percent, 100))
    }

    /// The tuner: α by the mean round trip of each period.
    fn tune(&mut self, rtt: Duration, now: Instant) {
        let Some(length) = self.params.tuning_period else { return };
        let began = *self.period.began.get_or_insert(now);
        self.period.sum += rtt;
        self.period.samples += 1;
        if now.saturating_since(began) < length {
            return;
        }
        let mean = self.period.sum / self.period.samples;
        let target = self.params.target;
        self.alpha_percent = if mean > target {
            let excess = (mean - target) * 2;
            Duration::from_nanos(self.alpha_percent).mul_ratio((mean - excess).as_nanos(), mean.as_nanos())
        } else {
            let room = mean * 2 + (target - mean);
            Duration::from_nanos(self.alpha_percent).mul_ratio(room.as_nanos(), (mean * 2).as_nanos())
        }
        .as_nanos()
        .clamp(ALPHA_BOUNDS_PERCENT.0, ALPHA_BOUNDS_PERCENT.1);
        self.period = Period { began: Some(now), ..Period::default() };
    }

    /// Good: a segment more for every cwnd ÷ (setpoint ÷ RTT) segments acknowledged.
    fn grow(&mut self, acked: u64, setpoint: Duration, rtt: Duration) {
        let window = &mut self.cubic.window;
        let earned = Bytes::new(acked).mul_ratio(setpoint.as_nanos(), rtt.as_nanos().max(1)).get();
        self.credit = self.credit.saturating_add(earned);
        let segments = self.credit / window.cwnd.max(1);
        self.credit -= segments * window.cwnd.max(1);
        window.cwnd = window.cwnd.saturating_add(segments.min(earned / window.mss + 1) * window.mss);
    }

    /// Bad: as after a time-out, without one.
    fn start_again(&mut self, ack: &Ack) {
        self.cubic.start_again(&Loss {
            now: ack.now,
            lost: Bytes::ZERO,
            kind: LossKind::Fast,
            is_new_event: true,
            in_flight: ack.in_flight,
        });
        self.credit = 0;
    }

    /// The detector, for a round trip of `rtt`.
    fn detect(&mut self, rtt: Duration, ack: &Ack) {
        let Some(setpoint) = self.setpoint() else { return };
        let interval = setpoint;
        if rtt <= setpoint {
            self.condition = Condition::Good;
            if !ack.is_recovering && ack.is_window_limited {
                self.grow(ack.delivered.get(), setpoint, rtt);
            }
            return;
        }
        match self.condition {
            Condition::Good => self.condition = Condition::Late { at: ack.now + interval, count: 1 },
            Condition::Late { at, count } if ack.now > at => {
                // RFC 8289 §5.3's control law: interval ÷ √count.
                let root = square_root(u128::from(count) * u128::from(MILLION) * u128::from(MILLION));
                let at = ack.now + interval.mul_ratio(MILLION, root);
                self.condition = Condition::Late { at, count: count + 1 };
                if !ack.is_recovering {
                    self.start_again(ack);
                }
            }
            Condition::Late { .. } => {}
        }
    }
}

impl Controller for C2tcp {
    fn name(&self) -> &'static str {
        "c2tcp"
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt.filter(|_| ack.delivered > Bytes::ZERO) {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.tune(rtt, ack.now);
            // Linux takes the round trip in before the window grows by the acknowledgement.
            self.detect(rtt, ack);
        }
        self.cubic.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.cubic.on_loss(loss);
    }

    fn on_send(&mut self, sent: &Sent) {
        self.cubic.on_send(sent);
    }

    fn on_undo(&mut self, now: Instant) {
        self.cubic.on_undo(now);
    }

    fn control(&self) -> Control {
        self.cubic.control()
    }
}

#[cfg(test)]
#[path = "c2tcp/tests.rs"]
mod tests;
