//! [`AckCompression`]: while a hole waits to be filled, Linux acknowledges what lies behind it in groups.
//!
//! The sender needs three duplicates at once to see the loss; after those the blocks of up to 44
//! arrivals within a twentieth of the round trip, a millisecond at most, go out together
//! (`tcp_comp_sack_nr`, `tcp_comp_sack_delay_ns`). Blocks that an acknowledgement has no room for
//! would never be told: what begins a third block does not wait (`TCP_SACK_BLOCKS_EXPECTED`, since
//! Linux 5.8).

use units::{Duration, SeqNum};

/// Duplicates sent at once for each hole (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;
/// Blocks that arrivals held back may have gone into.
pub(super) const BLOCKS: usize = 2;
/// Arrivals in one acknowledgement at most.
const ARRIVALS_MAX: u32 = 44;
/// Longest wait.
const DELAY_MAX: Duration = Duration::from_millis(1);

/// Counts duplicates of a hole and arrivals held back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckCompression {
    /// The hole's first number.
    hole: Option<SeqNum>,
    duplicates: u32,
    held: u32,
}

impl AckCompression {
    /// Something came behind the hole at `hole`: how long its acknowledgement may wait; `None` for
    /// not at all.
    ///
    /// `is_near` when it went into one of the [`BLOCKS`] blocks added to last.
    pub(super) fn on_arrival(
        &mut self,
        hole: SeqNum,
        rtt: Duration,
        sack: bool,
        is_near: bool,
    ) -> Option<Duration> {
        if self.hole != Some(hole) {
            self.hole = Some(hole);
            self.duplicates = 0;
        }
        if !sack || self.held >= ARRIVALS_MAX {
            return None;
        }
        if self.duplicates < DUPLICATES {
            self.duplicates += 1;
            return None;
        }
        if !is_near && self.held > 0 {
            return None;
        }
        self.held += 1;
        Some((rtt / 20).min(DELAY_MAX))
    }

    /// An acknowledgement has left.
    pub(super) fn on_sent(&mut self) {
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(10);

    fn waits(compression: &mut AckCompression, hole: u32, times: usize) -> Vec<Option<u64>> {
        let one = |_| compression.on_arrival(SeqNum::new(hole), RTT, true, true).map(Duration::as_micros);
        (0..times).map(one).collect()
    }

    #[test]
    fn three_duplicates_of_each_hole_leave_at_once() {
        let mut compression = AckCompression::default();
        assert_eq!(waits(&mut compression, 7, 4), [None, None, None, Some(500)]);
        assert_eq!(waits(&mut compression, 9, 4), [None, None, None, Some(500)]);
    }

    #[test]
    fn no_more_than_44_arrivals_wait() {
        let mut compression = AckCompression::default();
        assert_eq!(waits(&mut compression, 7, 3 + 44).iter().flatten().count(), 44);
        assert_eq!(waits(&mut compression, 7, 1), [None]);
        compression.on_sent();
        assert_eq!(waits(&mut compression, 7, 1), [Some(500)]);
    }

    #[test]
    fn a_third_block_does_not_wait_behind_two() {
        let mut compression = AckCompression::default();
        waits(&mut compression, 7, 3);
        let mut far = |is_near| compression.on_arrival(SeqNum::new(7), RTT, true, is_near).is_some();
        // Nothing waits yet, so that nothing can be forgotten.
        assert_eq!([far(false), far(true), far(false)], [true, true, false]);
        compression.on_sent();
        assert!(compression.on_arrival(SeqNum::new(7), RTT, true, false).is_some());
    }

    #[test]
    fn the_wait_is_a_millisecond_at_most_and_needs_sack() {
        let mut compression = AckCompression::default();
        let long = Duration::from_millis(200);
        for _ in 0..3 {
            assert_eq!(compression.on_arrival(SeqNum::new(1), long, true, true), None);
        }
        assert_eq!(compression.on_arrival(SeqNum::new(1), long, true, true), Some(DELAY_MAX));
        assert_eq!(compression.on_arrival(SeqNum::new(1), long, false, true), None);
    }
}
