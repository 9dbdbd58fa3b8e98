//! [`TablesError`].

use std::io;
use std::path::PathBuf;

use crate::kind::ColumnKind;

/// Reason why a table cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// Reading or writing failed.
    #[error("{what}: {source}")]
    Io {
        /// The file or folder, or what was done.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is no Parquet file, or a broken one.
    #[error("{what}: not a whole Parquet file: {source}")]
    Parquet {
        /// The file.
        what: String,
        /// The reader's reason.
        source: parquet::errors::ParquetError,
    },
    /// A row has more or fewer values than the table has columns.
    #[error("table {table}: a row of {found} values for {expected} columns")]
    Width {
        /// The table.
        table: String,
        /// Columns.
        expected: usize,
        /// Values.
        found: usize,
    },
    /// A value is not of its column's kind, or is missing where none may.
    #[error("table {table}, column {column}: {found} where {expected:?} is needed")]
    Mismatch {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The column's kind.
        expected: ColumnKind,
        /// Kind of value that came.
        found: &'static str,
    },
    /// A file of a folder holds another table.
    #[error("{}: holds table {found}, not {expected}: use another folder", path.display())]
    OtherTable {
        /// The file.
        path: PathBuf,
        /// The folder's table.
        expected: String,
        /// The file's table.
        found: String,
    },
    /// Columns of a kind that this program does not write.
    #[error("{what}: column {column} has a type that is not read here")]
    UnknownType {
        /// The file.
        what: String,
        /// The column.
        column: String,
    },
}

impl TablesError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(crate) fn parquet(what: impl Into<String>) -> impl FnOnce(parquet::errors::ParquetError) -> Self {
        let what = what.into();
        move |source| match source {
            // A full disk is no matter of the format.
            parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(source) => Self::Io { what, source: *source },
                Err(inner) => Self::Parquet { what, source: parquet::errors::ParquetError::External(inner) },
            },
            source => Self::Parquet { what, source },
        }
    }
}
