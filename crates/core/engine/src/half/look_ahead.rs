//! Looking ahead: the state of the flows that packets at hand most likely belong to is asked for
//! before they are handled.
//!
//! With many flows, fetching a flow's state takes longer than handling its packet, and one packet
//! after the other each waits for its own. Asked for some packets ahead, it comes while those
//! before it are handled:
//!
//! ```text
//!   packet      i      i+1 … i+3          … i+5              … i+8
//!            handled         its path        its subscriber     its flow     are asked for
//! ```
//!
//! Nothing of a flow is changed here, and nothing depends on what is found: a wrong guess costs time only.

use super::Half;
use crate::direction::End;
use crate::flow::Flow;
use crate::key::FlowKey;
use crate::memory::ahead::{AHEAD_MAX, TIMERS_AHEAD};
use crate::memory::slab::{Advice, MemoryAdvice};
use crate::path::Path;
use crate::path::subscriber::Subscriber;

/// Number of flows below which their state is in the processor's caches anyway.
const FLOWS_MIN: usize = 1_024;

/// Number of packets by which each part of a flow's state is asked for ahead of its handling: each
/// is found by the one before.
const FLOW_AHEAD: usize = 8;
const SUBSCRIBER_AHEAD: usize = 5;
const PATH_AHEAD: usize = 3;

/// Number of flows by which parts of a flow that lie elsewhere are asked for before it is stored; the flow itself is by
/// twice as many.
const PARTS_AHEAD: u32 = 8;

/// Bytes at the start of a flow that tell when it is due, and whose it is.
const HEAD: usize = 64;

impl Half {
    /// Passes on what the engine's caller can do for its memory, from here on.
    pub(crate) fn set_memory_advice(&mut self, advice: MemoryAdvice) {
        self.flows.set_advice(advice);
        self.subscribers.set_advice(advice);
        self.paths.set_advice(advice);
        self.memory.ahead.set_prefetch(advice.prefetch);
    }

    /// Looks at packets that are about to be handled in this order, each with the end that it comes from.
    pub(crate) fn look_ahead<'a>(&mut self, packets: impl Iterator<Item = (End, &'a [u8])>) {
        self.memory.ahead.clear();
        let Some(prefetch) = self.memory.ahead.prefetch().filter(|_| self.flows.len() >= FLOWS_MIN) else {
            return;
        };
        let mut hashes = [(None, End::Source); AHEAD_MAX];
        let mut len = 0;
        for (hash, (from, packet)) in hashes.iter_mut().zip(packets) {
            *hash = (FlowKey::glance(packet, from).map(|key| self.flow_index.hash(&key)), from);
            len += 1;
        }
        let index = &self.flow_index;
        let places =
            hashes[..len].iter().map(|(hash, from)| (hash.and_then(|hash| index.likely(hash)), *from));
        self.memory.ahead.expect(places);
        (0..FLOW_AHEAD).for_each(|index| self.ask_for_flow(index, prefetch));
        (0..SUBSCRIBER_AHEAD).for_each(|index| self.ask_for_subscriber(index, prefetch));
        (0..PATH_AHEAD).for_each(|index| self.ask_for_path(index, prefetch));
    }

    /// The next packet is about to be handled: asks for what those behind it need.
    #[inline]
    pub(super) fn step_ahead(&mut self) {
        let Some((next, prefetch)) = self.memory.ahead.step() else { return };
        self.ask_for_flow(next + FLOW_AHEAD, prefetch);
        self.ask_for_subscriber(next + SUBSCRIBER_AHEAD, prefetch);
        self.ask_for_path(next + PATH_AHEAD, prefetch);
    }

    fn ask_for_flow(&self, index: usize, prefetch: Advice) {
        if let Some(address) = self.memory.ahead.place(index).and_then(|(flow, _)| self.flows.address(flow)) {
            prefetch(address, size_of::<Flow>());
        }
    }

    fn ask_for_subscriber(&self, index: usize, prefetch: Advice) {
        let flow = self.memory.ahead.place(index).and_then(|(flow, _)| self.flows.get(flow));
        if let Some(address) = flow.and_then(|flow| self.subscribers.address(flow.subscriber)) {
            prefetch(address, Subscriber::TOUCHED);
        }
    }

    fn ask_for_path(&self, index: usize, prefetch: Advice) {
        let Some((flow, from)) = self.memory.ahead.place(index) else { return };
        let Some(flow) = self.flows.get(flow) else { return };
        if let Some(relay) = flow.phase.relay() {
            relay.ask_for_parts(from, prefetch);
        }
        let path = self.subscribers.get(flow.subscriber).and_then(Subscriber::path);
        if let Some(address) = path.and_then(|path| self.paths.address(path)) {
            Path::touched_by(from)
                .into_iter()
                .for_each(|(start, end)| prefetch(address + start, end - start));
        }
    }

    /// The flow at `place` is about to be stored: asks for those behind it, and for their parts that lie elsewhere.
    pub(super) fn ask_to_store(&self, place: u32) {
        let Some(prefetch) = self.memory.ahead.prefetch() else { return };
        if let Some(relay) =
            self.flows.get(place.saturating_add(PARTS_AHEAD)).and_then(|flow| flow.phase.relay())
        {
            relay.ask_for_parts(End::Sink, prefetch);
        }
        if let Some(address) = self.flows.address(place.saturating_add(2 * PARTS_AHEAD)) {
            prefetch(address, size_of::<Flow>());
        }
    }

    /// A deadline has come up: asks for the flows of the next ones, now and then.
    pub(super) fn step_timers_ahead(&mut self) {
        let Some(prefetch) = self.memory.ahead.prefetch().filter(|_| self.flows.len() >= FLOWS_MIN) else {
            return;
        };
        if self.memory.ahead.step_timer() {
            for address in self.timers.soonest(TIMERS_AHEAD).filter_map(|flow| self.flows.address(flow)) {
                prefetch(address, HEAD);
            }
        }
    }
}
