//! [`Subscriber`]: where one is, and what waits for it on its way from one base station to another.
//!
//! ```text
//!                              ┌ waits: it is not there yet, or older packets are under way ┐
//!   box ──▶ new station ───────┴────────────────────────────────────────────────────────────┴─▶ its link
//!   box ──▶ old station ── forwards ──▶ before what waits        (or it is lost)
//! ```
//!
//! What base stations do who forward (X2 and Xn, 3GPP TS 36.300 §10.1.2.3, TS 38.300 §9.2.3.2): what the old one holds
//! for who has left, or still gets, goes to the new one, which delivers it before what has come there itself. What the
//! modem holds waits there. Others lose all that.

use std::collections::VecDeque;
use std::net::IpAddr;

use units::{Duration, Instant};

/// Packets that wait in one direction at most.
const WAITING_MAX: usize = 1_000;

/// Towards the subscriber, and from it.
pub(crate) const DOWN: usize = 0;
pub(crate) const UP: usize = 1;

/// Delivery of a packet, or its delay or loss.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delivery<P> {
    /// It goes over the subscriber's link at this station.
    Link(usize, P),
    /// It waits.
    Waits,
    /// It is lost.
    Lost(P),
}

/// Packets that wait in one direction.
struct Waiting<P> {
    /// Nothing goes over the link before.
    opens: Instant,
    /// From the old station, and when it is there.
    forwarded: VecDeque<(Instant, P)>,
    newer: VecDeque<P>,
}

impl<P> Waiting<P> {
    fn new() -> Self {
        Self { opens: Instant::ZERO, forwarded: VecDeque::new(), newer: VecDeque::new() }
    }

    fn len(&self) -> usize {
        self.forwarded.len() + self.newer.len()
    }

    /// True when what comes goes over the link at once.
    fn is_open(&self, now: Instant) -> bool {
        now >= self.opens && self.len() == 0
    }

    fn wait(&mut self, packet: P) -> Delivery<P> {
        if self.len() >= WAITING_MAX {
            return Delivery::Lost(packet);
        }
        self.newer.push_back(packet);
        Delivery::Waits
    }

    fn next_deadline(&self) -> Option<Instant> {
        let due =
            self.forwarded.front().map(|(due, _)| *due).or(self.newer.front().map(|_| Instant::ZERO))?;
        Some(due.max(self.opens))
    }

    fn take_due(&mut self, now: Instant) -> Option<P> {
        if now < self.opens {
            return None;
        }
        match self.forwarded.front() {
            Some((due, _)) if *due > now => None,
            Some(_) => self.forwarded.pop_front().map(|(_, packet)| packet),
            None => self.newer.pop_front(),
        }
    }
}

/// A subscriber of two base stations.
pub(crate) struct Subscriber<P> {
    pub address: IpAddr,
    /// Station where it is, or goes to.
    station: usize,
    /// A station that knows that it comes.
    expected_at: Option<usize>,
    /// One-way delay from station to station, over which they forward; none: they do not.
    forwarding: Option<Duration>,
    waiting: [Waiting<P>; 2],
}

impl<P> Subscriber<P> {
    /// One at the first station.
    pub fn new(address: IpAddr, forwarding: Option<Duration>) -> Self {
        let waiting = [Waiting::new(), Waiting::new()];
        Self { address, station: 0, expected_at: None, forwarding, waiting }
    }

    /// A station is told that it may come: what it gets for it waits there.
    pub fn expect_at(&mut self, station: usize) {
        self.expected_at = Some(station);
    }

    /// It does not come: what waits there is lost.
    pub fn stays(&mut self) -> impl Iterator<Item = P> {
        self.expected_at = None;
        std::mem::take(&mut self.waiting[DOWN].newer).into_iter()
    }

    /// It leaves for `station`, whose links take nothing before `opens`. `held`: what the old one's links hold, either
    /// way. Gives what of that is lost.
    pub fn leave(&mut self, station: usize, opens: [Instant; 2], held: [Vec<P>; 2], now: Instant) -> Vec<P> {
        self.station = station;
        self.expected_at = None;
        let mut lost = Vec::new();
        for (way, held) in held.into_iter().enumerate() {
            let waiting = &mut self.waiting[way];
            waiting.opens = opens[way];
            // What the modem holds is there with it.
            let takes = if way == UP { Duration::ZERO } else { self.forwarding.unwrap_or_default() };
            match self.forwarding {
                Some(_) => waiting.forwarded.extend(held.into_iter().map(|packet| (now + takes, packet))),
                None => lost.extend(held),
            }
        }
        lost
    }

    /// A packet for it comes to a station.
    pub fn on_station(&mut self, station: usize, packet: P, now: Instant) -> Delivery<P> {
        let waiting = &mut self.waiting[DOWN];
        if station == self.station && self.expected_at.is_none() && waiting.is_open(now) {
            return Delivery::Link(station, packet);
        }
        if station == self.station && self.expected_at.is_none() || self.expected_at == Some(station) {
            return waiting.wait(packet);
        }
        if station == self.station {
            // It is still here. What waits, waits elsewhere.
            return Delivery::Link(station, packet);
        }
        match self.forwarding {
            Some(takes) if waiting.len() < WAITING_MAX => {
                waiting.forwarded.push_back((now + takes, packet));
                Delivery::Waits
            }
            _ => Delivery::Lost(packet),
        }
    }

