//! Emulated cellular networks between real Linux TCP stacks in network namespaces.
//!
//! ```text
//!  namespace     namespace        namespace
//!  ┌────────┐    ┌─────────────┐    ┌────────┐
//!  │ server │    │ accelerator │    │ client │    kernel TCP/IP in each
//!  └─ wan0 ─┘    └ wan0  radio0┘    └ radio0 ┘    TUN devices
//!       │           │       │           │
//!       └──▶ wan ◀──┘       └─▶ radio ◀─┘         link models, run in real time by one thread
//! ```
//!
//! Start reading at [`emulator`], which moves packets, then [`runner`], which turns a scenario into results.

mod accelerator;
mod air_thread;
pub mod benchmark;
mod beside;
mod datagrams;
mod emulator;
mod error;
mod figures;
pub mod instance;
mod lateness;
mod listener;
pub mod moves;
mod origin;
mod pause;
pub mod radios;
mod recorder;
mod reporter;
mod runner;
mod session;
mod shaped_origin;
mod topology;
mod transfer;

pub use accelerator::AcceleratorCommand;
pub use emulator::{Emulation, Emulator, Keep, Waking};
pub use error::LabError;
pub use instance::{Instance, Running};
pub use lateness::LateBins;
pub use listener::is_time_out;
pub use recorder::{Dropped, Recording, Truth};
pub use reporter::Reporter;
pub use runner::{Progress, Runner, made_by, run_name};
pub use session::{Session, read_trace};
pub use topology::{Network, RADIO, Role, WAN, client_address, radio_gateway, server_address};
