//! `adaptive-server`: the law of `adaptive` for one connection of a server's kernel.
//!
//! ```text
//!   W = min( K + (τ + d)·r̂ ,  2K + (τ + D)·r̄ ),  at most what Q, S and the start allow
//!
//!   r̂   forecast: 0.7 × the 0.7 quantile + 0.3 × the largest of the last 32 bins of deliveries
//!   r̄   mean of the last four bins
//!   τ   smallest round trip, measured again where it has not been seen for long
//!   d   headroom: as much queue, in time, as keeps the link from running dry
//!   D   the longest wait at the rate of the last moments
//!   Q   what the bottleneck's buffer takes, where it loses data (`buffer.rs`)
//!   S   what may be in flight after a time-out
//! ```
//!
//! `docs/algorithms/adaptive.md` derives the terms. Of `adaptive`'s these are left out, because a server's
//! connection does not know what they need:
//!
//! | term | what it needs | here |
//! |---|---|---|
//! | `bursts`, `blocking`, `repairs`, `held-pace` | a path so short that repairs show in it | nothing: behind a longer path they are worth under 0.5 % of the link |
//! | `competition` | looks, which take half of the window, from all flows of the client | nothing: beside a queue that others fill τ grows by the drains, and W with it |
//! | one controller for all flows of a client | the same | one for each connection; those whose delays prove a common queue share r̂, r̄ and d (`shared.rs`) |
//! | first window of 32 KiB | that the path's other end is the client's radio | ten segments (RFC 6928) |
//! | reports of the base station | a base station that reports | nothing |
//!
//! All numbers are 64-bit integers or smaller: microseconds, bytes, bytes per second. No division has more than
//! 64 bits. `crates/linux/congestion/bpf/adaptive.bpf.c` is the same for a kernel, and `crates/linux/congestion/tests` compares
//! the whole state after every event.

mod buffer;
mod controller;
mod floor;
mod policer;
mod shared;

pub use controller::{AdaptiveServer, AdaptiveServerParams};
pub use shared::{Member, Peers, SLOTS, SharedPath, Shares};

/// Bins of the forecast.
pub const BINS: usize = 32;
/// Moments for which it is known what had been acknowledged by then.
pub const MARKS: usize = 16;
/// Queues that were met last.
pub const MET: usize = 8;

/// B₀: a bin on a coarse link, µs. As `adaptive`'s parameter `bin`.
const BIN_US: u64 = 30_000;
/// Largest factor by which bins are shorter.
const FINEST: u64 = 12;
/// Grains of the link that a bin takes in.
const GRAINS_PER_BIN: u64 = 2;
/// A bin is at least this part of the path.
const BINS_PER_ROUND_TRIP: u64 = 8;
/// Multiple of its length that a bin lasts at most in which acknowledgements came late.
const BINS_SPANNED: u64 = 4;
/// Bins of r̄.
const RECENT_BINS: u32 = 4;
/// Time over which the average is taken, µs.
const AVERAGED_US: u64 = 360_000;

/// K: the constant part of the window, bytes.
const CONSTANT: u64 = 6_000;
/// Least and largest headroom on a coarse link, µs.
const HEADROOM_MIN_US: u64 = 12_000;
const HEADROOM_MAX_US: u64 = 48_000;
/// A round trip no further above the floor says that the queue was empty, µs.
const STARVED_BELOW_US: u64 = 5_000;
/// φ: share of the time for which the queue may be empty, in thousandths.
const STARVED_PERMILLE: u64 = 20;
/// Growth of the headroom, ns per µs of an empty queue.
const HEADROOM_GAIN: u64 = 80;
/// A single acknowledgement counts for no more time than this, ns.
const STEP_MAX_NS: u64 = 100_000_000;
/// D on a coarse link, µs.
const DELAY_MAX_US: u64 = 100_000;

/// Gaps between acknowledgements: time after which half is forgotten, time before which nothing is known, and
/// longest gap that counts in full; µs.
const GAPS_MEMORY_US: u64 = 1_000_000;
const GAPS_KNOWN_US: u64 = 100_000;
const GAP_MAX_US: u64 = 30_000;

