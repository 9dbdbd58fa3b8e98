//! A virtual-time network of endpoints, links and a middlebox.
//!
//! ```text
//!   Endpoint ── Path ──▶ Middlebox ── Path ──▶ Endpoint
//!   (server)    (WAN)   (accelerator) (radio)  (client)
//! ```
//!
//! [`Network`] runs flows through that line-up: the hosts exchange real packets, the links are
//! [`link::Link`]s, and time jumps from event to event. The same seeds give the same packets at the same
//! nanosecond. As the run goes, [`Violation`]s of the rules of `ARCHITECTURE.md` are looked for: in
//! each packet that leaves the middlebox, in what it acknowledges, and in every byte an application
//! reads. [`Script`] drives a middlebox alone with packets written by hand.

#![cfg_attr(not(test), deny(clippy::float_arithmetic))]

mod build;
mod case_run;
mod checks;
mod datagrams;
mod digest;
mod endpoint;
mod error;
mod faults;
mod host;
mod icmp;
mod ip_header;
mod line_up;
mod log;
mod merging;
mod middlebox_under_test;
mod multi_path;
mod network;
mod path;
mod pattern;
mod ping;
mod random;
mod random_run;
mod restart;
mod script;
mod strangers;
mod two_boxes;
mod vault;

pub use build::build_packet;
pub use case_run::{CaseOutcome, CaseRun, Sample, Watcher};
pub use checks::{CheckConfig, Tolerance, Violation};
pub use datagrams::{DatagramConfig, DatagramLog};
pub use digest::Digest;
pub use endpoint::{
    Application, BeyondWindow, Closing, Ending, Endpoint, EndpointConfig, EndpointStats, MarkResponse,
    PlannedWrite, Protocol, ReadProgress, Reading, ReceiveWindow, Role,
};
pub use error::SimError;
pub use faults::{Fault, FaultConfig, Mtu, Rebinding, Span, Strips};
pub use line_up::LineUp;
pub use log::{LogMode, LoggedPacket, PacketLog, TapPoint};
pub use middlebox_under_test::MiddleboxUnderTest;
pub use multi_path::MultiPathCaseRun;
pub use network::{BesideConfig, FlowConfig, Network, NetworkConfig, Outcome, RadioConfig};
pub use path::{Path, PathConfig, PathOutcome};
pub use pattern::Pattern;
pub use random::Random;
pub use random_run::{RandomFailure, RandomOutcome, RandomRun};
pub use restart::{Crash, Moves, Restart, Restarting, Stop};
pub use script::{Script, ScriptFailure};
pub use strangers::StrangerConfig;
pub use two_boxes::{Between, Death, End, Move, Replacement, TwoBoxes};
