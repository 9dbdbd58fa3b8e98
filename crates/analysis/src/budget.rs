//! [`TimeBudget`]: where the time of a flow went. Every moment has exactly one cause.
//!
//! It is that of the direction with most data, and asks what kept its sender from sending more. Beside the
//! sender the answer is in what is outstanding, in the window, and in what is sent again. Beside the receiver
//! nothing is outstanding for long; there it is in how data comes: up to the edge of the window that the
//! sender knew a round trip ago, after a pause behind a pushed segment, above a hole, or not at all.
//!
//! Time is that between packets, in whole nanoseconds, so that the parts sum exactly to the flow's duration.

use serde::Serialize;
use units::{Duration, Instant};

use crate::direction::Direction;
use crate::half::{Half, Packets, TimeShares};
use crate::optional_instant::OptionalInstant;

/// What a moment of a flow was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeCause {
    /// First packet to the end of the handshake.
    Handshake,
    /// The rate still grew from round trip to round trip, and nothing was lost.
    SlowStart,
    /// Less than a segment of the receiver's window was left.
    ReceiveWindow,
    /// All that was sent was acknowledged, and there was no more to send.
    Application,
    /// Loss was repaired, a time-out's silence of less than a second included.
    LossRecovery,
    /// A second and more without progress, though there was data to send.
    Outage,
    /// Data was under way at what path and congestion control allow.
    PathRate,
    /// As loss recovery, but the losses hold the rate at a constant without a queue.
    Policer,
    /// After all data was acknowledged, until the last packet.
    Closing,
    /// The capture does not show it.
    Unclear,
}

impl TimeCause {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Handshake,
        Self::SlowStart,
        Self::ReceiveWindow,
        Self::Application,
        Self::LossRecovery,
        Self::Outage,
        Self::PathRate,
        Self::Policer,
        Self::Closing,
        Self::Unclear,
    ];

    /// Why a flow is slow that spends its time so, as the end of a sentence.
    const fn reason(self) -> &'static str {
        match self {
            Self::Handshake => "of the handshake",
            Self::SlowStart => "it ended in slow start",
            Self::ReceiveWindow => "the receiver's window was full",
            Self::Application => "the sender had nothing to send",
            Self::LossRecovery => "losses were repaired",
            Self::Outage => "nothing got through",
            Self::PathRate => "the path or congestion control carried no more",
            Self::Policer => "a policer dropped what was above its rate",
            Self::Closing => "it stayed open after its last data",
            Self::Unclear => "of something that the capture does not show",
        }
    }
}

/// Where the time of a flow went, nanoseconds. The parts sum to `total_ns`, the time from the first packet to
/// the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimeBudget {
    /// The direction whose sender was waited for: the one with most data.
    pub direction: Direction,
    /// All of it.
    pub total_ns: u64,
    /// [`TimeCause::Handshake`].
    pub handshake_ns: u64,
    /// [`TimeCause::SlowStart`].
    pub slow_start_ns: u64,
    /// [`TimeCause::ReceiveWindow`].
    pub receive_window_ns: u64,
    /// [`TimeCause::Application`].
    pub application_ns: u64,
    /// [`TimeCause::LossRecovery`].
    pub loss_recovery_ns: u64,
    /// [`TimeCause::Outage`].
    pub outage_ns: u64,
    /// [`TimeCause::PathRate`].
    pub path_rate_ns: u64,
    /// [`TimeCause::Policer`].
    pub policer_ns: u64,
    /// [`TimeCause::Closing`].
    pub closing_ns: u64,
    /// [`TimeCause::Unclear`].
    pub unclear_ns: u64,
    /// Longest time without progress while data was to be acknowledged; beside the receiver, between data that was
    /// no pause of the application. No further part: it is within the others.
    pub longest_stall_ns: u64,
    /// The largest part in words, with the next ones; none for a flow without duration.
    pub slow_because: Option<String>,
}

