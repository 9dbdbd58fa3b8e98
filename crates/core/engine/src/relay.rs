//! [`Relay`]: a flow whose delivery is ours, in whatever phase: a receiver that faces the source, a
//! sender that faces the sink, and what must be known of each side's headers to speak in the
//! other's name.
//!
//! Segments come in by [`from_source`] and [`from_sink`]; packets of our own go out by [`emit`].
//! What differs while the flow leaves stands in a [`Departure`], which the phase keeps; only the
//! functions here and below write to a relay.

use control::LossKind;
use tcp::{Receiver, Ring, SendContext, Sender, SenderConfig, StreamBuffer, Transmission};
use units::{Duration, Instant, SeqNum, WindowScale};
use wire::{Ip, Tcp, TcpFlags};

use crate::boundary::Verdict;
use crate::config::{ClientEcn, EngineConfig};
use crate::direction::End;
use crate::effect::{Answer, Effect};
use crate::handshake::{Agreement, TIMESTAMPS_LEN};
use crate::memory::buffer_pool::{BufferPool, RingSize};
use crate::path::Path;
use crate::path::turns::Turn;
use crate::segment::{Context, Segment};

pub(crate) mod acceptance;
mod accurate_ecn;
mod conduct;
pub(crate) mod departure;
pub(crate) mod emit;
mod from_sink;
mod from_source;
mod record;
pub(crate) mod sides;
mod sink_marks;
pub(crate) mod survivor;
mod window;

use accurate_ecn::AccurateEcn;
use conduct::Conduct;
use departure::Departure;
use sides::{IpTemplate, SinkSide, SourceSide};
use sink_marks::SinkMarks;

/// Segments that one time-out sends at most, if the controller has room for them. All that waits on
/// the way to the sink is its own: what backs off there need not send less, only less often.
/// DEVIATION: RFC 5681 §3.1 begins with one.
const TIMEOUT_SEGMENTS: u8 = 8;

/// Interval at which memory that a flow did not need is given back while others are in use: each
/// time what is kept is copied.
const TRIM_EVERY: Duration = Duration::from_secs(1);

/// Time for which an empty stream buffer keeps its memory, unless memory is short.
///
/// A fast flow's buffer is empty after every other acknowledgement; memory that comes and goes that
/// often costs page faults, a quarter of all processor time when measured.
const BUFFER_REST: Duration = Duration::from_millis(500);

/// Options that both hosts agreed on in their handshake.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Agreed {
    timestamps: bool,
    ecn: bool,
    /// Scale of the windows the sink states, and of those stated in its name.
    sink_scale: WindowScale,
    /// Scale of the windows the source states.
    source_scale: WindowScale,
}

/// A flow whose delivery is ours.
#[derive(Debug, stored::Stored)]
pub(crate) struct Relay {
    buffer: StreamBuffer,
    /// Size of the memory that its buffer last had, if not much.
    ring: RingSize,
    /// Time at which memory it did not need is given back next.
    trims_at: Instant,
    receiver: Receiver,
    sender: Sender,
    sink: SinkSide,
    source: SourceSide,
    agreed: Agreed,
    /// It is the uplink of a flow of which both directions were taken over (see [`departure::HandBack`]).
    is_uplink_of_both: bool,
    outbox: sides::Outbox,
    /// The source's data was marked CE and it has not answered with CWR (RFC 3168 §6.1.3).
    echo_congestion: bool,
    /// The source reset the flow while there was debt.
    source_reset: bool,
    /// Highest number acknowledged to the source.
    acked_to_source: SeqNum,
    turn: Turn,
    conduct: Conduct,
    /// Time at which the sink last acknowledged something, or had nothing to acknowledge.
    last_progress: Instant,
    /// Round trip to the source by the handshake, in microseconds; zero when it is not known.
    source_rtt_us: u32,
    /// Counters of marks that its hosts tell each other, where they agreed on accurate ECN.
    #[stored(since(7, None))]
    accurate_ecn: Option<Box<AccurateEcn>>,
    /// Marks on the way to its sink, where data is sent ECN-capable.
    #[stored(since(8, None))]
    sink_marks: Option<Box<SinkMarks>>,
}

