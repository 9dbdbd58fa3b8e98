//! [`TcpOptions`]: every TCP option the project knows, and where those that are edited lie.

use units::{SeqNum, WindowScale};

use crate::octets::{u16_at, u32_at};

/// Length of the TCP header without options, bytes: where they begin.
pub(crate) const TCP_HEADER_LEN: usize = 20;

pub(crate) const KIND_NOP: u8 = 1;
pub(crate) const KIND_MSS: u8 = 2;
pub(crate) const KIND_WINDOW_SCALE: u8 = 3;
pub(crate) const KIND_SACK_PERMITTED: u8 = 4;
pub(crate) const KIND_SACK: u8 = 5;
pub(crate) const KIND_TIMESTAMPS: u8 = 8;
/// Accurate ECN, with the counter of ECT(0) in front, and with that of ECT(1) (RFC 9768 §3.2.3).
pub(crate) const KIND_ACCURATE_ECN_0: u8 = 172;
pub(crate) const KIND_ACCURATE_ECN_1: u8 = 174;

/// The timestamps option (RFC 7323 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Timestamps {
    /// `TSval`, in the sender's ticks.
    pub value: u32,
    /// `TSecr`, in the ticks of the sender's peer.
    pub echo: u32,
}

/// One SACK block: `[start, end)` was received (RFC 2018 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, stored::Stored)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub start: SeqNum,
    /// Sequence number after the block.
    pub end: SeqNum,
}

/// Blocks of a SACK option, up to four, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; Self::CAPACITY],
    len: u8,
}

impl SackBlocks {
    /// The most blocks that fit a TCP header.
    pub const CAPACITY: usize = 4;

    /// No blocks.
    #[must_use]
    pub const fn new() -> Self {
        Self { blocks: [SackBlock { start: SeqNum::new(0), end: SeqNum::new(0) }; Self::CAPACITY], len: 0 }
    }
    /// Appends a block; false when there are four already.
    #[inline]
    pub fn push(&mut self, block: SackBlock) -> bool {
        match self.blocks.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = block;
                self.len += 1;
                true
            }
            None => false,
        }
    }
    /// The blocks as a slice.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len).min(Self::CAPACITY)]
    }
    /// The blocks, and empty ones behind them.
    #[inline]
    #[must_use]
    pub const fn as_array(&self) -> &[SackBlock; Self::CAPACITY] {
        &self.blocks
    }
    /// The blocks in order.
    #[inline]
    pub fn iter(&self) -> core::slice::Iter<'_, SackBlock> {
        self.as_slice().iter()
    }
    /// Number of blocks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }
    /// True without blocks.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Keeps the first `len` blocks at most.
    pub fn truncate(&mut self, len: usize) {
        for block in self.blocks.iter_mut().skip(len) {
            *block = SackBlock::default();
        }
        self.len = self.len.min(len.min(Self::CAPACITY) as u8);
    }
}

impl<'a> IntoIterator for &'a SackBlocks {
    type Item = &'a SackBlock;
    type IntoIter = core::slice::Iter<'a, SackBlock>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<SackBlock> for SackBlocks {
    /// Takes the first four.
    fn from_iter<I: IntoIterator<Item = SackBlock>>(iter: I) -> Self {
        let mut blocks = Self::new();
        for block in iter.into_iter().take(Self::CAPACITY) {
            blocks.push(block);
        }
        blocks
    }
}

/// Place of an option in the TCP header: offset and length in bytes, both zero when absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct OptionPlace {
    pub at: u8,
    pub len: u8,
}

impl OptionPlace {
    /// The option's bytes as a range of the TCP header; none when absent.
    pub(crate) fn range(self) -> Option<core::ops::Range<usize>> {
        let at = usize::from(self.at);
        (self.len > 0).then_some(at..at + usize::from(self.len))
    }
}

