//! Merging consecutive TCP segments into one super-packet (as GRO does).

use crate::checksum::{ChecksumState, Sum};
use crate::ip::{IpVersion, finish_header, protocol};
use crate::octets::{put, u16_at};
use crate::options::TCP_HEADER_LEN;
use crate::packet::{Packet, tcp_checksum_is_valid};
use crate::tcp::{TCP_CHECKSUM_AT, Tcp, TcpFlags};
use crate::virtio::VirtioNetHeader;

/// Outcome of offering a segment to a [`Merger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// It is in; the next one may follow.
    Taken,
    /// It is in, and nothing can follow it: call [`Merger::finish`].
    TakenAsLast,
    /// It does not belong: call [`Merger::finish`], then offer it again or send it alone.
    Refused,
}

/// A finished super-packet at the start of the merger's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The header to put in front of it.
    pub header: VirtioNetHeader,
    /// Its length in bytes.
    pub len: usize,
    /// Number of segments in it; one means the packet is as it was given.
    pub segments: usize,
}

/// Collects in-order TCP segments with equal headers in a caller's buffer.
///
/// Segments that it takes come out of [`crate::split`] as they went in, byte for byte, except that equal IPv4
/// ids of packets with DF, which mean nothing (RFC 6864 §4.1), come out counting up.
#[derive(Debug)]
pub struct Merger<'b> {
    buf: &'b mut [u8],
    batch: Option<Batch>,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    /// The first segment.
    first: Packet,
    tcp: Tcp,
    state: ChecksumState,
    /// Bytes in the buffer.
    len: usize,
    segments: usize,
    /// Last flags seen: FIN and PSH go onto the super-packet.
    last_flags: TcpFlags,
    /// Step of the IPv4 id, known from the second segment on.
    id_step: Option<u16>,
    is_closed: bool,
}

/// Flags of segments that may be merged.
const MERGEABLE: TcpFlags = TcpFlags::ACK
    .with(TcpFlags::PSH)
    .with(TcpFlags::FIN)
    .with(TcpFlags::ECE)
    .with(TcpFlags::CWR)
    .with(TcpFlags::AE);
/// Flags after which nothing may follow: each must be on the last segment after a split.
const CLOSING: TcpFlags = TcpFlags::FIN.with(TcpFlags::PSH);

impl<'b> Merger<'b> {
    /// A merger that builds in `buf`: 65,535 bytes hold any super-packet, fewer end it earlier.
    #[must_use]
    pub fn new(buf: &'b mut [u8]) -> Self {
        Self { buf, batch: None }
    }

    /// Offers the next packet.
    ///
    /// Refused are all but plain TCP data segments, and those with a wrong checksum.
    pub fn push(&mut self, packet: &[u8], parsed: &Packet, state: ChecksumState) -> MergeOutcome {
        let Some(tcp) = parsed.tcp() else { return MergeOutcome::Refused };
        let Some(packet) = packet.get(..parsed.ip.total_len) else { return MergeOutcome::Refused };
        if !is_mergeable(packet, parsed, tcp, state) {
            return MergeOutcome::Refused;
        }
        match self.batch {
            None => self.start(packet, parsed, tcp, state),
            Some(batch) => self.append(batch, packet, parsed, tcp, state),
        }
    }

    fn start(&mut self, packet: &[u8], parsed: &Packet, tcp: &Tcp, state: ChecksumState) -> MergeOutcome {
        if !put(self.buf, 0, packet) {
            return MergeOutcome::Refused;
        }
        let is_closed = tcp.flags.intersects(CLOSING);
        self.batch = Some(Batch {
            first: *parsed,
            tcp: *tcp,
            state,
            len: packet.len(),
            segments: 1,
            last_flags: tcp.flags,
            id_step: None,
            is_closed,
        });
        if is_closed { MergeOutcome::TakenAsLast } else { MergeOutcome::Taken }
    }

    fn append(
        &mut self,
        mut batch: Batch,
        packet: &[u8],
        parsed: &Packet,
        tcp: &Tcp,
        state: ChecksumState,
    ) -> MergeOutcome {
        let id_step = parsed.ip.id.wrapping_sub(batch.first.ip.id);
        let id_ok = match (parsed.ip.version, batch.id_step) {
            (IpVersion::V6, _) => true,
            (IpVersion::V4, Some(0)) => id_step == 0,
            (IpVersion::V4, Some(_)) => usize::from(id_step) == batch.segments,
            (IpVersion::V4, None) => id_step == 1 || (id_step == 0 && parsed.ip.dont_fragment),
        };
        let len = batch.len + tcp.payload_len;
        let fits = len <= self.buf.len().min(usize::from(u16::MAX));
        if batch.is_closed
            || !id_ok
            || !fits
            || state != batch.state
            || !self.continues(&batch, packet, parsed, tcp)
        {
            return MergeOutcome::Refused;
        }
        put(self.buf, batch.len, tcp.payload(packet));
        batch.id_step.get_or_insert(id_step);
        batch.len = len;
        batch.segments += 1;
        batch.last_flags = tcp.flags;
        batch.is_closed = tcp.flags.intersects(CLOSING) || tcp.payload_len < batch.tcp.payload_len;
        self.batch = Some(batch);
        if batch.is_closed { MergeOutcome::TakenAsLast } else { MergeOutcome::Taken }
    }

