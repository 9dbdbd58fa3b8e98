//! [`Predictor`]: the queue that what is sent at this moment will find.
//!
//! A report that was measured at t is a while old when it arrives, and the next one may be lost.
//! Since t more was sent, which is known, and more was carried, of which acknowledgements tell a
//! part and the bandwidth the rest:
//!
//! ```text
//!   q(t + 1 ms) = max(0, q(t) − carried(t, t + 1 ms)) + sent(t − f, t + 1 ms − f)    f: forward delay
//!   carried(t, s) = acknowledged(t + r, s + r) if s + r ≤ now, else b·(s − t)         r: smallest round trip
//!   q ≤ in flight
//! ```
//!
//! Noise: the reported queue q̂ corrects the reckoned one by a share only (an observer of (1) with
//! gain k), and the bandwidth is averaged over time, so that lost reports change neither weight nor
//! meaning:
//!
//! ```text
//!   q(t) ← q⁻(t) + k·(q̂(t) − q⁻(t))        b ← b + (b̂ − b)·Δ ÷ (Δ + memory)
//! ```
//!
//! Aim: the queue is held at T·b. How long T must be depends on how the link varies within the
//! blind time, so it is learned from what went unused while there was data to send: T grows with
//! every byte that could have been carried and was not there, and falls steadily otherwise, so that
//! in the long run a share ε of the capacity is unused:
//!
//! ```text
//!   T ← T·(1 + (unused − ε·capacity) ÷ what is usually carried in a second)
//! ```

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant, Rate};

use super::WindowAdaptationParams;
use crate::{Feedback, PACKET, RateSample};

/// Sends and deliveries are remembered for this long: reports older than that are useless (ours).
const MEMORY: Duration = Duration::from_secs(2);

/// Resolution of that memory (ours).
const GRAIN: Duration = Duration::from_millis(1);

/// Longest stretch of the past that is replayed: of older reports the end (ours).
const REPLAY_MAX: Duration = Duration::from_millis(500);

/// Bytes of the shortest queue aimed at: two packets, or the link would idle between two acknowledgements.
const TARGET_MIN: u64 = 2 * PACKET.get();

/// Limits of T: below it rounding to packets rules, above it a queue is no longer short (ours).
const TARGET_TIMES: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(150));

/// Time whose usual deliveries double T when they go unused (ours).
const TARGET_LEARNING: Duration = Duration::from_millis(1_000);

/// Memory of what is usual (ours).
const USUAL_MEMORY: Duration = Duration::from_secs(5);

/// Factor by which a throughput, which is no more than a lower bound while nothing waits, is raised
/// to find the bandwidth.
const PROBE: (u64, u64) = (5, 4);

/// Totals at a point of time, in bytes of IP packets.
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
struct Totals {
    at: Instant,
    sent: u64,
    delivered: u64,
}

/// Estimate that a report left behind.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Estimate {
    at: Instant,
    queue: u64,
}

#[derive(Clone, Debug, stored::Stored)]
pub(super) struct Predictor {
    target: Duration,
    idle_permille: u64,
    /// The sender could use more than it is allowed.
    is_limited: bool,
    target_memory: Duration,
    forecast_memory: Duration,
    observer_permille: u64,
    forward_delay: Duration,
    /// Totals after each grain of time in which something happened.
    history: VecDeque<Totals>,
    totals: Totals,
    min_rtt: Option<Duration>,
    delivery_rate: Option<Rate>,
    /// The queue when the last report was measured.
    estimate: Option<Estimate>,
    /// The queue that what is sent at this moment will find.
    present: Option<Estimate>,
    /// Averages of the bandwidth: of the forecast, of the aim.
    forecast: Option<Rate>,
    level: Option<Rate>,
    /// And over seconds, to weigh bytes by.
    usual: Option<Rate>,
}

impl Predictor {
    pub(super) fn new(params: &WindowAdaptationParams) -> Self {
        Self {
            target: params.target,
            idle_permille: u64::from(params.idle_permille),
            is_limited: false,
            target_memory: params.target_memory,
            forecast_memory: params.forecast_memory,
            observer_permille: u64::from(params.observer_permille.clamp(1, 1_000)),
            forward_delay: params.forward_delay,
            history: VecDeque::new(),
            totals: Totals::default(),
            min_rtt: None,
            delivery_rate: None,
            estimate: None,
            present: None,
            forecast: None,
            level: None,
            usual: None,
        }
    }

