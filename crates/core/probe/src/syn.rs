//! [`Handshake`]: what a SYN or a SYN/ACK says, as it left or as it came.

use units::SeqNum;
use wire::{Packet, TcpFlags};

/// Kinds of TCP options that are looked at.
pub mod option_kind {
    /// Maximum segment size (RFC 9293).
    pub const MSS: u8 = 2;
    /// Window scale (RFC 7323).
    pub const WINDOW_SCALE: u8 = 3;
    /// SACK permitted (RFC 2018).
    pub const SACK_PERMITTED: u8 = 4;
    /// Timestamps (RFC 7323).
    pub const TIMESTAMPS: u8 = 8;
    /// Multipath TCP (RFC 8684).
    pub const MPTCP: u8 = 30;
    /// Fast Open (RFC 7413).
    pub const FAST_OPEN: u8 = 34;
    /// A kind that is not assigned.
    pub const UNKNOWN: u8 = 200;
    /// Kind for experiments (RFC 4727, RFC 6994).
    pub const EXPERIMENT_1: u8 = 253;
    /// Kind for experiments (RFC 4727, RFC 6994).
    pub const EXPERIMENT_2: u8 = 254;
}

/// Length of a TCP header without options.
const HEADER_LEN: usize = 20;

/// One option: its kind and what follows the length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpOption {
    /// Kind.
    pub kind: u8,
    /// Bytes after kind and length.
    pub body: Vec<u8>,
}

/// Fields of a SYN or a SYN/ACK.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handshake {
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// ECN field of the IP header.
    pub ecn: u8,
    /// First sequence number.
    pub isn: SeqNum,
    /// Flags.
    pub flags: TcpFlags,
    /// Window field; in a handshake it is never scaled.
    pub window: u16,
    /// Options in their order, without fillings. What does not fit is left out.
    pub options: Vec<TcpOption>,
}

impl Handshake {
    /// Reads a packet from its IP header on; none when it is no SYN. Its tail may be missing.
    #[must_use]
    pub fn read(packet: &[u8]) -> Option<Self> {
        let parsed: Packet = wire::parse_prefix(packet).ok()?;
        let tcp = parsed.tcp().filter(|tcp| tcp.flags.contains(TcpFlags::SYN))?;
        let options = packet.get(tcp.offset + HEADER_LEN..tcp.offset + tcp.header_len).unwrap_or_default();
        Some(Self {
            hop_limit: parsed.ip.hop_limit,
            ecn: parsed.ip.ecn(),
            isn: tcp.seq,
            flags: tcp.flags,
            window: tcp.window,
            options: options_of(options),
        })
    }

    /// The option of a kind.
    #[must_use]
    pub fn option(&self, kind: u8) -> Option<&[u8]> {
        self.options.iter().find(|option| option.kind == kind).map(|option| option.body.as_slice())
    }

    /// The MSS option.
    #[must_use]
    pub fn mss(&self) -> Option<u16> {
        self.option(option_kind::MSS)?.try_into().ok().map(u16::from_be_bytes)
    }

    /// The shift of the window-scale option.
    #[must_use]
    pub fn window_scale(&self) -> Option<u8> {
        self.option(option_kind::WINDOW_SCALE)?.first().copied()
    }
}

fn options_of(mut bytes: &[u8]) -> Vec<TcpOption> {
    let mut options = Vec::new();
    loop {
        match *bytes {
            [1, ref rest @ ..] => bytes = rest,
            [kind @ 2..=255, len @ 2..=255, ..] => {
                let Some((option, rest)) = bytes.split_at_checked(len.into()) else { return options };
                let body = option.get(2..).unwrap_or_default().to_vec();
                options.push(TcpOption { kind, body });
                bytes = rest;
            }
            _ => return options,
        }
    }
}

/// Writes options one after the other, filled up to whole words.
#[must_use]
pub fn options_bytes(options: &[TcpOption]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for option in options {
        bytes.extend([option.kind, option.body.len() as u8 + 2]);
        bytes.extend(&option.body);
    }
    // No operation; not the end of the list, which some take for a mistake when it is not the last byte.
    bytes.resize(bytes.len().next_multiple_of(4), 1);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn option() -> impl Strategy<Value = TcpOption> {
        (2u8..=255, prop::collection::vec(any::<u8>(), 0..8))
            .prop_map(|(kind, body)| TcpOption { kind, body })
    }

    proptest! {
        #[test]
        fn options_are_read_as_written(options in prop::collection::vec(option(), 0..4)) {
            prop_assert_eq!(options_of(&options_bytes(&options)), options);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = Handshake::read(&bytes);
            let _ = options_of(&bytes);
        }
    }
}
