//! [`RenoSack`]: what duplicate acknowledgements say where SACK is missing (Linux `tcp_add_reno_sack`).
//!
//! Each duplicate means that one segment behind the hole has arrived: it is in flight no more, and
//! releases another by the same rules as a SACK block would. RFC 6582 does the same by inflating
//! the window.

use tcp::AckOutcome;

/// Bytes believed to have arrived behind a hole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RenoSack {
    bytes: u32,
    /// After a time-out everything goes out again, and duplicates tell of copies.
    is_blind: bool,
}

impl RenoSack {
    /// Bytes that are in flight no more, though nothing acknowledged them.
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Takes in what an acknowledgement did, with `outstanding` bytes left, and says in it what was
    /// delivered.
    pub(super) fn on_ack(&mut self, out: &mut AckOutcome, outstanding: u32, segment: u32) {
        if !out.is_recovering {
            self.is_blind = false;
        }
        if out.is_duplicate && !self.is_blind {
            let more = segment.min(outstanding.saturating_sub(self.bytes + segment));
            self.bytes += more;
            out.delivered += more;
        } else if out.acked > 0 {
            // The repair itself is new; what lay behind it was counted when its duplicates came.
            let known = self.bytes.min(out.acked.saturating_sub(segment));
            self.bytes = if out.is_recovering { (self.bytes - known).min(outstanding) } else { 0 };
            out.delivered -= known.min(out.delivered);
        }
    }

    /// Everything under way counts as lost.
    pub(super) fn on_timeout(&mut self) {
        *self = Self { bytes: 0, is_blind: true };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1_000;

    fn duplicate(is_recovering: bool) -> AckOutcome {
        AckOutcome { is_duplicate: true, is_recovering, ..AckOutcome::default() }
    }

    #[test]
    fn each_duplicate_delivers_a_segment_and_the_repair_counts_once() {
        let mut sack = RenoSack::default();
        let mut delivered = 0;
        for _ in 0..4 {
            let mut out = duplicate(true);
            sack.on_ack(&mut out, 5 * SEGMENT, SEGMENT);
            delivered += out.delivered;
        }
        assert_eq!((sack.bytes(), delivered), (4 * SEGMENT, 4 * SEGMENT));
        let mut out = AckOutcome { acked: 5 * SEGMENT, delivered: 5 * SEGMENT, ..AckOutcome::default() };
        sack.on_ack(&mut out, 0, SEGMENT);
        assert_eq!((sack.bytes(), out.delivered), (0, SEGMENT));
    }

    #[test]
    fn the_hole_itself_is_never_delivered_by_duplicates() {
        let mut sack = RenoSack::default();
        for _ in 0..9 {
            sack.on_ack(&mut duplicate(true), 3 * SEGMENT, SEGMENT);
        }
        assert_eq!(sack.bytes(), 2 * SEGMENT);
    }

    #[test]
    fn after_a_time_out_duplicates_say_nothing() {
        let mut sack = RenoSack::default();
        sack.on_timeout();
        sack.on_ack(&mut duplicate(true), 9 * SEGMENT, SEGMENT);
        assert_eq!(sack.bytes(), 0);
        sack.on_ack(&mut duplicate(false), 9 * SEGMENT, SEGMENT);
        assert_eq!(sack.bytes(), SEGMENT, "the recovery is over");
    }
}
