//! [`Connection`]: both halves of an endpoint's connection and its application.

use control::server::SharedPath;
use control::{AnyController, Control, Controller, Drwa, LossKind, Mark};
use tcp::{
    AckIn, Arrival, Receiver, SegmentIn, Sender, SenderConfig, StreamBuffer, Transmission, WindowPolicy,
};
use units::{Bytes, Duration, Instant, SeqNum, WindowScale};
use wire::{Tcp, TcpFlags};

use super::EndpointStats;
use super::ack_compression::{AckCompression, BLOCKS};
use super::auto_tuning::AutoTuning;
use super::config::{BeyondWindow, EndpointConfig, Protocol, Reading, ReceiveWindow};
use super::mark_response::{Answering, Echo, MarkFeedback};
use super::marks::Marks;
use super::program::Program;
use super::reno_sack::RenoSack;
use crate::host::{DELAYED_ACK, Delivery, Limits, QUICK_ACKS, RTO_MAX};

/// Longest an acknowledgement waits for a second packet in QUIC (`max_ack_delay`, RFC 9000 §18.2).
const DELAYED_ACK_OF_QUIC: Duration = Duration::from_millis(25);

/// Options that both sides' SYNs agreed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Negotiated {
    pub own_scale: WindowScale,
    pub peer_scale: WindowScale,
    pub sack: bool,
    pub timestamps: bool,
    /// Payload bytes of a segment, timestamps deducted.
    pub payload_max: u32,
    /// Payload and option bytes of a segment.
    pub mss: u32,
}

/// Urgency of an acknowledgement that is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckDue {
    No,
    /// Due when a second segment has come, or at this time.
    Later(Instant),
    /// Due with the next packet, whatever it is.
    Now,
    /// Due as a packet of its own: it is a duplicate or carries SACK blocks.
    Alone,
    /// The same at this time, with what has come by then.
    AloneLater(Instant),
}

/// Acknowledgements that are due, and when.
#[derive(Debug)]
pub(super) struct DelayedAcks {
    pub due: AckDue,
    /// Longest that one waits.
    delay: Duration,
    /// Segments still acknowledged at once.
    quick: u32,
    compression: AckCompression,
    /// The acknowledgement number sent last.
    pub last_sent: SeqNum,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub sender: Sender,
    pub receiver: Receiver,
    pub agreed: Negotiated,
    limits: Limits<AnyController>,
    pub(super) outbox: StreamBuffer,
    pub(super) inbox: StreamBuffer,
    pub(super) acks: DelayedAcks,
    pub(super) program: Program,
    pub(super) capacity: u32,
    pub(super) auto_tuning: AutoTuning,
    /// The application does not read at once what arrives.
    pub(super) reads_later: bool,
    /// The receive window, where it follows the path.
    pub(super) drwa: Option<Drwa>,
    /// Segments that a peer without SACK is believed to have got behind a hole.
    reno_sack: RenoSack,
    /// Time at which the peer last acknowledged news, answered with a shut window, or had nothing to answer.
    pub(super) last_progress: Instant,
    last_reply_to_empty: Option<Instant>,
    /// The largest window that the peer has stated, bytes.
    window_max: u32,
    /// Its timestamp clock at time zero.
    clock_offset: u32,
    /// Counts of marks, where both agreed on accurate ECN.
    pub(super) marks: Option<Marks>,
    /// Echo of marks, where both agreed on classic ECN.
    pub(super) echo: Option<Echo>,
    pub(super) answering: Answering,
}

