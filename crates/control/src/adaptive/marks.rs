//! M: what marks leave of the window, where the queue in front marks (RFC 3168) and data is sent ECN-capable.
//!
//! ```text
//!   mark, once a round trip:             M ← 0.8·min( W, in flight ),  at least 4 segments      RFC 8511 §3
//!   W in use for a round trip without:   M += s,  s = M÷128, twice as much, up to M÷8, for each round trip in a row
//!                                        in which a packet met no queue;  at least MSS÷4
//!   W ≤ M, until M ≥ 1.5·W
//! ```
//!
//! The law's headroom d is a queue on purpose. Who manages the queue may want a shorter one, and says so by a mark
//! where it would drop a packet else. A loss of the radio says nothing about a queue, so the law takes none for a
//! sign of one by itself ([`super::buffer`]); a mark is always about the queue. So it lowers the window at once, as it
//! lowers that of others, and among them M competes as they do. It rises as long as the queue is short enough, and ever
//! faster where there is none: the link has become faster.

use units::{Bytes, Duration, Instant};

/// What a mark leaves, in per cent (RFC 8511 §3: β_ecn of standard TCP).
const LEFT_PERCENT: u64 = 80;

/// Part of M that it rises by in a round trip,
const RISE: u64 = 128;

/// and how often that doubles where there is no queue.
const DOUBLINGS_MAX: u8 = 4;

/// Less is never in flight.
const SEGMENTS_MIN: u64 = 4;

/// What an acknowledgement tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// RTT and τ, where both are known.
    pub rtt: Option<(Duration, Duration)>,
    /// So near τ a round trip met no queue.
    pub near: Duration,
    /// W before M.
    pub window: Bytes,
    /// All that may be in flight is.
    pub is_in_use: bool,
    pub now: Instant,
}

/// M.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    bound: Option<Bytes>,
    rises_at: Instant,
    /// A packet of this round trip met no queue.
    was_idle: bool,
    /// Round trips in a row in which one did not.
    idle: u8,
}
stored::fields!(Marks { bound, rises_at, was_idle, idle });

impl Marks {
    /// M, while it bounds the window.
    pub(super) fn window(&self) -> Option<Bytes> {
        self.bound
    }

    /// The queue has marked a packet; `window` bytes could be in flight, and `in_flight` were.
    pub(super) fn on_mark(&mut self, window: Bytes, in_flight: Bytes, mss: Bytes) {
        let left = window.min(in_flight).get().saturating_mul(LEFT_PERCENT) / 100;
        self.bound = Some(Bytes::new(left.max(mss.get().saturating_mul(SEGMENTS_MIN))));
        // What is acknowledged within a round trip met the queue before that.
        self.rises_at = Instant::FAR_FUTURE;
        (self.was_idle, self.idle) = (false, 0);
    }

    /// Takes in an acknowledgement.
    pub(super) fn on_ack(&mut self, heard: &Heard, mss: Bytes) {
        let Some(bound) = self.bound else { return };
        let Some((rtt, floor)) = heard.rtt else { return };
        if self.rises_at == Instant::FAR_FUTURE {
            self.rises_at = heard.now + rtt;
            return;
        }
        self.was_idle |= rtt < floor + heard.near;
        if heard.now < self.rises_at {
            return;
        }
        self.idle =
            if core::mem::take(&mut self.was_idle) { (self.idle + 1).min(DOUBLINGS_MAX + 1) } else { 0 };
        self.rises_at = heard.now + rtt;
        if !heard.is_in_use {
            return;
        }
        let doublings = self.idle.saturating_sub(1);
        let step = ((bound.get() / RISE) << doublings).max(mss.get() / 4);
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

    /// M in bytes after a mark at 100 of 120 kB and so many round trips of 50 ms, each of which met a queue of
    /// `queue_ms`.
    fn after(round_trips: u64, queue_ms: u64) -> Option<u64> {
        let mut marks = Marks::default();
        marks.on_mark(Bytes::new(120_000), Bytes::new(100_000), MSS);
        // The first one only says when a round trip is over.
        for at in 0..=round_trips * 50 {
            let rtt = Some((ms(40 + queue_ms), ms(40)));
            let now = Instant::from_millis(1_000 + at);
            let window = Bytes::new(120_000);
            marks.on_ack(&Heard { rtt, near: ms(2), window, is_in_use: true, now }, MSS);
        }
        marks.window().map(Bytes::get)
    }

    #[test]
    fn a_mark_leaves_four_fifths_which_rise_by_a_part_in_a_round_trip() {
        assert_eq!(after(0, 10), Some(80_000));
        assert_eq!(after(1, 10), Some(80_000 + 80_000 / 128));
        assert_eq!(after(2, 10), Some(80_625 + 80_625 / 128));
    }

    #[test]
    fn without_a_queue_it_rises_faster_and_ends() {
        assert_eq!(after(1, 0), after(1, 10), "it may be the mark's own doing");
        let (idle, queued) = (after(4, 0).unwrap(), after(4, 10).unwrap());
        assert!(idle > queued + 6_000, "{idle}, {queued}");
        assert_eq!(after(16, 0), None);
    }

    #[test]
    fn marks_again_and_again_leave_four_segments() {
        let mut marks = Marks::default();
        let mut window = Bytes::new(100_000);
        for _ in 0..60 {
            marks.on_mark(window, window, MSS);
            window = marks.window().unwrap();
        }
        assert_eq!(window, Bytes::new(4_000));
    }
}
