//! [`TcpHeaderSpec`]: IP and TCP headers from scratch.

use core::net::{IpAddr, SocketAddr};

use units::{SeqNum, WindowScale};

use crate::BuildError;
use crate::checksum::{self, Sum};
use crate::ip::{IPV4_HEADER_LEN, IPV6_HEADER_LEN, protocol};
use crate::options::{
    KIND_ACCURATE_ECN_0, KIND_MSS, KIND_NOP, KIND_SACK, KIND_SACK_PERMITTED, KIND_TIMESTAMPS,
    KIND_WINDOW_SCALE, SackBlocks, TCP_HEADER_LEN, Timestamps,
};
use crate::tcp::{TCP_CHECKSUM_AT, TcpFlags};

const TCP_OPTIONS_MAX: usize = 40;

/// All fields of an IP and TCP header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpHeaderSpec {
    /// Source address and port.
    pub src: SocketAddr,
    /// Destination address and port, of the same IP version.
    pub dst: SocketAddr,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// IPv6 flow label, low 20 bits; unused for IPv4.
    pub flow_label: u32,
    /// IPv4 identification; unused for IPv6.
    pub id: u16,
    /// IPv4 DF bit; unused for IPv6.
    pub dont_fragment: bool,
    /// Sequence number.
    pub seq: SeqNum,
    /// Acknowledgement number.
    pub ack: SeqNum,
    /// Flags.
    pub flags: TcpFlags,
    /// Window field, already scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Timestamps option.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks; those that do not fit beside the other options are left out.
    pub sack: SackBlocks,
    /// Byte counters of accurate ECN: ECT(0), CE and ECT(1), of which the low 24 bits count (RFC 9768 §3.2.3). They
    /// come before SACK blocks.
    pub ecn_byte_counters: Option<[u32; 3]>,
    /// Maximum segment size option, bytes.
    pub mss: Option<u16>,
    /// Window scale option.
    pub window_scale: Option<WindowScale>,
    /// SACK-permitted option.
    pub sack_permitted: bool,
}

/// Header that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmittedHeader {
    /// Length of IP and TCP header in bytes: the payload belongs here.
    pub len: usize,
    /// Offset of the TCP header in bytes: `csum_start` of a virtio header.
    pub transport_offset: usize,
    /// Length of the whole packet with its payload, bytes.
    pub total_len: usize,
}

/// TCP options being written, laid out and padded as Linux does (`tcp_options_write`).
struct OptionWriter {
    bytes: [u8; TCP_OPTIONS_MAX],
    len: usize,
}

impl OptionWriter {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if crate::octets::put(&mut self.bytes, self.len, bytes) {
            self.len += bytes.len();
        }
    }
}

impl TcpHeaderSpec {
    /// Longest IP and TCP header that is written, bytes.
    pub const MAX_LEN: usize = IPV6_HEADER_LEN + TCP_HEADER_LEN + TCP_OPTIONS_MAX;

    /// A spec with these end points and numbers, hop limit 64, DF, and everything else empty or zero.
    #[must_use]
    pub const fn new(src: SocketAddr, dst: SocketAddr, seq: SeqNum, ack: SeqNum, flags: TcpFlags) -> Self {
        Self {
            src,
            dst,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            id: 0,
            dont_fragment: true,
            seq,
            ack,
            flags,
            window: 0,
            urgent: 0,
            timestamps: None,
            sack: SackBlocks::new(),
            ecn_byte_counters: None,
            mss: None,
            window_scale: None,
            sack_permitted: false,
        }
    }

    /// Writes both headers into `buf` for a payload of `payload_len` bytes that follows.
    ///
    /// The checksum field holds the pseudo-header's sum, as `VIRTIO_NET_HDR_F_NEEDS_CSUM` wants it.
    ///
    /// # Errors
    /// Mixed IP versions, a `buf` too small for the headers, or a packet longer than 65,535 bytes
    /// (IPv6: plus 40).
    #[inline]
    pub fn emit_partial(&self, buf: &mut [u8], payload_len: usize) -> Result<EmittedHeader, BuildError> {
        let (header, pseudo) = self.write(buf, payload_len)?;
        let at = header.transport_offset + TCP_CHECKSUM_AT;
        buf[at..at + 2].copy_from_slice(&pseudo.folded().to_be_bytes());
        Ok(header)
    }

