//! Memory that the program of a comparison and this one share, byte by byte: `bpf/compare.h` in Rust.

use crate::split::{Group, Split, Unit};

/// `struct settings`.
#[derive(Clone, Debug)]
pub(super) struct Constants<'a> {
    pub split: Split,
    /// Cookie of the network namespace.
    pub network: u64,
    pub local_port: Option<u16>,
    pub has_mptcp: bool,
    /// Names, by group.
    pub controls: [&'a str; 2],
}

impl Constants<'_> {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.split.seed.to_ne_bytes());
        bytes.extend(self.network.to_ne_bytes());
        let is_by_client = u32::from(self.split.by == Unit::Client);
        let port = self.local_port.map_or(0, u32::from);
        let words = [port, is_by_client, u32::from(self.has_mptcp), 0];
        words.into_iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        for name in self.controls {
            let mut field = [0; 16];
            // The last byte stays zero.
            field.iter_mut().take(15).zip(name.bytes()).for_each(|(to, from)| *to = from);
            bytes.extend(field);
        }
        bytes
    }
}

/// `struct measured`: what the kernel has counted of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// Its number in the kernel.
    pub cookie: u64,
    /// The first 64 bits of the other end's address, or an IPv4 address.
    pub network: u64,
    pub is_ipv6: bool,
    pub group: Group,
    /// Bytes acknowledged.
    pub acknowledged: u64,
    /// Jiffies in which data waited for acknowledgements.
    pub busy: u64,
    /// Sum of smoothed round trips, one for each round trip.
    pub rtt_sum_us: u64,
    pub rtt_samples: u64,
    pub rtt_min_us: Option<u64>,
    /// Segments with data, those that were sent again included.
    pub segments: u64,
    /// Segments that were sent again.
    pub resent: u64,
}

/// Bytes of `struct measured`.
pub(super) const MEASURED_LEN: usize = 12 * 8;

impl Measured {
    /// From the program's bytes; none if they are too few.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < MEASURED_LEN {
            return None;
        }
        let word = |at: usize| word(bytes, at);
        // Two fields of 32 bits.
        let half = |at: usize| {
            bytes.get(at..at + 4).and_then(|half| half.try_into().ok()).map_or(0, u32::from_ne_bytes)
        };
        Some(Self {
            cookie: word(0),
            network: word(1),
            is_ipv6: half(16) != 0,
            group: Group::ALL[usize::from(half(20) != 0)],
            acknowledged: word(3),
            busy: word(4),
            rtt_sum_us: word(5),
            rtt_samples: word(6),
            rtt_min_us: Some(word(7)).filter(|least| *least > 0),
            segments: word(8),
            resent: word(9),
        })
    }
}

/// `struct counts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Connections that were put into a group.
    pub began: [u64; 2],
    /// Those whose congestion control the kernel did not set.
    pub refused: [u64; 2],
    /// Those that had no room.
    pub lost: u64,
}

impl Counts {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let word = |at| word(bytes, at);
        Self { began: [word(0), word(1)], refused: [word(2), word(3)], lost: word(4) }
    }
}

/// The 64-bit number at a place; 0 beyond the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}
