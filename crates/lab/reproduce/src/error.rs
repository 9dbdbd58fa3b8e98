//! [`ReproduceError`]: why an experiment cannot be run.

use std::path::Path;

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// There is no such experiment: the caller's fault.
    #[error("no experiment is named `{name}`; there are {names}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those there are.
        names: String,
    },
    /// A scenario file cannot be read: its writer's fault.
    #[error(transparent)]
    Scenario(#[from] scenario::Error),
    /// A scenario or a text lacks what its experiment needs: its writer's fault.
    #[error("{file}: {problem}")]
    Meaning {
        /// Which.
        file: String,
        /// What is wrong, and what is needed.
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
    /// A run could not be made.
    #[error("{run}: {source}")]
    Sim {
        /// Experiment and case.
        run: String,
        /// Why.
        source: sim::SimError,
    },
    /// The user asked to stop.
    #[error("{run}: interrupted")]
    Interrupted {
        /// Experiment.
        run: String,
    },
    /// The lab failed.
    #[error("{run}: {problem}")]
    Lab {
        /// Experiment.
        run: String,
        /// Why.
        problem: String,
    },
}

impl ReproduceError {
    /// An error about `file`.
    pub(crate) fn file(file: &Path, problem: impl core::fmt::Display) -> Self {
        Self::File { file: file.display().to_string(), problem: problem.to_string() }
    }
}
