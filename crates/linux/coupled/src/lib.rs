//! Coupled congestion control for the kernel's MPTCP, as a BPF program.
//!
//! ```text
//!   subflow ── established ──▶ chooser: is it MPTCP's, in this namespace? ──▶ its congestion control is …
//!   subflow ── ACK, loss ────▶ bpf/coupled.bpf.c ◀──▶ connections[token] ──▶ snd_cwnd, ssthresh
//! ```
//!
//! The program (`bpf/coupled.bpf.c`) does all of it in the kernel; this crate loads it, has subflows use it, and says
//! what it does. The same in Rust is [`control::coupled`]. What it is for: `docs/coupled.md`.

mod chooser;
mod error;
mod hold;
pub mod layout;
mod program;
mod record;
mod status;

pub use chooser::Chooser;
pub use error::CoupledError;
pub use hold::{Held, hold, unload};
pub use program::{SchemeProgram, Setup, kernel_name};
pub use status::{ConnectionStatus, CoupledStatus, Loaded, SubflowStatus, status};