    /// True when the segment is the very next of the batch, with the same headers.
    fn continues(&self, batch: &Batch, packet: &[u8], parsed: &Packet, tcp: &Tcp) -> bool {
        let (a, b) = (&batch.first.ip, &parsed.ip);
        let same_ip = a.src == b.src
            && a.dst == b.dst
            && a.hop_limit == b.hop_limit
            && a.traffic_class == b.traffic_class
            && a.flow_label == b.flow_label
            // DF and the reserved bit beside it.
            && (a.version == IpVersion::V6 || u16_at(self.buf, 6) == u16_at(packet, 6));
        let first = &batch.tcp;
        let varying = CLOSING | TcpFlags::CWR;
        let done = batch.len - first.payload_offset;
        same_ip
            && first.src_port == tcp.src_port
            && first.dst_port == tcp.dst_port
            && first.ack == tcp.ack
            && first.window == tcp.window
            && first.urgent == tcp.urgent
            && first.seq + done as u32 == tcp.seq
            && tcp.payload_len <= first.payload_len
            && !tcp.flags.contains(TcpFlags::CWR)
            && first.flags.without(varying) == tcp.flags.without(varying)
            && reserved_bits(self.buf, first) == reserved_bits(packet, tcp)
            && option_bytes(self.buf, first) == option_bytes(packet, tcp)
    }

    /// Ends the batch: gives the super-packet at the start of the buffer, none when nothing was taken.
    ///
    /// More than one segment comes with a partial checksum and a GSO header. The merger can be used
    /// again once the packet has been sent or copied.
    pub fn finish(&mut self) -> Option<Merged> {
        let batch = self.batch.take()?;
        let Batch { first, tcp, len, segments, .. } = batch;
        if segments == 1 {
            let header = match batch.state {
                ChecksumState::Complete => VirtioNetHeader::default(),
                ChecksumState::Partial => VirtioNetHeader::for_partial_checksum(tcp.offset),
            };
            return Some(Merged { header, len, segments });
        }
        let ip = &first.ip;
        let packet = self.buf.get_mut(..len)?;
        finish_header(packet, ip, len, ip.id);
        let segment = packet.get_mut(tcp.offset..)?;
        let flags = tcp.flags | (batch.last_flags & CLOSING);
        let word = (u16_at(segment, 12) & 0xfe00) | flags.bits();
        put(segment, 12, &word.to_be_bytes());
        let pseudo = Sum::pseudo_header(ip.src, ip.dst, protocol::TCP, segment.len()).folded();
        put(segment, TCP_CHECKSUM_AT, &pseudo.to_be_bytes());
        let mut header =
            VirtioNetHeader::for_tcp_gso(ip.version, tcp.offset, tcp.payload_offset, tcp.payload_len as u16);
        header.ecn = flags.contains(TcpFlags::CWR);
        Some(Merged { header, len, segments })
    }

    /// The bytes of the last finished super-packet are the first [`Merged::len`] of this.
    #[must_use]
    pub fn buffer(&self) -> &[u8] {
        self.buf
    }
}

fn is_mergeable(packet: &[u8], parsed: &Packet, tcp: &Tcp, state: ChecksumState) -> bool {
    tcp.payload_len > 0
        && !parsed.ip.has_extensions
        && tcp.flags.contains(TcpFlags::ACK)
        && tcp.flags.without(MERGEABLE).is_empty()
        // After a split CWR is on the first one only, and with AE it is a bit of a number (RFC 9768 §3.2.1).
        && !tcp.flags.contains(TcpFlags::AE | TcpFlags::CWR)
        && (state == ChecksumState::Partial || tcp_checksum_is_valid(packet, parsed))
        && crate::ipv4_checksum_is_valid(packet)
}

fn reserved_bits(packet: &[u8], tcp: &Tcp) -> u16 {
    u16_at(packet, tcp.offset + 12) & 0xfe00
}

fn option_bytes<'a>(packet: &'a [u8], tcp: &Tcp) -> Option<&'a [u8]> {
    packet.get(tcp.offset + TCP_HEADER_LEN..tcp.payload_offset)
}