    /// The bandwidth forecast, once there is one.
    pub(super) fn bandwidth(&self) -> Option<Rate> {
        self.forecast
    }

    /// T, the queue aimed at as time.
    #[cfg(test)]
    pub(super) fn target(&self) -> Duration {
        self.target
    }

    pub(super) fn on_sent(&mut self, wire: u64, now: Instant) {
        self.advance(wire, now);
        self.totals.sent += wire;
        self.remember(now);
    }

    /// Notes whether the sender of late had more to send than it was allowed.
    pub(super) fn note_limited(&mut self, is_limited: bool) {
        self.is_limited = is_limited;
    }

    pub(super) fn on_delivered(
        &mut self,
        wire: u64,
        rate: Option<RateSample>,
        min_rtt: Option<Duration>,
        now: Instant,
    ) {
        self.totals.delivered += wire;
        self.min_rtt = min_rtt.or(self.min_rtt);
        if let Some(sample) = rate.filter(|sample| !sample.is_app_limited) {
            self.delivery_rate = Some(sample.rate);
        }
        self.remember(now);
    }

    fn remember(&mut self, now: Instant) {
        self.totals.at = now;
        match self.history.back_mut() {
            Some(last) if now.saturating_since(last.at) < GRAIN => {
                (last.sent, last.delivered) = (self.totals.sent, self.totals.delivered);
            }
            _ => self.history.push_back(self.totals),
        }
        while self.history.len() > 1 && self.history.front().is_some_and(|t| t.at + MEMORY < now) {
            self.history.pop_front();
        }
    }

    /// Totals at `at`, as far back as is remembered.
    fn totals_at(&self, at: Instant) -> Totals {
        let after = self.history.partition_point(|totals| totals.at <= at);
        match after.checked_sub(1).and_then(|index| self.history.get(index)) {
            Some(totals) => *totals,
            // Before the first: nothing was sent, or it is forgotten and all remembered is later.
            None => self.history.front().map_or(self.totals, |first| *first),
        }
    }

    /// Takes in a report; false for one that is older than the last, which says nothing new.
    pub(super) fn on_report(&mut self, report: &Feedback, in_flight: u64) -> bool {
        let at = report.sampled_at();
        let last = self.estimate.map(|estimate| estimate.at);
        if last.is_some_and(|last| at <= last) {
            return false;
        }
        let elapsed = last.map(|last| at.saturating_since(last));
        if let Some(reported) = report.bandwidth.or(self.delivery_rate) {
            let is_bound = report.is_throughput && report.queue.is_none_or(|q| q.get() < TARGET_MIN);
            let b = if is_bound { self.probed(reported) } else { reported };
            self.forecast = Some(average(self.forecast, b, elapsed, self.forecast_memory));
            self.level = Some(average(self.level, b, elapsed, self.target_memory));
        }
        // What it was when measured, reckoned with the bandwidth of this very interval.
        let carried = report.bandwidth.or(self.forecast).unwrap_or(Rate::ZERO);
        let reckoned = self.estimate.take().map(|estimate| {
            let there = estimate.queue + self.sent_between(estimate.at, at);
            let capacity = carried.bytes_in(at.saturating_since(estimate.at)).get();
            self.learn(there, capacity, at.saturating_since(estimate.at));
            there.saturating_sub(capacity)
        });
        let queue = match (reckoned, report.queue.map(Bytes::get)) {
            (Some(reckoned), Some(reported)) => self.correct(reckoned, reported),
            (None, Some(reported)) => reported,
            (reckoned, None) => reckoned.unwrap_or(0).min(in_flight),
        };
        self.estimate = Some(Estimate { at, queue });
        let recent = Estimate { at: at.max(report.now - REPLAY_MAX), queue };
        self.present = Some(self.replay(recent, report.now));
        true
    }

    /// Moves T by what of `capacity` went unused in a step in which `there` bytes were there to be carried.
    fn learn(&mut self, there: u64, capacity: u64, step: Duration) {
        let reported = Rate::from_transfer(Bytes::new(capacity), step);
        let usual = average(self.usual, reported, Some(step), USUAL_MEMORY);
        self.usual = Some(usual);
        if !self.is_limited || self.idle_permille == 0 {
            return;
        }
        let unused = i128::from(capacity.saturating_sub(there));
        let allowed = i128::from(capacity) * i128::from(self.idle_permille) / 1_000;
        let usual = i128::from(usual.bytes_in(TARGET_LEARNING).get()).max(1);
        let old = i128::from(self.target.as_nanos());
        // At most doubled or halved at once, whatever a single report says.
        let new = old + old * (unused - allowed).clamp(-usual / 2, usual) / usual;
        let new = Duration::from_nanos(u64::try_from(new).unwrap_or(0));
        self.target = new.clamp(TARGET_TIMES.0, TARGET_TIMES.1);
    }

