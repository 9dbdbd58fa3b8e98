//! [`CoDel`]: controlled delay (RFC 8289), with marks in place of drops where packets can take them.

use units::{Bytes, Duration, Instant};

use super::QueueVerdict;

/// A queue of no more than a full packet is none (RFC 8289 §5.4, `maxpacket`).
const LEAST: Bytes = Bytes::new(1_514);

/// Intervals after the last episode within which a new one goes on at its rate (RFC 8289 §5.4).
const RECENT: u64 = 16;

/// Settings of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelParams {
    /// TARGET: the queueing time that may stand. Default 5 ms (RFC 8289 §4.4).
    pub target: Duration,
    /// INTERVAL: a long usual round trip. Default 100 ms (RFC 8289 §4.3).
    pub interval: Duration,
}

impl Default for CoDelParams {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100) }
    }
}

/// State of the queue.
#[derive(Clone, Debug)]
pub(super) struct CoDel {
    params: CoDelParams,
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    is_dropping: bool,
}

impl CoDel {
    pub(super) const fn new(params: CoDelParams) -> Self {
        Self {
            params,
            first_above: None,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
            is_dropping: false,
        }
    }

    /// Judges the first packet, which has waited for `sojourn`; `left` bytes wait, it included.
    pub(super) fn judge(
        &mut self,
        sojourn: Duration,
        left: Bytes,
        is_capable: bool,
        now: Instant,
    ) -> QueueVerdict {
        let is_above = self.is_above(sojourn, left, now);
        let signals = if self.is_dropping { self.goes_on(is_above, now) } else { self.begins(is_above, now) };
        match (signals, is_capable) {
            (false, _) => QueueVerdict::Leaves,
            (true, true) => QueueVerdict::Marked,
            (true, false) => QueueVerdict::Dropped,
        }
    }

    fn is_above(&mut self, sojourn: Duration, left: Bytes, now: Instant) -> bool {
        if sojourn < self.params.target || left <= LEAST {
            self.first_above = None;
            return false;
        }
        now >= *self.first_above.get_or_insert(now + self.params.interval)
    }

    fn goes_on(&mut self, is_above: bool, now: Instant) -> bool {
        self.is_dropping = is_above;
        if !is_above || now < self.drop_next {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.drop_next += self.pause();
        true
    }

    fn begins(&mut self, is_above: bool, now: Instant) -> bool {
        if !is_above {
            return false;
        }
        self.is_dropping = true;
        let since = self.count.saturating_sub(self.last_count);
        let was_recent = now.saturating_since(self.drop_next) < self.params.interval * RECENT;
        self.count = if since > 1 && was_recent { since } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + self.pause();
        true
    }

    /// INTERVAL ÷ √count, the control law (RFC 8289 §4.2).
    fn pause(&self) -> Duration {
        let squared = u128::from(self.params.interval.as_nanos()).pow(2) / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(squared.isqrt()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signals(params: CoDelParams, sojourn_ms: u64, span_ms: u64) -> Vec<u64> {
        let mut codel = CoDel::new(params);
        let judge = |t: &u64| {
            let now = Instant::from_millis(10_000 + t);
            codel.judge(Duration::from_millis(sojourn_ms), Bytes::new(100_000), true, now)
                == QueueVerdict::Marked
        };
        (0..span_ms).filter(judge).collect()
    }

    #[test]
    fn a_standing_queue_is_marked_after_an_interval_and_ever_sooner() {
        let params = CoDelParams::default();
        assert_eq!(signals(params, 4, 1_000), [0; 0]);
        // 100 ms, 100 ms ÷ √1, ÷ √2, ÷ √3: RFC 8289 §4.2.
        assert_eq!(signals(params, 5, 450)[..4], [100, 200, 271, 329]);
    }

    #[test]
    fn what_knows_no_marks_is_dropped_and_a_single_packet_is_no_queue() {
        let judge = |left: u64, is_capable: bool| {
            let mut codel = CoDel::new(CoDelParams::default());
            let sojourn = Duration::from_millis(9);
            let fates = (0..150)
                .map(|t| codel.judge(sojourn, Bytes::new(left), is_capable, Instant::from_millis(1_000 + t)));
            fates.filter(|fate| *fate != QueueVerdict::Leaves).collect::<Vec<_>>()
        };
        assert_eq!(judge(100_000, false), [QueueVerdict::Dropped]);
        assert_eq!(judge(100_000, true), [QueueVerdict::Marked]);
        assert_eq!(judge(1_500, true), []);
    }
}
