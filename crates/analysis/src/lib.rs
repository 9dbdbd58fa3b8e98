//! TCP flows and their metrics from captured segments.
//!
//! [`Analyzer::handle_segment`] takes segments in the order of capture; finished flows and single events come out
//! through a [`Sink`]. Memory is proportional to flows in progress and what they have in flight: sequence space is
//! remembered by its holes, sent segments until they are acknowledged, and a flow's state goes when it ends.
//!
//! Everything is decided from the packets alone. There is no clock: time is that of the packets, and the same
//! packets give the same result bit for bit. What cannot be known is absent (`None`, JSON `null`), never zero.

mod analyzer;
mod coverage;
mod diagnosis;
mod document;
mod flow;
mod half;
mod in_flight;
mod moment;
mod mptcp;
mod packet;
mod packet_ids;
mod pairs;
mod parts;
mod passage;
mod recovery;
mod report;
mod ring;
mod samples;
mod slab;
mod table;
mod timestamps;
mod vantage;

pub use analyzer::{Analyzer, Sink};
pub use diagnosis::{Diagnosis, DiagnosisKind};
pub use document::{CaptureFile, DocumentWriter, Findings, MadeBy, SCHEMA, Skipped};
pub use flow::{Event, EventKind};
pub use mptcp::{
    MappingNews, MappingSeen, MptcpAnalyzer, MptcpDirection, MptcpReport, MptcpSubflow, SubflowDirection,
};
pub use packet::{PacketKind, PacketView};
pub use pairs::{Pair, PairFinder};
pub use parts::{Found, Gather, PARTS_MAX, Part, part_of};
pub use passage::Passage;
pub use recovery::{Cause, SpuriousBy};
pub use report::{
    DirectionReport, End, FlowReport, Handshake, LossReport, ResetCount, Retransmissions, RttReport,
    SampleSummary, WindowReductions, WindowReport,
};
pub use table::Config;
pub use vantage::Vantage;
