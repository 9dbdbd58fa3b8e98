//! [`LabError`]: what failed, on what, and what to do.

/// Reason why a lab could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::IoError),
    /// The scenario cannot be used.
    #[error(transparent)]
    Scenario(#[from] scenario::Error),
    /// A link model cannot be made.
    #[error(transparent)]
    Link(#[from] link::LinkError),
    /// A file of the lab could not be read or written.
    #[error("cannot {what}: {source}")]
    File {
        /// Action that was tried, beginning with a verb, with the path.
        what: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A program that takes part failed.
    #[error("{program}: {message}")]
    Program {
        /// Name of the program.
        program: String,
        /// Description of the failure, and what to do.
        message: String,
    },
    /// The kernel lacks a congestion control: a case that asks for it is skipped.
    #[error("this kernel has no congestion control `{name}` ({said}); load it with `modprobe tcp_{name}`")]
    NoCongestionControl {
        /// Its name.
        name: &'static str,
        /// Output of `ip route`.
        said: String,
    },
    /// A workload that only the simulator has programs for.
    #[error("case `{case}`: the lab has no program for workload key `{key}`: use `cellerator sim run`")]
    SimulatedOnly {
        /// Name of the case.
        case: String,
        /// The key.
        key: &'static str,
    },
    /// There is no such lab, or more than one.
    #[error("{0}")]
    Which(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<io::ProgramFailure> for LabError {
    fn from(io::ProgramFailure { name, message }: io::ProgramFailure) -> Self {
        Self::Program { program: name, message }
    }
}

/// Adds what was tried to a system error.
pub(crate) trait Context<T> {
    /// `what` begins with a verb and names the object.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, LabError>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, LabError> {
        self.map_err(|source| LabError::File { what: what(), source })
    }
}
