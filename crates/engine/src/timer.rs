//! Deadlines of flows and subscribers in one ordered set.

use std::collections::BTreeSet;

use units::Instant;

/// Whose deadline it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum TimerKey {
    Flow(u32),
    Subscriber(u32),
}

/// Deadlines, earliest first; equal ones in the order of their keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Instant, TimerKey)>);

impl Timers {
    /// Moves the deadline of `key` from `armed` to `wanted` if that is earlier; keeps the earlier one
    /// otherwise: waking up early and arming again costs less than moving a deadline with every packet.
    pub(crate) fn arm(&mut self, key: TimerKey, armed: &mut Option<Instant>, wanted: Instant) {
        if let Some(at) = *armed {
            if at <= wanted {
                return;
            }
            self.0.remove(&(at, key));
        }
        self.0.insert((wanted, key));
        *armed = Some(wanted);
    }

    pub(crate) fn cancel(&mut self, key: TimerKey, armed: &mut Option<Instant>) {
        if let Some(at) = armed.take() {
            self.0.remove(&(at, key));
        }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first().map(|&(at, _)| at)
    }

    /// Removes and returns the earliest deadline that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<TimerKey> {
        let &(at, _) = self.0.first()?;
        if at > now {
            return None;
        }
        self.0.pop_first().map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_deadlines_replace_later_ones_only() {
        let mut timers = Timers::default();
        let (mut a, mut b) = (None, None);
        let at = Instant::from_millis;
        timers.arm(TimerKey::Flow(1), &mut a, at(50));
        timers.arm(TimerKey::Flow(1), &mut a, at(70));
        timers.arm(TimerKey::Subscriber(1), &mut b, at(60));
        assert_eq!(timers.next(), Some(at(50)));
        timers.arm(TimerKey::Subscriber(1), &mut b, at(40));
        assert_eq!(timers.pop_due(at(45)), Some(TimerKey::Subscriber(1)));
        assert_eq!(timers.pop_due(at(45)), None);
        timers.cancel(TimerKey::Flow(1), &mut a);
        assert_eq!(timers.next(), None);
    }
}
