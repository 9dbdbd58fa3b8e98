//! Losses found by counting duplicate acknowledgements, where the peer has no SACK (RFC 5681 §3.2, RFC 6582
//! §3.2).

use super::Recovery;
use crate::scoreboard::Scoreboard;

/// Duplicate acknowledgements that mean loss when no reordering was seen (RFC 5681 §3.2, RFC 8985 §6.2).
pub(crate) const DUP_THRESHOLD: u32 = 3;

impl Recovery {
    /// Counts a duplicate acknowledgement; the bytes that the third one shows to be lost (RFC 6582 §3.2 step
    /// 2).
    pub(crate) fn on_duplicate_ack(&mut self, board: &mut Scoreboard) -> u32 {
        self.duplicate_acks += 1;
        let is_third = self.duplicate_acks == DUP_THRESHOLD && !self.is_recovering();
        if is_third && !self.sack { board.lose_head() } else { 0 }
    }

    /// The bytes that an acknowledgement of new data shows to be lost, because it acknowledges only a part of
    /// what was under way when recovery began (RFC 6582 §3.2 step 3).
    pub(crate) fn on_partial_ack(&mut self, board: &mut Scoreboard) -> u32 {
        let is_partial = self.recovery_point().is_some_and(|point| board.una().is_before(point));
        if is_partial && !self.sack && self.timeout.is_none() { board.lose_head() } else { 0 }
    }
}
