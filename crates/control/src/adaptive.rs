//! `adaptive`: this project's own control for one subscriber's radio link; the default of `run`.
//!
//! A cellular link has one queue per device and offers what the scheduler and the radio allow:
//! tenfold more or less within a second, nothing at all for whole seconds, in bunches. What is lost
//! of it cannot be had again, and what waits too long hurts everything else the device does. So the
//! data in flight is bounded, and acknowledgements clock it out, such that the queue outlives the
//! link's better moments and no more:
//!
//! ```text
//!   W = min( K + (τ + d)·r̂ ,  K′ + (τ + D)·r̄ )
//!
//!   r̂   forecast: 0.7 × the 0.7 quantile + 0.3 × the largest of the last N bins of deliveries
//!   r̄   mean of the last M bins
//!   τ   round trip of the path without a queue (its floor)
//!   d   headroom: as much queue, in time, as keeps the link from running dry more than a share φ of the time
//!   K   constant part: what a link too slow for the rest needs to be busy
//! ```
//!
//! - **Forecast.** A link that varies is kept busy by provision for its good moments, not for its
//!   mean: hence the upper quantile of a short memory. The second bound holds the queue down once
//!   the link has become slower for longer than a bin or two: no packet shall wait for more than D
//!   at the rate of the last moments.
//! - **Headroom.** An acknowledgement with a round trip near τ says that the queue was empty: the
//!   link may have been idle. d follows these as a quantile is followed: up by 1 − φ, down by φ, so
//!   that it rests where the share of such acknowledgements is φ. On a steady link it falls to its
//!   least, on a jumpy one it grows.
//! - **Bunches.** Acknowledgements that come together every so often, because the uplink gets its
//!   turn so seldom, make the path longer by their spacing: see `bunches.rs`.
//! - **Bursts.** What radio repairs hold back and let go at once, again and again, is in flight on
//!   top: see `bursts.rs`.
//! - **Long repairs** make the path longer by what they hold back, which looks like a queue: see
//!   `head_of_line.rs`.
//! - **Outages.** Without acknowledgements nothing is sent, after a time-out no more than a segment
//!   at a time, where data has been lost of late 32: that may be a burst of losses, which waiting
//!   alone does not end. Bins last no longer than their cap, so that the forecast of before still
//!   stands after.
//! - **Losses** say nothing, except that more than an eighth of the data lost in each of three
//!   round trips in a row may mean a buffer smaller than W: then W is bounded by what the buffer
//!   takes, if that is seen to help. See `losses.rs`.
//! - **Floor.** See `floor.rs`: let down for one round trip when it has not been seen for 10 s (H17).
//! - **Known subscribers.** What was learnt stays while the subscriber is idle, up to `memory`: a
//!   new flow starts with the whole window. A new one starts with `initial_window` and doubles
//!   until a queue shows.
//! - **Feedback.** While the base station reports, its bandwidth fills the bins.
//!
//! Integer arithmetic; the parameters come from `docs/algorithms/adaptive.md`'s sweep.

mod bunches;
mod bursts;
mod floor;
mod grain;
mod head_of_line;
mod losses;
mod offer;
mod terms;

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Control, Controller, Feedback, Loss, LossKind, MSS_DEFAULT, Sent, quantum_for};

use bunches::Bunches;
use bursts::Bursts;
use floor::Floor;
use grain::Grain;
use head_of_line::{HeadOfLineBlocking, Observation};
use losses::Losses;
use offer::Offer;
pub use terms::{Term, Terms};

/// Bins of r̄: the link's last moments.
const RECENT_BINS: usize = 4;

/// So many windows' worth of acknowledgements that met no queue, one after the other, and the link
/// is taken to have become better.
const DRY_WINDOWS: u64 = 2;

/// An acknowledgement that met a queue weighs as much as so many that met none.
const WET_WEIGHT: u64 = 4;

/// Grains of the link that a bin of deliveries takes in.
const GRAINS_PER_BIN: u64 = 2;

/// Shorter bins than this part of the path's round trip tell nothing that could be acted on.
const BINS_PER_ROUND_TRIP: u64 = 8;

/// Bins are so many times shorter than on a coarse link at most: of a few segments each on links of
/// some Mbit/s.
const FINEST: u64 = 12;

/// Data in flight is never held below so many segments: fewer starve delayed acknowledgements.
const SEGMENTS_MIN: u64 = 4;

/// What may be in flight after a time-out: all flows' first segments go anyway.
const SILENT_SEGMENTS: u8 = 1;

