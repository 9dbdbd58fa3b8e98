//! The two ends of a subflow: [`SubflowSender`] and [`SubflowReceiver`].

use std::collections::{BTreeMap, VecDeque};

use control::{Controller, LossKind};
use tcp::{AckIn, Arrival, Receiver, SegmentIn, Sender, SenderConfig, StreamBuffer, WindowPolicy};
use units::{Bytes, Duration, Instant, SeqNum};
use wire::SackBlocks;

use crate::host::{DELAYED_ACK, Delivery, Limits, QUICK_ACKS, RTO_MAX};

/// The first number of a subflow's own.
const START: SeqNum = SeqNum::new(1);

/// A subflow has no window of its own: that of the data limits (RFC 8684 §3.3.1).
const OWN_WINDOW: u32 = 1 << 30;

/// Place of a subflow's data in the connection's data (RFC 8684 §3.3.1).
#[derive(Clone, Copy, Debug)]
struct Mapping {
    seq: SeqNum,
    len: u32,
    data_seq: u64,
}

/// Segment that a subflow sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub seq: SeqNum,
    pub data_seq: u64,
    pub len: u32,
}

/// The server's end.
pub(super) struct SubflowSender {
    sender: Sender,
    limits: Limits<dyn Controller>,
    mappings: VecDeque<Mapping>,
    /// The end of what was given to it.
    end: SeqNum,
    handshake: Duration,
}

impl core::fmt::Debug for SubflowSender {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SubflowSender").field("sender", &self.sender).finish_non_exhaustive()
    }
}

impl SubflowSender {
    /// A subflow whose handshake took `handshake`, with segments of `mss` bytes.
    pub(super) fn new(controller: Box<dyn Controller>, mss: u32, handshake: Duration, now: Instant) -> Self {
        let mut limits = Limits::new(controller);
        limits.on_handshake(handshake, now);
        let config = SenderConfig {
            peer_seq: START,
            start: START,
            mss,
            sack: true,
            window: OWN_WINDOW,
            policy: WindowPolicy::Honour,
            rto_max: RTO_MAX,
            timeout_segments: 1,
        };
        Self { sender: Sender::new(config), limits, mappings: VecDeque::new(), end: START, handshake }
    }

    /// The smoothed round trip; that of the handshake before there is one.
    pub(super) fn round_trip(&self) -> Duration {
        self.sender.rtt().smoothed().unwrap_or(self.handshake)
    }

    /// Largest payload of a segment.
    pub(super) fn mss(&self) -> u32 {
        self.sender.mss()
    }

    /// It would send a segment of new data now.
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        let window = self.limits.controller.control().window.get();
        let has_room = u64::from(self.sender.in_flight()) + u64::from(self.sender.mss()) <= window;
        let has_room = has_room || self.sender.is_idle();
        has_room && !self.sender.wants_to_send() && !self.limits.hold_back(true, now)
    }

    /// Gives it data to send.
    pub(super) fn give(&mut self, data_seq: u64, len: u32) {
        self.mappings.push_back(Mapping { seq: self.end, len, data_seq });
        self.end += len;
        self.sender.set_available(self.end, false);
    }

    /// There was room, and nothing to send.
    pub(super) fn lacks_data(&mut self) {
        self.limits.sampler.mark_app_limited(Bytes::from(self.sender.in_flight()));
    }

    /// The next segment that window, pacing and recovery allow.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Outgoing> {
        let in_flight = self.sender.in_flight();
        let sent = self.limits.poll(&mut self.sender, in_flight, now)?;
        let mapping = self.mappings.iter().find(|one| sent.seq.is_before(one.seq + one.len))?;
        let data_seq = mapping.data_seq + u64::from(sent.seq.since(mapping.seq));
        Some(Outgoing { seq: sent.seq, data_seq, len: sent.len })
    }

    /// Takes an acknowledgement.
    pub(super) fn on_ack(&mut self, ack: SeqNum, sack: &SackBlocks, now: Instant) {
        let before = Bytes::from(self.sender.in_flight());
        let ack = AckIn { seq: START, ack, window: OWN_WINDOW, sack, has_payload: false };
        let out = self.sender.on_ack(&ack, now);
        let una = self.sender.una();
        while self.mappings.front().is_some_and(|one| (one.seq + one.len).is_at_or_before(una)) {
            self.mappings.pop_front();
        }
        if out.undid_timeout {
            self.limits.controller.on_undo(now);
        }
        if out.lost > 0 {
            self.report_loss(out.lost, LossKind::Fast, out.is_new_loss, now);
        }
        let delivery = Delivery {
            before,
            in_flight: Bytes::from(self.sender.in_flight()),
            peer_window: Bytes::MAX,
            mss: self.sender.mss(),
            mark: None,
        };
        self.limits.on_delivery(&self.sender, &out, &delivery, now);
    }

    fn report_loss(&mut self, lost: u32, kind: LossKind, is_new_event: bool, now: Instant) {
        self.limits.on_loss(lost, (kind, is_new_event), self.sender.in_flight(), now);
    }

    /// Acts on timers that are due.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.sender.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        let out = self.sender.on_timeout(now);
        if let Some(kind) = out.kind {
            self.report_loss(out.lost, kind, out.is_new_loss, now);
        }
    }

    /// Time at which it has something to do by itself.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.sender.next_deadline().into_iter().chain(self.limits.next_deadline()).min()
    }
}

