//! Sizes of the segments that one direction's packets stand for.

use std::num::NonZeroU16;

/// Payload of the largest packet of any usual link, bytes.
const JUMBO_MAX: u64 = 9_200;

/// Payload sizes of one direction's packets, and what tells those of their segments on the wire.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PayloadSizes {
    pub(crate) min: u32,
    pub(crate) max: u32,
    /// Of a packet that is none of several merged, while the segment size is not known: the largest.
    pub(crate) plain_max: u32,
    /// The smaller of both sides' offers; none before the other side's is known.
    pub(crate) peer_mss: Option<NonZeroU16>,
    pub(crate) has_timestamps: bool,
}

impl PayloadSizes {
    /// Segment payload of the connection, for counting what one captured super-packet was on the wire.
    pub(crate) fn wire_segments(&self, len: u64) -> u64 {
        len.div_ceil(self.wire_segment(len)).max(1)
    }

    /// Payload of the segments on the wire that a captured packet with `len` bytes stands for.
    #[inline]
    pub(crate) fn wire_segment(&self, len: u64) -> u64 {
        let overhead = if self.has_timestamps { 12 } else { 0 };
        match self.peer_mss.map(|mss| u64::from(mss.get()).saturating_sub(overhead)) {
            Some(mss) if len > mss && mss > 0 => mss,
            Some(_) => len.max(1),
            None => self.guessed_segment(len),
        }
    }

    /// The same where no SYN said the size: that of the largest packet of Ethernet, if this one is a multiple
    /// of it, or too large for any link.
    fn guessed_segment(&self, len: u64) -> u64 {
        let plain = u64::from(self.plain_max);
        let is_merged = plain >= 500 && len > plain && (len.is_multiple_of(plain) || len > JUMBO_MAX);
        if is_merged { plain } else { len.max(1) }
    }

    /// Payload of the largest segment on the wire, bytes; at least one.
    pub(crate) fn largest(&self) -> u64 {
        let largest = u64::from(self.max);
        self.wire_segment(largest).min(largest).max(1)
    }
}
