//! [`ContestError`]: why a contest cannot be held.

/// Why a contest cannot be held.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ContestError {
    /// A trace cannot be had: the caller's fault.
    #[error("trace `{name}`: {problem}")]
    Trace {
        /// The file or preset.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no such scheme: the caller's fault.
    #[error("scheme `{text}`: {problem}")]
    Scheme {
        /// What was asked for.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A setting makes no sense: the caller's fault.
    #[error("{what}: {problem}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What is wrong with it, and what is allowed.
        problem: String,
    },
    /// A file cannot be read or written, or is not what it must be.
    #[error("{file}: {problem}")]
    File {
        /// Which.
        file: String,
        /// Why, and what to do.
        problem: String,
    },
    /// The lab failed, or was interrupted.
    #[error("{run}: {problem}")]
    Lab {
        /// Scheme and trace.
        run: String,
        /// Why.
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
        /// Why.
        source: sim::SimError,
    },
}

impl ContestError {
    /// An error about `file`.
    pub(crate) fn file(file: &std::path::Path, problem: &dyn core::fmt::Display) -> Self {
        Self::File { file: file.display().to_string(), problem: problem.to_string() }
    }
}
