//! [`Copies`]: packets that the capture holds more than once.
//!
//! A capture of several interfaces, of a tunnel and what is in it, of a router or a mirroring port has
//! packets twice. A copy is the same packet: of the same headers, and of the same IPv4 identification. A
//! repetition by the sender is another packet. Where there is no identification, what tells is the place
//! (interface, link header, hop limit, tunnel), the timestamp, and a time that no sender can be so quick in.

use units::{Duration, Instant};
use wire::TcpFlags;

use crate::segment_record::SegmentRecord;

/// Packets of a shard among which copies are looked for.
const KEPT: usize = 4_096;
/// Lists that packets are found by.
const LISTS: usize = 4_096;
/// Packets of one list looked at.
const STEPS_MAX: usize = 16;
/// Pieces of one super-packet that are known one by one.
const PIECES_MAX: u64 = 64;

/// Longest delay of a copy at another place: the longest queue of a router.
const APART_ELSEWHERE: Duration = Duration::from_secs(1);
/// Longest delay of a copy at the same place: less than any time-out of a sender that numbers repetitions as
/// their originals.
const APART_HERE: Duration = Duration::from_millis(100);
/// No sender repeats so soon: a copy even without an identification.
const AT_ONCE: Duration = Duration::from_micros(100);

/// A packet, or a piece of a super-packet.
#[derive(Clone, Copy, Debug)]
struct Seen {
    time: Instant,
    tag: u32,
    place: u16,
    /// The one before in its list, and whether a copy without identification has been found.
    before: u16,
}

/// The bit of [`Seen::before`] that says that the packet has had its copy.
const HAS_COPY: u16 = 1 << 15;
/// [`Seen::before`] of the first of a list.
const NONE: u16 = HAS_COPY - 1;

/// Context of the flow of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyContext {
    /// Payload of a piece of a super-packet.
    pub(crate) piece: u64,
    /// The sender gives different packets different identifications.
    pub(crate) has_ids: bool,
    /// Copies were found in this direction before.
    pub(crate) has_copies: bool,
    /// It brings what was not seen before, so that it is no copy.
    pub(crate) is_news: bool,
}

/// The last packets of a shard. Memory is bounded: [`KEPT`] packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    seen: Vec<Seen>,
    heads: Vec<u16>,
    next: usize,
}

impl Copies {
    /// Place where a packet with this identity is looked for and remembered; none before the first packet.
    #[inline]
    pub(crate) fn place_of(&self, whole: Identity) -> Option<&u16> {
        self.heads.get(list(whole.0))
    }

    /// True when `segment`, which is `whole` if it is not cut into pieces, is a copy of one seen before;
    /// remembers it otherwise.
    #[inline]
    pub(crate) fn is_copy(
        &mut self,
        segment: &SegmentRecord,
        whole: Identity,
        context: &CopyContext,
    ) -> bool {
        // Most packets are one piece.
        if segment.len() <= context.piece {
            if !context.is_news && self.has(segment, context, whole.0) {
                return true;
            }
            self.remember(segment, whole.0);
            return false;
        }
        let piece = context.piece.max(1);
        let pieces = segment.len().div_ceil(piece).clamp(1, PIECES_MAX);
        let of = |number| identity(segment, number, piece, pieces);
        if !context.is_news && (0..pieces).all(|number| self.has(segment, context, of(number))) {
            return true;
        }
        for number in 0..pieces {
            self.remember(segment, of(number));
        }
        false
    }

    fn has(&mut self, segment: &SegmentRecord, context: &CopyContext, identity: u64) -> bool {
        let Some(mut at) = self.heads.get(list(identity)).copied() else { return false };
        let mut age = 0;
        for _ in 0..STEPS_MAX {
            let Some(seen) = self.seen.get_mut(usize::from(at)) else { return false };
            // A list goes from new to old: what is younger has taken the place of an older one.
            let own_age = (self.next + KEPT - 1 - usize::from(at)) % KEPT;
            if own_age < age {
                return false;
            }
            age = own_age + 1;
            if seen.tag == (identity >> 32) as u32 {
                let is_here = seen.place == segment.place;
                if is_same(segment, context, is_here, seen) {
                    if is_here {
                        seen.before |= HAS_COPY;
                    }
                    return true;
                }
                return false;
            }
            at = seen.before & NONE;
        }
        false
    }

    fn remember(&mut self, segment: &SegmentRecord, identity: u64) {
        if self.heads.is_empty() {
            self.heads = vec![NONE; LISTS];
        }
        let Some(head) = self.heads.get_mut(list(identity)) else { return };
        let (tag, place) = ((identity >> 32) as u32, segment.place);
        let seen = Seen { time: segment.time, tag, place, before: *head };
        *head = self.next as u16;
        match self.seen.get_mut(self.next) {
            Some(oldest) => *oldest = seen,
            None => self.seen.push(seen),
        }
        self.next = (self.next + 1) % KEPT;
    }
}

/// True when `segment`, of the same headers as `seen`, is the same packet.
fn is_same(segment: &SegmentRecord, context: &CopyContext, is_here: bool, seen: &Seen) -> bool {
    let apart = segment.time.saturating_since(seen.time).max(seen.time.saturating_since(segment.time));
    if segment.is_v4() && segment.id != 0 && context.has_ids {
        return apart <= if is_here { APART_HERE } else { APART_ELSEWHERE };
    }
    match is_here {
        // The time of sending is in the headers too.
        false if segment.stamp().is_some() => apart <= APART_ELSEWHERE,
        false => apart <= APART_HERE,
        true if seen.before & HAS_COPY != 0 => false,
        // Duplicate acknowledgements may be equal to the bit, and follow each other at once.
        true => apart <= AT_ONCE && (segment.takes_sequence_space() || context.has_copies),
    }
}

fn list(identity: u64) -> usize {
    identity as usize % LISTS
}

/// Fingerprint of the fields that are the same in all copies of a packet that is no super-packet, in 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity(u64);

impl Identity {
    #[inline]
    pub(crate) fn of(segment: &SegmentRecord) -> Self {
        Self(identity(segment, 0, segment.len(), 1))
    }
}

/// Of all that is the same in copies, for piece `number` of `pieces` with `piece` bytes each.
#[inline]
fn identity(segment: &SegmentRecord, number: u64, piece: u64, pieces: u64) -> u64 {
    let is_last = number + 1 == pieces;
    let start = number * piece;
    let len = if is_last { segment.len() - start } else { piece };
    let no_flags =
        if is_last { TcpFlags::PSH | TcpFlags::CWR } else { TcpFlags::PSH | TcpFlags::CWR | TcpFlags::FIN };
    let flags = segment.flags & !no_flags;
    let id = segment.id.wrapping_add(number as u16);
    let words = [
        u64::from(segment.hash) << 1 | u64::from(segment.is_from_low()),
        u64::from((segment.seq + start as u32).get()) << 32 | u64::from(segment.ack.get()),
        len << 48 | u64::from(flags.bits()) << 32 | u64::from(segment.window) << 16 | u64::from(id),
        segment.stamps_word(),
    ];
    let mut sum = 0x9e37_79b9_7f4a_7c15;
    for word in words {
        sum = fold(sum ^ word, 0xa076_1d64_78bd_642f);
    }
    for block in segment.sack() {
        let word = u64::from(block.start.get()) << 32 | u64::from(block.end.get());
        sum = fold(sum ^ word, 0xe703_7ed1_a0b4_28db);
    }
    sum
}

/// The halves of a product, folded.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}
