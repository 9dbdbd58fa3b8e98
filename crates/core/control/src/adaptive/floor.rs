//! The round trip of the path without a queue of ours, and how it is kept true.
//!
//! A queue that never empties hides the path: the smallest round trip of any stretch of time then
//! has the queue in it, and a floor that believes it lets the queue grow by itself without end. And
//! a path may become longer (a hand-over, H17). So: a floor that nothing has touched for
//! `FLOOR_AGE` is measured: the data in flight is let down for one round trip, and the smallest
//! round trip seen then is the floor.

use units::{Duration, Instant};

/// Time that a floor is believed without a round trip near it, if that is not less than 50 of its
/// round trips: what a measurement costs is most of one.
const FLOOR_AGE: Duration = Duration::from_secs(10);

/// The same of one that was never measured, or by a measurement that was not believed in full: the
/// first round trips of a flow may all have met a queue.
const FLOOR_AGE_DOUBTED: Duration = Duration::from_secs(3);

/// Round trips a measurement takes in at least.
const DRAIN_SAMPLES: u32 = 4;

/// A round trip so near the floor confirms it, or within a sixteenth: a long path's own jitter.
const NEAR: Duration = Duration::from_millis(2);

/// The smallest round trip of the path.
#[derive(Clone, Debug, stored::Stored)]
pub(super) struct Floor {
    floor: Duration,
    confirmed: Instant,
    /// Time that it is believed from then on.
    age_max: Duration,
    drain: Option<Drain>,
}

/// The measurement under way.
#[derive(Clone, Debug, stored::Stored)]
struct Drain {
    /// Time until which what was sent before is still coming back.
    from: Instant,
    /// The smallest round trip of what was sent since.
    smallest: Duration,
    samples: u32,
    until: Instant,
}

impl Floor {
    pub(super) fn new() -> Self {
        Self { floor: Duration::MAX, confirmed: Instant::ZERO, age_max: FLOOR_AGE_DOUBTED, drain: None }
    }

    /// The floor, once there was a round trip.
    pub(super) fn get(&self) -> Option<Duration> {
        (self.floor != Duration::MAX).then_some(self.floor)
    }

    /// The data in flight is to be let down.
    pub(super) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Nothing was in flight, so the next round trip is one without a queue.
    pub(super) fn on_idle(&mut self, now: Instant) {
        self.confirmed = now;
        self.drain = None;
    }

    /// Takes in the round trip of a handshake, which may have met the queue of other flows, but
    /// none of its own.
    pub(super) fn on_handshake(&mut self, rtt: Duration, now: Instant) {
        if rtt <= self.floor {
            self.floor = rtt;
            self.confirmed = now;
            self.age_max = FLOOR_AGE;
        }
    }

    /// Takes in what another controller has measured of the way to the same subscriber. Who knows another floor of
    /// this place keeps it; where both agree it is confirmed.
    pub(super) fn on_guess(&mut self, rtt: Duration, now: Instant) {
        if self.floor == Duration::MAX {
            (self.floor, self.age_max) = (rtt, FLOOR_AGE);
        } else if rtt.max(self.floor) - rtt.min(self.floor) > self.near() {
            return;
        }
        self.confirmed = now;
    }

    /// Distance from the floor within which a round trip confirms it.
    fn near(&self) -> Duration {
        NEAR.max(self.floor / 16)
    }

    /// Takes in a round trip; `is_queueing` when the sender kept the path full.
    pub(super) fn update(&mut self, rtt: Duration, is_queueing: bool, now: Instant) {
        if self.floor == Duration::MAX {
            self.confirmed = now;
        } else if self.age_max == FLOOR_AGE && rtt <= self.floor + self.near() {
            self.confirmed = now;
            self.drain = None;
        }
        self.floor = self.floor.min(rtt);
        if let Some(drain) = &mut self.drain {
            if now >= drain.from {
                drain.smallest = drain.smallest.min(rtt);
                drain.samples += 1;
            }
            if now >= drain.until && drain.samples >= DRAIN_SAMPLES {
                let smallest = drain.smallest;
                self.end_drain(smallest, now);
            }
        } else if is_queueing && now.saturating_since(self.confirmed) > self.age_max.max(self.floor * 50) {
            // What is in flight takes one of its round trips to come back, what follows one of the path's.
            let from = now + rtt;
            self.drain = Some(Drain { from, smallest: Duration::MAX, samples: 0, until: from + self.floor });
        }
    }

