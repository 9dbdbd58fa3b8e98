//! [`decode`]: from a captured frame to its innermost TCP segment.

use wire::{Ip, IpVersion, Packet, ParseError, Tcp, Transport, protocol};

use crate::link::{self, Layer, LinkType, ether_type};
use crate::octets::be16;
use crate::tunnel;

/// Layers followed at most: real captures have up to about ten.
const LAYERS_MAX: usize = 24;

/// The innermost TCP segment of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its IP header. `total_len` is what the header says, or for super-packets what the frame says.
    pub ip: Ip,
    /// Its TCP header; `payload_len` is right for super-packets too.
    pub tcp: Tcp,
    /// True when another IP packet or a tunnel was around it.
    pub is_tunnelled: bool,
    /// True when the frame is shorter than the IP header says, though the capture kept the whole
    /// frame: a tool has cut it. Lengths are the IP header's.
    pub is_cut_by_tool: bool,
    /// Offset of its IP header in the frame.
    pub ip_at: usize,
}

/// Reason why a frame gives no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skip {
    /// A link type that is not known.
    UnknownLink,
    /// No IP inside.
    NotIp,
    /// IP, but no TCP inside. TCP headers quoted by ICMP are no segments.
    NotTcp,
    /// A fragment of a larger packet.
    Fragment,
    /// So little was captured that the headers are not whole, or their lengths make no sense.
    Cut,
}

/// Finds the innermost TCP segment of `frame`, which was `wire_len` bytes long on the wire.
///
/// # Errors
/// There is none, with the reason.
#[inline]
pub fn decode(link: LinkType, frame: &[u8], wire_len: u32) -> Result<Segment, Skip> {
    if link == LinkType::ETHERNET
        && let Some(ether_type::IPV4 | ether_type::IPV6) = be16(frame, 12)
        && let Some(bytes) = frame.get(14..)
        && let Ok(Packet { ip, transport: Transport::Tcp(tcp) }) = wire::parse_prefix(bytes)
    {
        let is_cut_by_tool = ip.total_len > (wire_len as usize).saturating_sub(14);
        return Ok(Segment { ip, tcp, is_tunnelled: false, is_cut_by_tool, ip_at: 14 });
    }
    through_layers(link, frame, wire_len as usize)
}

fn through_layers(link: LinkType, frame: &[u8], wire_len: usize) -> Result<Segment, Skip> {
    let found = innermost(link, frame, wire_len)?;
    match found.packet.transport {
        Transport::Tcp(tcp) => Ok(Segment {
            ip: found.packet.ip,
            tcp,
            is_tunnelled: found.is_tunnelled,
            is_cut_by_tool: found.packet.ip.total_len > wire_len.saturating_sub(found.at),
            ip_at: found.at,
        }),
        Transport::Fragment => Err(Skip::Fragment),
        Transport::Truncated => Err(Skip::Cut),
        _ => Err(Skip::NotTcp),
    }
}

/// The innermost IP packet of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Innermost {
    pub(crate) packet: Packet,
    /// Another IP packet was around it.
    pub(crate) is_tunnelled: bool,
    /// Offset in the frame.
    pub(crate) at: usize,
}

/// Follows all links and tunnels.
pub(crate) fn innermost(link: LinkType, frame: &[u8], wire_len: usize) -> Result<Innermost, Skip> {
    let (mut layer, mut at) = match link::first(link, frame) {
        Some(first) => first,
        None if is_known(link) => return Err(Skip::NotIp),
        None => return Err(Skip::UnknownLink),
    };
    let mut outer_packets = 0;
    for _ in 0..LAYERS_MAX {
        let bytes = frame.get(at..).unwrap_or_default();
        let next = if layer == Layer::Ip {
            let packet = parse(bytes, wire_len.saturating_sub(at))?;
            match tunnel::inside(&packet, bytes) {
                Some(inside) if packet.tcp().is_none() => {
                    outer_packets += 1;
                    inside
                }
                _ => return Ok(Innermost { packet, is_tunnelled: outer_packets > 0, at }),
            }
        } else {
            let none = if outer_packets > 0 { Skip::NotTcp } else { Skip::NotIp };
            next(layer, bytes).ok_or(none)?
        };
        layer = next.0;
        at += next.1;
    }
    Err(Skip::NotIp)
}