/// Time for which a floor is believed, and one that is doubted, µs.
const FLOOR_AGE_US: u64 = 10_000_000;
const FLOOR_AGE_DOUBTED_US: u64 = 3_000_000;
/// Part of the floor, as a divisor, by which a round trip may exceed it without having met a queue.
const JITTER_PARTS: u64 = 16;
/// Least headroom as a part of the path.
const LEAST_PARTS: u64 = 4;

/// Least segments in flight.
const SEGMENTS_MIN: u64 = 4;
/// The same after a time-out; where data has been lost within [`LOSS_MEMORY_US`] before, [`RETRY_SEGMENTS`].
const SILENT_SEGMENTS: u64 = 1;
const RETRY_SEGMENTS: u64 = 32;
const LOSS_MEMORY_US: u64 = 10_000_000;
/// Growth after a time-out by what is acknowledged.
const SILENCE_GROWTH: u64 = 2;
/// The first window, segments (RFC 6928).
pub const INITIAL_SEGMENTS: u64 = 10;

/// Pacing rate in per cent of the expected rate, and the same where a buffer bounds the window.
const PACING_PERCENT: u64 = 200;
const BOUND_PACING_PERCENT: u64 = 125;
/// Pacing is not faster than the window in this time, µs.
const PACED_WITHIN_US: u64 = 1_000;

/// Acknowledgements so close together came as one, µs.
const BUNCH_US: u64 = 2_000;
/// Time for which an idle connection's link is remembered, µs.
const MEMORY_US: u64 = 60_000_000;

/// Rates and times beyond these do not occur: bytes per second, µs. Their product fits 64 bits.
const RATE_MAX: u64 = 1 << 37;
const TIME_MAX_US: u64 = 1 << 26;
/// Amounts beyond this do not occur, bytes.
const BYTES_MAX: u64 = 1 << 32;
/// Unit of the rates that bins hold, bytes per second.
const RATE_UNIT: u64 = 128;

/// The rate of `bytes` in `us`, bytes per second.
const fn rate_of(bytes: u64, us: u64) -> u64 {
    let bytes = if bytes < BYTES_MAX { bytes } else { BYTES_MAX };
    let rate = bytes * 1_000_000 / if us > 0 { us } else { 1 };
    if rate < RATE_MAX { rate } else { RATE_MAX }
}

/// Bytes that `rate` brings in `us`.
const fn bytes_in(rate: u64, us: u64) -> u64 {
    rate * (if us < TIME_MAX_US { us } else { TIME_MAX_US }) / 1_000_000
}

/// Time that `rate` takes for `bytes`, ns.
const fn time_ns(rate: u64, bytes: u64) -> u64 {
    let bytes = if bytes < BYTES_MAX { bytes } else { BYTES_MAX };
    bytes * 1_000_000_000 / if rate > 0 { rate } else { 1 }
}

/// Bound of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// The path is not known yet.
    Start,
    /// The rate that the link is expected to have.
    Forecast,
    /// The rate that it has had in the last moments: it has become slower.
    Patience,
    /// A buffer that loses data.
    Buffer,
    /// The floor is being measured.
    Drain,
    /// A retransmission time-out.
    TimeOut,
    /// A policer: what is more than its rate is lost without a queue.
    Policer,
}

impl Bound {
    /// All of them, by number.
    pub const ALL: [Self; 7] = [
        Self::Start,
        Self::Forecast,
        Self::Patience,
        Self::Buffer,
        Self::Drain,
        Self::TimeOut,
        Self::Policer,
    ];

    /// Its number in [`Law::bound`].
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Name in a word or two.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Forecast => "forecast",
            Self::Patience => "slower link",
            Self::Buffer => "full buffer",
            Self::Drain => "measures the floor",
            Self::TimeOut => "time-out",
            Self::Policer => "policer",
        }
    }
}

/// Facts that an acknowledgement tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AckEvent {
    /// Time of its arrival, µs; never zero, never earlier than the event before.
    pub now_us: u64,
    /// Newly delivered, bytes.
    pub delivered: u64,
    /// Shown to be lost, bytes.
    pub lost: u64,
    /// The round trip of the newest segment that it covers, µs; 0 where it has none.
    pub rtt_us: u64,
    /// Bytes in flight before it.
    pub in_flight_before: u64,
    /// The window limits what is sent.
    pub is_limited: bool,
}

