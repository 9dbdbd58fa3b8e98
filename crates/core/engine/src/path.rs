//! [`Path`]: the way to a subscriber: one radio queue, one controller, and fair turns for its flows.

use std::collections::VecDeque;
use std::mem::offset_of;

use control::{
    Ack, AnyController, Control, Controller, Feedback, Known, Loss, LossKind, Mark, RateSampler, RecentMax,
    SendStamp, Sent,
};
use tcp::{AckOutcome, ReturnWait};
use units::{Bytes, Duration, Instant, Rate};

pub(crate) mod family;
pub(crate) mod pacing;
pub(crate) mod ready_list;
pub(crate) mod sight;
pub(crate) mod subscriber;
pub(crate) mod turns;

use pacing::Pacer;
use sight::Sight;
use turns::Turns;

use crate::direction::End;
use crate::opaque;

/// Time for which a wait of acknowledgements of one flow counts for the others.
const RETURN_MEMORY: Duration = Duration::from_millis(200);

/// Answers come often enough where each of them releases less than this part of what is usually under way.
const GRAINS: u64 = 3;

/// State that the flows of one client address share once there was data for any of them.
///
/// What each packet needs lies in front, and the controller begins and ends with what it needs of it.
#[derive(Debug, stored::Stored)]
#[repr(C, align(64))]
#[stored(order(
    controller,
    sampler,
    in_flight,
    pacer,
    turns,
    urgent,
    is_ready,
    buffered,
    last_used,
    delivery_rate,
    sight,
    opaque,
    return_wait,
    marked_at
))]
pub(crate) struct Path {
    /// Bytes of all its accelerated flows in the network.
    pub(crate) in_flight: u64,
    pub(crate) pacer: Pacer,
    /// Memory in stream buffers of its flows, in bytes.
    pub(crate) buffered: u64,
    pub(crate) last_used: Instant,
    /// Flows that may have something to send.
    pub(crate) turns: Turns,
    /// It waits in the list of subscribers that may send ([`ready_list::ReadyList`]).
    is_ready: bool,
    pub(crate) sampler: RateSampler,
    /// Flows that may have something to send that must not wait for room.
    pub(crate) urgent: VecDeque<u32>,
    /// Packets that pass to the subscriber.
    pub(crate) opaque: opaque::Place,
    /// Time at which the controller last heard of a mark.
    #[stored(since(8, Instant::ZERO))]
    marked_at: Instant,
    /// Time that its acknowledgements wait on their way back all the time, and when that was seen.
    #[stored(since(5, (Duration::ZERO, Instant::ZERO)))]
    return_wait: (Duration, Instant),
    /// Of 10 s: it sizes the window offered to servers.
    delivery_rate: RecentMax<Rate>,
    pub(crate) controller: AnyController,
    /// Figures that are shown of it.
    pub(crate) sight: Sight,
}

impl Path {
    /// Parts of its memory that a packet needs, as offsets of their first bytes and of the next ones behind: one of the
    /// source with data, or an acknowledgement of the sink. As it is with [`control::Adaptive`]; the state of others is
    /// smaller, and the rest of it is fetched when it is needed.
    pub(crate) fn touched_by(from: End) -> [(usize, usize); 3] {
        let at = offset_of!(Self, controller);
        let [(_, first), (second, third), (fourth, _)] = match from {
            End::Source => control::Adaptive::TOUCHED_BY_DATA,
            End::Sink => control::Adaptive::TOUCHED_BY_ACKS,
        };
        [(0, at + first), (at + second, at + third), (at + fourth, size_of::<Self>())]
    }

    /// A path on which nothing is under way; nothing leaves before `now`.
    pub(crate) fn new(controller: AnyController, now: Instant) -> Self {
        Self {
            controller,
            sampler: RateSampler::new(),
            in_flight: 0,
            pacer: Pacer::new(now),
            turns: Turns::default(),
            urgent: VecDeque::new(),
            is_ready: false,
            buffered: 0,
            last_used: now,
            delivery_rate: RecentMax::default(),
            sight: Sight::default(),
            opaque: opaque::Place::default(),
            return_wait: (Duration::ZERO, Instant::ZERO),
            marked_at: Instant::ZERO,
        }
    }

