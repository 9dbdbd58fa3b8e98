//! [`TimestampRtt`]: round trips from the first sight of a timestamp value to the first sight of its echo.
//!
//! The method of passive ping: it needs no sequence numbers and works for retransmissions too (RFC 7323 §4).

use smallvec::SmallVec;
use units::{Duration, Instant};

/// An echo may be captured before its value, if that is newer by no more than this.
const EARLY_MAX: u32 = 1 << 16;

/// Values waiting for their echo at most, of which the older half is then given up; at a clock of 1 ms enough
/// for half a second at least.
const WAITING_MAX: usize = 1_024;

/// True when `a` is newer than `b` on the circle of timestamp values.
pub(crate) const fn is_newer(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Timestamp values of one direction that wait for their echo.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimestampRtt {
    /// Oldest first; of a short path only a few wait.
    waiting: SmallVec<[Waiting; 4]>,
    newest: Option<u32>,
}

/// A value, and when it was first seen; in twelve bytes, since each flow has room for four in each direction.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    value: u32,
    since: [u32; 2],
}

impl Waiting {
    fn new(value: u32, since: Instant) -> Self {
        let since = since.as_nanos();
        Self { value, since: [(since >> 32) as u32, since as u32] }
    }

    fn since(self) -> Instant {
        let [high, low] = self.since.map(u64::from);
        Instant::from_nanos(high << 32 | low)
    }
}

impl TimestampRtt {
    /// A segment with `value` passed.
    #[inline]
    pub(crate) fn on_sent(&mut self, value: u32, now: Instant) {
        if self.newest.is_none_or(|newest| is_newer(value, newest)) {
            self.newest = Some(value);
            if self.waiting.len() >= WAITING_MAX {
                self.waiting.drain(..WAITING_MAX / 2);
            }
            self.waiting.push(Waiting::new(value, now));
        }
    }

    /// An echo of `value` passed the other way; a sample if it is the first.
    #[inline]
    pub(crate) fn on_echo(&mut self, value: u32, now: Instant) -> Option<Duration> {
        if self.newest.is_some_and(|newest| (1..EARLY_MAX).contains(&value.wrapping_sub(newest))) {
            // Captured before its value, whose first sight is then too late to tell anything.
            self.newest = Some(value);
        }
        let older = self.waiting.iter().take_while(|waiting| !is_newer(waiting.value, value)).count();
        let newest = *self.waiting.get(older.checked_sub(1)?)?;
        self.waiting.copy_within(older.., 0);
        self.waiting.truncate(self.waiting.len() - older);
        (newest.value == value).then(|| now.saturating_since(newest.since()))
    }

    /// True when another echo of `value` can give no sample: all that will be sent is newer.
    #[inline]
    pub(crate) fn is_settled(&self, value: u32) -> bool {
        self.newest.is_some_and(|newest| !is_newer(value, newest))
    }

    /// A new one with the memory that this one holds.
    pub(crate) fn renewed(&mut self) -> Self {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.clear();
        Self { waiting, newest: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_value_to_first_echo() {
        let mut rtt = TimestampRtt::default();
        for (value, ms) in [(u32::MAX, 0), (u32::MAX, 1), (3, 5), (9, 6)] {
            rtt.on_sent(value, Instant::from_millis(ms));
        }
        assert_eq!(rtt.on_echo(u32::MAX, Instant::from_millis(40)), Some(Duration::from_millis(40)));
        assert_eq!(rtt.on_echo(u32::MAX, Instant::from_millis(41)), None);
        assert!(rtt.is_settled(9) && !rtt.is_settled(10), "10 may still be sent");
        assert_eq!(rtt.on_echo(9, Instant::from_millis(50)), Some(Duration::from_millis(44)));
        assert_eq!(rtt.on_echo(3, Instant::from_millis(51)), None, "overtaken");
        assert_eq!(rtt.on_echo(12, Instant::from_millis(60)), None, "captured before its value");
        rtt.on_sent(12, Instant::from_millis(61));
        assert_eq!(rtt.on_echo(12, Instant::from_millis(62)), None, "not the first echo");
    }
}
