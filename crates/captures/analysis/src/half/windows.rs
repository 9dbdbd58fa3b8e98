//! Windows that one direction's sender advertises.

use units::Duration;

use crate::optional_instant::OptionalInstant;

/// The last window field, not scaled; what every packet compares its own with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastWindow {
    field: u16,
    state: LastWindowState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastWindowState {
    /// There was none, or that of a SYN before windows that are scaled.
    #[default]
    None,
    Known,
    /// [`Windows`] has it.
    Counted,
}

impl LastWindow {
    /// None, or one that [`Windows`] does not have.
    pub(crate) fn new(field: Option<u16>) -> Self {
        let state = if field.is_some() { LastWindowState::Known } else { LastWindowState::None };
        Self { field: field.unwrap_or(0), state }
    }

    /// One that [`Windows`] has.
    #[inline]
    pub(crate) fn counted(field: u16) -> Self {
        Self { field, state: LastWindowState::Counted }
    }

    #[inline]
    pub(crate) fn is(self, field: u16) -> bool {
        self.field == field && self.state != LastWindowState::None
    }

    #[inline]
    pub(crate) fn is_counted(self, field: u16) -> bool {
        self.field == field && self.state == LastWindowState::Counted
    }

    /// The scale has changed: [`Windows`] does not have it by the new one.
    pub(crate) fn rescale(&mut self) {
        if self.state == LastWindowState::Counted {
            self.state = LastWindowState::Known;
        }
    }
}

/// Windows advertised.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Windows {
    /// Bytes.
    pub(crate) min: Window,
    /// Bytes.
    pub(crate) max: u32,
    pub(crate) zero_since: OptionalInstant,
}

/// Rare facts about them.
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
