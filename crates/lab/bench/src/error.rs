//! [`BenchError`]: what failed, on what, and what to do.

/// Reason why a benchmark could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::IoError),
    /// A file or a socket failed.
    #[error("cannot {what}: {source}")]
    System {
        /// Action that was tried, beginning with a verb, with the object's name.
        what: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The program in the box failed.
    #[error("{way}: {message}")]
    Box {
        /// The way through the box.
        way: String,
        /// Description of the failure, with the program's last words.
        message: String,
    },
    /// A peer to compare with, or something a part needs, is not there.
    #[error("{what} is left out: {why}")]
    Missing {
        /// Missing program or feature.
        what: String,
        /// Reason, and what to do.
        why: String,
    },
    /// Nothing came through.
    #[error("{0}: nothing came through the box while it was measured")]
    Nothing(String),
    /// A load generator failed.
    #[error("load generator: {0}")]
    Load(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<io::ProgramFailure> for BenchError {
    fn from(io::ProgramFailure { name, message }: io::ProgramFailure) -> Self {
        Self::Box { way: name, message }
    }
}

/// Adds what was tried to a system error.
pub(crate) trait Context<T> {
    /// `what` begins with a verb and names the object.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, BenchError>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, BenchError> {
        self.map_err(|source| BenchError::System { what: what(), source })
    }
}