impl TimeBudget {
    /// The budget with these parts, in the order of [`TimeCause::ALL`].
    pub(crate) fn new(direction: Direction, parts: Parts, longest_stall: Duration) -> Self {
        let [
            handshake_ns,
            slow_start_ns,
            receive_window_ns,
            application_ns,
            loss_recovery_ns,
            outage_ns,
            path_rate_ns,
            policer_ns,
            closing_ns,
            unclear_ns,
        ] = parts.0.map(Duration::as_nanos);
        let total_ns = parts.0.iter().map(|part| part.as_nanos()).sum();
        let mut budget = Self {
            direction,
            total_ns,
            handshake_ns,
            slow_start_ns,
            receive_window_ns,
            application_ns,
            loss_recovery_ns,
            outage_ns,
            path_rate_ns,
            policer_ns,
            closing_ns,
            unclear_ns,
            longest_stall_ns: longest_stall.as_nanos(),
            slow_because: None,
        };
        budget.slow_because = budget.sentence();
        budget
    }

    /// The time of one cause, nanoseconds.
    #[must_use]
    pub const fn of(&self, cause: TimeCause) -> u64 {
        match cause {
            TimeCause::Handshake => self.handshake_ns,
            TimeCause::SlowStart => self.slow_start_ns,
            TimeCause::ReceiveWindow => self.receive_window_ns,
            TimeCause::Application => self.application_ns,
            TimeCause::LossRecovery => self.loss_recovery_ns,
            TimeCause::Outage => self.outage_ns,
            TimeCause::PathRate => self.path_rate_ns,
            TimeCause::Policer => self.policer_ns,
            TimeCause::Closing => self.closing_ns,
            TimeCause::Unclear => self.unclear_ns,
        }
    }

    /// Share of one cause, thousandths; zero of no time.
    #[must_use]
    pub fn per_mille(&self, cause: TimeCause) -> u64 {
        let scaled = u128::from(self.of(cause)) * 1_000 + u128::from(self.total_ns) / 2;
        scaled.checked_div(u128::from(self.total_ns)).unwrap_or(0) as u64
    }

    fn sentence(&self) -> Option<String> {
        let mut order = TimeCause::ALL;
        order.sort_by_key(|cause| std::cmp::Reverse(self.of(*cause)));
        let percent = |cause: TimeCause| (self.per_mille(cause) + 5) / 10;
        let main = order[0];
        if self.of(main) == 0 {
            return None;
        }
        let others: Vec<String> = order[1..3]
            .iter()
            .filter(|cause| self.per_mille(**cause) >= 50)
            .map(|cause| format!("{} {} %", cause.name(), percent(*cause)))
            .collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        Some(format!("slow because {} {} % of the time{others}", main.reason(), percent(main)))
    }
}

impl TimeCause {
    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::SlowStart => "slow start",
            Self::ReceiveWindow => "receive window",
            Self::Application => "application",
            Self::LossRecovery => "loss recovery",
            Self::Outage => "outage",
            Self::PathRate => "path rate",
            Self::Policer => "policer",
            Self::Closing => "closing",
            Self::Unclear => "unclear",
        }
    }
}

/// Time by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts([Duration; TimeCause::ALL.len()]);

impl Parts {
    pub(crate) fn add(&mut self, cause: TimeCause, time: Duration) {
        self.0[cause as usize] += time;
    }

    /// What was on `from` was on `to`.
    pub(crate) fn rename(&mut self, from: TimeCause, to: TimeCause) {
        let time = std::mem::take(&mut self.0[from as usize]);
        self.add(to, time);
    }
}

/// Least time without progress called an outage: longer than a first time-out and its repair.
const OUTAGE: Duration = Duration::from_secs(1);
/// Shortest time-out of a sender, less what timers may be early (Linux: 200 ms).
const TIME_OUT: Duration = Duration::from_millis(180);
/// Rounds without growth that end slow start, and the growth, as BBR has them: three, and a quarter.
const FLAT_ROUNDS: u8 = 3;
/// Edges of the window remembered: one in each eighth of a round trip.
const EDGES: usize = 8;

/// An edge that the receiver advertised: its sequence number, and when, in microseconds that wrap.
#[derive(Clone, Copy, Debug, Default)]
struct AdvertisedEdge {
    seq: u32,
    at_us: u32,
}

