//! [`Conduct`]: whether the hosts of a flow behave as TCP does. What does not is given up (H12, H27).

use stored::{Absent, Rare};
use units::{Duration, Instant};

use crate::memory::timer::Moment;
use crate::pass::PassReason;

/// Acknowledgements that make no sense, in a row, before a flow is given up.
const NONSENSE_MAX: u8 = 8;

/// Acknowledgements in a row of what was never sent from which on they may be believed.
pub(super) const DESYNCHRONISED_AFTER: u8 = 3;

/// Time for which data may come in behind a hole that is not filled. A source that lives retransmits within
/// its time-out, which RFC 6298 lets grow to 60 s, though not while data arrives.
const HOLE_MAX: Duration = Duration::from_secs(60);

/// Time between answers to unacceptable packets of a flow, whatever is wrong with them and no
/// matter who sent them; that of Linux (`tcp_invalid_ratelimit`).
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(500);

/// Time, in ms, for which the hosts of a flow say that they are elsewhere before they are believed: a host
/// that is asked answers within it.
const SETTLES_AFTER_MS: u32 = 1_000;

/// Time for which what they said counts, ms.
const FORGOTTEN_AFTER_MS: u32 = 60_000;

/// Conduct of the hosts of a flow, as far as it speaks against them.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(crate) struct Conduct(Rare<Faults>);

/// Faults found with them.
#[derive(Clone, Copy, PartialEq, Debug, stored::Stored)]
struct Faults {
    /// Acknowledgements in a row that make no sense.
    nonsense: u8,
    /// Time at which a packet that was not acceptable was last answered.
    challenged: Moment,
    /// Time since which the same hole in the source's data has been open.
    hole_since: Moment,
    /// Time at which both hosts were first asked where they are, while nothing came that fits, ms; 0: never.
    elsewhere_ms: u32,
}

impl Faults {
    const NONE: Self =
        Self { nonsense: 0, challenged: Moment::NEVER, hole_since: Moment::NEVER, elsewhere_ms: 0 };
}

impl Default for Faults {
    fn default() -> Self {
        Self::NONE
    }
}

impl Absent for Faults {
    const ABSENT: &'static Self = &Self::NONE;
    fn is_absent(&self) -> bool {
        *self == Self::NONE
    }
}

impl Conduct {
    /// Acknowledgements in a row that make no sense, so far.
    pub(super) fn nonsense(&self) -> u8 {
        self.0.nonsense
    }

    /// Notes an acknowledgement that makes no sense, for a reason, or one that does; the reason
    /// when there were too many.
    pub(super) fn judge_sense(&mut self, nonsense: Option<PassReason>) -> Option<PassReason> {
        let in_a_row = nonsense.map_or(0, |_| self.0.nonsense.saturating_add(1));
        if in_a_row != self.0.nonsense {
            self.0.change(|faults| faults.nonsense = in_a_row);
        }
        nonsense.filter(|_| in_a_row >= NONSENSE_MAX)
    }

    /// Both hosts are asked where they are, since one says again that it is elsewhere.
    pub(super) fn begin_dispute(&mut self, now: Instant) {
        if self.in_dispute_for_ms(now).is_none_or(|ms| ms >= FORGOTTEN_AFTER_MS) {
            self.0.change(|faults| faults.elsewhere_ms = (now.as_millis() as u32).max(1));
        }
    }

    /// True once both hosts were asked long enough ago to have been heard, and nothing came of either that fits.
    pub(super) fn is_elsewhere(&self, now: Instant) -> bool {
        self.in_dispute_for_ms(now).is_some_and(|ms| (SETTLES_AFTER_MS..FORGOTTEN_AFTER_MS).contains(&ms))
    }

    /// True while both hosts have been asked, and nothing has come of either that fits.
    pub(super) fn is_in_dispute(&self) -> bool {
        self.0.elsewhere_ms != 0
    }

    fn in_dispute_for_ms(&self, now: Instant) -> Option<u32> {
        self.is_in_dispute().then(|| (now.as_millis() as u32).wrapping_sub(self.0.elsewhere_ms))
    }

    /// A segment of one of them fits.
    #[inline]
    pub(super) fn fits(&mut self) {
        if self.is_in_dispute() {
            self.0.change(|faults| faults.elsewhere_ms = 0);
        }
    }

    /// Follows the oldest hole in the source's data; a reason to give up where nobody fills it
    /// while data goes on to come: whatever this is, it does not retransmit (H27).
    pub(super) fn judge_hole(
        &mut self,
        has_advanced: bool,
        has_holes: bool,
        now: Instant,
    ) -> Option<PassReason> {
        let is_over = has_advanced || !has_holes;
        let since = if is_over { now } else { self.0.hole_since.get().unwrap_or(now) };
        let hole_since = if has_holes { Moment::at(since) } else { Moment::NEVER };
        if hole_since != self.0.hole_since {
            self.0.change(|faults| faults.hole_since = hole_since);
        }
        (!is_over && now.saturating_since(since) >= HOLE_MAX).then_some(PassReason::NotTcpLike)
    }

    /// True when one more answer to an unacceptable packet is due: two hosts that disagree would answer each
    /// other for ever, and a forger of packets would be answered at his own rate (RFC 5961 §7). Data outside
    /// the window is not asked for here: its sender needs to hear of each, and sends no faster for it.
    pub(super) fn may_challenge(&mut self, now: Instant) -> bool {
        let is_due = self.0.challenged.get().is_none_or(|at| now.saturating_since(at) >= CHALLENGE_INTERVAL);
        if is_due {
            self.0.change(|faults| faults.challenged = Moment::at(now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_in_a_row_are_too_many_and_sense_forgives() {
        let mut conduct = Conduct::default();
        let mut judge = |sense: bool| conduct.judge_sense((!sense).then_some(PassReason::NonsensicalSack));
        for _ in 0..7 {
            assert_eq!(judge(false), None);
        }
        assert_eq!(judge(true), None);
        for _ in 0..7 {
            assert_eq!(judge(false), None);
        }
        assert_eq!(judge(false), Some(PassReason::NonsensicalSack));
    }

    #[test]
    fn a_hole_has_a_minute_from_when_it_is_the_oldest() {
        let s = |seconds: u64| Instant::from_millis(1_000 * seconds);
        let mut conduct = Conduct::default();
        assert_eq!(conduct.judge_hole(false, true, s(1)), None);
        assert_eq!(conduct.judge_hole(false, true, s(60)), None);
        assert_eq!(conduct.judge_hole(true, true, s(60)), None, "another one");
        assert_eq!(conduct.judge_hole(false, true, s(119)), None);
        assert_eq!(conduct.judge_hole(false, true, s(120)), Some(PassReason::NotTcpLike));
        assert_eq!(conduct.judge_hole(false, false, s(121)), None);
        assert_eq!(conduct.judge_hole(false, true, s(122)), None);
    }

    #[test]
    fn challenges_are_answered_twice_a_second() {
        let mut conduct = Conduct::default();
        let answers = |conduct: &mut Conduct, ms| conduct.may_challenge(Instant::from_millis(ms));
        assert_eq!(
            [0, 499, 500, 700, 1_000].map(|ms| answers(&mut conduct, ms)),
            [true, false, true, false, true]
        );
    }
}
