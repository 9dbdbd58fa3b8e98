//! [`SegmentRecord`]: a segment as the analysis takes it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use capture::{LinkType, Segment};
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hash, Hasher};
use units::{Instant, SeqNum, WindowScale};
use wire::{IpVersion, SackBlock, TcpFlags};

/// Two ends in a fixed order, packed: this is what a packet looks for among all flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    low: [u64; 2],
    high: [u64; 2],
    ports: u32,
    point: u16,
    /// Number of the capture that it was read from. Not a part of the key: it takes room that would be empty.
    capture: u16,
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        (self.low, self.high, self.ports, self.point) == (other.low, other.high, other.ports, other.point)
    }
}
impl Eq for Key {}
impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.low.hash(state);
        self.high.hash(state);
        self.ports.hash(state);
        self.point.hash(state);
    }
}

/// One segment as it passed the capture point: of its headers what the analysis needs, in 128 bytes.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRecord {
    pub(crate) key: Key,
    pub(crate) time: Instant,
    /// Number of the segment, in the order of the capture.
    pub(crate) number: u64,
    /// Of the key.
    pub(crate) hash: u32,
    pub(crate) seq: SeqNum,
    pub(crate) ack: SeqNum,
    /// Timestamp value and echo; meaningless without [`Facts::STAMPS`].
    stamps: (u32, u32),
    /// Payload, bytes.
    len: u32,
    /// IP and TCP headers, bytes.
    headers_len: u16,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
    /// IPv4 identification.
    pub(crate) id: u16,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    /// Place at which it was seen: of interface, link header, tunnel and hop limit.
    pub(crate) place: u16,
    facts: Facts,
    /// Offered in a SYN; meaningless without [`Facts::MSS`].
    mss: u16,
    /// As many as [`Facts`] says.
    sack: [SackBlock; 4],
}

/// Yes or no about a segment, and two small numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts(u16);

impl Facts {
    /// The sender is the lower end of the key.
    const FROM_LOW: u16 = 1;
    const V4: u16 = 1 << 1;
    const TUNNELLED: u16 = 1 << 2;
    const CUT_BY_TOOL: u16 = 1 << 3;
    const STAMPS: u16 = 1 << 4;
    const SCALE: u16 = 1 << 5;
    const MSS: u16 = 1 << 6;
    const SACK_PERMITTED: u16 = 1 << 7;
    const MPTCP: u16 = 1 << 8;
    /// Bit at which the number of SACK blocks starts: three bits.
    const SACK_AT: u32 = 9;
    /// Bit at which the shift of windows starts that a SYN offers, meaningless without [`Facts::SCALE`]: four bits.
    const SHIFT_AT: u32 = 12;

    const fn has(self, fact: u16) -> bool {
        self.0 & fact != 0
    }
    const fn sack_blocks(self) -> usize {
        (self.0 >> Self::SACK_AT & 0b111) as usize
    }
    const fn shift(self) -> u8 {
        (self.0 >> Self::SHIFT_AT) as u8
    }
}

/// Fixed, so that the same packets take the same ways everywhere.
const HASHER: FixedState = FixedState::with_seed(0);

impl SegmentRecord {
    /// The segment with this number, captured at `time` at capture point `point`.
    // Where it is called it becomes a part of what it is put into, and is not copied.
    #[inline(always)]
    #[must_use]
    pub fn of(number: u64, point: u16, segment: &Segment, time: Instant) -> Self {
        let (ip, tcp) = (&segment.ip, &segment.tcp);
        let (key, is_from_low) = Key::of(point, segment);
        let options = &tcp.options;
        let fact = |is_so: bool, fact: u16| if is_so { fact } else { 0 };
        let facts = fact(is_from_low, Facts::FROM_LOW)
            | fact(ip.version == IpVersion::V4, Facts::V4)
            | fact(segment.is_tunnelled, Facts::TUNNELLED)
            | fact(segment.is_cut_by_tool, Facts::CUT_BY_TOOL)
            | fact(options.timestamps.is_some(), Facts::STAMPS)
            | fact(options.window_scale.is_some(), Facts::SCALE)
            | fact(options.mss.is_some(), Facts::MSS)
            | fact(options.sack_permitted, Facts::SACK_PERMITTED)
            | fact(options.mptcp, Facts::MPTCP)
            | (options.sack.len() as u16) << Facts::SACK_AT
            | u16::from(options.window_scale.map_or(0, WindowScale::shift)) << Facts::SHIFT_AT;
        Self {
            key,
            time,
            number,
            hash: key.short_hash(),
            seq: tcp.seq,
            ack: tcp.ack,
            stamps: options.timestamps.map_or((0, 0), |stamps| (stamps.value, stamps.echo)),
            len: tcp.payload_len as u32,
            headers_len: ip.total_len.saturating_sub(tcp.payload_len) as u16,
            flags: tcp.flags,
            window: tcp.window,
            id: ip.id,
            hop_limit: ip.hop_limit,
            traffic_class: ip.traffic_class,
            place: place(&[u64::from(ip.hop_limit), segment.ip_at as u64]),
            facts: Facts(facts),
            mss: options.mss.unwrap_or(0),
            sack: *options.sack.as_array(),
        }
    }

