//! Headers in front of IP: link types, Ethernet and what it carries, PPP, LLC, MPLS.

use crate::octets::{Endian, be16};

/// A link type as registered for pcap and pcapng (`LINKTYPE_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IP without a link header, version in the first byte.
    pub const RAW: Self = Self(101);
    /// Linux "cooked" capture.
    pub const LINUX_SLL: Self = Self(113);
    /// Linux "cooked" capture, second version.
    pub const LINUX_SLL2: Self = Self(276);
}

/// Layer that follows in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// IPv4 or IPv6, by the first byte.
    Ip,
    Ethernet,
    /// The payload of an EtherType.
    EtherType(u16),
    Ppp,
    Llc,
    Mpls,
    Gre,
    Vxlan,
    VxlanGpe,
    Capwap,
    /// 802.11 as wireless controllers get it.
    Wifi,
    Geneve,
    GtpU,
    L2tp,
    Nsh,
}

pub(crate) mod ether_type {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const IPV6: u16 = 0x86dd;
    pub(crate) const TRANSPARENT_ETHERNET: u16 = 0x6558;
    pub(crate) const PPP: u16 = 0x880b;
    pub(crate) const MPLS: u16 = 0x8847;
    pub(crate) const MPLS_MULTICAST: u16 = 0x8848;
    pub(crate) const ERSPAN: u16 = 0x88be;
    pub(crate) const ERSPAN_3: u16 = 0x22eb;
}

/// Kind and start of the first layer; none for a link type not known or a header that is cut.
pub(crate) fn first(link: LinkType, frame: &[u8]) -> Option<(Layer, usize)> {
    let ether = |at: usize, len: usize| Some((Layer::EtherType(be16(frame, at)?), len));
    match link.0 {
        1 => Some((Layer::Ethernet, 0)),
        // BSD loopback: an address family in the byte order of whoever captured; OpenBSD's is big-endian.
        0 | 108 => family(frame).map(|layer| (layer, 4)),
        // Raw IP: numbers differ between systems.
        12 | 14 | 101 | 228 | 229 => Some((Layer::Ip, 0)),
        9 | 50 | 166 => Some((Layer::Ppp, 0)),
        // One byte of direction in front.
        204 => Some((Layer::Ppp, 1)),
        51 => Some((Layer::EtherType(0x8864), 0)),
        // FDDI: frame control and two addresses.
        10 => Some((Layer::Llc, 13)),
        // RFC 1483 ATM, classical IP over ATM, Token Ring without source routing.
        11 | 19 | 100 => Some((Layer::Llc, 0)),
        6 => Some((Layer::Llc, 14 + token_ring_route(frame))),
        104 => ether(2, 4),
        113 => match be16(frame, 14)? {
            4 => Some((Layer::Llc, 16)),
            other => Some((Layer::EtherType(other), 16)),
        },
        276 => ether(0, 20),
        // OpenBSD's encapsulating interface: family, SPI, flags.
        109 => family(frame).map(|layer| (layer, 12)),
        105 => wifi(frame, 0),
        127 => wifi(frame, usize::from(Endian::Little.u16_at(frame, 2))),
        138 => ether(16, 18),
        // InfiniBand: global route header of 40 bytes, EtherType, two reserved.
        242 => ether(40, 44),
        239 => nflog(frame),
        // PKTAP and PPI: a header with its length, and the link type of what follows.
        258 => inner_link(frame, Endian::Little.u32_at(frame, 0), Endian::Little.u32_at(frame, 8)),
        192 => inner_link(frame, u32::from(Endian::Little.u16_at(frame, 2)), Endian::Little.u32_at(frame, 4)),
        _ => None,
    }
}

/// The first layer behind a header of `len` bytes; none if that is one of such headers again.
fn inner_link(frame: &[u8], len: u32, link: u32) -> Option<(Layer, usize)> {
    let link = u16::try_from(link).ok().filter(|link| !matches!(link, 192 | 258))?;
    let len = usize::try_from(len).ok().filter(|len| *len >= 8)?;
    let (layer, at) = first(LinkType(link), frame.get(len..)?)?;
    Some((layer, len + at))
}

