//! What leaves: packets of the engine's own making, in their order.

use control::{Control, Controller};
use tcp::{SendContext, Transmission};
use units::{Bytes, Duration, Instant};
use wire::{EmittedHeader, IpVersion, VirtioNetHeader};

use super::{Made, OneWay, memory_limit};
use crate::accelerated::Accelerated;
use crate::flow::{Flow, State};
use crate::path::Path;
use crate::timer::{Moment, TimerKey};
use crate::{PassReason, Port, emit};

/// A flow that had nothing to send for this long begins anew.
const PAUSE: Duration = Duration::from_millis(50);

/// Segments of a short answer (RFC 6928).
const INITIAL_WINDOW: u64 = 10;

impl OneWay {
    /// The next packet to send at `now`; call it until there is none.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Made> {
        loop {
            if let Some(id) = self.next_in_outbox() {
                if let Some((to, header)) = self.control_packet(id, now) {
                    self.stats.packets_made += 1;
                    let virtio = VirtioNetHeader::for_partial_checksum(header.transport_offset);
                    return Some(Made { to, virtio, header_len: header.len, payload: None });
                }
                continue;
            }
            let subscriber_id = *self.ready.front()?;
            let Some((id, transmission)) = self.next_transmission(subscriber_id, now) else {
                self.ready.pop_front();
                if let Some(path) = self.path_of_mut(subscriber_id) {
                    path.is_ready = false;
                }
                continue;
            };
            self.ready.pop_front();
            self.ready.push_back(subscriber_id);
            self.arm_flow(id, now);
            let Some((virtio, header)) = self.data_packet(id, &transmission) else { continue };
            self.stats.packets_made += 1;
            let payload = Some((id, transmission.seq, transmission.len));
            return Some(Made { to: Port::Mobile, virtio, header_len: header.len, payload });
        }
    }

    /// The header of the packet made last.
    pub(crate) fn made_header(&self, made: &Made) -> &[u8] {
        &self.header[..made.header_len]
    }

    /// The payload of the packet made last, in two pieces.
    pub(crate) fn made_payload(&self, made: &Made) -> (&[u8], &[u8]) {
        let Some((id, seq, len)) = made.payload else { return (&[], &[]) };
        match self.flows.get(id).map(|flow| &flow.state) {
            Some(State::Accelerated(a)) => a.buffer.slices(seq, len as usize),
            _ => (&[], &[]),
        }
    }

    /// The next flow with a control packet to make now. An acknowledgement for the client waits until it is
    /// clear that no data goes out in its place.
    fn next_in_outbox(&mut self) -> Option<u32> {
        while let Some(id) = self.outbox.pop_front() {
            let accelerated = self.flows.get_mut(id).and_then(Flow::accelerated);
            if accelerated.is_some_and(|a| a.outbox.is_only_for_client() && a.sender.wants_to_send()) {
                self.after_data.push_back(id);
            } else {
                return Some(id);
            }
        }
        if self.ready.is_empty() { self.after_data.pop_front() } else { None }
    }

    /// Makes one of the control packets a flow waits to have made.
    fn control_packet(&mut self, id: u32, now: Instant) -> Option<(Port, EmittedHeader)> {
        let flow = self.flows.get_mut(id)?;
        flow.in_outbox = false;
        let key = flow.key;
        let subscriber = self.subscribers.get(flow.subscriber)?;
        let path = subscriber.path().and_then(|path| self.paths.get_mut(path));
        let path = path.unwrap_or(&mut self.no_path);
        let State::Accelerated(accelerated) = &mut flow.state else { return None };
        path.flows = subscriber.flows;
        path.memory_limit = memory_limit(&self.config, &self.stats, path, accelerated);
        let pending = accelerated.outbox;
        let buf = &mut self.header;
        let (to, made, end) = if pending.reset_server {
            accelerated.outbox.reset_server = false;
            (Port::Wired, emit::reset_for_server(&key, accelerated, buf), None)
        } else if pending.reset_client {
            self.stats.bytes_acked_but_lost += u64::from(accelerated.debt());
            let reason = if accelerated.server_reset { PassReason::Reset } else { PassReason::ClientGone };
            (Port::Mobile, emit::reset_for_client(&key, accelerated, buf), Some(reason))
        } else if pending.ack_server {
            accelerated.outbox.ack_server = false;
            self.stats.acks_made += 1;
            let made = emit::ack_for_server(&key, accelerated, path, &self.config, buf);
            (Port::Wired, made, None)
        } else if pending.ack_client {
            accelerated.outbox.ack_client = false;
            (Port::Mobile, emit::ack_for_client(&key, accelerated, buf), None)
        } else {
            return None;
        };
        match end {
            Some(_) => self.remove(id, end),
            None => self.follow_up(id, now),
        }
        made.ok().map(|header| (to, header))
    }

    /// Deficit round robin: the next transmission of a subscriber, if pacing and window allow one.
    fn next_transmission(&mut self, subscriber_id: u32, now: Instant) -> Option<(u32, Transmission)> {
        let super_packets = self.config.super_packets;
        let subscriber = self.subscribers.get_mut(subscriber_id)?;
        let path = self.paths.get_mut(subscriber.path()?)?;
        if !path.has_work() {
            return None;
        }
        if now < path.next_send {
            let at = path.next_send;
            self.timers.arm(TimerKey::Subscriber(subscriber_id), &mut subscriber.armed, at);
            return None;
        }
        let control = path.controller.control();
        let quantum = control.send_quantum.get().min(u64::from(u16::MAX) / 2 * 2 - 200) as u32;
        let cut = |flow: &Accelerated| if super_packets { quantum } else { flow.sender.mss() };
        let mut is_short_of_data = false;
        let mut turns = 3 * path.turns.len();
        while turns > 0 {
            turns -= 1;
            let Some(id) = path.turns.front() else { break };
            let accelerated = self.flows.get_mut(id).and_then(Flow::accelerated);
            let Some(accelerated) = accelerated.filter(|a| a.sender.wants_to_send()) else {
                let was_fresh = path.turns.remove(id, &mut self.flows);
                let Some(a) = self.flows.get_mut(id).and_then(Flow::accelerated) else { continue };
                is_short_of_data |= a.sender.unsent() == 0;
                if was_fresh && !path.turns.is_round_empty() {
                    // Once around with the others, or it could come back as a new one at once (RFC 8290 §4.2).
                    path.turns.push_round(id, &mut self.flows);
                    continue;
                }
                a.in_round = false;
                a.deficit = 0;
                a.left_round = Moment::at(now);
                continue;
            };
            if accelerated.deficit <= 0 {
                // At least a segment, and what a larger turn of the past has left is forgiven: a turn that does not
                // suffice would be waited for without a timer.
                let turn = quantum.max(accelerated.sender.mss()) as i32;
                accelerated.deficit = (accelerated.deficit + turn).max(1);
                path.turns.rotate(&mut self.flows);
                continue;
            }
            let piece = cut(accelerated);
            self.spare.lend_entries(&mut accelerated.sender);
            if let Some(made) = transmit(accelerated, path, &control, piece, now) {
                return Some((id, made));
            }
            // The window is full: its turn waits for room, and so do the others behind it. Only the repair of the
            // oldest segment and probes go on, out of turn.
            break;
        }
        let mut index = 0;
        while let Some(&id) = path.urgent.get(index) {
            let flow = self.flows.get_mut(id);
            let Some(flow) = flow.filter(|flow| flow.is_urgent && flow.subscriber == subscriber_id) else {
                path.urgent.remove(index);
                continue;
            };
            let Some(accelerated) = flow.accelerated().filter(|a| a.sender.is_urgent()) else {
                flow.is_urgent = false;
                path.urgent.remove(index);
                continue;
            };
            let piece = cut(accelerated);
            self.spare.lend_entries(&mut accelerated.sender);
            if let Some(made) = transmit(accelerated, path, &control, piece, now) {
                return Some((id, made));
            }
            index += 1;
        }
        // Nobody has data although the window has room: what is delivered now says little about the link.
        let has_room = Bytes::new(path.in_flight) < control.window;
        if is_short_of_data && has_room && !path.has_work() {
            path.sampler.mark_app_limited(Bytes::new(path.in_flight));
        }
        None
    }

    fn data_packet(
        &mut self,
        id: u32,
        transmission: &Transmission,
    ) -> Option<(VirtioNetHeader, EmittedHeader)> {
        let flow = self.flows.get_mut(id)?;
        let key = flow.key;
        let accelerated = flow.accelerated()?;
        let header = emit::transmission(&key, accelerated, transmission, &mut self.header).ok()?;
        accelerated.outbox.ack_client = false;
        let mss = accelerated.sender.mss();
        let virtio = if transmission.len > mss {
            let version = if key.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
            VirtioNetHeader::for_tcp_gso(version, header.transport_offset, header.len, mss as u16)
        } else {
            VirtioNetHeader::for_partial_checksum(header.transport_offset)
        };
        Some((virtio, header))
    }
}

