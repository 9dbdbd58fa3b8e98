//! A half as bytes, and a half that goes on where another one has stopped.

use control::ControllerConfig;
use stored::{Reader, Stored, StoredError, Writer};

use super::Half;
use crate::key::FlowKey;
use crate::memory::index::{Index, Keyed};
use crate::memory::slab::Slab;

impl Half {
    /// Appends everything its flows need; not the settings.
    ///
    /// What the processor's caches gain by (packets ahead) is left out, and so is a packet made and not yet
    /// handed out: there is none between two calls.
    pub(crate) fn store(&self, out: &mut Writer) {
        self.config.controller.store(out);
        (self.is_draining, self.mtu).store(out);
        self.stats.store(out);
        self.flows.store(out);
        self.subscribers.store(out);
        self.paths.store(out);
        self.pool.store(out);
        self.timers.store(out);
        self.outbox.store(out);
        self.after_data.store(out);
        self.ready.store(out);
        self.unknown.store(out);
        self.passed_recently.store(out);
    }

    /// Goes on where another one has stopped; it must not have had a flow yet.
    ///
    /// Its own settings hold from here on, as after [`Half::reconfigure`]. Its journal has no entry of any
    /// flow yet ([`Half::note_flows`]).
    ///
    /// # Errors
    /// Bytes that no half has stored; then it is of no use any more.
    pub(crate) fn resume(&mut self, from: &mut Reader<'_>) -> Result<(), StoredError> {
        let controller: ControllerConfig = from.value()?;
        (self.is_draining, self.mtu) = from.value()?;
        self.stats = from.value()?;
        self.flows.fill(from)?;
        self.subscribers.fill(from)?;
        self.paths.fill(from)?;
        self.pool.fill(from)?;
        self.timers = from.value()?;
        self.outbox = from.value()?;
        self.after_data = from.value()?;
        self.ready = from.value()?;
        self.unknown = from.value::<Option<FlowKey>>()?;
        if from.version() >= 2 {
            self.passed_recently = from.value()?;
        }
        index_all(&mut self.flow_index, &self.flows);
        index_all(&mut self.subscriber_index, &self.subscribers);
        for (_, flow) in self.flows.iter_mut() {
            flow.is_journaled = false;
        }
        if controller != self.config.controller {
            self.outdate_controllers();
        }
        Ok(())
    }
}

fn index_all<T: Keyed>(index: &mut Index, slab: &Slab<T>) {
    for (place, thing) in slab.iter() {
        index.insert(thing.key(), place);
    }
}
