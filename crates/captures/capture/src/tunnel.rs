//! Tunnels over IP: which protocols and ports carry another packet, and their headers.
//!
//! Ports are only a hint: each header is checked before it is believed.

use wire::{IpVersion, Packet, Transport, protocol};

use crate::link::{Layer, ether_type, is_plausible_frame};
use crate::octets::be16;

/// The layer inside a packet that is no TCP, and where it starts; none if nothing known is inside.
///
/// A first fragment will do: the packet inside says its own length.
pub(crate) fn inside(packet: &Packet, bytes: &[u8]) -> Option<(Layer, usize)> {
    let at = packet.ip.header_len;
    if packet.transport == Transport::Fragment && !is_first_fragment(packet, bytes) {
        return None;
    }
    match packet.ip.protocol {
        // IP in IP, IPv6 in IP.
        4 | 41 => Some((Layer::Ip, at)),
        47 => Some((Layer::Gre, at)),
        97 => Some((Layer::Ethernet, at + 2)),
        137 => Some((Layer::Mpls, at)),
        51 => authenticated(bytes, at),
        protocol::UDP => {
            let ports = [be16(bytes, at + 2)?, be16(bytes, at)?];
            let at = at + 8;
            let inner = bytes.get(at..)?;
            ports.into_iter().find_map(|port| match port {
                // VXLAN: the registered port, and Linux's from before it was.
                4789 | 8472 => vxlan(inner).map(|_| (Layer::Vxlan, at)),
                4790 => vxlan_gpe(inner).map(|_| (Layer::VxlanGpe, at)),
                6081 => geneve(inner).map(|_| (Layer::Geneve, at)),
                2152 => gtp_u(inner).map(|_| (Layer::GtpU, at)),
                6635 => Some((Layer::Mpls, at)),
                4754 => is_gre_in_udp(inner).then_some((Layer::Gre, at)),
                5247 => capwap(inner).map(|_| (Layer::Capwap, at)),
                1701 => l2tp(inner).map(|_| (Layer::L2tp, at)),
                // LISP (RFC 9300 §5): eight bytes, then IP.
                4341 => matches!(inner.get(8)? >> 4, 4 | 6).then_some((Layer::Ip, at + 8)),
                _ => None,
            })
        }
        _ => None,
    }
}

fn is_first_fragment(packet: &Packet, bytes: &[u8]) -> bool {
    match packet.ip.version {
        IpVersion::V4 => be16(bytes, 6).is_some_and(|field| field & 0x1fff == 0),
        // The fragment header is the last before the transport's.
        IpVersion::V6 => {
            be16(bytes, packet.ip.header_len.wrapping_sub(6)).is_some_and(|field| field & 0xfff8 == 0)
        }
    }
}

/// RFC 2784 and 2890; version 1 as PPTP uses it (RFC 2637); ERSPAN types I to III.
pub(crate) fn gre(bytes: &[u8]) -> Option<(Layer, usize)> {
    let flags = be16(bytes, 0)?;
    let kind = be16(bytes, 2)?;
    let word = |flag: u16| if flags & flag != 0 { 4 } else { 0 };
    let has_sequence = flags & 0x1000 != 0;
    let mut len = 4 + word(0x1000);
    if flags & 7 == 1 {
        // Key always; acknowledgement by a flag of its own.
        len += 4 + word(0x0080);
    } else {
        // Checksum and routing share a word.
        len += if flags & 0xc000 != 0 { 4 } else { 0 } + word(0x2000);
    }
    match kind {
        ether_type::ERSPAN => Some((Layer::Ethernet, len + if has_sequence { 8 } else { 0 })),
        ether_type::ERSPAN_3 => {
            let has_subheader = bytes.get(len + 11)? & 1 != 0;
            Some((Layer::Ethernet, len + 12 + if has_subheader { 8 } else { 0 }))
        }
        // Cisco's early form has EtherType 0x883e or plain IP; the rest is what Ethernet would carry.
        _ => Some((Layer::EtherType(kind), len)),
    }
}

/// GRE in UDP (RFC 8086 §3): version 0, and no bits but those for checksum, key and sequence number. Port 4755 is
/// the same encrypted.
fn is_gre_in_udp(bytes: &[u8]) -> bool {
    be16(bytes, 0).is_some_and(|flags| flags & 0x4fff == 0) && gre(bytes).is_some()
}

/// RFC 7348 §5: a frame. All bits but that for a valid identifier are ignored on receipt; but some senders say at
/// this port, too, that something else than a frame is inside.
pub(crate) fn vxlan(bytes: &[u8]) -> Option<(Layer, usize)> {
    let has_identifier = bytes.first_chunk::<8>()?[0] & 0x08 != 0;
    let is_frame = is_plausible_frame(bytes.get(8..)?);
    let other = vxlan_gpe(bytes).filter(|_| !is_frame);
    has_identifier.then(|| other.unwrap_or((Layer::Ethernet, 8)))
}

