//! [`Opportunism`]: sending beyond the peer's window (\[MA\]), and what is done about a peer that discards
//! what it cannot hold (H18).
//!
//! | file | what |
//! |---|---|
//! | `overcommit` | bytes that may be under way beyond the window |
//! | `discards` | what the peer discards, found without SACK; when it has arrived |
//!
//! A peer that misses a segment holds one window from it on, and discards the rest without a word but a
//! repeated acknowledgement. That is no loss of the path's, so it is kept apart from what recovery finds:
//!
//! ```text
//!   una          hole + window           nxt
//!    │ hole │ held   │ expected discards  │
//! ```
//!
//! Expected discards count as in flight until they have arrived, and are sent again behind the hole.

mod discards;
mod overcommit;

use stored::{Absent, Rare};
use units::{Instant, SeqNum};

use crate::interface::{AckOutcome, SenderConfig, WindowPolicy};
use crate::peer_window::PeerWindow;
use crate::recovery::Recovery;
use crate::scoreboard::{Scoreboard, SendOrder};

use overcommit::{Overcommit, Overflow};

/// State of sending beyond the window, and of the discards that follow.
#[derive(Clone, Debug, stored::Stored)]
pub(crate) struct Opportunism {
    overcommit: Overcommit,
    discards: Rare<Discards>,
    /// Last sequence number sent when something was sent again: until more than that is acknowledged, copies
    /// may be on their way.
    resent_until: SeqNum,
    /// Smallest window told since the left edge moved last, and the widest ever.
    least_window: u32,
    widest_window: u32,
    policy: WindowPolicy,
}

/// Segments that a peer discards.
#[derive(Clone, Debug, Default, stored::Stored)]
struct Discards {
    /// Bytes that the peer will discard when they arrive: marked lost, but still on their way.
    expected: u32,
    /// The last transmission among them.
    last: Option<SendOrder>,
    /// Duplicate acknowledgements in a row that no expected discard explains.
    unexplained_acks: u32,
}

impl Absent for Discards {
    const ABSENT: &'static Self = &Self { expected: 0, last: None, unexplained_acks: 0 };
    fn is_absent(&self) -> bool {
        self.expected == 0 && self.last.is_none() && self.unexplained_acks == 0
    }
}

/// Data under way, with the state by which it is judged.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    pub board: &'a mut Scoreboard,
    pub recovery: &'a Recovery,
    pub window: PeerWindow,
    pub now: Instant,
}

impl Opportunism {
    pub(crate) fn new(config: &SenderConfig) -> Self {
        Self {
            overcommit: Overcommit::default(),
            discards: Rare::default(),
            resent_until: config.start - 1,
            least_window: config.window,
            widest_window: config.window,
            policy: config.policy,
        }
    }

    pub(crate) fn set_policy(&mut self, policy: WindowPolicy) {
        self.policy = policy;
    }

    /// Sends beyond the window, and has not had to stop that.
    fn is_active(&self) -> bool {
        self.policy == WindowPolicy::Opportunistic && !self.overcommit.is_paused()
    }

    /// Bytes that may be under way beyond the window; the largest number if any.
    pub(crate) fn allowance(&self, window: PeerWindow) -> u32 {
        if self.is_active() && window.size() > 0 { self.overcommit.allowance() } else { 0 }
    }

    /// Bytes under way that the peer will discard.
    pub(crate) fn expected_discards(&self) -> u32 {
        self.discards.expected
    }

    /// Something was sent again; what has been sent ends before `nxt`.
    pub(crate) fn on_resend(&mut self, nxt: SeqNum) {
        self.resent_until = nxt;
    }

    /// A time-out counts all under way as lost, what will be discarded too.
    pub(crate) fn on_timeout(&mut self) {
        if self.discards.expected > 0 {
            self.discards.change(|discards| discards.expected = 0);
        }
    }

    /// Takes in the window of an acknowledgement that `has_moved` the left edge to `una`, or not.
    pub(crate) fn note_window(&mut self, window: PeerWindow, has_moved: bool, una: SeqNum) {
        let size = window.size();
        self.widest_window = self.widest_window.max(size);
        if has_moved {
            // Numbers that are reached would lie ahead again half a circle later.
            self.resent_until = self.resent_until.later_of(una - 1);
            self.overcommit.on_progress(una);
            self.least_window = size;
            if self.discards.unexplained_acks > 0 {
                self.discards.change(|discards| discards.unexplained_acks = 0);
            }
        } else {
            self.least_window = self.least_window.min(size);
        }
    }

    /// The peer takes what arrives: what is missing did not.
    fn has_room(&self) -> bool {
        self.least_window > self.widest_window / 2
    }

    /// Judges by an acknowledgement whether sending beyond the window pays; `before` is the window before it,
    /// and `retransmitted` counts all bytes sent again.
    pub(crate) fn judge(
        &mut self,
        flight: &Flight<'_>,
        before: PeerWindow,
        retransmitted: u64,
        out: &mut AckOutcome,
    ) {
        if self.policy != WindowPolicy::Opportunistic {
            return;
        }
        let (board, window) = (&*flight.board, flight.window);
        if self.overcommit.is_paused() {
            return self.overcommit.on_honoured(out.delivered, window.size(), retransmitted);
        }
        if before.size() > 0 && window.discards_all(board.nxt()) {
            self.on_overflow(flight);
        }
        let beyond = window.exceeded_by(board.nxt()).saturating_add(2 * board.mss());
        out.fell_back =
            self.overcommit.on_delivered(out.delivered, board.outstanding(), beyond, retransmitted);
    }

    /// The peer had no room.
    fn on_overflow(&mut self, flight: &Flight<'_>) {
        self.overcommit.on_overflow(Overflow {
            una: flight.board.una(),
            nxt: flight.board.nxt(),
            beyond: flight.window.exceeded_by(flight.board.nxt()),
            window: self.widest_window,
        });
    }
}
