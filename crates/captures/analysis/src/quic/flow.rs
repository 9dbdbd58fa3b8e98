//! [`QuicFlow`]: what is known of one flow that may be QUIC.

mod report;

use std::hash::BuildHasher as _;
use std::net::SocketAddr;

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use units::{Duration, Instant};

use super::connection_ids::ConnectionIds;
use super::course::{Course, Span};
use super::handshake::Handshake;
use super::header::{ConnectionId, Header, Headers, ID_MAX, Kind};
use super::lru::Key;
use super::pauses::Pauses;
use super::report::{Move, QuicEvidence, QuicPackets};
use super::spin::Spin;
use crate::direction::{Direction, PerDirection};

/// Port of HTTPS, and so of HTTP/3 (RFC 9114 §3.1.2).
pub(super) const HTTPS: u16 = 443;
/// Least payload of a datagram with a client's Initial packet, bytes (RFC 9000 §14.1).
const INITIAL_MIN: usize = 1_200;
/// Short headers from which on a flow to port 443 without a handshake is taken for QUIC, and different values of their
/// five protected bits: 16 random ones have 13, and fewer than 8 once in thousands.
const SHORT_MIN: u64 = 16;
const VALUES_MIN: u32 = 8;
/// Time after which a client that connects again uses old ports for a new flow; before, two connections share them.
const APART: Duration = Duration::from_secs(3);
/// IDs of a flow that are remembered: those towards its server, and those of client's Initial packets.
const IDS_MAX: usize = 4;
const INITIAL_IDS_MAX: usize = 16;
/// Moves of a flow that are listed.
pub(super) const MOVES_MAX: usize = 8;
/// Datagrams of a direction among which copies are found.
const RECENT: usize = 8;
/// Captured bytes that tell a datagram from all others: a short header, the longest ID, and twelve that are encrypted.
const TELLING: usize = 1 + ID_MAX + 12;
/// Bytes of a datagram that are looked at for that.
const LOOKED_AT: usize = 64;

/// One datagram as it was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) now: Instant,
    pub(crate) capture: u16,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    /// Bytes captured of it.
    pub(crate) payload: &'a [u8],
    /// Bytes of payload on the wire.
    pub(crate) payload_len: usize,
    /// Bytes of its IP packet.
    pub(crate) ip_bytes: u64,
    pub(crate) ecn: u8,
    pub(crate) is_tunnelled: bool,
}

impl Seen<'_> {
    /// True when its first packet has a short header.
    pub(crate) fn is_short(&self) -> bool {
        self.payload.first().is_some_and(|first| first & 0xc0 == 0x40)
    }
}

/// Counts of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Way {
    pub(crate) datagrams: u64,
    pub(crate) duplicates: u64,
    pub(crate) ip_bytes: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) payload_max: u64,
    pub(crate) packets: QuicPackets,
    pub(crate) ect: u64,
    pub(crate) ce: u64,
    pub(crate) span: Span,
    /// Hashes of the last datagrams.
    recent: [u32; RECENT],
    next_recent: u8,
}

impl Way {
    /// True when a datagram is one of the last ones again: nothing in QUIC is encrypted twice to the same bytes.
    fn is_copy(&mut self, seen: &Seen<'_>) -> bool {
        let is_whole = seen.payload.len() >= seen.payload_len;
        if seen.payload.len() < TELLING && !is_whole {
            return false;
        }
        let bytes = seen.payload.get(..LOOKED_AT).unwrap_or(seen.payload);
        // Zero is for places that are empty.
        let hash = (FixedState::with_seed(0).hash_one((bytes, seen.payload_len)) as u32).max(1);
        if self.recent.contains(&hash) {
            return true;
        }
        let place = usize::from(self.next_recent) % RECENT;
        self.recent[place] = hash;
        self.next_recent = self.next_recent.wrapping_add(1);
        false
    }

    fn count(&mut self, seen: &Seen<'_>) {
        self.datagrams += 1;
        self.ip_bytes += seen.ip_bytes;
        self.payload_bytes += seen.payload_len as u64;
        self.payload_max = self.payload_max.max(seen.payload_len as u64);
        self.ect += u64::from(matches!(seen.ecn, 1 | 2));
        self.ce += u64::from(seen.ecn == 3);
        self.span.add(seen.now);
    }

