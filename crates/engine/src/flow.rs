//! [`Flow`]: one flow in the table.

use units::Instant;

use crate::direction::Direction;
use crate::key::FlowKey;
use crate::memory::index::Keyed;
use crate::memory::timer::Moment;
use crate::meters::Level;
use crate::path::turns::{Link, Linked};
use crate::phase::Phase;
use crate::phase::next::About;
use crate::phase::observing::Observing;
use crate::relay::Relay;

/// One flow in the table. What is looked at to find it, and when its timer comes up, is one line of
/// the processor's cache.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) key: FlowKey,
    /// It waits in the list of flows with control packets to make.
    pub(crate) in_outbox: bool,
    /// It waits in its subscriber's list of flows with something urgent to send.
    pub(crate) is_urgent: bool,
    /// The journal has an entry of it.
    pub(crate) is_journaled: bool,
    pub(crate) subscriber: u32,
    /// The deadline it has in the timers.
    pub(crate) armed: Moment,
    /// Its earliest deadline: not before the armed one.
    pub(crate) due: Instant,
    pub(crate) last_activity: Instant,
    /// Its place among those of its subscriber that may send.
    pub(crate) link: Link,
    pub(crate) phase: Phase,
}
stored::fields!(Flow {
    key,
    in_outbox,
    is_urgent,
    is_journaled,
    subscriber,
    armed,
    due,
    last_activity,
    link,
    phase,
});

impl Flow {
    /// A flow that begins now.
    pub(crate) fn new(key: FlowKey, subscriber: u32, observing: Observing, now: Instant) -> Self {
        Self {
            key,
            in_outbox: false,
            is_urgent: false,
            is_journaled: false,
            subscriber,
            armed: Moment::NEVER,
            due: Instant::FAR_FUTURE,
            last_activity: now,
            link: Link::default(),
            phase: Phase::Observing(observing),
        }
    }

    /// What it adds to the levels of its half.
    #[inline]
    pub(crate) fn level(&self) -> Level {
        Level { state: self.phase.state(), debt: self.phase.relay().map_or(0, Relay::debt) }
    }

    /// Its phase, and what that needs to know of it in a half of `direction`.
    pub(crate) fn phase_about(&mut self, direction: Direction) -> (&mut Phase, About<'_>) {
        (&mut self.phase, About { key: &self.key, direction })
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
