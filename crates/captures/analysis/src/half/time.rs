//! [`TimeSpent`]: the time of one direction, given to its causes as packets pass.

use units::{Duration, Instant};

use super::Half;
use super::windows::WindowEdges;
use crate::budget::{Parts, TimeCause};
use crate::coverage::Coverage;
use crate::echoes::Echoes;
use crate::fetch::{Fetch, fetch_span};
use crate::loss_line::{LossLine, PathFacts, is_queue};
use crate::optional_instant::OptionalInstant;
use crate::samples::Samples;

/// Least time without progress called an outage: longer than a first time-out and its repair.
const OUTAGE: Duration = Duration::from_secs(1);
/// Shortest time-out of a sender, less what timers may be early (Linux: 200 ms).
pub(crate) const TIME_OUT: Duration = Duration::from_millis(180);
/// Rounds without growth that end slow start, and the growth, as BBR has them: three, and a quarter.
const FLAT_ROUNDS: u8 = 3;
/// Number of lost segments from which they may be a policer's, and their least share, one in this number.
const LOST_MIN: u64 = 20;
const LOST_SHARE: u64 = 50;
/// Time after the first acknowledgement within which acknowledged data counts as sent at first, on paths however short.
const FIRST_FLIGHT_MIN: Duration = Duration::from_millis(5);
/// Shares of time by cause, for the sender of this direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeShares {
    pub(crate) window_limited: Duration,
    pub(crate) idle: Duration,
}

/// State of a direction's time so far; it begins with its first data. What most packets need comes first.
#[derive(Clone, Debug, Default)]
#[repr(C)]
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
    longest_stall: Duration,
    parts: Parts,
    pub(crate) shares: TimeShares,
    /// Time when the first data came.
    begin: Instant,
    /// Time during which the data that asked for the first data was repaired.
    repaired_before: Duration,
    /// Time when the first data was acknowledged, and up to where.
    first_acked: OptionalInstant,
    first_acked_to: u64,
    /// The same of the last acknowledgement of what was sent at first.
    flight_acked: Instant,
    flight_acked_to: u64,
    /// Line through the losses; stored apart, since few flows have any.
    loss_line: Option<Box<LossLine>>,
    /// Round trips by the receiver's own clock.
    echoes: Option<Box<Echoes>>,
    /// Timestamp values of the first data and of the last; meaningless without `has_stamps`.
    stamps: (u32, u32),
    /// Edges of the window that the receiver advertised.
    pub(crate) edges: WindowEdges,
}

impl TimeSpent {
    /// Fetches what data will need, or with `is_ack` an acknowledgement of it.
    #[inline]
    pub(super) fn fetch(&self, fetch: Fetch, is_ack: bool) {
        match is_ack {
            true => fetch_span(fetch, &self.until, &self.parts),
            false => fetch_span(fetch, &self.until, &self.has_stamps),
        }
    }
}

/// Facts known besides of the time since the last packet, for [`Half::spend`].
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
    /// Echo of a timestamp value.
    pub(crate) echo: Option<u32>,
    pub(crate) rtt: Option<Duration>,
    /// Time during which the other direction has repaired losses, if this is the first data.
    pub(crate) repaired_before: Duration,
}

/// Facts known of a flow's beginning and end besides the time of its data, for [`Half::time_parts`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) first: Instant,
    /// End of the handshake.
    pub(crate) opened: Instant,
    pub(crate) last: Instant,
    /// Time until then in which what ends the handshake was sent again.
    pub(crate) reopened: Duration,
    /// Nothing ended the flow.
    pub(crate) is_open: bool,
    /// Round trip of the path, if that is where it was captured.
    pub(crate) beside_receiver: Option<Duration>,
}

impl TimeSpent {
    fn under_way(&self) -> TimeCause {
        if self.has_left_slow_start { TimeCause::PathRate } else { TimeCause::SlowStart }
    }

