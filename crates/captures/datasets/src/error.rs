//! [`DatasetsError`].

use std::path::PathBuf;

use tables::TablesError;
use thiserror::Error;

/// Errors of captures and datasets.
#[derive(Debug, Error)]
pub enum DatasetsError {
    /// A file or folder cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
    /// No capture in a folder or below it.
    #[error("{}: no captures in this folder or below it (.pcap, .pcapng, .cap, .dmp, …)", .0.display())]
    NoCaptures(PathBuf),
    /// Two places have series of one name.
    #[error("two series have the name {name}: one in {}, one in {}: name them in a manifest", first.display(), second.display())]
    SameName {
        /// The name.
        name: String,
        /// Path of the first one's files.
        first: PathBuf,
        /// Path of the other one's files.
        second: PathBuf,
    },
    /// A manifest or record is no JSON of its schema.
    #[error("{}: {what}", path.display())]
    Document {
        /// Path of the file.
        path: PathBuf,
        /// Fault in the file.
        what: String,
    },
    /// A folder is no dataset.
    #[error("{}: no dataset with flows: `cellerator analyze --parquet {} CAPTURES` makes one", .0.display(), .0.display())]
    NoDataset(PathBuf),
    /// A dataset's flows lack a column.
    #[error("{}: the table has no column {column}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
    },
    /// A table cannot be read.
    #[error(transparent)]
    Table(#[from] TablesError),
}

impl DatasetsError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { path, error }
    }
}
