//! [`Policer`]: a token bucket ahead of the queue, which drops what exceeds a rate.

use units::{Bytes, Instant, Rate};

use crate::LinkError;

/// Bits times nanoseconds of a second: the unit in which a level is exact at every rate.
const LEVELS_PER_BYTE: u128 = 8 * 1_000_000_000;

/// A rate that is enforced by dropping, without a queue (RFC 2698 with one rate). A packet that is let through takes its
/// size out of a bucket of `burst` bytes, which is full at first and fills at `rate`; one that finds too little is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Rate above which no more is let through in the long run.
    pub rate: Rate,
    /// Bytes that may come at once.
    pub burst: Bytes,
}

impl Policer {
    pub(crate) fn check(&self) -> Result<(), LinkError> {
        let zero = [("policer.rate", self.rate.is_zero()), ("policer.burst", self.burst == Bytes::ZERO)];
        match zero.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((name, _)) => Err(LinkError::setting(name, "must be above zero")),
            None => Ok(()),
        }
    }
}

/// The bucket of a [`Policer`].
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    policer: Policer,
    level: u128,
    filled: Instant,
}

impl Bucket {
    pub(crate) fn new(policer: Policer, start: Instant) -> Self {
        Self { policer, level: u128::from(policer.burst.get()) * LEVELS_PER_BYTE, filled: start }
    }

    /// Takes a packet of `size` out of the bucket, or says that it is to be dropped.
    pub(crate) fn admits(&mut self, size: Bytes, now: Instant) -> bool {
        let passed = u128::from(now.saturating_since(self.filled).as_nanos());
        let most = u128::from(self.policer.burst.get()) * LEVELS_PER_BYTE;
        self.level = (self.level + passed * u128::from(self.policer.rate.as_bps())).min(most);
        self.filled = self.filled.max(now);
        let cost = u128::from(size.get()) * LEVELS_PER_BYTE;
        let is_admitted = cost <= self.level;
        if is_admitted {
            self.level -= cost;
        }
        is_admitted
    }
}
