//! [`ReadyList`]: subscribers that may have something to send, in turn.

use std::collections::VecDeque;

use super::Path;

/// Subscribers that may have something to send, by their places, each once.
#[derive(Debug, Default, stored::Stored)]
pub(crate) struct ReadyList(VecDeque<u32>);

impl ReadyList {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The subscriber whose turn it is.
    pub(crate) fn front(&self) -> Option<u32> {
        self.0.front().copied()
    }

    /// Puts `subscriber` in line if flows on its `path` may have something to send and it is not there yet.
    ///
    /// Whatever may have opened the window or the pause for them comes through here: an
    /// acknowledgement, a timer, a report of the base station, the end of a flow whose bytes in
    /// flight no longer count.
    pub(crate) fn wake(&mut self, subscriber: u32, path: &mut Path) {
        if path.has_work() && !path.is_ready {
            path.is_ready = true;
            self.0.push_back(subscriber);
        }
    }

    /// The subscriber whose turn it is has sent something: the next one comes first.
    pub(crate) fn rotate(&mut self) {
        if let Some(subscriber) = self.0.pop_front() {
            self.0.push_back(subscriber);
        }
    }

    /// The subscriber whose turn it is can send nothing: it leaves, until [`ReadyList::wake`].
    /// `path` is its own, if it has one.
    pub(crate) fn leave(&mut self, path: Option<&mut Path>) {
        self.0.pop_front();
        if let Some(path) = path {
            path.is_ready = false;
        }
    }
}
