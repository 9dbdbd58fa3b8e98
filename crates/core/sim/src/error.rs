//! [`SimError`]: why a run did not succeed.

use units::Instant;

use crate::Violation;

/// Reason why a run could not be made or did not succeed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// A link's settings are out of range: the caller's fault.
    #[error("the {place} link cannot be made: {source}")]
    Link {
        /// Name of the link.
        place: &'static str,
        /// Error of the link.
        source: link::LinkError,
    },
    /// A flow has no radio link: the caller's fault.
    #[error("flow {flow} asks for a radio link that is not there")]
    NoRadio {
        /// Number of the flow.
        flow: usize,
    },
    /// The engine's settings make no sense: the caller's fault.
    #[error(transparent)]
    Engine(#[from] engine::ConfigError),
    /// A rule was broken: the middlebox's fault, or an endpoint's.
    #[error("at {at}: {violation}")]
    Broken {
        /// Time at which the rule was broken.
        at: Instant,
        /// Rule that was broken, and the packet that broke it.
        violation: Violation,
    },
    /// A key that only the lab has: the caller's fault.
    #[error("only the lab has `{0}`")]
    LabOnly(&'static str),
    /// A case of a multi-path scenario makes no sense: the caller's fault.
    #[error("case `{case}`: {message}")]
    Scenario {
        /// Its name.
        case: String,
        /// Message that says what is wrong.
        message: String,
    },
    /// The watcher ended the run ([`crate::Watcher::is_over`]).
    #[error("stopped")]
    Stopped,
}
