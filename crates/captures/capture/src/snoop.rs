//! The snoop format of Solaris: a header, then records; all numbers are big-endian.
//!
//! Source: RFC 1761.

use units::Instant;

use crate::link::LinkType;
use crate::octets::Endian;

/// "snoop" and three zeros.
pub(crate) const MAGIC: [u8; 8] = *b"snoop\0\0\0";
/// Magic, version and datalink type.
pub(crate) const SNOOP_HEADER_LEN: usize = 16;
pub(crate) const SNOOP_RECORD_HEADER_LEN: usize = 24;
/// The version of the RFC; later ones are of other programs, with other headers.
pub(crate) const VERSION: u32 = 2;

/// Content of the file header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snoop {
    pub(crate) version: u32,
    pub(crate) link: LinkType,
}

/// One record's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnoopRecord {
    pub(crate) time: Instant,
    pub(crate) wire: u32,
    pub(crate) captured: usize,
    /// The whole record, with header and padding.
    pub(crate) total: usize,
    /// Packets that the capturing machine has lost since it began.
    pub(crate) dropped: u64,
}

impl Snoop {
    /// Reads the file header; none if these are not its first bytes.
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        let header = header.get(..SNOOP_HEADER_LEN).filter(|header| header.starts_with(&MAGIC))?;
        // Datalink types of RFC 1761 §4 as link types; what is not here has none that is read.
        let link = match Endian::Big.u32_at(header, 12) {
            // IEEE 802.3 and Ethernet.
            0 | 4 => LinkType::ETHERNET.0,
            // Token Ring.
            2 => 6,
            // FDDI.
            8 => 10,
            _ => u16::MAX,
        };
        Some(Self { version: Endian::Big.u32_at(header, 8), link: LinkType(link) })
    }
}

impl SnoopRecord {
    /// Reads the header of the record that starts at `bytes`.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let word = |number: usize| Endian::Big.u32_at(bytes, number * 4);
        let nanos = u64::from(word(4)) * 1_000_000_000 + u64::from(word(5)) * 1_000;
        Self {
            time: Instant::from_nanos(nanos),
            wire: word(0),
            captured: word(1) as usize,
            total: word(2) as usize,
            dropped: u64::from(word(3)),
        }
    }
}
