//! [`Path`]: one direction of a segment, a link with faults in front of it.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use link::{Link, LinkConfig};
use units::{Bytes, Duration, Instant};

use crate::{Random, SimError};

/// What can be done to a packet on its way into a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It vanishes.
    Drop,
    /// It comes twice, the second one this much later.
    Duplicate(Duration),
    /// It is held back, so that later ones overtake it.
    HoldBack(Duration),
    /// One bit of its second half changes.
    Corrupt,
}

/// Faults of one direction of a segment, by number and at random.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FaultConfig {
    /// What happens to the n-th packet, counted from zero.
    pub scheduled: BTreeMap<u64, Fault>,
    /// Packets held back at random, parts in a million.
    pub hold_back_ppm: u32,
    /// How long at most.
    pub hold_back_max: Duration,
    /// Packets doubled at random, parts in a million.
    pub duplicate_ppm: u32,
    /// Packets corrupted at random, parts in a million.
    pub corrupt_ppm: u32,
    /// Seed of the random ones.
    pub seed: u64,
}

impl FaultConfig {
    /// One fault, done to the `nth` packet.
    #[must_use]
    pub fn once(nth: u64, fault: Fault) -> Self {
        Self { scheduled: BTreeMap::from([(nth, fault)]), ..Self::default() }
    }
}

/// One direction of a segment.
#[derive(Clone, Debug, Default)]
pub struct PathConfig {
    /// Its link.
    pub link: LinkConfig,
    /// What goes wrong before it.
    pub faults: FaultConfig,
}

impl PathConfig {
    /// A link of constant `rate` and `delay` with a queue of `queue`.
    #[must_use]
    pub fn constant(rate: units::Rate, delay: Duration, queue: Bytes) -> Self {
        let link = LinkConfig {
            capacity: link::Capacity::Constant(rate),
            delay: link::DelayModel::Fixed(delay),
            queue: link::QueueLimit::Bytes(queue),
            keeps_log: false,
            ..LinkConfig::default()
        };
        Self { link, faults: FaultConfig::default() }
    }
}

/// A packet that waits outside its link, ordered by time and then by number.
type Held = Reverse<(Instant, u64, Vec<u8>)>;

/// One direction of a segment.
#[derive(Debug)]
pub struct Path {
    link: Link<Vec<u8>>,
    faults: FaultConfig,
    random: Random,
    seen: u64,
    held: BinaryHeap<Held>,
}

impl Path {
    /// An empty segment.
    ///
    /// # Errors
    /// The link's settings are out of range; `place` names it.
    pub fn new(config: &PathConfig, place: &'static str) -> Result<Self, SimError> {
        let link =
            Link::new(&config.link, Instant::ZERO).map_err(|source| SimError::Link { place, source })?;
        Ok(Self {
            link,
            random: Random::new(config.faults.seed),
            faults: config.faults.clone(),
            seen: 0,
            held: BinaryHeap::new(),
        })
    }

    /// The link inside.
    #[must_use]
    pub fn link(&self) -> &Link<Vec<u8>> {
        &self.link
    }

    /// The link inside, to take its packet log.
    pub fn link_mut(&mut self) -> &mut Link<Vec<u8>> {
        &mut self.link
    }

    /// Packets on their way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.link.next_deadline().is_none()
    }

    fn draw(&mut self) -> Option<Fault> {
        let nth = self.seen;
        self.seen += 1;
        if let Some(fault) = self.faults.scheduled.get(&nth) {
            return Some(*fault);
        }
        // Every packet draws the same number of times: switching one fault on does not move another.
        let hold = Duration::from_nanos(self.random.below(self.faults.hold_back_max.as_nanos() + 1));
        let (is_held, is_doubled, is_corrupted) = (
            self.random.is_hit(self.faults.hold_back_ppm),
            self.random.is_hit(self.faults.duplicate_ppm),
            self.random.is_hit(self.faults.corrupt_ppm),
        );
        match (is_corrupted, is_held, is_doubled) {
            (true, ..) => Some(Fault::Corrupt),
            (_, true, _) => Some(Fault::HoldBack(hold)),
            (.., true) => Some(Fault::Duplicate(hold)),
            _ => None,
        }
    }

    /// Takes a packet; says what was done to it, if anything.
    pub fn send(&mut self, mut packet: Vec<u8>, now: Instant) -> Option<&'static str> {
        match self.draw() {
            None => return self.enter(packet, now),
            Some(Fault::Drop) => return Some("dropped by plan"),
            Some(Fault::Duplicate(later)) => {
                self.hold(packet.clone(), now + later);
                self.enter(packet, now);
                return Some("doubled");
            }
            Some(Fault::HoldBack(time)) => {
                self.hold(packet, now + time);
                return Some("held back");
            }
            Some(Fault::Corrupt) => {
                let half = packet.len() / 2;
                let at = half + self.random.below((packet.len() - half) as u64) as usize;
                packet[at] ^= 1 << self.random.below(8);
            }
        }
        self.enter(packet, now);
        Some("corrupted")
    }

    fn hold(&mut self, packet: Vec<u8>, until: Instant) {
        self.held.push(Reverse((until, self.seen, packet)));
    }

    fn enter(&mut self, packet: Vec<u8>, now: Instant) -> Option<&'static str> {
        let size = Bytes::from(packet.len());
        self.link.enqueue(packet, size, now).err().map(|_| "lost")
    }

    /// The next packet that is through.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        while self.held.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            if let Some(Reverse((_, _, packet))) = self.held.pop() {
                self.enter(packet, now);
            }
        }
        self.link.poll(now).map(|delivery| delivery.payload)
    }

    /// When [`Path::poll`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let held = self.held.peek().map(|Reverse((at, ..))| *at);
        [self.link.next_deadline(), held].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(faults: FaultConfig) -> Vec<(u64, u8)> {
        let link = LinkConfig::default();
        let mut path = Path::new(&PathConfig { link, faults }, "test").unwrap();
        let mut out = Vec::new();
        for ms in 0..20 {
            let now = Instant::from_millis(ms);
            if ms < 5 {
                path.send(vec![ms as u8; 4], now);
            }
            while let Some(packet) = path.poll(now) {
                let is_whole = packet.iter().all(|b| *b == packet[0]);
                out.push((ms, if is_whole { packet[0] } else { 99 }));
            }
        }
        out
    }

    #[test]
    fn the_planned_packet_is_dropped_doubled_or_held_back() {
        let plain = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)];
        assert_eq!(run(FaultConfig::default()), plain);
        assert_eq!(run(FaultConfig::once(1, Fault::Drop)), [(0, 0), (2, 2), (3, 3), (4, 4)]);
        let twice = Fault::Duplicate(Duration::from_millis(2));
        assert_eq!(run(FaultConfig::once(1, twice)), [(0, 0), (1, 1), (2, 2), (3, 3), (3, 1), (4, 4)]);
        let late = Fault::HoldBack(Duration::from_millis(3));
        assert_eq!(run(FaultConfig::once(1, late)), [(0, 0), (2, 2), (3, 3), (4, 4), (4, 1)]);
        let corrupted = [(0, 0), (1, 99), (2, 2), (3, 3), (4, 4)];
        assert_eq!(run(FaultConfig::once(1, Fault::Corrupt)), corrupted);
    }
}
