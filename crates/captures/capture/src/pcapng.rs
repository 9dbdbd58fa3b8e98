//! The pcapng format: sections of blocks.
//!
//! Source: draft-ietf-opsawg-pcapng.

use units::Instant;

use crate::link::LinkType;
use crate::octets::Endian;

pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Block types with packets, interfaces or statistics.
pub(crate) mod block {
    pub(crate) const INTERFACE: u32 = 1;
    pub(crate) const PACKET: u32 = 2;
    pub(crate) const SIMPLE_PACKET: u32 = 3;
    pub(crate) const INTERFACE_STATISTICS: u32 = 5;
    pub(crate) const ENHANCED_PACKET: u32 = 6;
}

/// Unit of an interface's time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// Nanoseconds per unit.
    Nanos(u64),
    /// Units per second.
    PerSecond(u128),
}

/// One interface of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interface {
    pub(crate) link: LinkType,
    pub(crate) snap_len: u32,
    resolution: Resolution,
    offset_s: i64,
    /// Packets that its last statistics say were dropped since the capture began.
    pub(crate) dropped: u64,
}

/// Place of a packet in its block's body, and the statements about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPacket {
    /// Interface in the section.
    pub(crate) interface: usize,
    /// Raw time stamp; none in a simple packet block.
    pub(crate) stamp: Option<u64>,
    pub(crate) wire: u32,
    /// Offset in the body.
    pub(crate) at: usize,
    pub(crate) captured: usize,
}

/// The byte order of a section, from the four bytes after its length.
pub(crate) fn byte_order(magic: &[u8]) -> Option<Endian> {
    [Endian::Big, Endian::Little].into_iter().find(|e| e.u32_at(magic, 0) == BYTE_ORDER_MAGIC)
}

impl Interface {
    pub(crate) fn parse(body: &[u8], endian: Endian) -> Self {
        let mut interface = Self {
            link: LinkType(endian.u16_at(body, 0)),
            snap_len: endian.u32_at(body, 4),
            resolution: Resolution::Nanos(1_000),
            offset_s: 0,
            dropped: 0,
        };
        for (code, value) in options(body.get(8..).unwrap_or_default(), endian) {
            match (code, value) {
                (9, &[resolution]) => interface.resolution = Resolution::parse(resolution),
                (14, offset) if offset.len() == 8 => interface.offset_s = endian.u64_at(offset, 0) as i64,
                _ => {}
            }
        }
        interface
    }

    /// The point in time a raw stamp means; times before 1970 are taken as 1970.
    #[inline]
    pub(crate) fn time(&self, stamp: u64) -> Instant {
        let ns = match self.resolution {
            Resolution::Nanos(unit) => stamp.saturating_mul(unit),
            Resolution::PerSecond(units) => {
                u64::try_from(u128::from(stamp) * 1_000_000_000 / units).unwrap_or(u64::MAX)
            }
        };
        let offset = self.offset_s.unsigned_abs().saturating_mul(1_000_000_000);
        Instant::from_nanos(match self.offset_s {
            0.. => ns.saturating_add(offset),
            _ => ns.saturating_sub(offset),
        })
    }
}

impl Resolution {
    /// `if_tsresol`: a negative power of ten, or with the top bit set of two.
    fn parse(value: u8) -> Self {
        let power = u32::from(value & 0x7f);
        if value & 0x80 != 0 {
            return Self::PerSecond(1 << power.min(100));
        }
        match power {
            0..=9 => Self::Nanos(10_u64.pow(9 - power)),
            _ => Self::PerSecond(10_u128.pow(power.min(30))),
        }
    }
}

/// Options: code, length, value, padding to four bytes; ends at the end option or at what does not fit.
pub(crate) fn options(mut bytes: &[u8], endian: Endian) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let code = endian.u16_at(bytes, 0);
        let len = usize::from(endian.u16_at(bytes, 2));
        let value = bytes.get(4..)?.get(..len)?;
        if code == 0 {
            return None;
        }
        bytes = bytes.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}

/// The packet in the body of a packet block; none if the block has none, or says more than it holds.
#[inline]
pub(crate) fn packet(kind: u32, body: &[u8], endian: Endian, snap_len: u32) -> Option<BlockPacket> {
    let stamp = (u64::from(endian.u32_at(body, 4)) << 32) | u64::from(endian.u32_at(body, 8));
    let found = match kind {
        block::ENHANCED_PACKET => BlockPacket {
            interface: endian.u32_at(body, 0) as usize,
            stamp: Some(stamp),
            wire: endian.u32_at(body, 16),
            at: 20,
            captured: endian.u32_at(body, 12) as usize,
        },
        block::PACKET => BlockPacket {
            interface: usize::from(endian.u16_at(body, 0)),
            stamp: Some(stamp),
            wire: endian.u32_at(body, 16),
            at: 20,
            captured: endian.u32_at(body, 12) as usize,
        },
        block::SIMPLE_PACKET => {
            let wire = endian.u32_at(body, 0);
            let limit = if snap_len == 0 { u32::MAX } else { snap_len };
            let held = body.len().saturating_sub(4);
            BlockPacket {
                interface: 0,
                stamp: None,
                wire,
                at: 4,
                captured: held.min(wire.min(limit) as usize),
            }
        }
        _ => return None,
    };
    (body.len() >= found.at && body.len() - found.at >= found.captured).then_some(found)
}
