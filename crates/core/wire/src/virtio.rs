//! [`VirtioNetHeader`]: the ten bytes in front of every packet of a TUN device with offloads.

use crate::BuildError;
use crate::checksum::{self, ChecksumState};
use crate::ip::IpVersion;
use crate::octets::put;
use crate::packet::Packet;
use crate::tcp::{TCP_CHECKSUM_AT, TcpFlags};
use crate::udp::UDP_CHECKSUM_AT;

/// Kind of super-packet (virtio 1.2 §5.1.6.2, Linux `virtio_net.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, stored::Stored)]
pub enum GsoType {
    /// An ordinary packet.
    #[default]
    None,
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP, each piece a datagram of its own.
    UdpL4,
}

/// `struct virtio_net_hdr`, in the machine's byte order as TUN uses it by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, stored::Stored)]
pub struct VirtioNetHeader {
    /// [`VirtioNetHeader::NEEDS_CSUM`] and [`VirtioNetHeader::DATA_VALID`].
    pub flags: u8,
    /// Kind of super-packet.
    pub gso_type: GsoType,
    /// `VIRTIO_NET_HDR_GSO_ECN`: CWR belongs on the first segment only.
    pub ecn: bool,
    /// Bytes of IP and TCP headers.
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// Offset at which the checksummed bytes start.
    pub csum_start: u16,
    /// Offset of the checksum field from `csum_start`.
    pub csum_offset: u16,
}

impl VirtioNetHeader {
    /// Length of the header, bytes.
    pub const LEN: usize = 10;
    /// The checksum field holds only the pseudo-header's sum.
    pub const NEEDS_CSUM: u8 = 1;
    /// The checksum was verified by the sender of this header.
    pub const DATA_VALID: u8 = 2;

    const GSO_ECN: u8 = 0x80;

    /// Reads a header from the first ten bytes.
    ///
    /// # Errors
    /// Fewer than ten bytes, or a kind of super-packet that was never asked for (UFO).
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, BuildError> {
        let h = bytes.first_chunk::<{ Self::LEN }>().ok_or(BuildError::BadVirtioHeader)?;
        let gso_type = match h[1] & !Self::GSO_ECN {
            0 => GsoType::None,
            1 => GsoType::TcpV4,
            4 => GsoType::TcpV6,
            5 => GsoType::UdpL4,
            _ => return Err(BuildError::BadVirtioHeader),
        };
        let word = |at: usize| u16::from_ne_bytes([h[at], h[at + 1]]);
        Ok(Self {
            flags: h[0],
            gso_type,
            ecn: h[1] & Self::GSO_ECN != 0,
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        })
    }

    /// The header's ten bytes.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let kind = match self.gso_type {
            GsoType::None => 0,
            GsoType::TcpV4 => 1,
            GsoType::TcpV6 => 4,
            GsoType::UdpL4 => 5,
        };
        let kind = if self.ecn { kind | Self::GSO_ECN } else { kind };
        let [l0, l1] = self.hdr_len.to_ne_bytes();
        let [g0, g1] = self.gso_size.to_ne_bytes();
        let [s0, s1] = self.csum_start.to_ne_bytes();
        let [o0, o1] = self.csum_offset.to_ne_bytes();
        [self.flags, kind, l0, l1, g0, g1, s0, s1, o0, o1]
    }

    /// Writes the header into the first ten bytes of `buf`; false when it is shorter.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> bool {
        put(buf, 0, &self.to_bytes())
    }

    /// State of the checksum field of the packet behind this header.
    #[inline]
    #[must_use]
    pub const fn checksum_state(&self) -> ChecksumState {
        if self.flags & Self::NEEDS_CSUM != 0 { ChecksumState::Partial } else { ChecksumState::Complete }
    }

    /// The header of a TCP packet with a partial checksum and no segmentation.
    #[inline]
    #[must_use]
    pub const fn for_partial_checksum(transport_offset: usize) -> Self {
        Self {
            flags: Self::NEEDS_CSUM,
            gso_type: GsoType::None,
            ecn: false,
            hdr_len: 0,
            gso_size: 0,
            csum_start: transport_offset as u16,
            csum_offset: TCP_CHECKSUM_AT as u16,
        }
    }

    /// True for a TCP super-packet whose flag CWR is a bit of the ACE field (RFC 9768 §3.2.1), and so belongs on every
    /// segment: a kernel that cuts it leaves it on the first one only (Linux `tcp_gso_segment`).
    #[must_use]
    pub fn has_cwr_everywhere(&self, packet: &[u8]) -> bool {
        let is_tcp = matches!(self.gso_type, GsoType::TcpV4 | GsoType::TcpV6);
        let flags = packet.get(usize::from(self.csum_start) + 13);
        is_tcp && !self.ecn && flags.is_some_and(|flags| u16::from(*flags) & TcpFlags::CWR.bits() != 0)
    }

    /// The header of a TCP super-packet with a partial checksum, cut into segments of `gso_size`
    /// payload bytes.
    ///
    /// `header_len` is the length of IP and TCP headers together. Only for payloads longer than `gso_size`;
    /// others want [`VirtioNetHeader::for_partial_checksum`].
    #[inline]
    #[must_use]
    pub const fn for_tcp_gso(
        version: IpVersion,
        transport_offset: usize,
        header_len: usize,
        gso_size: u16,
    ) -> Self {
        Self {
            gso_type: match version {
                IpVersion::V4 => GsoType::TcpV4,
                IpVersion::V6 => GsoType::TcpV6,
            },
            hdr_len: header_len as u16,
            gso_size,
            ..Self::for_partial_checksum(transport_offset)
        }
    }

    /// True when this header can stand before `packet`: offsets inside, and a segment size where
    /// one is needed.
    #[must_use]
    pub fn fits(&self, packet: &[u8], parsed: &Packet) -> bool {
        let field = usize::from(self.csum_start) + usize::from(self.csum_offset) + 2;
        let checksum_ok = self.checksum_state() == ChecksumState::Complete || field <= packet.len();
        let kind_ok = match (self.gso_type, parsed.ip.version, parsed.ip.protocol) {
            (GsoType::None, ..) => return checksum_ok,
            (GsoType::TcpV4, IpVersion::V4, p) | (GsoType::TcpV6, IpVersion::V6, p) => {
                p == crate::protocol::TCP
            }
            (GsoType::UdpL4, _, p) => p == crate::protocol::UDP,
            _ => false,
        };
        checksum_ok && kind_ok && self.gso_size > 0
    }
}

/// Completes a partial checksum in place, as the network card would.
///
/// Nothing is done when `header` does not ask for it. The packet must have no bytes after its end. For a
/// super-packet the result is right for the packet as one; [`crate::split`] makes each segment's own.
///
/// # Errors
/// The header points outside the packet.
pub fn complete_checksum(packet: &mut [u8], header: &VirtioNetHeader) -> Result<(), BuildError> {
    if header.checksum_state() == ChecksumState::Complete {
        return Ok(());
    }
    let covered = packet.get_mut(usize::from(header.csum_start)..).ok_or(BuildError::BadVirtioHeader)?;
    let at = usize::from(header.csum_offset);
    if covered.len() < at + 2 {
        return Err(BuildError::BadVirtioHeader);
    }
    // The field already holds the pseudo-header's sum, so it is summed as it is.
    let checksum = !checksum::sum(covered);
    // RFC 768: a UDP checksum of zero is sent as all ones.
    let checksum = if checksum == 0 && at == UDP_CHECKSUM_AT { 0xffff } else { checksum };
    put(covered, at, &checksum.to_be_bytes());
    Ok(())
}