    /// It sends a packet.
    pub fn on_sent(&mut self, packet: P, now: Instant) -> Delivery<P> {
        let waiting = &mut self.waiting[UP];
        if waiting.is_open(now) { Delivery::Link(self.station, packet) } else { waiting.wait(packet) }
    }

    /// Time when something that waits goes over a link.
    pub fn next_deadline(&self) -> Option<Instant> {
        let ways = if self.expected_at.is_some() { &self.waiting[UP..] } else { &self.waiting[..] };
        ways.iter().filter_map(Waiting::next_deadline).min()
    }

    /// Packets that go over a link now, in order: towards it or from it, and at which station.
    pub fn take_due(&mut self, now: Instant) -> Option<(usize, usize, P)> {
        let first = if self.expected_at.is_some() { UP } else { DOWN };
        (first..=UP).find_map(|way| Some((self.station, way, self.waiting[way].take_due(now)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn subscriber(forwards: bool) -> Subscriber<u32> {
        let takes = forwards.then(|| Duration::from_millis(5));
        Subscriber::new("10.2.0.10".parse().unwrap(), takes)
    }

    fn all_due(one: &mut Subscriber<u32>, ms: u64) -> Vec<(usize, usize, u32)> {
        std::iter::from_fn(|| one.take_due(at(ms))).collect()
    }

    #[test]
    fn what_the_old_station_held_comes_before_what_the_new_one_got() {
        let mut one = subscriber(true);
        assert_eq!(one.on_station(0, 1, at(0)), Delivery::Link(0, 1));
        one.expect_at(1);
        assert_eq!(one.on_station(1, 10, at(1)), Delivery::Waits, "it is prepared");
        assert_eq!(one.on_station(0, 2, at(1)), Delivery::Link(0, 2), "and the old one goes on");
        assert_eq!(one.next_deadline(), None);
        assert!(one.leave(1, [at(50), at(40)], [vec![1, 2], vec![7]], at(10)).is_empty());
        assert_eq!(one.on_station(0, 3, at(12)), Delivery::Waits, "it comes late to the old one");
        assert_eq!(one.on_station(1, 11, at(13)), Delivery::Waits);
        assert_eq!(one.on_sent(8, at(14)), Delivery::Waits);
        assert_eq!((one.next_deadline(), all_due(&mut one, 39)), (Some(at(40)), vec![]));
        assert_eq!(all_due(&mut one, 40), [(1, UP, 7), (1, UP, 8)]);
        assert_eq!(one.on_sent(9, at(41)), Delivery::Link(1, 9));
        let down = [1, 2, 3, 10, 11].map(|packet| (1, DOWN, packet));
        assert_eq!((one.next_deadline(), all_due(&mut one, 50)), (Some(at(50)), down.to_vec()));
        assert_eq!(one.on_station(1, 12, at(51)), Delivery::Link(1, 12));
        assert_eq!(one.on_station(0, 4, at(52)), Delivery::Waits);
        assert_eq!(one.on_station(1, 13, at(53)), Delivery::Waits, "not before what is on its way");
        assert!(all_due(&mut one, 56).is_empty());
        assert_eq!(all_due(&mut one, 57), [(1, DOWN, 4), (1, DOWN, 13)]);
    }

    #[test]
    fn stations_that_do_not_forward_lose_what_they_hold() {
        let mut one = subscriber(false);
        assert_eq!(one.on_station(1, 1, at(0)), Delivery::Lost(1));
        one.expect_at(1);
        assert_eq!(one.on_station(1, 2, at(0)), Delivery::Waits);
        assert_eq!(one.leave(1, [at(50); 2], [vec![3], vec![4]], at(10)), [3, 4]);
        assert_eq!(one.on_station(0, 5, at(11)), Delivery::Lost(5));
        assert_eq!(all_due(&mut one, 50), [(1, DOWN, 2)]);
    }

    #[test]
    fn who_stays_goes_on_where_it_was() {
        let mut one = subscriber(true);
        one.expect_at(1);
        assert_eq!(one.on_station(1, 1, at(0)), Delivery::Waits);
        assert_eq!(one.stays().collect::<Vec<_>>(), [1]);
        assert_eq!(one.on_station(0, 2, at(1)), Delivery::Link(0, 2));
        assert_eq!((one.next_deadline(), all_due(&mut one, 100)), (None, vec![]));
    }

    #[test]
    fn what_waits_has_an_end() {
        let mut one = subscriber(true);
        one.expect_at(1);
        for number in 0..WAITING_MAX as u32 {
            assert_eq!(one.on_station(1, number, at(0)), Delivery::Waits);
        }
        assert_eq!(one.on_station(1, 7, at(0)), Delivery::Lost(7));
    }
}
