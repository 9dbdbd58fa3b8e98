//! [`Icmp`]: the view of an ICMP or ICMPv6 message and of the packet it quotes.

use core::net::IpAddr;

use units::SeqNum;

use crate::BuildError;
use crate::checksum::{self, Sum};
use crate::ip::{IPV4_HEADER_LEN, IPV6_HEADER_LEN, Ip, IpVersion, protocol};
use crate::octets::{u16_at, u32_at};

/// Position of the checksum in an ICMP message.
const ICMP_CHECKSUM: core::ops::Range<usize> = 2..4;

/// Hops of a message.
const HOP_LIMIT: u8 = 64;

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

/// Fields that an ICMP error quotes of the packet it is about.
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

    /// True when the message's checksum in `packet`, whose header is `ip`, is right.
    #[must_use]
    pub fn checksum_is_valid(&self, packet: &[u8], ip: &Ip) -> bool {
        match self.version {
            IpVersion::V4 => packet
                .get(self.offset..self.offset + self.len)
                .is_some_and(|message| checksum::sum(message) == 0xffff),
            IpVersion::V6 => ip.transport_sum_is_right(packet, protocol::ICMPV6),
        }
    }
}

/// Writes a packet with an ICMP message (RFC 792), for IPv6 addresses an ICMPv6 one (RFC 4443), and its checksums into
/// `buf`; the length of it in bytes. IPv4 may fragment it. The message's own checksum field counts as zero.
///
/// # Errors
/// Mixed IP versions, a message without its fixed part, a `buf` too small, or a packet longer than IP allows.
pub fn emit_icmp(
    (src, dst): (IpAddr, IpAddr),
    traffic_class: u8,
    message: &[u8],
    buf: &mut [u8],
) -> Result<usize, BuildError> {
    let header_len = match (src, dst) {
        (IpAddr::V4(_), IpAddr::V4(_)) => IPV4_HEADER_LEN,
        (IpAddr::V6(_), IpAddr::V6(_)) => IPV6_HEADER_LEN,
        _ => return Err(BuildError::MixedFamilies),
    };
    let (len, have) = (header_len + message.len(), buf.len());
    let counted = if header_len == IPV4_HEADER_LEN { len } else { message.len() };
    let Ok(counted) = u16::try_from(counted) else { return Err(BuildError::TooLong { len }) };
    let needed = len.max(header_len + ICMP_HEADER_LEN);
    let too_small = BuildError::BufferTooSmall { needed, have };
    if message.len() < ICMP_HEADER_LEN {
        return Err(too_small);
    }
    let (ip, body) = buf.get_mut(..len).ok_or(too_small)?.split_at_mut(header_len);
    let [counted_high, counted_low] = counted.to_be_bytes();
    let class = traffic_class;
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            ip[..12].copy_from_slice(&[
                0x45,
                class,
                counted_high,
                counted_low,
                0,
                0,
                0,
                0,
                HOP_LIMIT,
                protocol::ICMP,
                0,
                0,
            ]);
            ip[12..16].copy_from_slice(&src.octets());
            ip[16..20].copy_from_slice(&dst.octets());
            let checksum = !checksum::sum(ip);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            ip[..8].copy_from_slice(&[
                0x60 | class >> 4,
                class << 4,
                0,
                0,
                counted_high,
                counted_low,
                protocol::ICMPV6,
                HOP_LIMIT,
            ]);
            ip[8..24].copy_from_slice(&src.octets());
            ip[24..40].copy_from_slice(&dst.octets());
        }
        _ => return Err(BuildError::MixedFamilies),
    }
    body.copy_from_slice(message);
    body[ICMP_CHECKSUM].fill(0);
    let mut sum = match src {
        IpAddr::V4(_) => Sum::new(),
        IpAddr::V6(_) => Sum::pseudo_header(src, dst, protocol::ICMPV6, message.len()),
    };
    sum.add_bytes(body);
    body[ICMP_CHECKSUM].copy_from_slice(&sum.checksum().to_be_bytes());
    Ok(len)
}
