//! M: what marks leave of the window, where the queue in front marks (RFC 3168) and data is sent ECN-capable.
//!
//! ```text
//!   mark, once a round trip:     M ← 0.85·min( W, in flight ),  at least 4 segments             RFC 8511 §3
//!   W in use for two round trips
//!   without a mark:              M += s,  s = M÷64, twice as much, up to M÷4, for each time in a row that
//!                                RTT < τ + δ÷2 in the second: there was no queue;  at least MSS
//!   W ≤ M, until M ≥ 1.5·W
//! ```
//!
//! The law's headroom d is a queue on purpose. Who manages the queue may want a shorter one, and says so by a mark
//! where it would drop a packet else. A loss of the radio says nothing about a queue, so the law takes none for a
//! sign of one by itself ([`super::buffer`]); a mark is always about the queue. So it lowers the window at once, as it
//! lowers that of others, and among them M competes as they do. It rises as long as the queue is short enough, and ever
//! faster where there is none: the link has become faster. What a rise does is heard of in the round trip after the
//! next.

use units::{Bytes, Duration, Instant};

/// Share of the window that a mark leaves, in per cent (RFC 8511 §3: β_ecn of CUBIC).
const LEFT_PERCENT: u64 = 85;

/// Part of M that it rises by at a time,
const RISE: u64 = 64;

/// and how often that doubles where there is no queue.
const DOUBLINGS_MAX: u8 = 4;

/// Less is never in flight.
const SEGMENTS_MIN: u64 = 4;

/// Signs that an acknowledgement gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// RTT and τ, where both are known.
    pub rtt: Option<(Duration, Duration)>,
    /// δ: so near τ a round trip met no queue.
    pub near: Duration,
    /// W before M.
    pub window: Bytes,
    /// All that may be in flight is.
    pub is_in_use: bool,
    pub now: Instant,
}

/// M.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(super) struct Marks {
    bound: Option<Bytes>,
    /// Time at which M last changed, and when it rises; unknown until the first acknowledgement after that.
    changed_at: Instant,
    rises_at: Option<Instant>,
    /// A packet that was sent since met no queue.
    was_idle: bool,
    /// Times in a row that one did not.
    idle: u8,
}

impl Marks {
    /// M, while it bounds the window.
    pub(super) fn window(&self) -> Option<Bytes> {
        self.bound
    }

    /// The queue has marked a packet; `window` bytes could be in flight, and `in_flight` were.
    pub(super) fn on_mark(&mut self, window: Bytes, in_flight: Bytes, mss: Bytes, now: Instant) {
        let left = window.min(in_flight).get().saturating_mul(LEFT_PERCENT) / 100;
        self.bound = Some(Bytes::new(left.max(mss.get().saturating_mul(SEGMENTS_MIN))));
        (self.changed_at, self.rises_at) = (now, None);
        (self.was_idle, self.idle) = (false, 0);
    }

    /// Takes in an acknowledgement.
    pub(super) fn on_ack(&mut self, heard: &Heard, mss: Bytes) {
        let Some(bound) = self.bound else { return };
        let Some((rtt, floor)) = heard.rtt else { return };
        let rises_at = *self.rises_at.get_or_insert(heard.now + rtt * 2);
        self.was_idle |= heard.now - rtt >= self.changed_at && rtt < floor + heard.near / 2;
        if heard.now < rises_at {
            return;
        }
        let was_idle = core::mem::take(&mut self.was_idle);
        self.idle = if was_idle { (self.idle + 1).min(DOUBLINGS_MAX + 1) } else { 0 };
        (self.changed_at, self.rises_at) = (heard.now, None);
        if !heard.is_in_use {
            return;
        }
        let step = ((bound.get() / RISE) << self.idle.saturating_sub(1)).max(mss.get());
        let risen = Bytes::new(bound.get() + step);
        let is_over = risen.get() >= heard.window.get().saturating_mul(3) / 2;
        self.bound = (!is_over).then_some(risen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes::new(1_000);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// M in bytes after a mark at 100 of 120 kB and so many ms, in which each round trip met a queue of `queue_ms`.
    fn after(for_ms: u64, queue_ms: u64) -> Option<u64> {
        let mut marks = Marks::default();
        marks.on_mark(Bytes::new(120_000), Bytes::new(100_000), MSS, Instant::from_millis(1_000));
        for at in 0..=for_ms {
            let rtt = Some((ms(40 + queue_ms), ms(40)));
            let now = Instant::from_millis(1_000 + at);
            let window = Bytes::new(120_000);
            marks.on_ack(&Heard { rtt, near: ms(4), window, is_in_use: true, now }, MSS);
        }
        marks.window().map(Bytes::get)
    }

    #[test]
    fn a_mark_leaves_85_per_cent_which_rise_by_a_part_in_two_round_trips() {
        assert_eq!(after(99, 10), Some(85_000));
        assert_eq!(after(100, 10), Some(85_000 + 85_000 / 64));
        assert_eq!(after(201, 10), Some(86_328 + 86_328 / 64));
    }

    #[test]
    fn without_a_queue_it_rises_faster_and_ends() {
        assert_eq!(after(80, 0), after(100, 10), "the first time it may be the mark's own doing");
        let (idle, queued) = (after(450, 0).unwrap(), after(500, 10).unwrap());
        assert!(idle > queued + 30_000, "{idle}, {queued}");
        assert_eq!(after(1_000, 0), None);
        // A queue of half of δ is one.
        assert_eq!(after(450, 2), after(450, 3));
    }

    #[test]
    fn marks_again_and_again_leave_four_segments() {
        let mut marks = Marks::default();
        let mut window = Bytes::new(100_000);
        for _ in 0..60 {
            marks.on_mark(window, window, MSS, Instant::from_millis(1));
            window = marks.window().unwrap();
        }
        assert_eq!(window, Bytes::new(4_000));
    }
}
