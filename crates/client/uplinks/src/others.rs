//! [`Others`]: what other programs take away that the daemon has set, and when it is set again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use io::netlink::MptcpLimits;
use units::{Duration, Instant};

/// Between two times that the same is set again, at first; doubled each time.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// The same, at most.
const WAIT_MAX: Duration = Duration::from_secs(64);

/// Limiter for a value that is set again, and no sooner than some time after the last time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Again {
    at: Option<Instant>,
    wait: Duration,
}

impl Again {
    /// True when it is set again at `now`.
    fn is_due(&mut self, now: Instant) -> bool {
        let since = self.at.map(|at| now.saturating_since(at));
        if since.is_some_and(|since| since < self.wait) {
            return false;
        }
        // What has lasted is no quarrel.
        let has_lasted = since.is_none_or(|since| since > WAIT_MAX);
        self.wait = if has_lasted { WAIT_MIN } else { (self.wait * 2).min(WAIT_MAX) };
        self.at = Some(now);
        true
    }
}

/// Values that the daemon has set, and what of it other programs have taken away.
#[derive(Debug, Default)]
pub(crate) struct Others {
    set: BTreeSet<IpAddr>,
    endpoints: BTreeMap<IpAddr, Again>,
    limits: Again,
}

impl Others {
    /// The kernel has this endpoint.
    pub fn on_set(&mut self, address: IpAddr) {
        self.set.insert(address);
    }

    /// The daemon has taken it away itself.
    pub fn on_removed(&mut self, address: IpAddr) {
        self.set.remove(&address);
    }

    /// True for an endpoint that was set, is not among those that are `there`, and is to be set again at `now`.
    pub fn is_to_be_set_again(&mut self, address: IpAddr, there: &[IpAddr], now: Instant) -> bool {
        if there.contains(&address) || !self.set.contains(&address) {
            return false;
        }
        self.endpoints.entry(address).or_default().is_due(now)
    }

    /// Message for the time when the limits are no longer as `wanted`, and are to be set again at `now`.
    pub fn limits(&mut self, found: MptcpLimits, wanted: MptcpLimits, now: Instant) -> Option<String> {
        if found == wanted || !self.limits.is_due(now) {
            return None;
        }
        let effect = match (found.subflows, found.add_addr_accepted) {
            (0, _) => ": no connection could use a second path",
            (_, 0) => ": no address that a server announces could be used",
            _ => "",
        };
        Some(format!(
            "another program set the MPTCP limits to {} subflows and {} addresses{effect}; they are {} and {} again",
            found.subflows, found.add_addr_accepted, wanted.subflows, wanted.add_addr_accepted
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_another_takes_away_again_and_again_is_set_again_ever_later() {
        let mut others = Others::default();
        let address = IpAddr::from([10, 0, 0, 2]);
        assert!(!others.is_to_be_set_again(address, &[], Instant::ZERO), "it was never set");
        others.on_set(address);
        assert!(!others.is_to_be_set_again(address, &[address], Instant::ZERO));
        let mut set = Vec::new();
        for ms in 0..20_000 {
            let now = Instant::from_millis(ms);
            if others.is_to_be_set_again(address, &[], now) {
                set.push(ms);
            }
        }
        assert_eq!(set, [0, 1_000, 3_000, 7_000, 15_000]);
        let later = Instant::from_millis(15_000) + SECOND * 65;
        assert!(others.is_to_be_set_again(address, &[], later));
        assert!(others.is_to_be_set_again(address, &[], later + SECOND), "a new quarrel");
        others.on_removed(address);
        assert!(!others.is_to_be_set_again(address, &[], later + SECOND * 100));
    }

    #[test]
    fn limits_of_zero_are_said_with_what_they_do() {
        let mut others = Others::default();
        let limits = |subflows, add_addr_accepted| MptcpLimits { subflows, add_addr_accepted };
        let wanted = limits(8, 8);
        assert_eq!(others.limits(wanted, wanted, Instant::ZERO), None);
        let said = others.limits(limits(0, 8), wanted, Instant::ZERO).unwrap();
        assert!(
            said.contains("to 0 subflows and 8 addresses: no connection could use a second path"),
            "{said}"
        );
        assert_eq!(others.limits(limits(0, 8), wanted, Instant::ZERO), None, "said once");
        let said = others.limits(limits(2, 0), wanted, Instant::ZERO + SECOND).unwrap();
        assert!(
            said.contains("that a server announces") && said.ends_with("they are 8 and 8 again"),
            "{said}"
        );
    }
}
