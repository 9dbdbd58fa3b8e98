//! The IP header of packets that are made byte by byte, and whose a packet is.

use core::net::{IpAddr, SocketAddr};

use wire::checksum::Sum;
use wire::{Packet, Transport, protocol};

/// Source and destination of a TCP segment or a UDP datagram; none of anything else.
pub(crate) fn ends(packet: &Packet) -> Option<(SocketAddr, SocketAddr)> {
    let (from, to) = match &packet.transport {
        Transport::Tcp(tcp) => (tcp.src_port, tcp.dst_port),
        Transport::Udp(udp) => (udp.src_port, udp.dst_port),
        _ => return None,
    };
    Some((SocketAddr::new(packet.ip.src, from), SocketAddr::new(packet.ip.dst, to)))
}

/// True for a TCP segment whose checksums are right.
pub(crate) fn is_intact(packet: &[u8], parsed: &Packet) -> bool {
    wire::ipv4_checksum_is_valid(packet) && wire::tcp_checksum_is_valid(packet, parsed)
}

/// An IP header in front of `len` bytes of payload, in a buffer with room for them; none for mixed addresses.
/// `protocols` are those of IPv4 and of IPv6.
pub(crate) fn ip_header(src: IpAddr, dst: IpAddr, protocols: [u8; 2], len: usize) -> Option<Vec<u8>> {
    let mut packet = Vec::with_capacity(40 + len);
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            packet.extend([0x45, 0]);
            packet.extend(((20 + len) as u16).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, protocols[0], 0, 0]);
            packet.extend(src.octets());
            packet.extend(dst.octets());
            let checksum = !wire::checksum::sum(&packet);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend((len as u16).to_be_bytes());
            packet.extend([protocols[1], 64]);
            packet.extend(src.octets());
            packet.extend(dst.octets());
        }
        _ => return None,
    }
    Some(packet)
}

/// A UDP packet with its checksum; none for mixed addresses.
pub(crate) fn udp_packet(src: SocketAddr, dst: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    let udp_len = 8 + payload.len();
    let mut packet = ip_header(src.ip(), dst.ip(), [protocol::UDP; 2], udp_len)?;
    let at = packet.len();
    packet.extend(src.port().to_be_bytes());
    packet.extend(dst.port().to_be_bytes());
    packet.extend((udp_len as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend_from_slice(payload);
    let mut sum = Sum::pseudo_header(src.ip(), dst.ip(), protocol::UDP, udp_len);
    sum.add_bytes(&packet[at..]);
    // RFC 768: zero would mean that there is none.
    let checksum = match sum.checksum() {
        0 => u16::MAX,
        checksum => checksum,
    };
    packet[at + 6..at + 8].copy_from_slice(&checksum.to_be_bytes());
    Some(packet)
}
