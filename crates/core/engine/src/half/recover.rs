//! Flows of an engine whose process has died.

use units::Instant;

use super::Half;
use crate::flow::Flow;
use crate::journal::JournalEntry;
use crate::key::FlowKey;
use crate::path::Path;
use crate::path::subscriber::Subscriber;
use crate::phase::Phase;
use crate::phase::accelerated::Accelerated;
use crate::phase::closed::Closed;
use crate::phase::draining::Draining;
use crate::record::{FlowRecord, Mark};
use crate::relay::Relay;

/// Reason why a flow cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecoverError {
    /// Its record is damaged, or speaks of memory that is not there.
    #[error("what is written down about it makes no sense, or its data is not there")]
    Senseless,
    /// The flow is in the table already.
    #[error("it is there already")]
    Known,
    /// The table, or its subscriber's share of it, is full.
    #[error("there is no room for it")]
    NoRoom,
}

impl Half {
    /// Goes on with a flow as `entry` says that it stood.
    pub(crate) fn recover(&mut self, entry: &JournalEntry, now: Instant) -> Result<(), RecoverError> {
        self.go_on(FlowKey::new(entry.sink, entry.source), &entry.record, None, now)
    }

    /// Goes on with a flow as `record` says that it stood. What it holds is `held`, or lies where the record says.
    pub(super) fn go_on(
        &mut self,
        key: FlowKey,
        record: &FlowRecord,
        held: Option<&[u8]>,
        now: Instant,
    ) -> Result<(), RecoverError> {
        if self.flow_index.get(&key, &self.flows).is_some() {
            return Err(RecoverError::Known);
        }
        if self.flows.len() >= self.config.flows_max || self.is_subscriber_full(&key) {
            return Err(RecoverError::NoRoom);
        }
        if let Some(handshake) = self.half_open.find(&key) {
            self.end_handshake(handshake, None);
        }
        let subscriber_id = self.subscriber_for(&key, now);
        let Some(relay) = self.relay_of(record, held, subscriber_id, now) else {
            self.leave_subscriber(subscriber_id);
            return Err(RecoverError::Senseless);
        };
        let (memory, in_flight) = (relay.memory(), relay.in_flight());
        let phase = if record.is(Mark::Draining) {
            let departure = Box::new(relay.new_departure());
            Phase::Draining(Draining { has_ended: relay.has_ended(), relay, departure })
        } else if record.is(Mark::Closed) {
            Phase::Closed(Closed { relay })
        } else {
            Phase::Accelerated(Accelerated { relay })
        };
        let last_activity = record.times(now)[1];
        let id = self.add(Flow::in_phase(key, subscriber_id, phase, last_activity));
        self.stats.note_memory(0, memory);
        if let Some(path) = self.path_of_mut(subscriber_id) {
            path.adjust_buffered(0, memory);
            path.adjust_in_flight(0, in_flight);
        }
        self.narrow(id, self.mtu, now);
        self.settle(id, now);
        Ok(())
    }

    fn relay_of(
        &mut self,
        record: &FlowRecord,
        held: Option<&[u8]>,
        subscriber_id: u32,
        now: Instant,
    ) -> Option<Relay> {
        let subscriber = self.subscribers.get_mut(subscriber_id)?;
        subscriber.note_mss(record.mss);
        // Something is under way, or will be.
        self.open_path(subscriber_id);
        let path = self.subscribers.get(subscriber_id).and_then(Subscriber::path)?;
        let path: &mut Path = self.paths.get_mut(path)?;
        path.on_known(&record.known(), now);
        let stamp = path.sampler.on_send(path.in_flight == 0, now);
        let origin = self.memory.pool.no_memory();
        match held {
            Some(held) => Relay::moved(record, held, &origin, &self.config, stamp).ok(),
            None => Relay::recovered(record, &origin, &self.config, stamp).ok(),
        }
    }
}
