//! [`ReproduceError`]: why an experiment cannot be run.

use std::path::Path;

/// Reason why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// There is no such experiment: the caller's fault.
    #[error("no experiment is named `{name}`; there are {names}")]
    Unknown {
        /// Name that was asked for.
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
        /// Path of the file.
        file: String,
        /// Problem, and what is needed.
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
    /// A run could not be made.
    #[error("{run}: {source}")]
    Sim {
        /// Experiment and case.
        run: String,
        /// Error of the simulator.
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
        /// Reason of the failure.
        problem: String,
    },
}

impl ReproduceError {
    /// An error about what `file` says.
    pub(crate) fn meaning(file: impl core::fmt::Display, problem: impl core::fmt::Display) -> Self {
        Self::Meaning { file: file.to_string(), problem: problem.to_string() }
    }

    /// The lab's error in an experiment.
    pub(crate) fn lab(run: &str, error: &lab::LabError) -> Self {
        let run = run.to_owned();
        match error {
            lab::LabError::Interrupted => Self::Interrupted { run },
            error => Self::Lab { run, problem: error.to_string() },
        }
    }

    /// An error about `file`.
    pub(crate) fn file(file: &Path, problem: impl core::fmt::Display) -> Self {
        Self::File { file: file.display().to_string(), problem: problem.to_string() }
    }
}
