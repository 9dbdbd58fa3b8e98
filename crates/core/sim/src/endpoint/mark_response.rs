//! Responses of a host to marks on its data ([`MarkResponse`], [`Answering`]), and classic ECN's [`Echo`].
//!
//! ```text
//!   classic ECN:   ECE in an acknowledgement behind the last CWR ─▶ a mark;  CWR with the next new data    RFC 3168
//!   accurate ECN:  the counter of CE packets has grown            ─▶ a mark                                RFC 9768
//!
//!   a mark counts once a round trip:  classic                      the window falls as the controller has it
//!                                     scalable  α ← α + (F − α)÷16, once a round trip: F of it was marked
//!                                               the window becomes 1 − α÷2 of itself                       RFC 9331 §4
//! ```

use control::Mark;
use units::SeqNum;

/// Parts of a million.
const ALL_PPM: i64 = 1_000_000;

/// g: the part of a round trip's share that α takes on (RFC 8257 §3.3).
const GAIN_SHIFT: u32 = 4;

/// Response of a host to marks on what it has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MarkResponse {
    /// It counts and tells them, and does nothing about its own.
    #[default]
    Nothing,
    /// Its window falls once a round trip, as its controller has it. It sends ECT(0).
    Classic,
    /// It falls by half of the share of late that was marked. It sends ECT(1), and needs accurate ECN.
    Scalable,
}

/// A sender's side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answering {
    response: MarkResponse,
    /// A mark counts once what was sent at the last one that did is acknowledged.
    until: SeqNum,
    /// Classic ECN: the next new data says CWR, and where the last one lies that did.
    pub owes_cwr: bool,
    cwr_end: Option<SeqNum>,
    /// Accurate ECN: the counter that was told last.
    ace: u8,
    /// α in parts of a million; and of this round trip the end, packets delivered, and marked ones.
    alpha_ppm: i64,
    round_end: SeqNum,
    delivered: i64,
    marked: i64,
    /// Marks that have reduced the window.
    pub reductions: u64,
}

/// Fields about marks of an acknowledgement that delivers something.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkFeedback {
    pub ece: bool,
    pub ace: u8,
    pub is_accurate: bool,
    pub una: SeqNum,
    pub nxt: SeqNum,
    /// Packets it has delivered.
    pub packets: u32,
}

impl Answering {
    /// State of a host whose data begins at `start`.
    pub(super) const fn new(response: MarkResponse, start: SeqNum) -> Self {
        Self {
            response,
            until: start,
            owes_cwr: false,
            cwr_end: None,
            ace: 5,
            alpha_ppm: ALL_PPM,
            round_end: start,
            delivered: 0,
            marked: 0,
            reductions: 0,
        }
    }

    /// Takes in an acknowledgement that delivers something: what it asks the controller for.
    pub(super) fn on_ack(&mut self, told: &MarkFeedback) -> Option<Mark> {
        if self.response == MarkResponse::Nothing {
            return None;
        }
        let marked = if told.is_accurate { self.counted(told) } else { self.echoed(told) };
        self.delivered += i64::from(told.packets);
        self.marked += i64::from(marked);
        if told.una.is_after(self.round_end) {
            self.end_round(told.nxt);
        }
        if marked == 0 || told.una.is_before(self.until) {
            return None;
        }
        self.until = told.nxt;
        self.owes_cwr = !told.is_accurate;
        self.reductions += 1;
        Some(match self.response {
            MarkResponse::Scalable => Mark::Scalable { share_ppm: self.alpha_ppm as u32 },
            _ => Mark::Classic,
        })
    }

    fn counted(&mut self, told: &MarkFeedback) -> u32 {
        let more = told.ace.wrapping_sub(std::mem::replace(&mut self.ace, told.ace)) & 7;
        u32::from(more)
    }

    /// Number of marks that ECE tells of: none before the peer can have heard of the last CWR.
    fn echoed(&mut self, told: &MarkFeedback) -> u32 {
        let is_old = self.owes_cwr || self.cwr_end.is_some_and(|end| told.una.is_before(end));
        u32::from(told.ece && !is_old)
    }

    fn end_round(&mut self, nxt: SeqNum) {
        let share = (self.marked * ALL_PPM / self.delivered.max(1)).min(ALL_PPM);
        self.alpha_ppm += (share - self.alpha_ppm) >> GAIN_SHIFT;
        (self.round_end, self.delivered, self.marked) = (nxt, 0, 0);
    }

    /// New data that ends at `end` leaves: true where it is to say CWR.
    pub(super) fn take_cwr(&mut self, end: SeqNum) -> bool {
        if self.owes_cwr {
            self.cwr_end = Some(end);
        }
        std::mem::take(&mut self.owes_cwr)
    }
}

/// A receiver's side of classic ECN (RFC 3168 §6.1.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    /// It says ECE until the sender says CWR.
    pub is_due: bool,
}

impl Echo {
    /// Data has come, with or without CWR, marked or not.
    pub(super) fn on_data(&mut self, has_cwr: bool, is_marked: bool) {
        self.is_due = is_marked || (self.is_due && !has_cwr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(una: u32, ace: u8) -> MarkFeedback {
        let (una, nxt) = (SeqNum::new(una), SeqNum::new(una + 10_000));
        MarkFeedback { ece: false, ace, is_accurate: true, una, nxt, packets: 10 }
    }

    #[test]
    fn alpha_follows_the_share_of_marks_by_a_sixteenth_a_round_trip() {
        let mut answering = Answering::new(MarkResponse::Scalable, SeqNum::new(0));
        let share = |mark| match mark {
            Some(Mark::Scalable { share_ppm }) => share_ppm,
            other => panic!("{other:?}"),
        };
        // Half of the first round trip.
        let first = answering.on_ack(&told(10_000, (5 + 5) & 7));
        assert_eq!(share(first), 1_000_000 - 500_000 / 16);
        assert_eq!(answering.on_ack(&told(15_000, 3)), None, "once a round trip");
        let mut una = 20_000;
        for _ in 0..200 {
            una += 10_000;
            assert_eq!(answering.on_ack(&told(una, 3)), None);
        }
        let last = share(answering.on_ack(&told(una + 10_000, 4)));
        assert!(last < 10_000, "{last}");
    }

    #[test]
    fn an_echo_counts_again_once_what_said_cwr_is_acknowledged() {
        let mut answering = Answering::new(MarkResponse::Classic, SeqNum::new(0));
        let ack = |una| MarkFeedback { ece: true, is_accurate: false, ..told(una, 0) };
        assert_eq!(answering.on_ack(&ack(1_000)), Some(Mark::Classic));
        assert_eq!(answering.on_ack(&ack(2_000)), None);
        assert!(answering.take_cwr(SeqNum::new(12_000)) && !answering.take_cwr(SeqNum::new(13_000)));
        assert_eq!(answering.on_ack(&ack(11_500)), None, "it has not heard of CWR");
        assert_eq!(answering.on_ack(&ack(12_000)), Some(Mark::Classic));
    }

    #[test]
    fn a_mark_is_echoed_until_cwr() {
        let mut echo = Echo::default();
        for (has_cwr, is_marked, is_due) in [
            (false, false, false),
            (false, true, true),
            (false, false, true),
            (true, true, true),
            (true, false, false),
        ] {
            echo.on_data(has_cwr, is_marked);
            assert_eq!(echo.is_due, is_due);
        }
    }
}
