//! [`Rate`]: data per time.

use core::fmt;

use crate::quantity::ratio;
use crate::{Bytes, Duration};

/// Nanoseconds of a second, eightfold: a rate counts bits, an amount bytes.
const BIT_NANOS: u64 = 8 * 1_000_000_000;

/// A data rate in bits per second, decimal units, 0 to about 18 Ebit/s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, stored::Stored)]
pub struct Rate(u64);

impl Rate {
    /// No data at all.
    pub const ZERO: Self = Self(0);
    /// The largest rate, used as "no limit".
    pub const MAX: Self = Self(u64::MAX);

    /// `bps` bits per second.
    #[must_use]
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }
    /// `kbps` kilobits (1,000 bits) per second, saturating.
    #[must_use]
    pub const fn from_kbps(kbps: u64) -> Self {
        Self(kbps.saturating_mul(1_000))
    }
    /// `mbps` megabits (1,000,000 bits) per second, saturating.
    #[must_use]
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps.saturating_mul(1_000_000))
    }
    /// The rate that moves `amount` in `time`, rounded down; [`Rate::MAX`] for no time.
    #[must_use]
    #[inline]
    pub const fn from_transfer(amount: Bytes, time: Duration) -> Self {
        if time.is_zero() {
            return Self::MAX;
        }
        Self(ratio(amount.get(), BIT_NANOS, time.as_nanos()))
    }
    /// Bits per second.
    #[must_use]
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Megabits per second as a float: for display and reports, never for protocol state.
    #[must_use]
    #[allow(clippy::float_arithmetic)]
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// True for a rate of zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// Time to move `amount`, rounded up; [`Duration::MAX`] at rate zero.
    #[must_use]
    #[inline]
    pub const fn time_for(self, amount: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        if let Some(product) = amount.get().checked_mul(BIT_NANOS) {
            return Duration::from_nanos(product.div_ceil(self.0));
        }
        let wide = (amount.get() as u128 * BIT_NANOS as u128).div_ceil(self.0 as u128);
        Duration::from_nanos(if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 })
    }
    /// Whole bytes moved in `time`, rounded down, saturating.
    #[must_use]
    #[inline]
    pub const fn bytes_in(self, time: Duration) -> Bytes {
        Bytes::new(ratio(self.0, time.as_nanos(), BIT_NANOS))
    }
}

crate::quantity::scalable!(Rate);

impl fmt::Display for Rate {
    /// Prints in Mbit/s with three decimals: `12.500 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} Mbit/s", self.0 / 1_000_000, self.0 % 1_000_000 / 1_000)
    }
}
impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn display() {
        assert_eq!(Rate::from_kbps(12_500).to_string(), "12.500 Mbit/s");
        assert_eq!(Rate::from_bps(1).to_string(), "0.000 Mbit/s");
    }

    #[test]
    fn extremes() {
        assert_eq!(Rate::ZERO.time_for(Bytes::new(1)), Duration::MAX);
        assert_eq!(Rate::from_transfer(Bytes::new(1), Duration::ZERO), Rate::MAX);
        assert_eq!(Rate::MAX.bytes_in(Duration::MAX), Bytes::MAX);
    }

    proptest! {
        /// Whether 64 bits do or not, the quotient is that of 128.
        #[test]
        fn a_ratio_is_that_of_exact_arithmetic(a: u64, b: u64, shifts in (0u32..64, 0u32..64), d in 1u64..) {
            let (a, b) = (a >> shifts.0, b >> shifts.1);
            let exact = u128::from(a) * u128::from(b) / u128::from(d);
            prop_assert_eq!(ratio(a, b, d), u64::try_from(exact).unwrap_or(u64::MAX));
            let (rate, amount) = (Rate::from_bps(d), Bytes::new(a));
            let exact = (u128::from(a) * 8_000_000_000).div_ceil(u128::from(d));
            prop_assert_eq!(rate.time_for(amount).as_nanos(), u64::try_from(exact).unwrap_or(u64::MAX));
        }

        /// Pacing time rounds up and budgets round down: sending `n` bytes in `time_for(n)` never
        /// exceeds the budget, and one nanosecond less would.
        #[test]
        fn time_rounds_up_budget_rounds_down(bps in 1u64..10_000_000_000, n in 0u64..10_000_000) {
            let rate = Rate::from_bps(bps);
            let t = rate.time_for(Bytes::new(n));
            prop_assert!(rate.bytes_in(t) >= Bytes::new(n));
            if n > 0 && t != Duration::MAX {
                let less = t - Duration::from_nanos(1);
                prop_assert!(rate.bytes_in(less) < Bytes::new(n));
            }
        }
    }
}
