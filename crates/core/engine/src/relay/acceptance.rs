//! Rules by which a segment is believed. The engine stands for both hosts, so it believes no more than
//! Linux does (`tcp_validate_incoming`, `tcp_ack`): whoever knows a flow's addresses and ports, and not
//! its numbers, must not reach further through it than past it.
//!
//! | of a segment | counts where |
//! |---|---|
//! | anything, but a SYN or a reset | it has an acknowledgement number in the range of [`AckRange`] |
//! | data, the end of the stream | its number lies in the window |
//! | window, IP header | its acknowledgement is the newest ([`AckKind::Current`]) |
//! | time | the same, and its number reaches back to what was taken before (RFC 7323 §4.3) |

use units::SeqNum;
use wire::{Tcp, TcpFlags};

/// Kind of a segment's acknowledgement number to the stream that it acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AckKind {
    /// There is none.
    Missing,
    /// It lies further back than what could be under way when it was written.
    TooOld,
    /// A later one has come. What the segment carries counts; what it says of windows and times does not.
    Old,
    /// None has come that is later.
    Current,
    /// It acknowledges what was never sent.
    NeverSent,
}

impl AckKind {
    /// True when a host would take in what the segment carries.
    pub(crate) const fn is_acceptable(self) -> bool {
        matches!(self, Self::Old | Self::Current)
    }

    pub(crate) const fn is_current(self) -> bool {
        matches!(self, Self::Current)
    }
}

/// Range of acknowledgements of one side: how far back they may lie (RFC 5961 §5.2, with the lower
/// bound of Linux's `tcp_ack`).
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct AckRange {
    /// Largest window that the side has stated, or amount that was under way to it, in bytes (`MAX.SND.WND`).
    pub(super) most_allowed: u32,
    /// Bytes that it has acknowledged; those of a long flow count up to [`u32::MAX`].
    pub(super) acked: u32,
}

impl AckRange {
    /// Range of a side of which is not known what it has stated: no window is larger (RFC 7323 §2.3).
    pub(crate) const UNKNOWN: Self = Self { most_allowed: 65_535 << 14, acked: u32::MAX };

    /// Range of a side that has allowed `window` bytes and acknowledged none.
    pub(crate) const fn new(window: u32) -> Self {
        Self { most_allowed: window, acked: 0 }
    }

    /// Judges a segment of the side, where the other one's stream is acknowledged up to `una` and sent up to
    /// `nxt`.
    #[inline]
    pub(crate) fn judge(self, tcp: &Tcp, una: SeqNum, nxt: SeqNum) -> AckKind {
        if tcp.flags.contains(TcpFlags::ACK) { self.place(tcp.ack, una, nxt) } else { AckKind::Missing }
    }

    #[inline]
    fn place(self, ack: SeqNum, una: SeqNum, nxt: SeqNum) -> AckKind {
        if ack.is_after(nxt) {
            AckKind::NeverSent
        } else if ack.is_at_or_after(una) {
            AckKind::Current
        } else if ack.is_at_or_after(una - self.most_allowed.min(self.acked)) {
            AckKind::Old
        } else {
            AckKind::TooOld
        }
    }

    /// It has acknowledged `bytes` more.
    pub(crate) fn note_acked(&mut self, bytes: u32) {
        self.acked = self.acked.saturating_add(bytes);
    }

    /// Notes that it has allowed `bytes`, or that as many were under way to it.
    pub(crate) fn note_allowed(&mut self, bytes: u32) {
        self.most_allowed = self.most_allowed.max(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u32) -> SeqNum {
        SeqNum::new(u32::MAX - 99) + n
    }

    fn judge(range: AckRange, ack: SeqNum) -> AckKind {
        range.place(ack, at(1_000), at(1_500))
    }

    #[test]
    fn the_range_is_that_of_linux() {
        let young = AckRange { most_allowed: 60_000, acked: 700 };
        let wanted = [
            (299, AckKind::TooOld),
            (300, AckKind::Old),
            (999, AckKind::Old),
            (1_000, AckKind::Current),
            (1_500, AckKind::Current),
            (1_501, AckKind::NeverSent),
        ];
        for (ack, kind) in wanted {
            assert_eq!(judge(young, at(ack)), kind, "{ack}");
        }
        let long = AckRange { most_allowed: 600, acked: u32::MAX };
        assert_eq!(judge(long, at(400)), AckKind::Old);
        assert_eq!(judge(long, at(399)), AckKind::TooOld);
        assert_eq!(judge(AckRange::new(60_000), at(999)), AckKind::TooOld, "it has acknowledged nothing");
    }

    #[test]
    fn a_long_flow_counts_no_further_than_it_can() {
        let mut range = AckRange::new(1_000);
        for _ in 0..5 {
            range.note_acked(1 << 30);
        }
        assert_eq!(range.acked, u32::MAX);
    }
}
