//! [`Next`]: what is next for a flow.

use crate::boundary::Verdict;
use crate::direction::Direction;
use crate::effect::Effect;
use crate::key::FlowKey;
use crate::pass::PassReason;
use crate::relay::departure::Departure;

/// What is next for a flow, after a segment or a deadline.
#[derive(Debug)]
pub(crate) enum Next {
    /// It stays in its phase.
    Stay,
    /// Its handshake is complete: its delivery becomes ours, beginning with the segment at hand.
    Accelerate,
    /// Its handshake is complete: its window is lowered from here on, beginning with the segment at hand.
    LowerWindow,
    /// It takes nothing new and leaves once nothing is owed.
    Drain(Box<Departure>),
    /// Both directions have ended.
    Close,
    /// It leaves the table at once, for a reason.
    Leave(PassReason),
}

/// What a flow is, beside its phase, as phases need to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) key: &'a FlowKey,
    pub(crate) direction: Direction,
}

/// What a relay's handling of a segment means for its phase: it leaves at once, or on the terms
/// there are now, or stays.
pub(super) fn after(effect: Effect, departure: Option<Departure>) -> (Verdict, Next) {
    let next = match (effect.end, departure) {
        (Some(reason), _) => Next::Leave(reason),
        (None, Some(departure)) => Next::Drain(Box::new(departure)),
        (None, None) => Next::Stay,
    };
    (effect.verdict, next)
}
