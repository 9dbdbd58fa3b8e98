//! [`CoupledError`]: why subflows cannot be coupled.

use io::IoError;

/// Reason why subflows cannot be coupled; the message is one line with what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoupledError {
    /// The operating system refused something.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A congestion control of that name is registered.
    #[error(
        "a congestion control called '{name}' is there already{}",
        owner.map_or(String::new(), |owner| format!(", of process {owner}: end it with `cellerator multipath congestion unload`"))
    )]
    AlreadyThere {
        /// Its name.
        name: String,
        /// The process that registered it, if it is one of ours.
        owner: Option<u32>,
    },
    /// Subflows of this network namespace are coupled already.
    #[error(
        "MPTCP subflows of this network namespace use {scheme} already, by process {owner}: end it with `cellerator \
         multipath congestion unload`, or take --register-only"
    )]
    AlreadyChosen {
        /// Scheme that they use.
        scheme: String,
        /// The process that chose it.
        owner: u32,
    },
    /// Nothing to unload.
    #[error("no coupled congestion control is loaded: start with `cellerator multipath congestion load`")]
    NothingLoaded,
}

impl CoupledError {
    /// The verifier's log, where the kernel refused the program.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::Io(error) => error.log(),
            _ => None,
        }
    }
}
