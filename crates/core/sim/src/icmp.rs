//! ICMP and ICMPv6 messages: "too big" and echo.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Transport;

/// Length of the longer one of the two IP headers.
const IP_HEADER_MAX: usize = 40;

/// The router that speaks in the middle of a path (RFC 5737, RFC 3849).
const ROUTER: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// Most that a message quotes (RFC 1812 §4.3.2.3; RFC 4443 §3.2 allows more).
const QUOTE_MAX: usize = 548;

/// An ICMP or ICMPv6 packet with the fixed part `head` (its checksum left zero) and `body`.
fn message(src: IpAddr, dst: IpAddr, head: [u8; 8], body: &[u8]) -> Option<Vec<u8>> {
    let message = [&head[..], body].concat();
    let mut packet = vec![0; IP_HEADER_MAX + message.len()];
    let len = wire::emit_icmp((src, dst), 0, &message, &mut packet).ok()?;
    packet.truncate(len);
    Some(packet)
}

/// "Too big" for the sender of `packet`, from a router whose next link takes `mtu` bytes; none
/// about ICMP itself.
pub(crate) fn too_big(packet: &[u8], mtu: usize) -> Option<Vec<u8>> {
    let parsed = wire::parse(packet).ok()?;
    if matches!(parsed.transport, Transport::Icmp(_)) {
        return None;
    }
    let quote = &packet[..packet.len().min(QUOTE_MAX)];
    let mtu = mtu as u32;
    match parsed.ip.src {
        src @ IpAddr::V4(_) => {
            let [.., a, b] = mtu.to_be_bytes();
            message(ROUTER.0.into(), src, [3, 4, 0, 0, 0, 0, a, b], quote)
        }
        src @ IpAddr::V6(_) => {
            let [a, b, c, d] = mtu.to_be_bytes();
            message(ROUTER.1.into(), src, [2, 0, 0, 0, a, b, c, d], quote)
        }
    }
}

/// Payload of an echo, as ping sends it.
const ECHO_PAYLOAD: [u8; 56] = [0x5a; 56];

/// An echo request, or the reply to one.
pub(crate) fn echo(src: IpAddr, dst: IpAddr, is_reply: bool, number: u16) -> Option<Vec<u8>> {
    let kind = match (src.is_ipv4(), is_reply) {
        (true, false) => 8,
        (true, true) => 0,
        (false, false) => 128,
        (false, true) => 129,
    };
    let [a, b] = number.to_be_bytes();
    message(src, dst, [kind, 0, 0, 0, 0, 1, a, b], &ECHO_PAYLOAD)
}

/// Answer to an echo request: the same with the addresses exchanged (RFC 792); none for anything else.
pub(crate) fn echo_reply(request: &[u8]) -> Option<Vec<u8>> {
    let (from, to, _) = echo_number(request, false)?;
    let parsed = wire::parse(request).ok()?;
    let Transport::Icmp(icmp) = &parsed.transport else { return None };
    let whole = request.get(icmp.offset..icmp.offset + icmp.len)?;
    let (head, body) = whole.split_first_chunk::<8>()?;
    let kind = if from.is_ipv4() { 0 } else { 129 };
    message(to, from, [kind, 0, 0, 0, head[4], head[5], head[6], head[7]], body)
}

/// The number of an echo: of a request, or of a reply.
pub(crate) fn echo_number(packet: &[u8], is_reply: bool) -> Option<(IpAddr, IpAddr, u16)> {
    let parsed = wire::parse(packet).ok()?;
    let Transport::Icmp(icmp) = &parsed.transport else { return None };
    let kind = match (parsed.ip.src.is_ipv4(), is_reply) {
        (true, false) => 8,
        (true, true) => 0,
        (false, false) => 128,
        (false, true) => 129,
    };
    let is_it = icmp.icmp_type == kind && icmp.checksum_is_valid(packet, &parsed.ip);
    is_it.then_some((parsed.ip.src, parsed.ip.dst, icmp.rest as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build_packet;
    use units::SeqNum;
    use wire::{TcpFlags, TcpHeaderSpec};

    #[test]
    fn too_big_quotes_the_packet_and_says_the_mtu() {
        for (src, dst) in [("10.0.0.1:1", "10.0.0.2:2"), ("[fd00::1]:1", "[fd00::2]:2")] {
            let (src, dst): (core::net::SocketAddr, core::net::SocketAddr) =
                (src.parse().unwrap(), dst.parse().unwrap());
            let spec = TcpHeaderSpec::new(src, dst, SeqNum::new(77), SeqNum::new(0), TcpFlags::ACK);
            let packet = build_packet(&spec, &[], &[&[1; 1_400]]).unwrap();
            let answer = too_big(&packet, 1_280).unwrap();
            let parsed = wire::parse(&answer).unwrap();
            let Transport::Icmp(icmp) = parsed.transport else { panic!("{parsed}") };
            assert!(icmp.checksum_is_valid(&answer, &parsed.ip) && wire::ipv4_checksum_is_valid(&answer));
            assert_eq!((parsed.ip.dst, icmp.next_hop_mtu()), (src.ip(), Some(1_280)));
            let quoted = icmp.quoted(&answer).unwrap();
            assert_eq!((quoted.src_port, quoted.dst_port, quoted.seq), (1, 2, Some(SeqNum::new(77))));
            assert_eq!(too_big(&answer, 100), None);
        }
    }

    #[test]
    fn echoes_are_told_apart() {
        for (a, b) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (a, b) = (a.parse().unwrap(), b.parse().unwrap());
            let request = echo(a, b, false, 300).unwrap();
            assert_eq!(echo_number(&request, false), Some((a, b, 300)));
            assert_eq!(echo_number(&request, true), None);
            let reply = echo(b, a, true, 300).unwrap();
            assert_eq!(echo_number(&reply, true), Some((b, a, 300)));
        }
    }
}