/// The same where losses have been seen of late.
const RETRY_SEGMENTS: u8 = 32;

/// How long a loss is late.
const LOSS_MEMORY: Duration = Duration::from_secs(10);

/// How much sooner than the link takes it data is handed over: pacing keeps bursts off the wire,
/// not the queue low.
const PACING_GAIN: u64 = 2;

/// The same over round trips that are longer by what repairs hold back, in per cent: what is let go at once
/// would else be sent at once and be a queue.
const HELD_PACING_PERCENT: u64 = 150;

/// For how long a window counts as used.
const USE_MEMORY: Duration = Duration::from_secs(1);

/// The queue a start provides for and ends at, in round trips of a path so short that this is less
/// than half of the largest headroom: such a path hardly varies more than it takes itself.
const START_ROUND_TRIPS: u64 = 4;

/// Parameters of [`Adaptive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveParams {
    /// B: the shortest bin of deliveries. 30 ms; 5 ms to 1 s.
    pub bin: Duration,
    /// N: bins of the forecast. 32; 3 to 32.
    pub bins: u32,
    /// K: the constant part of the window. 6,000 bytes.
    pub constant: Bytes,
    /// Least headroom; a quarter of the floor where that is more. 12 ms.
    pub headroom_min: Duration,
    /// Largest headroom; the floor where that is more. 48 ms.
    pub headroom_max: Duration,
    /// φ: share of the time, in thousandths, for which the queue may be empty. 20.
    pub starved_permille: u32,
    /// How fast the headroom follows: so much per second of an empty queue. 80 ms.
    pub headroom_gain: Duration,
    /// A round trip so little above the floor says that the queue was empty. 5 ms.
    pub starved_below: Duration,
    /// D: longest queueing time at the rate of the last moments. 100 ms.
    pub delay_max: Duration,
    /// Data in flight of a subscriber never seen before. 32 KiB.
    pub initial_window: Bytes,
    /// For how long an idle subscriber's link is remembered. 60 s.
    pub memory: Duration,
    /// Terms that are left out, to measure what they are worth. None.
    pub without: Terms,
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
}

impl Default for AdaptiveParams {
    fn default() -> Self {
        Self {
            bin: Duration::from_millis(30),
            bins: 32,
            constant: Bytes::new(6_000),
            headroom_min: Duration::from_millis(12),
            headroom_max: Duration::from_millis(48),
            starved_permille: 20,
            headroom_gain: Duration::from_millis(80),
            starved_below: Duration::from_millis(5),
            delay_max: Duration::from_millis(100),
            initial_window: Bytes::from_kib(32),
            memory: Duration::from_secs(60),
            without: Terms::NONE,
            mss: MSS_DEFAULT,
        }
    }
}

/// This project's own controller.
#[derive(Clone, Debug)]
pub struct Adaptive {
    params: AdaptiveParams,
    offer: Offer,
    grain: Grain,
    floor: Floor,
    headroom: Duration,
    /// Acknowledged of late without a queue.
    dry: Bytes,
    /// The window of a start, until the first queue shows.
    start: Option<Bytes>,
    losses: Losses,
    /// What may be in flight, in segments, since a time-out until something is heard.
    silent: Option<u8>,
    /// When later data had last shown a loss that no time-out had come before.
    lost_at: Instant,
    window: Bytes,
    /// When the window was in use last.
    limited_at: Instant,
    pacing_rate: Rate,
    last_ack: Instant,
    bunches: Bunches,
    bursts: Bursts,
    blocking: HeadOfLineBlocking,
    reports_valid_until: Instant,
}

impl Adaptive {
    /// A controller for a subscriber never seen before.
    #[must_use]
    pub fn new(params: AdaptiveParams) -> Self {
        let mut new = Self {
            offer: Offer::new(params.bin, params.bins as usize),
            grain: Grain::new(),
            floor: Floor::new(),
            headroom: params.headroom_max / 2,
            dry: Bytes::ZERO,
            start: Some(params.initial_window),
            losses: Losses::new(params.mss, !params.without.has(Term::Trials)),
            silent: None,
            lost_at: Instant::ZERO,
            window: params.initial_window,
            limited_at: Instant::ZERO,
            pacing_rate: Rate::MAX,
            last_ack: Instant::ZERO,
            bunches: Bunches::new(),
            bursts: Bursts::new(),
            blocking: HeadOfLineBlocking::default(),
            reports_valid_until: Instant::ZERO,
            params,
        };
        new.update();
        new
    }

