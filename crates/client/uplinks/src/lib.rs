//! The path manager daemon: what [`multipath`] decides, done to this host's kernel.
//!
//! ```text
//!  rtnetlink: links, addresses, routes ─┐                      ┌─▶ MPTCP endpoints (path manager, netlink)
//!  inet_diag: subflows; MPTCP events  ──┼─▶ multipath::Paths ──┼─▶ metrics of default routes
//!  probes of each interface           ──┤                      └─▶ probes
//!  radio strength                     ──┘
//! ```
//!
//! The data path stays in the kernel. If the daemon dies, connections and paths live on; a [`guard`] process
//! undoes what should not: sysctls, limits, demoted routes, and, when no subflow uses them, endpoints.

mod conflicts;
mod console;
mod daemon;
mod demotion;
mod error;
mod fallbacks;
pub mod guard;
mod hands;
mod interfaces;
mod kernel;
mod others;
mod per_subflow;
mod prober;
mod profile;
mod record;
mod settings;
mod status;
mod strength;

pub use conflicts::conflicts;
pub use console::{Answer, Question, Running};
pub use daemon::{Daemon, Ended};
pub use error::UplinkError;
pub use record::KIND;
pub use settings::{ProbeBy, Settings};
pub use status::{EventLine, PathStatus, SCHEMA, Status, SubflowStatus};
pub use strength::{ModemManager, Strength, StrengthFile, Wireless};
