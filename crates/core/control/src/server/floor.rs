//! τ: the smallest round trip, measured again by a drain where it has not been seen for long.

use super::{FLOOR_AGE_DOUBTED_US, FLOOR_AGE_US, JITTER_PARTS, Law};

/// Round trips for which a floor is believed at least.
const FLOOR_AGE_ROUNDS: u64 = 50;
/// Bins after which the other members of a path have heard of a drain.
const TOGETHER_BINS: u64 = 2;
/// Part of the round trip, as a divisor: if half of the window less takes away no more, the queue is others'.
const OTHERS_PARTS: u64 = 16;
/// Such drains in a row after which the next ones follow sooner.
const OTHERS_SURE: u32 = 2;
/// Round trips that a measurement takes in at least.
pub(super) const DRAIN_SAMPLES: u32 = 4;
/// Distance from the floor within which a round trip confirms it, µs; or within a sixteenth.
const NEAR_US: u64 = 2_000;

impl Law {
    fn near_floor_us(&self) -> u64 {
        NEAR_US.max(self.floor_us / JITTER_PARTS)
    }

    pub(super) fn end_drain(&mut self) {
        self.drain_from_us = 0;
        self.drain_until_us = 0;
        self.drain_smallest_us = 0;
        self.drain_rtt_us = 0;
        self.drain_samples = 0;
    }

    pub(super) fn update_floor(&mut self, rtt: u64, is_queueing: bool, now: u64) {
        if self.floor_us == 0 {
            self.confirmed_us = now;
            self.floor_us = rtt;
        } else if self.age_max_us == FLOOR_AGE_US && rtt <= self.floor_us + self.near_floor_us() {
            self.confirmed_us = now;
            self.others_queue = 0;
            self.end_drain();
        }
        self.floor_us = self.floor_us.min(rtt);
        if self.drain_from_us > 0 {
            if now >= self.drain_from_us {
                if self.drain_smallest_us == 0 || rtt < self.drain_smallest_us {
                    self.drain_smallest_us = rtt;
                }
                self.drain_samples += 1;
            }
            if now >= self.drain_until_us && self.drain_samples >= DRAIN_SAMPLES {
                self.take_floor(now);
            }
            return;
        }
        let age_max = match self.age_max_us {
            age_max if age_max < FLOOR_AGE_US => age_max,
            age_max => age_max.max(self.floor_us * FLOOR_AGE_ROUNDS),
        };
        if is_queueing && now.saturating_sub(self.confirmed_us) > age_max {
            self.drain_from_us = now + rtt;
            self.drain_rtt_us = rtt;
            // The other members hear of it some bins later.
            let heard = if self.others > 0 { self.bin_us * TOGETHER_BINS } else { 0 };
            self.drain_until_us = now + rtt + self.floor_us + heard;
        }
    }

    /// The end of a drain: the smallest round trip in it is the floor, as far as it is believed.
    fn take_floor(&mut self, now: u64) {
        // In the middle of an outage it measures the outage.
        let is_doubted_again = self.age_max_us < FLOOR_AGE_US;
        // Where the queue was empty it is nobody's.
        let is_others = self.drain_rtt_us > 0
            && self.drain_smallest_us > self.floor_us + self.near_floor_us()
            && self.drain_smallest_us * OTHERS_PARTS >= self.drain_rtt_us * (OTHERS_PARTS - 1);
        self.others_queue = if is_others { (self.others_queue + 1).min(OTHERS_SURE) } else { 0 };
        let halves = if is_doubted_again && is_others { 4 } else { 3 };
        let believed = self.floor_us * halves / 2 + 5_000;
        let is_doubted = self.drain_smallest_us > believed;
        self.age_max_us = if is_doubted && is_others {
            0
        } else if is_doubted || self.others_queue == OTHERS_SURE {
            FLOOR_AGE_DOUBTED_US
        } else {
            FLOOR_AGE_US
        };
        self.floor_us = self.drain_smallest_us.min(believed);
        self.confirmed_us = now;
        self.end_drain();
    }
}