/// The packet with which a flow is taken over: the one that completed its handshake.
#[derive(Debug)]
pub(crate) struct Completion<'a> {
    pub(crate) ip: &'a Ip,
    pub(crate) tcp: &'a Tcp,
    /// The sink sent it.
    pub(crate) by_sink: bool,
    /// It is the uplink of a flow of which both directions are taken over.
    pub(crate) is_uplink_of_both: bool,
    /// Round trip to the source, where it is known.
    pub(crate) source_rtt: Option<Duration>,
    /// Ring that the memory for its data comes from.
    pub(crate) ring: Ring,
}

impl Relay {
    /// Takes over a flow.
    pub(crate) fn new(
        agreement: &Agreement,
        with: Completion<'_>,
        config: &EngineConfig,
        now: Instant,
    ) -> Self {
        let Agreement { sink, source, initiator } = agreement;
        let start = source.isn + 1;
        let scale = agreement.sink_scale();
        let window = if with.by_sink { scale.window(with.tcp.window) } else { sink.granted };
        let template = IpTemplate::of(with.ip);
        let timestamps = agreement.timestamps();
        // What the source was told so far. The window of the packet that completes the handshake is
        // replaced by ours before the source sees it, so it promises nothing.
        let receiver =
            Receiver::new(start, sink.granted, agreement.sack(), source.timestamp.filter(|_| timestamps));
        let sender = Sender::new(SenderConfig {
            start,
            mss: agreement.mss(with.ip.src.is_ipv4()),
            sack: agreement.sack(),
            window,
            peer_seq: sink.isn,
            policy: config.window_policy,
            rto_max: config.rto_max,
            timeout_segments: TIMEOUT_SEGMENTS,
        });
        Self {
            buffer: StreamBuffer::with_ring(start, with.ring),
            ring: RingSize::default(),
            trims_at: now + TRIM_EVERY,
            receiver,
            sender,
            sink: SinkSide::new(sink, template, window),
            source: SourceSide::new(source, sink, template),
            agreed: Agreed {
                timestamps,
                ecn: agreement.ecn(),
                sink_scale: scale,
                source_scale: agreement.source_scale(),
            },
            is_uplink_of_both: with.is_uplink_of_both,
            outbox: sides::Outbox::default(),
            echo_congestion: false,
            source_reset: false,
            acked_to_source: start,
            turn: Turn::default(),
            conduct: Conduct::default(),
            last_progress: now,
            source_rtt_us: with
                .source_rtt
                .map_or(0, |rtt| u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX)),
            accurate_ecn: agreement.accurate_ecn().then(|| {
                let mut new = AccurateEcn::new(*initiator, with.tcp, start, agreement.counts_ecn_bytes());
                new.is_sink_ect = config.client_ecn != ClientEcn::NotEct;
                Box::new(new)
            }),
            sink_marks: SinkMarks::of(config.client_ecn, agreement.ecn(), agreement.accurate_ecn()),
        }
    }

    /// The terms on which it would leave from here on.
    pub(crate) const fn new_departure(&self) -> Departure {
        Departure::new(self.is_uplink_of_both)
    }

    /// Takes in a segment. `departure` are the terms on which the flow leaves, if it does: there
    /// are some afterwards if the segment was a reason.
    pub(crate) fn on_segment(
        &mut self,
        departure: &mut Option<Departure>,
        segment: &mut Segment<'_>,
        cx: &mut Context<'_>,
    ) -> Effect {
        let place = (self.conduct.is_in_dispute() || self.is_young()).then(|| self.place(segment));
        let counts = self.accurate_ecn.is_some() && self.would_be_taken(departure.as_ref(), segment);
        let mut effect = match segment.from {
            End::Source => self.on_source_segment(departure, segment, cx),
            End::Sink => self.on_sink_segment(departure, segment, cx),
        };
        if counts && effect.verdict == Verdict::Consumed {
            self.count_marks(segment, cx);
        }
        if let Some((is_ahead, is_again)) = place.filter(|_| effect.misfit.is_none()) {
            // A host that has sent more than has come here has lost it, or sent it elsewhere; one that sends again
            // what has come may have been heard elsewhere. Neither speaks against that.
            if is_ahead && !segment.has(TcpFlags::RST) {
                effect.misfit = Some(Answer::Aside);
            } else if !is_again {
                self.conduct.fits();
            }
        }
        effect
    }

    /// True when the host of a segment's other end would take in what it carries.
    fn would_be_taken(&self, departure: Option<&Departure>, segment: &Segment<'_>) -> bool {
        let tcp = segment.tcp;
        let is_acceptable = match segment.from {
            End::Source => self.judge_source_ack(departure, tcp).is_acceptable() && self.is_acceptable(tcp),
            End::Sink => {
                self.judge_sink_ack(tcp, false).is_acceptable()
                    && self.is_sink_number(tcp, self.sink_limit(departure))
            }
        };
        is_acceptable && !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::RST)
    }

    /// Counts the marks of a segment that was taken in its receiver's place (RFC 9768 §3.2.2).
    fn count_marks(&mut self, segment: &Segment<'_>, cx: &mut Context<'_>) {
        let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() else { return };
        let (segments, len) = (segment.segments(), segment.tcp.payload_len as u32);
        if segment.ip().is_congestion_experienced() {
            cx.stats.ce_packets += u64::from(segments);
        }
        accurate_ecn.take(segment.from, segment.ip().ecn(), segments, len);
        if segment.from == End::Source && len > 0 {
            accurate_ecn.note_data(segments, len);
        }
    }

    /// Time at which the sink last acknowledged something, or had nothing to acknowledge.
    pub(crate) fn last_progress(&self) -> Instant {
        self.last_progress
    }

    /// Bytes acknowledged to the source that the sink has not acknowledged.
    pub(crate) fn debt(&self) -> u32 {
        self.acked_to_source.distance_from(self.sender.una()).max(0).unsigned_abs()
    }

    /// True when nothing is held for the sink: everything it sees is what the source sent.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.sender.una().is_at_or_after(self.receiver.next())
    }

    /// True while something waits for the sink's acknowledgement, even if only the source's FIN.
    pub(crate) fn owes(&self) -> bool {
        !(self.is_caught_up() && self.sender.is_idle())
    }

    /// True when the stream of each direction has ended and both sides know.
    pub(crate) fn has_ended(&self) -> bool {
        self.receiver.acks_fin() && self.sink.fin_end.is_some_and(|end| self.source.ack.is_at_or_after(end))
    }

    /// True when nothing is left to do for it but to let its hosts go on; its last packet came at
    /// `last_activity`.
    pub(crate) fn may_leave(&self, departure: &mut Departure, last_activity: Instant, now: Instant) -> bool {
        if self.owes() || !self.outbox().is_empty() {
            return false;
        }
        let sink_edge = self.sender.una() + self.sender.window();
        let fits = self.receiver.right_edge().is_before(sink_edge) || self.receiver.is_finished();
        fits || !departure.takes_allowed() || departure.hand_back.is_due(&self.receiver, last_activity, now)
    }

    /// True while neither host has acknowledged anything that went through here: all that is known of the flow
    /// is its handshake.
    #[inline]
    pub(crate) fn is_young(&self) -> bool {
        self.sink.acks.acked == 0 && self.source.acks.acked == 0
    }

    /// Drops a segment that does not fit what is known of the flow.
    fn drop_misfit(&self, answer: Answer) -> Effect {
        // Data behind a hole is usual once data has come.
        let is_usual = answer == Answer::Given && !self.is_young();
        Effect { misfit: (!is_usual).then_some(answer), ..Effect::CONSUMED }
    }

    /// True when a host that acknowledges `ack` has what never passed here.
    pub(crate) fn is_beyond(&self, host: End, ack: SeqNum) -> bool {
        ack.is_after(match host {
            End::Source => self.sink.nxt,
            End::Sink => self.sender.nxt(),
        })
    }

    /// Place of a segment: whether it begins beyond what has come of its host, and whether all of it has
    /// come.
    fn place(&self, segment: &Segment<'_>) -> (bool, bool) {
        let is_ahead = |seq| self.is_ahead(segment.from, seq);
        (is_ahead(segment.tcp.seq), segment.has_content() && !is_ahead(segment.tcp.seq_end()))
    }

    /// The number that the source is at, by what has come here in order: behind its FIN, acknowledged or not.
    fn source_stands_at(&self) -> SeqNum {
        self.receiver.next() + u32::from(self.receiver.is_finished())
    }

    /// True when a host that stands at `seq` has sent more than has come here in order.
    pub(crate) fn is_ahead(&self, host: End, seq: SeqNum) -> bool {
        seq.is_after(match host {
            End::Source => self.source_stands_at(),
            End::Sink => self.sink.nxt,
        })
    }

    /// Both hosts are asked where they are, since one says again that it is elsewhere.
    pub(crate) fn begin_dispute(&mut self, now: Instant) {
        self.conduct.begin_dispute(now);
    }

    /// True once both hosts were asked long enough ago to have been heard, and nothing came of either that fits.
    pub(crate) fn is_elsewhere(&self, now: Instant) -> bool {
        self.conduct.is_elsewhere(now)
    }

    /// Answers a segment of `from` that does not fit, unless something was answered so a moment ago (RFC 5961
    /// §7); true where both hosts are to be asked now instead, if that is wanted.
    pub(crate) fn answer_misfit(&mut self, from: End, answer: Answer, asks_both: bool, now: Instant) -> bool {
        let is_answered = matches!(answer, Answer::Challenge | Answer::ChallengeAlone);
        let is_due = (is_answered || asks_both) && self.conduct.may_challenge(now);
        if is_due && !asks_both {
            self.outbox.ack_source |= from == End::Source;
            self.outbox.ack_sink |= from == End::Sink;
        }
        is_due && asks_both
    }

    /// True when it has nothing to do, and nothing is missing: once its hosts are silent, they can go on
    /// without it.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.owes() && self.outbox.is_empty() && !self.receiver.has_holes()
    }

    /// True when a SYN of the sink with the number of its first one is a late copy of that.
    pub(crate) fn is_first_syn(&self, syn: &Tcp) -> bool {
        syn.seq == self.sink.isn
    }

    /// Outdates timestamps after a silence over which they cannot be compared: what comes next tells the
    /// time.
    pub(crate) fn outdate_timestamps(&mut self) {
        (self.sink.is_tsval_old, self.source.is_tsval_old) = (true, true);
    }

    /// Round trip of the mobile segment, smoothed.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.sender.rtt().smoothed()
    }

    /// Smallest round trip of the mobile segment.
    pub(crate) fn rtt_min(&self) -> Option<Duration> {
        self.sender.rtt().min()
    }

    /// Sent to the sink and neither acknowledged nor believed lost, in bytes.
    pub(crate) fn in_flight(&self) -> u32 {
        self.sender.in_flight()
    }

    /// The window the sink advertises, in bytes.
    pub(crate) fn sink_window(&self) -> u32 {
        self.sender.window()
    }

    /// Payload bytes sent more than once.
    pub(crate) fn retransmitted_bytes(&self) -> u64 {
        self.sender.retransmitted_bytes()
    }

    /// Numbers of its streams, for the journal.
    pub(crate) fn numbers(&self) -> Numbers {
        Numbers {
            delivered: self.sender.una(),
            told: self.acked_to_source,
            sink_next: self.sink.nxt,
            source_ack: self.source.ack,
            timestamps: self.agreed.timestamps.then_some((self.sink.tsval, self.source.tsval)),
        }
    }

    /// True when its hosts agreed on accurate ECN.
    pub(crate) fn has_accurate_ecn(&self) -> bool {
        self.accurate_ecn.is_some()
    }

    /// Asks for what lies elsewhere and the next packet `from` there will need: what was sent first, and of an
    /// acknowledgement the way back.
    pub(crate) fn ask_for_parts(&self, from: End, prefetch: fn(usize, usize)) {
        self.sender.ask_for_parts(prefetch);
        if from == End::Sink {
            self.sink.return_delay.ask_for(prefetch);
        }
    }
}