/// What is known of a direction's time so far; it begins with its first data.
///
/// The first line of 64 bytes is what packets of the direction need, the second what acknowledgements of it
/// need besides.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct TimeSpent {
    /// Up to when time has been given to its causes; none before the first data.
    pub(crate) until: OptionalInstant,
    /// Since the last progress, while nothing told of loss.
    waited: Duration,
    /// Since the last progress, while loss was known.
    repaired: Duration,
    /// With nothing outstanding since the last data.
    idle: Duration,
    round_start: OptionalInstant,
    round_una: u64,
    /// Bytes per second of the best round.
    best_rate: u64,
    flat_rounds: u8,
    has_begun: bool,
    pub(crate) has_left_slow_start: bool,
    was_idle: bool,
    has_timed_out: bool,
    was_pushed: bool,
    is_at_edge: bool,
    has_stamps: bool,
    // The second line: all parts but the last three.
    longest_stall: Duration,
    parts: Parts,
    // The third one, with what few packets need.
    pub(crate) shares: TimeShares,
    /// When the first data came.
    begin: Instant,
    /// Timestamp values of the first data and of the last; meaningless without `has_stamps`.
    stamps: (u32, u32),
    newest_edge: u8,
    edges: u8,
    advertised: [AdvertisedEdge; EDGES],
}

/// What is known besides of the time since the last packet, for [`Half::spend`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spending {
    pub(crate) passed: Duration,
    /// The receiver's window, bytes.
    pub(crate) window: Option<u64>,
    pub(crate) is_closed: bool,
    pub(crate) is_beside_receiver: bool,
    /// The other side was seen to send.
    pub(crate) is_answered: bool,
}

/// Data or FIN as it stands in the direction's time, for [`Half::resume`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resumed {
    pub(crate) now: Instant,
    pub(crate) has_data: bool,
    pub(crate) is_pushed: bool,
    /// End of the segment's data, as a sequence number.
    pub(crate) end: u32,
    pub(crate) is_beside_receiver: bool,
    /// It is sent again, or fills a hole.
    pub(crate) is_repair: bool,
    pub(crate) is_time_out: bool,
    /// Timestamp value.
    pub(crate) stamp: Option<u32>,
    pub(crate) rtt: Option<Duration>,
}

impl TimeSpent {
    fn under_way(&self) -> TimeCause {
        if self.has_left_slow_start { TimeCause::PathRate } else { TimeCause::SlowStart }
    }

    /// What was waited since the last progress becomes time of its causes.
    fn settle(&mut self, is_outage: bool) {
        let (waited, repaired) = (std::mem::take(&mut self.waited), std::mem::take(&mut self.repaired));
        self.has_timed_out = false;
        self.longest_stall = self.longest_stall.max(waited + repaired);
        if is_outage && waited + repaired >= OUTAGE {
            self.parts.add(TimeCause::Outage, waited + repaired);
            return;
        }
        self.parts.add(TimeCause::LossRecovery, repaired);
        self.parts.add(self.under_way(), waited);
    }

    /// True when the sender's own clock says that what comes after a pause was sent during the first half of
    /// it: then it was under way, and the sender did not pause. How fast that clock runs is known from the
    /// packets before.
    fn was_sent_before(&mut self, s: &Resumed) -> bool {
        let Some(stamp) = s.stamp.filter(|_| self.has_stamps) else { return false };
        let (first, last) = self.stamps;
        self.stamps = (first, stamp);
        let (whole, pause) = (s.now.saturating_since(self.begin).as_micros(), self.waited.as_micros());
        let [all, ticks] = [first, last].map(|from| u64::from(stamp.wrapping_sub(from)));
        let is_known = (10..1 << 31).contains(&all) && ticks < 1 << 31;
        is_known && u128::from(ticks) * 2 * u128::from(whole) < u128::from(all) * u128::from(pause)
    }

    fn count_round(&mut self, now: Instant, una: u64, rtt: Option<Duration>) {
        let Some(rtt) = rtt.filter(|_| !self.has_left_slow_start) else { return };
        let Some(start) = self.round_start.get() else {
            (self.round_start, self.round_una) = (OptionalInstant::at(now), una);
            return;
        };
        let passed = now.saturating_since(start);
        if passed < rtt.max(Duration::from_millis(1)) {
            return;
        }
        let rate = una.saturating_sub(self.round_una).saturating_mul(1_000_000) / passed.as_micros().max(1);
        if rate > self.best_rate + self.best_rate / 4 {
            (self.best_rate, self.flat_rounds) = (rate, 0);
        } else if !self.was_idle {
            self.flat_rounds += 1;
        }
        self.has_left_slow_start = self.flat_rounds >= FLAT_ROUNDS;
        self.was_idle = false;
        (self.round_start, self.round_una) = (OptionalInstant::at(now), una);
    }

