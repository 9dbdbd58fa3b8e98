//! [`MptcpOptions`]: Multipath TCP options of a segment (RFC 6824 for version 0, RFC 8684 for version 1).

use wire::Tcp;

use crate::octets::{be16, be32};

/// A data sequence signal: which bytes of the connection the bytes of a subflow are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Data sequence number; its lower 32 bits if `is_wide` is false.
    pub data_sequence: u64,
    /// True for a number of 64 bits.
    pub is_wide: bool,
    /// Start of the mapping in the subflow, relative to its initial sequence number.
    pub subflow_sequence: u32,
    /// Bytes mapped; zero: without end.
    pub len: u16,
}

/// Content of the Multipath TCP options of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MptcpOptions {
    /// Version, of an `MP_CAPABLE`.
    pub capable: Option<u8>,
    /// The sender's key.
    pub sender_key: Option<u64>,
    /// The receiver's key, as the sender repeats it.
    pub receiver_key: Option<u64>,
    /// Data that an `MP_CAPABLE` of version 1 says it carries, bytes.
    pub first_data: Option<u16>,
    /// The token of an `MP_JOIN`: names the connection by the key of the end it is sent to.
    pub join_token: Option<u32>,
    /// A mapping.
    pub mapping: Option<Mapping>,
    /// A data acknowledgement, and true for one of 64 bits.
    pub data_ack: Option<(u64, bool)>,
    /// `DATA_FIN`.
    pub is_fin: bool,
    /// The connection was closed at once (`MP_FASTCLOSE`).
    pub is_fast_close: bool,
}

const KIND: u8 = 30;

/// Reads the Multipath TCP options of the segment in `bytes`, which start at its IP header; none if
/// it has none, or they were not captured.
#[must_use]
pub fn mptcp_options(bytes: &[u8], tcp: &Tcp) -> Option<MptcpOptions> {
    let mut options = bytes.get(tcp.offset + 20..tcp.offset + tcp.header_len)?;
    let mut found = MptcpOptions::default();
    let mut has_any = false;
    while let Some(&kind) = options.first() {
        let len = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(*options.get(1)?).max(2),
        };
        let option = options.get(..len)?;
        if kind == KIND && len >= 4 {
            has_any |= found.read(option).is_some();
        }
        options = &options[len..];
    }
    has_any.then_some(found)
}

impl MptcpOptions {
    fn read(&mut self, option: &[u8]) -> Option<()> {
        match option[2] >> 4 {
            0 => {
                self.capable = Some(option[2] & 15);
                self.sender_key = be64(option, 4);
                self.receiver_key = be64(option, 12);
                self.first_data = be16(option, 20);
            }
            // Only in a SYN does the option hold the token: 12 bytes.
            1 if option.len() == 12 => self.join_token = be32(option, 4),
            2 => self.read_signal(option)?,
            7 => self.is_fast_close = true,
            _ => {}
        }
        Some(())
    }

    fn read_signal(&mut self, option: &[u8]) -> Option<()> {
        let flags = option[3];
        let mut at = 4;
        let mut number = |is_wide: bool| {
            let value = if is_wide { be64(option, at) } else { be32(option, at).map(u64::from) };
            at += if is_wide { 8 } else { 4 };
            value
        };
        if flags & 1 != 0 {
            let is_wide = flags & 2 != 0;
            self.data_ack = Some((number(is_wide)?, is_wide));
        }
        if flags & 4 != 0 {
            let is_wide = flags & 8 != 0;
            let data_sequence = number(is_wide)?;
            let (subflow_sequence, len) = (be32(option, at)?, be16(option, at + 4)?);
            self.mapping = Some(Mapping { data_sequence, is_wide, subflow_sequence, len });
        }
        self.is_fin = flags & 16 != 0;
        Some(())
    }
}

fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).and_then(<[u8]>::first_chunk).map(|eight| u64::from_be_bytes(*eight))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[u8]) -> MptcpOptions {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let words = options.len().div_ceil(4);
        packet.extend([
            0,
            80,
            4,
            0,
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            1,
            ((5 + words) << 4) as u8,
            0x10,
            1,
            0,
            0,
            0,
            0,
            0,
        ]);
        packet.extend(options);
        packet.resize(40 + 4 * words, 1);
        let len = packet.len() as u16;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        let parsed = wire::parse(&packet).unwrap();
        mptcp_options(&packet, parsed.tcp().unwrap()).unwrap()
    }

    #[test]
    fn handshakes_of_both_versions() {
        let syn = read(&[30, 4, 0x01, 0x01]);
        assert_eq!((syn.capable, syn.sender_key), (Some(1), None));
        let old = read(&[30, 12, 0x00, 0x81, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((old.capable, old.sender_key), (Some(0), Some(0x0102_0304_0506_0708)));
        let join = read(&[30, 12, 0x10, 0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0, 0, 0, 1]);
        assert_eq!(join.join_token, Some(0xaabb_ccdd));
    }

    #[test]
    fn signals_of_all_widths() {
        let wide =
            read(&[30, 22, 0x20, 0x0d, 0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0x05, 0xa8, 1, 1]);
        let mapping = Mapping { data_sequence: (1 << 56) + 7, is_wide: true, subflow_sequence: 1, len: 1448 };
        assert_eq!((wide.mapping, wide.data_ack), (Some(mapping), Some((9, false))));
        let narrow = read(&[30, 14, 0x20, 0x14, 0, 0, 0, 7, 0, 0, 0, 1, 0, 9, 1, 1]);
        assert!(
            narrow.is_fin && narrow.mapping.is_some_and(|m| !m.is_wide && m.data_sequence == 7 && m.len == 9)
        );
    }
}