impl Connection {
    /// A connection whose peer said `syn`, with `window` bytes offered to it so far.
    pub(super) fn new(config: &EndpointConfig, syn: &Tcp, agreed: Negotiated, offered: u32) -> Self {
        let start = config.isn + 1;
        let peer_start = syn.seq + 1;
        let ts_recent = syn.options.timestamps.filter(|_| agreed.timestamps).map(|ts| ts.value);
        let mut receiver = Receiver::new(peer_start, offered, agreed.sack, ts_recent);
        receiver.allow_fin_ack();
        let sender = SenderConfig {
            start,
            mss: agreed.payload_max,
            sack: agreed.sack,
            window: u32::from(syn.window),
            peer_seq: syn.seq,
            policy: WindowPolicy::Honour,
            rto_max: RTO_MAX,
            timeout_segments: 1,
        };
        let (delay, quick) = match config.protocol {
            Protocol::Tcp => (DELAYED_ACK, QUICK_ACKS),
            Protocol::Quic => (DELAYED_ACK_OF_QUIC, 0),
        };
        Self {
            sender: Sender::new(sender),
            receiver,
            agreed,
            limits: Limits::new(Box::new(
                config.controller.with_mss(Bytes::from(agreed.payload_max)).build(),
            )),
            outbox: StreamBuffer::new(start),
            inbox: StreamBuffer::new(peer_start),
            acks: DelayedAcks {
                due: AckDue::No,
                delay,
                quick,
                compression: AckCompression::default(),
                last_sent: peer_start,
            },
            program: Program::new(&config.app),
            capacity: config.window.initial(),
            auto_tuning: AutoTuning::new(config.window.initial(), agreed.mss),
            reads_later: config.app.reading != Reading::AtOnce,
            drwa: match config.window {
                ReceiveWindow::Dynamic { params, .. } => Some(Drwa::new(params, Bytes::from(agreed.mss))),
                ReceiveWindow::Fixed(_) | ReceiveWindow::Growing { .. } => None,
            },
            reno_sack: RenoSack::default(),
            last_progress: Instant::ZERO,
            last_reply_to_empty: None,
            window_max: u32::from(syn.window),
            clock_offset: config.timestamps.unwrap_or(0),
            marks: None,
            echo: None,
            answering: Answering::new(config.mark_response, start),
        }
    }

    /// Bytes of payload, acknowledged in order by the peer.
    pub(super) fn acked(&self, config: &EndpointConfig) -> u64 {
        let written = self.program.written;
        let behind = (config.isn + 1 + written as u32).distance_from(self.sender.una());
        written.saturating_sub(behind.max(0).unsigned_abs().into())
    }

    pub(super) fn is_finished(&self) -> bool {
        self.program.has_closed && self.sender.is_fin_acked() && self.has_read_all()
    }

    pub(super) fn has_read_all(&self) -> bool {
        self.receiver.is_finished() && self.unread() == 0
    }

    /// There is data, and the peer's window is shut.
    pub(super) fn waits_for_window(&self) -> bool {
        self.sender.window() == 0 && self.sender.unsent() > 0
    }

    /// Nothing it sent is unacknowledged and nothing waits to be sent.
    pub(super) fn is_quiet(&self) -> bool {
        self.sender.is_idle() && self.sender.unsent() == 0
    }

    /// Bytes that have arrived in order.
    pub(super) fn received(&self) -> u64 {
        self.program.read + u64::from(self.unread())
    }

    pub(super) fn unread(&self) -> u32 {
        self.receiver.next().since(self.inbox.start())
    }

    /// Limits that the controller sets, and the bytes in flight.
    pub(super) fn sending(&self) -> (Control, Bytes) {
        (self.limits.controller.control(), Bytes::from(self.in_flight()))
    }

