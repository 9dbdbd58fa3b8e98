//! The round trip of the path without a queue of ours, and how it is kept true.
//!
//! A queue that never empties hides the path: the smallest round trip of any stretch of time then has the queue in
//! it, and a floor that believes it lets the queue grow by itself without end. And a path may become longer (a
//! hand-over, H17). So: a floor that nothing has touched for `FLOOR_AGE` is measured: the data in flight is
//! let down for one round trip, and the smallest round trip seen then is the floor.

use units::{Duration, Instant};

/// How long a floor is believed without a round trip near it, if that is not less than 50 of its round trips: what a
/// measurement costs is most of one.
const FLOOR_AGE: Duration = Duration::from_secs(10);

/// The same of one that was never measured, or by a measurement that was not believed in full: the first round trips
/// of a flow may all have met a queue.
const FLOOR_AGE_DOUBTED: Duration = Duration::from_secs(3);

/// Round trips a measurement takes in at least.
const DRAIN_SAMPLES: u32 = 4;

/// A round trip so near the floor confirms it, or within a sixteenth: a long path's own jitter.
const NEAR: Duration = Duration::from_millis(2);

/// The smallest round trip of the path.
#[derive(Clone, Debug)]
pub(super) struct Floor {
    floor: Duration,
    confirmed: Instant,
    /// How long it is believed from then on.
    age_max: Duration,
    drain: Option<Drain>,
}

/// The measurement under way.
#[derive(Clone, Debug)]
struct Drain {
    /// Until then what was sent before is still coming back.
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

    /// Takes in the round trip of a handshake, which may have met the queue of other flows, but none of its own.
    pub(super) fn on_handshake(&mut self, rtt: Duration, now: Instant) {
        if rtt <= self.floor {
            self.floor = rtt;
            self.confirmed = now;
            self.age_max = FLOOR_AGE;
        }
    }

    /// Takes in a round trip; `is_queueing` when the sender kept the path full.
    pub(super) fn update(&mut self, rtt: Duration, is_queueing: bool, now: Instant) {
        if self.floor == Duration::MAX {
            self.confirmed = now;
        } else if self.age_max == FLOOR_AGE && rtt <= self.floor + NEAR.max(self.floor / 16) {
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

    /// Believes a measurement up to half as much again as the old floor: in the middle of an outage it measures
    /// the outage. The next one follows soon, and a path that has become longer is known after a few.
    fn end_drain(&mut self, smallest: Duration, now: Instant) {
        let believed = self.floor.mul_ratio(3, 2) + Duration::from_millis(5);
        self.age_max = if smallest > believed { FLOOR_AGE_DOUBTED } else { FLOOR_AGE };
        self.floor = smallest.min(believed);
        self.confirmed = now;
        self.drain = None;
    }
}
