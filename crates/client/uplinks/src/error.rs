//! [`UplinkError`]: what failed, on what, and what to do.

/// Reason why the daemon cannot go on, or an answer cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UplinkError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::IoError),
    /// A setting makes no sense on this machine.
    #[error("{0}")]
    Setting(String),
    /// A file could not be read or written.
    #[error("cannot {what}: {source}")]
    File {
        /// Action that was tried, beginning with a verb, with the path.
        what: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// There is no such daemon, or it does not answer.
    #[error("{0}")]
    NotThere(String),
}

pub(crate) trait Context<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, UplinkError>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, UplinkError> {
        self.map_err(|source| UplinkError::File { what: what(), source })
    }
}