    fn absorb(&mut self, other: &Self) {
        self.datagrams += other.datagrams;
        self.duplicates += other.duplicates;
        self.ip_bytes += other.ip_bytes;
        self.payload_bytes += other.payload_bytes;
        self.payload_max = self.payload_max.max(other.payload_max);
        self.packets.short += other.packets.short;
        self.packets.unrecognized += other.packets.unrecognized;
        self.ect += other.ect;
        self.ce += other.ce;
    }
}

/// One flow between two ends.
#[derive(Clone, Debug)]
pub(crate) struct QuicFlow {
    pub(crate) number: u64,
    pub(crate) point: u16,
    pub(crate) capture: u16,
    pub(crate) is_tunnelled: bool,
    /// Sender of the first packet and the other end, as they were then.
    pub(crate) opened: [SocketAddr; 2],
    /// The same now.
    ends: [SocketAddr; 2],
    pub(crate) start: Instant,
    pub(crate) last: Instant,
    evidence: Option<QuicEvidence>,
    pub(crate) client: Option<Direction>,
    /// Version of the client's first long header, and of the server's last.
    pub(crate) offered: Option<u32>,
    pub(crate) version: Option<u32>,
    /// The ID that each end chose last in a long header, and that it used for the other end.
    pub(crate) chosen: PerDirection<Option<ConnectionId>>,
    used: PerDirection<Option<ConnectionId>>,
    /// IDs in short headers, if those are as long as the other end's were in the handshake.
    current: PerDirection<Option<ConnectionId>>,
    pub(crate) id_changes: PerDirection<u64>,
    /// Destination IDs of the client's Initial packets, and the server's IDs in long headers.
    initial_ids: SmallVec<[ConnectionId; 2]>,
    /// IDs by which it is found at another address, and those among them that are new.
    pub(crate) server_ids: SmallVec<[ConnectionId; 2]>,
    new_ids: SmallVec<[ConnectionId; 2]>,
    /// Connections that use these ports.
    pub(crate) connections: u64,
    /// A bit for each value seen of the five protected bits of short headers.
    short_values: u32,
    pub(crate) handshake: Handshake,
    pub(crate) spin: Spin,
    pub(crate) pauses: Pauses,
    pub(crate) course: Course,
    pub(crate) ways: PerDirection<Way>,
    pub(crate) moves: Vec<Move>,
    pub(crate) moves_left_out: u64,
    /// Its ends before it moved, for what was under way then.
    pub(crate) old_keys: Vec<Key>,
}

impl QuicFlow {
    /// The flow that `seen` opens, without it.
    pub(crate) fn new(number: u64, point: u16, seen: &Seen<'_>) -> Self {
        let ends = [seen.source, seen.destination];
        let client = match ends.map(|end| end.port() == HTTPS) {
            [true, false] => Some(Direction::FromSecond),
            [false, true] => Some(Direction::FromFirst),
            _ => None,
        };
        Self {
            number,
            point,
            capture: seen.capture,
            is_tunnelled: seen.is_tunnelled,
            opened: ends,
            ends,
            start: seen.now,
            last: seen.now,
            evidence: None,
            client,
            offered: None,
            version: None,
            chosen: PerDirection::default(),
            used: PerDirection::default(),
            current: PerDirection::default(),
            id_changes: PerDirection::default(),
            initial_ids: SmallVec::new(),
            server_ids: SmallVec::new(),
            new_ids: SmallVec::new(),
            connections: 0,
            short_values: 0,
            handshake: Handshake::default(),
            spin: Spin::default(),
            pauses: Pauses::default(),
            course: Course::default(),
            ways: PerDirection::default(),
            moves: Vec::new(),
            moves_left_out: 0,
            old_keys: Vec::new(),
        }
    }

    /// Evidence that it is QUIC; none if it is not.
    pub(crate) fn evidence(&self) -> Option<QuicEvidence> {
        let sum = |of: fn(&QuicPackets) -> u64| self.ways.iter().map(|way| of(&way.packets)).sum::<u64>();
        let looks_like_it = || {
            self.ends.iter().any(|end| end.port() == HTTPS)
                && sum(|packets| packets.short) >= SHORT_MIN
                && sum(|packets| packets.unrecognized) == 0
                && self.short_values.count_ones() >= VALUES_MIN
        };
        self.evidence.or_else(|| looks_like_it().then_some(QuicEvidence::Port))
    }

