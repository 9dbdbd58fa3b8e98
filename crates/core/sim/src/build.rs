//! [`build_packet`]: whole TCP packets, also with options the header writer does not know.

use wire::checksum::Sum;
use wire::{BuildError, TcpHeaderSpec};

/// The packet `spec` describes, with `extra_options` behind its options and `payload`, checksums complete.
///
/// `extra_options` are padded with end-of-list to a multiple of four.
///
/// # Errors
/// Mixed IP versions, options that do not fit a TCP header, or a packet too long for IP.
pub fn build_packet(
    spec: &TcpHeaderSpec,
    extra_options: &[u8],
    payload: &[&[u8]],
) -> Result<Vec<u8>, BuildError> {
    let payload_len: usize = payload.iter().map(|piece| piece.len()).sum();
    let mut packet = vec![0; TcpHeaderSpec::MAX_LEN + payload_len];
    let header = spec.emit(&mut packet, payload)?;
    packet.truncate(header.len);
    for piece in payload {
        packet.extend_from_slice(piece);
    }
    if !extra_options.is_empty() {
        insert_options(&mut packet, header.transport_offset, header.len, extra_options)?;
    }
    Ok(packet)
}

fn insert_options(
    packet: &mut Vec<u8>,
    tcp: usize,
    header_end: usize,
    extra: &[u8],
) -> Result<(), BuildError> {
    let padded = extra.len().next_multiple_of(4);
    if header_end - tcp + padded > 60 {
        return Err(BuildError::TooLong { len: header_end - tcp + padded });
    }
    let mut options = extra.to_vec();
    options.resize(padded, 0);
    packet.splice(header_end..header_end, options);
    packet[tcp + 12] += (padded as u8 / 4) << 4;
    refresh_lengths_and_checksums(packet);
    Ok(())
}

/// Makes the lengths and checksums of an IP packet with a TCP segment right for the bytes it has.
///
/// IPv6 extension headers are not understood; a packet that holds no whole header is left as it is.
pub(crate) fn refresh_lengths_and_checksums(packet: &mut [u8]) {
    let len = packet.len();
    let tcp = match packet.first().map(|b| b >> 4) {
        Some(4) if len >= 40 => {
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            packet[10..12].fill(0);
            let tcp = usize::from(packet[0] & 0xf) * 4;
            let checksum = !wire::checksum::sum(&packet[..tcp]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            tcp
        }
        Some(6) if len >= 60 => {
            packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
            40
        }
        _ => return,
    };
    let Ok(parsed) = wire::parse(packet) else { return };
    packet[tcp + 16..tcp + 18].fill(0);
    let mut sum = Sum::pseudo_header(parsed.ip.src, parsed.ip.dst, wire::protocol::TCP, len - tcp);
    sum.add_bytes(&packet[tcp..]);
    packet[tcp + 16..tcp + 18].copy_from_slice(&sum.checksum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::SeqNum;
    use wire::{TcpFlags, Timestamps};

    #[test]
    fn unknown_options_are_carried_with_right_checksums() {
        for (src, dst) in [("10.0.0.1:1", "10.0.0.2:2"), ("[fd00::1]:1", "[fd00::2]:2")] {
            let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
            let mut spec = TcpHeaderSpec::new(src, dst, SeqNum::new(7), SeqNum::new(0), TcpFlags::SYN);
            spec.mss = Some(1_400);
            spec.timestamps = Some(Timestamps { value: 9, echo: 0 });
            let packet = build_packet(&spec, &[222, 5, 1, 2, 3], &[b"hello"]).unwrap();
            let parsed = wire::parse(&packet).unwrap();
            let tcp = parsed.tcp().unwrap();
            assert!(tcp.options.unknown && !tcp.options.malformed && tcp.options.mss == Some(1_400));
            assert_eq!(tcp.payload(&packet), b"hello");
            assert!(wire::tcp_checksum_is_valid(&packet, &parsed) && wire::ipv4_checksum_is_valid(&packet));
        }
    }
}
