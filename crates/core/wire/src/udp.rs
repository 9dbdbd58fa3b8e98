//! [`Udp`]: the view of a UDP datagram.

use crate::ip::Ip;
use crate::octets::u16_at;

/// Length of the UDP header, bytes.
pub(crate) const UDP_HEADER_LEN: usize = 8;
/// Offset of the length field in the UDP header, bytes.
pub(crate) const UDP_LENGTH_AT: usize = 4;
/// Offset of the checksum field in the UDP header, bytes.
pub(crate) const UDP_CHECKSUM_AT: usize = 6;

/// Facts of a UDP datagram (RFC 768).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length field, header and payload in bytes. GSO super-packets may carry any value in it.
    pub length: u16,
    /// Checksum field; zero means none (IPv4).
    pub checksum: u16,
    /// Offset of the UDP header in the packet, bytes.
    pub offset: usize,
    /// Offset of the payload in the packet, bytes.
    pub payload_offset: usize,
    /// Length of the payload in bytes, from the IP header.
    pub payload_len: usize,
}

impl Udp {
    #[inline]
    pub(crate) fn parse(packet: &[u8], ip: &Ip) -> Option<Self> {
        let offset = ip.header_len;
        let h = packet.get(offset..ip.total_len.min(packet.len()))?.first_chunk::<UDP_HEADER_LEN>()?;
        Some(Self {
            src_port: u16_at(h, 0),
            dst_port: u16_at(h, 2),
            length: u16_at(h, UDP_LENGTH_AT),
            checksum: u16_at(h, UDP_CHECKSUM_AT),
            offset,
            payload_offset: offset + UDP_HEADER_LEN,
            payload_len: ip.total_len - offset - UDP_HEADER_LEN,
        })
    }

    /// The payload; empty when `packet` is not the packet this was read from and too short.
    #[inline]
    #[must_use]
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        let rest = packet.get(self.payload_offset..).unwrap_or_default();
        &rest[..self.payload_len.min(rest.len())]
    }
}
