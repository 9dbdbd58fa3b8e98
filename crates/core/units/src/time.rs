//! [`Instant`] and [`Duration`]: time in integer nanoseconds.

use core::cmp::Ordering;
use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

use stored::{Layouts, Reader, Stored, StoredError, Writer};

/// Gives a number of nanoseconds what it is made from and read as; `from` says from when they count.
macro_rules! nanoseconds {
    ($name:ident, $from:literal) => {
        impl $name {
            #[doc = concat!("`ns` nanoseconds", $from, ".")]
            #[must_use]
            pub const fn from_nanos(ns: u64) -> Self {
                Self::of(ns)
            }
            #[doc = concat!("`us` microseconds", $from, ", saturating.")]
            #[must_use]
            pub const fn from_micros(us: u64) -> Self {
                Self::of(us.saturating_mul(1_000))
            }
            #[doc = concat!("`ms` milliseconds", $from, ", saturating.")]
            #[must_use]
            pub const fn from_millis(ms: u64) -> Self {
                Self::of(ms.saturating_mul(1_000_000))
            }
            #[doc = concat!("Nanoseconds", $from, ".")]
            #[must_use]
            pub const fn as_nanos(self) -> u64 {
                self.nanos()
            }
            #[doc = concat!("Whole milliseconds", $from, ", rounded down.")]
            #[must_use]
            pub const fn as_millis(self) -> u64 {
                self.nanos() / 1_000_000
            }
        }
    };
}

/// A span of time in nanoseconds, 0 to about 584 years. Arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, stored::Stored)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span that can be expressed, used as "never".
    pub const MAX: Self = Self(u64::MAX);

    const fn of(ns: u64) -> Self {
        Self(ns)
    }
    const fn nanos(self) -> u64 {
        self.0
    }
    /// A span of `s` seconds, saturating.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// Length in whole microseconds, rounded down.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Length in whole seconds, rounded down.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }
    /// Length in seconds as a float: for display and reports, never for protocol state.
    #[must_use]
    #[allow(clippy::float_arithmetic)]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Length in milliseconds as a float: for display and reports, never for protocol state.
    #[must_use]
    #[allow(clippy::float_arithmetic)]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// True for a span of zero length.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

nanoseconds!(Duration, "");
crate::quantity::scalable!(Duration);
crate::quantity::additive!(Duration);
impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}
impl Div<u64> for Duration {
    type Output = Self;
    /// Rounded down; dividing by zero gives [`Duration::MAX`].
    #[inline]
    fn div(self, rhs: u64) -> Self {
        self.0.checked_div(rhs).map_or(Self::MAX, Self)
    }
}

impl fmt::Display for Duration {
    /// Prints with three decimals in the largest unit that keeps the whole part non-zero: `12.500 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (div, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        write!(f, "{}.{:03} {unit}", self.0 / div, self.0 % div * 1_000 / div)
    }
}
impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A point in time: nanoseconds since an origin chosen by the core's caller.
///
/// It can be built from a number and saved; nothing here reads a clock. An `Option` of it takes no more room, since
/// what is kept is the number of nanoseconds that the end of a `u64` is away, which is never 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instant(NonZeroU64);

impl Instant {
    /// The origin of time.
    pub const ZERO: Self = Self(NonZeroU64::MAX);
    /// The far end of time, used as "never": 2⁶⁴ − 2 ns.
    pub const FAR_FUTURE: Self = Self(NonZeroU64::MIN);

    const fn of(ns: u64) -> Self {
        Self::before_the_end(!ns)
    }
    const fn nanos(self) -> u64 {
        !self.0.get()
    }
    const fn before_the_end(left: u64) -> Self {
        match NonZeroU64::new(left) {
            Some(left) => Self(left),
            None => Self::FAR_FUTURE,
        }
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(earlier.0.get().saturating_sub(self.0.get()))
    }
}

nanoseconds!(Instant, " since the origin");

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}
impl Ord for Instant {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.cmp(&self.0)
    }
}
impl PartialOrd for Instant {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, rhs: Duration) -> Self {
        Self::before_the_end(self.0.get().saturating_sub(rhs.0))
    }
}
impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}
impl Sub<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}
/// As nanoseconds; the far end of time is the largest number.
impl Stored for Instant {
    #[inline]
    fn store(&self, out: &mut Writer) {
        let ns = if *self == Self::FAR_FUTURE { u64::MAX } else { self.nanos() };
        ns.store(out);
    }
    #[inline]
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        from.value().map(Self::of)
    }
    fn layout(layouts: &mut Layouts) {
        layouts.of::<Self>("Instant", |layouts| layouts.value::<u64>("0"));
    }
}
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.nanos() / 1_000_000_000, self.nanos() % 1_000_000_000)
    }
}
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_picks_a_readable_unit() {
        assert_eq!(Duration::from_nanos(12).to_string(), "12 ns");
        assert_eq!(Duration::from_micros(12).to_string(), "12.000 µs");
        assert_eq!(Duration::from_nanos(12_500_000).to_string(), "12.500 ms");
        assert_eq!(Duration::from_millis(61_250).to_string(), "61.250 s");
    }

    #[test]
    fn an_instant_is_as_large_as_its_number_and_none_is_no_larger() {
        for ns in [0, 1, 1_000_000_007, u64::MAX - 1] {
            let at = Instant::from_nanos(ns);
            assert_eq!(at.as_nanos(), ns);
            assert_eq!(stored::to_bytes(&at), if ns == u64::MAX - 1 { [0xff; 8] } else { ns.to_le_bytes() });
            assert_eq!(stored::from_bytes::<Instant>(1, &stored::to_bytes(&at)), Ok(at));
            assert!(at <= at + Duration::from_nanos(1) && at >= at - Duration::from_nanos(1));
        }
        assert_eq!(Instant::from_nanos(u64::MAX), Instant::FAR_FUTURE);
        assert!(Instant::ZERO < Instant::from_nanos(1) && Instant::from_nanos(1) < Instant::FAR_FUTURE);
        assert_eq!(Instant::from_nanos(7) + Duration::from_nanos(5), Instant::from_nanos(12));
        assert_eq!(Instant::from_nanos(7) - Duration::from_nanos(5), Instant::from_nanos(2));
        assert_eq!(size_of::<Option<Instant>>(), 8);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Duration::MAX + Duration::from_secs(1), Duration::MAX);
        assert_eq!(Duration::ZERO - Duration::from_secs(1), Duration::ZERO);
        assert_eq!(Instant::FAR_FUTURE + Duration::from_secs(1), Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO.saturating_since(Instant::from_millis(5)), Duration::ZERO);
        assert_eq!(Instant::from_millis(5).saturating_since(Instant::ZERO), Duration::from_millis(5));
        assert_eq!(Instant::from_millis(5) - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Duration::from_secs(3) / 0, Duration::MAX);
        assert_eq!(Duration::from_secs(3).mul_ratio(1, 0), Duration::MAX);
        assert_eq!(Duration::MAX.mul_ratio(3, 2), Duration::MAX);
    }
}