/// The state of a connection. Times in µs, amounts in bytes, rates in bytes per second; 0 is none, also where a time
/// is a moment. The order is that of `struct law` in `crates/linux/congestion/bpf/law.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
#[allow(missing_docs, reason = "bpf/law.h has the same fields; the terms are explained where they are used")]
pub struct Law {
    // What it says.
    pub window: u64,
    pub pacing_rate: u64,
    pub mss: u64,
    /// Time at which the window was in use last.
    pub limited_us: u64,
    // The bins.
    pub bin_us: u64,
    pub bin_started_us: u64,
    pub bin_bytes: u64,
    pub bin_is_limited: u64,
    pub forecast: u64,
    pub average: u64,
    // The grain.
    pub last_ack_us: u64,
    pub gaps_us: u64,
    pub gap_squares: u64,
    // The floor.
    pub floor_us: u64,
    pub confirmed_us: u64,
    pub age_max_us: u64,
    pub drain_from_us: u64,
    pub drain_until_us: u64,
    pub drain_smallest_us: u64,
    pub drain_rtt_us: u64,
    // Headroom, start, time-out.
    pub headroom_ns: u64,
    pub start_window: u64,
    pub queueing_since_us: u64,
    pub allowed: u64,
    pub lost_us: u64,
    // The buffer.
    pub acknowledged: u64,
    pub pending: u64,
    pub long_delivered: u64,
    pub long_lost: u64,
    pub short_delivered: u64,
    pub short_lost: u64,
    pub size: u64,
    pub rises_us: u64,
    pub longest: u64,
    pub longest_before: u64,
    pub longest_since_us: u64,
    // The policer. A trial may be made again from `police_again_us` on; of a policed path: when it lost something last.
    // `police_parts` is f; before a trial: lossy intervals in a row. `police_before_ppm` is 0 once f was too large.
    pub police_state: u64,
    pub police_since_us: u64,
    pub police_delivered: u64,
    pub police_lost: u64,
    pub police_before_ppm: u64,
    pub police_again_us: u64,
    pub police_rate: u64,
    pub police_parts: u64,
    pub police_waited_us: u64,
    pub police_samples: u64,
    // What the other members of the path say (`shared.rs`).
    pub others: u64,
    pub others_forecast: u64,
    pub others_recent: u64,
    pub others_headroom_ns: u64,
    // Counters and rings.
    /// [`Bound::number`].
    pub bound: u32,
    /// Drains in a row that did not shorten the queue: it is of others.
    pub others_queue: u32,
    pub drain_samples: u32,
    pub bins_written: u32,
    pub marks_written: u32,
    pub acks: u32,
    pub bins: [u32; BINS],
    pub mark_us: [u32; MARKS],
    pub mark_bytes: [u32; MARKS],
    pub met: [u32; MET],
}

impl Law {
    /// Law of a connection with segments of `mss` bytes, of whose path nothing is known.
    #[must_use]
    pub fn new(mss: u64) -> Self {
        let mss = mss.clamp(1, 65_535);
        let mut new = Self {
            window: mss * INITIAL_SEGMENTS,
            pacing_rate: RATE_MAX,
            mss,
            limited_us: 0,
            bin_us: BIN_US,
            bin_started_us: 0,
            bin_bytes: 0,
            bin_is_limited: 0,
            forecast: 0,
            average: 0,
            last_ack_us: 0,
            gaps_us: 0,
            gap_squares: 0,
            floor_us: 0,
            confirmed_us: 0,
            age_max_us: FLOOR_AGE_DOUBTED_US,
            drain_from_us: 0,
            drain_until_us: 0,
            drain_smallest_us: 0,
            drain_rtt_us: 0,
            headroom_ns: HEADROOM_MAX_US * 1_000 / 2,
            start_window: mss * INITIAL_SEGMENTS,
            queueing_since_us: 0,
            allowed: 0,
            lost_us: 0,
            acknowledged: 0,
            pending: 0,
            long_delivered: 0,
            long_lost: 0,
            short_delivered: 0,
            short_lost: 0,
            size: 0,
            rises_us: 0,
            longest: 0,
            longest_before: 0,
            longest_since_us: 0,
            police_state: 0,
            police_since_us: 0,
            police_delivered: 0,
            police_lost: 0,
            police_before_ppm: 0,
            police_again_us: 0,
            police_rate: 0,
            police_parts: 0,
            police_waited_us: 0,
            police_samples: 0,
            others: 0,
            others_forecast: 0,
            others_recent: 0,
            others_headroom_ns: 0,
            bound: 0,
            others_queue: 0,
            drain_samples: 0,
            bins_written: 0,
            marks_written: 0,
            acks: 0,
            bins: [0; BINS],
            mark_us: [0; MARKS],
            mark_bytes: [0; MARKS],
            met: [0; MET],
        };
        new.update();
        new
    }

