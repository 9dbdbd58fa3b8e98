//! [`echo`]: the path of `cellerator run` without the engine.

use engine::PassThrough;
use run::{Config, EventSink, RunError};

/// Steers TCP as `config` says through a processor that passes everything, until a signal comes.
///
/// # Errors
/// As [`run::run`].
pub fn echo(config: &Config, events: &mut dyn EventSink) -> Result<(), RunError> {
    run::run(config, |shards| Ok(vec![PassThrough; shards]), events).map(drop)
}
