//! Cutting a GSO super-packet into packets of at most one MSS.

use crate::BuildError;
use crate::checksum::Sum;
use crate::ip::{finish_header, protocol};
use crate::octets::put;
use crate::packet::{Packet, Transport};
use crate::tcp::{TCP_CHECKSUM_AT, TcpFlags};
use crate::udp::{UDP_CHECKSUM_AT, UDP_LENGTH_AT};

/// Writes the segments of one super-packet, one at a time. Made by [`split`].
#[derive(Debug)]
pub struct Splitter<'a> {
    /// IP and transport headers.
    headers: &'a [u8],
    payload: &'a [u8],
    parsed: &'a Packet,
    segment_len: usize,
    keeps_cwr: bool,
    /// Payload bytes already written.
    done: usize,
    index: usize,
}

/// Cuts `packet`, TCP or UDP, into packets with at most `mss` bytes of payload each.
///
/// Lengths, sequence numbers and checksums are each segment's own, whatever the super-packet's checksum was
/// (so verify a complete one first: cutting would make a corrupted payload look right). IPv4 ids count up,
/// FIN, PSH and RST are on the last segment only, CWR on the first. A packet that is short enough
/// comes out as one segment with a complete checksum.
///
/// # Errors
/// `mss` is zero, or the packet cannot be cut.
pub fn split<'a>(packet: &'a [u8], parsed: &'a Packet, mss: u16) -> Result<Splitter<'a>, BuildError> {
    let segment_len = usize::from(mss);
    if segment_len == 0 {
        return Err(BuildError::ZeroSegmentSize);
    }
    let payload_offset = match &parsed.transport {
        Transport::Tcp(tcp) if tcp.payload_len > segment_len && tcp.flags.contains(TcpFlags::SYN) => {
            return Err(BuildError::NotSplittable);
        }
        Transport::Tcp(tcp) => tcp.payload_offset,
        Transport::Udp(udp) => udp.payload_offset,
        _ => return Err(BuildError::NotSplittable),
    };
    match (packet.get(..payload_offset), packet.get(payload_offset..parsed.ip.total_len)) {
        (Some(headers), Some(payload)) => {
            Ok(Splitter { headers, payload, parsed, segment_len, keeps_cwr: false, done: 0, index: 0 })
        }
        _ => Err(BuildError::NotSplittable),
    }
}

impl Splitter<'_> {
    /// The same, with CWR on every segment: where it is a bit of the ACE field (RFC 9768 §3.2.1).
    #[must_use]
    pub fn keeping_cwr(self) -> Self {
        Self { keeps_cwr: true, ..self }
    }

    /// Number of segments still to come.
    #[must_use]
    pub fn remaining(&self) -> usize {
        match (self.payload.len() - self.done).div_ceil(self.segment_len) {
            0 => usize::from(self.index == 0),
            n => n,
        }
    }

    /// Length in bytes of the next segment's packet; none when all were written.
    #[must_use]
    pub fn next_len(&self) -> Option<usize> {
        let payload = (self.payload.len() - self.done).min(self.segment_len);
        (self.remaining() > 0).then_some(self.headers.len() + payload)
    }

    /// Writes the next segment to the start of `buf` and gives its length; none when all were written.
    ///
    /// # Errors
    /// `buf` is too small; the segment can be asked for again with a larger one.
    pub fn next_into(&mut self, buf: &mut [u8]) -> Result<Option<usize>, BuildError> {
        let Some(len) = self.next_len() else { return Ok(None) };
        let have = buf.len();
        let segment = buf.get_mut(..len).ok_or(BuildError::BufferTooSmall { needed: len, have })?;
        let payload_len = len - self.headers.len();
        segment[..self.headers.len()].copy_from_slice(self.headers);
        segment[self.headers.len()..].copy_from_slice(&self.payload[self.done..self.done + payload_len]);

        let ip = &self.parsed.ip;
        finish_header(segment, ip, len, ip.id.wrapping_add(self.index as u16));
        let is_last = self.done + payload_len == self.payload.len();
        match &self.parsed.transport {
            Transport::Tcp(_) => self.finish_tcp(&mut segment[ip.header_len..], is_last),
            _ => self.finish_udp(&mut segment[ip.header_len..]),
        }
        self.done += payload_len;
        self.index += 1;
        Ok(Some(len))
    }

    fn finish_tcp(&self, segment: &mut [u8], is_last: bool) {
        let Some(tcp) = self.parsed.tcp() else { return };
        let mut flags = tcp.flags;
        if !is_last {
            flags = flags.without(TcpFlags::FIN | TcpFlags::PSH | TcpFlags::RST);
        }
        if self.index > 0 && !self.keeps_cwr {
            flags = flags.without(TcpFlags::CWR);
        }
        // The urgent pointer counts from the segment's own start.
        let mut urgent = tcp.urgent;
        if tcp.flags.contains(TcpFlags::URG) {
            urgent = u16::try_from(self.done).map_or(0, |done| tcp.urgent.saturating_sub(done));
            if urgent == 0 && self.done > 0 {
                flags = flags.without(TcpFlags::URG);
            }
        }
        // The data offset and the reserved bits beside the flags stay.
        let word = (crate::octets::u16_at(segment, 12) & 0xfe00) | flags.bits();
        put(segment, 4, &(tcp.seq + self.done as u32).get().to_be_bytes());
        put(segment, 12, &word.to_be_bytes());
        put(segment, 18, &urgent.to_be_bytes());
        self.write_checksum(segment, protocol::TCP, TCP_CHECKSUM_AT);
    }

    fn finish_udp(&self, segment: &mut [u8]) {
        let len = segment.len() as u16;
        put(segment, UDP_LENGTH_AT, &len.to_be_bytes());
        self.write_checksum(segment, protocol::UDP, UDP_CHECKSUM_AT);
    }

    #[inline]
    fn write_checksum(&self, segment: &mut [u8], number: u8, at: usize) {
        let ip = &self.parsed.ip;
        put(segment, at, &[0, 0]);
        let mut sum = Sum::pseudo_header(ip.src, ip.dst, number, segment.len());
        sum.add_bytes(segment);
        let checksum = match sum.checksum() {
            0 if number == protocol::UDP => 0xffff,
            checksum => checksum,
        };
        put(segment, at, &checksum.to_be_bytes());
    }
}