    /// The receiver advertised that it takes data up to `seq`; told as often as [`Packets::wants_edge`] says.
    pub(crate) fn on_edge(&mut self, now: Instant, seq: u32) {
        let at_us = (now.as_nanos() / 1_000) as u32;
        self.newest_edge = (self.newest_edge + 1) % EDGES as u8;
        self.edges = (self.edges + 1).min(EDGES as u8);
        self.advertised[usize::from(self.newest_edge)] = AdvertisedEdge { seq, at_us };
    }

    /// True when data up to `end` that comes now used what the sender knew of the window: less than two
    /// segments of it were left.
    fn reaches_edge(&self, now: Instant, end: u32, segment: u64, rtt: Duration) -> bool {
        let now_us = (now.as_nanos() / 1_000) as u32;
        let way = rtt.as_micros() + rtt.as_micros() / EDGES as u64;
        let known = (0..usize::from(self.edges)).find_map(|age| {
            let edge = self.advertised[(usize::from(self.newest_edge) + EDGES - age) % EDGES];
            (u64::from(now_us.wrapping_sub(edge.at_us)) >= way).then_some(edge.seq)
        });
        known.is_some_and(|seq| i64::from(seq.wrapping_sub(end) as i32) < 2 * segment as i64)
    }
}

impl Packets {
    /// True when an edge that this sender advertises now is to be remembered: an eighth of a round trip after
    /// the last one.
    #[inline]
    pub(crate) fn wants_edge(&self, now: Instant) -> bool {
        let at_us = (now.as_nanos() / 1_000) as u32;
        self.edge_gap_us == 0 || at_us.wrapping_sub(self.edge_at_us) >= self.edge_gap_us
    }

    /// It was remembered; the path takes `rtt` there and back.
    pub(crate) fn edge_noted(&mut self, now: Instant, rtt: Duration) {
        self.edge_at_us = (now.as_nanos() / 1_000) as u32;
        self.edge_gap_us = u32::try_from(rtt.as_micros() / EDGES as u64 + 1).unwrap_or(u32::MAX);
    }
}

impl Half {
    /// Time passed between two packets.
    #[inline]
    pub(crate) fn spend(&mut self, spending: &Spending) {
        let Spending { passed, window, .. } = *spending;
        if !self.time.has_begun {
            return;
        }
        let outstanding = self.outstanding();
        // As long as there is room for the largest packet, how large its pieces are need not be known.
        let room = outstanding + u64::from(self.edge.segment_max).max(1);
        let segment = match window.is_some_and(|window| window < room) {
            true => self.wire_segment(u64::from(self.edge.segment_max)).max(1),
            false => 0,
        };
        let is_recovering = self.is_recovering();
        let has_hole = self.edge.coverage.as_ref().is_some_and(crate::coverage::Coverage::has_open_hole);
        let is_done = self.data.fin_seen && self.edge.una + 1 >= self.data.fin_end;
        let is_full = match spending.is_beside_receiver {
            true => window.is_some_and(|window| window < segment),
            false => window.is_some_and(|window| {
                if outstanding == 0 { window < segment } else { outstanding + segment > window }
            }),
        };
        let spent = &mut self.time;
        if spending.is_closed || is_done {
            spent.parts.add(TimeCause::Closing, passed);
        } else if !spending.is_answered {
            spent.parts.add(TimeCause::Unclear, passed);
        } else if spending.is_beside_receiver {
            match () {
                () if is_full => spent.parts.add(TimeCause::ReceiveWindow, passed),
                () if has_hole => spent.repaired += passed,
                () => spent.waited += passed,
            }
        } else if is_full && !is_recovering && spent.repaired.is_zero() {
            spent.parts.add(TimeCause::ReceiveWindow, passed);
        } else if outstanding == 0 {
            spent.idle += passed;
        } else if is_recovering {
            spent.repaired += passed;
        } else {
            spent.waited += passed;
        }
    }

