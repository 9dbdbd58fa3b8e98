//! [`Pause`]: waits that end at once when the user asks to stop.

use io::{Clock, Interest, Signals, Waiter};
use units::Duration;

use crate::BenchError;

/// Waits that end at once when the user asks to stop.
#[derive(Debug)]
pub(crate) struct Pause<'a> {
    waiter: Waiter,
    signals: &'a Signals,
}

impl<'a> Pause<'a> {
    /// Watches what `signals` catches.
    pub fn new(signals: &'a Signals) -> Result<Self, BenchError> {
        let waiter = Waiter::new(Duration::ZERO)?;
        waiter.add(signals, Interest::Read, 0)?;
        Ok(Self { waiter, signals })
    }

    /// Waits for `time`.
    pub fn wait(&mut self, time: Duration) -> Result<(), BenchError> {
        self.waiter.wait(Some(Clock::now() + time))?;
        if self.signals.take().is_some() { Err(BenchError::Interrupted) } else { Ok(()) }
    }
}
