//! [`Trickle`]: whether what passes to a subscriber is more than a trickle, and so worth a schedule.

use std::net::IpAddr;

use units::{Duration, Instant};

use super::key;

/// Bytes within a second that are more than a trickle: half a megabit. Bytes.
pub(crate) const TRICKLE: usize = 64 * 1024;
const SECOND: Duration = Duration::from_secs(1);

/// Time for which what was more than a trickle is so.
const LASTS: Duration = Duration::from_secs(5);

/// Subscribers without a place in the tables that are counted at the same time.
const COUNTED: usize = 1_024;

/// Bytes that pass to a subscriber, counted by the second.
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
pub(crate) struct Trickle {
    since: Instant,
    bytes: u64,
    /// Time at which it was more than a trickle last.
    exceeded_at: Option<Instant>,
}

impl Trickle {
    /// `len` bytes pass; true when it is more than a trickle in this second.
    pub(crate) fn add(&mut self, len: usize, now: Instant) -> bool {
        if self.is_over(now) {
            (self.since, self.bytes) = (now, 0);
        }
        self.bytes += len as u64;
        let exceeds = self.bytes >= TRICKLE as u64;
        if exceeds {
            self.exceeded_at = Some(now);
        }
        exceeds
    }

    /// Time until which it counts as more than a trickle.
    pub(crate) fn exceeds_until(&self) -> Option<Instant> {
        self.exceeded_at.map(|at| at + LASTS)
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_since(self.since) >= SECOND
    }
}

/// The same of subscribers that have no place in the tables: a fixed number of them.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(crate) struct Trickles {
    places: Vec<(Option<IpAddr>, Trickle)>,
}

impl Trickles {
    /// `len` bytes pass to `subscriber`; true when it is more than a trickle. Where two of them share a place, the
    /// second one is counted when the second of the first is over.
    pub(crate) fn add(&mut self, subscriber: IpAddr, len: usize, seed: u64, now: Instant) -> bool {
        if self.places.is_empty() {
            self.places.resize(COUNTED, (None, Trickle::default()));
        }
        let place = place_of(subscriber, seed);
        let Some((counted, trickle)) = self.places.get_mut(place) else { return false };
        if *counted != Some(subscriber) {
            if counted.is_some() && !trickle.is_over(now) {
                return false;
            }
            (*counted, *trickle) = (Some(subscriber), Trickle::default());
        }
        let exceeds = trickle.add(len, now);
        if exceeds {
            // It gets a place in the tables.
            *counted = None;
        }
        exceeds
    }
}

fn place_of(subscriber: IpAddr, seed: u64) -> usize {
    key::host(subscriber, seed) as usize % COUNTED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn half_a_megabit_is_more_than_a_trickle() {
        // 1,000 bytes each: 60 of them a second, then 70.
        let exceeds = |per_second: u64| {
            let mut trickle = Trickle::default();
            (0..10 * per_second).any(|n| trickle.add(1_000, at(10_000 + n * 1_000 / per_second)))
        };
        assert!(!exceeds(60) && exceeds(70));
    }

    #[test]
    fn it_counts_for_a_while() {
        let mut trickle = Trickle::default();
        assert_eq!(trickle.exceeds_until(), None);
        trickle.add(TRICKLE, at(700));
        trickle.add(1, at(5_000));
        assert_eq!(trickle.exceeds_until(), Some(at(5_700)));
    }

    #[test]
    fn whoever_shares_a_place_waits_for_the_second() {
        let mut all = Trickles::default();
        let host = |n: u32| IpAddr::from(n.to_be_bytes());
        let place = |n: u32| place_of(host(n), 7);
        let other = (2..u32::MAX).find(|n| place(*n) == place(1)).unwrap();
        assert!(!all.add(host(1), 60_000, 7, at(5_000)));
        assert!(!all.add(host(other), 1 << 20, 7, at(5_500)), "not counted");
        assert!(all.add(host(1), 60_000, 7, at(5_600)));
        assert!(all.add(host(other), 1 << 20, 7, at(5_600)));
    }
}