    /// The other side acknowledged data that it had not before.
    pub(crate) fn progress(&mut self, now: Instant, is_beside_receiver: bool, path_rtt: Option<Duration>) {
        if !self.time.has_begun {
            return;
        }
        let una = self.edge.una;
        let rtt = path_rtt.or_else(|| self.smoothed_rtt());
        if !is_beside_receiver {
            let is_outage = self.time.has_timed_out;
            self.time.settle(is_outage);
        }
        self.time.count_round(now, una, rtt);
    }

    /// Data or a FIN of this direction came.
    pub(crate) fn resume(&mut self, s: &Resumed) {
        let spent = &mut self.time;
        if !spent.has_begun {
            if s.has_data {
                (spent.has_begun, spent.begin) = (true, s.now);
                spent.was_pushed = s.is_pushed;
                spent.has_stamps = s.stamp.is_some();
                spent.stamps = s.stamp.map_or((0, 0), |stamp| (stamp, stamp));
            }
            return;
        }
        spent.has_left_slow_start |= s.is_repair;
        let pause = if s.has_data { TimeCause::Application } else { TimeCause::Closing };
        if !spent.idle.is_zero() {
            let idle = std::mem::take(&mut spent.idle);
            spent.parts.add(pause, idle);
            spent.was_idle = true;
        }
        if !s.is_beside_receiver {
            if s.is_repair {
                spent.repaired += std::mem::take(&mut spent.waited);
            }
            spent.has_timed_out |= s.is_time_out;
            return;
        }
        let rtt = s.rtt.unwrap_or(Duration::ZERO);
        let is_silence = spent.waited >= rtt + TIME_OUT;
        let was_sent_before = spent.was_sent_before(s);
        if spent.is_at_edge && !is_silence && spent.repaired.is_zero() {
            let waited = std::mem::take(&mut spent.waited);
            spent.parts.add(TimeCause::ReceiveWindow, waited);
        } else if !s.has_data
            || (spent.was_pushed && !was_sent_before && !s.is_repair && spent.repaired.is_zero())
        {
            // Seen from the sender the pause begins with the acknowledgement and ends with the next segment.
            let paused = spent.waited.saturating_sub(rtt);
            spent.waited = spent.waited.saturating_sub(paused);
            spent.parts.add(pause, paused);
            spent.was_idle |= !paused.is_zero();
        } else if is_silence {
            spent.repaired += std::mem::take(&mut spent.waited);
        }
        spent.settle(true);
        spent.was_pushed = s.is_pushed;
        let segment = self.wire_segment(u64::from(self.edge.segment_max)).max(1);
        self.time.is_at_edge = s.rtt.is_some_and(|rtt| self.time.reaches_edge(s.now, s.end, segment, rtt));
    }

    /// The parts from the flow's first packet to its last, and the longest time without progress. `is_open` says that nothing ended it;
    /// `beside_receiver` is the round trip of the path, if that is where it was captured.
    pub(crate) fn time_parts(
        &mut self,
        (first, handshake, last): (Instant, Instant, Instant),
        is_open: bool,
        beside_receiver: Option<Duration>,
    ) -> (Parts, Duration) {
        let spent = &mut self.time;
        let begin = if spent.has_begun { spent.begin } else { last }.min(last).max(first);
        let opened = handshake.max(first).min(begin);
        let rest = if is_open { TimeCause::Application } else { TimeCause::Closing };
        let (idle, is_outage) = (spent.idle, spent.has_timed_out);
        spent.settle(is_outage);
        spent.parts.add(rest, idle);
        spent.parts.add(TimeCause::Handshake, opened.saturating_since(first));
        // The first data is a round trip on its way after what asked for it.
        let before = begin.saturating_since(opened);
        let on_the_way = before.min(beside_receiver.unwrap_or(Duration::ZERO));
        spent.parts.add(TimeCause::SlowStart, on_the_way);
        spent.parts.add(TimeCause::Application, before.saturating_sub(on_the_way));
        (spent.parts, spent.longest_stall)
    }
}