    /// The server's address, if it is known which end it is.
    pub(crate) fn server(&self) -> Option<SocketAddr> {
        let [first, second] = self.ends;
        self.client.map(|client| if client == Direction::FromFirst { second } else { first })
    }

    /// The direction of what `source` sends; a client's old addresses are the client's, too.
    fn direction(&self, source: SocketAddr) -> Direction {
        match self.client.zip(self.server()) {
            Some((client, server)) if source == server => client.reverse(),
            Some((client, _)) if !self.moves.is_empty() => client,
            _ => Direction::from_second_if(source != self.ends[0]),
        }
    }

    /// True when a datagram opens a connection of its own on ports that were silent.
    pub(crate) fn is_reopened_by(&self, seen: &Seen<'_>) -> bool {
        seen.now.saturating_since(self.last) >= APART
            && self.client == Some(self.direction(seen.source))
            && Headers::new(seen.payload, seen.payload_len)
                .next()
                .is_some_and(|header| self.is_new_connection(&header, seen.payload_len))
    }

    /// True of a client's Initial packet for an ID that this connection does not know (RFC 9000 §7.2). Where IDs are cut
    /// off nobody knows.
    fn is_new_connection(&self, header: &Header, payload_len: usize) -> bool {
        let is_same_client = || {
            let own = self.client.and_then(|client| self.chosen[client]).filter(|id| id.len() > 0);
            own.is_some() && header.source == own
        };
        header.kind == Kind::Initial
            && payload_len >= INITIAL_MIN
            && !self.initial_ids.is_empty()
            && header.source.is_some()
            && header.destination.is_some_and(|id| !self.initial_ids.contains(&id))
            && !is_same_client()
    }

    /// Takes a datagram.
    pub(crate) fn handle(&mut self, seen: &Seen<'_>) {
        let direction = self.direction(seen.source);
        let now = seen.now;
        let way = &mut self.ways[direction];
        if way.is_copy(seen) {
            way.duplicates += 1;
            return;
        }
        way.count(seen);
        self.last = self.last.max(now);
        let round_trip = self.handshake.total();
        self.pauses.on_packet(direction, now, round_trip);
        self.course.add(direction, now.saturating_since(self.start), seen.payload_len as u64);
        let mut is_first = true;
        for header in Headers::new(seen.payload, seen.payload_len) {
            self.ways[direction].packets.count(header.kind);
            match header.kind {
                Kind::Short { spin } if is_first => self.on_short(direction, spin, seen),
                Kind::Short { .. } => {}
                _ => self.on_long(direction, &header, seen, is_first),
            }
            is_first = false;
        }
        if is_first {
            self.ways[direction].packets.unrecognized += 1;
        }
    }

    fn on_long(&mut self, direction: Direction, header: &Header, seen: &Seen<'_>, is_first: bool) {
        self.note_evidence(direction, header);
        self.note_client(direction, header);
        let is_client = self.client == Some(direction);
        if is_client && is_first {
            if self.is_new_connection(header, seen.payload_len) || self.connections == 0 {
                self.connections += 1;
            }
            if header.kind == Kind::Initial {
                self.note_initial_id(header.destination);
            }
            self.handshake.on_client(header, seen.now);
        }
        if self.client == Some(direction.reverse()) {
            if header.kind != Kind::VersionNegotiation {
                self.note_initial_id(header.source);
                self.note_server_id(header.source);
            }
            if is_first {
                self.handshake.on_server(header, seen.now);
            }
        }
        if let Some(version) = header.version.filter(|version| *version != 0) {
            match is_client {
                true => self.offered = self.offered.or(Some(version)),
                false => self.version = Some(version),
            }
        }
        // Version Negotiation repeats the client's IDs.
        if header.kind != Kind::VersionNegotiation {
            self.chosen[direction] = header.source.or(self.chosen[direction]);
            self.used[direction] = header.destination.or(self.used[direction]);
        }
    }

