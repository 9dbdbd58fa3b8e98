//! [`Headers`]: what QUIC packets say without keys.
//!
//! Form, version and connection IDs are the same in all versions (RFC 8999 §5). The types of long headers and the
//! lengths behind the connection IDs are those of versions 1 (RFC 9000 §17.2) and 2 (RFC 9369 §3.2). Anything may be
//! cut off where the capture ends; what is not there is not known, and what cannot be is no QUIC.

/// Longest connection ID of versions 1 and 2, bytes (RFC 9000 §17.2).
pub(crate) const ID_MAX: usize = 20;
/// Least that an Initial, 0-RTT or Handshake packet has behind its length field, bytes: what header protection samples
/// (RFC 9001 §5.4.2).
const PROTECTED_MIN: u64 = 20;
/// Behind an Initial packet's token this is not captured, or the packet ends the datagram.
const PACKETS_MAX: usize = 16;

const VERSION_1: u32 = 1;
const VERSION_2: u32 = 0x6b33_43cf;
/// Drafts of version 1 whose long headers are those of version 1.
const DRAFTS: std::ops::RangeInclusive<u32> = 0xff00_0017..=0xff00_0022;

/// A connection ID of up to 20 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId {
    len: u8,
    bytes: [u8; ID_MAX],
}

impl ConnectionId {
    /// These bytes; none if there are more than 20.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { len: u8::try_from(bytes.len()).ok()?, bytes: [0; ID_MAX] };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    /// Length in bytes, 0 to 20.
    pub(crate) fn len(self) -> usize {
        usize::from(self.len)
    }
}

/// Kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    VersionNegotiation,
    /// A long header of a version that is not known.
    OtherLong,
    /// 1-RTT.
    Short {
        spin: bool,
    },
}

/// The header of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// None of short headers, and where the capture ends before it.
    pub(crate) version: Option<u32>,
    /// Destination connection ID; none of short headers, where not all of it was captured, and where it is longer than
    /// 20 bytes.
    pub(crate) destination: Option<ConnectionId>,
    /// Source connection ID; as above.
    pub(crate) source: Option<ConnectionId>,
    /// Bytes of the packet with its header; none if it ends with the datagram, or that is not captured.
    len: Option<usize>,
}

/// True of versions whose long headers are read beyond the connection IDs.
pub(crate) fn is_known(version: u32) -> bool {
    matches!(version, VERSION_1 | VERSION_2) || DRAFTS.contains(&version)
}

/// The packets of a datagram (RFC 9000 §12.2), as far as they were captured.
#[derive(Clone, Debug)]
pub(crate) struct Headers<'a> {
    captured: &'a [u8],
    /// Bytes on the wire of which `captured` is the beginning.
    wire_len: usize,
    first: Option<Header>,
    left: usize,
}

impl<'a> Headers<'a> {
    /// Of a datagram with `wire_len` bytes of payload, of which these were captured.
    pub(crate) fn new(captured: &'a [u8], wire_len: usize) -> Self {
        let captured = captured.get(..wire_len).unwrap_or(captured);
        Self { captured, wire_len, first: None, left: PACKETS_MAX }
    }
}

impl Iterator for Headers<'_> {
    type Item = Header;

    fn next(&mut self) -> Option<Header> {
        self.left = self.left.checked_sub(1)?;
        let header = parse(self.captured, self.wire_len)?;
        // All packets of a datagram are for the same connection ID; others, and padding behind them, do not count
        // (RFC 9000 §12.2). A short header does not say how long its ID is.
        if let Some(first) = self.first
            && (!matches!(header.kind, Kind::Short { .. }) && header.destination != first.destination)
        {
            self.left = 0;
            return None;
        }
        self.first = self.first.or(Some(header));
        match header.len {
            Some(len) => {
                self.captured = self.captured.get(len..).unwrap_or_default();
                self.wire_len = self.wire_len.saturating_sub(len);
            }
            None => self.left = 0,
        }
        Some(header)
    }
}

