//! `verus`: a window from a learned curve of delay over window, at a delay that moves by milliseconds each
//! epoch.
//!
//! ```text
//!   each epoch ε, Dmax,i the longest round trip in it:
//!     Dmax ← 0.2·Dmax + 0.8·Dmax,i         ΔD = Dmax,i − Dmax before
//!     Dest ← Dest − δ2                     Dmax ÷ Dmin > R
//!            max(Dmin, Dest − δ1)          ΔD > 0
//!            Dest + δ2                     else
//!     W = the largest window whose delay on the curve is at most Dest
//!   curve:   D(w) ← ⅞·D(w) + ⅛·RTT of what was sent at window w; drawn anew once a second
//!   start:   W + 1 per acknowledgement, until a loss or RTT > 500 ms
//!   loss:    W = 0.7·W of what was lost; W + 1 ÷ W per acknowledgement until what was sent since arrives
//! ```
//!
//! Source: Y. Zaki, T. Pötsch, J. Chen, L. Subramanian, C. Görg, "Adaptive congestion control for
//! unpredictable cellular networks", SIGCOMM 2015 (\[VE\]), and its authors' code.

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Control, Controller, Loss, LossKind, MSS_DEFAULT, Sent};

#[path = "verus/profile.rs"]
mod profile;

use profile::Profile;

/// Epochs that are made up for after a silence: a second of them with the default epoch.
const EPOCHS_AT_ONCE_MAX: u64 = 200;
/// Epochs whose window is remembered: round trips of up to ten seconds with the default epoch.
const MARKS_MAX: usize = 2_048;
/// A round trip that ends slow start (authors' code: `SS_EXIT_THRESHOLD` 500 ms).
const START_RTT_MAX: Duration = Duration::from_millis(500);
/// Dest after slow start, over Dmin·R, in hundredths (authors' code: 0.75).
const START_DELAY_PERCENT: u64 = 75;
/// Dmin where W has come to nothing at it (authors' code: `dMin += 10`).
const MIN_DELAY_STEP: Duration = Duration::from_millis(10);
/// The largest window in segments that a profile has.
const WINDOW_MAX_SEGMENTS: u64 = 1 << 24;
/// A window is kept in 1024ths of a segment.
const FRACTION: u64 = 1 << 10;

/// Parameters of [`Verus`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct VerusParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// ε: how often the delay is judged, 1 ms to 1 s. Default 5 ms (\[VE\] §5.3).
    pub epoch: Duration,
    /// δ1: how far the delay falls when delays grow. Default 1 ms (\[VE\] §5.3).
    pub delta1: Duration,
    /// δ2: how far it rises else, and falls when delays are too long. Default 2 ms (\[VE\] §5.3).
    pub delta2: Duration,
    /// R: the longest delay over the shortest, in thousandths, above 1000. Default 2000 (\[VE\] §5.1; it
    /// shows 2, 4 and 6).
    pub ratio_permille: u64,
    /// Window that a loss leaves, in thousandths. Default 700 (authors' code: `VERUS_M_DECREASE`).
    pub loss_permille: u64,
    /// Interval at which the curve is drawn anew. Default 1 s (\[VE\] §5.3).
    pub curve_interval: Duration,
}

impl Default for VerusParams {
    fn default() -> Self {
        Self {
            mss: MSS_DEFAULT,
            initial_window_segments: 10,
            epoch: Duration::from_millis(5),
            delta1: Duration::from_millis(1),
            delta2: Duration::from_millis(2),
            ratio_permille: 2_000,
            loss_permille: 700,
            curve_interval: Duration::from_secs(1),
        }
    }
}

/// Phase of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Phase {
    /// W grows by what is acknowledged.
    SlowStart,
    /// Window by the curve.
    Delay,
    /// Phase after a loss, until something sent at a window of W or less is acknowledged.
    Loss,
}

/// Verus' window.
#[derive(Clone, Debug, stored::Stored)]
pub struct Verus {
    params: VerusParams,
    phase: Phase,
    /// W in 1024ths of a segment.
    window: u64,
    /// Dest.
    delay: Duration,
    profile: Box<Profile>,
    /// Time at which the epoch under way ends; none before the first event.
    epoch_ends_at: Option<Instant>,
    curve_drawn_at: Instant,
    /// The longest round trip of the epoch under way.
    epoch_max: Option<Duration>,
    /// Dmax.
    max_delay: Option<Duration>,
    /// Dmin.
    min_delay: Option<Duration>,
    smoothed: Duration,
    last_ack_at: Instant,
    /// All that was delivered or found lost.
    gone: u64,
    in_flight: u64,
    /// Values that `gone` will have once all that was sent until an epoch's end has arrived, and W in that
    /// epoch in segments.
    marks: VecDeque<(u64, u64)>,
    /// W and phase before the last time-out, should it have been none.
    before_timeout: Option<(u64, Phase)>,
}

