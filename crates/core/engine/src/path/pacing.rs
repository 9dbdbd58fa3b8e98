//! [`Pacer`]: when the next packet may leave, at the rate that the controller allows.

use units::{Bytes, Duration, Instant, Rate};

/// Time by which pacing may lag behind and still catch up: the lateness of timers, not a burst.
const SLACK: Duration = Duration::from_millis(2);

/// Longest pause after a packet, whatever the rate.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Headers that cost the radio link as much as payload does: IPv4 and TCP with timestamps.
pub(crate) const HEADER_BYTES: u64 = 52;

/// Spreads what a subscriber is sent over time.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct Pacer {
    next: Instant,
}

impl Pacer {
    /// Nothing leaves before `now`.
    pub(crate) const fn new(now: Instant) -> Self {
        Self { next: now }
    }

    /// Nothing leaves before this.
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }

    /// `len` payload bytes in `segments` segments leave at `rate`.
    pub(crate) fn on_send(&mut self, len: u32, segments: u32, rate: Rate, now: Instant) {
        let wire = Bytes::new(u64::from(len) + u64::from(segments) * HEADER_BYTES);
        let from = self.next.max(now - SLACK);
        self.next = from + rate.time_for(wire).min(PAUSE_MAX);
    }

    /// The rate has changed from `before` to `after`.
    ///
    /// The pause after what was sent last was reckoned at the rate of that time; at a higher one
    /// the rest of it is shorter. Without that a subscriber whose link stood still would wait as
    /// long as it did.
    pub(crate) fn on_rate_change(&mut self, before: Rate, after: Rate, now: Instant) {
        let pause = self.next.saturating_since(now);
        if after > before && !pause.is_zero() {
            self.next = now + pause.mul_ratio(before.as_bps(), after.as_bps());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn headers_cost_time_too_and_lateness_is_caught_up_for_a_little() {
        let mut pacer = Pacer::new(ms(0));
        // 1,000 bytes with their headers at 8 bits a microsecond.
        pacer.on_send(948, 1, Rate::from_mbps(8), ms(0));
        assert_eq!(pacer.next(), ms(1));
        pacer.on_send(948, 1, Rate::from_mbps(8), ms(2));
        assert_eq!(pacer.next(), ms(2), "a millisecond late, and on time again");
        pacer.on_send(948, 1, Rate::from_mbps(8), ms(100));
        assert_eq!(pacer.next(), ms(99), "two milliseconds at most");
    }

    #[test]
    fn a_pause_shrinks_with_a_higher_rate_and_never_grows() {
        let mut pacer = Pacer::new(ms(0));
        pacer.on_send(948, 1, Rate::from_kbps(80), ms(0));
        assert_eq!(pacer.next(), ms(100));
        pacer.on_rate_change(Rate::from_kbps(80), Rate::from_kbps(40), ms(20));
        assert_eq!(pacer.next(), ms(100));
        pacer.on_rate_change(Rate::from_kbps(80), Rate::from_kbps(800), ms(20));
        assert_eq!(pacer.next(), ms(28));
    }
}
