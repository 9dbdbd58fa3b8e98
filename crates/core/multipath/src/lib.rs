//! Choice of the paths that a multi-path connection uses, and when: a state machine per path.
//!
//! A *path* is an interface with one of its addresses. What is seen of it goes in as [`Event`]s: its address
//! and route, what arrives, answers to probes, the strength of the radio. Out come [`Action`]s for who
//! steers the kernel: probe, add or remove an endpoint, ask the peer to use a path as backup only, demote or
//! restore routes. Time is an argument; there is no input or output, no float and no randomness.
//!
//! ```text
//!   handle(event, now) ──▶ ┌───────── Paths ─────────┐ ──▶ poll(now): Action
//!                          │ Path: state, probes,    │
//!   next_deadline() ◀───── │ arrivals, endpoints     │ ──▶ poll_change(): Change (state, cause)
//!                          └─────────────────────────┘
//! ```
//!
//! The transitions are in [`rules`], as a table that `docs/multipath.md` shows. [`simulate`] runs the machine over
//! an event file in virtual time.

mod endpoints;
mod event_file;
mod path;
mod paths;
pub mod rules;
mod settings;
mod simulation;

pub use event_file::{EventFile, EventFileError, Happening, Step};
pub use path::{Observed, Path};
pub use paths::{Action, Change, Event, PathId, PathSample, Paths};
pub use rules::{Cause, State};
pub use settings::Settings;
pub use simulation::{Line, SimulationOutcome, simulate};
