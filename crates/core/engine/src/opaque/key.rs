//! [`OpaqueKey`]: what an opaque flow is known by.

use std::net::IpAddr;

use units::mix64;
use wire::{Ip, Packet, Tcp, Transport, Udp};

/// Selector of fragments, which do not all have ports.
const FRAGMENT: u32 = 0;

/// Port of HTTPS, and so of HTTP/3.
const HTTPS: u16 = 443;

/// First bit of a QUIC packet with a long header (RFC 8999 §5.1).
pub(super) const LONG_HEADER: u8 = 0x80;

/// Versions of QUIC that are known by their long headers: 1 (RFC 9000) and 2 (RFC 9369). RTP has the same first bit.
pub const QUIC_VERSIONS: [u32; 2] = [1, 0x6b33_43cf];

/// Protocol number of ESP (RFC 4303).
const ESP: u8 = 50;

/// A flow of a subscriber, in few bits: its hosts and protocol, and its ports, flow label, or security parameters index.
///
/// Two flows with the same key share a queue, nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(crate) struct OpaqueKey {
    hosts: u32,
    selector: u32,
}

impl OpaqueKey {
    /// The flow of a packet towards a client.
    pub(crate) fn of(parsed: &Packet, packet: &[u8], seed: u64) -> Self {
        let Packet { ip, transport } = parsed;
        let selector = match transport {
            Transport::Tcp(tcp) => ports(tcp.src_port, tcp.dst_port),
            Transport::Udp(udp) => ports(udp.src_port, udp.dst_port),
            Transport::Other(ESP) => word_at(packet, ip.header_len),
            Transport::Fragment => {
                return Self { hosts: hosts(ip.src, ip.dst, ip.protocol, seed), selector: FRAGMENT };
            }
            Transport::Icmp(_) | Transport::Other(_) | Transport::Truncated => u64::from(ip.flow_label),
        };
        Self::new(hosts(ip.src, ip.dst, ip.protocol, seed), selector, seed)
    }

    /// The flow towards the client that a segment of the client answers.
    pub(crate) fn of_reply(ip: &Ip, tcp: &Tcp, seed: u64) -> Self {
        Self::new(hosts(ip.dst, ip.src, ip.protocol, seed), ports(tcp.dst_port, tcp.src_port), seed)
    }

    /// The flow towards the client that a datagram of the client answers.
    pub(crate) fn of_datagram_reply(ip: &Ip, udp: &Udp, seed: u64) -> Self {
        Self::new(hosts(ip.dst, ip.src, ip.protocol, seed), ports(udp.dst_port, udp.src_port), seed)
    }

    fn new(hosts: u32, selector: u64, seed: u64) -> Self {
        Self { hosts, selector: (mix64(selector ^ seed) as u32).max(FRAGMENT + 1) }
    }

    /// Fragments, and whatever else its hosts send each other.
    pub(crate) fn is_fragment(&self) -> bool {
        self.selector == FRAGMENT
    }

    /// Both are of the same hosts and protocol.
    pub(crate) fn has_hosts_of(&self, other: &Self) -> bool {
        self.hosts == other.hosts
    }

    /// One of `n` places.
    pub(crate) fn place(&self, n: usize) -> usize {
        (self.hosts ^ self.selector) as usize % n.max(1)
    }
}

/// True when a datagram of a server seems to be QUIC: it comes from port 443, or has a long header of a known version.
/// What follows a handshake at another port is not told from other UDP.
pub(crate) fn is_quic(udp: &Udp, packet: &[u8]) -> bool {
    let has_version = || {
        let payload = udp.payload(packet);
        payload.first().is_some_and(|first| first & LONG_HEADER != 0)
            && payload
                .get(1..5)
                .is_some_and(|version| QUIC_VERSIONS.iter().any(|known| version == known.to_be_bytes()))
    };
    udp.src_port == HTTPS || has_version()
}

fn ports(source: u16, destination: u16) -> u64 {
    u64::from(source) << 16 | u64::from(destination)
}

/// An address as a number that depends on the seed.
pub(super) fn host(address: IpAddr, seed: u64) -> u64 {
    mix64(bits(address) ^ seed)
}

fn bits(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => mix64((address.to_bits() >> 64) as u64) ^ address.to_bits() as u64,
    }
}

fn hosts(src: IpAddr, dst: IpAddr, protocol: u8, seed: u64) -> u32 {
    mix64(mix64(mix64(bits(src) ^ seed) ^ bits(dst)) ^ u64::from(protocol)) as u32
}

fn word_at(packet: &[u8], at: usize) -> u64 {
    let word = packet.get(at..).and_then(<[u8]>::first_chunk::<4>);
    u64::from(word.map_or(0, |octets| u32::from_be_bytes(*octets)))
}