    /// The same, seen on an interface of the capture in this frame, whose link header is of type `link`: what
    /// tells copies of one packet apart.
    #[inline]
    #[must_use]
    pub fn seen_on(mut self, interface: u32, link: LinkType, frame: &[u8]) -> Self {
        // Link headers that are the same for all packets of a flow in one direction at one place.
        let [first, second, third] = match link {
            LinkType::ETHERNET => ethernet_words(frame),
            LinkType::LINUX_SLL => frame.first_chunk().map_or([0; 3], |header: &[u8; 16]| words(header)),
            LinkType::LINUX_SLL2 => frame.first_chunk().map_or([0; 3], |header: &[u8; 20]| words(header)),
            _ => [0; 3],
        };
        self.place = place(&[u64::from(self.place), u64::from(interface), first, second, third]);
        self
    }

    /// The same, read from the capture of this number.
    #[inline]
    #[must_use]
    pub fn read_from(mut self, capture: u16) -> Self {
        self.key.capture = capture;
        self
    }

    /// Its timestamp option as one number; zero without.
    #[inline]
    pub(crate) fn stamps_word(&self) -> u64 {
        u64::from(self.stamps.0) << 32 | u64::from(self.stamps.1)
    }

    /// Payload, bytes.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.len)
    }
    /// All of the IP packet, bytes.
    #[inline]
    pub(crate) fn ip_len(&self) -> u64 {
        u64::from(self.len) + u64::from(self.headers_len)
    }
    /// Its SACK blocks.
    #[inline]
    pub(crate) fn sack(&self) -> &[SackBlock] {
        self.sack.get(..self.facts.sack_blocks()).unwrap_or_default()
    }
    /// Length in sequence space is not zero.
    #[inline]
    pub(crate) fn takes_sequence_space(&self) -> bool {
        self.len > 0 || self.flags.intersects(TcpFlags::SYN | TcpFlags::FIN)
    }
    /// Timestamp value.
    #[inline]
    pub(crate) fn stamp(&self) -> Option<u32> {
        self.facts.has(Facts::STAMPS).then_some(self.stamps.0)
    }
    /// Timestamp echo.
    #[inline]
    pub(crate) fn echo(&self) -> Option<u32> {
        self.facts.has(Facts::STAMPS).then_some(self.stamps.1)
    }
    pub(crate) fn mss(&self) -> Option<u16> {
        self.facts.has(Facts::MSS).then_some(self.mss)
    }
    pub(crate) fn scale(&self) -> Option<WindowScale> {
        self.facts.has(Facts::SCALE).then_some(WindowScale::new(self.facts.shift()))
    }
    pub(crate) fn is_sack_permitted(&self) -> bool {
        self.facts.has(Facts::SACK_PERMITTED)
    }
    #[inline]
    pub(crate) fn is_from_low(&self) -> bool {
        self.facts.has(Facts::FROM_LOW)
    }
    #[inline]
    pub(crate) fn is_v4(&self) -> bool {
        self.facts.has(Facts::V4)
    }
    #[inline]
    pub(crate) fn is_tunnelled(&self) -> bool {
        self.facts.has(Facts::TUNNELLED)
    }
    #[inline]
    pub(crate) fn is_cut_by_tool(&self) -> bool {
        self.facts.has(Facts::CUT_BY_TOOL)
    }
    #[inline]
    pub(crate) fn is_mptcp(&self) -> bool {
        self.facts.has(Facts::MPTCP)
    }
    /// The ECN field.
    #[inline]
    pub(crate) fn ecn(&self) -> u8 {
        self.traffic_class & 3
    }
}

impl Key {
    /// The key of a segment's ends, and whether the sender is the lower.
    #[inline]
    fn of(point: u16, segment: &Segment) -> (Self, bool) {
        let source = (bits(segment.ip.src), segment.tcp.src_port);
        let destination = (bits(segment.ip.dst), segment.tcp.dst_port);
        // Number by number: the order of arrays is a call.
        let in_order = |([high, low], port): ([u64; 2], u16)| (high, low, port);
        let is_from_low = in_order(source) <= in_order(destination);
        let (low, high) = if is_from_low { (source, destination) } else { (destination, source) };
        let ports = (u32::from(low.1) << 16) | u32::from(high.1);
        (Self { low: low.0, high: high.0, ports, point, capture: 0 }, is_from_low)
    }

