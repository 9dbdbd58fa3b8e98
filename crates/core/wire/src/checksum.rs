//! The Internet checksum: full sums (RFC 1071) and incremental updates (RFC 1624).
//!
//! Sums are kept in wide accumulators and folded once at the end. A one's-complement sum does not depend
//! on byte order except for a final swap (RFC 1071 §2 (B)), so bytes are added in the machine's own order.

use core::net::IpAddr;

/// State of the checksum field of a TCP or UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChecksumState {
    /// The checksum of the whole segment, as on a wire.
    #[default]
    Complete,
    /// Only the sum of the pseudo-header: someone later adds the rest (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
    Partial,
}

/// A running one's-complement sum over pieces of any length.
///
/// A piece after one of odd length goes on at the odd position, as if the pieces were one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Sum of 16-bit words in the machine's byte order, not folded.
    acc: u64,
    odd: bool,
}

impl Sum {
    /// The empty sum.
    #[must_use]
    pub const fn new() -> Self {
        Self { acc: 0, odd: false }
    }

    /// Adds bytes.
    #[inline]
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let folded = fold(accumulate(bytes));
        self.acc += u64::from(if self.odd { folded.swap_bytes() } else { folded });
        self.odd ^= bytes.len() % 2 == 1;
    }

    /// Adds one 16-bit word given as a number; meant for even positions.
    #[inline]
    pub fn add_u16(&mut self, word: u16) {
        self.acc += u64::from(word.to_be());
    }

    /// The sum folded to 16 bits as a number, not complemented.
    #[inline]
    #[must_use]
    pub const fn folded(self) -> u16 {
        u16::from_be(fold(self.acc))
    }

    /// The checksum: the complement of the folded sum.
    #[inline]
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// The sum of the pseudo-header of TCP, UDP (RFC 9293 §3.1) or ICMPv6 (RFC 8200 §8.1).
    ///
    /// `len` is the length in bytes of the transport header and its payload. Addresses of different
    /// families are added as they are.
    #[inline]
    #[must_use]
    pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> Self {
        let mut sum = Self::new();
        for addr in [src, dst] {
            match addr {
                IpAddr::V4(a) => sum.acc += u64::from(u32::from_ne_bytes(a.octets())),
                IpAddr::V6(a) => {
                    let (low, high) = halves(u128::from_ne_bytes(a.octets()));
                    sum.acc += halve(low) + halve(high);
                }
            }
        }
        sum.add_u16(u16::from(protocol));
        sum.acc += u64::from((len as u32).to_be());
        sum
    }
}

const fn halves(v: u128) -> (u64, u64) {
    (v as u64, (v >> 64) as u64)
}

const fn halve(v: u64) -> u64 {
    (v & 0xffff_ffff) + (v >> 32)
}

/// Folds to 16 bits with end-around carry; zero only when `acc` is zero.
#[inline]
const fn fold(acc: u64) -> u16 {
    let acc = halve(halve(acc));
    let acc = (acc & 0xffff) + (acc >> 16);
    let acc = (acc & 0xffff) + (acc >> 16);
    acc as u16
}

/// Sum of 16-bit words in the machine's order, congruent to the one's-complement sum modulo 2^16 − 1.
#[inline]
fn accumulate(bytes: &[u8]) -> u64 {
    const LANES: usize = 8;
    // Independent 64-bit lanes of 32-bit words: the compiler turns this into vector adds, and no lane can
    // overflow below 16 GiB.
    let mut lanes = [0u64; LANES];
    let mut blocks = bytes.chunks_exact(LANES * 4);
    for block in &mut blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let mut acc: u64 = lanes.iter().map(|lane| halve(*lane)).sum();
    let (words, tail) = blocks.remainder().as_chunks::<4>();
    for word in words {
        acc += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0u8; 4];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    acc + u64::from(u32::from_ne_bytes(last))
}

/// The one's-complement sum of `bytes` folded to 16 bits, not complemented (RFC 1071).
#[inline]
#[must_use]
pub fn sum(bytes: &[u8]) -> u16 {
    u16::from_be(fold(accumulate(bytes)))
}

/// The checksum after one 16-bit word changed from `old` to `new` (RFC 1624 §3 eqn. 3).
#[inline]
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let acc = !checksum as u64 + !old as u64 + new as u64;
    !fold(acc)
}

/// The checksum after an aligned 32-bit word changed from `old` to `new` (RFC 1624 §3 eqn. 3).
#[inline]
#[must_use]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    let acc = !checksum as u64 + !old as u64 + new as u64;
    !fold(acc)
}

/// The checksum after bytes that start at offset `at` of the summed data changed from `old` to `new`.
///
/// The slices must be equally long; `at` may be odd, as unaligned TCP options are.
#[inline]
#[must_use]
pub fn update_bytes(checksum: u16, at: usize, old: &[u8], new: &[u8]) -> u16 {
    let (old, new) = (sum(old), sum(new));
    let (old, new) = if at % 2 == 1 { (old.swap_bytes(), new.swap_bytes()) } else { (old, new) };
    update(checksum, old, new)
}
