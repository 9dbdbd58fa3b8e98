//! Whether a time-out was spurious (F-RTO): did the segment that timed out, or only its
//! acknowledgement, go missing?
//!
//! ```text
//!   time-out ─▶ Retransmit ──sent──▶ Wait ── something sent once, and before, is delivered ─▶ taken back
//!                                     └───── otherwise ─▶ Repair: everything marked lost goes out
//! ```
//!
//! Taken back is also what the time-out said of the recovery: a loss of before goes on to be
//! recovered from, and one that is found from here on is a new event (RFC 4015 §3.2 for the
//! controller's part).
//!
//! Source: RFC 5682 §3, the algorithm for SACK; without SACK no time-out is taken back. DEVIATION:
//! it sends new data while the answer is awaited; here nothing is sent. Shown by
//! `no_new_data_is_sent_while_a_time_out_is_judged`.

use units::SeqNum;

use super::{Episode, Recovery};
use crate::interface::AckOutcome;
use crate::scoreboard::Scoreboard;

/// A time-out that is being recovered from.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(super) struct Timeout {
    phase: Phase,
    /// Segments it is still to send.
    segments: u8,
    /// `RecoveryPoint` of a loss that was being recovered from when it fired; no later than what is
    /// acknowledged if none was.
    earlier_point: SeqNum,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Phase {
    /// The oldest segment is to be sent again, after several time-outs in a row more of them, and nothing
    /// else.
    Retransmit,
    /// They were; until their fate is known nothing more is sent.
    Wait,
    /// The loss was real: everything marked lost goes out.
    Repair,
}

impl Timeout {
    /// Begins a time-out that sends `segments` segments; without it the recovery would end at
    /// `earlier_point`.
    pub(super) fn new(segments: u8, earlier_point: SeqNum) -> Self {
        Self { phase: Phase::Retransmit, segments, earlier_point }
    }

    /// End of the recovery that applies if the time-out is undone, while that is possible.
    pub(super) fn point_if_undone(self) -> Option<SeqNum> {
        (self.phase != Phase::Repair).then_some(self.earlier_point)
    }
}

/// Data that a sender may send while a time-out is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Permit {
    /// Whatever the windows allow.
    All,
    /// The oldest lost segments, one at a time.
    OldestLost,
    /// Nothing.
    None,
}

impl Recovery {
    /// Data that may be sent now.
    pub(crate) fn permit(&self) -> Permit {
        match self.timeout.map(|timeout| timeout.phase) {
            None | Some(Phase::Repair) => Permit::All,
            Some(Phase::Retransmit) => Permit::OldestLost,
            Some(Phase::Wait) => Permit::None,
        }
    }

    /// A segment of those that the time-out sends has left (RFC 5682 §3 step 1).
    pub(super) fn on_timeout_segment(&mut self) {
        if let Some(timeout) = self.timeout.as_mut().filter(|timeout| timeout.phase == Phase::Retransmit) {
            timeout.segments = timeout.segments.saturating_sub(1);
            if timeout.segments == 0 {
                timeout.phase = Phase::Wait;
            }
        }
    }

    /// It is not known yet which copy of a segment sent again has arrived.
    pub(super) fn is_judging(&self) -> bool {
        self.sack && self.permit() != Permit::All
    }

    /// Judges the time-out by what an acknowledgement has delivered (RFC 5682 §3 steps 2 and 3):
    /// `has_original` when that includes something sent only once, `has_opened` when it opened a window that
    /// had shut.
    pub(crate) fn judge_timeout(
        &mut self,
        has_original: bool,
        has_opened: bool,
        board: &mut Scoreboard,
        out: &mut AckOutcome,
    ) {
        let Some(timeout) = &mut self.timeout else { return };
        if out.delivered == 0 {
            if has_opened && timeout.phase == Phase::Wait {
                // What probed the shut window was discarded like the rest.
                timeout.phase = Phase::Repair;
                out.lost += board.mark_lost(0);
            }
            return;
        }
        if self.sack && has_original && timeout.phase != Phase::Repair {
            // Something sent only once, and before the time-out, arrived: the flight was alive.
            board.unmark_all_lost();
            let is_over = timeout.earlier_point.is_at_or_before(board.una());
            self.episode = if is_over { Episode::None } else { Episode::Recovering(timeout.earlier_point) };
            self.timeout = None;
            out.undid_timeout = true;
            return;
        }
        timeout.phase = Phase::Repair;
    }
}