    /// True when a flow may have something to send.
    pub(crate) fn has_work(&self) -> bool {
        !self.turns.is_empty() || self.opaque.has_waiting()
    }

    /// Bytes in the network: of accelerated flows, and of those that pass as far as they are scheduled here.
    pub(crate) fn under_way(&self) -> u64 {
        self.in_flight + self.opaque.under_way()
    }

    /// It is known what is under way of what passes, so that this waits for the window: something answers often enough,
    /// and the queue is first in, first out.
    pub(crate) fn opaque_is_gated(&self, now: Instant) -> bool {
        self.opaque.get().is_some_and(|opaque| {
            let grain = opaque.under_way.grain();
            // What is gated stays so until its answers are rare.
            let grains = if opaque.queues.is_empty() { GRAINS } else { 1 };
            let is_often = || grain.saturating_mul(grains) <= self.usual_in_flight();
            // Accelerated flows are asked by their data as often as is needed.
            let is_own = self.in_flight > 0 || !self.turns.is_empty();
            let is_answered = is_own || opaque.has_source(now) && is_often();
            is_answered && !opaque.under_way.is_contradicted()
        })
    }

    /// Bytes under way in a round trip at the recent rate, or what the controller allows if that is more.
    fn usual_in_flight(&self) -> u64 {
        let window = self.controller.control().window;
        let carried = self.delivery_rate.get().zip(self.controller.round_trip());
        carried.map_or(window, |(rate, rtt)| rate.bytes_in(rtt).max(window)).get()
    }

    /// Follows a change of one flow's bytes in flight.
    pub(crate) fn adjust_in_flight(&mut self, before: u32, after: u32) {
        self.in_flight = (self.in_flight + u64::from(after)).saturating_sub(u64::from(before));
    }

    /// Hands an acknowledgement's news to the controller; `in_flight_before` is what was in flight
    /// when it came, and `is_marked` where it tells of a mark.
    // Each packet comes through here: a call would cost as much again.
    #[inline(always)]
    pub(crate) fn on_ack(
        &mut self,
        out: &AckOutcome,
        (min_rtt, waited): (Option<Duration>, ReturnWait),
        (in_flight_before, is_marked): (u64, bool),
        now: Instant,
    ) {
        self.note_return(waited, now);
        if let Some(rtt) = out.rtt {
            self.sight.on_round_trip(rtt, min_rtt.unwrap_or(rtt));
        }
        if out.undid_timeout {
            self.controller.on_undo(now);
        }
        // What another engine had sent was lost on another way.
        let lost = out.lost - out.lost_before;
        if lost > 0 {
            self.on_loss(lost, LossKind::Fast, out.is_new_loss, now);
        }
        // What a sink discards beyond its window the link has delivered all the same (H18).
        let own = out.delivered.saturating_add(out.discarded);
        // What passed before it was sent has left as well.
        let passed = out.rtt.map_or(0, |rtt| self.opaque.on_answer(now - rtt, now));
        let delivered = Bytes::from(own.saturating_add(passed));
        if delivered == Bytes::ZERO {
            return;
        }
        let rate = self.sampler.on_delivered(delivered, out.newest.as_ref(), min_rtt, now);
        if let Some(sample) = rate {
            self.delivery_rate.update(sample.rate, now);
        }
        let mark = if is_marked { self.mark(out.rtt, now) } else { None };
        let Control { window, send_quantum, .. } = self.controller.control();
        let in_flight_before = Bytes::new(in_flight_before);
        // A piece may be longer than the window; then a trickle would seem to fill it.
        let piece = send_quantum.min(Bytes::new(window.get() / 2));
        self.controller.on_ack(&Ack {
            now,
            delivered,
            discarded: Bytes::from(out.discarded),
            peer_window: Bytes::from(out.window),
            delivered_total: self.sampler.delivered(),
            rtt: out.rtt,
            return_wait: waited.this.max(self.return_wait.0),
            lasting_return_wait: self.return_wait.0,
            min_rtt,
            rate,
            in_flight: Bytes::new(self.under_way()),
            in_flight_before,
            others: Bytes::new(self.opaque.under_way()),
            lost: Bytes::from(lost),
            is_recovering: out.is_recovering,
            is_window_limited: in_flight_before + piece > window,
            mark,
        });
    }