    /// Takes in the round trip of the handshake, which met no queue of this connection.
    pub fn on_handshake(&mut self, rtt_us: u64, now_us: u64) {
        if rtt_us == 0 || (self.floor_us > 0 && rtt_us > self.floor_us) {
            return;
        }
        self.floor_us = rtt_us.min(TIME_MAX_US);
        self.confirmed_us = now_us;
        self.age_max_us = FLOOR_AGE_US;
        self.update();
    }

    /// Data is sent after nothing was in flight: the next round trip is one without a queue.
    pub fn on_idle(&mut self, now_us: u64) {
        self.confirmed_us = now_us;
        self.end_drain();
        if self.last_ack_us > 0 && now_us.saturating_sub(self.last_ack_us) > MEMORY_US {
            self.forget();
        }
        self.restart_bin(now_us);
    }

    /// Forgets what is older than the memory, but for the floor.
    fn forget(&mut self) {
        self.forecast = 0;
        self.average = 0;
        self.bins_written = 0;
        self.bins = [0; BINS];
        self.headroom_ns = HEADROOM_MAX_US * 1_000 / 2;
        self.start_window = self.mss * INITIAL_SEGMENTS;
        self.size = 0;
        self.others_queue = 0;
        (self.long_delivered, self.long_lost, self.short_delivered, self.short_lost) = (0, 0, 0, 0);
        self.update();
    }

    /// A retransmission time-out.
    pub fn on_timeout(&mut self, now_us: u64) {
        let is_lossy = self.lost_us > 0 && now_us.saturating_sub(self.lost_us) < LOSS_MEMORY_US;
        self.allowed = self.mss * if is_lossy { RETRY_SEGMENTS } else { SILENT_SEGMENTS };
        self.update();
    }

    /// An acknowledgement.
    pub fn on_ack(&mut self, ack: &AckEvent) {
        let now = ack.now_us;
        if ack.lost > 0 {
            self.pending = (self.pending + ack.lost).min(BYTES_MAX);
            // What is found after a time-out may still wait in the radio's queue.
            if self.allowed == 0 && !self.overflows() {
                self.lost_us = now;
            }
        }
        if ack.delivered == 0 {
            return;
        }
        if self.allowed > 0 {
            self.allowed += ack.delivered * SILENCE_GROWTH;
        }
        if ack.is_limited {
            self.limited_us = now;
        }
        // The first of a bunch makes room in the window for the rest.
        let is_used = self.limited_us > 0 && now.saturating_sub(self.limited_us) <= BUNCH_US;
        let rtt = ack.rtt_us.min(TIME_MAX_US);
        if rtt > 0 {
            self.update_floor(rtt, is_used, now);
            if is_used && self.drain_from_us == 0 && self.start_window == 0 {
                self.follow_headroom(rtt, ack.delivered);
            }
        }
        let is_used = is_used && self.drain_from_us == 0;
        self.count_gap(is_used, now);
        self.adapt_bins();
        self.count_bin(ack.delivered, is_used, now);
        self.follow_buffer(ack, rtt, is_used);
        self.follow_policer(ack, rtt);
        self.follow_start(ack, rtt);
        self.update();
    }

    // Headroom.

    /// A time that fits a coarse link, on the scale of this one, µs.
    const fn scaled(&self, us: u64) -> u64 {
        us * self.bin_us / BIN_US
    }

    /// Distance from the floor within which a round trip met no queue, µs.
    fn near_us(&self) -> u64 {
        self.grain_us().unwrap_or(STARVED_BELOW_US).min(STARVED_BELOW_US).max(self.floor_us / JITTER_PARTS)
    }

    fn headroom_min_us(&self) -> u64 {
        self.scaled(HEADROOM_MIN_US).max(self.floor_us / LEAST_PARTS).max(STARVED_BELOW_US)
    }