/// Time at which an acknowledgement is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    No,
    /// Due when a second segment has come, or at this time.
    Later(Instant),
    Now,
}

/// The client's end.
#[derive(Debug)]
pub(super) struct SubflowReceiver {
    receiver: Receiver,
    inbox: StreamBuffer,
    /// Data that is there or was, by the subflow's own number: where it belongs.
    mappings: BTreeMap<u64, (u64, u32)>,
    /// [`Receiver::next`] as a number that does not wrap.
    next: u64,
    due: Due,
    quick: u32,
}

impl SubflowReceiver {
    pub(super) fn new() -> Self {
        let mut receiver = Receiver::new(START, OWN_WINDOW, true, None);
        receiver.allow_fin_ack();
        Self {
            receiver,
            inbox: StreamBuffer::new(START),
            mappings: BTreeMap::new(),
            next: 0,
            due: Due::No,
            quick: QUICK_ACKS,
        }
    }

    /// Takes a segment; `deliver` gets the place and the bytes of what is in order on the subflow.
    pub(super) fn on_segment(
        &mut self,
        (seq, data_seq): (SeqNum, u64),
        payload: &[u8],
        now: Instant,
        deliver: &mut dyn FnMut(u64, Vec<u8>),
    ) {
        let had_holes = self.receiver.has_holes();
        let ahead = seq.distance_from(self.receiver.next());
        if let Ok(ahead) = u64::try_from(ahead) {
            self.mappings.insert(self.next + ahead, (data_seq, payload.len() as u32));
        }
        let segment = SegmentIn { seq, payload, fin: false, timestamp: None, moves_time: true };
        let arrival = self.receiver.on_segment(&segment, &mut self.inbox);
        if let Arrival::InOrder { advanced } = arrival {
            self.next += u64::from(advanced);
            while let Some(first) = self.mappings.first_entry().filter(|first| *first.key() < self.next) {
                let (data_seq, len) = first.remove();
                let (a, b) = self.inbox.slices(self.inbox.start(), len as usize);
                deliver(data_seq, [a, b].concat());
                self.inbox.advance_to(self.inbox.start() + len);
            }
        }
        let is_urgent = had_holes || !matches!(arrival, Arrival::InOrder { .. }) || self.quick > 0;
        self.quick = self.quick.saturating_sub(1);
        self.due = match self.due {
            Due::No if !is_urgent => Due::Later(now + DELAYED_ACK),
            _ => Due::Now,
        };
    }

    /// The acknowledgement that is due.
    pub(super) fn poll(&mut self, now: Instant) -> Option<(SeqNum, SackBlocks)> {
        match self.due {
            Due::No => return None,
            Due::Later(at) if at > now => return None,
            Due::Later(_) | Due::Now => self.due = Due::No,
        }
        Some((self.receiver.ack(), self.receiver.sack_blocks(3)))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self.due {
            Due::Later(at) => Some(at),
            Due::No | Due::Now => None,
        }
    }
}
