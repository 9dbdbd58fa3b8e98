//! [`TableReader`]: a Parquet file's rows.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;

use crate::error::TablesError;
use crate::kind::ColumnKind;
use crate::schema::TableSchema;
use crate::value::Value;
use crate::writer::SCHEMA_NOTE;

/// Reads a Parquet file of flat columns, by whomever it was written.
pub struct TableReader {
    file: Box<dyn FileReader>,
    what: String,
    schema: TableSchema,
}

impl std::fmt::Debug for TableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableReader").field("what", &self.what).field("schema", &self.schema).finish()
    }
}

impl TableReader {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be read, is no whole Parquet file, or has columns within columns.
    pub fn open(path: &Path) -> Result<Self, TablesError> {
        let what = path.display().to_string();
        let file = File::open(path).map_err(TablesError::io(&what))?;
        Self::new(file, what)
    }

    /// Reads from memory.
    ///
    /// # Errors
    /// As [`TableReader::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, TablesError> {
        Self::new(Bytes::from(bytes), "a table in memory".to_owned())
    }

    fn new<R: ChunkReader + 'static>(source: R, what: String) -> Result<Self, TablesError> {
        let file = careful(&what, || SerializedFileReader::new(source))?;
        let root = file.metadata().file_metadata().schema_descr().root_schema();
        let by_types = TableSchema::from_parquet(root, &what)?;
        let said = note(file.metadata(), SCHEMA_NOTE).and_then(|text| serde_json::from_str(text).ok());
        // A note that does not fit the columns is not believed.
        let is_right = |said: &TableSchema| {
            let shape = |schema: &TableSchema| -> Vec<(String, ColumnKind)> {
                schema.columns.iter().map(|column| (column.name.clone(), column.kind)).collect()
            };
            shape(said) == shape(&by_types)
        };
        let schema = said.filter(is_right).unwrap_or(by_types);
        Ok(Self { file: Box::new(file), what, schema })
    }

    /// The table's columns.
    #[must_use]
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// A note that the file carries.
    #[must_use]
    pub fn note(&self, name: &str) -> Option<&str> {
        note(self.file.metadata(), name)
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> u64 {
        u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// True without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows, in order, read as they are asked for.
    ///
    /// # Errors
    /// The columns cannot be read.
    pub fn rows(&self) -> Result<Rows<'_>, TablesError> {
        let rows = careful(&self.what, || self.file.get_row_iter(None))?;
        Ok(Rows { rows, reader: self })
    }
}

/// Reads with a library that panics on some broken files: that too is an error.
fn careful<T>(what: &str, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TablesError> {
    let broken = |_| ParquetError::General("the file is broken".to_owned());
    catch_unwind(AssertUnwindSafe(read))
        .map_err(broken)
        .and_then(|read| read)
        .map_err(TablesError::parquet(what))
}

fn note<'a>(metadata: &'a ParquetMetaData, name: &str) -> Option<&'a str> {
    let notes = metadata.file_metadata().key_value_metadata()?;
    notes.iter().find(|note| note.key == name)?.value.as_deref()
}

/// Rows of a [`TableReader`].
pub struct Rows<'a> {
    rows: RowIter<'a>,
    reader: &'a TableReader,
}

impl Iterator for Rows<'_> {
    type Item = Result<Vec<Value>, TablesError>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = match careful(&self.reader.what, || self.rows.next().transpose()).transpose()? {
            Ok(row) => row,
            Err(error) => return Some(Err(error)),
        };
        let values: Option<Vec<Value>> =
            row.into_columns().into_iter().map(|(_, field)| value(field)).collect();
        Some(values.ok_or_else(|| TablesError::UnknownType {
            what: self.reader.what.clone(),
            column: "of a row".to_owned(),
        }))
    }
}

fn value(field: Field) -> Option<Value> {
    Some(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::Bool(value),
        Field::Byte(value) => Value::Int(value.into()),
        Field::Short(value) => Value::Int(value.into()),
        Field::Int(value) => Value::Int(value.into()),
        Field::Long(value) | Field::TimestampMicros(value) => Value::Int(value),
        Field::UByte(value) => Value::from(value),
        Field::UShort(value) => Value::from(value),
        Field::UInt(value) => Value::from(value),
        Field::ULong(value) => Value::from(value),
        Field::Float(value) => Value::from(f64::from(value)),
        Field::Double(value) => Value::from(value),
        Field::Str(value) => Value::Text(value),
        Field::Bytes(value) => Value::Text(String::from_utf8_lossy(value.data()).into_owned()),
        _ => return None,
    })
}
