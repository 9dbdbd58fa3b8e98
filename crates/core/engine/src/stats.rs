//! Counters of everything that happens.

use crate::pass::PassReason;

/// Counters of a half since the start; none ever goes down, except the `…_now` ones, which are levels.
///
/// The source is the host that sends the data, the sink the one that takes it: for the downlink the
/// server and the client.
#[derive(Clone, Debug, Default, stored::Stored)]
pub struct Stats {
    /// Packets taken in.
    pub packets_in: u64,
    /// Packets forwarded, edited or not.
    pub packets_forwarded: u64,
    /// Packets of the engine's own making.
    pub packets_made: u64,
    /// Flows in the table now.
    pub flows_now: u64,
    /// Handshakes under way now.
    pub half_open_now: u64,
    /// Flows ever accelerated.
    pub flows_accelerated: u64,
    /// Flows whose client's window was ever ours to lower (`drwa`).
    pub flows_windowed: u64,
    /// Acknowledgements of such flows that went on with a smaller window than the client's.
    pub windows_lowered: u64,
    /// Payload bytes taken from sources.
    pub bytes_received: u64,
    /// Payload bytes acknowledged by sinks.
    pub bytes_delivered: u64,
    /// Payload bytes sent more than once.
    pub bytes_retransmitted: u64,
    /// Bytes acknowledged to the source that the sink will never acknowledge (H1).
    pub bytes_acked_but_lost: u64,
    /// Memory held in stream buffers now, in bytes.
    pub buffer_bytes_now: u64,
    /// Acknowledgements made for sources.
    pub acks_made: u64,
    /// Flows ever accelerated whose hosts agreed on accurate ECN (RFC 9768).
    #[stored(since(7, 0))]
    pub flows_accurate_ecn: u64,
    /// Packets of such flows that were marked CE and taken in their receiver's place (H25).
    #[stored(since(7, 0))]
    pub ce_packets: u64,
    /// Acknowledgements of sinks consumed.
    pub acks_consumed: u64,
    /// Segments with a wrong checksum, dropped unacknowledged (H7).
    pub bad_checksums: u64,
    /// Segments with too old a timestamp (PAWS), or with none where both hosts agreed on them (RFC 7323
    /// §3.2).
    pub paws_rejected: u64,
    /// Segments of sources outside the window.
    pub out_of_window: u64,
    /// Segments left to the source to send again, because memory was short (H20).
    pub memory_refused: u64,
    /// SACK blocks that made no sense (H12).
    pub invalid_sack_blocks: u64,
    /// Segments dropped for their acknowledgement: of what was never sent, too old (RFC 5961 §5), or none.
    pub unacceptable_acks: u64,
    /// Resets with another number than the exact one (RFC 5961 §3).
    pub inexact_resets: u64,
    /// Retransmission time-outs towards sinks.
    pub timeouts: u64,
    /// Time-outs of those that were taken back as needless.
    pub timeouts_undone: u64,
    /// Times a flow went back to honouring the window, because the sink discards what lies beyond it (H18).
    pub fell_back_to_honour: u64,
    /// Packets that are not parsable as IP.
    pub unparsable: u64,
    /// Fragments of IP packets, forwarded untouched (H22).
    pub fragments: u64,
    /// Packets that are not TCP, or where extension headers stand before it, forwarded untouched (H22).
    pub not_tcp: u64,
    /// Segments of flows that are not in the table, forwarded untouched: they were passed, or ran
    /// before (H11).
    pub unknown_flow: u64,
    /// Segments whose TCP header cannot be read, forwarded untouched.
    pub truncated: u64,
    /// Paths that turned out narrower than the segments we sent (H23).
    pub path_mtu_lowered: u64,
    /// Packets that passed in a subscriber's schedule.
    pub opaque_packets: u64,
    /// Bytes of them.
    pub opaque_bytes: u64,
    /// Of those bytes, ones of TCP that passes.
    pub opaque_tcp_bytes: u64,
    /// Bytes of those that are QUIC, as far as that shows (`opaque/key.rs`).
    pub opaque_quic_bytes: u64,
    /// Packets of them that were dropped because their flow's queue was too long.
    pub opaque_dropped: u64,
    /// Packets of them that were marked for the same reason.
    pub opaque_marked: u64,
    /// Packets of them sent beyond the window, because nothing had told for 100 ms what is under way.
    pub opaque_overdue: u64,
    /// Echo requests sent to know what has left.
    #[stored(since(5, 0))]
    pub markers_sent: u64,
    /// Requests of them that were answered.
    #[stored(since(5, 0))]
    pub markers_answered: u64,
    /// Handshakes of QUIC that were seen among them.
    #[stored(since(6, 0))]
    pub quic_handshakes: u64,
    /// Their round trips between here and the clients, µs in all.
    #[stored(since(6, 0))]
    pub quic_handshakes_us: u64,
    /// Handshakes that began with a SYN of a server, on the wired side.
    #[stored(since(6, 0))]
    pub opened_by_servers: u64,
    /// Handshakes that began with one of a client.
    #[stored(since(6, 0))]
    pub opened_by_clients: u64,
    /// Flows passed, or ended, by reason.
    pub passed: [u64; PassReason::COUNT],
}

