//! Segments beyond its window that a peer discards (H18): how they are found, and when they have arrived.

use units::SeqNum;

use super::{Discards, Flight, Opportunism};
use crate::interface::AckOutcome;
use crate::recovery::DUP_THRESHOLD;
use crate::scoreboard::Entry;

/// Bytes behind a hole.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Behind {
    /// Bytes newly marked lost that were lost on the way.
    pub lost: u32,
    /// Bytes newly marked lost that the peer has discarded, and answered.
    pub discarded: u32,
}

impl Opportunism {
    /// Counts what has arrived of what the peer was expected to discard: by `is_answer`, an acknowledgement
    /// without news, one segment; by a delivery of what was sent after them, all. True when something has.
    pub(crate) fn count_arrived(
        &mut self,
        flight: &Flight<'_>,
        is_answer: bool,
        out: &mut AckOutcome,
    ) -> bool {
        let board = &*flight.board;
        let Discards { expected, last, .. } = *self.discards;
        if expected == 0 && last.is_none() {
            return false;
        }
        let was_taken = last.is_some_and(|last| board.una().is_at_or_after(last.end()));
        let is_over = was_taken || last.is_some_and(|last| flight.recovery.is_before_newest(last));
        let arrived = match (is_over, is_answer) {
            (true, _) => expected,
            (false, true) => expected.min(board.mss()),
            (false, false) => 0,
        };
        if arrived > 0 || is_over {
            let last = last.filter(|_| !is_over);
            self.discards.change(|discards| (discards.expected, discards.last) = (expected - arrived, last));
        }
        if self.has_room() && !was_taken {
            out.discarded = arrived;
        }
        arrived > 0
    }

    /// Takes in a duplicate acknowledgement, `is_unexplained` by what it delivers or was expected to be
    /// discarded; the bytes that it shows to be lost.
    pub(crate) fn on_duplicate_ack(&mut self, flight: &mut Flight<'_>, is_unexplained: bool) -> u32 {
        if is_unexplained {
            self.discards.change(|discards| discards.unexplained_acks += 1);
        }
        let is_beyond = self.is_active() && flight.window.is_exceeded(flight.board.nxt());
        let is_enough = flight.recovery.duplicate_acks() >= DUP_THRESHOLD;
        if flight.recovery.has_sack() && is_beyond && is_enough { self.find_missing_head(flight) } else { 0 }
    }

    /// A peer that drops what lies beyond its window answers without SACK: only the count and the time tell
    /// that the head is missing.
    fn find_missing_head(&mut self, flight: &mut Flight<'_>) -> u32 {
        let &mut Flight { ref mut board, recovery, now, .. } = flight;
        let Some(head) = board.front().copied() else { return 0 };
        // Copies of what had arrived are answered like this too, if the peer does not tell them apart by
        // D-SACK.
        let is_certain = board.sacked_bytes() > 0 || board.una().is_after(self.resent_until);
        let is_first = is_certain && !head.is_retransmitted && !recovery.sees_reordering() && self.has_room();
        let is_due =
            if is_first { recovery.has_had_time(&head, now) } else { recovery.is_overdue(&head, now) };
        if !is_due || head.is_lost {
            return 0;
        }
        let lost = board.lose_head();
        if !is_certain {
            // To take the rest for lost as well would send copies for ever; the answer to the head will tell.
            board.take_lowest_marked();
            self.note_overflow(flight);
        }
        lost
    }

    fn note_overflow(&mut self, flight: &Flight<'_>) {
        if !self.has_room() {
            self.on_overflow(flight);
        }
    }

    /// Marks what the peer does not hold because of the hole that has just been found: of what lies a window
    /// behind it nothing, and all of it is to be discarded.
    pub(crate) fn lose_behind(&mut self, flight: &mut Flight<'_>) -> Behind {
        let Some(hole) = flight.board.take_lowest_marked() else { return Behind::default() };
        // A window from the hole on is what the peer will hold, once it has all before.
        let edge = hole + flight.window.room(flight.board.una()).max(0).unsigned_abs();
        let board = &mut *flight.board;
        if !self.is_active() || edge.is_at_or_after(board.nxt()) {
            return Behind::default();
        }
        board.split_at(edge);
        let lost = lose_hole(flight, hole, edge);
        let board = &mut *flight.board;
        let first = board.position(edge);
        let beyond: u32 = (first..board.len()).map(|index| board.mark_lost(index)).sum();
        board.take_lowest_marked();
        // Sent again at once all of that would be in the queue twice. Some have arrived, and were answered
        // already.
        let arrived = self.discards.unexplained_acks.saturating_mul(board.mss()).min(beyond);
        let expected = self.discards.expected.saturating_add(beyond - arrived);
        let last = Some(board.last_order());
        self.discards.change(|discards| *discards = Discards { expected, last, unexplained_acks: 0 });
        self.note_overflow(flight);
        if self.has_room() {
            Behind { lost, discarded: arrived }
        } else {
            Behind { lost: lost + beyond, discarded: 0 }
        }
    }
}

/// Marks all of the hole at once. What goes out behind the oldest segment would reach the peer before the
/// rest of the hole, and be discarded in its turn.
fn lose_hole(flight: &mut Flight<'_>, hole: SeqNum, edge: SeqNum) -> u32 {
    let &mut Flight { ref mut board, recovery, now, .. } = flight;
    // Without a SACK nothing of the window has arrived, and what was discarded left behind all of it.
    let is_empty = board.sacked_bytes() == 0;
    let is_missing = |entry: &Entry| {
        if is_empty {
            recovery.has_had_time(entry, now)
        } else {
            recovery.is_before_newest(entry.order()) && !entry.is_sacked
        }
    };
    let entries = board.position(hole)..board.position(edge);
    entries
        .map(|index| if board.entry(index).is_some_and(is_missing) { board.mark_lost(index) } else { 0 })
        .sum()
}
