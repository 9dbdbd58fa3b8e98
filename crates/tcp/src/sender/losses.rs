//! What an acknowledgement shows to be lost: by time (RACK), by counting where there is no SACK, and what a client discards.

use units::Instant;

use super::{AckOutcome, Sender};
use crate::rack::DUP_THRESHOLD;

impl Sender {
    pub(super) fn detect_losses(&mut self, is_duplicate: bool, out: &mut AckOutcome, now: Instant) {
        let head_was_lost = self.is_head_lost();
        if self.config.sack {
            out.lost += self.detect_by_time(now);
        }
        if is_duplicate {
            self.duplicate_acks += 1;
            self.on_duplicate_ack(out, now);
        } else if !self.config.sack && out.acked > 0 && self.timeout.is_none() && self.is_partial_ack() {
            out.lost += self.lose_head(); // RFC 6582 §3.2 step 3
        }
        if !head_was_lost && self.is_head_lost() {
            out.lost += self.lose_beyond_window();
        }
    }

    /// RFC 8985 §6.2 step 5; arms the timer for what is merely late.
    pub(super) fn detect_by_time(&mut self, now: Instant) -> u32 {
        let in_recovery = self.recover.is_some() || self.timeout.is_some();
        let (lost, again) = self.rack.detect(&mut self.board, &self.rtt, in_recovery, self.config.mss, now);
        self.timers.set_reordering(again);
        lost
    }

    pub(super) fn is_head_lost(&self) -> bool {
        self.board.front().is_some_and(|e| e.is_lost)
    }

    fn is_partial_ack(&self) -> bool {
        self.recover.is_some_and(|recover| self.board.una().is_before(recover))
    }

    /// Duplicates count where SACK is missing, and where the client discards what it cannot hold.
    fn on_duplicate_ack(&mut self, out: &mut AckOutcome, now: Instant) {
        let Some(head) = self.board.front().copied() else { return };
        if !self.config.sack {
            if self.duplicate_acks == DUP_THRESHOLD && self.recover.is_none() {
                out.lost += self.lose_head();
            }
        } else if self.is_opportunistic()
            && self.duplicate_acks >= DUP_THRESHOLD
            && self.rack.is_overdue(&head, &self.rtt, now)
        {
            // A client that drops what lies beyond its window answers without SACK: only the count and
            // the time tell that the head is missing (H18).
            out.lost += self.lose_head();
        }
    }

    pub(super) fn lose_head(&mut self) -> u32 {
        self.board.split_at(self.board.una() + self.config.mss.max(1));
        self.board.mark_lost(0)
    }

    /// H18: while the head is missing the client holds one window behind it and discards the rest.
    pub(super) fn lose_beyond_window(&mut self) -> u32 {
        if !self.is_opportunistic() {
            return 0;
        }
        let edge = self.right_edge();
        if edge.is_at_or_after(self.board.nxt()) {
            return 0;
        }
        self.board.split_at(edge);
        let first = self.board.position(edge);
        let lost = (first..self.board.len()).map(|index| self.board.mark_lost(index)).sum();
        // Sent again at once all of that would be in the queue twice.
        self.doomed = self.doomed.saturating_add(lost);
        lost
    }
}