impl Verus {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: VerusParams) -> Self {
        let ms = Duration::from_millis;
        let params = VerusParams {
            mss: params.mss.clamp(Bytes::new(1), Bytes::new(65_535)),
            initial_window_segments: params.initial_window_segments.clamp(1, 1 << 20),
            epoch: params.epoch.clamp(ms(1), ms(1_000)),
            delta1: params.delta1.min(ms(1_000)),
            delta2: params.delta2.min(ms(1_000)),
            ratio_permille: params.ratio_permille.clamp(1_001, 1_000_000),
            loss_permille: params.loss_permille.min(1_000),
            curve_interval: params.curve_interval.max(ms(1)),
        };
        Self {
            params,
            phase: Phase::SlowStart,
            window: params.initial_window_segments * FRACTION,
            delay: Duration::ZERO,
            profile: Box::new(Profile::new()),
            epoch_ends_at: None,
            curve_drawn_at: Instant::ZERO,
            epoch_max: None,
            max_delay: None,
            min_delay: None,
            smoothed: Duration::ZERO,
            last_ack_at: Instant::ZERO,
            gone: 0,
            in_flight: 0,
            marks: VecDeque::new(),
            before_timeout: None,
        }
    }

    fn segments(&self) -> u64 {
        self.window / FRACTION
    }

    fn set(&mut self, window: u64) {
        self.window = window.clamp(FRACTION, WINDOW_MAX_SEGMENTS * FRACTION);
    }

    /// Closes the epochs that have ended by `now`.
    fn advance(&mut self, now: Instant) {
        let epoch = self.params.epoch;
        let mut ends_at = *self.epoch_ends_at.get_or_insert(now + epoch);
        if now < ends_at {
            return;
        }
        let due = now.saturating_since(ends_at).as_nanos() / epoch.as_nanos() + 1;
        let skipped = due.saturating_sub(EPOCHS_AT_ONCE_MAX);
        ends_at += epoch * skipped;
        for _ in 0..due - skipped {
            self.close_epoch(ends_at);
            ends_at += epoch;
        }
        self.epoch_ends_at = Some(ends_at);
    }

    fn close_epoch(&mut self, now: Instant) {
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back((self.gone.saturating_add(self.in_flight), self.segments()));
        let longest = self.epoch_max.take();
        if self.in_flight == 0 || self.phase != Phase::Delay {
            return;
        }
        let Some(min_delay) = self.min_delay else { return };
        if now.saturating_since(self.curve_drawn_at) >= self.params.curve_interval {
            self.profile.draw();
            self.curve_drawn_at = now;
        }
        // Where nothing was acknowledged, what is under way takes at least as long as the silence.
        let silence = now.saturating_since(self.last_ack_at);
        let before = self.max_delay.unwrap_or(min_delay);
        let longest = longest.unwrap_or_else(|| before.max(silence));
        // [VE] (4), (5).
        let is_too_long = u128::from(before.as_nanos()) * 1_000
            > u128::from(min_delay.as_nanos()) * u128::from(self.params.ratio_permille);
        self.delay = if is_too_long {
            (self.delay - self.params.delta2).max(min_delay)
        } else if longest > before {
            (self.delay - self.params.delta1).max(min_delay)
        } else {
            self.delay + self.params.delta2
        };
        if is_too_long && self.delay == min_delay && self.segments() < 2 {
            self.min_delay = Some(min_delay + MIN_DELAY_STEP);
        }
        // [VE] (2) with the authors' weight of 0.2 for what was.
        self.max_delay = Some(before / 5 + (longest / 5) * 4);
        if let Some(window) = self.profile.window_for(self.delay) {
            self.set(window.saturating_mul(FRACTION));
        }
    }

    /// The window that what is acknowledged was sent at.
    fn window_of_acknowledged(&mut self) -> u64 {
        while self.marks.get(1).is_some_and(|_| self.marks.front().is_some_and(|&(due, _)| due < self.gone)) {
            self.marks.pop_front();
        }
        self.marks.front().map_or_else(|| self.segments(), |&(_, window)| window)
    }

    fn on_delay(&mut self, rtt: Duration, sent_at_window: u64) {
        self.epoch_max = Some(self.epoch_max.map_or(rtt, |max| max.max(rtt)));
        self.min_delay = Some(self.min_delay.map_or(rtt, |min| min.min(rtt)));
        self.smoothed = if self.smoothed.is_zero() { rtt } else { self.smoothed.mul_ratio(7, 8) + rtt / 8 };
        if self.phase != Phase::Loss {
            self.profile.learn(sent_at_window, rtt);
        }
    }

    /// 0.7 of what it was, and the delay that goes with it.
    fn reduce(&mut self, window: u64, delay: Duration) {
        self.set((window.saturating_mul(FRACTION) / 1_000).saturating_mul(self.params.loss_permille));
        self.delay = delay.max(self.min_delay.unwrap_or_default());
        self.phase = Phase::Loss;
    }
}

