//! The transparent accelerator, without input or output.
//!
//! It stands between a server and a client, observes their handshake, and takes over the delivery of what
//! the server sends: acknowledges it at once, keeps it, paces it over the radio link, repairs it, and never
//! changes what the two ends agreed on. See `docs/engine.md` for the rules packets are rewritten by.
//!
//! ```text
//!   server ──data──▶ handle_packet(Wired) ─▶ Receiver ─▶ StreamBuffer ─▶ Sender ─▶ poll_transmit ──▶ client
//!          ◀──ACK──  poll_transmit        ◀─┘                              ▲
//!                                             handle_packet(Mobile) ◀─ACK──┴───────────────────────  client
//! ```
//!
//! `docs/reading.md` follows one packet through it.
//!
//! The engine reads no clock and makes no system call: packets and time come in, packets and deadlines go
//! out. The same calls in the same order give the same results, bit for bit.

#![deny(clippy::float_arithmetic)]

mod boundary;
mod config;
mod direction;
mod effect;
mod engine;
mod flow;
mod half;
mod handover;
mod handshake;
mod image;
mod journal;
mod key;
mod memory;
mod meters;
mod notice;
mod opaque;
mod pass;
mod path;
mod phase;
mod policy;
mod record;
mod relay;
mod report;
mod segment;
mod stats;
mod timestamp;
mod trial;

pub use boundary::{Middlebox, PassThrough, Port, Transmit, Verdict};
pub use config::{ClientEcn, ConfigError, EngineConfig, Sharing, UplinkConfig};
pub use direction::Direction;
pub use engine::Engine;
pub use half::recover::RecoverError;
pub use handover::{FlowEnds, HandoverFlow, HeldPiece};
pub use image::{IMAGE_VERSION, IMAGE_VERSION_OLDEST, ImageError};
pub use journal::{Journal, JournalEntry};
pub use memory::slab::MemoryAdvice;
pub use meters::{BOUNDS_US, Histogram, Meters};
pub use notice::{EndedFlow, FlowName, Notice, Traffic, Wants};
pub use opaque::key::QUIC_VERSIONS;
pub use opaque::markers::IDENTIFIER as ECHO_IDENTIFIER;
pub use pass::PassReason;
pub use policy::{Action, Policy, PolicyError, Prefix, Rule};
pub use record::{FlowRecord, RECORD_VERSION, RECORD_WORDS};
pub use report::{
    Evidence, FlowReport, FlowState, OpaqueReport, Page, PassedBytes, PassedFlow, PathReport, QuicHandshake,
    SubscriberReport, UnknownFlow,
};
pub use stats::Stats;
pub use tcp::{RingProvider, WindowPolicy};
pub use trial::{ControlGroup, MeasuredFlow};
