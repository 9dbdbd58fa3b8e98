//! Errors of histories and reports.

use std::path::{Path, PathBuf};

/// Reason why there is no history or no report.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A file cannot be read or written.
    #[error("cannot {doing} {path}: {error}", path = .path.display())]
    File {
        /// Action that was tried.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's word.
        error: std::io::Error,
    },
    /// A file has something else than it should have.
    #[error("{path} is no {what}: {why}", path = .path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// Kind of file that it should be.
        what: &'static str,
        /// Problem with the file.
        why: String,
    },
    /// The accelerator cannot be listened to.
    #[error(transparent)]
    Telemetry(#[from] telemetry::TelemetryError),
    /// There is nothing to report of.
    #[error("{0}")]
    Empty(String),
    /// No page was printed.
    #[error("{0}")]
    Print(String),
}

impl HistoryError {
    /// For `map_err`: what was tried with which file.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { doing, path, error }
    }
}
