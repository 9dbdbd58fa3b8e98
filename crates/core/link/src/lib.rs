//! The cellular link model: traces, queues, loss, delay, radio events.
//!
//! A [`Link`] is one direction of one client's link. It is driven from outside: packets and the time go
//! in, packets and deadlines come out. The same model runs in virtual and in real time, and with
//! the same seed takes the same decisions.
//!
//! ```text
//!            drop            drop
//!             ▲               ▲
//! enqueue ─▶ loss ─▶ queue ──┴▶ service ─▶ slot ─▶ HARQ ─▶ fades, ─▶ delay
//! ─▶ poll
//!            before  drop-tail   capacity   uplink  repair, loss      one way,
//!                                − outages  only    in order after    in order
//!  arrival                 service_start   departure               delivered
//! ```
//!
//! - *loss before*, *queue*: decided on arrival. The queue holds what waits for the start of its service.
//! - *queue management* ([`Aqm`]), if there is any: marks or drops when service begins.
//! - *service*: Mahimahi's delivery opportunities, a rate, or steps of rates; none during an outage.
//! - *slot*: a served packet leaves at the next uplink slot, if there are slots; in its direction's slots of
//!   a frame, and where the client must ask first, when it was granted.
//! - *HARQ*: block errors add retries; what comes behind waits for the repair; rarely a packet is lost.
//! - *fades*: what is put on the air in one is lost, however much that is.
//! - *loss after*, *delay*: lost packets have used their capacity; delay never changes the order.

mod aqm;
mod base_station;
mod capacity;
mod config;
mod delay;
mod error;
mod fade;
mod generate;
mod harq;
mod import;
mod link;
mod loss;
mod outage;
mod policer;
mod preset;
mod process;
mod quantile;
mod random;
mod record;
mod replay;
mod service;
mod stats;
mod summary;
mod tdd;
mod trace;

pub use aqm::{Aqm, CoDelParams, DualPi2Params, Ecn};
pub use base_station::{BaseStation, BaseStationConfig, StationReport};
pub use capacity::{Capacity, RateSteps};
pub use config::{LinkConfig, QueueLimit, SlotConfig};
pub use delay::DelayModel;
pub use error::LinkError;
pub use fade::Fades;
pub use generate::Model;
pub use harq::Harq;
pub use import::{CsvColumns, RateUnit};
pub use link::{Counters, Delivery, Link, Rejected, Tally};
pub use loss::LossModel;
pub use outage::OutageModel;
pub use policer::Policer;
pub use preset::{LinkDirection, Preset, PresetFit};
pub use process::{Distribution, RateProcess, carried};
pub use quantile::Percentiles;
pub use random::PPM;
pub use record::{DropReason, PacketId, PacketRecord};
pub use replay::Replay;
pub use stats::{BinStats, OUTAGE_MS_MIN, TraceStats, bin_rates_mbps, outages_ms};
pub use summary::{Bin, Summary, time_bins};
pub use tdd::{Grants, Tdd};
pub use trace::{OPPORTUNITY, Trace};
