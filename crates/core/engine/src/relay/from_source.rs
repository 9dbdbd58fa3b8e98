//! Segments of the source on a relayed flow.
//!
//! Data is taken, kept and acknowledged; a packet without data goes on to the sink, told from where the
//! sink is: SEQ is our own next number, because the source's lies beyond the sink's window while there
//! is debt.

use tcp::Arrival;
use wire::{Tcp, TcpFlags};

use super::Relay;
use super::acceptance::AckKind;
use super::accurate_ecn::Age;
use super::conduct::DESYNCHRONISED_AFTER;
use super::departure::{Departure, HandBack};
use crate::direction::End;
use crate::effect::{Answer, Effect};
use crate::pass::PassReason;
use crate::segment::{Context, Segment};
use crate::timestamp::{is_earlier, later_of};

/// ECN-capable transport (1): L4S (RFC 9331 §2).
const ECT_1: u8 = 1;

impl Relay {
    /// Takes in a segment of the source; `departure` as for [`Relay::on_segment`].
    pub(super) fn on_source_segment(
        &mut self,
        departure: &mut Option<Departure>,
        segment: &mut Segment<'_>,
        cx: &mut Context<'_>,
    ) -> Effect {
        let ack = match self.admit_source_segment(departure, segment, cx) {
            Ok(ack) => ack,
            Err(effect) => return effect,
        };
        let tcp = segment.tcp;
        let is_acceptable = self.is_acceptable(tcp);
        let is_classic = self.accurate_ecn.is_none();
        if is_acceptable && is_classic && segment.ip().ecn() == ECT_1 && tcp.payload_len > 0 {
            // A scalable sender (RFC 9330) needs to know how many packets were marked (RFC 9331 §4.3).
            if !self.owes() && !self.receiver.has_holes() {
                return Effect::ending(PassReason::AccurateEcn);
            }
            departure.get_or_insert(self.new_departure()).give_up(PassReason::AccurateEcn);
        }
        let owed = self.owes();
        let moves = is_acceptable && ack.is_current();
        cx.is_news = moves
            && (tcp.seq_end().is_after(self.receiver.highest())
                || tcp.ack.is_after(self.source.ack)
                || self.is_later(tcp, self.source.tsval));
        // RFC 7323 §4.3: only what reaches back to the last acknowledgement tells the time.
        let reaches = tcp.seq.is_at_or_before(self.acked_to_source);
        if moves
            && reaches
            && let Some(tsval) = self.source.renew_time(tcp)
        {
            self.receiver.renew_timestamp(tsval);
        }
        let is_overtaken = self.has_overtaken(tcp);
        let says_more = tcp.ack.is_after(self.source.ack) || self.is_later(tcp, self.source.tsval);
        let mut is_news = moves && !is_overtaken && self.note_source(segment, reaches);
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut().filter(|_| is_acceptable) {
            // What brings nothing new may be older than what has come.
            let brings_more = says_more || tcp.seq_end().is_after(self.receiver.highest());
            let age = Age::of(!moves || is_overtaken, brings_more);
            is_news |= accurate_ecn.note(End::Source, tcp, segment.ecn_byte_counters(), age);
        }
        if is_acceptable {
            self.note_congestion(segment);
        }
        let arrival = self.receive(departure.as_ref(), segment, ack.is_current(), cx);
        if let Some(departure) = departure.as_mut().filter(|_| is_acceptable) {
            departure.hand_back.note(tcp, self.receiver.next(), cx.now);
        }
        if tcp.payload_len > 0 {
            let has_advanced = matches!(arrival, Arrival::InOrder { .. });
            let reason = self.conduct.judge_hole(has_advanced, self.receiver.has_holes(), cx.now);
            if let Some(reason) = reason {
                departure.get_or_insert(self.new_departure()).give_up(reason);
            }
        }
        if !owed {
            // What is owed from here on, even if only a FIN, is owed since now.
            self.last_progress = cx.now;
        }
        self.answer_arrival(arrival, segment, (is_acceptable, is_overtaken, is_news), cx)
    }

