//! A subscriber: the flows of one client address, known before there is any data.

use control::{AnyController, ControllerConfig};
use units::{Bytes, Duration, Instant};

use crate::key::SharingKey;
use crate::memory::index::Keyed;
use crate::memory::timer::Moment;

/// No path.
const NONE: u32 = u32::MAX;

/// The flows of one client address.
///
/// What they share ([`super::Path`]) is made with the first data: most of what is opened at any
/// time is idle, and much of it never carries anything.
#[derive(Debug, stored::Stored)]
#[repr(C)]
#[stored(order(key, is_outdated, mss, flows, path, last_used, armed, round_trip))]
pub(crate) struct Subscriber {
    pub(crate) flows: u32,
    path: u32,
    /// Payload of the segments of its newest accelerated flow; 0 before there was one.
    mss: u16,
    /// Other settings hold since the controller was made.
    pub(crate) is_outdated: bool,
    pub(crate) armed: Moment,
    /// Time at which a flow was last opened.
    pub(crate) last_used: Instant,
    /// Before there is a path: the smallest round trip of a handshake, and when it was, the newest such.
    round_trip: (Duration, Instant),
    pub(crate) key: SharingKey,
}

impl Subscriber {
    /// Bytes at its beginning that each packet needs.
    pub(crate) const TOUCHED: usize = std::mem::offset_of!(Self, round_trip);

    pub(crate) fn new(key: SharingKey, now: Instant) -> Self {
        Self {
            key,
            is_outdated: false,
            mss: 0,
            flows: 0,
            path: NONE,
            last_used: now,
            armed: Moment::NEVER,
            round_trip: (Duration::MAX, Instant::ZERO),
        }
    }

    /// Place of its path, if there was data.
    pub(crate) fn path(&self) -> Option<u32> {
        (self.path != NONE).then_some(self.path)
    }

    pub(crate) fn set_path(&mut self, path: u32) {
        self.path = path;
    }

    /// Notes that its flows have segments of `mss` bytes of payload.
    pub(crate) fn note_mss(&mut self, mss: u32) {
        self.mss = u16::try_from(mss).unwrap_or(u16::MAX);
    }

    /// A controller for its segments; for those that `config` says before there was a flow.
    pub(crate) fn controller(&self, config: &ControllerConfig) -> AnyController {
        match self.mss {
            0 => config.build(),
            mss => config.with_mss(Bytes::from(u32::from(mss))).build(),
        }
    }

    /// Keeps the round trip of a handshake for the path.
    pub(crate) fn note_round_trip(&mut self, rtt: Duration, now: Instant) {
        if rtt <= self.round_trip.0 {
            self.round_trip = (rtt, now);
        }
    }

    /// Round trip that was kept, and its time.
    pub(crate) fn round_trip(&self) -> Option<(Duration, Instant)> {
        Some(self.round_trip).filter(|(rtt, _)| *rtt != Duration::MAX)
    }
}

impl Keyed for Subscriber {
    type Key = SharingKey;
    fn key(&self) -> &SharingKey {
        &self.key
    }
}
