//! [`Opaque`]: what a subscriber is sent beside its accelerated flows, in one schedule with them.
//!
//! An opaque flow is one whose acknowledgements are not the engine's: QUIC and other UDP, TCP that passes,
//! ICMP, ESP, fragments. Its packets go through the same radio queue. So they wait here, a queue for each flow,
//! and take turns with the accelerated flows for the subscriber's window:
//!
//! ```text
//!   from servers ─▶ Queues: per flow, CoDel, new flows first ─┐ turns      ┌ UnderWay
//!                   accelerated flows: Turns ─────────────────┴▶ window ──▶┴─▶ radio queue ─▶ client
//! ```
//!
//! How much of it is under way is known without acknowledgements, because the radio queue is first in, first out:
//! an acknowledgement of a later segment says that everything sent before that segment has left the queue
//! ([`UnderWay`]). Segments of accelerated flows say so, those of TCP flows that pass, and QUIC's handshakes
//! ([`quic`]). Where none of them is, echo requests may ([`markers`]). Where nothing answers, nothing waits.
//!
//! A schedule begins with the first data of an accelerated flow, or when more than a trickle passes ([`trickle`]).

use control::SendStamp;
use units::{Bytes, Duration, Instant};
use wire::{Packet, Transport};

pub(crate) mod codel;
pub(crate) mod key;
pub(crate) mod markers;
pub(crate) mod queues;
pub(crate) mod quic;
pub(crate) mod trickle;
pub(crate) mod under_way;

use key::OpaqueKey;
use markers::Markers;
use queues::Queues;
use quic::{LongHeader, Quic};
use trickle::Trickle;
use under_way::UnderWay;

use crate::report::{Evidence, OpaqueReport, PassedBytes};

/// No packet waits longer without newer evidence of what is under way.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// An accelerated flow sends a segment at least this often while opaque packets wait: its acknowledgement is
/// evidence.
const EVIDENCE_EVERY: Duration = Duration::from_millis(25);

/// A source of evidence that has not answered for longer is none.
const SOURCE_LASTS: Duration = Duration::from_secs(4);

/// Bits of the traffic class below its DSCP.
const ECN_BITS: u32 = 2;

/// Time after an accelerated flow's last packet for which all that is sent to its subscriber comes here.
const ACTIVE: Duration = Duration::from_secs(5);

/// Time for which packets that passed and cannot be answered count as under way where the path is not known.
const UNANSWERED: Duration = Duration::from_millis(100);

/// Service of one flow and byte, so that shares are whole numbers.
const SERVICE: u64 = 256;

/// Packets that pass to one subscriber, and what is known of them.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(crate) struct Opaque {
    pub(crate) queues: Queues,
    pub(crate) under_way: UnderWay,
    /// Service per flow of accelerated and opaque flows, for turns.
    service: [u64; 2],
    /// DSCP of what accelerated flows send.
    own_dscp: Option<u8>,
    #[stored(since(5, Markers::default()))]
    pub(crate) markers: Markers,
    #[stored(since(6, Quic::default()))]
    pub(crate) quic: Quic,
    /// Bytes that have passed so far.
    #[stored(since(5, PassedBytes::default()))]
    pub(crate) passed: PassedBytes,
}

/// Class of flows whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// An accelerated flow's.
    Own,
    /// An opaque flow's.
    Opaque,
}

impl Opaque {
    /// Class whose turn it is, where `own` accelerated flows have something to send: a flow's share is the
    /// same whatever it is. New flows go first (RFC 8290).
    pub(crate) fn turn(&mut self, own: usize) -> Class {
        let [of_own, of_opaque] = &mut self.service;
        if own == 0 {
            *of_own = (*of_own).max(*of_opaque);
            return Class::Opaque;
        }
        if self.queues.is_empty() {
            *of_opaque = (*of_opaque).max(*of_own);
            return Class::Own;
        }
        if self.queues.is_new_first() || of_opaque <= of_own { Class::Opaque } else { Class::Own }
    }

    /// One of `flows` flows of a class has sent `len` bytes.
    pub(crate) fn charge(&mut self, class: Class, len: u32, flows: usize) {
        self.service[class as usize] += u64::from(len) * SERVICE / (flows.max(1) as u64);
    }

    /// An accelerated flow sends with this traffic class.
    pub(crate) fn note_own_class(&mut self, traffic_class: u8) {
        self.own_dscp = Some(traffic_class >> ECN_BITS);
    }

    /// A packet of this traffic class may have a queue of its own on the radio: the accelerated flows have another one.
    pub(crate) fn is_of_other_class(&self, traffic_class: u8) -> bool {
        self.own_dscp.is_some_and(|own| own != traffic_class >> ECN_BITS)
    }

    /// A packet has left that counts as `payload` bytes.
    pub(crate) fn note_sent(
        &mut self,
        parsed: &Packet,
        packet: &[u8],
        (payload, stamp): (u32, SendStamp),
        seed: u64,
    ) {
        self.markers.on_sent(&parsed.ip, payload);
        if let Transport::Udp(udp) = &parsed.transport
            && let Some(header) = LongHeader::of(udp, packet)
        {
            self.quic.on_sent(OpaqueKey::of(parsed, packet, seed), &header, self.under_way.sent(), stamp);
        }
    }

    /// The oldest packet may leave although the window is full: nothing has told for too long what is under way.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.overdue_at().is_some_and(|at| now >= at)
    }

    /// Time from which on it may.
    pub(crate) fn overdue_at(&self) -> Option<Instant> {
        Some(self.queues.oldest()?.max(self.under_way.evidence_at()) + WAIT_MAX)
    }

    /// Something may answer: a TCP flow that passes, or an echo request, has done so of late.
    pub(crate) fn has_source(&self, now: Instant) -> bool {
        self.under_way.answered_at().is_some_and(|at| now.saturating_since(at) < SOURCE_LASTS)
    }
}

