//! A/B trials: subscribers of a control group are passed bit for bit, and their flows measured beside those of the
//! others, by the same rules.
//!
//! ```text
//!   ControlGroup ── which subscribers ─▶ half: a flow begins ─▶ Account ── what was seen of it ─▶ MeasuredFlow
//! ```
//!
//! A trial is not part of a stored engine: what was measured is missing elsewhere.

use std::collections::VecDeque;
use std::net::IpAddr;

use units::{Duration, GOLDEN_GAMMA, Instant, mix64};

use crate::direction::Direction;

/// Measured flows that wait to be taken.
const MEASURED_MAX: usize = 65_536;

/// A silence of at least this long, with nothing unacknowledged before it, is the application's: it does not
/// count as time in which data was transferred.
const PAUSE: Duration = Duration::from_secs(1);

/// Half of all subscribers, chosen by a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlGroup {
    /// Another seed chooses other subscribers; the same one always the same.
    pub seed: u64,
}

impl ControlGroup {
    /// True for a subscriber whose flows are not accelerated: an IPv4 address, or the first one of an IPv6 prefix.
    #[must_use]
    pub fn contains(self, subscriber: IpAddr) -> bool {
        let bits = match subscriber {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let [low, high] = [bits as u64, (bits >> 64) as u64];
        mix(mix(mix(self.seed) ^ low) ^ high) >> 63 == 1
    }
}

/// SplitMix64's output function: every bit of the result depends on every bit of the argument.
const fn mix(x: u64) -> u64 {
    mix64(x.wrapping_add(GOLDEN_GAMMA))
}

/// Measurements of a flow in a trial, in one direction. Both groups are measured at the same place: between
/// the engine and the receiving host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasuredFlow {
    /// Its subscriber.
    pub subscriber: IpAddr,
    /// Direction of its data.
    pub direction: Direction,
    /// It was passed bit for bit.
    pub is_control: bool,
    /// Payload acknowledged by the receiving host, bytes.
    pub delivered_bytes: u64,
    /// Payload that went to it more than once, bytes.
    pub resent_bytes: u64,
    /// Time in which data was transferred: silences of a second and more with nothing unacknowledged are left out.
    pub busy: Duration,
    /// Shortest round trip to the receiving host, the handshake's included.
    pub rtt_min: Option<Duration>,
    /// Sum of round trips to it: one sample per round trip.
    pub rtt_sum: Duration,
    /// Samples in that sum.
    pub rtt_samples: u64,
}

/// Facts that one segment has shown of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// Bytes acknowledged by the sink with it.
    pub(crate) delivered: u64,
    pub(crate) rtt: Option<Duration>,
    /// Data is unacknowledged by the sink after it.
    pub(crate) owes: bool,
}

/// Counts kept of a flow in a trial.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    delivered: u64,
    busy: Duration,
    /// Time at which something last happened, and whether data was unacknowledged after it.
    last: Option<(Instant, bool)>,
    rtt_min: Option<Duration>,
    rtt_sum: Duration,
    rtt_samples: u64,
    last_sample: Option<Instant>,
}

impl Account {
    /// Takes in what a segment has shown; `has_data` if it was the source's and carried some.
    fn note(&mut self, seen: Seen, has_data: bool, now: Instant) {
        self.delivered += seen.delivered;
        if let Some(rtt) = seen.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
            // One sample per round trip, however many acknowledgements there are: sent after the last sample came.
            if self.last_sample.is_none_or(|last| now.saturating_since(last) >= rtt) {
                self.rtt_sum += rtt;
                self.rtt_samples += 1;
                self.last_sample = Some(now);
            }
        }
        if !has_data && seen.delivered == 0 {
            return;
        }
        if let Some((at, owed)) = self.last {
            let gap = now.saturating_since(at);
            if owed || gap < PAUSE {
                self.busy += gap;
            }
        }
        self.last = Some((now, seen.owes));
    }
}

/// A trial under way, and what it has measured.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    group: Option<ControlGroup>,
    /// Accounts by the places of flows; none for flows that began before.
    accounts: Vec<Option<Account>>,
    measured: VecDeque<MeasuredFlow>,
    lost: u64,
}

impl Trial {
    /// Group of flows that are passed, while a trial is under way.
    #[inline]
    pub(crate) const fn group(&self) -> Option<ControlGroup> {
        self.group
    }

    pub(crate) fn begin(&mut self, group: ControlGroup) {
        *self = Self { group: Some(group), ..Self::default() };
    }