/// Makes a flow's next transmission, if the subscriber's window allows one.
fn transmit(
    flow: &mut Accelerated,
    path: &mut Path,
    control: &Control,
    quantum: u32,
    now: Instant,
) -> Option<Transmission> {
    let in_flight_before = path.in_flight;
    let room = control.window.get().saturating_sub(in_flight_before).min(u64::from(u32::MAX));
    let before = flow.sender.in_flight();
    let made = flow.sender.poll(SendContext {
        now,
        quantum,
        window_room: room as u32,
        is_path_idle: in_flight_before == 0,
        sampler: &mut path.sampler,
    })?;
    path.adjust_in_flight(before, flow.sender.in_flight());
    path.on_send(made.len, in_flight_before, now);
    path.last_used = now;
    flow.deficit -= made.len.max(1) as i32;
    let segments = made.len.div_ceil(flow.sender.mss().max(1)).max(1);
    path.pace(made.len, segments, control.pacing_rate, now);
    Some(made)
}

/// What a flow that gets something to send may send before it takes turns: after a pause a short answer's worth, so
/// that short flows and answers go first (RFC 8290 §4.2).
pub(super) fn join_credit(flow: &Accelerated, path: &Path, now: Instant) -> i32 {
    let quantum = path.controller.control().send_quantum.get().min(u64::from(u16::MAX));
    let mss = flow.sender.mss();
    let has_paused = flow.left_round.get().is_none_or(|at| now.saturating_since(at) >= PAUSE);
    let short = if has_paused { INITIAL_WINDOW * u64::from(mss) } else { u64::from(mss) };
    quantum.max(short) as i32
}
