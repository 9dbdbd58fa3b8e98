//! `adaptive` as a congestion control of a server's own kernel, as a BPF program.
//!
//! ```text
//!   connection ── established ──▶ chooser: in this namespace, of this port or group? ──▶ it uses `adaptive`
//!   connection ── ACK, time-out ▶ bpf/congestion.bpf.c ◀──▶ its own state ──▶ snd_cwnd, sk_pacing_rate
//! ```
//!
//! In a comparison half of the connections use another one, and both halves are measured ([`compare`]).
//!
//! The program (`bpf/congestion.bpf.c`, `bpf/law.h`) does all of it in the kernel; this crate loads it, has
//! connections use it, and says what it does. The same in Rust is [`control::server`]. What it is for:
//! `docs/congestion.md`.

mod chooser;
mod compare;
mod error;
mod hold;
pub mod layout;
mod program;
mod record;
mod split;
mod status;

pub use chooser::{Chooser, Users};
pub use compare::{CompareEstimate, CompareReport, Comparing, EndedBy, Metric, Shows, Side, compare};
pub use error::CongestionError;
pub use hold::{Held, hold, unload};
pub use program::{ControlProgram, KERNEL_NAME, Setup};
pub use record::RunningComparison;
pub use split::{Group, Split, Unit};
pub use status::{CongestionStatus, ConnectionStatus, Loaded, status};
