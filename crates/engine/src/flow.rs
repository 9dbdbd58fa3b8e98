//! A flow and its life cycle: `Observing → Accelerated → Draining` or `Observing → Windowed`, and out of the table when it
//! is passed.

use units::Instant;
use wire::Tcp;

use crate::Port;
use crate::accelerated::Accelerated;
use crate::drwa::Windowed;
use crate::handshake::Handshake;
use crate::table::FlowKey;
use crate::timer::Moment;
use crate::turns::Link;

/// Where a flow is in its life.
///
/// What nearly all flows are lies in the table itself: a box would be one more place to fetch for every packet.
#[expect(clippy::large_enum_variant, reason = "it is the usual one")]
#[derive(Debug)]
pub(crate) enum State {
    /// Its handshake is under way.
    Observing(Handshake),
    /// Its delivery is ours (draining included).
    Accelerated(Accelerated),
    /// Its delivery is its hosts', and the window its client advertises is lowered.
    Windowed(Box<Windowed>),
}

/// One flow in the table. What is looked at to find it, and when its timer comes up, is one line of the processor's cache.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) key: FlowKey,
    /// It waits in the engine's list of flows with control packets to make.
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
    pub(crate) turn: Link,
    pub(crate) state: State,
}

impl Flow {
    /// True when a SYN opens its ports anew.
    pub(crate) fn gives_way_to(&self, syn: &Tcp, from: Port) -> bool {
        match &self.state {
            State::Accelerated(accelerated) => accelerated.gives_way_to(syn, from),
            // Nothing is owed: what is not the same SYN sent again begins something new.
            State::Windowed(windowed) => from == Port::Mobile && !windowed.is_own_syn(syn),
            State::Observing(_) => false,
        }
    }

    pub(crate) fn accelerated(&mut self) -> Option<&mut Accelerated> {
        match &mut self.state {
            State::Accelerated(accelerated) => Some(accelerated),
            State::Observing(_) | State::Windowed(_) => None,
        }
    }
}
