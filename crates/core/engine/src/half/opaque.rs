//! Schedule of what passes to a subscriber and of what is accelerated together ([`crate::opaque`]).

use std::net::IpAddr;

use control::{Control, Controller, SendStamp};
use units::{Duration, Instant};
use wire::{Icmp, Packet, Tcp, TcpFlags, Transport, Udp, VirtioNetHeader};

use super::Half;
use crate::boundary::Verdict;
use crate::config::Sharing;
use crate::direction::Direction;
use crate::key::{SharingKey, subscriber_key};
use crate::memory::timer::TimerKey;
use crate::opaque::key::{OpaqueKey, is_quic};
use crate::opaque::markers::Marker;
use crate::opaque::queues::Waiting;
use crate::opaque::quic::LongHeader;
use crate::opaque::trickle::TRICKLE;
use crate::opaque::under_way::{Answer, Numbered};
use crate::opaque::{Class, Opaque, payload_of};
use crate::path::Path;

/// Changes of whose traffic is wanted that wait to be taken.
const WANTED_MAX: usize = 1_024;

/// A schedule that may not end yet is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Half {
    /// True when packets that pass are scheduled here.
    fn schedules(&self) -> bool {
        let config = &self.config;
        config.schedule_passed
            && config.accelerate
            && !self.is_draining
            && self.direction == Direction::Downlink
            && config.sharing == Sharing::Subscriber
    }

    /// The subscriber of a client's address, if there was data for it.
    fn known_subscriber(&self, client: IpAddr) -> Option<(u32, u32)> {
        let key = SharingKey::Address(subscriber_key(client, self.config.ipv6_prefix_len));
        let id = self.clients.index.get(&key, &self.subscribers)?;
        Some((id, self.subscribers.get(id)?.path()?))
    }

    /// A packet of a server that passes: it goes on at once, or waits for its turn.
    pub(super) fn on_opaque(
        &mut self,
        parsed: &Packet,
        virtio: &VirtioNetHeader,
        packet: &[u8],
        now: Instant,
    ) -> Verdict {
        if !self.schedules() {
            return Verdict::Forward;
        }
        let is_short = self.stats.buffer_bytes_now >= self.config.buffer_max.get();
        let Some((subscriber, path_id)) = self.subscriber_of_passing(parsed, is_short, now) else {
            self.note_unwanted(parsed);
            return Verdict::Forward;
        };
        let Some(path) = self.paths.get_mut(path_id) else { return Verdict::Forward };
        let counts = self.config.echo_markers || parsed.tcp().is_some();
        let is_more_than_a_trickle = counts && path.opaque.on_passing(parsed.ip.total_len, now);
        if !path.opaque.has_waiting() && (is_short || !path.opaque.is_active(now)) {
            return Verdict::Forward;
        }
        if is_more_than_a_trickle && !path.opaque.is_wanted() {
            self.want(subscriber);
        }
        let Some(path) = self.paths.get_mut(path_id) else { return Verdict::Forward };
        let packet = &packet[..parsed.ip.total_len];
        let segments = segments_of(virtio, parsed);
        let key = OpaqueKey::of(parsed, packet, self.config.hash_seed);
        // Another class of service may have a queue of its own on the radio. The class of the accelerated flows may
        // have changed since something of this flow waits.
        let is_others =
            |opaque: &Opaque| opaque.is_of_other_class(parsed.ip.traffic_class) && !opaque.queues.holds(&key);
        if path.opaque.get().is_some_and(is_others) {
            return Verdict::Forward;
        }
        let payload = payload_of(packet.len(), segments);
        let numbered = match &parsed.transport {
            Transport::Tcp(tcp) if tcp.payload_len > 0 => {
                Some(Numbered { flow: key, end: tcp.seq + tcp.payload_len as u32 })
            }
            _ => None,
        };
        let len = packet.len() as u64;
        self.stats.opaque_packets += 1;
        self.stats.opaque_bytes += len;
        let passed = &mut path.opaque.make().passed;
        match &parsed.transport {
            Transport::Tcp(_) => {
                self.stats.opaque_tcp_bytes += len;
                passed.tcp += len;
            }
            Transport::Udp(udp) if is_quic(udp, packet) => {
                self.stats.opaque_quic_bytes += len;
                passed.quic += len;
            }
            Transport::Udp(_) => passed.udp += len,
            _ => passed.other += len,
        }
        let control = path.controller.control();
        if path.in_flight == 0 {
            path.opaque.forget_unanswered(path.controller.round_trip(), now);
        }
        let is_gated = path.opaque_is_gated(now);
        let has_room = now >= path.pacer.next() && path.under_way() < control.window.get();
        if !path.has_work() && (!is_gated || has_room) {
            let stamp = send_opaque(path, is_gated.then_some(&control), (payload, segments), numbered, now);
            path.opaque.make().note_sent(parsed, packet, (payload, stamp), self.config.hash_seed);
            self.consider_marker(subscriber, now);
            return Verdict::Forward;
        }
        let mut waiting = Waiting::new(packet, *virtio, (payload, segments), now);
        waiting.numbered = numbered;
        let before = path.opaque.waiting();
        // Where there is no memory left what waits becomes no more. What the subscriber's accelerated flows hold does not
        // count: they take all that it may have.
        let limit = if is_short { len.max(before as u64) } else { u64::MAX };
        path.opaque.make().queues.push(key, waiting, limit);
        self.stats.note_memory(before, path.opaque.waiting());
        path.adjust_buffered(before, path.opaque.waiting());
        self.outgoing.ready.wake(subscriber, path);
        Verdict::Consumed
    }

    /// A segment of a client whose flow passes: what it acknowledges has left, and so has everything sent before.
    pub(super) fn on_passed_reply(&mut self, parsed: &Packet, tcp: &Tcp, now: Instant) {
        let is_answer = tcp.flags.contains(TcpFlags::ACK) && !tcp.flags.contains(TcpFlags::RST);
        if !is_answer || !self.schedules() {
            return;
        }
        let key = OpaqueKey::of_reply(&parsed.ip, tcp, self.config.hash_seed);
        let sack = tcp.options.sack.iter().map(|block| block.end);
        let newest = sack.fold(tcp.ack, |newest, end| if end.is_after(newest) { end } else { newest });
        let Some((subscriber, path_id)) = self.known_subscriber(parsed.ip.src) else { return };
        let Some(path) = self.paths.get_mut(path_id) else { return };
        let Some(opaque) = path.opaque.get_mut() else { return };
        if let Some(answer) = opaque.under_way.on_ack(key, newest, now) {
            opaque.markers.on_other_answer(now);
            self.on_answered(subscriber, path_id, &answer, now);
        }
    }

    /// A datagram of a client that passes: QUIC's handshake says what has left.
    pub(super) fn on_passed_datagram(&mut self, parsed: &Packet, udp: &Udp, packet: &[u8], now: Instant) {
        let Some(header) = LongHeader::of(udp, packet).filter(|_| self.schedules()) else { return };
        let key = OpaqueKey::of_datagram_reply(&parsed.ip, udp, self.config.hash_seed);
        let Some((subscriber, path_id)) = self.known_subscriber(parsed.ip.src) else { return };
        let Some(path) = self.paths.get_mut(path_id) else { return };
        let Some(opaque) = path.opaque.get_mut() else { return };
        if let Some((place, stamp)) = opaque.quic.on_reply(key, &header, now) {
            self.stats.quic_handshakes += 1;
            self.stats.quic_handshakes_us += now.saturating_since(stamp.sent_at).as_micros();
            // Nothing of its kind follows: it is no source of evidence.
            let answer = Answer { bytes: opaque.under_way.release_to(place, now), stamp };
            opaque.markers.on_other_answer(now);
            self.on_answered(subscriber, path_id, &answer, now);
        }
    }

    /// A packet of a client that may be the reply to an echo request of ours; true if it is, and is for nobody else.
    pub(super) fn on_echo_reply(
        &mut self,
        icmp: &Icmp,
        parsed: &Packet,
        packet: &[u8],
        now: Instant,
    ) -> bool {
        if !self.config.echo_markers {
            return false;
        }
        let Some(number) = Marker::number_of_reply(parsed, icmp, packet, self.config.hash_seed) else {
            return false;
        };
        self.stats.markers_answered += 1;
        let Some((subscriber, path_id)) = self.known_subscriber(parsed.ip.src) else { return true };
        let Some(path) = self.paths.get_mut(path_id) else { return true };
        let Some(opaque) = path.opaque.get_mut() else { return true };
        if let Some((place, stamp)) = opaque.markers.on_reply(number, now) {
            let answer = opaque.under_way.on_reply(place, stamp, now);
            self.on_answered(subscriber, path_id, &answer, now);
        }
        true
    }

    /// Takes in an answer to what passes to a subscriber: its path is told what has left with it.
    fn on_answered(&mut self, subscriber: u32, path_id: u32, answer: &Answer, now: Instant) {
        let Some(path) = self.paths.get_mut(path_id) else { return };
        let Some(opaque) = path.opaque.get_mut() else { return };
        let in_flight_before = path.in_flight + opaque.under_way.bytes() + u64::from(answer.bytes);
        opaque.queues.on_served(now);
        if answer.bytes > 0 {
            path.on_answer(answer.bytes, &answer.stamp, in_flight_before, now);
        }
        self.outgoing.ready.wake(subscriber, path);
    }

    /// Has an echo request follow what has left, if it is time for one and nothing else answers.
    pub(super) fn consider_marker(&mut self, subscriber: u32, now: Instant) {
        if !self.config.echo_markers || !self.schedules() {
            return;
        }
        let Some(found) = self.subscribers.get_mut(subscriber) else { return };
        let Some(path) = found.path().and_then(|path| self.paths.get_mut(path)) else { return };
        let window = path.controller.control().window;
        let Some(opaque) = path.opaque.get_mut() else { return };
        if let Some(marker) = opaque.markers.ask(window, now) {
            self.outgoing.markers.push_back((subscriber, marker));
        } else if let Some(at) = opaque.markers.due(window) {
            self.timers.arm(TimerKey::Subscriber(subscriber), &mut found.armed, at);
        }
    }

    /// The next echo request to send, written where headers are; its length.
    pub(super) fn make_marker(&mut self, now: Instant) -> Option<usize> {
        while let Some((subscriber, marker)) = self.outgoing.markers.pop_front() {
            let Some(len) = marker.write(self.config.hash_seed, &mut self.outgoing.header) else { continue };
            let Some(path) = self.path_of_mut(subscriber) else { continue };
            let in_flight = path.under_way();
            let opaque = path.opaque.make();
            let place = opaque.under_way.sent();
            if opaque.markers.has_asked_for(place) {
                continue;
            }
            let stamp = path.sampler.on_send(in_flight == 0, now);
            path.opaque.make().markers.on_asked(marker.number, place, stamp);
            self.stats.markers_sent += 1;
            return Some(len);
        }
        None
    }

    /// The next opaque packet of a subscriber, if it is one's turn and it may leave; it is kept until the next one.
    pub(super) fn next_opaque(&mut self, subscriber: u32, control: &Control, now: Instant) -> bool {
        let Some(path) = self.subscribers.get(subscriber).and_then(|subscriber| subscriber.path()) else {
            return false;
        };
        let is_scheduled = self.schedules();
        let Some(path) = self.paths.get_mut(path) else { return false };
        let in_flight = path.under_way();
        let is_known = is_scheduled && path.opaque_is_gated(now);
        let Some(opaque) = path.opaque.get_mut() else { return false };
        if is_known && in_flight >= control.window.get() {
            if !opaque.is_overdue(now) {
                return false;
            }
            self.stats.opaque_overdue += 1;
        }
        let flows = opaque.queues.flows();
        let before = opaque.queues.bytes() as usize;
        let packet = opaque.queues.pop();
        let after = opaque.queues.bytes() as usize;
        let losses = opaque.queues.take_losses();
        self.stats.opaque_dropped += losses.dropped;
        self.stats.opaque_marked += losses.marked;
        self.stats.note_memory(before, after);
        path.buffered = (path.buffered + after as u64).saturating_sub(before as u64);
        let Some(packet) = packet else { return false };
        opaque.charge(Class::Opaque, packet.payload, flows);
        let size = (packet.payload, packet.segments);
        let stamp = send_opaque(path, is_known.then_some(control), size, packet.numbered, now);
        if let Ok(parsed) = wire::parse_prefix(&packet.bytes) {
            let sent = (packet.payload, stamp);
            path.opaque.make().note_sent(&parsed, &packet.bytes, sent, self.config.hash_seed);
            self.consider_marker(subscriber, now);
        }
        self.outgoing.opaque = Some(packet);
        true
    }

    /// An accelerated flow of a subscriber has sent a packet with the header made last: what passes is to come here.
    pub(super) fn follow_own(&mut self, subscriber: u32, header_len: usize) {
        let schedules = self.schedules();
        let Some(found) = self.subscribers.get_mut(subscriber) else { return };
        let Some(path) = found.path().and_then(|path| self.paths.get_mut(path)) else { return };
        if let (Some(opaque), Ok(parsed)) =
            (path.opaque.get_mut(), wire::parse_prefix(&self.outgoing.header[..header_len]))
        {
            opaque.note_own_class(parsed.ip.traffic_class);
        }
        if schedules && !path.opaque.is_wanted() {
            self.want(subscriber);
        }
    }

    /// Has all that is sent to a subscriber come here from now on.
    fn want(&mut self, subscriber: u32) {
        let Some(found) = self.subscribers.get_mut(subscriber) else { return };
        let Some(path) = found.path().and_then(|path| self.paths.get_mut(path)) else { return };
        if self.clients.wanted.len() < WANTED_MAX
            && let SharingKey::Address(address) = found.key
        {
            path.opaque.want();
            self.clients.wanted.push_back((address, true));
            let at = path.opaque.active_until();
            self.timers.arm(TimerKey::Subscriber(subscriber), &mut found.armed, at);
        }
    }

    /// The subscriber of a packet that passes, and its path; one that has none gets them when more than a trickle passes.
    /// None while memory is short.
    fn subscriber_of_passing(&mut self, parsed: &Packet, is_short: bool, now: Instant) -> Option<(u32, u32)> {
        let known = self.known_subscriber(parsed.ip.dst);
        if known.is_some() {
            return known;
        }
        if !self.config.echo_markers && parsed.tcp().is_none() {
            // Nothing would say what has left.
            return None;
        }
        let address = subscriber_key(parsed.ip.dst, self.config.ipv6_prefix_len);
        let exceeds = self.clients.trickles.add(address, parsed.ip.total_len, self.config.hash_seed, now);
        if !exceeds || is_short || self.subscribers.len() >= self.config.flows_max {
            return None;
        }
        let id = self.subscriber_at(SharingKey::Address(address), now);
        self.open_path(id);
        let found = self.subscribers.get_mut(id)?;
        let path = found.path()?;
        let place = &mut self.paths.get_mut(path)?.opaque;
        place.on_passing(parsed.ip.total_len.max(TRICKLE), now);
        // Whatever becomes of it, it is forgotten again.
        self.timers.arm(TimerKey::Subscriber(id), &mut found.armed, place.active_until());
        Some((id, path))
    }

    /// Ends the schedule of a subscriber whose accelerated flows have sent nothing for a while.
    pub(super) fn end_schedule(&mut self, subscriber: u32, now: Instant) {
        let Some(found) = self.subscribers.get_mut(subscriber) else { return };
        let Some(path) = found.path().and_then(|path| self.paths.get_mut(path)) else { return };
        let SharingKey::Address(address) = found.key else { return };
        let is_over = !path.opaque.is_active(now) && !path.opaque.has_waiting();
        if is_over && self.clients.wanted.len() < WANTED_MAX && path.opaque.release() {
            self.clients.wanted.push_back((address, false));
        } else if path.opaque.is_wanted() {
            let at = path.opaque.active_until().max(now + LOOK_AGAIN);
            self.timers.arm(TimerKey::Subscriber(subscriber), &mut found.armed, at);
        }
    }

    /// A packet of no subscriber with accelerated flows came here: it need not.
    fn note_unwanted(&mut self, parsed: &Packet) {
        let key = subscriber_key(parsed.ip.dst, self.config.ipv6_prefix_len);
        let is_said = self.clients.wanted.back() == Some(&(key, false));
        // Segments come here until it is known that their flow passes.
        if parsed.tcp().is_none() && !is_said && self.clients.wanted.len() < WANTED_MAX {
            self.clients.wanted.push_back((key, false));
        }
    }

    /// The caller that steers packets to this engine is to be told anew whose it wants.
    pub(super) fn want_anew(&mut self) {
        for (_, subscriber) in self.subscribers.iter() {
            let path = subscriber.path().and_then(|path| self.paths.get(path));
            if let SharingKey::Address(address) = subscriber.key
                && path.is_some_and(|path| path.opaque.is_wanted())
            {
                self.clients.wanted.push_back((address, true));
            }
        }
    }

    /// A subscriber all of whose traffic is to come here from now on, or no longer.
    pub(crate) fn take_wanted(&mut self) -> Option<(IpAddr, bool)> {
        self.clients.wanted.pop_front()
    }

    /// Class whose turn it is among those of a subscriber.
    pub(super) fn class_of_turn(path: &mut Path) -> Class {
        let own = path.turns.len();
        path.opaque.get_mut().map_or(Class::Own, |opaque| opaque.turn(own))
    }

    /// Opaque packets that may leave no sooner are looked at again when the oldest has waited long enough.
    pub(super) fn arm_for_overdue(&mut self, subscriber: u32) {
        let Some(found) = self.subscribers.get_mut(subscriber) else { return };
        let Some(path) = found.path().and_then(|path| self.paths.get(path)) else { return };
        if let Some(at) = path.opaque.get().and_then(|opaque| opaque.overdue_at()) {
            let at = at.max(path.pacer.next());
            self.timers.arm(TimerKey::Subscriber(subscriber), &mut found.armed, at);
        }
    }
}

/// An opaque packet leaves that counts as `payload` bytes in `segments` segments; the next one waits for as
/// long as `control` says, if it does.
fn send_opaque(
    path: &mut Path,
    control: Option<&Control>,
    (payload, segments): (u32, u32),
    numbered: Option<Numbered>,
    now: Instant,
) -> SendStamp {
    let in_flight = path.under_way();
    let stamp = path.sampler.on_send(in_flight == 0, now);
    path.opaque.make().under_way.on_sent(payload, stamp, numbered);
    path.on_send(payload, in_flight, now);
    if let Some(control) = control {
        path.pacer.on_send(payload, segments, control.pacing_rate, now);
    }
    path.last_used = now;
    stamp
}

/// Packets on the wire that a super-packet is cut into.
fn segments_of(virtio: &VirtioNetHeader, parsed: &Packet) -> u32 {
    let payload = parsed.ip.total_len.saturating_sub(parsed.ip.header_len) as u32;
    match u32::from(virtio.gso_size) {
        0 => 1,
        size => payload.div_ceil(size).max(1),
    }
}
