//! Windows that one direction's sender advertises.

use units::{Duration, Instant};

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
    pub(crate) field: LastWindow,
    pub(crate) advertised: Window,
    /// Bytes.
    pub(crate) min: Window,
    /// Bytes.
    pub(crate) max: u32,
    pub(crate) zero_since: OptionalInstant,
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

/// Edges of the window remembered: one in each eighth of a round trip.
const EDGES: usize = 8;

/// An edge that the receiver advertised: its sequence number, and when, in microseconds that wrap.
#[derive(Clone, Copy, Debug, Default)]
struct AdvertisedEdge {
    seq: u32,
    at_us: u32,
}

/// Edges of the window that the receiver advertised last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowEdges {
    advertised: [AdvertisedEdge; EDGES],
    newest: u8,
    count: u8,
    /// Time until the next one is remembered, in microseconds; zero for none yet.
    gap_us: u32,
}

impl WindowEdges {
    /// True when an edge that is advertised now is to be remembered: an eighth of a round trip after the last
    /// one.
    #[inline]
    pub(crate) fn wants(&self, now: Instant) -> bool {
        let last_us = self.advertised[usize::from(self.newest)].at_us;
        self.gap_us == 0 || wrapping_us(now).wrapping_sub(last_us) >= self.gap_us
    }

    /// The receiver advertised that it takes data up to `seq`; told as often as [`WindowEdges::wants`] says. The
    /// path takes `rtt` there and back.
    pub(crate) fn note(&mut self, now: Instant, seq: u32, rtt: Duration) {
        self.newest = (self.newest + 1) % EDGES as u8;
        self.count = (self.count + 1).min(EDGES as u8);
        self.advertised[usize::from(self.newest)] = AdvertisedEdge { seq, at_us: wrapping_us(now) };
        self.gap_us = u32::try_from(rtt.as_micros() / EDGES as u64 + 1).unwrap_or(u32::MAX);
    }

    fn oldest(&self) -> Option<u32> {
        let oldest = (usize::from(self.newest) + 1 + EDGES - usize::from(self.count)) % EDGES;
        (self.count > 0).then(|| self.advertised[oldest].seq)
    }

    /// True when data up to `end` that comes now used what the sender knew of the window: less than two
    /// segments of it were left.
    pub(crate) fn are_reached(&self, now: Instant, end: u32, segment: u64, rtt: Duration) -> bool {
        let now_us = wrapping_us(now);
        let way = rtt.as_micros() + rtt.as_micros() / EDGES as u64;
        let known = (0..usize::from(self.count)).find_map(|age| {
            let edge = self.advertised[(usize::from(self.newest) + EDGES - age) % EDGES];
            (u64::from(now_us.wrapping_sub(edge.at_us)) >= way).then_some(edge.seq)
        });
        // In the first round trip it is that of the handshake.
        let is_first = known.is_none() && usize::from(self.count) < EDGES;
        let known = known.or_else(|| is_first.then(|| self.oldest()).flatten());
        known.is_some_and(|seq| i64::from(seq.wrapping_sub(end) as i32) < 2 * segment as i64)
    }
}

fn wrapping_us(now: Instant) -> u32 {
    (now.as_nanos() / 1_000) as u32
}
