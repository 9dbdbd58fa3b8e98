//! [`OptionalInstant`]: a point in time, or none, in eight bytes.

use units::Instant;

/// A point in time that may not have come yet. Half the size of `Option<Instant>`: flows have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionalInstant(u64);

impl OptionalInstant {
    pub(crate) const NONE: Self = Self(u64::MAX);

    #[inline]
    pub(crate) fn at(time: Instant) -> Self {
        Self(time.as_nanos())
    }

    #[inline]
    pub(crate) fn get(self) -> Option<Instant> {
        (self != Self::NONE).then_some(Instant::from_nanos(self.0))
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Gives it, and has none from here on.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Instant> {
        std::mem::replace(self, Self::NONE).get()
    }
}

impl Default for OptionalInstant {
    fn default() -> Self {
        Self::NONE
    }
}