    /// r̂, once three bins are known.
    #[must_use]
    pub fn forecast(&self) -> Option<Rate> {
        self.offer.forecast()
    }

    /// τ, once there was a round trip.
    #[must_use]
    pub fn floor(&self) -> Option<Duration> {
        self.floor.get()
    }

    /// d: the standing queue provided for, as time at the forecast rate.
    #[must_use]
    pub fn headroom(&self) -> Duration {
        self.headroom
    }

    /// The law has `term`.
    fn has(&self, term: Term) -> bool {
        !self.params.without.has(term)
    }

    /// What a buffer smaller than the window takes.
    fn ceiling(&self) -> Option<Bytes> {
        self.losses.ceiling().filter(|_| self.has(Term::Ceiling))
    }

    /// T, for which repairs hold back.
    fn blocked_for(&self) -> Duration {
        if self.has(Term::Blocking) { self.blocking.time() } else { Duration::ZERO }
    }

    /// The data in flight is let down to measure the floor.
    fn is_draining(&self) -> bool {
        self.floor.is_draining() && self.has(Term::Drain)
    }

    /// A time that fits a coarse link, on the scale of this one.
    fn scaled(&self, time: Duration) -> Duration {
        time.mul_ratio(self.offer.length().as_nanos(), self.params.bin.as_nanos().max(1))
    }

    /// B: two grains, at least a part of the path, at most the parameter.
    fn adapt_bins(&mut self) {
        if let (Some(grain), Some(floor)) = (self.grain.get(), self.floor.get())
            && self.has(Term::Grain)
        {
            let least = (floor / BINS_PER_ROUND_TRIP).max(self.params.bin / FINEST).min(self.params.bin);
            self.offer.set_length((grain * GRAINS_PER_BIN).clamp(least, self.params.bin));
        }
    }

    /// D: longest queueing time at the rate of the last moments.
    fn delay_max(&self, floor: Duration) -> Duration {
        self.scaled(self.params.delay_max).max(floor).max(self.params.headroom_min)
    }

    fn headroom_range(&self) -> (Duration, Duration) {
        let floor = self.floor.get().unwrap_or(Duration::ZERO);
        let least = self.scaled(self.params.headroom_min).max(floor / 4).max(self.params.starved_below);
        let most = self.scaled(self.params.headroom_max).max(floor).max(self.params.headroom_min);
        (least, most.max(least))
    }

    /// δ: a round trip so little above the floor met no queue. What the link's grain adds is none.
    fn near(&self, floor: Duration) -> Duration {
        let grain = self.grain.get().unwrap_or(self.params.starved_below);
        grain.min(self.params.starved_below).max(floor / 16)
    }

    /// d follows the share of acknowledgements that found the queue empty.
    fn adapt_headroom(&mut self, rtt: Duration, delivered: Bytes) {
        let (Some(floor), Some(forecast)) = (self.floor.get(), self.offer.forecast()) else { return };
        let time = forecast.time_for(delivered).min(Duration::from_millis(100));
        let step = self.params.headroom_gain.mul_ratio(time.as_nanos(), 1_000_000_000);
        let phi = u64::from(self.params.starved_permille.min(1_000));
        if rtt < floor + self.near(floor) {
            self.headroom += step.mul_ratio(1_000 - phi, 1_000);
            self.dry += delivered;
        } else {
            self.headroom -= step.mul_ratio(phi, 1_000);
            self.dry = self.dry.saturating_sub(Bytes::new(delivered.get() * WET_WEIGHT));
        }
        let is_dry = self.dry.get() >= self.window.get() * DRY_WINDOWS && self.has(Term::Restart);
        if is_dry && self.ceiling().is_none() {
            // The link has become much better: find out by how much, as at the start.
            self.start = Some(self.window);
            self.dry = Bytes::ZERO;
        }
        let (least, most) = self.headroom_range();
        self.headroom = if self.has(Term::Headroom) { self.headroom.clamp(least, most) } else { most / 2 };
    }

    /// Pacing is what keeps the path empty: a segment takes longer by it than the way there and back.
    fn leaves_path_empty(&self) -> bool {
        let segment = self.pacing_rate.time_for(self.params.mss);
        self.has(Term::SlowPace)
            && self.start.is_none()
            && self.silent.is_none()
            && self.floor.get().is_some_and(|floor| segment > floor)
    }

