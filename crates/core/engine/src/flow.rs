//! [`Flow`]: one flow in the table.

use units::Instant;

use crate::key::FlowKey;
use crate::memory::index::Keyed;
use crate::memory::timer::Moment;
use crate::meters::Level;
use crate::path::family::{Kin, Related};
use crate::path::turns::{Link, Linked};
use crate::phase::Phase;
use crate::relay::Relay;

/// One flow in the table. What is looked at to find it, and when its timer comes up, is one line of
/// the processor's cache.
#[repr(C, align(64))]
#[derive(Debug, stored::Stored)]
pub(crate) struct Flow {
    pub(crate) key: FlowKey,
    /// It waits in the list of flows with control packets to make.
    pub(crate) in_outbox: bool,
    /// It waits in its subscriber's list of flows with something urgent to send.
    pub(crate) is_urgent: bool,
    /// The journal has an entry of it.
    pub(crate) is_journaled: bool,
    pub(crate) subscriber: u32,
    /// The flow before it among those of its client.
    pub(crate) kin_before: Kin,
    /// The deadline it has in the timers.
    pub(crate) armed: Moment,
    /// Its earliest deadline: not before the armed one.
    pub(crate) due: Instant,
    pub(crate) last_activity: Instant,
    /// Its place among those of its subscriber that may send.
    pub(crate) link: Link,
    /// The flow behind it among those of its client.
    pub(crate) kin_after: Kin,
    pub(crate) phase: Phase,
}

impl Flow {
    /// A flow in a phase; its last packet came at `last_activity`.
    pub(crate) fn in_phase(key: FlowKey, subscriber: u32, phase: Phase, last_activity: Instant) -> Self {
        Self {
            key,
            in_outbox: false,
            is_urgent: false,
            is_journaled: false,
            subscriber,
            kin_before: Kin::NONE,
            armed: Moment::NEVER,
            due: Instant::FAR_FUTURE,
            last_activity,
            link: Link::default(),
            kin_after: Kin::NONE,
            phase,
        }
    }

    /// Part of the flow in the levels of its half.
    #[inline]
    pub(crate) fn level(&self) -> Level {
        Level { state: self.phase.state(), debt: self.phase.relay().map_or(0, Relay::debt) }
    }
}

impl Keyed for Flow {
    type Key = FlowKey;
    fn key(&self) -> &FlowKey {
        &self.key
    }
}

impl Linked for Flow {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Related for Flow {
    fn kin(&mut self) -> [&mut Kin; 2] {
        [&mut self.kin_before, &mut self.kin_after]
    }

    fn next_kin(&self) -> Kin {
        self.kin_after
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_flow_costs_is_known() {
        // Hundreds of thousands lie in the table, and each packet fetches one: a change that needs more
        // says why. What few flows have is `Rare`.
        assert!(size_of::<Flow>() <= 11 * 64, "{}", size_of::<Flow>());
    }
}
