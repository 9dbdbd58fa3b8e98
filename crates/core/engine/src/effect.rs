//! [`Effect`]: what handling a segment comes to.

use crate::boundary::Verdict;
use crate::pass::PassReason;

/// Effect of a segment on itself and on its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Effect {
    pub(crate) verdict: Verdict,
    /// The flow leaves the table.
    pub(crate) end: Option<PassReason>,
    /// It does not fit what is known of the flow: how it is answered.
    pub(crate) misfit: Option<Answer>,
}

/// Answer to a segment that does not fit what is known of its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Not at all.
    None,
    /// Challenge, as often as challenges are sent.
    Challenge,
    /// The same; that it has the exact number speaks for what is known, and the other host is not asked.
    ChallengeAlone,
    /// An acknowledgement waits already.
    Given,
    /// Not at all: it may fit, and goes its way, but speaks for nothing.
    Aside,
}

impl Answer {
    /// True where both hosts may be asked instead.
    pub(crate) fn lets_ask_both(self) -> bool {
        !matches!(self, Self::ChallengeAlone | Self::Aside)
    }
}

impl Effect {
    pub(crate) const CONSUMED: Self = Self { verdict: Verdict::Consumed, end: None, misfit: None };
    pub(crate) const FORWARD: Self = Self { verdict: Verdict::Forward, end: None, misfit: None };

    /// It goes on, and the flow leaves.
    pub(crate) const fn ending(reason: PassReason) -> Self {
        Self { verdict: Verdict::Forward, end: Some(reason), misfit: None }
    }
}