    fn headroom_max_us(&self) -> u64 {
        self.scaled(HEADROOM_MAX_US).max(self.floor_us).max(HEADROOM_MIN_US).max(self.headroom_min_us())
    }

    fn follow_headroom(&mut self, rtt: u64, delivered: u64) {
        if self.forecast == 0 {
            return;
        }
        let step = time_ns(self.forecast, delivered).min(STEP_MAX_NS) * HEADROOM_GAIN / 1_000;
        if rtt < self.floor_us + self.near_us() {
            self.headroom_ns += step * (1_000 - STARVED_PERMILLE) / 1_000;
        } else {
            self.headroom_ns = self.headroom_ns.saturating_sub(step * STARVED_PERMILLE / 1_000);
        }
        let (least, most) = (self.headroom_min_us() * 1_000, self.headroom_max_us() * 1_000);
        self.headroom_ns = self.headroom_ns.clamp(least, most);
    }

    // The grain, and the bins.

    fn count_gap(&mut self, is_used: bool, now: u64) {
        let gap = now.saturating_sub(self.last_ack_us).min(GAP_MAX_US);
        self.last_ack_us = now;
        if !is_used {
            return;
        }
        self.gaps_us += gap;
        self.gap_squares += gap * gap;
        if self.gaps_us >= GAPS_MEMORY_US {
            self.gaps_us /= 2;
            self.gap_squares /= 2;
        }
    }

    fn grain_us(&self) -> Option<u64> {
        (self.gaps_us >= GAPS_KNOWN_US).then(|| self.gap_squares / self.gaps_us)
    }

    fn adapt_bins(&mut self) {
        if let (Some(grain), true) = (self.grain_us(), self.floor_us > 0) {
            let least = (self.floor_us / BINS_PER_ROUND_TRIP).clamp(BIN_US / FINEST, BIN_US);
            self.bin_us = (grain * GRAINS_PER_BIN).clamp(least, BIN_US);
        }
    }

    fn restart_bin(&mut self, now: u64) {
        self.bin_started_us = now;
        self.bin_bytes = 0;
        self.bin_is_limited = 0;
    }

    fn count_bin(&mut self, delivered: u64, is_used: bool, now: u64) {
        if self.bin_started_us == 0 {
            return self.restart_bin(now);
        }
        self.bin_bytes += delivered;
        self.bin_is_limited |= u64::from(is_used);
        let elapsed = now.saturating_sub(self.bin_started_us);
        if elapsed < self.bin_us {
            return;
        }
        let lasted = elapsed.min(self.bin_us * BINS_SPANNED);
        let rate = rate_of(self.bin_bytes, lasted);
        // What came while data was short is a lower bound: it may raise the forecast, never lower it.
        let tells = self.bin_is_limited > 0 || rate > self.forecast;
        self.restart_bin(now);
        if tells {
            self.bins[self.bins_written as usize % BINS] = (rate / RATE_UNIT) as u32;
            self.bins_written += 1;
            // Kept between one and two rings once the ring is full.
            if self.bins_written >= 2 * BINS as u32 {
                self.bins_written -= BINS as u32;
            }
            self.take_average(rate, lasted);
            self.compute_forecast();
        }
    }

    fn take_average(&mut self, rate: u64, lasted: u64) {
        let new = lasted.min(AVERAGED_US);
        self.average = match self.average {
            0 => rate,
            before => (rate * new + before * (AVERAGED_US - new)) / AVERAGED_US,
        };
    }

    fn compute_forecast(&mut self) {
        let known = (self.bins_written as usize).min(BINS);
        if known < 3 {
            self.forecast = 0;
            return;
        }
        let mut sorted = self.bins;
        // Places that are not written yet hold zeros: they lie below all others.
        sorted.sort_unstable();
        let quantile = u64::from(sorted[(BINS - known) + ((known - 1) * 7 + 5) / 10]);
        let most = u64::from(sorted[BINS - 1]);
        self.forecast = (quantile * 7 + most * 3) * RATE_UNIT / 10;
    }

