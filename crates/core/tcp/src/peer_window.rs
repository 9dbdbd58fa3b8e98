//! [`PeerWindow`]: how far the peer lets us send (RFC 9293 §3.8.6).

use units::SeqNum;

/// The window as the peer told it last.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct PeerWindow {
    /// Bytes, scaled (SND.WND).
    size: u32,
    /// Acknowledgement number it came with (SND.WL2).
    ack: SeqNum,
    /// Sequence number it came with (SND.WL1).
    seq: SeqNum,
}

/// Two windows are equal that say the same, whatever they came with.
impl PartialEq for PeerWindow {
    fn eq(&self, other: &Self) -> bool {
        (self.size, self.ack) == (other.size, other.ack)
    }
}

impl PeerWindow {
    /// A window that came with `ack`; each segment from number `seq` on tells a newer one.
    pub(crate) fn new(size: u32, ack: SeqNum, seq: SeqNum) -> Self {
        Self { size, ack, seq }
    }

    pub(crate) fn size(self) -> u32 {
        self.size
    }

    /// One past the last number it allows.
    pub(crate) fn right_edge(self) -> SeqNum {
        self.ack + self.size
    }

    /// Takes in the window of a segment, unless a newer one has been seen (RFC 9293 §3.10.7.4). One that
    /// acknowledges more than all before it is newer whatever its number is (Linux `tcp_may_update_window`).
    pub(crate) fn update(&mut self, size: u32, ack: SeqNum, seq: SeqNum) {
        if ack.is_after(self.ack) || (ack == self.ack && seq.is_at_or_after(self.seq)) {
            *self = Self { size, ack, seq };
        }
    }

    /// The same window from `to` on.
    pub(crate) fn move_to(&mut self, to: SeqNum) {
        self.ack = to;
    }

    /// Bytes from `nxt` to the right edge; negative when more was sent.
    pub(crate) fn room(self, nxt: SeqNum) -> i32 {
        self.right_edge().distance_from(nxt)
    }

    /// Bytes sent beyond it.
    pub(crate) fn exceeded_by(self, nxt: SeqNum) -> u32 {
        nxt.distance_from(self.right_edge()).max(0).unsigned_abs()
    }

    /// More was sent than it allows: opportunistically, or it has shrunk.
    pub(crate) fn is_exceeded(self, nxt: SeqNum) -> bool {
        nxt.is_after(self.right_edge())
    }

    /// It has shut, and what is under way beyond it will be discarded.
    pub(crate) fn discards_all(self, nxt: SeqNum) -> bool {
        self.size == 0 && self.is_exceeded(nxt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_acknowledgement_tells_no_window() {
        let at = |n: u32| SeqNum::new(u32::MAX - 500) + n;
        let mut window = PeerWindow::new(1_000, at(0), at(0));
        window.update(2_000, at(1_000), at(50));
        window.update(5, at(999), at(60));
        assert_eq!((window.size(), window.right_edge()), (2_000, at(3_000)));
        window.update(0, at(1_000), at(50));
        assert_eq!((window.room(at(900)), window.exceeded_by(at(900))), (100, 0));
        assert_eq!((window.room(at(1_600)), window.exceeded_by(at(1_600))), (-600, 600));
        assert!(!window.discards_all(at(1_000)) && window.discards_all(at(1_001)));
    }

    #[test]
    fn an_older_segment_tells_a_window_only_with_a_newer_acknowledgement() {
        let at = |n: u32| SeqNum::new(u32::MAX - 500) + n;
        let mut window = PeerWindow::new(1_000, at(0), at(0));
        window.update(2_000, at(0), at(800));
        window.update(5, at(0), at(799));
        assert_eq!(window.size(), 2_000);
        window.update(7, at(1), at(700));
        assert_eq!((window.size(), window.right_edge()), (7, at(8)));
    }
}