/// Numbers that both directions have come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    /// Number that the sink has acknowledged.
    pub(crate) delivered: SeqNum,
    /// Number up to which the source was told that data is delivered.
    pub(crate) told: SeqNum,
    /// One past what the sink has sent.
    pub(crate) sink_next: SeqNum,
    /// Number up to which the source has acknowledged that.
    pub(crate) source_ack: SeqNum,
    /// Newest TSval of the sink and of the source, when both use timestamps.
    pub(crate) timestamps: Option<(u32, u32)>,
}

/// Memory: what is kept for the sink, and notes of what is under way.
impl Relay {
    /// Bytes its stream buffer takes.
    pub(crate) fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// Lends it memory for `len` bytes that come in, if it has none.
    pub(crate) fn lend(&mut self, pool: &mut BufferPool, len: usize) {
        pool.lend(len, self.ring, &mut self.buffer);
    }

    /// Lends it memory for notes of what it is about to send, if it has none.
    pub(crate) fn lend_entries(&mut self, pool: &mut BufferPool) {
        pool.lend_entries(&mut self.sender);
    }

    /// Gives back memory that is in no use: at once where it is `short`.
    pub(crate) fn give_back(&mut self, pool: &mut BufferPool, is_short: bool, now: Instant) {
        if is_short {
            self.buffer.release_if_empty();
        }
        if now >= self.trims_at {
            self.trims_at = now + TRIM_EVERY;
            self.buffer.trim();
        }
        pool.take_back(&mut self.ring, &mut self.buffer);
        pool.take_entries(&mut self.sender);
    }

