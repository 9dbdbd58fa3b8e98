//! `adaptive`: this project's own control for one subscriber's radio link; the default of `run`.
//!
//! A cellular link has one queue per device and offers what the scheduler and the radio allow:
//! tenfold more or less within a second, nothing at all for whole seconds, in bunches. What is lost
//! of it cannot be had again, and what waits too long hurts everything else the device does. So the
//! data in flight is bounded, and acknowledgements clock it out, such that the queue outlives the
//! link's better moments and no more:
//!
//! ```text
//!   W = min( K + (τ + d)·r̂ ,  2K + (τ + D)·r̄ ) + max(e, h),   at most what Q, M and S allow
//!
//!   r̂   forecast: 0.7 × the 0.7 quantile + 0.3 × the largest of the last N bins of deliveries
//!   r̄   mean of the last M bins
//!   τ   round trip of the path without a queue (its floor)
//!   d   headroom: as much queue, in time, as keeps the link from running dry
//!   D   patience: the longest wait at the rate of the last moments
//!   K   constant part: what a link too slow for the rest needs to be busy
//! ```
//!
//! One file holds each term, with its formula above it:
//!
//! | term | file |
//! |---|---|
//! | r̂ and r̄, the bins | `offer.rs` |
//! | G, the grain of the link, which all times follow | `grain.rs` |
//! | d, the headroom | `headroom.rs` |
//! | τ, the floor, and how it is kept true (H17) | `floor.rs` |
//! | W of a start | `start.rs` |
//! | e: what radio repairs let go at once is in flight on top | `bursts.rs`, `losses.rs` |
//! | h: what long repairs hold back is in flight on top | `head_of_line.rs` |
//! | Q: what a buffer smaller than W takes | `buffer.rs` |
//! | M: what marks leave of the window, where the queue marks | `marks.rs` |
//! | S: what may be in flight after a time-out | `silence.rs` |
//! | N: what others have in the queue, and a window that competes | `competition.rs` |
//!
//! RTT and what is in flight are taken without what acknowledgements wait on their way back, where the engine knows it
//! ([`Ack::return_wait`]): a full uplink is no queue of this link. What is in flight meanwhile is allowed on top.
//!
//! Without acknowledgements nothing is sent. What was learnt stays while the subscriber is idle, up to
//! `memory`. While the base station reports, its bandwidth fills the bins.
//!
//! Integer arithmetic. `docs/algorithms/adaptive.md` derives the law, and says where each constant comes from.

mod buffer;
mod bursts;
mod competition;
mod floor;
mod grain;
mod head_of_line;
mod headroom;
mod losses;
mod marks;
mod offer;
mod silence;
mod start;
mod terms;

use std::mem::offset_of;

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Control, Controller, Feedback, Known, Loss, LossKind, MSS_DEFAULT, Sent, quantum_for};

use buffer::{Buffer, Heard};
use bursts::Bursts;
use competition::Competition;
use floor::Floor;
use grain::Grain;
use head_of_line::{HeadOfLineBlocking, Observation};
use headroom::Headroom;
use losses::SteadyLoss;
use marks::Marks;
use offer::Offer;
use silence::Silence;
use start::{Signs, Start};
pub use terms::{Term, Terms};

/// Bins of r̄: the link's last moments.
const RECENT_BINS: usize = 4;

/// Grains of the link that a bin of deliveries takes in.
const GRAINS_PER_BIN: u64 = 2;

/// Shorter bins than this part of the path's round trip tell nothing that could be acted on.
const BINS_PER_ROUND_TRIP: u64 = 8;

/// Largest factor by which bins are shorter than on a coarse link: bins of a few segments each on
/// links of some Mbit/s.
const FINEST: u64 = 12;

/// Least segments in flight: fewer starve delayed acknowledgements.
const SEGMENTS_MIN: u64 = 4;

/// Factor by which data is handed over sooner than the link takes it: pacing keeps bursts off the
/// wire, not the queue low.
const PACING_GAIN: u64 = 2;

/// The same over round trips that are longer by what repairs hold back, in per cent: what is let go at once
/// would else be sent at once and be a queue.
const HELD_PACING_PERCENT: u64 = 150;

/// The same where a buffer bounds the window, in per cent: it does not take a burst.
const BOUND_PACING_PERCENT: u64 = 125;

/// Others are beside it in one schedule where more than this part of what is under way is theirs.
const BESIDE_PART: u64 = 8;

