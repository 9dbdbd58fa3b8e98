//! A policer on the path: a token bucket that drops what is more than its rate, without a queue.
//!
//! Headroom that no queue takes in is lost whole. Loss without a queue may also be the radio's, which loses the same
//! share of whatever is sent. So it is tried: without headroom for some round trips, does less than half of it remain?
//!
//! ```text
//!   watch ── 2 % lost in two intervals without a queue ─▶ trial: W = R·τ ── half of it remains ──▶ watch, for 30 s
//!     ▲                                                       │
//!     └───────────── a queue ── policed: W = R·τ·f ◀──────────┘
//!
//!   R   what was delivered while too much was sent: the policer's rate
//!   f   from 1 on: up by 1/64 after an interval that lost less than 0.25 % (by an eighth until the first that lost
//!       more, and where nothing was lost for 5 s), down by 1/32 after one that lost more than 0.75 %
//! ```
//!
//! BBR judges likewise by what is lost and delivered in intervals (its "long-term" bandwidth), at a fifth lost.

use super::buffer::ppm;
use super::{AckEvent, BYTES_MAX, Law, bytes_in};

/// States, in [`Law::police_state`].
const WATCH: u64 = 0;
const TRIAL: u64 = 1;
const POLICED: u64 = 2;

/// Least round trips, µs and segments of an interval.
const ROUND_TRIPS: u64 = 12;
const INTERVAL_MIN_US: u64 = 200_000;
const SEGMENTS_MIN: u64 = 64;
/// Bytes lost of a million in an interval that are worth a trial, after how many such; and during the start.
const LOST_PPM: u64 = 20_000;
const LOSSY_MIN: u64 = 2;
const LOST_MUCH_PPM: u64 = 100_000;
/// A trial that showed nothing is made again after, µs.
const TRIED_US: u64 = 30_000_000;
/// f as parts, its steps, and between which losses it stays.
const ONE: u64 = 256;
const LEAST: u64 = 64;
const MOST: u64 = 1 << 16;
const UP: u64 = 4;
const UP_EARLY: u64 = 8;
/// Time without a loss after which a policed path has no policer, µs.
const CLEAN_US: u64 = 5_000_000;
const DOWN: u64 = 8;
const FEW_PPM: u64 = 2_500;
const MANY_PPM: u64 = 7_500;

impl Law {
    /// The window of a path with a policer.
    pub(super) fn policed(&self) -> Option<u64> {
        (self.police_state != WATCH)
            .then(|| bytes_in(self.police_rate, self.floor_us).min(BYTES_MAX) * self.police_parts / ONE)
    }

    pub(super) fn follow_policer(&mut self, ack: &AckEvent, rtt: u64) {
        let now = ack.now_us;
        self.police_delivered = (self.police_delivered + ack.delivered).min(BYTES_MAX);
        self.police_lost = (self.police_lost + ack.lost).min(BYTES_MAX);
        if rtt > 0 {
            self.police_waited_us += rtt.saturating_sub(self.floor_us);
            self.police_samples += 1;
        }
        let lasts = (self.floor_us * ROUND_TRIPS).max(INTERVAL_MIN_US);
        let is_over = now.saturating_sub(self.police_since_us) >= lasts
            && self.police_delivered >= self.mss * SEGMENTS_MIN;
        if !is_over {
            return;
        }
        let share = ppm(self.police_delivered, self.police_lost);
        let waited = self.police_waited_us / self.police_samples.max(1);
        let has_queue = waited > self.near_us();
        match self.police_state {
            WATCH => self.watch(share, has_queue, now),
            TRIAL if share * 2 <= self.police_before_ppm => {
                self.police_state = POLICED;
                self.police_again_us = now;
            }
            TRIAL => {
                self.police_state = WATCH;
                self.police_parts = 0;
                self.police_again_us = now + TRIED_US;
            }
            POLICED if has_queue => {
                self.police_state = WATCH;
                self.police_again_us = 0;
                self.police_parts = 0;
            }
            POLICED if share < FEW_PPM => {
                if share > 0 {
                    self.police_again_us = now;
                }
                // Until it has met the policer's rate from below, and where there is none any more.
                let is_clean = now.saturating_sub(self.police_again_us) > CLEAN_US;
                let is_below = self.police_before_ppm > 0 || is_clean;
                let up = if is_below { self.police_parts / UP_EARLY } else { UP };
                self.police_parts = (self.police_parts + up).min(MOST);
            }
            POLICED if share > MANY_PPM => {
                self.police_before_ppm = 0;
                self.police_again_us = now;
                self.police_parts = self.police_parts.saturating_sub(DOWN).max(LEAST);
            }
            _ => {}
        }
        self.police_since_us = now;
        self.police_delivered = 0;
        self.police_lost = 0;
        self.police_waited_us = 0;
        self.police_samples = 0;
    }

    fn watch(&mut self, share: u64, has_queue: bool, now: u64) {
        // The start loses much, and once.
        let is_over = self.start_window == 0 || share >= LOST_MUCH_PPM;
        let is_lossy = share >= LOST_PPM && is_over && !has_queue && self.average > 0;
        self.police_parts = if is_lossy { self.police_parts + 1 } else { 0 };
        if self.police_parts >= LOSSY_MIN && now >= self.police_again_us {
            self.police_state = TRIAL;
            self.police_before_ppm = share;
            self.police_rate = self.average;
            self.police_parts = ONE;
        }
    }
}
