//! Reading ahead: the state of the flows that packets at hand most likely belong to, for all of them at once.
//!
//! With many flows, fetching a flow's state takes longer than handling its packet, and one packet after the other each waits for
//! its own. Asked for together, the memory accesses of independent flows overlap. Nothing is changed here, and nothing
//! depends on what is found: a wrong guess costs time only.

use std::hint::black_box;

use super::OneWay;
use crate::Port;
use crate::flow::State;
use crate::path::Path;
use crate::subscriber::Subscriber;
use crate::table::FlowKey;

/// Packets looked at together at most.
pub(crate) const AHEAD_MAX: usize = 32;

/// With fewer flows their state is in the processor's caches anyway.
const FLOWS_MIN: usize = 1_024;

/// Timers looked at together.
pub(super) const TIMERS_AHEAD: usize = 16;

impl OneWay {
    /// Reads what handling these packets will need; the ports are those of this half.
    ///
    /// No access within one loop waits for another one: that is what they are separate for.
    pub(crate) fn look_ahead<'a>(&self, packets: impl Iterator<Item = (Port, &'a [u8])>) {
        if self.flows.len() < FLOWS_MIN {
            return;
        }
        let mut hashes = [None; AHEAD_MAX];
        for (hash, (from, packet)) in hashes.iter_mut().zip(packets) {
            *hash = FlowKey::glance(packet, from).map(|key| self.flow_index.hash(&key));
        }
        let likely = hashes.map(|hash| hash.and_then(|hash| self.flow_index.likely(hash)));
        let flows = likely.map(|id| id.and_then(|id| self.flows.get(id)));
        flows.iter().flatten().for_each(|flow| flow.touch());
        let mut paths = [None; AHEAD_MAX];
        for (path, flow) in paths.iter_mut().zip(flows.iter().flatten()) {
            *path = self.subscribers.get(flow.subscriber).and_then(Subscriber::path);
            if let State::Accelerated(accelerated) = &flow.state {
                accelerated.sender.touch_oldest();
            }
        }
        paths.into_iter().flatten().filter_map(|path| self.paths.get(path)).for_each(Path::touch);
    }

    /// Reads what the timers that come up next will need.
    pub(super) fn look_at_timers(&self) {
        for flow in self.timers.soonest(TIMERS_AHEAD).filter_map(|id| self.flows.get(id)) {
            black_box(flow.due);
        }
    }
}
