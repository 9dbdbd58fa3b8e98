//! [`Tcp`]: the view of a TCP segment.

use core::fmt;
use core::ops::{BitAnd, BitOr, BitOrAssign, Not};

use units::SeqNum;

use crate::ip::Ip;
use crate::octets::{u16_at, u32_at};
use crate::options::{TCP_HEADER_LEN, TcpOptions};

/// Offset of the checksum field in the TCP header, bytes.
pub(crate) const TCP_CHECKSUM_AT: usize = 16;

/// The nine flags of a TCP header (RFC 9293 §3.1; AE: RFC 9768).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset the connection.
    pub const RST: Self = Self(0x004);
    /// Push.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgement field counts.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x020);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN, formerly NS (RFC 9768).
    pub const AE: Self = Self(0x100);

    /// Flags from the low nine bits of `bits`, as they lie in bytes 12 and 13 of the header.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }
    /// The flags as bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }
    /// True when all of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// True when any of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    /// These flags and `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// These flags without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// True when none is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for TcpFlags {
    type Output = Self;
    fn bitor(self, rhs: Self) -> Self {
        self.with(rhs)
    }
}
impl BitOrAssign for TcpFlags {
    fn bitor_assign(&mut self, rhs: Self) {
        *self = self.with(rhs);
    }
}
impl BitAnd for TcpFlags {
    type Output = Self;
    fn bitand(self, rhs: Self) -> Self {
        Self(self.0 & rhs.0)
    }
}
impl Not for TcpFlags {
    type Output = Self;
    fn not(self) -> Self {
        Self::from_bits(!self.0)
    }
}
impl fmt::Display for TcpFlags {
    /// Prints the flags as tcpdump does: `S.`, `P.`, `F.`, `R`, with `none` for no flag.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (flag, letter) in [
            (Self::FIN, "F"),
            (Self::SYN, "S"),
            (Self::RST, "R"),
            (Self::PSH, "P"),
            (Self::ACK, "."),
            (Self::URG, "U"),
            (Self::ECE, "E"),
            (Self::CWR, "W"),
            (Self::AE, "e"),
        ] {
            if self.contains(flag) {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}
impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Facts of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first byte (or of the SYN).
    pub seq: SeqNum,
    /// Acknowledgement number; counts only with [`TcpFlags::ACK`].
    pub ack: SeqNum,
    /// Flags.
    pub flags: TcpFlags,
    /// Window field, not scaled.
    pub window: u16,
    /// Checksum field.
    pub checksum: u16,
    /// Urgent pointer; counts only with [`TcpFlags::URG`].
    pub urgent: u16,
    /// Offset of the TCP header in the packet, bytes.
    pub offset: usize,
    /// Length of the TCP header with options, bytes.
    pub header_len: usize,
    /// Offset of the payload in the packet, bytes.
    pub payload_offset: usize,
    /// Length of the payload, bytes.
    pub payload_len: usize,
    /// Options.
    pub options: TcpOptions,
}

impl Tcp {
    /// Reads the TCP header; none if it does not fit the packet.
    #[inline]
    pub(crate) fn parse(packet: &[u8], ip: &Ip) -> Option<Self> {
        let offset = ip.header_len;
        let rest = packet.get(offset..ip.total_len.min(packet.len()))?;
        let h = rest.first_chunk::<TCP_HEADER_LEN>()?;
        let header_len = usize::from(h[12] >> 4) * 4;
        // A header shorter than the fixed part makes this range, and so the view, invalid.
        let options = rest.get(TCP_HEADER_LEN..header_len)?;
        Some(Self {
            src_port: u16_at(h, 0),
            dst_port: u16_at(h, 2),
            seq: SeqNum::new(u32_at(h, 4)),
            ack: SeqNum::new(u32_at(h, 8)),
            flags: TcpFlags::from_bits(u16_at(h, 12)),
            window: u16_at(h, 14),
            checksum: u16_at(h, TCP_CHECKSUM_AT),
            urgent: u16_at(h, 18),
            offset,
            header_len,
            payload_offset: offset + header_len,
            payload_len: ip.total_len - offset - header_len,
            options: TcpOptions::parse(options),
        })
    }

    /// The payload; empty when `packet` is not the packet this was read from and too short.
    #[inline]
    #[must_use]
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        let rest = packet.get(self.payload_offset..).unwrap_or_default();
        &rest[..self.payload_len.min(rest.len())]
    }

    /// Length in sequence space: payload bytes, plus one each for SYN and FIN (RFC 9293 §3.4).
    #[inline]
    #[must_use]
    pub const fn segment_len(&self) -> u32 {
        self.payload_len as u32
            + self.flags.contains(TcpFlags::SYN) as u32
            + self.flags.contains(TcpFlags::FIN) as u32
    }

    /// The sequence number after this segment.
    #[inline]
    #[must_use]
    pub fn seq_end(&self) -> SeqNum {
        self.seq + self.segment_len()
    }
}
