//! [`Path`]: one direction of a segment, a link with faults in front of it.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use link::{Ecn, Link, LinkConfig};
use units::{Bytes, Duration, Instant};

use crate::faults::{FaultOutcome, Injector, mark};
use crate::{FaultConfig, SimError};

/// One direction of a segment.
#[derive(Clone, Debug, Default)]
pub struct PathConfig {
    /// Its link.
    pub link: LinkConfig,
    /// Faults before it.
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

/// Outcome for a packet that was sent.
#[derive(Debug, Default)]
pub struct PathOutcome {
    /// Remark on what was done to it, if anything.
    pub remark: Option<&'static str>,
    /// ICMP message that comes back to its sender.
    pub answer: Option<Vec<u8>>,
}

/// One direction of a segment.
#[derive(Debug)]
pub struct Path {
    link: Link<Vec<u8>>,
    injector: Injector,
    held: BinaryHeap<Held>,
    held_before: u64,
    /// Packets that a fault was done to.
    harmed: u64,
}

impl Path {
    /// An empty segment, whose time begins at `start`.
    ///
    /// # Errors
    /// The link's settings are out of range; `place` names it.
    pub fn new(config: &PathConfig, place: &'static str, start: Instant) -> Result<Self, SimError> {
        let link = Link::new(&config.link, start).map_err(|source| SimError::Link { place, source })?;
        Ok(Self {
            link,
            injector: Injector::new(&config.faults, start),
            held: BinaryHeap::new(),
            held_before: 0,
            harmed: 0,
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

    /// Packets that were lost, or that a fault was done to.
    #[must_use]
    pub fn harmed(&self) -> u64 {
        self.harmed + self.link.counters().dropped_packets()
    }

    /// Packets on their way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.link.next_deadline().is_none()
    }

    /// Takes a packet.
    pub fn send(&mut self, packet: Vec<u8>, now: Instant) -> PathOutcome {
        self.release(now);
        let (outcome, remark) = self.injector.handle_packet(packet, now);
        self.harmed += u64::from(remark.is_some());
        match outcome {
            FaultOutcome::Forward(packet) => {
                let lost = self.enter(packet, now);
                return PathOutcome { remark: remark.or(lost), answer: None };
            }
            FaultOutcome::Duplicate(packet, again) => {
                self.hold(packet.clone(), again);
                self.enter(packet, now);
            }
            FaultOutcome::Delay(packet, until) => self.hold(packet, until),
            FaultOutcome::Drop => {}
            FaultOutcome::Reply(answer) => return PathOutcome { remark, answer: Some(answer) },
        }
        PathOutcome { remark, answer: None }
    }

    fn hold(&mut self, packet: Vec<u8>, until: Instant) {
        self.held_before += 1;
        self.held.push(Reverse((until, self.held_before, packet)));
    }

    /// Lets in what has waited long enough.
    fn release(&mut self, now: Instant) {
        while self.held.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            if let Some(Reverse((_, _, packet))) = self.held.pop() {
                self.enter(packet, now);
            }
        }
    }

    fn enter(&mut self, packet: Vec<u8>, now: Instant) -> Option<&'static str> {
        let size = Bytes::from(packet.len());
        let ecn = if self.link.is_managed() { ecn_of(&packet) } else { 0 };
        self.link.enqueue_as(Ecn::from_bits(ecn), packet, size, now).err().map(|_| "lost")
    }

    /// The next packet that is through.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.release(now);
        let delivery = self.link.poll(now)?;
        let mut packet = delivery.payload;
        if delivery.is_marked {
            mark(&mut packet);
        }
        Some(packet)
    }

    /// Time at which [`Path::poll`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let held = self.held.peek().map(|Reverse((at, ..))| *at);
        [self.link.next_deadline(), held].into_iter().flatten().min()
    }
}

/// The ECN field of a packet; zero of what is none.
fn ecn_of(packet: &[u8]) -> u8 {
    wire::parse_prefix(packet).map_or(0, |parsed| parsed.ip.ecn())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    fn run(faults: FaultConfig) -> Vec<(u64, u8)> {
        let link = LinkConfig::default();
        let mut path = Path::new(&PathConfig { link, faults }, "test", Instant::ZERO).unwrap();
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
        assert_eq!(run(FaultConfig::once(1, twice)), [(0, 0), (1, 1), (2, 2), (3, 1), (3, 3), (4, 4)]);
        let late = Fault::HoldBack(Duration::from_millis(3));
        assert_eq!(run(FaultConfig::once(1, late)), [(0, 0), (2, 2), (3, 3), (4, 1), (4, 4)]);
        let corrupted = [(0, 0), (1, 99), (2, 2), (3, 3), (4, 4)];
        assert_eq!(run(FaultConfig::once(1, Fault::Corrupt)), corrupted);
    }

    #[test]
    fn what_stalled_keeps_its_order() {
        let (from, length) = (Duration::from_millis(1), Duration::from_millis(3));
        let stall = FaultConfig { stalls: vec![crate::Span { from, length }], ..FaultConfig::default() };
        assert_eq!(run(stall), [(0, 0), (4, 1), (4, 2), (4, 3), (4, 4)]);
    }
}
