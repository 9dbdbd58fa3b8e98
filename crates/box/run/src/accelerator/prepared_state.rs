//! [`PreparedState`]: memory for the state of flows that go to another process, fetched while no packet waits for it.
//!
//! The kernel clears each page that it gives, and a virtual machine may have to ask its host for it: with 100,000 flows
//! that takes longer than to write them down.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use io::{Clock, StateFile, Waiter};
use units::Duration;

/// Time for which it is kept: the other process asks for the flows sooner, or not at all.
const KEPT: Duration = Duration::from_secs(10);

/// A file that is about to be there, for whoever comes first: its user, or the end of its time.
#[derive(Debug, Default)]
pub(super) struct PreparedState(Arc<Mutex<Option<StateFile>>>);

impl PreparedState {
    /// Begins to fetch memory for `len` bytes; `done` goes when it is there. Where that fails, there is none.
    pub fn begin(len: usize, done: mpsc::Sender<()>) -> Self {
        let prepared = Self::default();
        let file = Arc::clone(&prepared.0);
        let fetch = move || {
            let Ok(fetched) = StateFile::with_memory_for(len) else { return };
            *file.lock().unwrap_or_else(PoisonError::into_inner) = Some(fetched);
            drop(done);
            // Where it cannot wait, it is given back at once.
            if let Ok(mut waiter) = Waiter::new(Duration::ZERO) {
                drop(waiter.wait(Some(Clock::now() + KEPT)));
            }
            drop(file.lock().unwrap_or_else(PoisonError::into_inner).take());
        };
        // It ends with the process, too.
        drop(thread::Builder::new().name("prepare".to_owned()).spawn(fetch));
        prepared
    }

    /// The file, if it is there; once.
    pub fn take(&self) -> Option<StateFile> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