/// Acknowledgements that wait longer on their way back than this have a longer path: [`Floor`].
const RETURN_WAIT_MAX: Duration = Duration::from_secs(1);

/// Acknowledgements so close together came as one.
const BUNCH: Duration = Duration::from_millis(2);

/// Parameters of [`Adaptive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
#[repr(C)]
#[stored(order(
    bin,
    bins,
    constant,
    headroom_min,
    headroom_max,
    starved_permille,
    headroom_gain,
    starved_below,
    delay_max,
    initial_window,
    memory,
    without,
    mss
))]
pub struct AdaptiveParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// Time for which an idle subscriber's link is remembered. 60 s.
    pub memory: Duration,
    /// B: the shortest bin of deliveries. 30 ms; 5 ms to 1 s.
    pub bin: Duration,
    /// K: the constant part of the window. 6,000 bytes.
    pub constant: Bytes,
    /// Least headroom; a quarter of the floor where that is more. 12 ms.
    pub headroom_min: Duration,
    /// Largest headroom; the floor where that is more. 48 ms.
    pub headroom_max: Duration,
    /// Growth of the headroom per second of an empty queue. 80 ms.
    pub headroom_gain: Duration,
    /// A round trip no further above the floor says that the queue was empty. 5 ms.
    pub starved_below: Duration,
    /// D: longest queueing time at the rate of the last moments. 100 ms.
    pub delay_max: Duration,
    /// Data in flight of a subscriber never seen before. 32 KiB.
    pub initial_window: Bytes,
    /// N: bins of the forecast. 32; 3 to 32.
    pub bins: u32,
    /// φ: share of the time, in thousandths, for which the queue may be empty. 20.
    pub starved_permille: u32,
    /// Terms that are left out, to measure what they are worth. None.
    pub without: Terms,
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
///
/// In memory, what each packet needs lies together, and its parts have it at their beginning or their end: with many
/// subscribers, fetching lines of memory takes most of the time.
#[derive(Clone, Debug, stored::Stored)]
#[repr(C)]
#[stored(order(
    params,
    offer,
    grain,
    floor,
    headroom,
    start,
    losses,
    buffer,
    silence,
    window,
    limited_at,
    pacing_rate,
    last_ack,
    bursts,
    blocking,
    reports_valid_until,
    competition,
    return_wait,
    allowed,
    marks
))]
pub struct Adaptive {
    window: Bytes,
    pacing_rate: Rate,
    /// W, and what is under way meanwhile because of u.
    #[stored(since(5, Bytes::ZERO))]
    allowed: Bytes,
    last_ack: Instant,
    /// u: how long acknowledgements wait on their way back all the time.
    #[stored(since(5, Duration::ZERO))]
    return_wait: Duration,
    reports_valid_until: Instant,
    /// Time at which the window was in use last.
    limited_at: Option<Instant>,
    headroom: Headroom,
    floor: Floor,
    params: AdaptiveParams,
    losses: SteadyLoss,
    start: Start,
    grain: Grain,
    silence: Silence,
    #[stored(since(8, Marks::default()))]
    marks: Marks,
    buffer: Buffer,
    competition: Competition,
    offer: Offer,
    bursts: Bursts,
    blocking: HeadOfLineBlocking,
}

impl Adaptive {
    /// Parts of its memory that data which is sent needs, as offsets of their first bytes and of the next ones behind.
    pub const TOUCHED_BY_DATA: [(usize, usize); 3] = [
        (0, offset_of!(Self, params.headroom_min)),
        (
            offset_of!(Self, competition) + Competition::ALWAYS_TOUCHED_FROM,
            offset_of!(Self, offer) + Offer::ALWAYS_TOUCHED,
        ),
        (offset_of!(Self, blocking) + HeadOfLineBlocking::ALWAYS_TOUCHED_FROM, size_of::<Self>()),
    ];
    /// The same of what is acknowledged.
    pub const TOUCHED_BY_ACKS: [(usize, usize); 3] = [
        (0, offset_of!(Self, buffer) + Buffer::ALWAYS_TOUCHED),
        (offset_of!(Self, competition) + Competition::TOUCHED_BY_ACKS_FROM, Self::TOUCHED_BY_DATA[1].1),
        Self::TOUCHED_BY_DATA[2],
    ];

