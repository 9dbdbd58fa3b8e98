//! Many captures as one dataset.
//!
//! - [`find`] groups files into [`CaptureSeries`]: the successive files of one rotating capture are one series,
//!   and a series is the unit of work. [`Manifest`] is the same list as a file.
//! - [`shard`] says which series a job of an array does.
//! - [`Record`] says what was done, so that a stopped job goes on where it was.
//! - [`Flows`] reads a dataset, and [`compare`] estimates the effect of a change between two of them.

mod effect;
mod error;
mod find;
mod flows;
mod manifest;
mod names;
mod record;
mod resample;
mod shard;
mod shown;

pub use effect::{DatasetComparison, Effect, Measure, SCHEMA as COMPARISON_SCHEMA, Side, Verdict, compare};
pub use error::DatasetsError;
pub use find::find;
pub use flows::{Flow, Flows};
pub use manifest::{CaptureSeries, MANIFEST_SCHEMA, Manifest};
pub use names::{is_capture, series_key};
pub use record::{RECORD_SCHEMA, Record, RecordedFile, Settings};
pub use shard::{Shard, shard};
pub use shown::{chart, notes, page, table};