    /// The same everywhere and always.
    #[inline]
    pub(crate) fn short_hash(&self) -> u32 {
        HASHER.hash_one(self) as u32
    }

    /// The capture point.
    pub(crate) fn point(&self) -> u16 {
        self.point
    }

    /// Number of the capture that it was read from.
    pub(crate) fn capture(&self) -> u16 {
        self.capture
    }

    /// The lower and the higher end.
    pub(crate) fn ends(&self, is_v4: bool) -> [SocketAddr; 2] {
        let end = |bits, port| SocketAddr::new(address(bits, is_v4), port);
        [end(self.low, (self.ports >> 16) as u16), end(self.high, self.ports as u16)]
    }
}

/// A header of 16 to 24 bytes as numbers; what it has not is zero.
#[inline]
fn words<const N: usize>(header: &[u8; N]) -> [u64; 3] {
    let mut whole = [0; 24];
    whole[..N].copy_from_slice(header);
    let word =
        |at: usize| whole.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |b| u64::from_le_bytes(*b));
    // Not `map` of an array: it is not inlined, and this is for every packet.
    [word(0), word(8), word(16)]
}

/// Addresses, type and tag of an Ethernet header as numbers; what follows the type belongs to the packet if there
/// is no tag.
#[inline]
fn ethernet_words(frame: &[u8]) -> [u64; 3] {
    let Some(header) = frame.first_chunk::<18>() else { return [0; 3] };
    let [first, second, third] = words(header);
    match header[12..14] {
        [0x81, 0x00] | [0x88, 0xa8] => [first, second, third],
        _ => [first, second & 0xffff_ffff_ffff, 0],
    }
}

/// Few bits of what names a place.
#[inline]
fn place(parts: &[u64]) -> u16 {
    let sum = parts
        .iter()
        .fold(0_u64, |sum, part| (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    (sum >> 48) as u16
}

/// An address as IPv6, IPv4 mapped into it.
#[inline]
fn bits(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(v4) => [0, (0xffff << 32) | u64::from(v4.to_bits())],
        IpAddr::V6(v6) => [(v6.to_bits() >> 64) as u64, v6.to_bits() as u64],
    }
}

fn address(bits: [u64; 2], is_v4: bool) -> IpAddr {
    match is_v4 {
        true => IpAddr::V4(Ipv4Addr::from_bits(bits[1] as u32)),
        false => IpAddr::V6(Ipv6Addr::from_bits((u128::from(bits[0]) << 64) | u128::from(bits[1]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_record_stays_small() {
        assert!(size_of::<SegmentRecord>() <= 128, "{}", size_of::<SegmentRecord>());
    }

    #[test]
    fn of_an_ethernet_header_addresses_type_and_tag_tell_where_a_packet_was_seen() {
        let mut frame: Vec<u8> = (1..=40).collect();
        for (kind, has_tag) in [([0x08, 0x00], false), ([0x81, 0x00], true), ([0x88, 0xa8], true)] {
            frame[12..14].copy_from_slice(&kind);
            let [first, second, third] = ethernet_words(&frame);
            assert_eq!(first.to_le_bytes(), frame[..8]);
            assert_eq!(second.to_le_bytes()[..6], frame[8..14]);
            let behind = [&second.to_le_bytes()[6..], &third.to_le_bytes()].concat();
            let tag = if has_tag { &frame[14..18] } else { &[0; 4] };
            assert_eq!(behind, [tag, &[0; 6]].concat(), "{kind:x?}");
        }
        assert_eq!(ethernet_words(&frame[..17]), [0; 3]);
        assert_eq!(
            words::<20>(frame.first_chunk().unwrap())[2],
            u64::from(u32::from_le_bytes([17, 18, 19, 20]))
        );
    }

    #[test]
    fn ends_survive_packing() {
        for (a, b, is_v4) in
            [("10.0.0.1:80", "10.0.0.2:9", true), ("[2001:db8::2]:1", "[2001:db8::1]:2", false)]
        {
            let [a, b]: [SocketAddr; 2] = [a.parse().unwrap(), b.parse().unwrap()];
            let (low, high) =
                if (bits(a.ip()), a.port()) <= (bits(b.ip()), b.port()) { (a, b) } else { (b, a) };
            let ports = (u32::from(low.port()) << 16) | u32::from(high.port());
            let key = Key { low: bits(low.ip()), high: bits(high.ip()), ports, point: 0, capture: 0 };
            assert_eq!(key.ends(is_v4), [low, high]);
        }
    }
}
