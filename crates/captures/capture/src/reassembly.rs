//! [`Reassembly`]: TCP segments that came in fragments.
//!
//! Only the TCP header is kept, and which bytes have come: that is all an analysis needs. A segment
//! counts when its last missing fragment passes, as its receiver would take it.

use std::collections::VecDeque;
use std::net::IpAddr;

use units::{Duration, Instant};
use wire::{Ip, IpVersion, protocol};

use crate::decode::{Segment, Skip, innermost, segment_of};
use crate::link::LinkType;
use crate::octets::{be16, be32};

/// Packets in pieces that wait at most; beyond it the oldest is given up.
const WAITING_MAX: usize = 256;
/// Time that a packet waits for its last piece: Linux's default (RFC 791 §3.2 and RFC 8200 §4.5 say up to a
/// minute).
const WAIT: Duration = Duration::from_secs(30);
/// Longest TCP header.
const HEADER_MAX: usize = 60;
/// Separate pieces of a packet that are remembered.
const PIECES_MAX: usize = 64;

/// Fields that fragments of one packet have in common (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    point: u16,
}

/// A packet of which not all has come.
#[derive(Clone, Debug)]
struct Waiting {
    key: Key,
    since: Instant,
    /// IP header of the first fragment, in a tunnel or not.
    first: Option<(Ip, bool)>,
    header: Header,
    /// Bytes behind the IP header that have come, in order and apart from each other.
    pieces: Vec<(usize, usize)>,
    /// Bytes behind the IP header, once the last fragment has come.
    len: Option<usize>,
}

/// The TCP header, which may come in pieces, too.
#[derive(Clone, Debug)]
struct Header {
    bytes: [u8; HEADER_MAX],
    /// A bit for each byte that has come.
    seen: u64,
}

impl Header {
    /// Adds the bytes that a fragment that starts at `start` carries.
    fn add(&mut self, start: usize, carried: &[u8]) {
        for (at, byte) in (start..HEADER_MAX).zip(carried) {
            self.bytes[at] = *byte;
            self.seen |= 1 << at;
        }
    }

    /// The bytes up to the first that has not come.
    fn whole(&self) -> &[u8] {
        &self.bytes[..(self.seen.trailing_ones() as usize).min(HEADER_MAX)]
    }
}

/// One fragment.
#[derive(Clone, Copy, Debug)]
struct Fragment {
    id: u32,
    start: usize,
    end: usize,
    is_last: bool,
}

/// Puts fragmented TCP segments together.
#[derive(Clone, Debug, Default)]
pub struct Reassembly {
    /// Oldest first.
    waiting: VecDeque<Waiting>,
}

impl Reassembly {
    /// As [`crate::decode`], with what was remembered of fragments: the segment when this frame completes it.
    ///
    /// `point` is where it was captured: what was seen elsewhere is another packet.
    ///
    /// # Errors
    /// As of [`crate::decode`]; [`Skip::Fragment`] for each fragment but the one that completes a segment.
    pub fn decode(
        &mut self,
        point: u16,
        link: LinkType,
        frame: &[u8],
        wire_len: u32,
        now: Instant,
    ) -> Result<Segment, Skip> {
        match crate::decode(link, frame, wire_len) {
            Err(Skip::Fragment) => self.take(point, link, frame, wire_len, now).ok_or(Skip::Fragment),
            other => other,
        }
    }

    #[cold]
    fn take(
        &mut self,
        point: u16,
        link: LinkType,
        frame: &[u8],
        wire_len: u32,
        now: Instant,
    ) -> Option<Segment> {
        let found = innermost(link, frame, wire_len as usize).ok()?;
        let bytes = frame.get(found.at..)?;
        let ip = found.packet.ip;
        if ip.protocol != protocol::TCP {
            return None;
        }
        let fragment = fragment(&ip, bytes)?;
        self.waiting.retain(|one| now.saturating_since(one.since) <= WAIT);
        let key = Key { src: ip.src, dst: ip.dst, id: fragment.id, point };
        let index =
            self.waiting.iter().position(|one| one.key == key).unwrap_or_else(|| self.begin(key, now));
        let waiting = self.waiting.get_mut(index)?;
        if fragment.start == 0 {
            waiting.first = Some((ip, found.is_tunnelled));
        }
        // Not what pads a short frame.
        let carried = bytes.get(ip.header_len..bytes.len().min(ip.total_len)).unwrap_or_default();
        waiting.header.add(fragment.start, carried);
        if fragment.is_last {
            waiting.len = Some(fragment.end);
        }
        waiting.add(fragment.start, fragment.end);
        let len = waiting.len?;
        if !waiting.pieces.first().is_some_and(|&(start, end)| start == 0 && end >= len) {
            return None;
        }
        let Waiting { first, header, .. } = self.waiting.remove(index)?;
        let (ip, is_tunnelled) = first?;
        segment_of(&ip, header.whole(), len, is_tunnelled, frame.len())
    }

    fn begin(&mut self, key: Key, now: Instant) -> usize {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        let header = Header { bytes: [0; HEADER_MAX], seen: 0 };
        self.waiting.push_back(Waiting {
            key,
            since: now,
            first: None,
            header,
            pieces: Vec::new(),
            len: None,
        });
        self.waiting.len() - 1
    }
}

impl Waiting {
    /// `[start, end)` has come: joins what overlaps or touches it.
    fn add(&mut self, mut start: usize, mut end: usize) {
        self.pieces.retain(|&(from, to)| {
            let is_apart = to < start || end < from;
            if !is_apart {
                (start, end) = (start.min(from), end.max(to));
            }
            is_apart
        });
        if self.pieces.len() < PIECES_MAX {
            let at = self.pieces.partition_point(|piece| piece.0 < start);
            self.pieces.insert(at, (start, end));
        }
    }
}

/// Place of a fragment in its packet; none if it is none, or its fields make no sense.
fn fragment(ip: &Ip, bytes: &[u8]) -> Option<Fragment> {
    let (id, start, is_last) = match ip.version {
        IpVersion::V4 => {
            let field = be16(bytes, 6)?;
            (u32::from(ip.id), usize::from(field & 0x1fff) * 8, field & 0x2000 == 0)
        }
        // The fragment header is the last one followed (RFC 8200 §4.5).
        IpVersion::V6 => {
            let field = be16(bytes, ip.header_len.checked_sub(6)?)?;
            let id = be32(bytes, ip.header_len.checked_sub(4)?)?;
            (id, usize::from(field & 0xfff8), field & 1 == 0)
        }
    };
    let len = ip.total_len.checked_sub(ip.header_len)?;
    (len > 0).then_some(Fragment { id, start, end: start + len, is_last })
}