    /// Believes a measurement up to half as much again as the old floor: in the middle of an outage
    /// it measures the outage. The next one follows soon, and a path that has become longer is
    /// known after a few.
    fn end_drain(&mut self, smallest: Duration, now: Instant) {
        let believed = self.floor.mul_ratio(3, 2) + Duration::from_millis(5);
        self.age_max = if smallest > believed { FLOOR_AGE_DOUBTED } else { FLOOR_AGE };
        self.floor = smallest.min(believed);
        self.confirmed = now;
        self.drain = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A round trip every 10 ms over `span`, the sender keeping the path full.
    fn feed(floor: &mut Floor, span: std::ops::Range<u64>, rtt: impl Fn(&Floor, u64) -> u64) {
        for t in span.step_by(10) {
            let rtt = rtt(floor, t);
            floor.update(ms(rtt), true, at(t));
        }
    }

    #[test]
    fn it_is_the_smallest_seen() {
        let mut floor = Floor::new();
        assert_eq!(floor.get(), None);
        for (t, rtt) in [(0, 50), (10, 40), (20, 60)] {
            floor.update(ms(rtt), true, at(t));
        }
        assert_eq!(floor.get(), Some(ms(40)));
        floor.on_handshake(ms(70), at(30));
        assert_eq!(floor.get(), Some(ms(40)));
        floor.on_handshake(ms(25), at(40));
        assert_eq!(floor.get(), Some(ms(25)));
    }

    #[test]
    fn what_another_place_has_measured_is_a_floor_to_begin_with_and_confirms_one_like_it() {
        let mut floor = Floor::new();
        floor.on_guess(ms(20), at(0));
        feed(&mut floor, 0..8_000, |_, _| 50);
        assert_eq!((floor.get(), floor.is_draining()), (Some(ms(20)), false));
        floor.on_guess(ms(21), at(8_000));
        feed(&mut floor, 8_000..16_000, |_, _| 50);
        assert!(!floor.is_draining(), "it was confirmed");
        floor.on_guess(ms(40), at(16_000));
        feed(&mut floor, 16_000..18_050, |_, _| 50);
        assert_eq!((floor.get(), floor.is_draining()), (Some(ms(20)), true), "another one confirms nothing");
        // A shorter path is seen at once.
        floor.update(ms(12), true, at(18_300));
        assert_eq!(floor.get(), Some(ms(12)));
    }

    #[test]
    fn one_that_is_seen_now_and_then_needs_no_drain() {
        let mut floor = Floor::new();
        floor.on_handshake(ms(20), at(0));
        feed(&mut floor, 0..60_000, |floor, t| {
            assert!(!floor.is_draining(), "at {t} ms");
            if t % 5_000 == 0 { 21 } else { 80 }
        });
        assert_eq!(floor.get(), Some(ms(20)));
    }

    #[test]
    fn one_that_is_never_seen_is_measured() {
        let mut floor = Floor::new();
        floor.on_handshake(ms(20), at(0));
        // A standing queue of 30 ms, which goes while the data in flight is let down.
        let drains = std::cell::Cell::new(0);
        feed(&mut floor, 0..41_000, |floor, _| {
            drains.set(drains.get() + u32::from(floor.is_draining()));
            if floor.is_draining() { 20 } else { 50 }
        });
        assert_eq!(floor.get(), Some(ms(20)));
        // One every ten seconds, over with the first round trip that met no queue.
        assert!((3..60).contains(&drains.get()), "{} samples", drains.get());
    }

    #[test]
    fn h17_a_longer_path_is_believed_step_by_step() {
        let mut floor = Floor::new();
        floor.on_handshake(ms(20), at(0));
        // The path now takes 100 ms, with a queue of 20.
        let path = |floor: &Floor, _| if floor.is_draining() { 100 } else { 120 };
        feed(&mut floor, 0..11_000, path);
        assert_eq!(floor.get(), Some(ms(35)), "half as much again and 5 ms");
        feed(&mut floor, 11_000..30_000, path);
        assert_eq!(floor.get(), Some(ms(100)));
    }

    #[test]
    fn a_measurement_in_an_outage_does_little_harm() {
        let mut floor = Floor::new();
        floor.on_handshake(ms(20), at(0));
        feed(&mut floor, 0..10_000, |_, _| 80);
        // Whatever is measured now is a second or more.
        feed(&mut floor, 10_000..12_500, |_, _| 1_200);
        assert!(floor.get() <= Some(ms(35)), "{:?}", floor.get());
        floor.update(ms(22), true, at(12_510));
        assert_eq!(floor.get(), Some(ms(22)));
    }

    #[test]
    fn a_start_in_a_queue_is_doubted_soon() {
        let mut floor = Floor::new();
        // No handshake was seen, and every round trip so far met a queue.
        feed(&mut floor, 0..4_000, |floor, _| if floor.is_draining() { 20 } else { 60 });
        assert_eq!(floor.get(), Some(ms(20)));
    }

    #[test]
    fn idle_time_ends_a_drain_and_a_path_not_kept_full_needs_none() {
        let mut floor = Floor::new();
        floor.on_handshake(ms(20), at(0));
        feed(&mut floor, 0..10_020, |_, _| 80);
        assert!(floor.is_draining());
        floor.on_idle(at(10_030));
        assert!(!floor.is_draining());
        for t in (10_030..40_000).step_by(10) {
            floor.update(ms(80), false, at(t));
        }
        assert!(!floor.is_draining());
    }
}