    /// A controller for a subscriber never seen before.
    #[must_use]
    pub fn new(params: AdaptiveParams) -> Self {
        let mut new = Self {
            offer: Offer::new(params.bin, params.bins as usize),
            grain: Grain::new(),
            floor: Floor::new(),
            headroom: Headroom::new(&params),
            start: Start::new(params.initial_window),
            losses: SteadyLoss::default(),
            buffer: Buffer::new(params.mss),
            silence: Silence::default(),
            window: params.initial_window,
            limited_at: None,
            pacing_rate: Rate::MAX,
            last_ack: Instant::ZERO,
            bursts: Bursts::new(),
            blocking: HeadOfLineBlocking::default(),
            reports_valid_until: Instant::ZERO,
            competition: Competition::new(),
            return_wait: Duration::ZERO,
            allowed: params.initial_window,
            marks: Marks::default(),
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
        self.headroom.get()
    }

    /// The law has `term`.
    fn has(&self, term: Term) -> bool {
        !self.params.without.has(term)
    }

    /// Most bytes in flight that a buffer smaller than the window allows.
    fn ceiling(&self) -> Option<Bytes> {
        let (mean, floor) = (self.mean().unwrap_or(Rate::ZERO), self.floor.get().unwrap_or(Duration::ZERO));
        self.buffer.window(mean.bytes_in(floor)).filter(|_| self.has(Term::Ceiling))
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

    /// The bounds of d.
    fn headroom_range(&self) -> (Duration, Duration) {
        let floor = self.floor.get().unwrap_or(Duration::ZERO);
        let of_the_link = (self.scaled(self.params.headroom_min), self.scaled(self.params.headroom_max));
        headroom::bounds(of_the_link, floor, &self.params)
    }

    /// d follows the share of acknowledgements that found the queue empty.
    fn adapt_headroom(&mut self, rtt: Duration, delivered: Bytes) {
        let (Some(floor), Some(forecast)) = (self.floor.get(), self.offer.forecast()) else { return };
        let bounds = self.headroom_range();
        if self.has(Term::Headroom) {
            let near = headroom::near(self.grain.get(), floor, &self.params);
            self.headroom.follow(rtt, delivered, (floor, forecast), near, &self.params);
            self.headroom.clamp(bounds);
        } else {
            self.headroom.set(bounds.1 / 2);
        }
    }

    /// A start grows, or ends.
    fn follow_start(&mut self, ack: &Ack) {
        let Some(floor) = self.floor.get() else { return };
        let (least, most) = self.headroom_range();
        let signs = Signs {
            queueing_above: floor + self.blocked_for() + least.max(most / 2),
            is_bounded: self.ceiling().is_some() || self.marks.window().is_some(),
            has_forecast: self.offer.forecast().is_some(),
            halves: if self.has(Term::HalfUse) { 1 } else { 2 },
        };
        self.start.on_ack(ack, &signs);
    }

    /// Competes with others in the queue, or not.
    fn follow_competition(&mut self, ack: &Ack, is_limited: bool) {
        let (Some(floor), Some(mean)) = (self.floor.get(), self.mean()) else { return };
        if !self.has(Term::Competition) {
            return;
        }
        if self.start.window().is_some() && !self.competition.is_competing() {
            // A start that begins anew has found why round trips are long: a look would hold its window.
            self.competition.forget_suspicion();
            return;
        }
        let near = headroom::near(self.grain.get(), floor, &self.params);
        let own = self.headroom.get() + mean.time_for(self.params.constant).min(self.params.delay_max);
        let usual = own + self.headroom_range().0 + near * 2 + self.blocked_for();
        let seen = competition::Observation {
            rtt: ack.rtt,
            floor,
            usual,
            near,
            mean,
            window: self.window,
            in_flight: ack.in_flight,
            least: Bytes::new(self.params.mss.get().saturating_mul(SEGMENTS_MIN)),
            is_limited,
            now: ack.now,
            left: ack.now - ack.return_wait,
        };
        self.competition.on_ack(ack, &seen);
    }

    /// M falls at a mark, and rises without.
    fn follow_marks(&mut self, ack: &Ack, is_limited: bool) {
        if ack.mark.is_some() {
            self.marks.on_mark(self.window, ack.in_flight_before, self.params.mss, ack.now);
            return;
        }
        let floor = self.floor.get();
        let near =
            floor.map_or(Duration::ZERO, |floor| headroom::near(self.grain.get(), floor, &self.params));
        let window = self.model().unwrap_or(self.window);
        let heard =
            marks::Heard { rtt: ack.rtt.zip(floor), near, window, is_in_use: is_limited, now: ack.now };
        self.marks.on_ack(&heard, self.params.mss);
    }

    /// W without floor measurement and ceiling.
    fn model(&self) -> Option<Bytes> {
        let (floor, forecast) = (self.floor.get()?, self.offer.forecast()?);
        let delay_max = self.delay_max(floor);
        let burst = self
            .bursts
            .surplus(self.losses.is_steady() && self.has(Term::Repairs))
            .min(forecast.bytes_in(self.params.delay_max));
        let held = self.held(forecast);
        let on_top = if self.has(Term::Bursts) { burst.max(held) } else { held };
        let constant = if self.has(Term::Constant) { self.params.constant } else { Bytes::ZERO };
        let provided = forecast.bytes_in(floor + self.headroom.get()) + constant + on_top;
        if !self.has(Term::Patience) {
            return Some(provided);
        }
        let recent = self.offer.recent(RECENT_BINS).unwrap_or(forecast);
        let patient = recent.bytes_in(floor + delay_max) + constant + constant + on_top;
        Some(provided.min(patient))
    }

    /// The mean of a time that is long beside any repair.
    fn mean(&self) -> Option<Rate> {
        self.offer.average()
    }

    /// Bytes in flight only because acknowledgements wait on their way back.
    fn returning(&self) -> Bytes {
        self.mean().unwrap_or(Rate::ZERO).bytes_in(self.return_wait)
    }

    /// `ack` as it would be had no acknowledgement waited on its way back: that queue is not the link's.
    fn without_the_way_back(&mut self, ack: &Ack) -> Ack {
        let waited = |rtt: Duration| rtt.saturating_sub(self.floor.get().unwrap_or(Duration::ZERO));
        let most = ack.rtt.map_or(Duration::MAX, waited);
        let return_wait = ack.return_wait.min(most);
        self.return_wait = ack.lasting_return_wait.min(most).min(RETURN_WAIT_MAX);
        let returning = self.returning();
        Ack {
            rtt: ack.rtt.map(|rtt| rtt - return_wait),
            return_wait,
            in_flight: ack.in_flight.saturating_sub(returning),
            in_flight_before: ack.in_flight_before.saturating_sub(returning),
            ..*ack
        }
    }

    /// Bytes that repairs hold back.
    fn held(&self, forecast: Rate) -> Bytes {
        // As it has been so far the mean is that of a link that was idle.
        let rate = if self.blocking.is_on_trial() { forecast } else { self.mean().unwrap_or(forecast) };
        rate.bytes_in(self.blocked_for())
    }

    fn update(&mut self) {
        let least = Bytes::new(self.params.mss.get().saturating_mul(SEGMENTS_MIN));
        let model = self.model();
        let mut window = match (self.start.window(), model) {
            (Some(start), model) => start.max(model.unwrap_or(start)),
            (None, model) => model.unwrap_or(self.params.initial_window),
        };
        let bound = self.ceiling().unwrap_or(Bytes::MAX);
        window = window.min(bound);
        let floor = self.floor.get();
        if self.is_draining()
            && let (Some(floor), Some(forecast)) = (floor, self.offer.forecast())
        {
            window = window.min(forecast.bytes_in(floor / 2));
        }
        window = window.max(least);
        if self.has(Term::Competition) {
            window = self.competition.window(window, least);
        }
        let marked = self.marks.window().filter(|marked| *marked < window);
        if let Some(marked) = marked {
            window = marked.max(least);
        }
        self.allowed = self.silence.bound(window + self.returning());
        self.window = self.allowed.min(window);
        self.pacing_rate = match floor {
            Some(floor) => {
                let by_window = Rate::from_transfer(self.window, floor.max(Duration::from_millis(1)));
                let known = self.offer.forecast().unwrap_or(by_window);
                // The window may leave within the longest time that it may wait, however little the
                // link was seen to carry.
                let known = known.max(Rate::from_transfer(self.window, floor + self.delay_max(floor)));
                match self.blocked_for() {
                    _ if self.competition.is_competing() => by_window.max(known),
                    held if held > floor && self.has(Term::HeldPace) => {
                        Rate::from_transfer(self.window, floor + held).mul_ratio(HELD_PACING_PERCENT, 100)
                    }
                    _ if marked.is_some() || self.window == bound => {
                        known.mul_ratio(BOUND_PACING_PERCENT, 100)
                    }
                    _ => by_window.max(known).mul_ratio(PACING_GAIN, 1),
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
        self.competition.on_sent(sent);
        if sent.in_flight > Bytes::ZERO {
            return;
        }
        self.floor.on_idle(sent.now);
        if sent.now.saturating_since(self.last_ack) > self.params.memory && self.last_ack > Instant::ZERO {
            self.offer.forget();
            self.losses = SteadyLoss::default();
            self.buffer = Buffer::new(self.params.mss);
            self.blocking = HeadOfLineBlocking::default();
            self.headroom = Headroom::new(&self.params);
            self.start = Start::new(self.params.initial_window);
            self.marks = Marks::default();
            self.update();
        }
        self.offer.restart(sent.now);
    }

    fn on_round_trip(&mut self, rtt: Duration, now: Instant) {
        self.floor.on_handshake(rtt, now);
    }

    fn on_known(&mut self, known: &Known, now: Instant) {
        if let Some(rtt) = known.round_trip {
            self.floor.on_guess(rtt, now);
        }
        // What follows is no continuation of what was acknowledged here before.
        self.offer.restart(now);
        if let (Some(rate), Some(floor), Some(start)) = (known.rate, self.floor.get(), self.start.window())
            && self.offer.forecast().is_none()
        {
            // A start grows as fast as it is acknowledged. One that is too large fills the queue of a slow link.
            let model = rate.bytes_in(floor + self.headroom.get()) + self.params.constant;
            self.start.again(start.min(model));
        }
        self.update();
    }

    fn round_trip(&self) -> Option<Duration> {
        self.floor.get()
    }

    fn on_ack(&mut self, ack: &Ack) {
        let ack = &self.without_the_way_back(ack);
        self.last_ack = ack.now;
        self.silence.on_ack(ack.delivered);
        if ack.is_window_limited {
            self.limited_at = Some(ack.now);
        }
        // The first of a bunch makes room in the window for the rest (H15).
        let is_limited = self.limited_at.is_some_and(|at| ack.now.saturating_since(at) <= BUNCH);
        if let Some(rtt) = ack.rtt {
            // Among others what is let down shows no floor.
            self.floor.update(rtt, is_limited && !self.competition.is_competing(), ack.now);
            if is_limited && !self.is_draining() && self.start.window().is_none() {
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
                self.start.again(self.window);
            }
        }
        self.grain.count(is_limited, ack.now);
        self.adapt_bins();
        if ack.now >= self.reports_valid_until {
            self.offer.count(ack.delivered, is_limited, ack.now);
        }
        let round_trip = ack.rtt.or(self.floor.get()).unwrap_or(Duration::from_millis(100));
        self.losses.on_ack(round_trip, ack.now);
        self.buffer.on_ack(&Heard {
            delivered: ack.delivered,
            discarded: ack.discarded,
            waited: ack.rtt.zip(self.floor.get()).map(|(rtt, floor)| rtt.saturating_sub(floor)),
            rtt: round_trip,
            window: self.window,
            is_in_use: is_limited,
            is_beside_others: ack.others > Bytes::new(ack.in_flight_before.get() / BESIDE_PART),
            now: ack.now,
        });
        self.follow_start(ack);
        self.follow_competition(ack, is_limited);
        if ack.mark.is_some() || self.marks.window().is_some() {
            self.follow_marks(ack, is_limited);
        }
        self.update();
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.competition.on_loss(loss, self.buffer.overflows());
        match loss.kind {
            LossKind::Fast => {
                self.losses.on_lost();
                self.buffer.on_lost(loss.lost);
                if loss.is_new_event && !self.buffer.overflows() {
                    // What is found after a time-out may still wait in the radio's queue.
                    self.silence.on_radio_loss(loss.now);
                }
            }
            // Round trips of others' queues exceed the longest time-out: it tells nothing of an outage.
            LossKind::Timeout if self.has(Term::Silence) && !self.competition.is_competing() => {
                self.silence.on_timeout(self.params.mss, self.has(Term::Retry), loss.now);
                self.update();
            }
            LossKind::Timeout => {}
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
            // What an older version has stored has no allowance.
            window: self.allowed.max(self.window),
            pacing_rate: self.pacing_rate,
            send_quantum: quantum_for(self.pacing_rate, self.params.mss),
        }
    }
}

#[cfg(test)]
#[path = "adaptive/tests.rs"]
mod tests;