impl Stats {
    /// Follows a change of the memory that one flow's buffer takes, in bytes.
    pub(crate) fn note_memory(&mut self, before: usize, after: usize) {
        self.buffer_bytes_now = (self.buffer_bytes_now + after as u64).saturating_sub(before as u64);
    }

    pub(crate) fn count_pass(&mut self, reason: PassReason) {
        self.passed[reason.index()] += 1;
    }

    /// Every counter and level with its name, those by reason apart.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("packets_in", self.packets_in),
            ("packets_forwarded", self.packets_forwarded),
            ("packets_made", self.packets_made),
            ("flows_now", self.flows_now),
            ("half_open_now", self.half_open_now),
            ("flows_accelerated", self.flows_accelerated),
            ("flows_windowed", self.flows_windowed),
            ("windows_lowered", self.windows_lowered),
            ("bytes_received", self.bytes_received),
            ("bytes_delivered", self.bytes_delivered),
            ("bytes_retransmitted", self.bytes_retransmitted),
            ("bytes_acked_but_lost", self.bytes_acked_but_lost),
            ("buffer_bytes_now", self.buffer_bytes_now),
            ("acks_made", self.acks_made),
            ("flows_accurate_ecn", self.flows_accurate_ecn),
            ("ce_packets", self.ce_packets),
            ("acks_consumed", self.acks_consumed),
            ("bad_checksums", self.bad_checksums),
            ("paws_rejected", self.paws_rejected),
            ("out_of_window", self.out_of_window),
            ("invalid_sack_blocks", self.invalid_sack_blocks),
            ("unacceptable_acks", self.unacceptable_acks),
            ("inexact_resets", self.inexact_resets),
            ("timeouts", self.timeouts),
            ("timeouts_undone", self.timeouts_undone),
            ("unparsable", self.unparsable),
            ("memory_refused", self.memory_refused),
            ("fell_back_to_honour", self.fell_back_to_honour),
            ("fragments", self.fragments),
            ("not_tcp", self.not_tcp),
            ("unknown_flow", self.unknown_flow),
            ("truncated", self.truncated),
            ("path_mtu_lowered", self.path_mtu_lowered),
            ("opaque_packets", self.opaque_packets),
            ("opaque_bytes", self.opaque_bytes),
            ("opaque_tcp_bytes", self.opaque_tcp_bytes),
            ("opaque_quic_bytes", self.opaque_quic_bytes),
            ("opaque_dropped", self.opaque_dropped),
            ("opaque_marked", self.opaque_marked),
            ("opaque_overdue", self.opaque_overdue),
            ("markers_sent", self.markers_sent),
            ("markers_answered", self.markers_answered),
            ("quic_handshakes", self.quic_handshakes),
            ("quic_handshakes_us", self.quic_handshakes_us),
            ("opened_by_servers", self.opened_by_servers),
            ("opened_by_clients", self.opened_by_clients),
        ]
    }

    /// Flows passed for `reason`.
    #[must_use]
    pub fn passed_for(&self, reason: PassReason) -> u64 {
        self.passed[reason.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_a_name_of_its_own() {
        let stats = Stats { packets_in: 3, path_mtu_lowered: 5, ..Stats::default() };
        let named = stats.named();
        let names: std::collections::BTreeSet<_> = named.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), named.len());
        let set: Vec<_> = named.iter().filter(|(_, value)| *value > 0).collect();
        assert_eq!(set, [&("packets_in", 3), &("path_mtu_lowered", 5)]);
    }
}
