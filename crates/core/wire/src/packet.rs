//! [`Packet`]: everything read from the headers of one packet.

use crate::icmp::Icmp;
use crate::ip::{self, Ip, IpVersion, ParseError, protocol};
use crate::tcp::Tcp;
use crate::udp::Udp;

/// Facts and offsets of one packet, read by [`parse`].
///
/// It borrows nothing: edits of the bytes do not change it, and methods that read bytes take the
/// packet again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The IP header.
    pub ip: Ip,
    /// Transport header that follows it.
    pub transport: Transport,
}

/// The transport part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // `Copy` without allocation is the point.
pub enum Transport {
    /// A TCP segment.
    Tcp(Tcp),
    /// A UDP datagram.
    Udp(Udp),
    /// ICMP or ICMPv6.
    Icmp(Icmp),
    /// Any IP fragment: its transport header is not read.
    Fragment,
    /// Another protocol, by number.
    Other(u8),
    /// A header that is cut short, or whose own length field does not fit the packet.
    Truncated,
}

impl Packet {
    /// The TCP part, if this is TCP.
    #[inline]
    #[must_use]
    pub const fn tcp(&self) -> Option<&Tcp> {
        match &self.transport {
            Transport::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }
}

/// Reads the headers of a packet that starts at its IP header.
///
/// Bytes after the packet's own length (padding) are ignored.
///
/// # Errors
/// The IP header does not make sense, or the packet is shorter than it says. A transport header that does not
/// make sense is no error but [`Transport::Truncated`].
#[inline]
pub fn parse(packet: &[u8]) -> Result<Packet, ParseError> {
    let ip = Ip::parse(packet)?;
    if packet.len() < ip.total_len {
        return Err(ParseError::Short { needed: ip.total_len, have: packet.len() });
    }
    Ok(Packet { ip, transport: transport(packet, &ip) })
}

/// Like [`parse`] for a packet whose tail may be missing, as in captures with a snap length.
///
/// Lengths are those the headers say, so a payload may lie partly outside `packet`.
///
/// # Errors
/// The IP header does not make sense or is cut.
#[inline]
pub fn parse_prefix(packet: &[u8]) -> Result<Packet, ParseError> {
    let ip = Ip::parse(packet)?;
    Ok(Packet { ip, transport: transport(packet, &ip) })
}

#[inline]
fn transport(packet: &[u8], ip: &Ip) -> Transport {
    if ip.is_fragment {
        return Transport::Fragment;
    }
    let view = match ip.protocol {
        protocol::TCP => Tcp::parse(packet, ip).map(Transport::Tcp),
        protocol::UDP => Udp::parse(packet, ip).map(Transport::Udp),
        protocol::ICMP | protocol::ICMPV6 => Icmp::parse(packet, ip).map(Transport::Icmp),
        // Still an extension header: the chain is cut or too long to follow.
        p if ip.has_extensions && ip.version == IpVersion::V6 && ip::is_extension(p) => None,
        other => Some(Transport::Other(other)),
    };
    view.unwrap_or(Transport::Truncated)
}

/// True when the TCP checksum in `packet` is right; false when it is not TCP.
///
/// Meant for a complete checksum: a partial one is no checksum yet. With an IPv6 routing header
/// that still has hops to go the final destination is not in the header, and the answer is false.
#[must_use]
pub fn tcp_checksum_is_valid(packet: &[u8], parsed: &Packet) -> bool {
    parsed.tcp().is_some() && parsed.ip.transport_sum_is_right(packet, protocol::TCP)
}

/// True when the UDP checksum in `packet` is right, or absent over IPv4; false when it is not UDP.
#[must_use]
pub fn udp_checksum_is_valid(packet: &[u8], parsed: &Packet) -> bool {
    let Transport::Udp(udp) = &parsed.transport else { return false };
    if udp.checksum == 0 {
        // RFC 8200 §8.1: over IPv6 a zero checksum is an error.
        return parsed.ip.version == IpVersion::V4;
    }
    parsed.ip.transport_sum_is_right(packet, protocol::UDP)
}
