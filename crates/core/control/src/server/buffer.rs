//! Q: how much the bottleneck's buffer takes, where that is less than the law would have in it.
//!
//! As `adaptive/buffer.rs`: a full buffer loses what meets a full queue, a radio loses the same share of whatever is
//! sent. So what was lost and what was delivered is counted apart for long queues and for others.
//!
//! Beside others, whose queue the floor takes in, Q is all that may be in flight, and follows losses as CUBIC does.
//!
//! DEVIATION: the longest queue of late is that of the last 5 to 10 s, in two halves, where `adaptive` keeps the best
//! three of 10 s. It takes three words.

use super::{AckEvent, BYTES_MAX, Law, MARKS, MET, bytes_in};

/// Time for which the longest queue is remembered in each half, µs.
const HALF_US: u64 = 5_000_000;
/// A queue of this part of the longest is a long one, in quarters.
const LONG_QUARTERS: u64 = 3;
/// Segments lost in long queues from which on their number is significant.
const LOST_MIN: u64 = 4;
/// Long queues that lose this many times the share of short ones overflow,
const TIMES: u64 = 3;
/// or that lose this much more of a million bytes,
const MORE_PPM: u64 = 60_000;
/// or where short queues lose this much.
const SHORT_PPM: u64 = 200_000;
/// Part of Q that Q rises by in a round trip; and of W, where there is no queue.
const RISE: u64 = 128;
const RISE_IDLE: u64 = 32;
/// Tenths of W that remain after a loss in a queue of others (RFC 9438 §4.6).
const KEPT_TENTHS: u64 = 7;
/// Windows of data after which half of what was counted is forgotten, and fewer where this many segments were
/// lost.
const WINDOWS_MAX: u64 = 1_024;
const WINDOWS_MIN: u64 = 16;
const LOST_MUCH: u64 = 64;
/// A buffer of fewer segments than this does not exist.
const SEGMENTS_MIN: u64 = 4;

/// Bytes lost of a million.
pub(super) fn ppm(delivered: u64, lost: u64) -> u64 {
    (lost * 1_000_000).checked_div(delivered + lost).unwrap_or(0)
}

impl Law {
    /// Bytes that may be in flight without an overflow; 0 for no limit.
    pub(super) fn ceiling(&self) -> u64 {
        match self.size {
            0 => 0,
            size if self.others_queue > 0 => size,
            size => size.max(bytes_in(self.average, self.floor_us) + size / 3),
        }
    }

    /// Long queues lose far more than short ones.
    pub(super) fn overflows(&self) -> bool {
        let long = ppm(self.long_delivered, self.long_lost);
        let short = ppm(self.short_delivered, self.short_lost);
        self.long_lost >= self.mss * LOST_MIN
            && (long >= short * TIMES || long >= short + MORE_PPM || short >= SHORT_PPM)
    }

    pub(super) fn follow_buffer(&mut self, ack: &AckEvent, rtt: u64, is_used: bool) {
        let now = ack.now_us;
        let delivered = ack.delivered.min(BYTES_MAX);
        self.acknowledged = (self.acknowledged + delivered) & 0xffff_ffff;
        // What is acknowledged for less than half a segment may have been held back by the receiver's own timer.
        if rtt == 0 || delivered < self.mss / 2 {
            return;
        }
        let waited = rtt.saturating_sub(self.floor_us);
        let queue = self.acknowledged_within(now as u32, waited as u32);
        // What was lost met the queue that was met by what came through before it.
        self.met[self.acks as usize % MET] = queue;
        self.acks = self.acks.wrapping_add(1);
        self.mark(now as u32, waited);
        self.remember_longest(u64::from(queue), now);
        let longest = self.longest.max(self.longest_before);
        let mut met = 0;
        for other in self.met {
            met = met.max(u64::from(other));
        }
        let is_long = met * 4 >= longest * LONG_QUARTERS;
        let lost_now = core::mem::take(&mut self.pending);
        if is_long {
            self.long_delivered += delivered;
            self.long_lost += lost_now;
        } else {
            self.short_delivered += delivered;
            self.short_lost += lost_now;
        }
        self.forget_counted();
        self.adapt_size(met, is_long, lost_now, is_used, now + rtt);
    }

    fn forget_counted(&mut self) {
        let lost = self.long_lost + self.short_lost;
        let counted = self.long_delivered + self.short_delivered + lost;
        let windows = if lost >= self.mss * LOST_MUCH { WINDOWS_MIN } else { WINDOWS_MAX };
        if counted >= (self.window * windows).min(BYTES_MAX / 4) {
            self.long_delivered /= 2;
            self.long_lost /= 2;
            self.short_delivered /= 2;
            self.short_lost /= 2;
        }
    }

    fn adapt_size(&mut self, met: u64, is_long: bool, lost: u64, is_used: bool, later: u64) {
        let is_beside_others = self.others_queue > 0;
        if is_beside_others && lost > 0 {
            // Whose queue it met tells nothing then: once a round trip, as CUBIC.
            if self.size == 0 || self.last_ack_us >= self.rises_us {
                self.size = met.max(self.window * KEPT_TENTHS / 10);
                self.rises_us = later;
            }
        } else if !is_beside_others && !self.overflows() {
            self.size = 0;
        } else if is_long && lost > 0 && met >= self.mss * SEGMENTS_MIN {
            self.size = met;
            self.rises_us = later;
        } else if self.size > 0 && is_used && self.last_ack_us >= self.rises_us {
            // Without a queue it is W that limits, and what has arrived says nothing of the link.
            let step = if met * 4 < self.size { self.window / RISE_IDLE } else { self.size / RISE };
            self.size += step + if is_beside_others { self.mss } else { self.mss / 16 };
            if self.size / 2 >= self.window {
                self.size = 0;
            }
            self.rises_us = later;
        }
    }

    fn remember_longest(&mut self, queue: u64, now: u64) {
        if now.saturating_sub(self.longest_since_us) >= HALF_US {
            self.longest_before = self.longest;
            self.longest = 0;
            self.longest_since_us = now;
        }
        self.longest = self.longest.max(queue);
    }

    /// Bytes acknowledged in the `before` microseconds before `us`, or in a little less.
    fn acknowledged_within(&self, us: u32, before: u32) -> u32 {
        let known = self.marks_written.min(MARKS as u32);
        let mut bytes = 0;
        for back in 1..=known {
            let place = (self.marks_written + MARKS as u32 - back) as usize % MARKS;
            if us.wrapping_sub(self.mark_us[place]) > before {
                break;
            }
            bytes = (self.acknowledged as u32).wrapping_sub(self.mark_bytes[place]);
        }
        bytes
    }

    fn mark(&mut self, us: u32, waited: u64) {
        let last = self.mark_us[(self.marks_written + MARKS as u32 - 1) as usize % MARKS];
        let apart = (waited / (MARKS as u64 - 4)).max(100) as u32;
        if self.marks_written == 0 || us.wrapping_sub(last) >= apart {
            let place = self.marks_written as usize % MARKS;
            self.mark_us[place] = us;
            self.mark_bytes[place] = self.acknowledged as u32;
            self.marks_written += 1;
            if self.marks_written >= 2 * MARKS as u32 {
                self.marks_written -= MARKS as u32;
            }
        }
    }
}
