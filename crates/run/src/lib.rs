//! The accelerator on real interfaces: steering, packet loop, fail-open.
//!
//! ```text
//!                    ┌────────────── this process ──────────────┐
//!            cellw0 ─┤ ──▶  handle_packet ──▶ Forward/Transmit ─├─▶ cellm0
//!  rule: iif WIRED   │                                          │   rule: iif MOBILE
//!  ipproto tcp, icmp │                                          │   ipproto tcp, icmp
//!            cellw0 ◀┤ ◀──  Forward/Transmit ◀── handle_packet ◀├── cellm0
//!                    └──────────────────────────────────────────┘
//! ```
//!
//! A packet that comes in on WIRED is steered into `cellw0`, read there, and written into `cellm0`, from
//! where the kernel forwards it out of MOBILE. A packet for the client thus enters the kernel through the
//! very device to which the client's own packets are steered, which satisfies reverse-path filtering.
//!
//! ICMP goes the same way, because its errors about what the engine sends are for the engine (H23).
//!
//! INVARIANT: nothing here outlives the process for longer than the watchdog needs: TUN devices and
//! the nft table go with their descriptors, and a policy rule whose table is empty is passed over.

mod accelerator;
pub mod adapter;
mod config;
mod console;
mod error;
mod feedback;
mod firewall;
mod forwarding;
mod handover;
mod journal;
mod leftovers;
mod notrack;
mod packet_loop;
mod packet_path;
mod plan;
mod processor;
mod record;
mod recovery;
mod session;
mod status;
mod steering;
mod tun_path;
mod watchdog;

pub use accelerator::{Accelerator, ReadSettings};
pub use config::{AfterHang, Config, Notrack};
pub use console::{Answer, Found, Question, choose, find};
pub use error::RunError;
pub use feedback::FeedbackConfig;
pub use packet_loop::{Counters, SideCounters};
pub use plan::Plan;
pub use processor::{PassThrough, Processor, Side, Transmit, Verdict};
pub use session::{Ended, Why, dry_run, run};
pub use status::{FlowLine, FlowList, PassedLine, ProcessorStatus, SideStatus, Status};
pub use watchdog::watch;