    /// No flow is measured any more; what was can still be taken.
    pub(crate) fn end(&mut self) {
        self.group = None;
        self.accounts = Vec::new();
    }

    /// A flow begins at a place; `rtt` is the round trip of its handshake to its sink.
    pub(crate) fn open(&mut self, place: u32, rtt: Option<Duration>) {
        if self.group.is_none() {
            return;
        }
        let place = place as usize;
        if place >= self.accounts.len() {
            self.accounts.resize(place + 1, None);
        }
        self.accounts[place] = Some(Account { rtt_min: rtt, ..Account::default() });
    }

    /// A segment of the flow at a place has shown something; gives its shortest round trip so far.
    pub(crate) fn note(&mut self, place: u32, seen: Seen, has_data: bool, now: Instant) -> Option<Duration> {
        let account = self.accounts.get_mut(place as usize)?.as_mut()?;
        account.note(seen, has_data, now);
        account.rtt_min
    }

    /// The flow at a place is measured no longer; what it is told by `name`, with what went to its sink again.
    pub(crate) fn close(
        &mut self,
        place: u32,
        (subscriber, direction): (IpAddr, Direction),
        is_control: bool,
        resent_bytes: u64,
    ) {
        let Some(account) = self.accounts.get_mut(place as usize).and_then(Option::take) else { return };
        if self.measured.len() >= MEASURED_MAX {
            self.lost += 1;
            return;
        }
        self.measured.push_back(MeasuredFlow {
            subscriber,
            direction,
            is_control,
            delivered_bytes: account.delivered,
            resent_bytes,
            busy: account.busy,
            rtt_min: account.rtt_min,
            rtt_sum: account.rtt_sum,
            rtt_samples: account.rtt_samples,
        });
    }

    pub(crate) fn take(&mut self) -> Option<MeasuredFlow> {
        self.measured.pop_front()
    }

    /// Measured flows that had no room since this was asked last.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn half_of_the_subscribers_are_in_the_group_and_another_seed_chooses_others() {
        let addresses = || (0..10_000_u32).map(|n| IpAddr::V4((0x0a00_0000 + n).into()));
        let chosen = |seed| addresses().map(|ip| ControlGroup { seed }.contains(ip)).collect::<Vec<_>>();
        let (first, second) = (chosen(1), chosen(2));
        for group in [&first, &second] {
            let count = group.iter().filter(|is_in| **is_in).count();
            // Five standard deviations of a fair coin.
            assert!((4_750..=5_250).contains(&count), "{count}");
        }
        let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
        assert!((4_750..=5_250).contains(&same), "{same}");
        assert_eq!(first, chosen(1));
        let prefixes = (0..1_000_u128).map(|n| IpAddr::V6(((0x2001_0db8 << 96) + (n << 64)).into()));
        let count = prefixes.filter(|ip| ControlGroup { seed: 1 }.contains(*ip)).count();
        assert!((420..=580).contains(&count), "{count}");
    }

    #[test]
    fn pauses_of_the_application_do_not_count_and_stalls_do() {
        let mut account = Account::default();
        let at = Instant::from_millis;
        let seen = |delivered, owes| Seen { delivered, owes, rtt: None };
        account.note(seen(0, true), true, at(100));
        account.note(seen(1_000, false), false, at(2_100));
        assert_eq!(account.busy, ms(2_000), "two seconds in which data was unacknowledged");
        account.note(seen(0, true), true, at(2_600));
        account.note(seen(500, false), false, at(2_650));
        assert_eq!(account.busy, ms(2_550), "a server's next round");
        account.note(seen(0, true), true, at(9_650));
        account.note(seen(0, true), false, at(9_660));
        account.note(seen(500, false), false, at(9_700));
        assert_eq!((account.busy, account.delivered), (ms(2_600), 2_000));
    }

    #[test]
    fn one_sample_counts_per_round_trip() {
        let mut account = Account { rtt_min: Some(ms(45)), ..Account::default() };
        for (at, rtt) in [(100, 50), (120, 60), (149, 50), (150, 40), (200, 80), (230, 80)] {
            let seen = Seen { rtt: Some(ms(rtt)), ..Seen::default() };
            account.note(seen, false, Instant::from_millis(at));
        }
        assert_eq!((account.rtt_samples, account.rtt_sum, account.rtt_min), (3, ms(170), Some(ms(40))));
    }
}
