//! [`PeerWindow`]: how far the peer lets us send (RFC 9293 §3.8.6).

use units::SeqNum;

/// The window as the peer told it last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PeerWindow {
    /// Bytes, scaled (SND.WND).
    size: u32,
    /// Acknowledgement number it came with (SND.WL2).
    ack: SeqNum,
}
stored::fields!(PeerWindow { size, ack });

impl PeerWindow {
    pub(crate) fn new(size: u32, ack: SeqNum) -> Self {
        Self { size, ack }
    }

    pub(crate) fn size(self) -> u32 {
        self.size
    }

    /// One past the last number it allows.
    pub(crate) fn right_edge(self) -> SeqNum {
        self.ack + self.size
    }

    /// Takes in the window of an acknowledgement, unless a newer one has been seen (RFC 9293 §3.10.7.4).
    pub(super) fn update(&mut self, size: u32, ack: SeqNum) {
        if ack.is_at_or_after(self.ack) {
            *self = Self { size, ack };
        }
    }

    /// The same window from `to` on.
    pub(super) fn move_to(&mut self, to: SeqNum) {
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
        let mut window = PeerWindow::new(1_000, at(0));
        window.update(2_000, at(1_000));
        window.update(5, at(999));
        assert_eq!((window.size(), window.right_edge()), (2_000, at(3_000)));
        window.update(0, at(1_000));
        assert_eq!((window.room(at(900)), window.exceeded_by(at(900))), (100, 0));
        assert_eq!((window.room(at(1_600)), window.exceeded_by(at(1_600))), (-600, 600));
        assert!(!window.discards_all(at(1_000)) && window.discards_all(at(1_001)));
    }
}