/// Reads from the front of what was captured.
struct Bytes<'a> {
    left: &'a [u8],
    /// Bytes on the wire that were read, captured or not.
    read: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(len)?;
        self.left = left;
        self.read += len;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A variable-length integer (RFC 9000 §16).
    fn integer(&mut self) -> Option<u64> {
        let first = self.byte()?;
        let rest = self.take((1 << (first >> 6)) - 1)?;
        Some(rest.iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte)))
    }

    /// A connection ID behind its length; where `is_limited`, one that is too long is an error.
    fn id(&mut self, is_limited: bool) -> Result<Option<ConnectionId>, Cut> {
        let len = usize::from(self.byte().ok_or(Cut::Captured)?);
        if is_limited && len > ID_MAX {
            return Err(Cut::Nonsense);
        }
        let bytes = self.take(len).ok_or(Cut::Captured)?;
        Ok(ConnectionId::new(bytes))
    }
}

/// Reason why a header is not read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// No more of it was captured.
    Captured,
    /// It cannot be QUIC.
    Nonsense,
}

/// The packet at the front; none if there is none, or it cannot be one.
fn parse(captured: &[u8], wire_len: usize) -> Option<Header> {
    let first = *captured.first()?;
    if first & 0x80 == 0 {
        // Padding behind a long header is no packet, and versions 1 and 2 set the second bit (RFC 9000 §17.3.1).
        // Who has agreed to grease it (RFC 9287) is not recognized half of the time.
        let kind = Kind::Short { spin: first & 0x20 != 0 };
        return (first & 0x40 != 0).then_some(Header {
            kind,
            version: None,
            destination: None,
            source: None,
            len: None,
        });
    }
    let mut header =
        Header { kind: Kind::OtherLong, version: None, destination: None, source: None, len: None };
    let mut bytes = Bytes { left: captured.get(1..)?, read: 1 };
    match parse_long(first, &mut bytes, wire_len, &mut header) {
        // What lies within the datagram and was not captured may be anything; beyond its end there is nothing.
        Err(Cut::Captured) if captured.len() >= wire_len => None,
        Err(Cut::Nonsense) => None,
        Err(Cut::Captured) | Ok(()) => Some(header),
    }
}

fn parse_long(first: u8, bytes: &mut Bytes<'_>, wire_len: usize, header: &mut Header) -> Result<(), Cut> {
    let version = bytes.take(4).ok_or(Cut::Captured)?;
    let version = version.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
    header.version = Some(version);
    header.kind = kind(first, version);
    let is_limited = is_known(version);
    header.destination = bytes.id(is_limited)?;
    header.source = bytes.id(is_limited)?;
    let left_on_wire = |bytes: &Bytes<'_>| wire_len.checked_sub(bytes.read).ok_or(Cut::Nonsense);
    match header.kind {
        // The versions that the server has, four bytes each (RFC 8999 §6).
        Kind::VersionNegotiation => match left_on_wire(bytes)? {
            0 => Err(Cut::Nonsense),
            left if left % 4 != 0 => Err(Cut::Nonsense),
            _ => Ok(()),
        },
        // A token, and an integrity tag of 16 bytes (RFC 9000 §17.2.5).
        Kind::Retry => (left_on_wire(bytes)? > 16).then_some(()).ok_or(Cut::Nonsense),
        Kind::Initial => {
            let token = bytes.integer().ok_or(Cut::Captured)?;
            let token = usize::try_from(token).map_err(|_| Cut::Nonsense)?;
            if token > left_on_wire(bytes)? {
                return Err(Cut::Nonsense);
            }
            bytes.take(token).ok_or(Cut::Captured)?;
            protected(bytes, wire_len, header)
        }
        Kind::ZeroRtt | Kind::Handshake => protected(bytes, wire_len, header),
        Kind::OtherLong | Kind::Short { .. } => Ok(()),
    }
}

