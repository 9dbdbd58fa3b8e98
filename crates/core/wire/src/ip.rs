//! [`Ip`]: the network-layer part of a packet.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{self, Sum};
use crate::octets::u32_at;

/// IP protocol numbers used here.
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}

/// Length of the IPv6 header without extensions, bytes.
pub(crate) const IPV6_HEADER_LEN: usize = 40;
/// Length of the IPv4 header without options, bytes.
pub(crate) const IPV4_HEADER_LEN: usize = 20;
/// More extension headers than this are not followed: real packets carry at most a few.
const EXTENSIONS_MAX: usize = 16;

/// The bytes are no IP packet that can be forwarded on understanding: the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Fewer bytes than the IP header, or its length field, asks for.
    #[error("the packet has {have} bytes and its IP header needs {needed}: it was cut or is no IP packet")]
    Short {
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        have: usize,
    },
    /// Neither version 4 nor 6.
    #[error("IP version {0} in the first byte: only 4 and 6 are known")]
    Version(u8),
    /// An IPv4 header length that is below 20 bytes or beyond the total length.
    #[error("IPv4 header length {header_len} does not fit total length {total_len}")]
    Lengths {
        /// Header length field, bytes.
        header_len: usize,
        /// Total length field, bytes.
        total_len: usize,
    },
}

/// The IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4 (RFC 791).
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// Facts of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// IP version.
    pub version: IpVersion,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Protocol of the transport header; for IPv6 that after the extension headers.
    pub protocol: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// DSCP and ECN: the TOS byte or traffic class.
    pub traffic_class: u8,
    /// IPv6 flow label, 20 bits; zero for IPv4.
    pub flow_label: u32,
    /// IPv4 identification; zero for IPv6.
    pub id: u16,
    /// IPv4 DF bit; always true for IPv6, where routers never fragment.
    pub dont_fragment: bool,
    /// Bytes before the transport header: IPv4 options and IPv6 extension headers are included.
    pub header_len: usize,
    /// Length of the packet in bytes as its IP header says.
    pub total_len: usize,
    /// True for any fragment, the first and the IPv6 atomic one (RFC 6946) included.
    pub is_fragment: bool,
    /// True with IPv4 options or IPv6 extension headers.
    pub has_extensions: bool,
}

impl Ip {
    /// The ECN field, 0 to 3.
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.traffic_class & 3
    }
    /// True when a router marked congestion (CE).
    #[must_use]
    pub const fn is_congestion_experienced(&self) -> bool {
        self.ecn() == 3
    }
    /// Bytes of the transport header and payload.
    #[must_use]
    pub const fn transport_len(&self) -> usize {
        self.total_len.saturating_sub(self.header_len)
    }

    /// True when pseudo-header and transport bytes of `packet` add up to all ones.
    pub(crate) fn transport_sum_is_right(&self, packet: &[u8], protocol: u8) -> bool {
        let Some(segment) = packet.get(self.header_len..self.total_len) else { return false };
        let mut sum = Sum::pseudo_header(self.src, self.dst, protocol, segment.len());
        sum.add_bytes(segment);
        sum.folded() == 0xffff
    }

    /// Reads the IP header of `packet`, whose tail may be missing.
    #[inline]
    pub(crate) fn parse(packet: &[u8]) -> Result<Self, ParseError> {
        match packet.first().map(|b| b >> 4) {
            Some(4) => Self::parse_v4(packet),
            Some(6) => Self::parse_v6(packet),
            Some(version) => Err(ParseError::Version(version)),
            None => Err(ParseError::Short { needed: IPV4_HEADER_LEN, have: 0 }),
        }
    }

    #[inline]
    fn parse_v4(packet: &[u8]) -> Result<Self, ParseError> {
        let h = packet
            .first_chunk::<IPV4_HEADER_LEN>()
            .ok_or(ParseError::Short { needed: IPV4_HEADER_LEN, have: packet.len() })?;
        let header_len = usize::from(h[0] & 0xf) * 4;
        let total_len = usize::from(u16::from_be_bytes([h[2], h[3]]));
        if header_len < IPV4_HEADER_LEN || total_len < header_len {
            return Err(ParseError::Lengths { header_len, total_len });
        }
        if packet.len() < header_len {
            return Err(ParseError::Short { needed: header_len, have: packet.len() });
        }
        let fragment = u16::from_be_bytes([h[6], h[7]]);
        Ok(Self {
            version: IpVersion::V4,
            src: IpAddr::V4(Ipv4Addr::new(h[12], h[13], h[14], h[15])),
            dst: IpAddr::V4(Ipv4Addr::new(h[16], h[17], h[18], h[19])),
            protocol: h[9],
            hop_limit: h[8],
            traffic_class: h[1],
            flow_label: 0,
            id: u16::from_be_bytes([h[4], h[5]]),
            dont_fragment: fragment & 0x4000 != 0,
            header_len,
            total_len,
            is_fragment: fragment & 0x3fff != 0,
            has_extensions: header_len > IPV4_HEADER_LEN,
        })
    }

    #[inline]
    fn parse_v6(packet: &[u8]) -> Result<Self, ParseError> {
        let h = packet
            .first_chunk::<IPV6_HEADER_LEN>()
            .ok_or(ParseError::Short { needed: IPV6_HEADER_LEN, have: packet.len() })?;
        let word = u32::from_be_bytes([h[0], h[1], h[2], h[3]]);
        let mut ip = Self {
            version: IpVersion::V6,
            src: IpAddr::V6(v6_at(h, 8)),
            dst: IpAddr::V6(v6_at(h, 24)),
            protocol: h[6],
            hop_limit: h[7],
            traffic_class: (word >> 20) as u8,
            flow_label: word & 0xf_ffff,
            id: 0,
            dont_fragment: true,
            header_len: IPV6_HEADER_LEN,
            total_len: IPV6_HEADER_LEN + usize::from(u16::from_be_bytes([h[4], h[5]])),
            is_fragment: false,
            has_extensions: false,
        };
        if is_extension(ip.protocol) {
            ip.follow_extensions(packet);
        }
        Ok(ip)
    }

    /// Moves `header_len` and `protocol` past the extension headers (RFC 8200 §4).
    ///
    /// Stops at what does not fit; then `protocol` is still an extension header's number.
    #[cold]
    fn follow_extensions(&mut self, packet: &[u8]) {
        self.has_extensions = true;
        let end = self.total_len.min(packet.len());
        for _ in 0..EXTENSIONS_MAX {
            if !is_extension(self.protocol) {
                return;
            }
            let Some(&[next, len]) = packet.get(self.header_len..end).and_then(<[u8]>::first_chunk::<2>)
            else {
                return;
            };
            let bytes = match self.protocol {
                FRAGMENT => 8,
                // RFC 4302 §2.2: in 32-bit words, less two.
                AUTHENTICATION => (usize::from(len) + 2) * 4,
                _ => (usize::from(len) + 1) * 8,
            };
            if self.header_len + bytes > end {
                return;
            }
            self.is_fragment |= self.protocol == FRAGMENT;
            self.header_len += bytes;
            self.protocol = next;
            if self.is_fragment {
                return;
            }
        }
    }
}