    /// Time at which the memory of a flow that has delivered everything is given back.
    fn release_time(&self, last_activity: Instant) -> Instant {
        let is_unused = self.buffer.is_empty() && self.buffer.capacity() > 0;
        if is_unused { last_activity + BUFFER_REST } else { Instant::FAR_FUTURE }
    }

    /// The `len` bytes from `seq` on, in two pieces.
    pub(crate) fn slices(&self, seq: SeqNum, len: usize) -> (&[u8], &[u8]) {
        self.buffer.slices(seq, len)
    }
}

/// Time: what happens without a packet.
impl Relay {
    /// The earliest thing that can happen to it without a packet, on `departure` if it leaves.
    pub(crate) fn due(
        &self,
        departure: Option<&Departure>,
        config: &EngineConfig,
        last_activity: Instant,
    ) -> Instant {
        // It leaves the table with that packet; a debt that is overdue must not come due again until then.
        if self.outbox.reset_sink {
            return Instant::FAR_FUTURE;
        }
        // While something is owed it is no silence that ends a flow: nobody would hear that it is lost (H1).
        let end = if self.owes() {
            self.last_progress + config.debt_timeout
        } else {
            last_activity + config.idle_timeout
        };
        let hand_back = departure.filter(|_| !self.owes()).and_then(|departure| {
            // When a flow that waits for nothing else is handed back, whatever its hosts know.
            departure.hand_back.due(self.receiver.next())
        });
        let sender = self.sender.next_deadline().unwrap_or(Instant::FAR_FUTURE);
        sender.min(end).min(hand_back.unwrap_or(Instant::FAR_FUTURE)).min(self.release_time(last_activity))
    }

