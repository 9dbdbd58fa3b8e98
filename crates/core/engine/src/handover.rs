//! [`HandoverFlow`]: a flow on its way to an engine in another box.

use std::net::SocketAddr;

use stored::{Reader, Stored, StoredError, Writer};
use units::SeqNum;

use crate::boundary::Port;
use crate::record::{FlowRecord, RECORD_WORDS};

/// A flow of one direction by its ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, stored::Stored)]
pub struct FlowEnds {
    /// True for the downlink: the sink is the client.
    pub is_downlink: bool,
    /// Host that takes the data.
    pub sink: SocketAddr,
    /// Host that sends it.
    pub source: SocketAddr,
}

impl FlowEnds {
    /// Port at which its sink is.
    #[must_use]
    pub fn receiver(&self) -> Port {
        if self.is_downlink { Port::Mobile } else { Port::Wired }
    }

    /// Client and server.
    #[must_use]
    pub fn client_and_server(&self) -> (SocketAddr, SocketAddr) {
        if self.is_downlink { (self.sink, self.source) } else { (self.source, self.sink) }
    }
}

/// Data of a flow that waits for its sink's acknowledgement.
#[derive(Clone, PartialEq, Eq, Debug, stored::Stored)]
pub struct HeldPiece {
    /// Flow that it belongs to.
    pub flow: FlowEnds,
    /// Number that the sink has acknowledged: nothing before it is held.
    pub una: SeqNum,
    /// Number of its first byte.
    pub start: SeqNum,
    /// The bytes, in order and without a hole.
    pub bytes: Vec<u8>,
}

/// A flow as it stood in one engine, for another one in another box to go on with: what a process that has died
/// leaves of it ([`FlowRecord`]), and the data that it held in order. Data behind a hole is left out: its source
/// still has it (RFC 2018 §8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandoverFlow {
    /// Ends of the flow.
    pub ends: FlowEnds,
    /// State of the flow.
    pub record: FlowRecord,
    /// The clock of the box it left, when it did, in ms; the lower 32 bits.
    pub clock_ms: u32,
}

impl HandoverFlow {
    /// The numbers of the first byte that its sink has not acknowledged, and of the one behind the last that was
    /// taken from its source.
    #[must_use]
    pub fn held(&self) -> (SeqNum, SeqNum) {
        self.record.held()
    }

    /// True when something was acknowledged to its source that its sink has not acknowledged.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.record.owes()
    }
}

impl Stored for HandoverFlow {
    fn store(&self, out: &mut Writer) {
        self.ends.store(out);
        self.clock_ms.store(out);
        self.record.words().store(out);
    }

    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let ends = from.value()?;
        let clock_ms = from.value()?;
        let at = from.at();
        let words: [u32; RECORD_WORDS] = from.value()?;
        let record = FlowRecord::of_words(&words).filter(FlowRecord::makes_sense);
        let record = record.ok_or_else(|| Reader::senseless(at, "a flow's record"))?;
        Ok(Self { ends, record, clock_ms })
    }
}
