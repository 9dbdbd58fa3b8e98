//! [`echo`]: the path of `cellerator run` without the engine.

use engine::PassThrough;
use run::{Config, RunError};

/// Steers TCP as `config` says through a processor that passes everything, until a signal comes.
///
/// # Errors
/// As [`run::run`].
pub fn echo(config: &Config, say: &mut dyn FnMut(&str)) -> Result<(), RunError> {
    run::run(config, |shards| Ok(vec![PassThrough; shards]), say).map(drop)
}
