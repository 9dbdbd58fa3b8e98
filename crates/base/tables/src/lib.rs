//! Tables with typed columns, written as CSV, JSON lines or Parquet, and read again from Parquet.
//!
//! ```
//! use tables::{Column, Format, TableReader, TableSchema, TableWriter};
//!
//! let schema = TableSchema::new("runs", 1)
//!     .with(Column::int("seed").required().meaning("Seed of the run"))
//!     .with(Column::float("goodput_bps").unit("bit/s").meaning("Bytes delivered over time"));
//! let mut writer = TableWriter::new(Vec::new(), &schema, Format::Parquet, &[("made_by", "example")])?;
//! writer.push(vec![7.into(), 12.5e6.into()])?;
//! writer.push(vec![8.into(), None::<f64>.into()])?;
//! let bytes = writer.finish()?;
//!
//! let reader = TableReader::from_bytes(bytes)?;
//! assert_eq!(reader.schema(), &schema);
//! assert_eq!(reader.note("made_by"), Some("example"));
//! assert_eq!(reader.rows()?.count(), 2);
//! # Ok::<(), tables::TablesError>(())
//! ```
//!
//! A writer holds at most one row group ([`ROW_GROUP_ROWS`] rows or [`ROW_GROUP_BYTES`]), so that
//! memory does not grow with a table. [`Shards`] is a folder of Parquet files that grows file by
//! file: each appears whole or not at all, and what is there says what need not be done again.

mod error;
mod groups;
mod kind;
mod reader;
mod schema;
mod shards;
mod text;
mod value;
mod writer;

pub use error::TablesError;
pub use groups::{ROW_GROUP_BYTES, ROW_GROUP_ROWS};
pub use kind::ColumnKind;
pub use reader::{Rows, TableReader};
pub use schema::{Column, TableSchema};
pub use shards::{ShardWriter, Shards, Whole, write_whole};
pub use value::Value;
pub use writer::{Format, TableWriter};
