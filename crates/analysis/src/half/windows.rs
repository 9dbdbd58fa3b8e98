//! Windows that one direction's sender advertises.

use units::Duration;

use crate::optional_instant::OptionalInstant;

/// Windows advertised.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Windows {
    /// The last field, not scaled.
    pub(crate) raw: Option<u16>,
    /// Bytes.
    pub(crate) min: Option<u32>,
    /// Bytes.
    pub(crate) max: u32,
    pub(crate) zero_since: OptionalInstant,
}

/// What is rare about them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowEvents {
    /// Packets with a window of zero.
    pub(crate) zero: u64,
    pub(crate) zero_time: Duration,
    /// Acknowledgements without news but for the window.
    pub(crate) updates: u64,
}

/// The window that a packet advertised last, bytes; none while the scale is not known. Half the size of
/// `Option<u32>`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window(u32);

impl Window {
    pub(crate) fn new(bytes: Option<u32>) -> Self {
        // No window is so large: 65,535 shifted by 14.
        Self(bytes.unwrap_or(u32::MAX))
    }

    #[inline]
    pub(crate) fn get(self) -> Option<u32> {
        (self.0 != u32::MAX).then_some(self.0)
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::new(None)
    }
}
