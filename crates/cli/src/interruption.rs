//! A word when the user interrupts what has nothing to undo.

use std::process;

use io::{Interest, IoError, Signals, Waiter};
use units::Duration;

/// What a shell reports of a program that a signal ended, less the signal's number.
const SIGNAL_BASE: i32 = 128;

/// Has a signal end this process with `word` instead of silently.
///
/// # Errors
/// When no descriptor is left.
pub fn ends_with(word: &'static str) -> Result<(), String> {
    let listen = || -> Result<(Signals, Waiter), IoError> {
        let signals = Signals::terminating()?;
        let waiter = Waiter::new(Duration::ZERO)?;
        waiter.add(&signals, Interest::Read, 0)?;
        Ok((signals, waiter))
    };
    let (signals, mut waiter) = listen().map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        while waiter.wait(None).is_ok() {
            if let Some(signal) = signals.take() {
                eprintln!("cellerator: {word}");
                process::exit(SIGNAL_BASE + signal);
            }
        }
    });
    Ok(())
}
