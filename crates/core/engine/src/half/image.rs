//! A half as bytes, and a half that goes on where another one has stopped.

use control::ControllerConfig;
use stored::{Reader, Stored, StoredError, Writer};
use units::Instant;

use super::Half;
use super::broken::Broken;
use super::handshakes::{OBSERVING, Opening};
use crate::key::FlowKey;
use crate::memory::index::Keyed;
use crate::meters::Meters;

impl Half {
    /// Appends everything its flows need; not the settings. What is written is handed on to `take` by and by.
    ///
    /// What the processor's caches gain by (packets ahead) is left out, and so is a packet made and not yet
    /// handed out: there is none between two calls.
    pub(crate) fn store(&self, out: &mut Writer, take: &mut dyn FnMut(&[u8])) {
        self.config.controller.store(out);
        (self.is_draining, self.mtu).store(out);
        self.stats.store(out);
        self.flows.store_to(out, take, |place| self.ask_to_store(place));
        self.subscribers.store_to(out, take, |_| ());
        self.paths.store_to(out, take, |_| ());
        self.memory.pool.store(out);
        self.timers.store(out);
        self.outgoing.outbox.store(out);
        self.outgoing.after_data.store(out);
        self.outgoing.ready.store(out);
        self.last.unknown.store(out);
        self.observed.passed_recently.store(out);
        self.conflicts.disputes.store(out);
        self.conflicts.broken.list().store(out);
        out.len_of_list(self.half_open.len());
        for record in self.half_open.iter() {
            ((record.key, record.began), record.known).store(out);
            out.hand_on(take);
        }
        self.clients.trickles.store(out);
        self.outgoing.markers.store(out);
    }

    /// Goes on where another one has stopped; it must not have had a flow yet.
    ///
    /// Its own settings hold from here on, as after [`Half::reconfigure`]. Its flows are in the journal of
    /// the one before, and in no other one yet ([`Half::note_flows`]).
    ///
    /// # Errors
    /// Bytes that no half has stored; then it is of no use any more.
    pub(crate) fn resume(&mut self, from: &mut Reader<'_>) -> Result<(), StoredError> {
        let controller: ControllerConfig = from.value()?;
        (self.is_draining, self.mtu) = from.value()?;
        self.stats = from.value()?;
        self.fill_flows(from)?;
        self.subscribers.fill(from)?;
        self.paths.fill(from)?;
        self.memory.pool.fill(from)?;
        self.timers = from.value()?;
        self.outgoing.outbox = from.value()?;
        self.outgoing.after_data = from.value()?;
        self.outgoing.ready = from.value()?;
        self.last.unknown = from.value::<Option<FlowKey>>()?;
        self.observed.passed_recently = from.value()?;
        self.conflicts.disputes = from.value()?;
        self.conflicts.broken = Broken::of(from.value()?);
        for _ in 0..from.len_of_list("a handshake under way")? {
            let ((key, began), opening): ((FlowKey, Instant), Opening) = from.value()?;
            self.half_open.add(key, self.client_of(&key), began, opening);
        }
        if from.version() >= 5 {
            (self.clients.trickles, self.outgoing.markers) = from.value()?;
        }
        self.stats.half_open_now = self.half_open.len() as u64;
        self.stats.flows_now = (self.flows.len() + self.half_open.len()) as u64;
        (0..self.half_open.len()).for_each(|_| self.meters.add(OBSERVING));
        self.clients.index.reserve(self.subscribers.len());
        for (place, subscriber) in self.subscribers.iter() {
            self.clients.index.insert(subscriber.key(), place);
        }
        self.want_anew();
        if controller != self.config.controller {
            self.outdate_controllers();
        }
        Ok(())
    }

    /// Fills the table of flows, and enters each where it is found, while the processor's caches have it.
    fn fill_flows(&mut self, from: &mut Reader<'_>) -> Result<(), StoredError> {
        let (direction, ipv6_prefix_len) = (self.direction, self.config.ipv6_prefix_len);
        let (index, families) = (&mut self.flow_index, &mut self.clients.families);
        let mut meters = Meters::default();
        self.flows.fill_each(from, |place, flows| {
            let Some(flow) = flows.get(place) else { return };
            meters.add(flow.level());
            index.insert(&flow.key, place);
            let client = flow.key.client(direction, ipv6_prefix_len);
            families.join(client, place, flows);
        })?;
        self.meters = meters;
        Ok(())
    }

    /// Has room for about `flows` flows, and the memory for it.
    pub(crate) fn prepare_for(&mut self, flows: usize) {
        self.flows.reserve(flows);
        self.flow_index.reserve(flows);
        self.clients.families.reserve(flows);
    }

    /// Groups all flows by their clients anew.
    pub(super) fn find_families(&mut self) {
        self.clients.families.clear();
        for id in 0..self.flows.places() {
            self.join_family(id);
        }
    }
}