    fn leave_start(&mut self, ack: &Ack) {
        let Some(window) = self.start else { return };
        let (Some(rtt), Some(floor)) = (ack.rtt, self.floor.get()) else { return };
        let (least, most) = self.headroom_range();
        let queue = if self.has(Term::ShortStart) { floor * START_ROUND_TRIPS } else { most };
        let is_queueing = rtt > floor + self.blocked_for() + least.max((most / 2).min(queue));
        let is_full = is_queueing || self.ceiling().is_some();
        let used = if self.has(Term::HalfUse) { window.get() / 2 } else { window.get() };
        if is_full && self.offer.forecast().is_some() {
            self.start = None;
        } else if ack.in_flight_before.get() >= used && !is_queueing {
            // Half of it in use is use enough (as in RFC 7661 §4.4): pacing has not yet sent what
            // the growth allows.
            self.start = Some(window + ack.delivered);
        }
    }

    /// W without floor measurement and ceiling.
    fn model(&self) -> Option<Bytes> {
        let (floor, forecast) = (self.floor.get()?, self.offer.forecast()?);
        let spacing = if self.has(Term::Bunches) { self.bunches.delay(floor) } else { Duration::ZERO };
        let path = floor + spacing;
        let delay_max = self.delay_max(floor);
        let burst =
            self.bursts.surplus(self.losses.is_steady()).min(forecast.bytes_in(self.params.delay_max));
        let held = self.held(forecast);
        let on_top = if self.has(Term::Bursts) { burst.max(held) } else { held };
        let constant = if self.has(Term::Constant) { self.params.constant } else { Bytes::ZERO };
        let provided = forecast.bytes_in(path + self.headroom) + constant + on_top;
        if !self.has(Term::Patience) {
            return Some(provided);
        }
        let recent = self.offer.recent(RECENT_BINS).unwrap_or(forecast);
        let patient = recent.bytes_in(path + delay_max) + constant + constant + on_top;
        Some(provided.min(patient))
    }

    /// The mean of a time that is long beside any repair.
    fn mean(&self) -> Option<Rate> {
        self.offer.average()
    }

    /// What repairs hold back.
    fn held(&self, forecast: Rate) -> Bytes {
        // As it has been so far the mean is that of a link that was idle.
        let rate = if self.blocking.is_on_trial() { forecast } else { self.mean().unwrap_or(forecast) };
        rate.bytes_in(self.blocked_for())
    }

    fn update(&mut self) {
        let least = Bytes::new(self.params.mss.get().saturating_mul(SEGMENTS_MIN));
        let model = self.model();
        let mut window = match (self.start, model) {
            (Some(start), model) => start.max(model.unwrap_or(start)),
            (None, model) => model.unwrap_or(self.params.initial_window),
        };
        if let Some(ceiling) = self.ceiling() {
            window = window.min(ceiling);
        }
        let floor = self.floor.get();
        if self.is_draining()
            && let (Some(floor), Some(forecast)) = (floor, self.offer.forecast())
        {
            window = window.min(forecast.bytes_in(floor / 2));
        }
        self.window = match self.silent {
            Some(segments) => Bytes::new(self.params.mss.get().saturating_mul(u64::from(segments))),
            None => window.max(least),
        };
        self.pacing_rate = match floor {
            Some(floor) => {
                let by_window = Rate::from_transfer(self.window, floor.max(Duration::from_millis(1)));
                let known = self.offer.forecast().unwrap_or(by_window);
                // The window may leave within the longest time that it may wait, however little the
                // link was seen to carry.
                let known = known.max(Rate::from_transfer(self.window, floor + self.delay_max(floor)));
                // Where the client's window limits, or the data, ours has room for what would only
                // queue. A start is to find out what the link takes beyond what is known.
                let is_used = self.last_ack.saturating_since(self.limited_at) < USE_MEMORY;
                let is_ours = is_used || self.start.is_some() || !self.has(Term::IdlePace);
                match self.blocked_for() {
                    held if held > floor && self.has(Term::HeldPace) => {
                        Rate::from_transfer(self.window, floor + held).mul_ratio(HELD_PACING_PERCENT, 100)
                    }
                    _ if is_ours => by_window.max(known).mul_ratio(PACING_GAIN, 1),
                    _ => known.mul_ratio(PACING_GAIN, 1),
                }
            }
            None => Rate::MAX,
        };
    }
}

