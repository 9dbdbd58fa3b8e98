//! The pcap format: one file header, then records.
//!
//! Source: draft-ietf-opsawg-pcap; for the old variants, how libpcap reads them.

use units::Instant;

use crate::link::LinkType;
use crate::octets::Endian;

pub(crate) const FILE_HEADER_LEN: usize = 24;

/// No packet is longer; a longer record means that the file is broken or not a capture.
pub(crate) const RECORD_MAX: usize = 16 << 20;

/// Order of the two length fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    /// Captured, then on the wire.
    Current,
    /// On the wire, then captured: before version 2.3, and in version 543.0.
    Swapped,
    /// Version 2.3: by either writer.
    Either,
}

/// Content of the file header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pcap {
    pub(crate) endian: Endian,
    /// Nanoseconds per unit of the fraction of a second.
    pub(crate) fraction_ns: u32,
    pub(crate) link: LinkType,
    pub(crate) record_header_len: usize,
    lengths: Lengths,
}

/// One record's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PcapRecord {
    pub(crate) time: Instant,
    pub(crate) captured: usize,
    pub(crate) wire: u32,
}

impl Pcap {
    /// Reads the file header; none if these are not its first bytes.
    pub(crate) fn parse(header: &[u8; FILE_HEADER_LEN]) -> Option<Self> {
        let (endian, fraction_ns, record_header_len) = match header {
            [0xa1, 0xb2, 0xc3, 0xd4, ..] => (Endian::Big, 1_000, 16),
            [0xd4, 0xc3, 0xb2, 0xa1, ..] => (Endian::Little, 1_000, 16),
            [0xa1, 0xb2, 0x3c, 0x4d, ..] => (Endian::Big, 1, 16),
            [0x4d, 0x3c, 0xb2, 0xa1, ..] => (Endian::Little, 1, 16),
            // "Modified" by a patch of 1999: interface index, protocol and packet type in each record.
            [0xa1, 0xb2, 0xcd, 0x34, ..] => (Endian::Big, 1_000, 24),
            [0x34, 0xcd, 0xb2, 0xa1, ..] => (Endian::Little, 1_000, 24),
            _ => return None,
        };
        let lengths = match (endian.u16_at(header, 4), endian.u16_at(header, 6)) {
            (2, 0..=2) | (543, 0) => Lengths::Swapped,
            (2, 3) => Lengths::Either,
            _ => Lengths::Current,
        };
        // The upper bits tell of a frame check sequence at the end of frames, which no header needs.
        let link = LinkType((endian.u32_at(header, 20) & 0xffff) as u16);
        Some(Self { endian, fraction_ns, link, record_header_len, lengths })
    }

    /// Reads a record's header, which starts at `bytes`.
    #[inline]
    pub(crate) fn record(&self, bytes: &[u8]) -> PcapRecord {
        let seconds = u64::from(self.endian.u32_at(bytes, 0));
        let fraction = u64::from(self.endian.u32_at(bytes, 4)) * u64::from(self.fraction_ns);
        let (first, second) = (self.endian.u32_at(bytes, 8), self.endian.u32_at(bytes, 12));
        let (captured, wire) = match self.lengths {
            Lengths::Current => (first, second),
            Lengths::Swapped => (second, first),
            Lengths::Either => (first.min(second), first.max(second)),
        };
        PcapRecord {
            time: Instant::from_nanos(seconds * 1_000_000_000 + fraction),
            captured: captured as usize,
            wire,
        }
    }
}
