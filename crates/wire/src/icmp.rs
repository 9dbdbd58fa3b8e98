//! [`Icmp`]: the view of an ICMP or ICMPv6 message and of the packet it quotes.

use core::net::IpAddr;

use units::SeqNum;

use crate::checksum;
use crate::ip::{Ip, IpVersion, protocol};
use crate::octets::{u16_at, u32_at};
use crate::packet::{Packet, Transport};
use crate::tcp::transport_sum_is_right;

/// Length of the fixed part of an ICMP message, bytes.
const ICMP_HEADER_LEN: usize = 8;

/// Facts of an ICMP (RFC 792) or ICMPv6 (RFC 4443) message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// IP version whose ICMP this is: the same type number means different things.
    pub version: IpVersion,
    /// Type.
    pub icmp_type: u8,
    /// Code.
    pub code: u8,
    /// Checksum field.
    pub checksum: u16,
    /// Bytes 4 to 8: id and sequence of an echo, MTU of "too big".
    pub rest: u32,
    /// Offset of the message in the packet, bytes.
    pub offset: usize,
    /// Length of the message in bytes.
    pub len: usize,
}

/// What an ICMP error quotes of the packet it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotedPacket {
    /// Source of the quoted packet: whom the error is for.
    pub src: IpAddr,
    /// Destination of the quoted packet.
    pub dst: IpAddr,
    /// Protocol of the quoted packet.
    pub protocol: u8,
    /// Length of the quoted packet in bytes, as its header says.
    pub total_len: usize,
    /// Source port, for TCP and UDP.
    pub src_port: u16,
    /// Destination port, for TCP and UDP.
    pub dst_port: u16,
    /// Sequence number, for TCP.
    pub seq: Option<SeqNum>,
}

impl Icmp {
    #[inline]
    pub(crate) fn parse(packet: &[u8], ip: &Ip) -> Option<Self> {
        // ICMP of the other version means nothing.
        if (ip.version == IpVersion::V4) != (ip.protocol == protocol::ICMP) {
            return None;
        }
        let offset = ip.header_len;
        let h = packet.get(offset..ip.total_len.min(packet.len()))?.first_chunk::<ICMP_HEADER_LEN>()?;
        Some(Self {
            version: ip.version,
            icmp_type: h[0],
            code: h[1],
            checksum: u16_at(h, 2),
            rest: u32_at(h, 4),
            offset,
            len: ip.total_len - offset,
        })
    }

    /// True for messages that quote a packet: destination unreachable, too big, time exceeded, and the like.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        match self.version {
            IpVersion::V4 => matches!(self.icmp_type, 3 | 4 | 5 | 11 | 12),
            // RFC 4443 §2.1: errors have the high bit clear.
            IpVersion::V6 => self.icmp_type < 128,
        }
    }

    /// MTU in bytes of the next hop, from "fragmentation needed" (RFC 1191 §4) or "packet too big"
    /// (RFC 4443 §3.2).
    ///
    /// Zero means a router too old to say it.
    #[must_use]
    pub const fn next_hop_mtu(&self) -> Option<u32> {
        match (self.version, self.icmp_type, self.code) {
            (IpVersion::V4, 3, 4) => Some(self.rest & 0xffff),
            (IpVersion::V6, 2, _) => Some(self.rest),
            _ => None,
        }
    }

    /// The packet an error quotes; none for other messages and for quotes too short to tell the flow.
    #[must_use]
    pub fn quoted(&self, packet: &[u8]) -> Option<QuotedPacket> {
        if !self.is_error() {
            return None;
        }
        let end = (self.offset + self.len).min(packet.len());
        let quote = packet.get(self.offset + ICMP_HEADER_LEN..end)?;
        let ip = Ip::parse(quote).ok()?;
        if ip.version != self.version {
            return None;
        }
        let mut quoted = QuotedPacket {
            src: ip.src,
            dst: ip.dst,
            protocol: ip.protocol,
            total_len: ip.total_len,
            src_port: 0,
            dst_port: 0,
            seq: None,
        };
        if matches!(ip.protocol, protocol::TCP | protocol::UDP) {
            // RFC 792: at least 8 bytes of the transport header are quoted.
            let h = quote.get(ip.header_len..)?.first_chunk::<8>()?;
            quoted.src_port = u16_at(h, 0);
            quoted.dst_port = u16_at(h, 2);
            quoted.seq = (ip.protocol == protocol::TCP).then(|| SeqNum::new(u32_at(h, 4)));
        }
        Some(quoted)
    }

    /// True when the message's checksum in `packet` is right.
    #[must_use]
    pub fn checksum_is_valid(&self, packet: &[u8], parsed: &Packet) -> bool {
        if !matches!(parsed.transport, Transport::Icmp(_)) {
            return false;
        }
        match self.version {
            IpVersion::V4 => packet
                .get(self.offset..self.offset + self.len)
                .is_some_and(|message| checksum::sum(message) == 0xffff),
            IpVersion::V6 => transport_sum_is_right(packet, parsed, protocol::ICMPV6),
        }
    }
}