/// The layer after one that is no IP, and the bytes of its header; none if nothing known follows.
fn next(layer: Layer, bytes: &[u8]) -> Option<(Layer, usize)> {
    match layer {
        Layer::Ethernet => link::ethernet(bytes),
        Layer::EtherType(kind) => link::of_ether_type(kind, bytes),
        Layer::Ppp => link::ppp(bytes),
        Layer::Llc => link::llc(bytes),
        Layer::Mpls => link::mpls(bytes),
        Layer::Gre => tunnel::gre(bytes),
        Layer::Vxlan => tunnel::vxlan(bytes),
        Layer::VxlanGpe => tunnel::vxlan_gpe(bytes),
        Layer::Capwap => tunnel::capwap(bytes),
        Layer::Wifi => link::wifi_in_capwap(bytes),
        Layer::Geneve => tunnel::geneve(bytes),
        Layer::GtpU => tunnel::gtp_u(bytes),
        Layer::L2tp => tunnel::l2tp(bytes),
        Layer::Nsh => tunnel::nsh(bytes),
        Layer::Ip => None,
    }
}

/// The segment put together from fragments: `header` is its TCP header, `len` what all fragments
/// carry, bytes.
///
/// Where its IP header lies in the frame is said to be the frame's end: the fragment with the
/// options is gone.
pub(crate) fn segment_of(
    ip: &Ip,
    header: &[u8],
    len: usize,
    is_tunnelled: bool,
    frame_len: usize,
) -> Option<Segment> {
    let ip = Ip { total_len: ip.header_len + len, is_fragment: false, ..*ip };
    let Transport::Tcp(tcp) = with_header(&ip, header)?.transport else { return None };
    Some(Segment { ip, tcp, is_tunnelled, is_cut_by_tool: false, ip_at: frame_len })
}

/// Link types that [`link::first`] knows, though it found nothing in this frame.
fn is_known(link: LinkType) -> bool {
    matches!(link.0, 0 | 104 | 105 | 108 | 109 | 113 | 127 | 138 | 192 | 239 | 242 | 258 | 276)
}

/// Reads an IP packet, the unusual ones too; `left` is what was left of the frame on the wire.
fn parse(bytes: &[u8], left: usize) -> Result<Packet, Skip> {
    match wire::parse_prefix(bytes) {
        Ok(packet) => match packet.transport {
            Transport::Truncated if packet.ip.total_len <= 40 && packet.ip.version == IpVersion::V6 => {
                super_packet(bytes, left)
            }
            Transport::Truncated if packet.ip.protocol == protocol::TCP => {
                rebuilt(&packet.ip, bytes).ok_or(Skip::Cut)
            }
            Transport::Fragment => match atomic_fragment(&packet.ip, bytes) {
                Some(packet) => Ok(packet),
                None => Ok(packet),
            },
            _ if packet.ip.protocol == AUTHENTICATION && packet.ip.version == IpVersion::V4 => {
                Ok(behind_authentication(&packet.ip, bytes).unwrap_or(packet))
            }
            _ => Ok(packet),
        },
        Err(ParseError::Lengths { total_len: 0, .. }) => super_packet(bytes, left),
        Err(ParseError::Lengths { .. } | ParseError::Short { .. }) => Err(Skip::Cut),
        Err(ParseError::Version(_)) => Err(Skip::NotIp),
    }
}

/// Longest IP and TCP headers that are copied to be read again.
const HEADERS_MAX: usize = 512;

