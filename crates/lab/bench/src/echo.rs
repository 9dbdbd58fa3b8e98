//! [`echo`]: the path of `cellerator run` without the engine.

use std::net::IpAddr;

use run::{Config, EventSink, RunError};

/// Steers TCP as `config` says, and everything to `subscriber`, through a processor that passes everything, until a
/// signal comes. What is no TCP comes once TCP has.
///
/// # Errors
/// As [`run::pass_all`].
pub fn echo(config: &Config, subscriber: Option<IpAddr>, events: &mut dyn EventSink) -> Result<(), RunError> {
    run::pass_all(config, subscriber, events).map(drop)
}