/// The length field, and what it counts.
fn protected(bytes: &mut Bytes<'_>, wire_len: usize, header: &mut Header) -> Result<(), Cut> {
    let len = bytes.integer().ok_or(Cut::Captured)?;
    let left = wire_len.checked_sub(bytes.read).ok_or(Cut::Nonsense)?;
    let len = usize::try_from(len).ok().filter(|&len| len as u64 >= PROTECTED_MIN && len <= left);
    header.len = Some(bytes.read + len.ok_or(Cut::Nonsense)?);
    Ok(())
}

/// The type of a long header.
fn kind(first: u8, version: u32) -> Kind {
    if version == 0 {
        return Kind::VersionNegotiation;
    }
    if !is_known(version) {
        return Kind::OtherLong;
    }
    // Version 2 counts them from one further on.
    let number = (first >> 4 & 3).wrapping_sub(u8::from(version == VERSION_2)) & 3;
    match number {
        0 => Kind::Initial,
        1 => Kind::ZeroRtt,
        2 => Kind::Handshake,
        _ => Kind::Retry,
    }
}

/// The name of a version: "1", "2", "draft 29"; none of others.
pub(crate) fn version_name(version: u32) -> Option<String> {
    match version {
        VERSION_1 => Some("1".to_owned()),
        VERSION_2 => Some("2".to_owned()),
        _ if DRAFTS.contains(&version) => Some(format!("draft {}", version & 0xff)),
        // Names of versions that nobody has, to exercise negotiation (RFC 9000 §15).
        _ if version & 0x0f0f_0f0f == 0x0a0a_0a0a => Some("reserved".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn long(first: u8, version: u32, ids: [&[u8]; 2], rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        bytes.extend(version.to_be_bytes());
        for id in ids {
            bytes.push(id.len() as u8);
            bytes.extend(id);
        }
        bytes.extend(rest);
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<Header> {
        Headers::new(bytes, bytes.len()).collect()
    }

    fn kinds(bytes: &[u8]) -> Vec<Kind> {
        read(bytes).iter().map(|header| header.kind).collect()
    }

    #[test]
    fn types_are_those_of_their_version() {
        // Length 20 in two bytes.
        let rest = [&[0x40, 20][..], &[0; 20]].concat();
        let with_token = [&[0][..], &rest].concat();
        let of = |first: u8, version: u32, rest: &[u8]| kinds(&long(first, version, [&[1; 8], &[]], rest));
        for version in [VERSION_1, 0xff00_001d] {
            assert_eq!(of(0xc0, version, &with_token), [Kind::Initial]);
            assert_eq!(of(0xd0, version, &rest), [Kind::ZeroRtt]);
            assert_eq!(of(0xe0, version, &rest), [Kind::Handshake]);
            assert_eq!(of(0xf0, version, &[7; 17]), [Kind::Retry]);
        }
        assert_eq!(of(0xd0, VERSION_2, &with_token), [Kind::Initial]);
        assert_eq!(of(0xe0, VERSION_2, &rest), [Kind::ZeroRtt]);
        assert_eq!(of(0xf0, VERSION_2, &rest), [Kind::Handshake]);
        assert_eq!(of(0xc0, VERSION_2, &[7; 17]), [Kind::Retry]);
        assert_eq!(of(0xf0, VERSION_1, &[7; 16]), [], "no room for a token");
        assert_eq!(of(0x80, 0, &[0, 0, 0, 1, 0x6b, 0x33, 0x43, 0xcf]), [Kind::VersionNegotiation]);
        assert_eq!(of(0x80, 0, &[0, 0, 0]), [], "versions have four bytes");
        assert_eq!(of(0xc0, 0x1a2a_3a4a, &[1, 2, 3]), [Kind::OtherLong]);
        assert_eq!(kinds(&[0x40]), [Kind::Short { spin: false }]);
        assert_eq!(kinds(&[0x7f]), [Kind::Short { spin: true }]);
        assert_eq!(kinds(&[0x3f, 1, 2]), [], "no fixed bit");
        let names = [VERSION_1, VERSION_2, 0xff00_001d, 0x1a2a_3a4a, 0x5130_3530].map(version_name);
        assert_eq!(names.map(|n| n.unwrap_or_default()), ["1", "2", "draft 29", "reserved", ""]);
    }

    #[test]
    fn packets_of_one_datagram_are_told_apart() {
        let protected = |first, id: &[u8], len: usize| {
            let mut rest = if first & 0x30 == 0 { vec![0] } else { vec![] };
            rest.extend((0x4000 | len as u16).to_be_bytes());
            rest.extend(vec![0x55; len]);
            long(first, VERSION_1, [id, &[9; 8]], &rest)
        };
        let initial = protected(0xc0, &[1; 8], 100);
        let handshake = protected(0xe0, &[1; 8], 700);
        let short = [&[0x61][..], &[1; 30]].concat();
        let whole = [&initial[..], &handshake, &short].concat();
        assert_eq!(kinds(&whole), [Kind::Initial, Kind::Handshake, Kind::Short { spin: true }]);
        let padded = [&initial[..], &[0; 900]].concat();
        assert_eq!(kinds(&padded), [Kind::Initial], "zeros behind it are no packet");
        let other = [&initial[..], &protected(0xe0, &[2; 8], 50)].concat();
        assert_eq!(kinds(&other), [Kind::Initial], "another connection's packet does not count");
        let beyond = &whole[..initial.len() - 1];
        assert_eq!(kinds(beyond), [], "its length reaches beyond the datagram");
    }

    #[test]
    fn what_was_not_captured_is_not_known() {
        let rest = [&[0, 0x44, 0x00][..], &[0; 1_024]].concat();
        let whole = long(0xc0, VERSION_1, [&[1; 8], &[2; 8]], &rest);
        let cut = |len: usize| Headers::new(&whole[..len], whole.len()).collect::<Vec<_>>();
        assert_eq!(cut(0), []);
        assert_eq!((cut(1)[0].kind, cut(1)[0].version), (Kind::OtherLong, None));
        // 22 bytes are what is left of 64 behind Ethernet, IPv4 and UDP.
        let [header] = cut(22)[..] else { panic!() };
        assert_eq!((header.kind, header.version), (Kind::Initial, Some(1)));
        assert_eq!((header.destination, header.source), (ConnectionId::new(&[1; 8]), None));
        let [header] = cut(26)[..] else { panic!() };
        assert_eq!(header.source, ConnectionId::new(&[2; 8]));
        // Fewer bytes on the wire than the headers need is another thing.
        assert_eq!(Headers::new(&whole[..22], 22).count(), 0);
    }

    #[test]
    fn connection_ids_are_no_longer_than_they_may_be() {
        let rest = [&[0x40, 20][..], &[0; 20]].concat();
        let of = |version, len: usize| read(&long(0xe0, version, [&vec![3; len], &[]], &rest));
        assert_eq!(of(VERSION_1, 20)[0].destination.unwrap().len(), 20);
        assert_eq!(of(VERSION_1, 21), []);
        // Another version may have up to 255 (RFC 8999 §5.1): it is a packet, whose ID is not kept.
        assert_eq!(of(0x5130_3530, 255)[0].destination, None);
        assert_eq!(of(0x5130_3530, 255)[0].kind, Kind::OtherLong);
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200), first: u8, wire_len in 0_usize..3_000, version in 0_usize..5) {
            let version = [0, VERSION_1, VERSION_2, 0x1a2a_3a4a, 0xff00_001d][version];
            let whole = [&[first][..], &u32::to_be_bytes(version), &bytes].concat();
            for bytes in [&bytes, &whole] {
                let found: Vec<Header> = Headers::new(bytes, wire_len).collect();
                prop_assert!(found.len() <= PACKETS_MAX && found.len() <= bytes.len());
                for header in found {
                    prop_assert!(header.len.is_none_or(|len| len <= wire_len && len > 7));
                    prop_assert!(header.version.is_none() || first_bits(bytes) || header.len.is_some() || bytes.len() >= 5);
                }
            }
        }
    }

    fn first_bits(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|first| first & 0x80 != 0)
    }
}
