//! [`echo`]: the path of `cellerator run` without the engine.

use run::{Config, Notrack, PassThrough, RunError};

/// Steers TCP between the two interfaces through a processor that passes everything, until a signal comes.
///
/// # Errors
/// As [`run::run`].
pub fn echo(wired: &str, mobile: &str, say: &mut dyn FnMut(&str)) -> Result<(), RunError> {
    let config = Config {
        wired: wired.to_owned(),
        mobile: mobile.to_owned(),
        notrack: Notrack::Auto,
        ..Config::default()
    };
    run::run(&config, &mut PassThrough, say).map(drop)
}
