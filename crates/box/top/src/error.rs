//! Errors of the live view.

/// Reason why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The system refused something.
    #[error("cannot {doing}: {error}")]
    System {
        /// Action that was tried.
        doing: String,
        /// The system's word.
        error: std::io::Error,
    },
    /// A setting makes no sense, or a file does not.
    #[error("{0}")]
    Setting(String),
    /// The other machine does not let this one in, or is of another version.
    #[error("{0}")]
    Refused(String),
    /// An accelerator does not answer as it should.
    #[error("{0}")]
    Accelerator(String),
}

impl TopError {
    /// For `map_err`: what was tried.
    pub(crate) fn doing(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        |error| Self::System { doing, error }
    }
}
