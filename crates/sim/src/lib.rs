//! A virtual-time network of endpoints, links and a middlebox.
//!
//! ```text
//!   Endpoint ── Path ──▶ Middlebox ── Path ──▶ Endpoint
//!   (server)    (WAN)   (accelerator) (radio)  (client)
//! ```
//!
//! [`Network`] runs flows through that line-up: the hosts exchange real packets, the links are
//! [`link::Link`]s, and time jumps from event to event. The same seeds give the same packets at the same
//! nanosecond. As the run goes, [`Violation`]s of the rules of `ARCHITECTURE.md` are looked for: in each packet that
//! leaves the middlebox, in what it acknowledges, and in every byte an application reads.
//! [`Script`] drives a middlebox alone with packets written by hand.

#![cfg_attr(not(test), deny(clippy::float_arithmetic))]

mod build;
mod checks;
mod endpoint;
mod engine_box;
mod error;
mod log;
mod merging;
mod middlebox;
mod network;
mod path;
mod pattern;
mod random;
mod script;

pub use build::build_packet;
pub use checks::{CheckConfig, Violation};
pub use endpoint::{
    Application, Closing, Ending, Endpoint, EndpointConfig, EndpointStats, Reading, ReceiveWindow, Role, Turn,
};
pub use error::SimError;
pub use log::{LogMode, PacketLog, Point};
pub use middlebox::{Middlebox, Outgoing, PassThrough, Side};
pub use network::{FlowConfig, Network, NetworkConfig, Outcome};
pub use path::{Fault, FaultConfig, Path, PathConfig};
pub use pattern::Pattern;
pub use random::Random;
pub use script::{Script, ScriptFailure};
