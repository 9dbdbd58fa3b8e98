//! [`CongestionError`]: why the congestion control cannot be loaded or ended.

use io::IoError;

/// Reason why the congestion control cannot be loaded or ended; the message is one line with what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CongestionError {
    /// The operating system refused something.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A congestion control of that name is registered.
    #[error(
        "a congestion control called '{name}' is there already{}",
        owner.map_or(String::new(), |owner| format!(", of process {owner}: end it with `cellerator congestion unload`"))
    )]
    AlreadyThere {
        /// Its name.
        name: String,
        /// The process that registered it, if it is one of ours.
        owner: Option<u32>,
    },
    /// Nothing to compare.
    #[error("'{0}' would be compared with itself: name another congestion control by --with")]
    WithItself(String),
    /// Nothing to unload.
    #[error("no congestion control is loaded: there is nothing to unload")]
    NothingLoaded,
}

impl CongestionError {
    /// The verifier's log, where the kernel refused the program.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::Io(error) => error.log(),
            _ => None,
        }
    }
}
