//! [`Journal`]: where the engine notes what is owed, so that a crash does not turn debt into silence (H2).
//!
//! A flow has an entry exactly while it has debt. What an entry says is as old as the flow's last
//! event: whoever reads it after a crash uses the numbers as a start and learns the exact ones from
//! the two ends.

use core::fmt;
use std::net::SocketAddr;

use units::SeqNum;

/// A flow with debt: who it joins, and the newest numbers known of each end. For the downlink the
/// sink is the client and the source the server, for the uplink the reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalEntry {
    /// Address and port of the sink: the debt is owed to it.
    pub sink: SocketAddr,
    /// Those of the source.
    pub source: SocketAddr,
    /// What the sink has acknowledged: the number it expects next, or one before that.
    pub delivered: SeqNum,
    /// What the source was told is delivered; after `delivered`.
    pub told: SeqNum,
    /// One past what the sink has sent.
    pub sink_next: SeqNum,
    /// What the source has acknowledged of that.
    pub source_ack: SeqNum,
    /// Newest TSval of the sink and of the source, when both use timestamps.
    pub timestamps: Option<(u32, u32)>,
}

/// Keeps one entry per slot; slots are small numbers that are used again, below the largest number of flows.
///
/// Called for every packet of a flow with debt: an implementation makes no system call and does not allocate.
pub trait Journal: fmt::Debug + Send {
    /// Notes what is owed, in place of what the slot held. `is_new` is false when the slot holds an
    /// entry of the same flow: then only the numbers differ.
    fn owe(&mut self, slot: u32, entry: &JournalEntry, is_new: bool);

    /// Forgets the slot's entry: nothing is owed.
    fn settle(&mut self, slot: u32);
}
