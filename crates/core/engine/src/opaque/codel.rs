//! [`CoDel`]: controlled delay (RFC 8289), in time in which the subscriber was served.
//!
//! A radio that stands still for a second is no queue that somebody's window is too large for. So the clock of
//! sojourn times runs only while evidence comes that packets leave.

use units::{Duration, Instant};

/// TARGET: what a flow alone needs to follow a link that varies (docs/algorithms/adaptive.md has what less of it costs).
/// Its own delay only: the others do not wait behind it.
const TARGET: Duration = Duration::from_millis(250);

/// INTERVAL: a long usual round trip.
const INTERVAL: Duration = Duration::from_millis(300);

/// Longest wait, after which a packet is dropped at once: the rest of an ended flow is no queue of anybody's.
pub(super) const LONGEST: Duration = Duration::from_millis(1_000);

/// A flow with less than this waiting has no queue, bytes.
pub(super) const LEAST: u64 = 3_028;

/// Verdict on the packet at the front of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueVerdict {
    /// It leaves.
    Leaves,
    /// It is marked, or dropped where its hosts know no marks.
    Signals,
    /// It is dropped.
    Drops,
}

/// State of one queue.
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
pub(crate) struct CoDel {
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    is_dropping: bool,
}

impl CoDel {
    /// Judges the packet at the front, which has waited for `sojourn` of service at `clock`; `left` bytes wait
    /// with it.
    pub(crate) fn judge(&mut self, sojourn: Duration, left: u64, clock: Instant) -> QueueVerdict {
        if sojourn > LONGEST && left > LEAST {
            return QueueVerdict::Drops;
        }
        if self.signals(sojourn, left, clock) { QueueVerdict::Signals } else { QueueVerdict::Leaves }
    }

    fn signals(&mut self, sojourn: Duration, left: u64, clock: Instant) -> bool {
        let is_above = self.is_above(sojourn, left, clock);
        if self.is_dropping {
            self.is_dropping = is_above;
            if !is_above || clock < self.drop_next {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.drop_next += pause(self.count);
            return true;
        }
        if !is_above {
            return false;
        }
        self.is_dropping = true;
        // RFC 8289 §4.4: goes on where it was if that is not long ago.
        let was_recent = clock.saturating_since(self.drop_next) < INTERVAL * 16;
        let since = self.count.saturating_sub(self.last_count);
        self.count = if was_recent && since > 1 { since } else { 1 };
        self.last_count = self.count;
        self.drop_next = clock + pause(self.count);
        true
    }

    /// The sojourn time has been above the target for an interval.
    fn is_above(&mut self, sojourn: Duration, left: u64, clock: Instant) -> bool {
        if sojourn < TARGET || left <= LEAST {
            self.first_above = None;
            return false;
        }
        clock >= *self.first_above.get_or_insert(clock + INTERVAL)
    }
}

/// INTERVAL ÷ √count.
fn pause(count: u32) -> Duration {
    let squared = u128::from(INTERVAL.as_nanos()).pow(2) / u128::from(count.max(1));
    Duration::from_nanos(u64::try_from(squared.isqrt()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Times of drops where the sojourn time is as `sojourn` says at each ms of `span`.
    fn drops(span: u64, sojourn: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut codel = CoDel::default();
        let drops = |t: &u64| {
            codel.judge(ms(sojourn(*t)), 100_000, Instant::from_millis(1_000 + *t)) != QueueVerdict::Leaves
        };
        (0..span).filter(drops).collect()
    }

    #[test]
    fn a_standing_queue_is_dropped_from_ever_sooner() {
        assert_eq!(drops(1_000, |_| 249), [0; 0]);
        let times = drops(1_400, |_| 251);
        assert_eq!(times[..3], [300, 600, 813], "300 ms, 300 ms, 300 ms ÷ √2");
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted_by(|a, b| a >= b), "{gaps:?}");
        assert_eq!(drops(10, |_| 1_001).len(), 10, "each");
    }

    #[test]
    fn a_queue_that_empties_within_an_interval_loses_nothing() {
        assert_eq!(drops(5_000, |t| if t % 300 < 299 { 330 } else { 0 }), [0; 0]);
    }

    #[test]
    fn what_is_short_has_no_queue() {
        let mut codel = CoDel::default();
        assert!(
            (0..1_000).all(|t| codel.judge(ms(500), LEAST, Instant::from_millis(t)) == QueueVerdict::Leaves)
        );
    }
}
