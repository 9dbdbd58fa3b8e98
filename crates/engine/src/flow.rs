//! A flow and its life cycle: `Observing → Accelerated → Draining`, and out of the table when it is passed.

use units::Instant;

use crate::accelerated::Accelerated;
use crate::handshake::Handshake;
use crate::table::FlowKey;

/// Where a flow is in its life.
#[derive(Debug)]
pub(crate) enum State {
    /// Its handshake is under way.
    Observing(Handshake),
    /// Its delivery is ours (draining included).
    Accelerated(Box<Accelerated>),
}

/// One flow in the table.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) key: FlowKey,
    pub(crate) subscriber: u32,
    pub(crate) state: State,
    pub(crate) last_activity: Instant,
    /// The deadline it has in the timers.
    pub(crate) armed: Option<Instant>,
    /// It waits in the engine's list of flows with control packets to make.
    pub(crate) in_outbox: bool,
    /// The journal has an entry of it.
    pub(crate) is_journaled: bool,
}

impl Flow {
    pub(crate) fn accelerated(&mut self) -> Option<&mut Accelerated> {
        match &mut self.state {
            State::Accelerated(accelerated) => Some(accelerated),
            State::Observing(_) => None,
        }
    }
}