    /// A mark on what was sent `rtt` ago. One that was sent before the controller has heard of the last one says what
    /// that said, whichever flow it is of (RFC 3168 §6.1.2: once a round trip).
    fn mark(&mut self, rtt: Option<Duration>, now: Instant) -> Option<Mark> {
        let sent_at = now - rtt?;
        if sent_at < self.marked_at {
            return None;
        }
        self.marked_at = now;
        Some(Mark::Classic)
    }

    /// Follows how long acknowledgements wait all the time: the longest of its flows, of which each knows what it has
    /// seen itself.
    fn note_return(&mut self, waited: ReturnWait, now: Instant) {
        let (wait, at) = self.return_wait;
        if waited.lasting >= wait || now.saturating_since(at) > RETURN_MEMORY {
            self.return_wait = (waited.lasting, now);
        }
    }

    /// A flow that passes has acknowledged a packet sent at `stamp`: `bytes` have left that were not known to have.
    pub(crate) fn on_answer(&mut self, bytes: u32, stamp: &SendStamp, in_flight_before: u64, now: Instant) {
        // Accelerated flows know the round trip better: nobody's delayed acknowledgements are in it.
        let rtt = (self.in_flight == 0).then(|| now.saturating_since(stamp.sent_at));
        let delivered = Bytes::from(bytes);
        let rate = self.sampler.on_delivered(delivered, Some(stamp), None, now);
        if let Some(sample) = rate {
            self.delivery_rate.update(sample.rate, now);
        }
        let Control { window, send_quantum, .. } = self.controller.control();
        let in_flight_before = Bytes::new(in_flight_before);
        let piece = send_quantum.min(Bytes::new(window.get() / 2));
        self.controller.on_ack(&Ack {
            now,
            delivered,
            discarded: Bytes::ZERO,
            peer_window: Bytes::MAX,
            delivered_total: self.sampler.delivered(),
            rtt,
            return_wait: self.return_wait.0,
            lasting_return_wait: self.return_wait.0,
            min_rtt: None,
            rate,
            in_flight: Bytes::new(self.under_way()),
            in_flight_before,
            others: Bytes::new(self.opaque.under_way()),
            lost: Bytes::ZERO,
            is_recovering: false,
            is_window_limited: in_flight_before + piece > window,
            mark: None,
        });
    }

    /// State of the way to the subscriber, for another engine's path to it.
    pub(crate) fn known(&self) -> Known {
        Known { round_trip: self.controller.round_trip(), rate: self.delivery_rate.get() }
    }

    /// Takes in what another engine's path to the subscriber knew.
    pub(crate) fn on_known(&mut self, known: &Known, now: Instant) {
        self.controller.on_known(known, now);
        if let Some(rate) = known.rate {
            self.delivery_rate.update(rate, now);
        }
    }

    pub(crate) fn on_loss(&mut self, lost: u32, kind: LossKind, is_new_event: bool, now: Instant) {
        let in_flight = Bytes::new(self.under_way());
        self.controller.on_loss(&Loss { now, lost: Bytes::from(lost), kind, is_new_event, in_flight });
    }

    /// Tells the controller of `len` payload bytes that leave, `in_flight_before` before them.
    pub(crate) fn on_send(&mut self, len: u32, in_flight_before: u64, now: Instant) {
        self.controller.on_send(&Sent {
            now,
            bytes: Bytes::from(len),
            in_flight: Bytes::new(in_flight_before),
            is_app_limited: self.sampler.is_app_limited(),
        });
    }