    /// A known version, or IDs that only who has seen the other end's packets can know.
    fn note_evidence(&mut self, direction: Direction, header: &Header) {
        let is_telling = |id: &ConnectionId| ConnectionIds::is_usable(*id);
        let other = direction.reverse();
        let found = match header.kind {
            Kind::OtherLong | Kind::VersionNegotiation => {
                let answers = header.destination.filter(is_telling).is_some()
                    && header.destination == self.chosen[other];
                let repeats = header.kind == Kind::VersionNegotiation
                    && header.source.filter(is_telling).is_some()
                    && header.source == self.used[other];
                (answers || repeats).then_some(QuicEvidence::ConnectionIds)
            }
            Kind::Short { .. } => None,
            _ => Some(QuicEvidence::Version),
        };
        self.evidence = match (self.evidence, found) {
            (Some(QuicEvidence::Version), _) | (_, Some(QuicEvidence::Version)) => {
                Some(QuicEvidence::Version)
            }
            (known, found) => known.or(found),
        };
    }

    /// Finds out which end is the client: who sends 0-RTT packets, or does not send what only servers send,
    /// or opens the flow.
    fn note_client(&mut self, direction: Direction, header: &Header) {
        if self.client.is_some() {
            return;
        }
        let is_alone = self.ways[direction.reverse()].datagrams == 0;
        self.client = match header.kind {
            Kind::ZeroRtt => Some(direction),
            Kind::Retry | Kind::VersionNegotiation => Some(direction.reverse()),
            Kind::Initial if is_alone => Some(direction),
            _ => None,
        };
    }

    fn note_initial_id(&mut self, id: Option<ConnectionId>) {
        if let Some(id) = id
            && self.initial_ids.len() < INITIAL_IDS_MAX
            && !self.initial_ids.contains(&id)
        {
            self.initial_ids.push(id);
        }
    }

    fn note_server_id(&mut self, id: Option<ConnectionId>) {
        if let Some(id) = id
            && ConnectionIds::is_usable(id)
            && self.server_ids.len() < IDS_MAX
            && !self.server_ids.contains(&id)
        {
            self.server_ids.push(id);
            self.new_ids.push(id);
        }
    }

    /// The IDs that have become known with the last datagram, once.
    pub(crate) fn take_new_ids(&mut self) -> SmallVec<[ConnectionId; 2]> {
        std::mem::take(&mut self.new_ids)
    }

    fn on_short(&mut self, direction: Direction, spin: bool, seen: &Seen<'_>) {
        if let Some(first) = seen.payload.first() {
            self.short_values |= 1 << (first & 0x1f);
        }
        let is_client = self.client == Some(direction);
        if is_client {
            self.handshake.on_client_short(seen.now);
        }
        self.spin.on_packet(direction, spin, seen.now, self.handshake.total(), self.client);
        let Some(chosen) = self.chosen[direction.reverse()].filter(|id| id.len() > 0) else { return };
        let Some(id) = seen.payload.get(1..=chosen.len()).and_then(ConnectionId::new) else { return };
        let current = &mut self.current[direction];
        if *current == Some(id) {
            return;
        }
        let is_change = current.replace(id).unwrap_or(chosen) != id;
        self.id_changes[direction] += u64::from(is_change);
        if is_client {
            self.note_server_id(Some(id));
        }
    }

    /// Its client goes on at `client`.
    pub(crate) fn move_client(&mut self, client: SocketAddr, now: Instant) {
        let Some(direction) = self.client else { return };
        let end = &mut self.ends[usize::from(direction)];
        let from = std::mem::replace(end, client);
        if self.moves.len() < MOVES_MAX {
            self.moves.push(Move { time_ns: now.as_nanos(), from, to: client });
        } else {
            self.moves_left_out += 1;
        }
    }

    /// Takes over what was counted at its client's new address before it was known whose that is.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (at, end) in other.ends.iter().enumerate() {
            let direction = self.direction(*end);
            self.ways[direction].absorb(&other.ways[Direction::BOTH[at]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_stays_small() {
        // Tens of thousands in progress: see `FLOWS_MAX`.
        assert!(size_of::<QuicFlow>() <= 2_048, "{}", size_of::<QuicFlow>());
    }
}