/// Bytes of a packet that count as payload of a TCP segment of its length would.
pub(crate) fn payload_of(packet_len: usize, segments: u32) -> u32 {
    let headers = segments.max(1) * crate::path::pacing::HEADER_BYTES as u32;
    u32::try_from(packet_len).unwrap_or(u32::MAX).saturating_sub(headers).max(1)
}

/// Place of what a subscriber is sent beside its accelerated flows, if there is anything.
#[derive(Clone, Debug, Default, stored::Stored)]
#[repr(C)]
#[stored(order(opaque, own_sent_at, is_wanted, trickle))]
pub(crate) struct Place {
    #[stored(since(5, Trickle::default()))]
    trickle: Trickle,
    /// Time at which an accelerated flow sent last.
    own_sent_at: Instant,
    opaque: Option<Box<Opaque>>,
    /// All that is sent to the subscriber is to come here.
    is_wanted: bool,
}

impl Place {
    pub(crate) fn get(&self) -> Option<&Opaque> {
        self.opaque.as_deref()
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut Opaque> {
        self.opaque.as_deref_mut()
    }

    pub(crate) fn make(&mut self) -> &mut Opaque {
        self.opaque.get_or_insert_default()
    }

    /// Report on it; accelerated flows of the subscriber have something under way or to send.
    pub(crate) fn report(&self, is_accelerating: bool) -> Option<OpaqueReport> {
        let opaque = self.get()?;
        let evidence = match opaque.under_way.answered_at() {
            _ if opaque.under_way.is_contradicted() => Evidence::Contradicted,
            _ if is_accelerating => Evidence::Accelerated,
            Some(at) if opaque.under_way.evidence_at() >= at + SOURCE_LASTS => Evidence::None,
            Some(at) if opaque.markers.answered_at() == Some(at) => Evidence::Echo,
            Some(_) => Evidence::PassedTcp,
            _ => Evidence::None,
        };
        let in_flight = Bytes::new(opaque.under_way.bytes());
        let waiting = Bytes::new(self.waiting() as u64);
        let (passed, quic) = (opaque.passed, opaque.quic.handshake());
        Some(OpaqueReport { waiting, in_flight, evidence, passed, quic })
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.get().map_or(0, |opaque| opaque.queues.bytes() as usize)
    }

    /// An accelerated flow, one of `flows` that have something to send, has sent `len` bytes.
    pub(crate) fn on_own(&mut self, len: u32, flows: usize, now: Instant) {
        self.own_sent_at = now;
        if let Some(opaque) = self.get_mut() {
            opaque.charge(Class::Own, len, flows);
        }
    }

    /// All that is sent to the subscriber is to come here from now on; true if that is news.
    pub(crate) fn want(&mut self) -> bool {
        !std::mem::replace(&mut self.is_wanted, true)
    }

    /// True when packets of accelerated flows matter here, beside the time of them.
    pub(crate) fn follows_own(&self) -> bool {
        !self.is_wanted || self.opaque.is_some()
    }

    /// It is to.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// The same ends; true if that is news.
    pub(crate) fn release(&mut self) -> bool {
        std::mem::take(&mut self.is_wanted)
    }

    /// `len` bytes come that pass; true when they are more than a trickle.
    pub(crate) fn on_passing(&mut self, len: usize, now: Instant) -> bool {
        self.trickle.add(len, now)
    }

    /// Accelerated flows have sent something of late, or more than a trickle has passed.
    pub(crate) fn is_active(&self, now: Instant) -> bool {
        now < self.active_until()
    }

    /// Time until which that is so if nothing more comes.
    pub(crate) fn active_until(&self) -> Instant {
        let of_own = self.own_sent_at + ACTIVE;
        self.trickle.exceeds_until().map_or(of_own, |until| until.max(of_own))
    }

    /// One more segment of an accelerated flow may leave whatever is under way: its acknowledgement is wanted, because
    /// none of theirs follows what passed last.
    pub(crate) fn wants_evidence(&self, now: Instant) -> bool {
        let newest = self.get().and_then(|opaque| opaque.under_way.newest());
        newest.is_some_and(|newest| newest > self.own_sent_at)
            && now.saturating_since(self.own_sent_at) >= EVIDENCE_EVERY
    }

    /// Nothing of accelerated flows is under way, and nothing passed has answered of late: whatever was sent more than a
    /// `path`'s round trip ago may have left unseen, and holds nobody back.
    pub(crate) fn forget_unanswered(&mut self, path: Option<Duration>, now: Instant) {
        let usual = path.unwrap_or(UNANSWERED);
        if let Some(opaque) = self.get_mut().filter(|opaque| !opaque.has_source(now)) {
            opaque.under_way.forget_until(now - usual);
        }
    }

    /// True when something waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.get().is_some_and(|opaque| !opaque.queues.is_empty())
    }

    /// Takes in an answer to what was sent at `sent_at`: bytes that had passed until then.
    pub(crate) fn on_answer(&mut self, sent_at: Instant, now: Instant) -> u32 {
        let Some(opaque) = self.get_mut() else { return 0 };
        opaque.queues.on_served(now);
        opaque.markers.on_other_answer(now);
        opaque.under_way.release_until(sent_at, now)
    }

    /// Bytes under way, as far as it is known.
    pub(crate) fn under_way(&self) -> u64 {
        self.get().map_or(0, |opaque| opaque.under_way.bytes())
    }
}

#[cfg(test)]
mod tests;