    /// Hands a report of the base station to the controller.
    pub(crate) fn on_feedback(&mut self, feedback: &Feedback) {
        let before = self.controller.control().pacing_rate;
        self.controller.on_feedback(feedback);
        self.pacer.on_rate_change(before, self.controller.control().pacing_rate, feedback.now);
    }

    /// Follows a change of what one flow keeps in its buffer, in bytes.
    pub(crate) fn adjust_buffered(&mut self, before: usize, after: usize) {
        self.buffered = (self.buffered + after as u64).saturating_sub(before as u64);
    }

    /// Bytes that may still go into the network now.
    pub(crate) fn room(&self, control: &Control, mss: u32, now: Instant) -> u32 {
        let room = control.window.get().saturating_sub(self.under_way()).min(u64::from(u32::MAX)) as u32;
        // One segment goes beyond the window where its acknowledgement is wanted.
        if room < mss && self.opaque.wants_evidence(now) { mss } else { room }
    }

    /// Window that a flow's source needs, at the largest recent rate: twice what both segments hold
    /// (as \[WA\] equation (8) and the receive buffers of end hosts: once what is under way, and as
    /// much again until it is known to be needed).
    ///
    /// What is under way to the sink is at most twice what was in the last round trip, and what the
    /// controller allows: in an outage the round trip grows without end, the data under way does
    /// not. Or it is `sent` where that is more: what has arrived behind a hole is in no network any
    /// more, but is held until the hole is repaired.
    pub(crate) fn needs(&self, rtt: Option<Duration>, source_rtt: Duration, sent: Bytes) -> Bytes {
        match (self.delivery_rate.get(), rtt) {
            (Some(rate), Some(rtt)) => {
                let allowed = self.controller.control().window.max(sent);
                let under_way = rate.bytes_in(rtt * 2).min(allowed);
                let both = under_way + rate.bytes_in(source_rtt);
                both + both
            }
            _ => Bytes::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use control::{ControllerConfig, NewRenoParams};

    use super::*;

    /// Nothing but time depends on it, so nothing else would show that a new field lies in the wrong place.
    #[test]
    fn what_a_packet_fetches_of_a_path_is_known() {
        let params = control::AdaptiveParams::default();
        let path = Path::new(ControllerConfig::Adaptive(params).build(), Instant::ZERO);
        let AnyController::Adaptive(adaptive) = &path.controller else { panic!("another one") };
        let [whole, own] = [std::ptr::from_ref(&path.controller).addr(), std::ptr::from_ref(adaptive).addr()];
        assert_eq!(whole, own, "offsets of the one are those of the other");
        let lines = |from| -> usize {
            let parts = Path::touched_by(from).into_iter();
            parts.map(|(start, end)| end.div_ceil(64) - start / 64).sum()
        };
        assert_eq!([lines(End::Source), lines(End::Sink), size_of::<Path>() / 64], [10, 16, 23]);
    }

    #[test]
    fn a_window_that_the_next_piece_would_just_fill_is_no_limit() {
        let mss = Bytes::new(1_000);
        let params = NewRenoParams { mss, initial_ssthresh: Some(mss), ..NewRenoParams::default() };
        let window = |in_flight_before: fn(u64) -> u64| {
            let mut path = Path::new(ControllerConfig::NewReno(params).build(), Instant::ZERO);
            let before = path.controller.control().window;
            let out = AckOutcome { acked: 1_000, delivered: 1_000, ..AckOutcome::default() };
            for _ in 0..before.get() / 1_000 {
                path.on_ack(
                    &out,
                    (None, ReturnWait::default()),
                    (in_flight_before(before.get()), false),
                    Instant::from_millis(1),
                );
            }
            path.controller.control().window.saturating_sub(before)
        };
        // Congestion avoidance: a segment more for a window of them.
        assert_eq!(window(|window| window - 1_000), Bytes::ZERO);
        assert_eq!(window(|window| window - 999), mss);
    }
}