    /// Assigns the time waited since the last progress to its causes.
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
            (self.first_acked, self.first_acked_to) = (OptionalInstant::at(now), una);
            (self.flight_acked, self.flight_acked_to) = (now, una);
            return;
        };
        let begin = self.first_acked.get().unwrap_or(start);
        if now.saturating_since(begin) <= (rtt / 2).max(FIRST_FLIGHT_MIN) {
            (self.flight_acked, self.flight_acked_to) = (now, una);
        }
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

    /// The receiver, which acknowledges everything below `una`, says for the first time that it holds `news` bytes
    /// above; with `shows_loss`, above a hole that was not known. `rtt` is that of now, and the shortest.
    pub(crate) fn on_sacked(
        &mut self,
        now: Instant,
        una: u64,
        news: u64,
        shows_loss: bool,
        rtt: Option<(Duration, Duration)>,
    ) {
        let has_queue = rtt.is_some_and(|(now, least)| is_queue(now, least));
        self.loss_line.get_or_insert_default().on_sacked(now, una, news, shows_loss, has_queue);
    }

    /// Of what was acknowledged now, up to `una`, the receiver was known to hold `bytes`.
    #[inline]
    pub(crate) fn on_acknowledged(&mut self, now: Instant, una: u64, bytes: u64) {
        if let Some(line) = &mut self.loss_line {
            line.on_acknowledged(now, una, bytes);
        }
    }

    /// The receiver sent a packet with this timestamp value.
    pub(crate) fn on_receiver_stamp(&mut self, now: Instant, stamp: u32) {
        self.echoes.get_or_insert_with(|| Box::new(Echoes::new(now, stamp))).on_stamp(now, stamp);
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
        let room = outstanding + u64::from(self.sizes.max).max(1);
        let segment = match window.is_some_and(|window| window < room) {
            true => self.sizes.wire_segment(u64::from(self.sizes.max)).max(1),
            false => 0,
        };
        let is_recovering = self.is_recovering();
        let has_hole = self.stream.coverage.as_ref().is_some_and(Coverage::has_open_hole);
        let is_done = self.stream.fin_end.is_some_and(|end| self.stream.una + 1 >= end);
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
        } else if is_recovering || !spent.repaired.is_zero() {
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
        let una = self.stream.una;
        let rtt = path_rtt.or_else(|| self.smoothed_rtt());
        if !is_beside_receiver {
            let is_outage = self.time.has_timed_out;
            self.time.settle(is_outage);
        }
        self.time.count_round(now, una, rtt);
    }

    /// Data or a FIN of this direction came.
    pub(crate) fn resume(&mut self, s: &Resumed) {
        let is_repair = s.is_repair;
        let spent = &mut self.time;
        if !spent.has_begun {
            if s.has_data {
                (spent.has_begun, spent.begin) = (true, s.now);
                spent.repaired_before = s.repaired_before;
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
        if let (Some(echoes), Some(echo)) = (&mut spent.echoes, s.echo)
            && spent.repaired.is_zero()
            && spent.waited <= rtt
        {
            echoes.on_echo(s.now, echo);
        }
        let is_silence = spent.waited >= rtt + TIME_OUT;
        let was_sent_before = spent.was_sent_before(s);
        if spent.is_at_edge && !is_silence && !is_repair && spent.repaired.is_zero() {
            let waited = std::mem::take(&mut spent.waited);
            spent.parts.add(TimeCause::ReceiveWindow, waited);
        } else if !s.has_data
            || (spent.was_pushed && !was_sent_before && !is_repair && spent.repaired.is_zero())
        {
            // Seen from the sender the pause begins with the acknowledgement and ends with the next segment.
            let paused = spent.waited.saturating_sub(rtt);
            spent.waited = spent.waited.saturating_sub(paused);
            spent.parts.add(pause, paused);
            spent.was_idle |= !paused.is_zero();
        } else if is_silence || is_repair {
            spent.repaired += std::mem::take(&mut spent.waited);
        }
        spent.settle(true);
        spent.was_pushed = s.is_pushed;
        let segment = self.sizes.wire_segment(u64::from(self.sizes.max)).max(1);
        self.time.is_at_edge =
            s.rtt.is_some_and(|rtt| self.time.edges.are_reached(s.now, s.end, segment, rtt));
    }

    /// True when the losses so far are those of a policer.
    pub(crate) fn is_policed(&self, rtt: Option<Duration>) -> bool {
        let lost = self.counts.retransmissions.wire_segments + self.counts.holes.lost_before;
        let segment = self.sizes.wire_segment(u64::from(self.sizes.max)).max(1);
        let is_much = lost >= LOST_MIN && lost * LOST_SHARE >= self.data_wire_segments();
        let line = self.time.loss_line.as_ref().filter(|_| is_much);
        let path = PathFacts {
            segment,
            rtt: rtt.unwrap_or_default(),
            best_rate: self.time.best_rate,
            begin: self.time.first_acked.get().map(|begin| (begin, self.time.first_acked_to)),
            flight: (self.time.flight_acked, self.time.flight_acked_to),
        };
        line.is_some_and(|line| line.is_policers(&path))
    }

    /// Round trips as the receiver sees them, if the capture was made there.
    pub(crate) fn receiver_rtt(&self) -> Option<&Samples<Duration>> {
        self.time.echoes.as_ref().map(|echoes| echoes.samples())
    }

    /// Its first data has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.time.has_begun
    }

    /// Time during which losses were repaired so far.
    pub(crate) fn time_repaired(&self) -> Duration {
        let parts = &self.time.parts;
        parts.of(TimeCause::LossRecovery) + parts.of(TimeCause::Outage) + self.time.repaired
    }

    /// The parts from the flow's first packet to its last, and the longest time without progress.
    pub(crate) fn time_parts(&mut self, bounds: &Bounds) -> (Parts, Duration) {
        let Bounds { first, last, .. } = *bounds;
        let spent = &mut self.time;
        let begin = if spent.has_begun { spent.begin } else { last }.min(last).max(first);
        let opened = bounds.opened.max(first).min(begin);
        let rest = if bounds.is_open { TimeCause::Application } else { TimeCause::Closing };
        let (idle, is_outage) = (spent.idle, spent.has_timed_out);
        if let Some(rtt) = bounds.beside_receiver {
            // As at other pauses, but that nothing ends this one.
            if spent.was_pushed {
                let paused = spent.waited.saturating_sub(rtt);
                spent.waited = spent.waited.saturating_sub(paused);
                spent.parts.add(rest, paused);
            } else if spent.waited >= rtt + TIME_OUT {
                spent.repaired += std::mem::take(&mut spent.waited);
            }
        }
        spent.settle(is_outage || bounds.beside_receiver.is_some());
        spent.parts.add(rest, idle);
        let opening = opened.saturating_since(first);
        let reopened = opening.min(bounds.reopened);
        spent.parts.add(TimeCause::Handshake, opening.saturating_sub(reopened));
        spent.parts.add(TimeCause::LossRecovery, reopened);
        // What asked for the data may have been lost. The first data is a round trip on its way after it.
        let before = begin.saturating_since(opened);
        let asked_again = before.min(spent.repaired_before);
        let before = before.saturating_sub(asked_again);
        spent.parts.add(TimeCause::LossRecovery, asked_again);
        let on_the_way = before.min(bounds.beside_receiver.unwrap_or(Duration::ZERO));
        spent.parts.add(TimeCause::SlowStart, on_the_way);
        spent.parts.add(TimeCause::Application, before.saturating_sub(on_the_way));
        (spent.parts, spent.longest_stall)
    }
}
