//! [`SeqNum`] and [`WindowScale`]: TCP's own arithmetic.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A TCP sequence number: a point on a circle of 2^32 (RFC 9293 §3.4).
///
/// There is no `Ord`: two numbers compare only within half the circle. Ask [`SeqNum::is_before`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, stored::Stored)]
pub struct SeqNum(u32);

impl SeqNum {
    /// The number as carried in a header.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value)
    }
    /// The value to put into a header.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
    /// True when `self` comes strictly before `other` on the shorter arc.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }
    /// True when `self` comes strictly after `other` on the shorter arc.
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        other.is_before(self)
    }
    /// True when `self` equals `other` or comes before it.
    #[must_use]
    pub const fn is_at_or_before(self, other: Self) -> bool {
        !other.is_before(self)
    }
    /// True when `self` equals `other` or comes after it.
    #[must_use]
    pub const fn is_at_or_after(self, other: Self) -> bool {
        !self.is_before(other)
    }
    /// Bytes from `earlier` to `self`, modulo 2^32; large when `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
    /// Signed distance from `other` to `self` on the shorter arc.
    #[must_use]
    pub const fn distance_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }
    /// True when `self` lies in `[start, start + len)`.
    #[must_use]
    pub const fn is_within(self, start: Self, len: u32) -> bool {
        self.since(start) < len
    }
    /// The later of two numbers on the shorter arc.
    #[must_use]
    pub const fn later_of(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }
    /// The earlier of two numbers on the shorter arc.
    #[must_use]
    pub const fn earlier_of(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }
}

impl Add<u32> for SeqNum {
    type Output = Self;
    fn add(self, rhs: u32) -> Self {
        Self(self.0.wrapping_add(rhs))
    }
}
impl AddAssign<u32> for SeqNum {
    fn add_assign(&mut self, rhs: u32) {
        *self = *self + rhs;
    }
}
impl Sub<u32> for SeqNum {
    type Output = Self;
    fn sub(self, rhs: u32) -> Self {
        Self(self.0.wrapping_sub(rhs))
    }
}
impl fmt::Debug for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The window scale option's shift count, 0 to 14 (RFC 7323 §2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, stored::Stored)]
pub struct WindowScale(u8);

impl WindowScale {
    /// No scaling: what applies when either side did not send the option.
    pub const NONE: Self = Self(0);
    /// The largest shift count allowed.
    pub const MAX: Self = Self(14);

    /// A shift count; values above 14 are taken as 14 (RFC 7323 §2.3).
    #[must_use]
    pub const fn new(shift: u8) -> Self {
        if shift > Self::MAX.0 { Self::MAX } else { Self(shift) }
    }
    /// The shift count.
    #[must_use]
    pub const fn shift(self) -> u8 {
        self.0
    }
    /// The window in bytes that a header field means.
    #[must_use]
    pub const fn window(self, field: u16) -> u32 {
        (field as u32) << self.0
    }
    /// The header field for a window of `bytes`, rounded down, at most 65,535.
    #[must_use]
    pub const fn field(self, bytes: u32) -> u16 {
        let scaled = bytes >> self.0;
        if scaled > u16::MAX as u32 { u16::MAX } else { scaled as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_holds_across_the_wrap(start: u32, step in 1u32..0x7fff_ffff) {
            let a = SeqNum::new(start);
            let b = a + step;
            prop_assert!(a.is_before(b) && b.is_after(a) && !b.is_before(a));
            prop_assert!(a.is_at_or_before(b) && a.is_at_or_before(a));
            prop_assert_eq!(b.since(a), step);
            prop_assert_eq!(b - step, a);
            prop_assert_eq!(a.later_of(b), b);
            prop_assert_eq!(a.earlier_of(b), a);
            prop_assert!(a.is_within(a, step) && !b.is_within(a, step));
        }

        #[test]
        fn window_field_never_promises_more(bytes: u32, shift in 0u8..=20) {
            let scale = WindowScale::new(shift);
            prop_assert!(scale.window(scale.field(bytes)) <= bytes);
        }
    }
}
