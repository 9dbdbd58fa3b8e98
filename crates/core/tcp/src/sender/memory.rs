//! Memory that a sender keeps outside of itself: asked for ahead of its use, and passed on.

use super::Sender;
use crate::scoreboard::ScoreboardMemory;

impl Sender {
    /// Calls `prefetch` with address and length of what it will look at when something is acknowledged, or when it
    /// is stored, and that does not lie in it.
    #[inline]
    pub fn ask_for_parts(&self, prefetch: fn(usize, usize)) {
        self.persist.ask_for(prefetch);
        if let Some(oldest) = self.board.front() {
            prefetch(std::ptr::from_ref(oldest).addr(), size_of_val(oldest));
        }
    }

    /// True when it has no memory to note what it sends.
    #[must_use]
    pub fn lacks_memory(&self) -> bool {
        self.board.lacks_memory()
    }

    /// Uses `memory` for that, if it has none.
    #[inline]
    pub fn adopt_memory(&mut self, memory: ScoreboardMemory) {
        self.board.adopt_memory(memory);
    }

    /// Gives that memory away, if nothing is under way and it is not much; the next one to send may use it.
    #[inline]
    pub fn take_memory(&mut self) -> Option<ScoreboardMemory> {
        self.board.take_memory()
    }
}