const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

/// Hop-by-hop, routing, fragment, authentication, destination options, mobility, HIP and Shim6.
#[inline]
pub(crate) const fn is_extension(protocol: u8) -> bool {
    matches!(protocol, 0 | 43 | FRAGMENT | AUTHENTICATION | 60 | 135 | 139 | 140)
}

#[inline]
fn v6_at(header: &[u8; IPV6_HEADER_LEN], at: usize) -> Ipv6Addr {
    let (high, low) = (
        (u64::from(u32_at(header, at)) << 32) | u64::from(u32_at(header, at + 4)),
        (u64::from(u32_at(header, at + 8)) << 32) | u64::from(u32_at(header, at + 12)),
    );
    Ipv6Addr::from_bits((u128::from(high) << 64) | u128::from(low))
}

/// True when `packet` is IPv4 with a right header checksum, or IPv6, which has none.
#[must_use]
pub fn ipv4_checksum_is_valid(packet: &[u8]) -> bool {
    match packet.first() {
        Some(b) if b >> 4 == 4 => packet
            .get(..usize::from(b & 0xf) * 4)
            .is_some_and(|header| header.len() >= IPV4_HEADER_LEN && checksum::sum(header) == 0xffff),
        Some(b) => b >> 4 == 6,
        None => false,
    }
}

/// Writes the length fields, and for IPv4 id and header checksum, of a packet that is `total_len` long.
///
/// `ip` describes the header already in `packet`; `total_len` fits 16 bits (callers have checked).
pub(crate) fn finish_header(packet: &mut [u8], ip: &Ip, total_len: usize, id: u16) {
    match ip.version {
        IpVersion::V4 => {
            let ihl = packet.first().map_or(0, |b| usize::from(b & 0xf) * 4);
            let Some(header) = packet.get_mut(..ihl).filter(|h| h.len() >= IPV4_HEADER_LEN) else { return };
            header[2..4].copy_from_slice(&(total_len as u16).to_be_bytes());
            header[4..6].copy_from_slice(&id.to_be_bytes());
            header[10..12].fill(0);
            let checksum = !checksum::sum(header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        IpVersion::V6 => {
            let payload = total_len.saturating_sub(IPV6_HEADER_LEN) as u16;
            crate::octets::put(packet, 4, &payload.to_be_bytes());
        }
    }
}