    /// Writes both headers into `buf` with a complete checksum over a payload given in pieces.
    ///
    /// The payload is only read; the caller sends it after the headers, or copies it.
    ///
    /// # Errors
    /// As [`TcpHeaderSpec::emit_partial`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8], payload: &[&[u8]]) -> Result<EmittedHeader, BuildError> {
        let payload_len = payload.iter().map(|piece| piece.len()).sum();
        let (header, mut sum) = self.write(buf, payload_len)?;
        sum.add_bytes(&buf[header.transport_offset..header.len]);
        for piece in payload {
            sum.add_bytes(piece);
        }
        let at = header.transport_offset + TCP_CHECKSUM_AT;
        buf[at..at + 2].copy_from_slice(&sum.checksum().to_be_bytes());
        Ok(header)
    }

    /// Writes everything but the TCP checksum, which is zero, and gives the pseudo-header's sum.
    #[inline]
    fn write(&self, buf: &mut [u8], payload_len: usize) -> Result<(EmittedHeader, Sum), BuildError> {
        let options = self.options();
        let transport_offset = match (self.src, self.dst) {
            (SocketAddr::V4(_), SocketAddr::V4(_)) => IPV4_HEADER_LEN,
            (SocketAddr::V6(_), SocketAddr::V6(_)) => IPV6_HEADER_LEN,
            _ => return Err(BuildError::MixedFamilies),
        };
        let len = transport_offset + TCP_HEADER_LEN + options.len;
        let total_len = len.saturating_add(payload_len);
        let transport_len = total_len - transport_offset;
        // IPv4 counts its header, IPv6 does not.
        let counted = if transport_offset == IPV4_HEADER_LEN { total_len } else { transport_len };
        if counted > usize::from(u16::MAX) {
            return Err(BuildError::TooLong { len: total_len });
        }
        let have = buf.len();
        let Some((ip, tcp)) = buf.get_mut(..len).map(|b| b.split_at_mut(transport_offset)) else {
            return Err(BuildError::BufferTooSmall { needed: len, have });
        };
        match (self.src.ip(), self.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                self.write_ipv4(ip, &src.octets(), &dst.octets(), total_len as u16);
            }
            (src, dst) => self.write_ipv6(ip, src, dst, transport_len as u16),
        }
        self.write_tcp(tcp, &options);
        let pseudo = Sum::pseudo_header(self.src.ip(), self.dst.ip(), protocol::TCP, transport_len);
        Ok((EmittedHeader { len, transport_offset, total_len }, pseudo))
    }

    #[inline]
    fn write_ipv4(&self, ip: &mut [u8], src: &[u8; 4], dst: &[u8; 4], total_len: u16) {
        let Some(h) = ip.first_chunk_mut::<IPV4_HEADER_LEN>() else { return };
        h[0] = 0x45;
        h[1] = self.traffic_class;
        h[2..4].copy_from_slice(&total_len.to_be_bytes());
        h[4..6].copy_from_slice(&self.id.to_be_bytes());
        h[6..8].copy_from_slice(&[if self.dont_fragment { 0x40 } else { 0 }, 0]);
        h[8] = self.hop_limit;
        h[9] = protocol::TCP;
        h[10..12].fill(0);
        h[12..16].copy_from_slice(src);
        h[16..20].copy_from_slice(dst);
        let checksum = !checksum::sum(h);
        h[10..12].copy_from_slice(&checksum.to_be_bytes());
    }

    #[inline]
    fn write_ipv6(&self, ip: &mut [u8], src: IpAddr, dst: IpAddr, payload_len: u16) {
        let Some(h) = ip.first_chunk_mut::<IPV6_HEADER_LEN>() else { return };
        let word = (6 << 28) | (u32::from(self.traffic_class) << 20) | (self.flow_label & 0xf_ffff);
        h[..4].copy_from_slice(&word.to_be_bytes());
        h[4..6].copy_from_slice(&payload_len.to_be_bytes());
        h[6] = protocol::TCP;
        h[7] = self.hop_limit;
        for (place, addr) in h[8..].as_chunks_mut::<16>().0.iter_mut().zip([src, dst]) {
            if let IpAddr::V6(addr) = addr {
                *place = addr.octets();
            }
        }
    }

    #[inline]
    fn write_tcp(&self, tcp: &mut [u8], options: &OptionWriter) {
        let Some((h, rest)) = tcp.split_first_chunk_mut::<TCP_HEADER_LEN>() else { return };
        let offset = ((TCP_HEADER_LEN + options.len) / 4) as u16;
        h[..2].copy_from_slice(&self.src.port().to_be_bytes());
        h[2..4].copy_from_slice(&self.dst.port().to_be_bytes());
        h[4..8].copy_from_slice(&self.seq.get().to_be_bytes());
        h[8..12].copy_from_slice(&self.ack.get().to_be_bytes());
        h[12..14].copy_from_slice(&((offset << 12) | self.flags.bits()).to_be_bytes());
        h[14..16].copy_from_slice(&self.window.to_be_bytes());
        h[16..18].fill(0);
        h[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        crate::octets::put(rest, 0, &options.bytes[..options.len]);
    }

    #[inline]
    fn options(&self) -> OptionWriter {
        let mut out = OptionWriter { bytes: [0; TCP_OPTIONS_MAX], len: 0 };
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            out.put(&[KIND_MSS, 4, high, low]);
        }
        // SACK-permitted takes the place of the two NOPs before the timestamps.
        match (self.sack_permitted, self.timestamps) {
            (true, Some(_)) => out.put(&[KIND_SACK_PERMITTED, 2]),
            (true, None) => out.put(&[KIND_NOP, KIND_NOP, KIND_SACK_PERMITTED, 2]),
            (false, Some(_)) => out.put(&[KIND_NOP, KIND_NOP]),
            (false, None) => {}
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            out.put(&[KIND_TIMESTAMPS, 10]);
            out.put(&value.to_be_bytes());
            out.put(&echo.to_be_bytes());
        }
        if let Some(scale) = self.window_scale {
            out.put(&[KIND_NOP, KIND_WINDOW_SCALE, 3, scale.shift()]);
        }
        if let Some(counters) = self.ecn_byte_counters {
            out.put(&[KIND_NOP, KIND_ACCURATE_ECN_0, 11]);
            for counter in counters {
                out.put(&counter.to_be_bytes()[1..]);
            }
        }
        let room = (TCP_OPTIONS_MAX - out.len).saturating_sub(4) / 8;
        let blocks = self.sack.len().min(room);
        if blocks > 0 {
            out.put(&[KIND_NOP, KIND_NOP, KIND_SACK, 2 + 8 * blocks as u8]);
            for block in self.sack.iter().take(blocks) {
                out.put(&block.start.get().to_be_bytes());
                out.put(&block.end.get().to_be_bytes());
            }
        }
        out
    }
}
