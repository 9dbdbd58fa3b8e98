//! [`ContestError`]: why a contest cannot be held.

/// Reason why a contest cannot be held.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ContestError {
    /// A trace cannot be had: the caller's fault.
    #[error("trace `{name}`: {problem}")]
    Trace {
        /// The file or preset.
        name: String,
        /// Problem with it.
        problem: String,
    },
    /// There is no such scheme: the caller's fault.
    #[error("scheme `{text}`: {problem}")]
    Scheme {
        /// Text that was asked for.
        text: String,
        /// Problem with it.
        problem: String,
    },
    /// A setting makes no sense: the caller's fault.
    #[error("{what}: {problem}")]
    Setting {
        /// Setting in question.
        what: &'static str,
        /// Problem with it, and what is allowed.
        problem: String,
    },
    /// A file cannot be read or written, or is not what it must be.
    #[error("{file}: {problem}")]
    File {
        /// Path of the file.
        file: String,
        /// Reason, and what to do.
        problem: String,
    },
    /// The lab failed, or was interrupted.
    #[error("{run}: {problem}")]
    Lab {
        /// Scheme and trace.
        run: String,
        /// Reason of the failure.
        problem: String,
    },
    /// The user wants no more.
    #[error("interrupted")]
    Interrupted,
    /// A run could not be made.
    #[error("{run}: {source}")]
    Sim {
        /// Scheme and trace.
        run: String,
        /// Error of the simulator.
        source: sim::SimError,
    },
}

impl ContestError {
    /// An error about the setting `what`.
    pub(crate) fn setting(what: &'static str, problem: impl Into<String>) -> Self {
        Self::Setting { what, problem: problem.into() }
    }

    /// An error about `file`.
    pub(crate) fn file(file: &std::path::Path, problem: &dyn core::fmt::Display) -> Self {
        Self::File { file: file.display().to_string(), problem: problem.to_string() }
    }
}
