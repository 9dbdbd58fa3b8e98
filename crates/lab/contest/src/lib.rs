//! Schemes against each other on capacity traces.
//!
//! ```text
//!   server ── WAN, 10 ms ──▶ accelerator ── radio: trace, drop-tail queue, 10 ms ──▶ client
//!          ◀────────────────             ◀──────────── uplink, 10 ms ─────────────
//! ```
//!
//! A [`Contest`] runs every [`Scheme`] on every [`TraceSource`] with every [`Buffer`]: a bulk download, and
//! alongside a ping-pong of the same client, ten times a second, 100 bytes each way, over a TCP connection of
//! its own that takes the same way through accelerator and radio queue. All in virtual time ([`sim`]): the
//! same seed gives the same figures whatever the number of threads.

mod beside;
mod bound;
mod bulk;
mod contest;
mod error;
mod estimate;
mod figure;
mod flows;
mod html;
mod lab_run;
mod limit;
mod line_up;
mod markdown;
mod mixed;
mod offset;
mod path;
mod radio;
mod results;
mod scheme;
mod series;
mod short;
mod sweep;
mod table;
mod traces;
mod traffic;

pub use beside::{Beside, BesideKind};
pub use contest::{Contest, Part, Settings};
pub use error::ContestError;
pub use estimate::Estimate;
pub use figure::Study;
pub use html::page;
pub use lab_run::LabContest;
pub use limit::{LimitPoint, limit, limit_at};
pub use line_up::Buffer;
pub use markdown::{beside_markdown, bulk_markdown, short_markdown};
pub use offset::offset_ms;
pub use path::{PathDocument, PathSettings};
pub use radio::{Air, RadioSettings};
pub use results::{
    BesideRun, Delays, Document, FlowsRun, Limit, Maker, MixedRun, Run, RunSeries, SCHEMA, ShortRun, Summary,
    TraceFigures, Waiting,
};
pub use scheme::{Scheme, Treatment};
pub use sweep::{
    Candidate, CaseCell, Eliminated, Elimination, Progress, Round, Shard, Sweep, SweepSpec, Tolerance, merge,
    table_format,
};
pub use table::tables;
pub use traces::TraceSource;
