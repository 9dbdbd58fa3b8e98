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
//! Start reading at [`Engine`]'s [`Middlebox::handle_packet`]: parse → classify → per state → recover → output.
//!
//! The engine reads no clock and makes no system call: packets and time come in, packets and deadlines go
//! out. The same calls in the same order give the same results, bit for bit.

#![deny(clippy::float_arithmetic)]

mod accelerated;
mod boundary;
mod config;
mod downlink;
mod drwa;
mod emit;
mod engine;
mod flow;
mod hand_back;
mod handshake;
mod inspect;
mod journal;
mod one_way;
mod pass;
mod path;
mod policy;
mod reconfigure;
mod slab;
mod spare;
mod stats;
mod subscriber;
mod table;
mod timer;
mod turns;
mod uplink;

pub use boundary::{Middlebox, PassThrough, Port, Transmit, Verdict};
pub use config::{ConfigError, Direction, EngineConfig, Sharing, UplinkConfig};
pub use engine::Engine;
pub use inspect::{FlowReport, FlowState, PassedFlow};
pub use journal::{Journal, JournalEntry};
pub use pass::PassReason;
pub use policy::{Action, Policy, PolicyError, Prefix, Rule};
pub use slab::MemoryAdvice;
pub use stats::Stats;
pub use tcp::{RingProvider, WindowPolicy};
