//! Segments of the sink on a relayed flow.
//!
//! What a segment acknowledges is for us; what it carries is for the source, and goes on with our own
//! acknowledgement, window and timestamp echo in place of the sink's.

use tcp::{AckIn, AckOutcome};
use units::SeqNum;
use wire::{Tcp, TcpFlags};

use super::Relay;
use super::acceptance::AckKind;
use super::accurate_ecn::Age;
use super::conduct::DESYNCHRONISED_AFTER;
use super::departure::Departure;
use crate::direction::End;
use crate::effect::{Answer, Effect};
use crate::pass::PassReason;
use crate::segment::{Context, Segment};
use crate::timestamp::later_of;

/// Distance beyond the source's window within which a number of the sink is believed: its end of
/// stream, a probe, and windows that we have not seen because they were told before we took over.
const BEYOND_WINDOW: u32 = 65_535;

/// The same where packets may have gone past us: a quarter of the circle.
const DOUBTFUL_MAX: u32 = 1 << 30;

impl Relay {
    /// Notes headers, time and counted marks of a segment within the sink's numbers; true when it brings something
    /// new.
    fn note_sink(&mut self, segment: &Segment<'_>, is_current: bool) -> bool {
        let tcp = segment.tcp;
        // What brings nothing new may be older than what has come.
        let is_later = self.is_later(tcp, self.sink.tsval);
        let brings_more =
            tcp.seq_end().is_after(self.sink.nxt) || tcp.ack.is_after(self.sender.una()) || is_later;
        // What lies beyond all that has come of it tells no time: RFC 7323 §4.3, as we stand before the source.
        let tells_time = is_current && tcp.seq.is_at_or_before(self.sink.nxt);
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
            let age = Age::of(!tells_time || self.sink.has_overtaken(tcp), brings_more);
            accurate_ecn.note(End::Sink, tcp, segment.ecn_byte_counters(), age);
            if let Some(marks) = self.sink_marks.as_deref_mut()
                && accurate_ecn.take_sink_marks() > 0
            {
                marks.on_counted();
            }
        }
        if tells_time {
            self.sink.note(segment.ip(), tcp, self.source.ack);
        }
        is_current && brings_more
    }

    /// Takes in a segment of the sink; `departure` as for [`Relay::on_segment`].
    pub(super) fn on_sink_segment(
        &mut self,
        departure: &mut Option<Departure>,
        segment: &mut Segment<'_>,
        cx: &mut Context<'_>,
    ) -> Effect {
        let tcp = segment.tcp;
        if segment.has(TcpFlags::RST) {
            return self.on_sink_reset(departure.as_ref(), segment, cx);
        }
        if segment.has(TcpFlags::SYN | TcpFlags::ACK) {
            // Its SYN-ACK again: the third packet was lost behind us.
            self.challenge_sink(cx);
            if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
                accurate_ecn.on_syn_ack();
            }
            return Effect::CONSUMED;
        }
        if segment.has(TcpFlags::SYN) {
            return Effect::FORWARD;
        }
        let is_keep_alive = tcp.seq + 1 == self.sink.nxt && tcp.payload_len <= 1;
        // A number from nowhere may come with a time from nowhere, which all that we send for the
        // sink would carry.
        let limit = self.sink_limit(departure.as_ref());
        let is_number = is_keep_alive || self.is_sink_number(tcp, limit);
        let is_doubtful = departure.is_some_and(|departure| departure.is_doubtful());
        let ack = self.judge_sink_ack(tcp, is_doubtful);
        if !ack.is_acceptable() {
            return self.on_unacceptable_ack(departure, (ack, is_number), tcp, cx);
        }
        if self.lacks_timestamp(tcp) && departure.is_none() {
            let is_exact = is_keep_alive || tcp.seq == self.sink.nxt || tcp.seq == self.source.ack;
            if !self.on_missing_timestamp(departure, is_exact, cx) {
                return Effect::CONSUMED;
            }
        }
        if self.is_sink_too_old(tcp, ack) {
            cx.stats.paws_rejected += 1;
            self.challenge_sink(cx);
            return Effect::CONSUMED;
        }
        if is_doubtful {
            self.doubt_sink(tcp);
        }
        if is_number {
            cx.is_news = self.note_sink(segment, ack.is_current());
            self.sink.note_numbers(tcp, limit, is_doubtful);
        }
        // After both ends the source has no use for a bare acknowledgement: if it has closed it
        // would answer with a reset.
        let had_nothing_out = self.sender.is_idle() && !self.has_ended();
        if is_number {
            self.on_ack(departure, tcp, ack, cx);
            if self.wants_window_update(departure.as_ref(), cx) {
                self.outbox.ack_source = true;
            }
        }
        let is_for_source = tcp.payload_len > 0
            || tcp.flags.intersects(TcpFlags::FIN.with(TcpFlags::URG))
            || is_keep_alive
            || had_nothing_out;
        if !is_for_source {
            cx.stats.acks_consumed += 1;
            return Effect::CONSUMED;
        }
        self.rewrite(departure.as_ref(), segment, is_number, cx);
        Effect::FORWARD
    }

    /// Takes in a packet of the sink of a flow in doubt: it has heard what time it is at the source.
    fn doubt_sink(&mut self, tcp: &Tcp) {
        if let Some(timestamps) = tcp.options.timestamps {
            self.source.tsval = later_of(self.source.tsval, timestamps.echo);
        }
    }

    /// True when the segment lies within the source's window: what another one acknowledges is not
    /// believed (RFC 9293 §3.10.7.4).
    pub(super) fn is_sink_number(&self, tcp: &Tcp, limit: SeqNum) -> bool {
        tcp.seq_end().is_at_or_after(self.source.ack) && tcp.seq.is_at_or_before(limit)
    }

    /// Judges what a segment of the sink acknowledges of what was sent to it. What came past us, where
    /// packets may have, it may acknowledge as well.
    #[inline]
    pub(super) fn judge_sink_ack(&self, tcp: &Tcp, is_doubtful: bool) -> AckKind {
        let sent = self.sender.nxt();
        let nxt = if is_doubtful { sent.later_of(self.receiver.next()) } else { sent };
        self.sink.acks.judge(tcp, self.sender.una(), nxt)
    }

    /// True when the source would reject the segment for its time (RFC 7323 §5.3), and it brings something:
    /// what lies before all that the source has acknowledged does no harm, and an acknowledgement without
    /// news neither.
    #[inline]
    fn is_sink_too_old(&self, tcp: &Tcp, ack: AckKind) -> bool {
        self.sink.is_too_old(tcp)
            && (tcp.seq_end().is_after(self.source.ack)
                || (ack.is_current() && tcp.ack.is_after(self.sender.una())))
    }

    /// Takes in a segment whose acknowledgement is not acceptable: it is answered and dropped, with
    /// all that it carries (RFC 5961 §5). With our acknowledgement in place of that the source
    /// would take forged data for the sink's.
    ///
    /// A sink that goes on to acknowledge more than there is has everything we hold, and more, from
    /// elsewhere: we are not needed (H11). Said once, it may be forged or damaged, and what is owed
    /// would be lost; unless packets went past us. The number has to be the exact one: who can guess
    /// that could reset the flow as well (RFC 5961 §3).
    fn on_unacceptable_ack(
        &mut self,
        departure: &mut Option<Departure>,
        (kind, is_number): (AckKind, bool),
        tcp: &Tcp,
        cx: &mut Context<'_>,
    ) -> Effect {
        if kind == AckKind::Missing {
            // Linux has no answer for it either.
            cx.stats.unacceptable_acks += 1;
            return Effect::CONSUMED;
        }
        if !is_number {
            return self.drop_misfit(Answer::None);
        }
        cx.stats.unacceptable_acks += 1;
        let is_exact = tcp.seq == self.sink.nxt || tcp.seq == self.source.ack;
        if tcp.ack.is_after(self.sender.nxt()) && is_exact {
            self.judge_sense(departure, Some(PassReason::NotTcpLike));
        }
        let is_doubtful = departure.is_some_and(|departure| departure.is_doubtful());
        let is_repeated = self.conduct.nonsense() >= DESYNCHRONISED_AFTER && is_exact;
        if tcp.ack.is_at_or_after(self.receiver.next()) && (is_repeated || is_doubtful) {
            return Effect::ending(PassReason::Desynchronised);
        }
        let answer = if is_exact { Answer::ChallengeAlone } else { Answer::Challenge };
        self.drop_misfit(answer)
    }

    /// Answers what is not acceptable, unless something was answered so a moment ago (RFC 5961 §7).
    fn challenge_sink(&mut self, cx: &Context<'_>) {
        self.outbox.ack_sink |= self.conduct.may_challenge(cx.now);
    }

    /// The highest number of the sink that is believed.
    pub(super) fn sink_limit(&self, departure: Option<&Departure>) -> SeqNum {
        // What the source has allowed meanwhile we may not have seen.
        let is_doubtful = departure.is_some_and(Departure::is_doubtful);
        self.source.edge + if is_doubtful { DOUBTFUL_MAX } else { BEYOND_WINDOW }
    }

    /// The acknowledgement part.
    // Each packet comes through here: a call would cost as much again.
    #[inline(always)]
    fn on_ack(&mut self, departure: &mut Option<Departure>, tcp: &Tcp, kind: AckKind, cx: &mut Context<'_>) {
        let before = self.sender.in_flight();
        // What it has of the data that waits here came past us: as if it had been sent.
        let is_doubtful = departure.is_some_and(|departure| departure.is_doubtful());
        let from_elsewhere = (is_doubtful && tcp.ack.is_after(self.sender.nxt()))
            .then_some(tcp.ack)
            .filter(|ack| ack.is_at_or_before(self.receiver.next()));
        let window = self.agreed.sink_scale.window(tcp.window);
        if kind.is_current() {
            let under_way = self.sender.nxt().since(self.sender.una());
            self.sink.acks.note_allowed(window.max(under_way));
        }
        let out = self.sender.on_ack(
            &AckIn {
                seq: tcp.seq,
                ack: from_elsewhere.map_or(tcp.ack, |_| self.sender.nxt()),
                window,
                sack: &tcp.options.sack,
                has_payload: tcp.payload_len > 0,
            },
            cx.now,
        );
        self.sink.acks.note_acked(out.acked);
        if let Some(ack) = from_elsewhere {
            self.sender.skip_to(ack);
        }
        let is_nonsense = out.invalid_sack_blocks > 0;
        if is_nonsense || out.delivered > 0 {
            self.judge_sense(departure, is_nonsense.then_some(PassReason::NonsensicalSack));
        }
        let mut is_marked = false;
        if let Some(marks) = self.sink_marks.as_deref_mut().filter(|_| kind.is_current()) {
            marks.on_flags(tcp.flags.contains(TcpFlags::ECE), self.sender.una());
            // It waits for an acknowledgement that says when what it acknowledges was sent.
            is_marked = out.delivered > 0 && out.rtt.is_some() && marks.take();
        }
        if let Some(path) = cx.path.as_deref_mut() {
            let in_flight_before = path.under_way();
            let times = tcp.options.timestamps;
            let mut waits = |value| self.sink.return_delay.change(|delay| delay.on_packet(value, cx.now));
            let waited = times.map(|times| waits(times.value)).unwrap_or_default();
            path.adjust_in_flight(before, self.sender.in_flight());
            path.on_ack(&out, (self.sender.rtt().min(), waited), (in_flight_before, is_marked), cx.now);
        }
        self.count(&out, cx);
        if out.acked > 0 || from_elsewhere.is_some() {
            self.on_progress(cx);
        } else if self.sender.window() == 0 && tcp.ack == self.sender.una() {
            // It answers, it only has no room: alive. An older number says nothing about the window.
            self.last_progress = cx.now;
        }
        if self.sender.is_fin_acked() && !self.receiver.acks_fin() {
            self.receiver.allow_fin_ack();
            self.outbox.ack_source = true;
        }
        if self.source_reset && self.sender.is_data_acked() {
            self.outbox.reset_sink = true;
        }
    }

    /// Gives up a flow whose acknowledgements make no sense, after some in a row.
    pub(super) fn judge_sense(&mut self, departure: &mut Option<Departure>, nonsense: Option<PassReason>) {
        if let Some(reason) = self.conduct.judge_sense(nonsense) {
            departure.get_or_insert(self.new_departure()).give_up(reason);
        }
    }

    // Each packet comes through here: a call would cost as much again.
    #[inline(always)]
    fn count(&self, out: &AckOutcome, cx: &mut Context<'_>) {
        cx.stats.invalid_sack_blocks += u64::from(out.invalid_sack_blocks);
        cx.stats.timeouts_undone += u64::from(out.undid_timeout);
        cx.stats.fell_back_to_honour += u64::from(out.fell_back);
        cx.meters.duplicates_reported += u64::from(out.has_d_sack);
        if let Some(rtt) = out.rtt {
            cx.meters.round_trip.record(rtt);
            let least = self.sender.rtt().min().unwrap_or(rtt);
            cx.meters.queueing.record(rtt.saturating_sub(least));
        }
    }

    /// The sink has more than before: what it has need not be kept.
    #[inline]
    fn on_progress(&mut self, cx: &mut Context<'_>) {
        self.last_progress = cx.now;
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
            accurate_ecn.on_progress(self.sender.una());
        }
        let held = self.buffer.len() as u32;
        self.buffer.advance_to(self.sender.una());
        // Their numbers would lie ahead again half a circle later.
        self.source.urgent_end = self.source.urgent_end.filter(|end| self.sender.una().is_before(*end));
        self.source.push_end = self.source.push_end.later_of(self.sender.una());
        cx.stats.bytes_delivered += u64::from(held - self.buffer.len() as u32);
    }

    /// Puts our view of the source's direction in place of the sink's.
    fn rewrite(
        &mut self,
        departure: Option<&Departure>,
        segment: &mut Segment<'_>,
        is_number: bool,
        cx: &Context<'_>,
    ) {
        let (ack, window) = self.acknowledge(departure, cx);
        let is_bare = segment.tcp.segment_len() == 0 && is_number;
        let is_ahead = is_bare && segment.tcp.seq.is_after(self.sink.nxt);
        let tcp = segment.tcp;
        let mut edit = segment.edit();
        if is_ahead {
            // What lies between was lost on its way here: it says no more of it than we would.
            edit.set_seq(self.sink.nxt);
        }
        edit.set_ack(ack);
        edit.set_window(window);
        edit.clear_sack();
        if self.agreed.timestamps
            && let Some(echo) = self.receiver.ts_recent()
        {
            edit.set_timestamps(self.sink.tsval, echo);
        }
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
            accurate_ecn.rewrite(End::Sink, tcp, &mut edit);
        } else if self.agreed.ecn {
            let flags = tcp.flags.without(TcpFlags::ECE);
            edit.set_flags(if self.echo_congestion { flags.with(TcpFlags::ECE) } else { flags });
        }
        // Blocks have no room here: they follow in a packet of our own.
        let is_behind =
            self.accurate_ecn.as_deref_mut().is_some_and(|accurate_ecn| accurate_ecn.is_behind(End::Source));
        let is_more = is_behind || self.receiver.has_holes() || self.receiver.has_d_sack();
        self.outbox.ack_source = is_more || ack.is_before(self.receiver.ack_number());
    }

    /// A reset by the sink passes; if it is the right one, what is held for it is dropped.
    fn on_sink_reset(
        &mut self,
        departure: Option<&Departure>,
        segment: &mut Segment<'_>,
        cx: &mut Context<'_>,
    ) -> Effect {
        let seq = segment.tcp.seq;
        let is_exact = seq == self.sink.nxt || seq == self.source.ack;
        if !is_exact {
            cx.stats.inexact_resets += 1;
        }
        if segment.has(TcpFlags::ACK) {
            let (ack, window) = self.acknowledge(departure, cx);
            let mut edit = segment.edit();
            edit.set_ack(ack);
            edit.set_window(window);
        }
        if !is_exact {
            return Effect::FORWARD;
        }
        cx.stats.bytes_acked_but_lost += u64::from(self.debt());
        Effect::ending(PassReason::Reset)
    }
}
