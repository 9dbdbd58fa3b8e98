//! [`DrwaError`]: why windows cannot be managed.

use io::IoError;

/// Reason why windows cannot be managed; the message is one line with what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrwaError {
    /// The operating system refused something.
    #[error(transparent)]
    Io(#[from] IoError),
    /// There is one already.
    #[error(
        "process {process} is attached to {interfaces} already: end it with `cellerator drwa detach`, or give all \
         interfaces to one"
    )]
    AlreadyAttached {
        /// Its number.
        process: u32,
        /// Its interfaces.
        interfaces: String,
    },
    /// The packets of an interface have a header that the program does not know.
    #[error("interface '{0}' has neither Ethernet headers nor none: its packets cannot be read")]
    UnknownHeader(String),
    /// Too many selections.
    #[error("{0} connections to choose with --only, at most {1}: join some to a shorter prefix")]
    TooManySelections(usize, usize),
    /// Nothing to detach.
    #[error("nothing is attached here: start with `cellerator drwa attach INTERFACE`")]
    NothingAttached,
}
