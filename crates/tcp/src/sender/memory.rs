//! Where a sender lies in memory: read ahead of its use, and what it keeps outside of itself passed on.

use std::hint::black_box;

use super::Sender;
use crate::scoreboard::SpareEntries;

impl Sender {
    /// Reads all that lies in it, so that it is near when it is used: worth it for many senders at once, whose memory
    /// accesses then overlap. Changes nothing.
    #[inline]
    pub fn touch(&self) {
        // A copy reads every line, wherever the fields lie.
        black_box((self.rack.clone(), self.timers.clone(), self.rtt.clone(), self.config));
        black_box((self.board.una(), self.window_ack, self.retransmitted_bytes, self.recover));
    }

    /// The same of what does not lie in it: the oldest of what is under way. After [`Sender::touch`] of all.
    #[inline]
    pub fn touch_oldest(&self) {
        black_box(self.board.front().is_some_and(|entry| entry.is_lost));
    }

    /// True when it has no memory to note what it sends.
    #[must_use]
    pub fn lacks_memory(&self) -> bool {
        self.board.lacks_memory()
    }

    /// Uses `spare` for that, if it has none.
    pub fn adopt_memory(&mut self, spare: SpareEntries) {
        self.board.adopt_memory(spare);
    }

    /// Gives that memory away, if nothing is under way and it is not much; the next one to send may use it.
    pub fn take_memory(&mut self) -> Option<SpareEntries> {
        self.board.take_memory()
    }
}