    /// Does the work of [`crate::Endpoint::exchange`].
    pub(super) fn exchange<'a>(
        &mut self,
        path: impl FnOnce() -> &'a mut SharedPath,
        number: u64,
        now: Instant,
    ) {
        if let AnyController::AdaptiveServer(controller) = &mut *self.limits.controller {
            controller.exchange(path, number, now);
        }
    }

    /// The largest window that it may offer.
    pub(super) fn window_max(&self) -> u32 {
        let window = self.drwa.as_ref().map_or(u64::MAX, |drwa| drwa.window().get());
        window.min(u64::from(self.capacity)) as u32
    }

    pub(super) fn free(&self) -> u32 {
        self.window_max().saturating_sub(self.unread())
    }

    /// Bytes believed to be in the network.
    fn in_flight(&self) -> u32 {
        self.sender.in_flight().saturating_sub(self.reno_sack.bytes())
    }

    /// Answers a segment that was refused; one without data at most every 500 ms, as Linux does
    /// (`tcp_invalid_ratelimit`), so that two hosts never answer each other for ever.
    pub(super) fn reply_to_refused(&mut self, has_payload: bool, now: Instant) -> bool {
        let is_too_soon =
            self.last_reply_to_empty.is_some_and(|at| now.saturating_since(at) < Duration::from_millis(500));
        if !has_payload && is_too_soon {
            return false;
        }
        if !has_payload {
            self.last_reply_to_empty = Some(now);
        }
        self.acks.due = AckDue::Alone;
        true
    }

    pub(super) fn acknowledge_now(&mut self) {
        self.acks.due = AckDue::Now;
    }

    /// True when a segment acknowledges less than could be under way when it was written (RFC 5961 §5.2,
    /// Linux `tcp_ack`).
    pub(super) fn is_ack_too_old(&self, tcp: &Tcp, config: &EndpointConfig) -> bool {
        let acked = self.acked(config).min(u64::from(self.window_max)) as u32;
        tcp.ack.is_before(self.sender.una() - acked)
    }

    /// Takes the acknowledgement fields; false when they acknowledge what was never sent.
    pub(super) fn on_ack(&mut self, tcp: &Tcp, stats: &mut EndpointStats, now: Instant) -> bool {
        let ack = AckIn {
            seq: tcp.seq,
            ack: tcp.ack,
            window: self.agreed.peer_scale.window(tcp.window),
            sack: &tcp.options.sack,
            has_payload: tcp.segment_len() > 0,
        };
        let before = Bytes::from(self.in_flight());
        let mut out = self.sender.on_ack(&ack, now);
        if out.is_unacceptable {
            stats.unacceptable_acks += 1;
            return false;
        }
        self.window_max = self.window_max.max(self.sender.window());
        stats.invalid_sack_blocks += u64::from(out.invalid_sack_blocks);
        if !self.agreed.sack {
            self.reno_sack.on_ack(&mut out, self.sender.in_flight(), self.agreed.payload_max);
        }
        // A shut window is an answer; an old number is none.
        if out.acked > 0 || (self.sender.window() == 0 && tcp.ack == self.sender.una()) {
            self.last_progress = now;
        }
        self.outbox.advance_to(self.sender.una().earlier_of(self.outbox.start() + self.outbox.len() as u32));
        if out.undid_timeout {
            self.limits.controller.on_undo(now);
        }
        if out.lost > 0 {
            self.report_loss(out.lost, LossKind::Fast, out.is_new_loss, now);
        }
        let mark = if out.delivered > 0 { self.heed_marks(tcp, out.delivered) } else { None };
        let delivery = Delivery {
            before,
            in_flight: Bytes::from(self.in_flight()),
            peer_window: Bytes::from(out.window),
            mss: self.agreed.payload_max,
            mark,
        };
        self.limits.on_delivery(&self.sender, &out, &delivery, now);
        true
    }

    /// Response to the marks that an acknowledgement of `delivered` bytes tells of.
    fn heed_marks(&mut self, tcp: &Tcp, delivered: u32) -> Option<Mark> {
        if self.marks.is_none() && self.echo.is_none() {
            return None;
        }
        self.answering.on_ack(&MarkFeedback {
            ece: tcp.flags.contains(TcpFlags::ECE),
            ace: tcp.flags.ace(),
            is_accurate: self.marks.is_some(),
            una: self.sender.una(),
            nxt: self.sender.nxt(),
            packets: delivered.div_ceil(self.agreed.payload_max.max(1)),
        })
    }

    /// The round trip of the handshake, unless its SYN was repeated (Karn).
    pub(super) fn on_handshake(&mut self, rtt: Duration, now: Instant) {
        self.auto_tuning.on_round_trip(rtt);
        if let Some(drwa) = &mut self.drwa {
            drwa.on_handshake(rtt);
        }
        self.limits.on_handshake(rtt, now);
    }

    fn report_loss(&mut self, lost: u32, kind: LossKind, is_new_event: bool, now: Instant) {
        self.limits.on_loss(lost, (kind, is_new_event), self.in_flight(), now);
    }

    /// True when a segment that begins in the window is taken although it may end beyond it (Linux
    /// `tcp_sequence`); then all of it is.
    pub(super) fn takes_beyond(&self, tcp: &Tcp, policy: BeyondWindow) -> bool {
        !self.ends_beyond(tcp) || policy == BeyondWindow::Always || self.unread() == 0
    }

    /// True for a segment that begins in the window and ends beyond it.
    fn ends_beyond(&self, tcp: &Tcp) -> bool {
        let (edge, end) = (self.receiver.right_edge(), tcp.seq + tcp.payload_len as u32);
        end.is_after(edge) && tcp.seq.is_before(edge)
    }

    /// A second segment is acknowledged at once unless what waits to be read has made the window
    /// smaller; then reading it does (Linux `__tcp_ack_snd_check`, `tcp_cleanup_rbuf`).
    fn acknowledges_second(&self) -> bool {
        let told = self.receiver.right_edge().distance_from(self.acks.last_sent).max(0).unsigned_abs();
        !self.reads_later || self.free() >= told
    }

    /// Takes the data of a segment that lies in the window.
    pub(super) fn on_data(&mut self, tcp: &Tcp, payload: &[u8], stats: &mut EndpointStats, now: Instant) {
        if let Some(ts) = tcp.options.timestamps.filter(|_| self.agreed.timestamps && !payload.is_empty()) {
            let age_ms = self.clock_offset.wrapping_add(now.as_millis() as u32).wrapping_sub(ts.echo);
            let age = Duration::from_millis(u64::from(age_ms.max(1)));
            self.auto_tuning.on_round_trip(age);
            if let Some(drwa) = &mut self.drwa {
                drwa.on_rtt(age);
            }
        }
        let segment = SegmentIn {
            seq: tcp.seq,
            payload,
            fin: tcp.flags.contains(TcpFlags::FIN),
            timestamp: tcp.options.timestamps.filter(|_| self.agreed.timestamps).map(|ts| ts.value),
            moves_time: true,
        };
        let had_holes = self.receiver.has_holes();
        let end = tcp.seq + payload.len() as u32;
        if self.ends_beyond(tcp) {
            self.receiver.allow_until(end);
        }
        let is_near = self.receiver.is_near_newest(tcp.seq, end, BLOCKS);
        match self.receiver.on_segment(&segment, &mut self.inbox) {
            Arrival::Empty => {}
            Arrival::InOrder { .. } if self.receiver.has_holes() => self.acknowledge_behind_hole(true, now),
            Arrival::InOrder { .. } => {
                let is_urgent = had_holes || segment.fin;
                self.acks.due = match self.acks.due {
                    AckDue::Alone => AckDue::Alone,
                    _ if had_holes => AckDue::Alone,
                    AckDue::No if !is_urgent && self.acks.quick == 0 => AckDue::Later(now + self.acks.delay),
                    AckDue::Later(at) if !is_urgent && !self.acknowledges_second() => AckDue::Later(at),
                    _ => AckDue::Now,
                };
                self.acks.quick = self.acks.quick.saturating_sub(1);
            }
            Arrival::OutOfOrder => self.acknowledge_behind_hole(is_near, now),
            Arrival::Duplicate => {
                stats.duplicate_segments += 1;
                self.acks.due = AckDue::Alone;
            }
            Arrival::OutOfWindow | Arrival::NoMemory => {
                stats.out_of_window_segments += 1;
                self.acks.due = AckDue::Alone;
            }
            Arrival::TooOld => stats.paws_rejected += 1,
        }
    }

    /// Data lies behind a hole: at once for the first three arrivals, then those of a short time together,
    /// unless there is no room for all their blocks.
    fn acknowledge_behind_hole(&mut self, is_near: bool, now: Instant) {
        let rtt = self.auto_tuning.round_trip().unwrap_or(Duration::ZERO);
        let hole = self.receiver.next();
        self.acks.due = match self.acks.compression.on_arrival(hole, rtt, self.agreed.sack, is_near) {
            Some(delay) if self.acks.due != AckDue::Alone => match self.acks.due {
                AckDue::AloneLater(at) => AckDue::AloneLater(at),
                _ => AckDue::AloneLater(now + delay),
            },
            _ => AckDue::Alone,
        };
    }

    /// Acts on timers that are due.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        match self.acks.due {
            AckDue::Later(at) if at <= now => self.acks.due = AckDue::Now,
            AckDue::AloneLater(at) if at <= now => self.acks.due = AckDue::Alone,
            _ => {}
        }
        if self.sender.next_deadline().is_some_and(|at| at <= now) {
            let out = self.sender.on_timeout(now);
            if out.is_timeout {
                self.reno_sack.on_timeout();
            }
            if let Some(kind) = out.kind {
                self.report_loss(out.lost, kind, out.is_new_loss, now);
            }
        }
    }

    /// It waits for an answer and there was no progress for `patience`.
    pub(super) fn has_given_up(&self, patience: Duration, now: Instant) -> bool {
        !self.is_quiet() && now >= self.last_progress + patience
    }

    /// The path takes no more than `mss` bytes of payload and options: what is under way goes out
    /// again, in pieces.
    pub(super) fn on_path_mtu(&mut self, mss: u32, now: Instant) {
        let options = if self.agreed.timestamps { 12 } else { 0 };
        let lost = self.sender.on_path_mtu(mss.saturating_sub(options));
        if lost > 0 {
            self.report_loss(lost, LossKind::Fast, false, now);
        }
    }

    pub(super) fn next_deadline(&self, patience: Duration) -> Option<Instant> {
        let ack = match self.acks.due {
            AckDue::Later(at) | AckDue::AloneLater(at) => Some(at),
            _ => None,
        };
        let read = self.program.read_at.filter(|_| self.unread() > 0);
        let end = (!self.is_quiet()).then(|| self.last_progress + patience);
        [self.sender.next_deadline(), ack, self.program.write_at, read, self.limits.next_deadline(), end]
            .into_iter()
            .flatten()
            .min()
    }

    /// True when a pure acknowledgement has to leave before any data.
    pub(super) fn owes_lone_ack(&self) -> bool {
        self.acks.due == AckDue::Alone
    }

    /// True when an acknowledgement has to leave with the next packet.
    pub(super) fn owes_ack(&self) -> bool {
        matches!(self.acks.due, AckDue::Now | AckDue::Alone)
    }

    /// The next transmission the limits allow.
    pub(super) fn poll_data(&mut self, now: Instant) -> Option<Transmission> {
        let in_flight = self.in_flight();
        let sent = self.limits.poll(&mut self.sender, in_flight, now)?;
        if self.sender.unsent() == 0 {
            self.limits.sampler.mark_app_limited(Bytes::from(self.sender.in_flight()));
        }
        Some(sent)
    }

    pub(super) fn payload(&self, sent: &Transmission) -> (&[u8], &[u8]) {
        self.outbox.slices(sent.seq, sent.len as usize)
    }

    /// The acknowledgement number and window field for a packet that leaves at once.
    pub(super) fn acknowledge(&mut self) -> (SeqNum, u16) {
        let free = self.free();
        // RFC 9293 §3.8.6.2.2: the edge moves by a segment or half the buffer, or not at all.
        let step = self.agreed.mss.min(self.window_max() / 2).max(1);
        let free = if self.receiver.window_growth(free) >= step { free } else { 0 };
        let window = self.receiver.window_field(free, self.agreed.own_scale);
        self.acks.due = AckDue::No;
        self.acks.compression.on_sent();
        self.acks.last_sent = self.receiver.ack();
        (self.acks.last_sent, window)
    }
}