fn family(frame: &[u8]) -> Option<Layer> {
    let little = Endian::Little.u32_at(frame, 0);
    let family = if little > 0xffff { Endian::Big.u32_at(frame, 0) } else { little };
    // 2 is IPv4 everywhere; IPv6 is 10 on Linux, 24, 28 and 30 on the BSDs and macOS, 23 on Windows.
    matches!(family, 2 | 10 | 23 | 24 | 28 | 30).then_some(Layer::Ip)
}

fn token_ring_route(frame: &[u8]) -> usize {
    match (frame.get(8), frame.get(14)) {
        (Some(source), Some(control)) if source & 0x80 != 0 => usize::from(control & 0x1f),
        _ => 0,
    }
}

/// An 802.11 data frame after `skip` bytes of a radio header.
fn wifi(frame: &[u8], skip: usize) -> Option<(Layer, usize)> {
    let [control, flags] = *frame.get(skip..)?.first_chunk::<2>()?;
    wifi_body(control, flags, skip)
}

/// An 802.11 frame in CAPWAP. Some access points exchange the bytes of its first field, so what is no data frame
/// with LLC inside is read the other way round.
pub(crate) fn wifi_in_capwap(frame: &[u8]) -> Option<(Layer, usize)> {
    let [first, second] = *frame.first_chunk::<2>()?;
    let has_llc = |body: &(Layer, usize)| frame.get(body.1..).and_then(llc).is_some();
    let as_is = wifi_body(first, second, 0).filter(has_llc);
    as_is.or_else(|| wifi_body(second, first, 0).filter(has_llc))
}

/// Start of the body of an 802.11 data frame, by the two bytes of its frame control.
fn wifi_body(control: u8, flags: u8, skip: usize) -> Option<(Layer, usize)> {
    let is_data = control & 0x0c == 0x08;
    let has_body = control & 0x40 == 0;
    let is_protected = flags & 0x40 != 0;
    if !is_data || !has_body || is_protected {
        return None;
    }
    let four_addresses = flags & 3 == 3;
    let quality = if control & 0x80 != 0 { 2 } else { 0 };
    let order = if quality > 0 && flags & 0x80 != 0 { 4 } else { 0 };
    Some((Layer::Llc, skip + 24 + if four_addresses { 6 } else { 0 } + quality + order))
}

/// Linux netfilter log: type-length-value fields after four bytes; type 9 is the packet.
fn nflog(frame: &[u8]) -> Option<(Layer, usize)> {
    let mut at = 4;
    for _ in 0..64 {
        let field = frame.get(at..).filter(|f| f.len() >= 4)?;
        // In the byte order of the capturing machine; lengths are small, so the smaller reading is right.
        let (little, big) = (Endian::Little.u16_at(field, 0), Endian::Big.u16_at(field, 0));
        let (len, endian) = if little <= big { (little, Endian::Little) } else { (big, Endian::Big) };
        if endian.u16_at(field, 2) & 0x7fff == 9 {
            return Some((Layer::Ip, at + 4));
        }
        if len < 4 {
            return None;
        }
        at += usize::from(len).next_multiple_of(4);
    }
    None
}

pub(crate) fn ethernet(bytes: &[u8]) -> Option<(Layer, usize)> {
    match be16(bytes, 12)? {
        // A length: 802.3 with LLC.
        0..=1500 => Some((Layer::Llc, 14)),
        kind => Some((Layer::EtherType(kind), 14)),
    }
}

