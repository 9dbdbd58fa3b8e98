//! Traits of amounts: a number of something from zero up, whose arithmetic saturates.

/// `a · b ÷ divisor`, rounded down, saturating; through 128 bits where 64 do not do, which costs a multiple.
/// The divisor is not zero.
pub(crate) const fn ratio(a: u64, b: u64, divisor: u64) -> u64 {
    if let Some(product) = a.checked_mul(b) {
        return product / divisor;
    }
    let wide = a as u128 * b as u128 / divisor as u128;
    if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 }
}

/// Gives an amount `mul_ratio`.
macro_rules! scalable {
    ($name:ident) => {
        impl $name {
            /// `self · numerator ÷ denominator` through 128 bits, rounded down, saturating.
            ///
            #[doc = concat!("A zero denominator gives [`", stringify!($name), "::MAX`].")]
            #[must_use]
            #[inline]
            pub const fn mul_ratio(self, numerator: u64, denominator: u64) -> Self {
                if denominator == 0 {
                    return Self::MAX;
                }
                Self($crate::quantity::ratio(self.0, numerator, denominator))
            }
        }
    };
}

/// Gives an amount sums and differences.
macro_rules! additive {
    ($name:ident) => {
        impl $name {
            /// `self − other`, at least zero.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl core::ops::Add for $name {
            type Output = Self;
            fn add(self, rhs: Self) -> Self {
                Self(self.0.saturating_add(rhs.0))
            }
        }
        impl core::ops::AddAssign for $name {
            fn add_assign(&mut self, rhs: Self) {
                *self = *self + rhs;
            }
        }
        impl core::ops::Sub for $name {
            type Output = Self;
            fn sub(self, rhs: Self) -> Self {
                self.saturating_sub(rhs)
            }
        }
        impl core::ops::SubAssign for $name {
            fn sub_assign(&mut self, rhs: Self) {
                *self = *self - rhs;
            }
        }
    };
}

pub(crate) use {additive, scalable};
