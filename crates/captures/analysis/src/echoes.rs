//! [`Echoes`]: round trips as the receiver of data sees them.
//!
//! Data echoes the timestamp of the acknowledgement that it follows (RFC 7323 §4.3). Beside the receiver, its own
//! packets say which value its clock had when, so the value says when that acknowledgement left. From there to
//! the data is a round trip with all its queues.

use units::{Duration, Instant};

use crate::samples::Samples;
use crate::timestamps::is_newer;

/// Ticks and time after which the clock's rate is known.
const TICKS_MIN: u32 = 20;
const TIME_MIN: Duration = Duration::from_millis(100);

/// Knowledge of a receiver's clock, and the round trips found.
#[derive(Clone, Debug)]
pub(crate) struct Echoes {
    first: (u32, Instant),
    newest: (u32, Instant),
    last_echo: u32,
    samples: Samples<Duration>,
}

impl Echoes {
    /// Begins with a packet of the receiver.
    pub(crate) fn new(now: Instant, stamp: u32) -> Self {
        Self { first: (stamp, now), newest: (stamp, now), last_echo: 0, samples: Samples::default() }
    }

    /// The receiver sent a packet with `stamp`.
    #[inline]
    pub(crate) fn on_stamp(&mut self, now: Instant, stamp: u32) {
        if is_newer(stamp, self.newest.0) {
            self.newest = (stamp, now);
        }
    }

    /// Data came with `echo`; the first with each counts.
    #[inline]
    pub(crate) fn on_echo(&mut self, now: Instant, echo: u32) {
        if echo != self.last_echo {
            self.last_echo = echo;
            let sample = self.left_at(echo).map(|left| now.saturating_since(left));
            sample.into_iter().for_each(|rtt| self.samples.record(rtt));
        }
    }

    /// Time when the clock had this value.
    fn left_at(&self, stamp: u32) -> Option<Instant> {
        let ((first, since), (newest, until)) = (self.first, self.newest);
        let (ticks, time) = (newest.wrapping_sub(first), until.saturating_since(since));
        let age = stamp.wrapping_sub(first);
        let is_known = ticks >= TICKS_MIN && time >= TIME_MIN && age <= ticks;
        is_known.then(|| since + time.mul_ratio(u64::from(age), u64::from(ticks)))
    }

    pub(crate) fn samples(&self) -> &Samples<Duration> {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receivers_clock_says_when_an_acknowledgement_left() {
        // Ticks of 4 ms, through the wrap.
        let value = |ms: u64| 0xffff_fff0_u32.wrapping_add((ms / 4) as u32);
        let mut echoes = Echoes::new(Instant::ZERO, value(0));
        echoes.on_echo(Instant::from_millis(30), value(0));
        assert_eq!(echoes.samples().count(), 0, "its rate is not known");
        (1..=100).for_each(|i| echoes.on_stamp(Instant::from_millis(4 * i), value(4 * i)));
        echoes.on_echo(Instant::from_millis(400), value(200));
        echoes.on_echo(Instant::from_millis(410), value(200));
        assert_eq!((echoes.samples().count(), echoes.samples().min()), (1, Some(Duration::from_millis(200))));
    }
}
