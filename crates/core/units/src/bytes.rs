//! [`Bytes`]: an amount of data.

use core::fmt;

/// An amount of data in bytes. Arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, stored::Stored)]
pub struct Bytes(u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount, used as "no limit".
    pub const MAX: Self = Self(u64::MAX);

    /// `n` bytes.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }
    /// `n` KiB (1024 bytes), saturating.
    #[must_use]
    pub const fn from_kib(n: u64) -> Self {
        Self(n.saturating_mul(1024))
    }
    /// `n` MiB (1024² bytes), saturating.
    #[must_use]
    pub const fn from_mib(n: u64) -> Self {
        Self(n.saturating_mul(1024 * 1024))
    }
    /// The amount as a number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<usize> for Bytes {
    fn from(n: usize) -> Self {
        Self(n as u64)
    }
}
impl From<u32> for Bytes {
    fn from(n: u32) -> Self {
        Self(u64::from(n))
    }
}
crate::quantity::scalable!(Bytes);
crate::quantity::additive!(Bytes);
impl fmt::Display for Bytes {
    /// Prints `999 B`, `12.3 KB`, `4.0 MB` in decimal units.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (div, unit) = match self.0 {
            0..1_000 => return write!(f, "{} B", self.0),
            1_000..1_000_000 => (1_000, "KB"),
            1_000_000..1_000_000_000 => (1_000_000, "MB"),
            _ => (1_000_000_000, "GB"),
        };
        write!(f, "{}.{} {unit}", self.0 / div, self.0 % div * 10 / div)
    }
}
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_and_saturation() {
        assert_eq!(Bytes::new(999).to_string(), "999 B");
        assert_eq!(Bytes::new(12_345).to_string(), "12.3 KB");
        assert_eq!(Bytes::from_mib(4).to_string(), "4.1 MB");
        assert_eq!(Bytes::new(3) - Bytes::new(5), Bytes::ZERO);
        assert_eq!(Bytes::MAX + Bytes::new(1), Bytes::MAX);
    }
}
