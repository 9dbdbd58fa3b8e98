//! Interruption by the user: what was finished is written, one line says where, and the exit code names the
//! signal.

use std::path::Path;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use anyhow::Result;
use io::{Interest, Signals, Waiter};
use units::Duration;

/// Exit code that a shell reports of a program that a signal ended, less the signal's number: 130 for Ctrl-C.
const SIGNAL_BASE: i32 = 128;

/// The user's wish to end what has no descriptor to wait for: threads ask [`Interruption::flag`]
/// between two steps.
#[derive(Debug)]
pub struct Interruption {
    signal: AtomicI32,
    is_asked: AtomicBool,
}

impl Interruption {
    /// Listens for Ctrl-C, SIGTERM and SIGHUP from now on. The first one sets the flag; a second
    /// one ends the process at once.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn listen() -> Result<&'static Self> {
        Self::listen_and(|signal| process::exit(SIGNAL_BASE + signal))
    }

    /// The same for what has to undo something: a second signal changes nothing.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn listen_once() -> Result<&'static Self> {
        Self::listen_and(|_| {})
    }

    fn listen_and(second: impl Fn(i32) + Send + 'static) -> Result<&'static Self> {
        // It lives as long as the thread that listens: as long as the process.
        let this: &'static Self =
            Box::leak(Box::new(Self { signal: AtomicI32::new(0), is_asked: AtomicBool::new(false) }));
        on_signals(move |signal| {
            if this.is_asked() {
                return second(signal);
            }
            this.signal.store(signal, Ordering::SeqCst);
            this.is_asked.store(true, Ordering::SeqCst);
        })?;
        Ok(this)
    }

    /// True once the user has asked to end.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    /// The same, for `parallel::in_parallel_until` and the like.
    pub fn flag(&self) -> &AtomicBool {
        &self.is_asked
    }

    /// The exit code of a program that this ended: 130 for Ctrl-C.
    pub fn code(&self) -> ExitCode {
        code(Some(self.signal.load(Ordering::SeqCst)).filter(|signal| *signal != 0))
    }
}

/// The exit code of a program that `signal` ended; that of Ctrl-C where it is not known.
pub fn code(signal: Option<i32>) -> ExitCode {
    const CTRL_C: i32 = 2;
    ExitCode::from(u8::try_from(SIGNAL_BASE + signal.unwrap_or(CTRL_C)).unwrap_or(u8::MAX))
}

/// The one line that says how far it came (`what`: "sim run: interrupted after 3 of 8 runs"), and
/// where that is.
pub fn tell<'a>(what: &str, files: impl IntoIterator<Item = &'a Path>) {
    let files: Vec<String> = files.into_iter().map(|path| path.display().to_string()).collect();
    let place = if files.is_empty() {
        "what was finished is above".to_owned()
    } else {
        format!("what was finished is in {}", files.join(", "))
    };
    eprintln!("cellerator: {what}; {place}");
}

/// Calls `act` in a thread of its own for each signal that comes.
fn on_signals(act: impl Fn(i32) + Send + 'static) -> Result<()> {
    let signals = Signals::terminating()?;
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&signals, Interest::Read, 0)?;
    std::thread::spawn(move || {
        while waiter.wait(None).is_ok() {
            if let Some(signal) = signals.take() {
                act(signal);
            }
        }
    });
    Ok(())
}
