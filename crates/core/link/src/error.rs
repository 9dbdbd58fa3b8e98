//! [`LinkError`]: what can be wrong with a configuration or a trace.

/// Reason why a link or a trace could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A setting of [`crate::LinkConfig`] is out of its range.
    #[error("link setting `{setting}`: {problem}")]
    Setting {
        /// The field's name.
        setting: &'static str,
        /// Message that says what is wrong and what is allowed.
        problem: String,
    },
    /// A line of a trace file cannot be used.
    #[error("{file}:{line}: {problem}")]
    TraceLine {
        /// The file as the caller named it.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// Message that says what is wrong with it.
        problem: String,
    },
    /// A trace as a whole cannot be used.
    #[error("{file}: {problem}")]
    Trace {
        /// The file as the caller named it.
        file: String,
        /// Message that says what is wrong with it.
        problem: String,
    },
}

impl LinkError {
    pub(crate) fn setting(setting: &'static str, problem: impl Into<String>) -> Self {
        Self::Setting { setting, problem: problem.into() }
    }
    pub(crate) fn line(file: &str, line: usize, problem: impl Into<String>) -> Self {
        Self::TraceLine { file: file.to_owned(), line, problem: problem.into() }
    }
    pub(crate) fn trace(file: &str, problem: impl Into<String>) -> Self {
        Self::Trace { file: file.to_owned(), problem: problem.into() }
    }
}

/// `ppm` checked to be a probability.
pub(crate) fn check_ppm(setting: &'static str, ppm: u32) -> Result<(), LinkError> {
    if ppm > crate::random::PPM {
        return Err(LinkError::setting(setting, format!("{ppm} ppm is above 1,000,000 (certainty)")));
    }
    Ok(())
}
