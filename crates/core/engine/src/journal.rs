//! [`Journal`]: where the engine notes how each flow stands, so that a crash does not turn debt into
//! silence (H2).
//!
//! A flow has an entry from when its delivery is the engine's until it is not. The process that reads
//! the entries after a crash goes on with the flows ([`crate::Engine::recover`]); or, if that cannot be,
//! resets those that are owed something, with the numbers as a start.

use core::fmt;
use std::net::SocketAddr;

use units::SeqNum;

use crate::handover::HandoverFlow;
use crate::record::{FlowRecord, Mark};

/// A flow whose delivery is the engine's: who it joins, and the newest numbers known of each end. For the
/// downlink the sink is the client and the source the server, for the uplink the reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalEntry {
    /// Address and port of the sink: the debt is owed to it.
    pub sink: SocketAddr,
    /// Address and port of the source.
    pub source: SocketAddr,
    /// Number that the sink has acknowledged: the one it expects next, or one before that.
    pub delivered: SeqNum,
    /// Number up to which the source was told that data is delivered; after `delivered`.
    pub told: SeqNum,
    /// One past what the sink has sent.
    pub sink_next: SeqNum,
    /// Number up to which the source has acknowledged that.
    pub source_ack: SeqNum,
    /// Newest TSval of the sink and of the source, when both use timestamps.
    pub timestamps: Option<(u32, u32)>,
    /// All that another process needs to go on with the flow.
    pub record: FlowRecord,
}

impl JournalEntry {
    /// Entry that a journal would have of a flow that has left: enough to reset its hosts.
    #[must_use]
    pub fn of_moved(flow: &HandoverFlow) -> Self {
        let FlowRecord { una, told, sink_nxt, source_ack, sink_tsval, source_tsval, .. } = flow.record;
        Self {
            sink: flow.ends.sink,
            source: flow.ends.source,
            delivered: SeqNum::new(una),
            told: SeqNum::new(told),
            sink_next: SeqNum::new(sink_nxt),
            source_ack: SeqNum::new(source_ack),
            timestamps: flow.record.is(Mark::Timestamps).then_some((sink_tsval, source_tsval)),
            record: flow.record,
        }
    }

    /// True when something is owed to the sink.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.told.is_after(self.delivered)
    }
}

/// Keeps one entry per slot; slots are small numbers that are used again, below the largest number of flows.
///
/// Called for every packet of a flow, before any packet tells of what happened: an implementation makes no
/// system call and does not allocate. It keeps the entry before until the new one is whole.
pub trait Journal: fmt::Debug + Send {
    /// Notes how a flow stands, in place of what the slot held. `is_new` is false when the slot holds an
    /// entry of the same flow: then only the numbers differ.
    fn note(&mut self, slot: u32, entry: &JournalEntry, is_new: bool);

    /// True when flows are to be noted that owe nothing, too, and with their records: somebody may go on with
    /// them.
    fn wants_records(&self) -> bool {
        true
    }

    /// True when it has the entries of the flows that are resumed here already: it was the journal of the engine
    /// before. Called before anything is noted.
    fn continues(&mut self) -> bool {
        false
    }

    /// Notes that a packet of the slot's flow, or a deadline, is being handled.
    fn begin(&mut self, _slot: u32) {}

    /// Notes that it was.
    fn end(&mut self) {}

    /// Forgets the slot's entry: its hosts need nobody between them any more.
    fn forget(&mut self, slot: u32);

    /// Another journal has all entries from here on: a reader of this one is to find none.
    fn retire(&mut self) {}
}