    /// Judges a segment of the source before anything of it is taken in: its acknowledgement, or the effect of one that
    /// goes no further.
    #[inline]
    fn admit_source_segment(
        &mut self,
        departure: &mut Option<Departure>,
        segment: &mut Segment<'_>,
        cx: &mut Context<'_>,
    ) -> Result<AckKind, Effect> {
        let tcp = segment.tcp;
        if segment.has(TcpFlags::RST) {
            return Err(self.on_source_reset(segment, cx));
        }
        if segment.has(TcpFlags::SYN) {
            // Its SYN-ACK again: the third packet was lost behind us.
            self.challenge_source(cx);
            if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
                accurate_ecn.on_syn_ack();
            }
            return Err(Effect::CONSUMED);
        }
        if self.source_reset {
            return Err(Effect::CONSUMED);
        }
        let ack = self.judge_source_ack(departure.as_ref(), tcp);
        if !ack.is_acceptable() {
            return Err(self.on_unacceptable_source_ack(departure, ack, tcp, cx));
        }
        if self.lacks_timestamp(tcp) && departure.is_none() {
            let is_exact = tcp.seq == self.receiver.next() || self.is_keep_alive(tcp);
            if !self.on_missing_timestamp(departure, is_exact, cx) {
                return Err(Effect::CONSUMED);
            }
        }
        if let Some(departure) = departure.as_mut().filter(|d| d.is_doubtful()) {
            self.doubt_source(departure, tcp);
        }
        Ok(ack)
    }

    /// Answers a segment by what its data was; `is_news` says that its headers are.
    fn answer_arrival(
        &mut self,
        arrival: Arrival,
        segment: &mut Segment<'_>,
        (is_acceptable, is_overtaken, is_news): (bool, bool, bool),
        cx: &mut Context<'_>,
    ) -> Effect {
        let tcp = segment.tcp;
        match arrival {
            Arrival::Empty if is_overtaken => Effect::CONSUMED,
            Arrival::Empty if is_acceptable => self.forward_bare(segment),
            // Where the stream has ended, the byte of garbage lies behind it.
            Arrival::Duplicate | Arrival::OutOfWindow if self.is_keep_alive(tcp) && self.is_caught_up() => {
                self.forward_bare(segment)
            }
            Arrival::Empty if tcp.seq.is_after(self.receiver.right_edge()) => {
                self.drop_misfit(Answer::Challenge)
            }
            Arrival::Empty | Arrival::TooOld => {
                self.challenge_source(cx);
                Effect::CONSUMED
            }
            _ => {
                self.outbox.ack_source = true;
                self.outbox.ack_sink |= is_news;
                // Beyond the window there is no memory either.
                let is_odd =
                    matches!(arrival, Arrival::OutOfOrder | Arrival::OutOfWindow | Arrival::Duplicate)
                        || tcp.seq.is_at_or_after(self.receiver.right_edge());
                if is_odd && tcp.seq.is_after(self.receiver.next()) {
                    // Behind a hole, or outside the window.
                    return self.drop_misfit(Answer::Given);
                }
                Effect::CONSUMED
            }
        }
    }

    /// Judges what a segment of the source acknowledges of what the sink has sent. Of a flow in doubt the
    /// sink may have sent more, past us.
    #[inline]
    pub(super) fn judge_source_ack(&self, departure: Option<&Departure>, tcp: &Tcp) -> AckKind {
        let is_doubtful = departure.is_some_and(Departure::is_doubtful);
        let nxt = if is_doubtful { self.sink_limit(departure) } else { self.sink.nxt };
        self.source.acks.judge(tcp, self.source.ack, nxt)
    }

    /// Takes in a segment whose acknowledgement is missing or not acceptable: it is answered and dropped,
    /// with all that it carries (RFC 5961 §5).
    ///
    /// A source that goes on to acknowledge more than has passed here has it from elsewhere. With the exact
    /// number, as for a reset, the flow is in doubt from then on: its hosts know more of it than we do.
    fn on_unacceptable_source_ack(
        &mut self,
        departure: &mut Option<Departure>,
        ack: AckKind,
        tcp: &Tcp,
        cx: &mut Context<'_>,
    ) -> Effect {
        cx.stats.unacceptable_acks += 1;
        if ack == AckKind::Missing {
            // Linux has no answer for it either.
            return Effect::CONSUMED;
        }
        let is_exact = ack == AckKind::NeverSent && tcp.seq == self.source_stands_at();
        if is_exact {
            self.judge_sense(departure, Some(PassReason::Desynchronised));
            if self.conduct.nonsense() >= DESYNCHRONISED_AFTER {
                departure.get_or_insert(self.new_departure()).doubt();
            }
        }
        let answer = if is_exact { Answer::ChallengeAlone } else { Answer::Challenge };
        self.drop_misfit(answer)
    }

    /// Answers what is not acceptable, unless something was answered so a moment ago (RFC 5961 §7).
    fn challenge_source(&mut self, cx: &Context<'_>) {
        self.outbox.ack_source |= self.conduct.may_challenge(cx.now);
    }

    /// Takes in a packet of the source of a flow in doubt. What lies before its number went past us
    /// or is lost: it is not waited for, since the sink may have it.
    fn doubt_source(&mut self, departure: &mut Departure, tcp: &Tcp) {
        if tcp.seq.is_after(self.receiver.next()) {
            departure.hand_back = HandBack::new(false);
        }
        if let Some(timestamps) = tcp.options.timestamps {
            self.sink.tsval = later_of(self.sink.tsval, timestamps.echo);
        }
        self.sink.nxt = self.sink.nxt.later_of(tcp.ack);
    }

    /// True when a later packet of the source has arrived before this one.
    fn has_overtaken(&self, tcp: &Tcp) -> bool {
        self.agreed.timestamps && self.source.has_overtaken(tcp)
    }

    /// Follows a segment of the source of which no later one has come; true when it acknowledges or allows
    /// something new.
    fn note_source(&mut self, segment: &Segment<'_>, reaches: bool) -> bool {
        let tcp = segment.tcp;
        self.source.note(segment.ip(), tcp, reaches, self.sink.tsval);
        self.source.note_ack(tcp, self.agreed.source_scale.window(tcp.window))
    }

    fn receive(
        &mut self,
        departure: Option<&Departure>,
        segment: &Segment<'_>,
        moves_time: bool,
        cx: &mut Context<'_>,
    ) -> Arrival {
        let tcp = segment.tcp;
        let is_new = tcp.seq_end().is_after(self.acked_to_source);
        if is_new && segment.has_content() && departure.is_some_and(|departure| !departure.takes_allowed()) {
            return Arrival::OutOfWindow; // the source will send it again, past us
        }
        // What there is no memory for is left to the source to send again (H20).
        let len = segment.payload().len();
        let room = self.room_for(tcp, len, cx);
        if room < len {
            cx.stats.memory_refused += 1;
            if room == 0 {
                return Arrival::NoMemory;
            }
        }
        let arrival = self.receiver.on_segment(&segment.cut_to(room, moves_time), &mut self.buffer);
        match arrival {
            Arrival::InOrder { advanced } => {
                cx.stats.bytes_received += u64::from(advanced);
                self.sender.set_available(self.receiver.next(), self.receiver.is_finished());
            }
            Arrival::TooOld => cx.stats.paws_rejected += 1,
            Arrival::OutOfWindow => cx.stats.out_of_window += 1,
            Arrival::NoMemory => cx.stats.memory_refused += 1,
            Arrival::OutOfOrder | Arrival::Duplicate | Arrival::Empty => {}
        }
        if matches!(arrival, Arrival::InOrder { .. } | Arrival::OutOfOrder) {
            self.source.note_marks(tcp, room as u32);
        }
        arrival
    }

    /// Bytes of a segment's `len` that may be kept while the flow's memory is limited: what it
    /// holds already costs nothing more.
    fn room_for(&self, tcp: &Tcp, len: usize, cx: &Context<'_>) -> usize {
        let held = self.buffer.capacity();
        let limit = usize::try_from(cx.budget.memory.get()).unwrap_or(usize::MAX).max(held);
        let ahead = tcp.seq.distance_from(self.buffer.start()).max(0).unsigned_abs() as usize;
        limit.saturating_sub(ahead).min(len)
    }

    /// RFC 3168 §6.1.3: a CE mark is echoed until the source says that it has slowed down (H25).
    fn note_congestion(&mut self, segment: &Segment<'_>) {
        if !self.agreed.ecn || segment.tcp.payload_len == 0 {
            return;
        }
        if segment.has(TcpFlags::CWR) {
            self.echo_congestion = false;
        }
        if segment.ip().is_congestion_experienced() {
            self.echo_congestion = true;
        }
    }

    /// RFC 9293 §3.10.7.4: what lies outside the window is answered, and nothing in it believed.
    ///
    /// We rewrite SEQ, so the sink cannot check it any more. A packet that is older than what was
    /// acknowledged tells nothing new: what was sent after it has arrived.
    pub(super) fn is_acceptable(&self, tcp: &Tcp) -> bool {
        let is_within = tcp.seq_end().is_at_or_after(self.acked_to_source)
            && tcp.seq.is_at_or_before(self.receiver.right_edge() + 1);
        is_within || self.is_keep_alive(tcp)
    }

    /// RFC 9293 §3.8.4: a segment just below the left edge, empty or with one byte of garbage. Behind the end of its
    /// stream a source begins where that is acknowledged.
    fn is_keep_alive(&self, tcp: &Tcp) -> bool {
        tcp.seq + 1 == self.receiver.ack_number()
            && tcp.payload_len <= 1
            && !tcp.flags.contains(TcpFlags::FIN)
    }

    /// A packet without new data: an acknowledgement, a window, a keep-alive.
    fn forward_bare(&mut self, segment: &mut Segment<'_>) -> Effect {
        let tcp = segment.tcp;
        let ecn = segment.ip().ecn();
        let is_keep_alive = self.is_keep_alive(tcp);
        if is_keep_alive && !self.is_caught_up() {
            // The sink is known to be busy with our debt; the source needs our answer, not its.
            self.outbox.ack_source = true;
            return Effect::CONSUMED;
        }
        let mut edit = segment.edit();
        // Below what the sink has acknowledged: above it the byte of a keep-alive would be taken for the stream's.
        edit.set_seq(if is_keep_alive { self.sender.una() - 1 } else { self.sender.nxt() });
        // An old acknowledgement, or an old window, is not the source's any more.
        if (tcp.ack, tcp.window) != (self.source.ack, self.source.window) {
            edit.set_ack(self.source.ack);
            edit.set_window(self.source.window);
        }
        if self.agreed.timestamps {
            edit.set_timestamp_value(self.source.tsval);
        }
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
            accurate_ecn.rewrite(End::Source, tcp, &mut edit);
            if ecn != 0 {
                accurate_ecn.note_other(ecn);
            }
        }
        self.outbox.ack_sink = false;
        Effect::FORWARD
    }

    /// RFC 5961 §3: only the exact number resets; another one in the window earns an acknowledgement.
    fn on_source_reset(&mut self, segment: &mut Segment<'_>, cx: &mut Context<'_>) -> Effect {
        let seq = segment.tcp.seq;
        // Behind its FIN the source counts one more than we have acknowledged.
        let next = self.receiver.next();
        let is_exact = seq == next || (self.receiver.is_finished() && seq == next + 1);
        if !is_exact {
            cx.stats.inexact_resets += 1;
            let is_in_window = seq.is_at_or_after(next) && seq.is_before(self.receiver.right_edge());
            if is_in_window {
                self.challenge_source(cx);
            }
            return Effect::CONSUMED;
        }
        if !self.owes() {
            segment.edit().set_seq(self.sender.una());
            return Effect::ending(PassReason::Reset);
        }
        // It waits behind the debt (H4).
        self.source_reset = true;
        self.outbox.ack_source = false;
        Effect::CONSUMED
    }
}

/// Questions that are asked in the same way of a segment of either side.
impl Relay {
    /// True when a segment has no timestamp although both hosts agreed on them (RFC 7323 §3.2).
    pub(super) fn lacks_timestamp(&self, tcp: &Tcp) -> bool {
        self.agreed.timestamps && tcp.options.timestamps.is_none()
    }

    /// True when a segment has a later time than `tsval`.
    pub(super) fn is_later(&self, tcp: &Tcp, tsval: u32) -> bool {
        tcp.options.timestamps.is_some_and(|t| self.agreed.timestamps && is_earlier(tsval, t.value))
    }

    /// Takes in a segment that lacks its timestamp; false when it is to be dropped. One with the exact number
    /// is believed, and the flow is handed back: somebody takes the option out, and we would drop all that
    /// comes.
    pub(super) fn on_missing_timestamp(
        &self,
        departure: &mut Option<Departure>,
        is_exact: bool,
        cx: &mut Context<'_>,
    ) -> bool {
        if is_exact {
            departure.get_or_insert(self.new_departure()).give_up(PassReason::MalformedOptions);
        } else {
            cx.stats.paws_rejected += 1;
        }
        is_exact
    }
}
