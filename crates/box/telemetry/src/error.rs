//! Errors of telemetry.

/// Reason why something cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The system refused something.
    #[error("cannot {doing}: {error}")]
    System {
        /// Action that was tried.
        doing: String,
        /// The system's word.
        error: std::io::Error,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// The other process says what nobody understands.
    #[error("the process beside this one said something else than a snapshot: {0}")]
    Foreign(serde_json::Error),
}

impl TelemetryError {
    /// For `map_err`: what was tried.
    pub fn doing(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        |error| Self::System { doing, error }
    }
}