/// The options of one TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)] // Each is one option, as on the wire.
pub struct TcpOptions {
    /// Maximum segment size, bytes (RFC 9293 §3.7.1).
    pub mss: Option<u16>,
    /// Window scale (RFC 7323 §2); shifts above 14 are taken as 14.
    pub window_scale: Option<WindowScale>,
    /// SACK permitted (RFC 2018 §2).
    pub sack_permitted: bool,
    /// Timestamps (RFC 7323 §3).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks (RFC 2018 §3).
    pub sack: SackBlocks,
    /// Fast Open (RFC 7413), also in its experimental form.
    pub fast_open: bool,
    /// Multipath TCP (RFC 8684).
    pub mptcp: bool,
    /// MD5 signature (RFC 2385).
    pub md5: bool,
    /// Authentication option (RFC 5925).
    pub ao: bool,
    /// Accurate ECN counters (RFC 9768 §3.2.3): [`crate::Tcp::ecn_byte_counters`] reads them.
    pub accecn: bool,
    /// Accurate ECN counters in the experimental form of its drafts.
    pub experimental_accecn: bool,
    /// Another option.
    pub unknown: bool,
    /// An option with a wrong length or one that does not fit, or timestamps or SACK twice.
    pub malformed: bool,
    pub(crate) timestamps_place: OptionPlace,
    pub(crate) sack_place: OptionPlace,
    pub(crate) accurate_ecn_place: OptionPlace,
}

impl TcpOptions {
    /// Reads the bytes after the fixed header. Stops at the end-of-list option and at what does not fit.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut options = Self::default();
        // Almost every segment of a long flow: NOP, NOP, timestamps and nothing else.
        if let Ok(&[1, 1, KIND_TIMESTAMPS, 10, ref ts @ ..]) = <&[u8; 12]>::try_from(bytes) {
            options.timestamps = Some(Timestamps { value: u32_at(ts, 0), echo: u32_at(ts, 4) });
            options.timestamps_place = OptionPlace { at: TCP_HEADER_LEN as u8 + 2, len: 10 };
        } else {
            options.parse_list(bytes);
        }
        options
    }

    fn parse_list(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while let Some(&kind) = bytes.get(at) {
            match kind {
                0 => return,
                KIND_NOP => at += 1,
                _ => {
                    let len = bytes.get(at + 1).map_or(0, |len| usize::from(*len));
                    let Some(body) = bytes.get(at + 2..at + len) else {
                        self.malformed = true;
                        return;
                    };
                    self.take(kind, body, OptionPlace { at: (TCP_HEADER_LEN + at) as u8, len: len as u8 });
                    at += len;
                }
            }
        }
    }

    fn take(&mut self, kind: u8, body: &[u8], place: OptionPlace) {
        match (kind, body.len()) {
            (KIND_MSS, 2) => self.mss = Some(u16_at(body, 0)),
            (KIND_WINDOW_SCALE, 1) => self.window_scale = body.first().map(|shift| WindowScale::new(*shift)),
            (KIND_SACK_PERMITTED, 0) => self.sack_permitted = true,
            (KIND_SACK, 8 | 16 | 24 | 32) if self.sack_place.len == 0 => {
                self.sack_place = place;
                self.sack = body.chunks_exact(8).map(sack_block).collect();
            }
            (KIND_TIMESTAMPS, 8) if self.timestamps_place.len == 0 => {
                self.timestamps_place = place;
                self.timestamps = Some(Timestamps { value: u32_at(body, 0), echo: u32_at(body, 4) });
            }
            (KIND_MSS..=KIND_SACK | KIND_TIMESTAMPS, _) => self.malformed = true,
            (19, _) => self.md5 = true,
            (29, _) => self.ao = true,
            (30, _) => self.mptcp = true,
            (34, _) => self.fast_open = true,
            // Other lengths are ignored (RFC 9768 §3.2.3).
            (KIND_ACCURATE_ECN_0 | KIND_ACCURATE_ECN_1, 0 | 3 | 6 | 9) => {
                self.accecn = true;
                self.accurate_ecn_place = place;
            }
            // RFC 6994: experiments share two kinds and say who they are in the first two bytes.
            (253 | 254, 2..) => match u16_at(body, 0) {
                0xf989 => self.fast_open = true,
                0xacce | 0xacc0 | 0xacc1 => self.experimental_accecn = true,
                _ => self.unknown = true,
            },
            _ => self.unknown = true,
        }
    }
}

fn sack_block(bytes: &[u8]) -> SackBlock {
    SackBlock { start: SeqNum::new(u32_at(bytes, 0)), end: SeqNum::new(u32_at(bytes, 4)) }
}
