//! Segments inside UDP datagrams: what a QUIC connection is to a box that forwards it.

use wire::{Transport, protocol};

use crate::ip_header::{ip_header, udp_packet};

/// A TCP packet as a datagram between the same addresses and ports; none for anything else.
pub(super) fn sealed(packet: &[u8]) -> Option<Vec<u8>> {
    let parsed = wire::parse(packet).ok()?;
    let tcp = parsed.tcp()?;
    let segment = packet.get(parsed.ip.header_len..)?;
    udp_packet((parsed.ip.src, tcp.src_port).into(), (parsed.ip.dst, tcp.dst_port).into(), segment)
}

/// The TCP packet inside a datagram; none for what is broken, or something else.
pub(super) fn opened(packet: &[u8]) -> Option<Vec<u8>> {
    let parsed = wire::parse(packet).ok()?;
    let Transport::Udp(udp) = &parsed.transport else { return None };
    if !wire::ipv4_checksum_is_valid(packet) || !wire::udp_checksum_is_valid(packet, &parsed) {
        return None;
    }
    let segment = udp.payload(packet);
    let mut inside = ip_header(parsed.ip.src, parsed.ip.dst, [protocol::TCP; 2], segment.len())?;
    inside.extend_from_slice(segment);
    Some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::build_packet;
    use units::SeqNum;
    use wire::{TcpFlags, TcpHeaderSpec};

    #[test]
    fn a_segment_comes_out_of_its_datagram_as_it_went_in() {
        for (src, dst) in [("10.0.0.1:443", "10.0.0.2:5"), ("[fd00::1]:443", "[fd00::2]:5")] {
            let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
            let spec = TcpHeaderSpec::new(src, dst, SeqNum::new(7), SeqNum::new(9), TcpFlags::ACK);
            let packet = build_packet(&spec, &[], &[b"hello"]).unwrap();
            let datagram = sealed(&packet).unwrap();
            assert!(wire::parse(&datagram).unwrap().tcp().is_none(), "nobody in between sees a segment");
            assert_eq!(datagram.len(), packet.len() + 8);
            let inside = opened(&datagram).unwrap();
            let (was, is) = (wire::parse(&packet).unwrap(), wire::parse(&inside).unwrap());
            assert_eq!(was.tcp(), is.tcp());
            assert!(wire::tcp_checksum_is_valid(&inside, &is) && wire::ipv4_checksum_is_valid(&inside));
            assert_eq!(is.tcp().unwrap().payload(&inside), b"hello");
            let mut broken = datagram;
            *broken.last_mut().unwrap() ^= 1;
            assert!(opened(&broken).is_none() && opened(&packet).is_none());
        }
    }
}