impl Controller for Verus {
    fn name(&self) -> &'static str {
        "verus"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.in_flight = ack.in_flight.get();
        self.advance(ack.now);
        if ack.delivered == Bytes::ZERO {
            return;
        }
        self.gone = self.gone.saturating_add(ack.delivered.get());
        self.last_ack_at = ack.now;
        let sent_at_window = self.window_of_acknowledged();
        if let Some(rtt) = ack.rtt {
            self.on_delay(rtt, sent_at_window);
        }
        let acked = Bytes::new(ack.delivered.get()).mul_ratio(FRACTION, self.params.mss.get()).get();
        match self.phase {
            Phase::SlowStart if ack.rtt.is_some_and(|rtt| rtt > START_RTT_MAX) => {
                let allowed = self.min_delay.unwrap_or_default().mul_ratio(self.params.ratio_permille, 1_000);
                self.reduce(sent_at_window, allowed.mul_ratio(START_DELAY_PERCENT, 100));
            }
            Phase::SlowStart if ack.is_window_limited || self.segments() < 2 * sent_at_window => {
                self.set(self.window.saturating_add(acked));
            }
            Phase::SlowStart | Phase::Delay => {}
            Phase::Loss if sent_at_window > self.segments() || ack.is_recovering => {
                let growth = u128::from(acked) * u128::from(FRACTION) / u128::from(self.window.max(1));
                self.set(self.window.saturating_add(u64::try_from(growth).unwrap_or(u64::MAX)));
            }
            Phase::Loss => {
                self.phase = Phase::Delay;
                self.max_delay = None;
                self.profile.draw();
                self.curve_drawn_at = ack.now;
                if let Some(delay) = self.profile.delay_at(self.segments()) {
                    self.delay = self.delay.min(delay).max(self.min_delay.unwrap_or_default());
                }
            }
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.in_flight = loss.in_flight.get();
        self.advance(loss.now);
        let lost_at_window = self.window_of_acknowledged();
        self.gone = self.gone.saturating_add(loss.lost.get());
        if !loss.is_new_event {
            return;
        }
        if loss.kind == LossKind::Timeout {
            // [VE] §5.2: time-outs are TCP's: RFC 5681 §3.1's loss window, then slow start.
            self.before_timeout = Some((self.window, self.phase));
            let segments = loss.in_flight.get() / self.params.mss.get() + 1;
            self.set(segments.saturating_mul(FRACTION));
            self.phase = Phase::SlowStart;
        } else {
            self.reduce(lost_at_window, self.delay);
        }
    }

    fn on_send(&mut self, sent: &Sent) {
        if sent.in_flight == Bytes::ZERO {
            self.last_ack_at = sent.now;
        }
        self.advance(sent.now);
        self.in_flight = sent.in_flight.get().saturating_add(sent.bytes.get());
    }

    fn on_undo(&mut self, _now: Instant) {
        if let Some((window, phase)) = self.before_timeout.take() {
            self.set(self.window.max(window));
            self.phase = phase;
        }
    }

    fn control(&self) -> Control {
        let window = Bytes::new(self.params.mss.get().saturating_mul(self.segments()));
        // [VE] (6) sends W over the n − 1 epochs that a round trip has besides one.
        let spread = self.smoothed - self.params.epoch;
        let is_spread = self.phase != Phase::SlowStart && spread > self.params.epoch;
        Control {
            window,
            pacing_rate: if is_spread { Rate::from_transfer(window, spread) } else { Rate::MAX },
            send_quantum: self.params.mss,
        }
    }
}

#[cfg(test)]
#[path = "verus/tests.rs"]
mod tests;