/// A packet whose length field is zero: handed to the network card to be cut (TSO), or a jumbogram (BIG TCP).
///
/// Its length is that of the frame.
fn super_packet(bytes: &[u8], left: usize) -> Result<Packet, Skip> {
    let mut headers = [0; HEADERS_MAX];
    let kept = bytes.len().min(HEADERS_MAX);
    headers[..kept].copy_from_slice(&bytes[..kept]);
    let is_v4 = bytes.first().is_some_and(|b| b >> 4 == 4);
    let (field, len) = if is_v4 { (2, left) } else { (4, left.saturating_sub(40)) };
    headers[field..field + 2].copy_from_slice(&(len.min(0xffff) as u16).to_be_bytes());
    let mut packet = wire::parse_prefix(&headers[..kept]).map_err(|_| Skip::Cut)?;
    packet.ip.total_len = left;
    if let Transport::Tcp(tcp) = &mut packet.transport {
        tcp.payload_len = left.saturating_sub(tcp.payload_offset);
    }
    match packet.transport {
        Transport::Truncated => Err(Skip::Cut),
        _ => Ok(packet),
    }
}

/// The protocol number of an authentication header (RFC 4302).
const AUTHENTICATION: u8 = 51;

/// A TCP segment behind an authentication header on IPv4 (RFC 4302 §2): its length is in words of four, less
/// two.
fn behind_authentication(ip: &Ip, bytes: &[u8]) -> Option<Packet> {
    let [next, words] = *bytes.get(ip.header_len..)?.first_chunk::<2>()?;
    let header_len = ip.header_len + (usize::from(words) + 2) * 4;
    if next != protocol::TCP {
        return None;
    }
    let ip = Ip { header_len, protocol: protocol::TCP, ..*ip };
    with_header(&ip, bytes.get(header_len..)?)
}

/// An IPv6 fragment that is the whole packet (RFC 6946).
fn atomic_fragment(ip: &Ip, bytes: &[u8]) -> Option<Packet> {
    if ip.version != IpVersion::V6 || ip.protocol != protocol::TCP {
        return None;
    }
    let offset_and_more = be16(bytes, ip.header_len.checked_sub(6)?)?;
    (offset_and_more & 0xfff9 == 0).then(|| rebuilt(ip, bytes)).flatten()
}

/// Reads the TCP header of a packet again; see [`with_header`].
fn rebuilt(ip: &Ip, bytes: &[u8]) -> Option<Packet> {
    with_header(ip, bytes.get(ip.header_len..)?)
}

/// The option that says nothing, and that which ends the list (RFC 9293 §3.2).
const NO_OPERATION: u8 = 1;
const END_OF_OPTIONS: u8 = 0;

/// End of the options of a TCP header that are there as a whole.
fn whole_options(header: &[u8]) -> usize {
    let mut at = 20.min(header.len());
    while let Some(kind) = header.get(at) {
        let len = match *kind {
            END_OF_OPTIONS => return header.len(),
            NO_OPERATION => 1,
            _ => header.get(at + 1).map_or(usize::MAX, |len| usize::from(*len).max(2)),
        };
        if len > header.len() - at {
            return at;
        }
        at += len;
    }
    at
}

/// Reads a TCP header behind a plain IPv6 header, without options of which not all was captured.
fn with_header(ip: &Ip, header: &[u8]) -> Option<Packet> {
    const PLAIN: usize = 40;
    let header = Some(header).filter(|b| b.len() >= 20)?;
    let transport_len = ip.total_len.checked_sub(ip.header_len)?;
    let mut plain = [0; PLAIN + 60];
    plain[0] = 0x60;
    plain[4..6].copy_from_slice(&(transport_len.min(0xffff) as u16).to_be_bytes());
    plain[6] = protocol::TCP;
    let kept = header.len().min(60);
    plain[PLAIN..PLAIN + kept].copy_from_slice(&header[..kept]);
    plain[PLAIN + whole_options(&header[..kept])..].fill(NO_OPERATION);
    let Transport::Tcp(mut tcp) = wire::parse_prefix(&plain).ok()?.transport else { return None };
    tcp.offset = ip.header_len;
    tcp.payload_offset = ip.header_len + tcp.header_len;
    tcp.payload_len = transport_len.checked_sub(tcp.header_len)?;
    Some(Packet { ip: Ip { is_fragment: false, ..*ip }, transport: Transport::Tcp(tcp) })
}