pub(crate) fn of_ether_type(kind: u16, bytes: &[u8]) -> Option<(Layer, usize)> {
    match kind {
        ether_type::IPV4 | ether_type::IPV6 => Some((Layer::Ip, 0)),
        // 802.1Q, 802.1ad, and what came before the standard.
        0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300 => match be16(bytes, 2)? {
            0..=1500 => Some((Layer::Llc, 4)),
            inner => Some((Layer::EtherType(inner), 4)),
        },
        // 802.1BR E-tag, VN-tag, Cisco metadata.
        0x893f => Some((Layer::EtherType(be16(bytes, 6)?), 8)),
        0x8926 => Some((Layer::EtherType(be16(bytes, 4)?), 6)),
        0x8909 => Some((Layer::EtherType(be16(bytes, 6)?), 8)),
        // 802.1ah: service tag, then a frame.
        0x88e7 => Some((Layer::Ethernet, 4)),
        // FabricPath: an outer address pair and tag in front of a whole frame (2 bytes of tag here).
        0x8903 => Some((Layer::Ethernet, 2)),
        ether_type::MPLS | ether_type::MPLS_MULTICAST => Some((Layer::Mpls, 0)),
        // PPPoE session: version, type, code, session, length.
        0x8864 => Some((Layer::Ppp, 6)),
        0x8870 => Some((Layer::Llc, 0)),
        0x894f => Some((Layer::Nsh, 0)),
        0x88e5 => macsec(bytes),
        ether_type::TRANSPARENT_ETHERNET => Some((Layer::Ethernet, 0)),
        ether_type::PPP => Some((Layer::Ppp, 0)),
        _ => None,
    }
}

/// MACsec (IEEE 802.1AE §9) that protects but does not encrypt: the tag with or without its channel's name,
/// then what the frame carries.
fn macsec(bytes: &[u8]) -> Option<(Layer, usize)> {
    let control = *bytes.first()?;
    // Version 0; encrypted or changed text is not readable.
    if control & 0x80 != 0 || control & 0x0c != 0 {
        return None;
    }
    let len = if control & 0x20 != 0 { 14 } else { 6 };
    Some((Layer::EtherType(be16(bytes, len)?), len + 2))
}

/// PPP, with or without address and control bytes, with a protocol number of one or two bytes (RFC 1661).
pub(crate) fn ppp(bytes: &[u8]) -> Option<(Layer, usize)> {
    let at = if bytes.starts_with(&[0xff, 0x03]) || bytes.starts_with(&[0x0f, 0x00]) { 2 } else { 0 };
    let first = *bytes.get(at)?;
    let (protocol, len) = match first & 1 {
        1 => (u16::from(first), 1),
        _ => (be16(bytes, at)?, 2),
    };
    match protocol {
        0x0021 | 0x0057 => Some((Layer::Ip, at + len)),
        0x0281 | 0x0283 => Some((Layer::Mpls, at + len)),
        // Cisco HDLC carries an EtherType at this place.
        0x0800 | 0x86dd => Some((Layer::Ip, at + len)),
        _ => None,
    }
}

/// 802.2: SNAP with an EtherType, or IP by its own service access point.
pub(crate) fn llc(bytes: &[u8]) -> Option<(Layer, usize)> {
    match bytes.first_chunk::<3>()? {
        [0xaa, 0xaa, 0x03] => match be16(bytes, 6)? {
            inner @ 0x600.. => Some((Layer::EtherType(inner), 8)),
            _ => None,
        },
        [0x06, 0x06, 0x03] => Some((Layer::Ip, 3)),
        // Network layer protocol identifiers on ATM and frame relay.
        [0xfe, 0xfe, 0x03] => matches!(bytes.get(3), Some(0xcc | 0x8e)).then_some((Layer::Ip, 4)),
        _ => None,
    }
}

/// Labels down to the bottom of the stack, then IP or a pseudowire, which nothing announces (RFC 4928).
pub(crate) fn mpls(bytes: &[u8]) -> Option<(Layer, usize)> {
    let bottom = bytes.chunks_exact(4).take(16).position(|label| label[2] & 1 == 1)?;
    let at = (bottom + 1) * 4;
    let rest = bytes.get(at..)?;
    match rest.first()? >> 4 {
        4 | 6 => Some((Layer::Ip, at)),
        // A control word in front of the frame.
        0 if is_plausible_frame(rest.get(4..)?) => Some((Layer::Ethernet, at + 4)),
        _ => is_plausible_frame(rest).then_some((Layer::Ethernet, at)),
    }
}

pub(crate) fn is_plausible_frame(bytes: &[u8]) -> bool {
    matches!(be16(bytes, 12), Some(0x0800 | 0x86dd | 0x8100 | 0x88a8 | 0x8847 | 0x8864))
}