    /// Time at which one that only lingers is due, like [`Relay::due`].
    pub(crate) fn linger_due(&self, config: &EngineConfig, last_activity: Instant) -> Instant {
        self.release_time(last_activity).min(last_activity + config.linger)
    }

    /// Gives back the memory of a buffer that was empty for long enough.
    pub(crate) fn rest(&mut self, last_activity: Instant, now: Instant) {
        if now >= self.release_time(last_activity) {
            self.buffer.release_if_empty();
        }
    }

    /// True when it waits in vain for the sink to acknowledge what is owed.
    pub(crate) fn is_stalled(&self, config: &EngineConfig, now: Instant) -> bool {
        self.owes() && now.saturating_since(self.last_progress) >= config.debt_timeout
    }

    /// The sink is gone: neither side may believe in a short, clean end (H1, H2).
    pub(crate) fn abort(&mut self) {
        self.outbox.reset_source = !self.source_reset;
        self.outbox.reset_sink = true;
    }

    /// It was aborted, and the sink has not been told.
    pub(crate) fn is_aborted(&self) -> bool {
        self.outbox.reset_sink && !self.source_reset
    }

    /// Acts on a deadline of the sender's that is due.
    pub(crate) fn on_sender_deadline(&mut self, cx: &mut Context<'_>) {
        if self.sender.next_deadline().is_none_or(|at| at > cx.now) {
            return;
        }
        let before = self.sender.in_flight();
        let out = self.sender.on_timeout(cx.now);
        cx.stats.timeouts += u64::from(out.is_timeout);
        let Some(path) = cx.path.as_deref_mut() else { return };
        path.adjust_in_flight(before, self.sender.in_flight());
        let lost = out.lost - out.lost_before;
        if lost > 0 {
            path.on_loss(lost, out.kind.unwrap_or(LossKind::Fast), out.is_new_loss, cx.now);
        }
    }