/// VXLAN with the protocol of what is inside, where a flag says so (draft-ietf-nvo3-vxlan-gpe §3.1).
pub(crate) fn vxlan_gpe(bytes: &[u8]) -> Option<(Layer, usize)> {
    let header = bytes.first_chunk::<8>()?;
    if header[0] & 0x08 == 0 {
        return None;
    }
    match (header[0] & 0x04 != 0, header[3]) {
        (true, 1 | 2) => Some((Layer::Ip, 8)),
        (true, 4) => Some((Layer::Nsh, 8)),
        (true, 5) => Some((Layer::Mpls, 8)),
        _ => Some((Layer::Ethernet, 8)),
    }
}

/// CAPWAP data (RFC 5415 §4.3) without encryption: a frame, or one of 802.11 (RFC 5416 §2). Of a frame in pieces
/// the first will do: the packet inside says its own length.
pub(crate) fn capwap(bytes: &[u8]) -> Option<(Layer, usize)> {
    let header = bytes.first_chunk::<8>()?;
    let [_, high, middle, low, .., offset_high, offset_low] = *header;
    let len = usize::from(high >> 3) * 4;
    let binding = middle >> 1 & 0x1f;
    let (is_native, is_fragment, is_keep_alive) = (middle & 1 != 0, low & 0x80 != 0, low & 0x08 != 0);
    let is_later = is_fragment && u16::from_be_bytes([offset_high, offset_low]) >> 3 != 0;
    // The first byte: version 0, and a header that is not encrypted.
    if header[0] != 0 || len < 8 || is_later || is_keep_alive {
        return None;
    }
    match (is_native, binding) {
        (false, _) => Some((Layer::Ethernet, len)),
        (true, 1) => Some((Layer::Wifi, len)),
        _ => None,
    }
}

/// An authentication header (RFC 4302 §2) in tunnel mode: IP is inside.
fn authenticated(bytes: &[u8], at: usize) -> Option<(Layer, usize)> {
    let (next, words) = (*bytes.get(at)?, usize::from(*bytes.get(at + 1)?));
    matches!(next, 4 | 41).then_some((Layer::Ip, at + (words + 2) * 4))
}

/// L2TP version 2 (RFC 2661 §3.1): a data message, then PPP.
pub(crate) fn l2tp(bytes: &[u8]) -> Option<(Layer, usize)> {
    let flags = be16(bytes, 0)?;
    let has = |flag: u16| flags & flag != 0;
    // A control message has the first bit set.
    if flags & 0x000f != 2 || has(0x8000) {
        return None;
    }
    let mut len = 6 + if has(0x4000) { 2 } else { 0 } + if has(0x0800) { 4 } else { 0 };
    if has(0x0200) {
        len += 2 + usize::from(be16(bytes, len)?);
    }
    Some((Layer::Ppp, len))
}

/// Network service header (RFC 8300 §2).
pub(crate) fn nsh(bytes: &[u8]) -> Option<(Layer, usize)> {
    let header = bytes.first_chunk::<8>()?;
    let len = usize::from(header[1] & 0x3f) * 4;
    if header[0] >> 6 != 0 || len < 8 {
        return None;
    }
    match header[3] {
        1 | 2 => Some((Layer::Ip, len)),
        3 => Some((Layer::Ethernet, len)),
        4 => Some((Layer::Nsh, len)),
        5 => Some((Layer::Mpls, len)),
        _ => None,
    }
}

/// RFC 8926.
pub(crate) fn geneve(bytes: &[u8]) -> Option<(Layer, usize)> {
    let header = bytes.first_chunk::<8>()?;
    if header[0] >> 6 != 0 {
        return None;
    }
    let len = 8 + usize::from(header[0] & 0x3f) * 4;
    match u16::from_be_bytes([header[2], header[3]]) {
        ether_type::TRANSPARENT_ETHERNET => Some((Layer::Ethernet, len)),
        ether_type::IPV4 | ether_type::IPV6 => Some((Layer::Ip, len)),
        ether_type::MPLS => Some((Layer::Mpls, len)),
        _ => None,
    }
}

/// 3GPP TS 29.281: a user packet (message type 255), extension headers followed.
pub(crate) fn gtp_u(bytes: &[u8]) -> Option<(Layer, usize)> {
    let header = bytes.first_chunk::<8>()?;
    let flags = header[0];
    if flags >> 5 != 1 || flags & 0x10 == 0 || header[1] != 255 {
        return None;
    }
    let mut at = 8;
    if flags & 7 != 0 {
        at += 4;
        let mut next = if flags & 4 != 0 { *bytes.get(11)? } else { 0 };
        for _ in 0..16 {
            if next == 0 {
                break;
            }
            let len = usize::from(*bytes.get(at)?) * 4;
            if len == 0 {
                return None;
            }
            at += len;
            next = *bytes.get(at - 1)?;
        }
    }
    matches!(bytes.get(at)? >> 4, 4 | 6).then_some((Layer::Ip, at))
}