    /// r̄ of this connection alone.
    fn recent(&self) -> u64 {
        let known = self.bins_written.min(RECENT_BINS);
        let sum: u64 = (1..=known)
            .map(|back| {
                u64::from(self.bins[(self.bins_written + BINS as u32 - back) as usize % BINS]) * RATE_UNIT
            })
            .sum();
        if known > 0 { sum / u64::from(known) } else { 0 }
    }

    // The start.

    fn follow_start(&mut self, ack: &AckEvent, rtt: u64) {
        if self.start_window == 0 || rtt == 0 {
            return;
        }
        let above = self.floor_us + self.headroom_min_us().max(self.headroom_max_us() / 2);
        let is_queueing = rtt > above;
        if !is_queueing {
            self.queueing_since_us = 0;
        } else if self.queueing_since_us == 0 {
            self.queueing_since_us = ack.now_us;
        }
        // A radio pauses: only a queue that lasts says that the window is large enough. It does not grow meanwhile.
        let lasts = is_queueing && ack.now_us.saturating_sub(self.queueing_since_us) >= self.floor_us;
        if (lasts || self.ceiling() > 0) && self.forecast > 0 {
            self.start_window = 0;
        } else if ack.in_flight_before >= self.start_window / 2 && !is_queueing {
            self.start_window = (self.start_window + ack.delivered).min(BYTES_MAX);
        }
    }

    // The window.

    /// D.
    fn delay_max_us(&self) -> u64 {
        self.scaled(DELAY_MAX_US).max(self.floor_us).max(HEADROOM_MIN_US)
    }

    /// r̂: the mean of the members'.
    fn expected(&self) -> u64 {
        self.shared(self.forecast, self.others_forecast)
    }

    /// W without the terms that bound it, and which of its two it is; 0 while nothing is known.
    fn model(&self) -> (u64, Bound) {
        let forecast = self.expected();
        if self.floor_us == 0 || forecast == 0 {
            return (0, Bound::Start);
        }
        let headroom_us = self.shared(self.headroom_ns, self.others_headroom_ns) / 1_000;
        let provided = bytes_in(forecast, self.floor_us + headroom_us) + CONSTANT;
        let recent = self.shared(self.recent(), self.others_recent);
        let patient = bytes_in(recent, self.floor_us + self.delay_max_us()) + 2 * CONSTANT;
        if patient < provided { (patient, Bound::Patience) } else { (provided, Bound::Forecast) }
    }

    fn update(&mut self) {
        let least = self.mss * SEGMENTS_MIN;
        let (mut window, mut bound) = self.model();
        if self.start_window > window {
            (window, bound) = (self.start_window, Bound::Start);
        }
        if window == 0 {
            (window, bound) = (self.mss * INITIAL_SEGMENTS, Bound::Start);
        }
        let ceiling = self.ceiling();
        if ceiling > 0 && ceiling < window {
            (window, bound) = (ceiling, Bound::Buffer);
        }
        if let Some(policed) = self.policed()
            && policed < window
        {
            (window, bound) = (policed, Bound::Policer);
        }
        let forecast = self.expected();
        let drained = bytes_in(forecast, self.floor_us / 2);
        if self.drain_from_us > 0 && forecast > 0 && drained < window {
            (window, bound) = (drained, Bound::Drain);
        }
        window = window.max(least).min(BYTES_MAX);
        if self.allowed > 0 && self.allowed < window {
            (window, bound) = (self.allowed, Bound::TimeOut);
        } else {
            self.allowed = 0;
        }
        self.window = window;
        self.bound = bound.number();
        self.pace(ceiling);
    }

    fn pace(&mut self, ceiling: u64) {
        if self.floor_us == 0 {
            self.pacing_rate = RATE_MAX;
            return;
        }
        let by_window = rate_of(self.window, self.floor_us.max(PACED_WITHIN_US));
        let forecast = self.expected();
        let known = if forecast > 0 { forecast } else { by_window };
        // The window may leave within the longest time that it may wait, however little was carried so far.
        let known = known.max(rate_of(self.window, self.floor_us + self.delay_max_us()));
        let rate = if self.window == ceiling || self.bound == Bound::Policer.number() {
            known * BOUND_PACING_PERCENT / 100
        } else {
            by_window.max(known) * PACING_PERCENT / 100
        };
        self.pacing_rate = rate.min(RATE_MAX);
    }
}

#[cfg(test)]
mod tests;
