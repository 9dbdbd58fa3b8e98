//! [`Effect`]: what handling a segment comes to.

use crate::boundary::Verdict;
use crate::pass::PassReason;

/// What a segment means for itself and for its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Effect {
    pub(crate) verdict: Verdict,
    /// The flow leaves the table.
    pub(crate) end: Option<PassReason>,
}

impl Effect {
    pub(crate) const CONSUMED: Self = Self { verdict: Verdict::Consumed, end: None };
    pub(crate) const FORWARD: Self = Self { verdict: Verdict::Forward, end: None };
}
