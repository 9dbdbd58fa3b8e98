//! Turns of flows: deficit round robin over the flows of a subscriber, with probes and repairs out of turn.

use control::{Control, Controller};
use tcp::Transmission;
use units::{Bytes, Instant};

use super::Half;
use crate::flow::Flow;
use crate::memory::buffer_pool::BufferPool;
use crate::memory::slab::Slab;
use crate::memory::timer::TimerKey;
use crate::opaque::Class;
use crate::path::Path;
use crate::relay::Relay;

/// Most bytes of one transmission: with its headers it is one packet for the kernel to cut. Even,
/// as halves of it are.
const PIECE_MAX: u64 = u16::MAX as u64 / 2 * 2 - 200;

/// Packet that leaves next.
pub(super) enum Pick {
    /// Data of an accelerated flow; what passes has to be told of it, or be asked for.
    Own(u32, Transmission, bool),
    /// The opaque packet that was set aside.
    Opaque,
}

impl Half {
    /// The next transmission of a subscriber, if pacing and window allow one.
    pub(super) fn next_transmission(&mut self, subscriber_id: u32, now: Instant) -> Option<Pick> {
        let subscriber = self.subscribers.get_mut(subscriber_id)?;
        let path_id = subscriber.path()?;
        let path = self.paths.get_mut(path_id)?;
        if !path.has_work() {
            return None;
        }
        if now < path.pacer.next() {
            self.timers.arm(TimerKey::Subscriber(subscriber_id), &mut subscriber.armed, path.pacer.next());
            return None;
        }
        if path.in_flight == 0 {
            path.opaque.forget_unanswered(path.controller.round_trip(), now);
        }
        let control = path.controller.control();
        if Self::class_of_turn(path) == Class::Opaque && self.next_opaque(subscriber_id, &control, now) {
            return Some(Pick::Opaque);
        }
        let path = self.paths.get_mut(path_id)?;
        let mut line = Line {
            subscriber: subscriber_id,
            path,
            flows: &mut self.flows,
            pool: &mut self.memory.pool,
            quantum: control.send_quantum.get().min(PIECE_MAX) as u32,
            control,
            super_packets: self.config.super_packets,
            is_short_of_data: false,
            now,
        };
        let made = line.in_turn().or_else(|| line.out_of_turn());
        if made.is_none() {
            line.note_shortage();
        }
        let (id, transmission) = match made {
            Some(made) => made,
            // Its own flows had nothing to send after all.
            None => return self.next_opaque(subscriber_id, &control, now).then_some(Pick::Opaque),
        };
        let is_news = self.paths.get(path_id).is_some_and(|path| path.opaque.follows_own());
        Some(Pick::Own(id, transmission, is_news))
    }
}

/// The flows of a subscriber that have something to send.
struct Line<'a> {
    subscriber: u32,
    path: &'a mut Path,
    flows: &'a mut Slab<Flow>,
    pool: &'a mut BufferPool,
    control: Control,
    /// Bytes of a turn.
    quantum: u32,
    super_packets: bool,
    /// A flow left because it had nothing to send.
    is_short_of_data: bool,
    now: Instant,
}

impl Line<'_> {
    /// Transmission of the flow whose turn it is.
    fn in_turn(&mut self) -> Option<(u32, Transmission)> {
        for _ in 0..3 * self.path.turns.len() {
            let id = self.path.turns.front()?;
            let relay = self.flows.get_mut(id).and_then(|flow| flow.phase.relay_mut());
            let Some(relay) = relay.filter(|relay| relay.wants_to_send()) else {
                self.leave(id);
                continue;
            };
            if relay.turn().is_over() {
                let mss = relay.mss();
                relay.turn().renew(self.quantum, mss);
                self.path.turns.rotate(self.flows);
                continue;
            }
            // Where the window is full its turn waits for room, and so do the others behind it.
            // Only the repair of the oldest segment and probes go on, out of turn.
            let made = self.transmit(id)?;
            return Some((id, made));
        }
        None
    }

    /// Transmission that must not wait for room.
    fn out_of_turn(&mut self) -> Option<(u32, Transmission)> {
        let mut index = 0;
        while let Some(&id) = self.path.urgent.get(index) {
            let flow = self.flows.get_mut(id);
            let Some(flow) = flow.filter(|flow| flow.is_urgent && flow.subscriber == self.subscriber) else {
                self.path.urgent.remove(index);
                continue;
            };
            if !flow.phase.relay().is_some_and(Relay::is_urgent) {
                flow.is_urgent = false;
                self.path.urgent.remove(index);
                continue;
            }
            if let Some(made) = self.transmit(id) {
                return Some((id, made));
            }
            index += 1;
        }
        None
    }

    /// The flow whose turn it is has nothing to send.
    fn leave(&mut self, id: u32) {
        let was_fresh = self.path.turns.remove(id, self.flows);
        let Some(relay) = self.flows.get_mut(id).and_then(|flow| flow.phase.relay_mut()) else { return };
        self.is_short_of_data |= relay.unsent() == 0;
        if was_fresh && !self.path.turns.is_round_empty() {
            // Once around with the others, or it could come back as a new one at once (RFC 8290 §4.2).
            self.path.turns.push_round(id, self.flows);
        } else {
            relay.turn().leave(self.now);
        }
    }

    fn transmit(&mut self, id: u32) -> Option<Transmission> {
        let relay = self.flows.get_mut(id)?.phase.relay_mut()?;
        let piece = if self.super_packets { self.quantum } else { relay.mss() };
        relay.lend_entries(self.pool);
        relay.transmit(self.path, &self.control, piece, self.now)
    }

    /// Nobody has data although the window has room: what is delivered now says little about the link.
    fn note_shortage(&mut self) {
        let in_flight = Bytes::new(self.path.under_way());
        if self.is_short_of_data && in_flight < self.control.window && !self.path.has_work() {
            self.path.sampler.mark_app_limited(in_flight);
        }
    }
}
