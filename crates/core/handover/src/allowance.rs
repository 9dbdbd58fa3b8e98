//! [`Allowance`]: how much another box may have this one do and remember.

use units::Instant;

/// Weight of a subscriber beside its flows: a file, and places in tables.
const SUBSCRIBER: u64 = 16;

/// Flows that a box may name in a second, on average: each costs packet loops some microseconds.
const PER_SECOND: u64 = 8_192;

/// Flows that a box may name at once, after a time without any: thousands of subscribers move together.
const AT_ONCE: u64 = 65_536;

/// Flows that are remembered of a box at most, with those of hand-overs under way.
const REMEMBERED_MAX: u64 = 131_072;

/// Weight of `flows` flows of a subscriber.
pub(crate) fn weight_of(flows: usize) -> u64 {
    SUBSCRIBER + flows as u64
}

/// Allowance of one box.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    left: u64,
    since: Instant,
    /// Weight of hand-overs that are over and remembered.
    pub remembered: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { left: AT_ONCE, since: Instant::ZERO, remembered: 0 }
    }
}

impl Allowance {
    /// Takes `weight`, if it may have that much at the moment.
    pub fn take(&mut self, weight: u64, now: Instant) -> bool {
        let earned = now.saturating_since(self.since).as_millis().saturating_mul(PER_SECOND) / 1_000;
        if earned > 0 {
            (self.left, self.since) = (self.left.saturating_add(earned).min(AT_ONCE), now);
        }
        let left = self.left.checked_sub(weight);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// True when `weight` more may be remembered beside `under_way`.
    pub fn has_room(&self, under_way: u64, weight: u64) -> bool {
        self.remembered.saturating_add(under_way).saturating_add(weight) <= REMEMBERED_MAX
    }
}

/// True when a box may have `more` of what all share, `max`, beside its `own`, where all together have `total`: one of
/// several has half of it at most, so that the others can go on.
pub(crate) fn may_have(more: u64, own: u64, total: u64, max: u64, is_only: bool) -> bool {
    let share = if is_only { max } else { max.div_ceil(2) };
    total.saturating_add(more) <= max && own.saturating_add(more) <= share
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    #[test]
    fn who_names_flows_without_end_is_held_up() {
        let (mut allowance, now) = (Allowance::default(), Instant::from_millis(5_000));
        let taken = (0..).take_while(|_| allowance.take(weight_of(1_000), now)).count() as u64;
        assert_eq!(taken, AT_ONCE / weight_of(1_000));
        let later = now + Duration::from_millis(500);
        let taken = (0..).take_while(|_| allowance.take(weight_of(0), later)).count() as u64;
        assert!((PER_SECOND / 2 / SUBSCRIBER..PER_SECOND / SUBSCRIBER).contains(&taken), "{taken}");
        assert!(allowance.take(AT_ONCE, now + Duration::from_secs(60)), "it is earned again");
    }

    #[test]
    fn nobody_has_all_of_what_several_share() {
        assert!(may_have(256, 0, 0, 256, true) && !may_have(257, 0, 0, 256, true));
        assert!(may_have(128, 0, 0, 256, false) && !may_have(129, 0, 0, 256, false), "half is left");
        assert!(!may_have(1, 128, 128, 256, false));
        assert!(may_have(128, 0, 128, 256, false), "the other half");
        assert!(!may_have(1, 0, 256, 256, false), "nothing is left");
    }
}
