//! TCP flows and their metrics from captured segments, and QUIC flows from datagrams.
//!
//! [`Analyzer::handle_segment`] takes segments in the order of capture; finished flows and single events come
//! out through a [`Sink`]. Memory is proportional to flows in progress and what they have in flight: sequence
//! space is remembered by its holes, sent segments until they are acknowledged, and a flow's state goes when
//! it ends.
//!
//! [`QuicAnalyzer::handle`] takes datagrams in the same order; what it finds comes at its end, and is bounded.
//!
//! Everything is decided from the packets alone. There is no clock: time is that of the packets, and the same
//! packets give the same result bit for bit. What cannot be known is absent (`None`, JSON `null`), never
//! zero.

mod analyzer;
mod budget;
mod copies;
mod coverage;
mod diagnosis;
mod direction;
mod document;
mod echoes;
mod event;
mod fetch;
mod flow;
mod half;
mod in_flight;
mod loss_line;
mod mptcp;
mod opening;
mod optional_instant;
mod packet;
mod packet_ids;
mod pairs;
mod parts;
mod quic;
mod recovery;
mod report;
mod ring;
mod samples;
mod segment_record;
mod slab;
mod smoothed_rtt;
mod table;
mod timestamps;
mod vantage;

pub use analyzer::{Analyzer, Sink};
pub use budget::{TimeBudget, TimeCause};
pub use direction::{Direction, PerDirection};
pub use document::{CaptureFile, DocumentWriter, Findings, InterfaceCount, MadeBy, SCHEMA, Skipped};
pub use event::{Event, EventKind};
pub use fetch::Fetch;
pub use mptcp::{
    MappingNews, MappingSeen, MptcpAnalyzer, MptcpDirection, MptcpReport, MptcpSubflow, SubflowDirection,
};
pub use packet::{PacketKind, PacketView};
pub use pairs::{FlowEnds, Pair, PairFinder};
pub use parts::{Finding, FindingMerger, PARTS_MAX, Part, part_of};
pub use quic::{
    CourseReport, FlowletReport, Move, OtherUdp, PauseReport, PortUdp, QuicAnalyzer, QuicDirection,
    QuicEvidence, QuicFlowReport, QuicHandshake, QuicInferred, QuicPackets, QuicVersion, SpinReport,
    SpinState, UdpReport,
};
pub use recovery::{Cause, SpuriousBy};
pub use report::{
    AckReport, Diagnosis, DiagnosisKind, DirectionReport, End, FlagReport, FlowReport, Handshake,
    HopLimitReport, LossReport, ResetCount, Retransmissions, RttReport, SampleSummary, SegmentSizes,
    SenderReport, ThroughputReport, Volume, WindowReductions, WindowReport,
};
pub use segment_record::SegmentRecord;
pub use table::Config;
pub use vantage::Vantage;
