//! [`TableWriter`]: rows in, a file out.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::error::TablesError;
use crate::groups::Group;
use crate::kind::ColumnKind;
use crate::schema::{Column, TableSchema};
use crate::text;
use crate::value::Value;

/// The note of a Parquet file that holds its [`TableSchema`] as JSON: units and meanings of the columns.
pub(crate) const SCHEMA_NOTE: &str = "cellerator.table";

/// File format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 4180, with a header line.
    Csv,
    /// One JSON object per line.
    JsonLines,
    /// Parquet, packed with Snappy, in row groups.
    Parquet,
}

/// Writes one table.
#[derive(Debug)]
pub struct TableWriter<W: Write + Send> {
    schema: TableSchema,
    out: Out<W>,
}

enum Out<W: Write + Send> {
    Csv(W),
    JsonLines(W),
    Parquet(Box<SerializedFileWriter<Lent<W>>>, Group),
}

/// Output that Parquet's writer writes to until it has finished. Its own `into_inner` tells no reason of the
/// system's: not that a disk is full.
struct Lent<W>(Option<W>);

impl<W: Write> Write for Lent<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_mut().ok_or_else(taken_back)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().ok_or_else(taken_back)?.flush()
    }
}

fn taken_back() -> io::Error {
    io::Error::other("the table has ended")
}

impl<W: Write + Send> std::fmt::Debug for Out<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Csv(_) => "Csv",
            Self::JsonLines(_) => "JsonLines",
            Self::Parquet(..) => "Parquet",
        })
    }
}

impl<W: Write + Send> TableWriter<W> {
    /// Starts a table. Parquet files carry the schema and `notes` (names and values) along; the
    /// others the names of the columns only.
    ///
    /// # Errors
    /// Writing failed.
    pub fn new(
        mut out: W,
        schema: &TableSchema,
        format: Format,
        notes: &[(&str, &str)],
    ) -> Result<Self, TablesError> {
        let table = &schema.table;
        let out = match format {
            Format::Csv => {
                let header = text::header(&schema.columns);
                out.write_all(header.as_bytes()).map_err(TablesError::io(table))?;
                Out::Csv(out)
            }
            Format::JsonLines => Out::JsonLines(out),
            Format::Parquet => {
                let properties = Arc::new(properties(schema, notes));
                let root = schema.as_parquet().map_err(TablesError::parquet(table))?;
                let out = Lent(Some(out));
                let file =
                    SerializedFileWriter::new(out, root, properties).map_err(TablesError::parquet(table))?;
                Out::Parquet(Box::new(file), Group::new(&schema.columns))
            }
        };
        Ok(Self { schema: schema.clone(), out })
    }

    /// The table's columns.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Writes a row: one value per column, in their order.
    ///
    /// # Errors
    /// The values do not fit the columns, or writing failed.
    pub fn push(&mut self, row: Vec<Value>) -> Result<(), TablesError> {
        check(&self.schema, &row)?;
        let table = &self.schema.table;
        match &mut self.out {
            Out::Csv(out) => out.write_all(text::csv(&row).as_bytes()).map_err(TablesError::io(table)),
            Out::JsonLines(out) => {
                let line = text::json(&self.schema.columns, &row);
                out.write_all(line.as_bytes()).map_err(TablesError::io(table))
            }
            Out::Parquet(file, group) => {
                group.push(&self.schema.columns, row);
                if group.is_full() {
                    group.write(file).map_err(TablesError::parquet(table))?;
                }
                Ok(())
            }
        }
    }

    /// Ends the table and gives back what it was written to.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(self) -> Result<W, TablesError> {
        let table = &self.schema.table;
        match self.out {
            Out::Csv(mut out) | Out::JsonLines(mut out) => {
                out.flush().map_err(TablesError::io(table))?;
                Ok(out)
            }
            Out::Parquet(mut file, mut group) => {
                group.write(&mut file).map_err(TablesError::parquet(table))?;
                file.finish().map_err(TablesError::parquet(table))?;
                file.inner_mut().0.take().ok_or_else(taken_back).map_err(TablesError::io(table))
            }
        }
    }
}

fn properties(schema: &TableSchema, notes: &[(&str, &str)]) -> WriterProperties {
    let columns = serde_json::to_string(schema).unwrap_or_default();
    let mut pairs = vec![KeyValue::new(SCHEMA_NOTE.to_owned(), columns)];
    pairs.extend(notes.iter().map(|(name, value)| KeyValue::new((*name).to_owned(), (*value).to_owned())));
    let mut builder = WriterProperties::builder();
    for column in
        schema.columns.iter().filter(|column| matches!(column.kind, ColumnKind::Int | ColumnKind::Time))
    {
        // Where a dictionary grows too long, as of times: differences are short.
        builder = builder
            .set_column_encoding(ColumnPath::from(column.name.as_str()), Encoding::DELTA_BINARY_PACKED);
    }
    builder
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("cellerator {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(pairs))
        .build()
}

/// Each value fits its column.
fn check(schema: &TableSchema, row: &[Value]) -> Result<(), TablesError> {
    if row.len() != schema.columns.len() {
        return Err(TablesError::Width {
            table: schema.table.clone(),
            expected: schema.columns.len(),
            found: row.len(),
        });
    }
    match schema.columns.iter().zip(row).find(|(column, value)| !fits(column, value)) {
        None => Ok(()),
        Some((column, value)) => Err(TablesError::Mismatch {
            table: schema.table.clone(),
            column: column.name.clone(),
            expected: column.kind,
            found: value.name(),
        }),
    }
}

fn fits(column: &Column, value: &Value) -> bool {
    match (column.kind, value) {
        (_, Value::Null) => !column.is_required,
        (ColumnKind::Bool, Value::Bool(_))
        | (ColumnKind::Int | ColumnKind::Float | ColumnKind::Time, Value::Int(_))
        | (ColumnKind::Float, Value::Float(_))
        | (ColumnKind::Text, Value::Text(_)) => true,
        _ => false,
    }
}