    /// Starts or stops window probes after anything changed.
    pub(crate) fn refresh_timers(&mut self, now: Instant) {
        self.sender.refresh_timers(now);
    }
}

/// Sending to the sink, when it is this flow's turn.
impl Relay {
    pub(crate) fn wants_to_send(&self) -> bool {
        self.sender.wants_to_send()
    }

    /// True when it has something to send that must not wait for room: a probe, the repair of the
    /// oldest segment.
    pub(crate) fn is_urgent(&self) -> bool {
        self.sender.is_urgent()
    }

    /// Bytes kept for the sink that were never sent.
    pub(crate) fn unsent(&self) -> u32 {
        self.sender.unsent()
    }

    /// Payload of the largest segment to the sink, in bytes.
    pub(crate) fn mss(&self) -> u32 {
        self.sender.mss()
    }

    /// Its turn to send.
    pub(crate) fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    /// Gets in line, as one that has something to send: with what it may send before it takes turns.
    pub(crate) fn join(&mut self, quantum: u64, now: Instant) {
        self.turn.join(quantum, self.sender.mss(), now);
    }

    /// Makes its next transmission, of `piece` bytes at most, if the subscriber's window allows one.
    pub(crate) fn transmit(
        &mut self,
        path: &mut Path,
        control: &control::Control,
        piece: u32,
        now: Instant,
    ) -> Option<Transmission> {
        let in_flight_before = path.under_way();
        let before = self.sender.in_flight();
        let room = path.room(control, self.sender.mss(), now);
        let quantum = if self.may_merge() { piece } else { piece.min(self.sender.mss()) };
        let made = self.sender.poll(SendContext {
            now,
            quantum,
            window_room: room,
            is_path_idle: in_flight_before == 0,
            sampler: &mut path.sampler,
        })?;
        // A segment more, so that windows that are no multiple of it are used, and for tail loss probes.
        debug_assert!(
            made.is_retransmission || made.len <= room.saturating_add(self.sender.mss()),
            "{} bytes of new data, where the controller's window has room for {room}",
            made.len
        );
        path.adjust_in_flight(before, self.sender.in_flight());
        path.on_send(made.len, in_flight_before, now);
        if made.is_retransmission {
            path.sight.on_retransmission(made.len);
        }
        path.last_used = now;
        path.opaque.on_own(made.len, path.turns.len(), now);
        self.turn.spend(made.len);
        let segments = made.len.div_ceil(self.sender.mss().max(1)).max(1);
        path.pacer.on_send(made.len, segments, control.pacing_rate, now);
        Some(made)
    }
}

/// The size of packets on the way to the sink (H23).
impl Relay {
    /// True when segments may leave as one packet, for others to cut.
    fn may_merge(&self) -> bool {
        self.accurate_ecn.as_deref().is_none_or(AccurateEcn::may_merge)
            && !self.sink_marks.as_deref().is_some_and(SinkMarks::owes_cwr)
    }

    /// True when `seq` is under way to the sink.
    pub(crate) fn is_under_way(&self, seq: SeqNum) -> bool {
        seq.is_at_or_after(self.sender.una()) && seq.is_before(self.sender.nxt())
    }

    /// Has its segments, whose headers without options take `headers` bytes, fit into packets of
    /// `mtu` bytes; bytes under way that were too long and go out again.
    pub(crate) fn narrow(&mut self, mtu: u32, headers: u32) -> u32 {
        let options = self.options_len();
        self.sender.on_path_mtu(mtu.saturating_sub(headers + options))
    }

    /// The longest packet that it sends, bytes, where headers without options take `headers` of them.
    pub(crate) fn packet_len_max(&self, headers: u32) -> u32 {
        self.sender.mss() + headers + self.options_len()
    }

    fn options_len(&self) -> u32 {
        if self.agreed.timestamps { TIMESTAMPS_LEN } else { 0 }
    }
}

/// Values that tests look at, and put in place of what the handshake brought.
#[cfg(test)]
impl Relay {
    pub(crate) fn sender_mut(&mut self) -> &mut Sender {
        &mut self.sender
    }

    pub(crate) fn buffer_mut(&mut self) -> &mut StreamBuffer {
        &mut self.buffer
    }

    pub(crate) fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    pub(crate) fn urgent_end(&self) -> Option<SeqNum> {
        self.source.urgent_end
    }
}
