//! [`Tdd`] and [`Grants`]: when a radio frame has room for one direction, and when a client may send.
//!
//! ```text
//!   slots   D D D D D D D S U U D D D D D D D S U U       one direction leaves in its own slots only
//!   uplink        data ─▶ request ─▶ grant ─▶ ↑           an idle client asks first; one that sends goes on
//! ```

use units::Duration;

use crate::LinkError;

/// Slots in one repetition of a pattern, at most.
const SLOTS_MAX: usize = 64;

/// The slots of a repeating pattern in which one direction is on the air: what was served leaves at
/// the end of the next such slot.
///
/// What a trace offers in other slots is carried in the next one of its own, so the capacity of the
/// trace stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tdd {
    slot: Duration,
    /// Bit i: slot i is this direction's.
    own: u64,
    count: u32,
}

impl Tdd {
    /// Slots of length `slot`, of which those with one of `letters` in `pattern` are this
    /// direction's: `DS` towards the client, `U` from it, of `DDDDDDDSUU`. A special slot has
    /// mostly symbols towards the client.
    ///
    /// # Errors
    /// [`LinkError::Setting`] for a slot without length, other letters than D, S and U, more than
    /// 64 slots, or none of its own.
    pub fn new(slot: Duration, pattern: &str, letters: &str) -> Result<Self, LinkError> {
        let wrong = |problem: &str| Err(LinkError::setting("tdd", problem));
        if slot.is_zero() {
            return wrong("`slot` must be above zero, like 0.5 ms");
        }
        if pattern.len() > SLOTS_MAX || !pattern.chars().all(|c| "DSU".contains(c)) {
            return wrong("`pattern` must be at most 64 letters D, S and U, like DDDDDDDSUU");
        }
        let bits = pattern.chars().enumerate().filter(|(_, c)| letters.contains(*c));
        let own = bits.fold(0, |own, (bit, _)| own | (1 << bit));
        if own == 0 {
            return wrong("`pattern` has no slot for this direction");
        }
        Ok(Self { slot, own, count: pattern.len() as u32 })
    }

    /// The end of the first own slot that ends at or after `t`.
    pub(crate) fn align(&self, t: Duration) -> Duration {
        // Slot n ends at (n + 1) slots.
        let first = t.as_nanos().div_ceil(self.slot.as_nanos()).max(1) - 1;
        let is_own = |n: &u64| self.own >> (n % u64::from(self.count)) & 1 == 1;
        let n = (first..first + u64::from(self.count)).find(is_own).unwrap_or(first);
        self.slot * (n + 1)
    }
}

/// Grants by which a client comes to send: when it was silent it waits for a turn to ask, and for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grants {
    /// Time from one time at which it may ask (scheduling request) to the next, above zero.
    pub request_every: Duration,
    /// Time from asking to the grant.
    pub grant_after: Duration,
    /// Time for which a client that has sent is granted every slot of its own: what it reports with
    /// its data asks for more.
    pub hold: Duration,
}

impl Grants {
    pub(crate) fn check(&self) -> Result<(), LinkError> {
        if self.request_every.is_zero() {
            return Err(LinkError::setting("grants.request", "must be above zero"));
        }
        Ok(())
    }
}

/// Schedule by which served packets leave, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) tdd: Option<Tdd>,
    pub(crate) grants: Option<Grants>,
    last: Option<Duration>,
}

impl Schedule {
    pub(crate) fn new(tdd: Option<Tdd>, grants: Option<Grants>) -> Self {
        Self { tdd, grants, last: None }
    }

    /// Time at which a packet leaves that was served at `t`; never before the one ahead of it.
    pub(crate) fn depart(&mut self, t: Duration) -> Duration {
        let granted = self.grants.map_or(t, |grants| self.granted(t, &grants));
        let ready = self.last.map_or(granted, |last| last.max(granted));
        let departure = self.tdd.map_or(ready, |tdd| tdd.align(ready));
        self.last = Some(departure);
        departure
    }

    fn granted(&self, t: Duration, grants: &Grants) -> Duration {
        if self.last.is_some_and(|last| t <= last + grants.hold) {
            return t;
        }
        let every = grants.request_every.as_nanos();
        Duration::from_nanos(t.as_nanos().div_ceil(every).saturating_mul(every)) + grants.grant_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn each_direction_leaves_in_its_own_slots() {
        let down = Tdd::new(us(500), "DDDDDDDSUU", "DS").unwrap();
        let up = Tdd::new(us(500), "DDDDDDDSUU", "U").unwrap();
        let at = |tdd: &Tdd, t: u64| tdd.align(us(t)).as_micros();
        // Eight slots, the last of which ends at 4 ms; two of the uplink, which end at 4.5 and 5 ms.
        assert_eq!(
            [0, 1, 500, 501, 4_000, 4_001, 5_001].map(|t| at(&down, t)),
            [500, 500, 500, 1_000, 4_000, 5_500, 5_500]
        );
        assert_eq!([0, 4_000, 4_500, 4_501, 5_001].map(|t| at(&up, t)), [4_500, 4_500, 4_500, 5_000, 9_500]);
    }

    #[test]
    fn an_idle_client_asks_and_a_busy_one_goes_on() {
        let tdd = Tdd::new(us(500), "DDDDDDDSUU", "U").unwrap();
        let grants = Grants { request_every: us(5_000), grant_after: us(4_000), hold: us(20_000) };
        let mut schedule = Schedule::new(Some(tdd), Some(grants));
        // Asks at 5 ms, is granted at 9, sends in the slot that ends at 9.5 ms; those behind it
        // leave with it.
        assert_eq!([1_000, 3_000, 9_400].map(|t| schedule.depart(us(t)).as_micros()), [9_500; 3]);
        // Every 5 ms what has come in between leaves together.
        assert_eq!(
            [9_600, 10_100, 14_400, 14_600].map(|t| schedule.depart(us(t)).as_micros()),
            [10_000, 14_500, 14_500, 15_000]
        );
        // 20 ms after its last packet it must ask again: at 40 ms.
        assert_eq!(schedule.depart(us(35_100)).as_micros(), 44_500);
        assert_eq!(Schedule::new(None, None).depart(us(7)), us(7));
    }

    #[test]
    fn impossible_patterns_are_refused() {
        let said = |slot: u64, pattern: &str| Tdd::new(us(slot), pattern, "U").unwrap_err().to_string();
        assert!(said(0, "DU").contains("above zero"));
        assert!(said(500, "DX").contains("D, S and U") && said(500, &"U".repeat(65)).contains("64"));
        assert!(said(500, "DDS").contains("no slot for this direction") && said(500, "").contains("no slot"));
        let never = Grants { request_every: Duration::ZERO, grant_after: us(1), hold: us(1) };
        assert!(never.check().unwrap_err().to_string().contains("grants.request"));
    }
}
