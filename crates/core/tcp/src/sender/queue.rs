//! [`SendQueue`]: what there is to send, by its numbers.

use units::SeqNum;

use crate::scoreboard::Entry;

/// Data to send: its end, and whether the stream ends there.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(super) struct SendQueue {
    /// One past the last byte that may be sent.
    end: SeqNum,
    /// The stream ends there.
    has_fin: bool,
    is_fin_sent: bool,
}

impl SendQueue {
    pub(super) fn new(start: SeqNum) -> Self {
        Self { end: start, has_fin: false, is_fin_sent: false }
    }

    /// Queue of a sender that another one was before, which has sent everything before `nxt`.
    pub(super) fn resumed(end: SeqNum, has_fin: bool, nxt: SeqNum) -> Self {
        Self { end, has_fin, is_fin_sent: has_fin && nxt.is_after(end) }
    }

    pub(super) fn end(&self) -> SeqNum {
        self.end
    }

    pub(super) fn extend(&mut self, end: SeqNum, fin: bool) {
        self.end = self.end.later_of(end);
        self.has_fin |= fin && end == self.end;
    }

    /// Bytes from `nxt` on.
    pub(super) fn unsent(&self, nxt: SeqNum) -> u32 {
        self.end.distance_from(nxt).max(0).unsigned_abs()
    }

    /// The end is to be sent for the first time.
    pub(super) fn has_unsent_fin(&self) -> bool {
        self.has_fin && !self.is_fin_sent
    }

    /// Notes that what ends at `end` was sent; true when the end of the stream goes with it.
    pub(super) fn take_fin(&mut self, end: SeqNum) -> bool {
        let fin = self.has_fin && end == self.end;
        self.is_fin_sent |= fin;
        fin
    }

    /// The entry covers the end of the stream.
    pub(super) fn is_fin(&self, entry: &Entry) -> bool {
        self.is_fin_acked(entry.end)
    }

    /// All was acknowledged, the end included, if `una` is the oldest number that was not.
    pub(super) fn is_fin_acked(&self, una: SeqNum) -> bool {
        self.is_fin_sent && una == self.end + 1
    }
}
