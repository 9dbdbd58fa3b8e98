//! Counts of one direction.

use std::ops::{Index, IndexMut};

use crate::recovery::{Cause, SpuriousBy};

/// Counts of one direction.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Counts {
    pub(crate) packets: PacketCounts,
    pub(crate) data: DataCounts,
    pub(crate) flags: FlagCounts,
    pub(crate) ecn: EcnCounts,
    pub(crate) acks: AckCounts,
    pub(crate) probes: ProbeCounts,
    pub(crate) holes: HoleCounts,
    pub(crate) retransmissions: RetransmissionCounts,
}

/// Packets of all kinds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketCounts {
    pub(crate) all: u64,
    pub(crate) ip_bytes: u64,
    /// Segments on the wire, beyond one for each packet.
    pub(crate) more_segments: u64,
    /// Neither with data nor pure acknowledgements.
    pub(crate) control: u64,
    /// Packets that the capture has more than once, but for the first of each.
    pub(crate) copies: u64,
}

/// Packets with data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataCounts {
    pub(crate) packets: u64,
    pub(crate) payload: u64,
    /// Payload bytes that were counted before, or are no part of the stream.
    pub(crate) not_unique: u64,
    pub(crate) in_flight_max: u64,
}

/// Packets by their flags.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlagCounts {
    pub(crate) psh: u64,
    pub(crate) syn: u64,
    pub(crate) fin: u64,
    pub(crate) rst: u64,
    pub(crate) urg: u64,
    pub(crate) ece: u64,
    pub(crate) cwr: u64,
}

/// Packets by their ECN field (RFC 3168 §5), and the sender's answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnCounts {
    pub(crate) ce: u64,
    /// ECT(0) or ECT(1).
    pub(crate) ect: u64,
    /// CWR after the handshake, where it is an answer to a mark.
    pub(crate) reductions: u64,
}

/// Retransmissions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetransmissionCounts {
    /// With data seen before.
    pub(crate) packets: u64,
    /// The same as segments on the wire.
    pub(crate) wire_segments: u64,
    /// PacketFindings before.
    pub(crate) bytes: u64,
    /// FIN without data.
    pub(crate) fin: u64,
    pub(crate) by_cause: PerCause,
    pub(crate) spurious: SpuriousCounts,
}

/// One count for each [`Cause`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PerCause([u64; Cause::ALL.len()]);

impl Index<Cause> for PerCause {
    type Output = u64;
    fn index(&self, cause: Cause) -> &u64 {
        &self.0[cause as usize]
    }
}

impl IndexMut<Cause> for PerCause {
    fn index_mut(&mut self, cause: Cause) -> &mut u64 {
        &mut self.0[cause as usize]
    }
}

/// Spurious retransmissions, by how it became known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpuriousCounts {
    pub(crate) dsack: u64,
    pub(crate) timestamp: u64,
    pub(crate) acknowledged: u64,
}

impl SpuriousCounts {
    pub(crate) fn count(&mut self, by: SpuriousBy) {
        match by {
            SpuriousBy::Dsack => self.dsack += 1,
            SpuriousBy::Timestamp => self.timestamp += 1,
            SpuriousBy::Acknowledged => self.acknowledged += 1,
        }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.dsack + self.timestamp + self.acknowledged
    }
}

/// Probes: no retransmissions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProbeCounts {
    /// Of a zero window (RFC 9293 §3.8.6.1).
    pub(crate) window: u64,
    /// Keep-alives (RFC 9293 §3.8.4).
    pub(crate) keep_alive: u64,
}

/// Holes in the sequence space seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HoleCounts {
    pub(crate) filled: u64,
    /// Filled by packets that were only late.
    pub(crate) reordered: u64,
    /// Packets lost before the capture point, inferred.
    pub(crate) lost_before: u64,
    /// Bytes that were acknowledged though the capture does not have them: those below the last seen.
    pub(crate) not_captured: u64,
    /// Packets of these that count as missing until they are acknowledged.
    pub(crate) packets_not_captured: u64,
}

/// Acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckCounts {
    pub(crate) with_sack: u64,
    pub(crate) dsacks: u64,
    /// D-SACKs for which no retransmission was seen.
    pub(crate) dsacks_unexplained: u64,
    pub(crate) duplicate: u64,
    pub(crate) triple_duplicate: u64,
    /// Of segments sent more than once (Karn's rule).
    pub(crate) ambiguous: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_and_each_way_of_knowing_is_counted_in_its_own_place() {
        let mut by_cause = PerCause::default();
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, place);
            by_cause[cause] += place as u64 + 1;
        }
        assert_eq!(Cause::ALL.map(|cause| by_cause[cause]), [1, 2, 3, 4, 5, 6]);

        let mut spurious = SpuriousCounts::default();
        for (times, by) in [(1, SpuriousBy::Dsack), (2, SpuriousBy::Timestamp), (3, SpuriousBy::Acknowledged)]
        {
            (0..times).for_each(|_| spurious.count(by));
        }
        assert_eq!((spurious.dsack, spurious.timestamp, spurious.acknowledged), (1, 2, 3));
        assert_eq!(spurious.sum(), 6);
    }
}
