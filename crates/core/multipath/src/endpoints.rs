//! [`Endpoint`]: one address of this host that the kernel's path manager knows.

use std::net::IpAddr;

use units::{Duration, Instant};

/// Doublings of the wait for a join at most.
const DOUBLINGS_MAX: u32 = 4;

/// An endpoint as it was last asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Endpoint {
    pub address: IpAddr,
    pub is_backup: bool,
    /// False for one that is to go as soon as another path is usable.
    pub is_wanted: bool,
    /// True for one whose interface has gone, with another of its name in its place.
    pub is_stale: bool,
    /// Time from which on a subflow is waited for.
    pub waits_from: Instant,
    /// Number of times that it was asked for again, in vain.
    pub repeats: u32,
}

impl Endpoint {
    /// Time by which a subflow should have joined.
    pub fn join_deadline(&self, wait: Duration) -> Instant {
        self.waits_from + wait * (1_u64 << self.repeats.min(DOUBLINGS_MAX))
    }
}
