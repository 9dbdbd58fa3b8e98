//! [`Next`]: what is next for a flow.

use crate::boundary::Verdict;
use crate::effect::{Answer, Effect};
use crate::pass::PassReason;
use crate::relay::departure::Departure;

/// Next step of a flow, after a segment or a deadline.
#[derive(Debug)]
pub(crate) enum Next {
    /// It stays in its phase.
    Stay,
    /// It takes nothing new and leaves once nothing is owed.
    Drain(Box<Departure>),
    /// Both directions have ended.
    Close,
    /// The segment does not fit what is known of its flow (`half/disputes.rs`).
    Dispute(Answer),
    /// It leaves the table at once, for a reason.
    Leave(PassReason),
}

/// Next step of a phase after a relay's handling of a segment: it leaves at once, or on the terms
/// there are now, or stays.
pub(super) fn after(effect: Effect, departure: Option<Departure>) -> (Verdict, Next) {
    let next = match (effect.end, departure) {
        (Some(reason), _) => Next::Leave(reason),
        (None, Some(departure)) => Next::Drain(Box::new(departure)),
        (None, None) => effect.misfit.map_or(Next::Stay, Next::Dispute),
    };
    (effect.verdict, next)
}