impl Controller for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn on_send(&mut self, sent: &Sent) {
        self.blocking.on_send(sent.now);
        if sent.in_flight > Bytes::ZERO {
            return;
        }
        self.floor.on_idle(sent.now);
        if sent.now.saturating_since(self.last_ack) > self.params.memory && self.last_ack > Instant::ZERO {
            self.offer.forget();
            self.losses = Losses::new(self.params.mss, self.has(Term::Trials));
            self.blocking = HeadOfLineBlocking::default();
            let floor = self.floor.get().unwrap_or(self.params.headroom_max);
            self.headroom = (self.params.headroom_max / 2).min(floor * START_ROUND_TRIPS);
            self.start = Some(self.params.initial_window);
            self.update();
        }
        self.offer.restart(sent.now);
        if !sent.is_app_limited && self.leaves_path_empty() {
            // Data waits, and yet nothing is under way: no acknowledgement can tell what the link
            // takes as long as our own pace is so slow.
            self.start = Some(self.window);
            self.update();
        }
    }

    fn on_round_trip(&mut self, rtt: Duration, now: Instant) {
        self.floor.on_handshake(rtt, now);
        if self.start.is_some()
            && let Some(floor) = self.floor.get()
        {
            self.headroom = self.headroom.min(floor * START_ROUND_TRIPS);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.last_ack = ack.now;
        self.silent = None;
        let is_limited = self.bunches.count(ack.is_window_limited, ack.now);
        if is_limited {
            self.limited_at = ack.now;
        }
        if let Some(rtt) = ack.rtt {
            self.floor.update(rtt, is_limited, ack.now);
            if is_limited && !self.is_draining() && self.start.is_none() {
                self.adapt_headroom(rtt, ack.delivered);
            }
        }
        let is_limited = is_limited && !self.is_draining();
        if let (Some(forecast), Some(floor)) = (self.offer.forecast(), self.floor.get()) {
            self.bursts.count(ack.delivered, is_limited, forecast, floor, ack.now);
            let is_longer = self.blocking.on_ack(&Observation {
                bytes: ack.delivered,
                in_flight: ack.in_flight_before,
                over_floor: ack.rtt.map(|rtt| rtt.saturating_sub(floor)),
                is_limited,
                mean: self.mean().unwrap_or(forecast),
                usual: (floor + self.params.headroom_max) * 2,
                path: forecast.bytes_in(floor),
                now: ack.now,
            });
            if is_longer && self.has(Term::Blocking) && self.ceiling().is_none() {
                // What looked like a queue was none.
                self.start = Some(self.window);
            }
        }
        self.grain.count(is_limited, ack.now);
        self.adapt_bins();
        if ack.now >= self.reports_valid_until {
            self.offer.count(ack.delivered, is_limited, ack.now);
        }
        let round_trip = ack.rtt.or(self.floor.get()).unwrap_or(Duration::from_millis(100));
        self.losses.on_delivered(ack.delivered, self.window, round_trip, ack.now);
        self.leave_start(ack);
        self.update();
    }

    fn on_loss(&mut self, loss: &Loss) {
        match loss.kind {
            LossKind::Fast => {
                self.losses.on_lost(loss.lost);
                if loss.is_new_event {
                    // What is found after a time-out may still wait in the radio's queue.
                    self.lost_at = loss.now;
                }
            }
            // An outage, most likely: the data still waits in the radio's queue, and the window's
            // worth of it once more behind it would double that queue. So ask with little until
            // something is heard. A radio that loses data may have lost all of it: a burst of
            // losses passes with what is sent, not with time alone.
            LossKind::Timeout => {
                let is_lossy =
                    self.lost_at > Instant::ZERO && loss.now.saturating_since(self.lost_at) < LOSS_MEMORY;
                let segments =
                    if is_lossy && self.has(Term::Retry) { RETRY_SEGMENTS } else { SILENT_SEGMENTS };
                self.silent = self.has(Term::Silence).then_some(segments);
                self.update();
            }
        }
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        if let Some(bandwidth) = feedback.bandwidth.filter(|_| !feedback.is_throughput) {
            self.reports_valid_until = feedback.valid_until(self.params.bin * 5);
            // Reports count whole packets, windows payload; bins of B each.
            let payload = bandwidth.mul_ratio(self.params.mss.get(), self.params.mss.get() + 52);
            self.offer.report(payload, feedback.now);
            self.update();
        }
    }

    fn control(&self) -> Control {
        Control {
            window: self.window,
            pacing_rate: self.pacing_rate,
            send_quantum: quantum_for(self.pacing_rate, self.params.mss),
        }
    }
}

#[cfg(test)]
#[path = "adaptive/tests.rs"]
mod tests;
