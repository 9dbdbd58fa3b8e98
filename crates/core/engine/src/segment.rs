//! [`Segment`]: a TCP segment of a flow on its way through a half; [`Context`]: what else its
//! handling may use.

use tcp::SegmentIn;
use units::{Bytes, Instant};
use wire::{
    ChecksumState, EcnByteCounters, Ip, Packet, Tcp, TcpEditor, TcpFlags, VirtioNetHeader,
    ipv4_checksum_is_valid, tcp_checksum_is_valid,
};

use crate::config::EngineConfig;
use crate::direction::End;
use crate::meters::Meters;
use crate::path::Path;
use crate::stats::Stats;

/// A segment that came in, with its packet, which may be edited.
#[derive(Debug)]
pub(crate) struct Segment<'a> {
    /// The host that sent it.
    pub(crate) from: End,
    parsed: &'a Packet,
    pub(crate) tcp: &'a Tcp,
    virtio: &'a VirtioNetHeader,
    packet: &'a mut [u8],
}

impl<'a> Segment<'a> {
    pub(crate) fn new(
        from: End,
        parsed: &'a Packet,
        tcp: &'a Tcp,
        virtio: &'a VirtioNetHeader,
        packet: &'a mut [u8],
    ) -> Self {
        Self { from, parsed, tcp, virtio, packet }
    }

    #[inline]
    pub(crate) fn ip(&self) -> &'a Ip {
        &self.parsed.ip
    }

    pub(crate) fn payload(&self) -> &[u8] {
        self.tcp.payload(self.packet)
    }

    /// Cuts it to the first `len` bytes of its payload, as a receiver takes it in; whether its time
    /// counts, the caller knows.
    pub(crate) fn cut_to(&self, len: usize, moves_time: bool) -> SegmentIn<'_> {
        let payload = self.payload();
        SegmentIn {
            seq: self.tcp.seq,
            payload: &payload[..len],
            fin: self.has(TcpFlags::FIN) && len == payload.len(),
            timestamp: self.tcp.options.timestamps.map(|t| t.value),
            moves_time,
        }
    }

    /// Changes fields of it, and its checksum with them.
    pub(crate) fn edit(&mut self) -> TcpEditor<'_> {
        TcpEditor::new(self.packet, self.tcp, self.checksum_state())
    }

    fn checksum_state(&self) -> ChecksumState {
        self.virtio.checksum_state()
    }

    #[inline]
    pub(crate) fn has(&self, flag: TcpFlags) -> bool {
        self.tcp.flags.contains(flag)
    }

    /// Number of segments that were merged into it, itself included.
    pub(crate) fn segments(&self) -> u32 {
        let size = u32::from(self.virtio.gso_size);
        if size == 0 { 1 } else { (self.tcp.payload_len as u32).div_ceil(size).max(1) }
    }

    /// Byte counters of accurate ECN that it tells.
    pub(crate) fn ecn_byte_counters(&self) -> Option<EcnByteCounters> {
        self.tcp.ecn_byte_counters(self.packet)
    }

    /// Length of its packet, bytes.
    pub(crate) fn len(&self) -> usize {
        self.packet.len()
    }

    /// True for the first segment of a handshake.
    #[inline]
    pub(crate) fn opens(&self) -> bool {
        self.has(TcpFlags::SYN) && !self.tcp.flags.intersects(TcpFlags::ACK.with(TcpFlags::RST))
    }

    /// True when it belongs to the beginning or the end of a connection.
    pub(crate) fn opens_or_ends(&self) -> bool {
        self.tcp.flags.intersects(TcpFlags::SYN.with(TcpFlags::FIN).with(TcpFlags::RST))
    }

    /// True when it takes up sequence numbers behind the handshake: data, or the end of the stream.
    pub(crate) fn has_content(&self) -> bool {
        self.tcp.payload_len > 0 || self.has(TcpFlags::FIN)
    }

    /// True when the checksums are right, or the kernel vouches for them (H7).
    ///
    /// The IPv4 header has one of its own: its receiver drops what does not fit it, whatever the
    /// segment's says.
    pub(crate) fn is_intact(&self) -> bool {
        self.checksum_state() == ChecksumState::Partial
            || self.virtio.flags & VirtioNetHeader::DATA_VALID != 0
            || (ipv4_checksum_is_valid(self.packet) && tcp_checksum_is_valid(self.packet, self.parsed))
    }
}

impl Context<'_> {
    /// Follows a change of the memory that the flow's buffer takes, in bytes.
    pub(crate) fn note_memory(&mut self, before: usize, after: usize) {
        self.stats.note_memory(before, after);
        if let Some(path) = self.path.as_deref_mut() {
            path.adjust_buffered(before, after);
        }
    }
}

/// Limits of a flow at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Memory for what it keeps.
    pub(crate) memory: Bytes,
    /// Flows it shares its subscriber's window with, itself included.
    pub(crate) flows: u32,
}

/// Context of handling a segment, a deadline or a control packet: all that it may use besides the flow.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) config: &'a EngineConfig,
    /// The path to its subscriber, if there was data for it.
    pub(crate) path: Option<&'a mut Path>,
    pub(crate) budget: Budget,
    pub(crate) stats: &'a mut Stats,
    pub(crate) meters: &'a mut Meters,
    /// The segment at hand is surely its host's: it is acceptable, and says what no segment has said before.
    pub(crate) is_news: bool,
    pub(crate) now: Instant,
}
