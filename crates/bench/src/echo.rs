//! [`echo`]: the path of `cellerator run` without the engine.

use run::{Config, EventSink, RunError};

/// Steers TCP as `config` says through a processor that passes everything, until a signal comes.
///
/// # Errors
/// As [`run::pass_all`].
pub fn echo(config: &Config, events: &mut dyn EventSink) -> Result<(), RunError> {
    run::pass_all(config, events).map(drop)
}