    /// A throughput is at least doubled in a few reports while it finds the queue empty.
    fn probed(&self, reported: Rate) -> Rate {
        reported.max(self.forecast.unwrap_or(Rate::ZERO)).mul_ratio(PROBE.0, PROBE.1)
    }

    /// q⁻ + k·(q̂ − q⁻).
    fn correct(&self, reckoned: u64, reported: u64) -> u64 {
        let deviation = i128::from(reported) - i128::from(reckoned);
        let corrected = i128::from(reckoned) + deviation * i128::from(self.observer_permille) / 1_000;
        u64::try_from(corrected.max(0)).unwrap_or(u64::MAX)
    }

    /// Bytes that reach the queue between two points of time.
    fn sent_between(&self, from: Instant, to: Instant) -> u64 {
        let at = |t: Instant| self.totals_at(t - self.forward_delay).sent;
        at(to).saturating_sub(at(from))
    }

    /// Bytes of IP packets that may be sent at `now` with `in_flight` bytes in flight.
    pub(super) fn room(&self, now: Instant, in_flight: u64) -> u64 {
        let (Some(present), Some(forecast), Some(level)) = (self.present, self.forecast, self.level) else {
            return 0;
        };
        let target = level.bytes_in(self.target).get().max(TARGET_MIN);
        let carried = forecast.bytes_in(now.saturating_since(present.at)).get();
        target.saturating_sub(present.queue.saturating_sub(carried).min(in_flight))
    }

    /// Moves the queue of the present on: carried away at the forecast rate, and then `sent` bytes more.
    fn advance(&mut self, sent: u64, now: Instant) {
        let (Some(present), Some(forecast)) = (self.present.as_mut(), self.forecast) else { return };
        let carried = forecast.bytes_in(now.saturating_since(present.at)).get();
        *present = Estimate { at: now.max(present.at), queue: present.queue.saturating_sub(carried) + sent };
    }

    /// The queue at `now`, from that of a report through everything that has happened since.
    ///
    /// A grain at a time, because capacity that finds nothing to carry is gone.
    fn replay(&self, from: Estimate, now: Instant) -> Estimate {
        let forecast = self.forecast.unwrap_or(Rate::ZERO);
        let (mut at, mut queue) = (from.at, from.queue);
        let mut sent = self.totals_at(at - self.forward_delay).sent;
        let mut delivered = self.min_rtt.map(|back| self.totals_at(at + back).delivered);
        while at < now {
            let next = (at + GRAIN).min(now);
            let known = self.min_rtt.filter(|&back| next + back <= now);
            let carried = match (known, delivered) {
                (Some(back), Some(before)) => {
                    let after = self.totals_at(next + back).delivered;
                    delivered = Some(after);
                    after.saturating_sub(before)
                }
                _ => forecast.bytes_in(next.saturating_since(at)).get(),
            };
            let sent_by_then = self.totals_at(next - self.forward_delay).sent;
            queue = queue.saturating_sub(carried) + sent_by_then.saturating_sub(sent);
            (at, sent) = (next, sent_by_then);
        }
        // What is still on its way there will be there when what is sent at this moment arrives.
        Estimate { at: now, queue: queue + self.totals.sent.saturating_sub(sent) }
    }
}

/// An average over time: a report after a long silence counts more than one of many.
fn average(old: Option<Rate>, new: Rate, elapsed: Option<Duration>, memory: Duration) -> Rate {
    let (Some(old), Some(elapsed)) = (old, elapsed) else { return new };
    let (old, new) = (i128::from(old.as_bps()), i128::from(new.as_bps()));
    let (elapsed, memory) = (i128::from(elapsed.as_nanos()), i128::from(memory.as_nanos()));
    let average = old + (new - old) * elapsed / (elapsed + memory).max(1);
    Rate::from_bps(u64::try_from(average.max(0)).unwrap_or(u64::MAX))
}
