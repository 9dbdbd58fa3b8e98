//! The accelerator on real interfaces: steering, packet loop, fail-open.
//!
//! ```text
//!                    ┌────────────── this process ──────────────┐
//!            cellw0 ─┤ ──▶  handle_packet ──▶ Forward/Transmit ─├─▶ cellm0
//!  at WIRED:         │                                          │   at MOBILE:
//!  TCP, ICMP         │                                          │   TCP, ICMP
//!            cellw0 ◀┤ ◀──  Forward/Transmit ◀── handle_packet ◀├── cellm0
//!                    └──────────────────────────────────────────┘
//! ```
//!
//! A packet that comes in on WIRED is steered into `cellw0`, read there, and written into `cellm0`, from
//! where the kernel forwards it out of MOBILE. ICMP errors go the same way, because those about
//! what the engine sends are for the engine (H23).
//!
//! A BPF program at each interface (`steering::program`) steers: it redirects packets and leaves alone those
//! of flows that are passed. Where that cannot be, policy rules steer (`iif WIRED ipproto tcp lookup TABLE`):
//! then a packet passes routing twice, and one for the client enters the kernel through the very device to
//! which the client's own packets are steered, which satisfies reverse-path filtering.
//!
//! INVARIANT: nothing here outlives the process for longer than the watchdog needs: programs, TUN devices and
//! the nft table go with their descriptors, and a policy rule whose table is empty is passed over.

mod ab;
mod accelerator;
pub mod adapter;
mod attachment;
mod config;
mod console;
mod counters;
mod doctor;
mod error;
mod event;
mod event_broadcaster;
mod feedback;
mod firewall;
mod forwarding;
mod handover;
mod inherited_resources;
mod inline;
mod instances;
mod interfaces;
mod journal;
mod lasting;
mod leftovers;
mod log;
mod notrack;
#[doc(hidden)]
pub mod outside;
mod packet_loop;
mod packet_path;
mod patience;
mod pinned;
mod placement;
mod plan;
mod privileges;
mod processor;
mod question;
mod record;
mod reset_orphans;
mod routed;
mod service;
mod settings;
mod shards;
mod signals;
mod snapshot;
mod status;
mod steering;
mod subscribers;
mod summary;
mod supervisor;
mod tun_path;
mod upgrade;
mod watchdog;

use plan::Plan;

pub use self::handover::{
    Frame, HandoverConfig, HandoverRequest, Ledger, Outlets, PeerConfig, Relayed, Withdrawable,
};
pub use ab::{AbGroup, AbMetric, AbPhase, AbReport, Estimate};
pub use accelerator::{Accelerator, ReadSettings, Reread};
pub use config::{AfterHang, Config, InlineFallback, Notrack, SteeringChoice, WatchdogConfig};
pub use counters::{Counters, OnLink, SideCounters};
pub use doctor::{Diagnosis, Finding, Health, examine};
pub use error::RunError;
pub use event::{Amount, Event, EventSink, EventWithText, FlowTotals, Severity, StandIn};
pub use event_broadcaster::{EventDirection, FlowEvent, FlowOf, FlowRecord, Wishes};
pub use feedback::FeedbackConfig;
pub use instances::{Found, choose, find};
pub use log::{Log, flow_text};
pub use pinned::{Pinned, certificates_of, tls_provider};
pub use privileges::{NICENESS, keep_needed_privileges, keep_privileges_to_ask, take_niceness};
pub use processor::{FlowState, FlowTransfer, Inspection, Processor, SubscriberHandover};
pub use question::{Answer, Question};
pub use settings::{Job, Settings, Task, engine_config_of, in_plain_words, read_key};
pub use snapshot::{
    Distribution, EngineMeters, HalfMeters, HalfSnapshot, ShardSnapshot, SideSnapshot, Snapshot,
};
pub use status::{
    FlowLine, FlowList, PassedLine, ProcessorStatus, RecoveryStatus, ShardStatus, SideStatus, Status,
};
pub use subscribers::{OpaqueLine, SubscriberLine, SubscriberList, SubscriberView};
pub use supervisor::{Ended, Why, accelerate, dry_run, pass_all, run};
pub use upgrade::transfer::Offer;
pub use watchdog::{Watched, watch};
