//! [`CaughtSignals`]: what a running instance is told by signals.

use io::Signals;

use crate::RunError;

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// Those that end the instance, and the one that has it read its settings anew: neither hides the other.
#[derive(Debug)]
pub(crate) struct CaughtSignals {
    pub ending: Signals,
    pub reload: Signals,
}

impl CaughtSignals {
    pub fn catch() -> Result<Self, RunError> {
        let [ending, reload] = [&[SIGINT, SIGTERM][..], &[SIGHUP]].map(Signals::catch);
        Ok(Self { ending: ending?, reload: reload? })
    }
}
