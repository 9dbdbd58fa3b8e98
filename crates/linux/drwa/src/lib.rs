//! DRWA at the receiver: a dynamic receive window for the TCP connections of an unmodified Linux client.
//!
//! ```text
//!   server ── data, TSecr ──▶ drwa_in ──▶ kernel TCP ──▶ application
//!          ◀── ACK, window ── drwa_out ◀── kernel TCP
//! ```
//!
//! Two BPF programs on one interface (`bpf/drwa.bpf.c`) do all of it; this crate loads and attaches them, raises
//! the kernel's receive buffers out of the way, and says what they do. The algorithm in Rust is
//! [`control::receiver`]. What it does and why: `docs/drwa.md`.

mod attach;
mod buffers;
mod error;
pub mod layout;
mod program;
mod record;
mod selection;
mod settings;
mod status;

pub use attach::{attach, detach};
pub use buffers::{Buffers, Kept};
pub use error::DrwaError;
pub use program::{DrwaPrograms, Ends, Setup, View};
pub use record::{Attached, Record, clean_up, running};
pub use selection::Selection;
pub use settings::{AttachArgs, HookChoice, Method};
pub use status::{Counted, DrwaStatus, Interface, Line, State, status};
