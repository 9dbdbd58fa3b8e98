//! Outside views of running accelerators: metrics for Prometheus, a stream of events, records of ended flows.
//!
//! ```text
//!   run ◀─ control socket ─ reader (may use it) ◀─ one byte ─ server (nobody) ◀─ HTTP ─ Prometheus
//!                                   └──────── a snapshot ───────▶
//! ```
//!
//! Nothing here is near a packet: all of it is another process's, which asks through the control socket.

mod collector;
mod error;
mod gather;
pub mod http;
mod ipfix;
mod metrics;
mod privileges;
mod server;
mod stream;

pub use collector::Collector;
pub use error::TelemetryError;
pub use gather::{Answered, Gatherer};
pub use ipfix::{Exporter, MESSAGE_LEN_MAX};
pub use metrics::{FAMILIES, Family, MetricKind, Source, exposition, text_format};
pub use privileges::{User, is_root};
pub use server::serve;
pub use stream::{Next, Stream};
