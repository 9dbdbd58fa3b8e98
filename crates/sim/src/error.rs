//! [`SimError`]: why a run did not succeed.

use units::Instant;

use crate::Violation;

/// Why a run could not be made or did not succeed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// A link's settings are out of range: the caller's fault.
    #[error("the {place} link cannot be made: {source}")]
    Link {
        /// Which link.
        place: &'static str,
        /// What is wrong with it.
        source: link::LinkError,
    },
    /// A rule was broken: the middlebox's fault, or an endpoint's.
    #[error("at {at}: {violation}")]
    Broken {
        /// When.
        at: Instant,
        /// Which rule, by which packet.
        violation: Violation,
    },
}
