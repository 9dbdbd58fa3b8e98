//! [`MptcpAnalyzer`]: connections of Multipath TCP, from the options of their subflows.
//!
//! Subflows are joined by tokens, which are hashes of keys: SHA-1 in version 0 (RFC 6824 §3.2), SHA-256 in
//! version 1 (RFC 8684 §3.2). Data of a connection is followed by its data sequence numbers, as the mappings
//! announce them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use capture::{Mapping, MptcpOptions, Segment};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::Serialize;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use units::{Duration, Instant, SeqNum};
use wire::TcpFlags;

use crate::report::{SampleSummary, summary};
use crate::samples::Samples;

/// One connection.
#[derive(Clone, Debug, Serialize)]
pub struct MptcpReport {
    /// Number, in the order of first packets.
    pub id: u64,
    /// Protocol version; none if no `MP_CAPABLE` was seen.
    pub version: Option<u8>,
    /// The keys were seen, so that further subflows are known to belong here.
    pub keys_known: bool,
    /// Closed at once (`MP_FASTCLOSE`).
    pub fast_close: bool,
    /// Its subflows, in the order of first packets.
    pub subflows: Vec<MptcpSubflow>,
    /// Data from the end that opened the connection, and to it.
    pub directions: [MptcpDirection; 2],
    /// What packets carried in both directions, in the order of capture; empty unless it was asked for.
    #[serde(skip)]
    pub mappings: [Vec<MappingSeen>; 2],
    /// Those beyond the most that are kept.
    #[serde(skip)]
    pub mappings_left_out: u64,
    /// The delays behind `out_of_order_delay`, longest last; empty unless mappings are kept.
    #[serde(skip)]
    pub delays: [Vec<Duration>; 2],
}

/// What one packet carried: a point of the graph of data sequence numbers over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingSeen {
    /// When.
    pub time: Instant,
    /// Data sequence number, all 64 bits.
    pub start: u64,
    /// Bytes.
    pub len: u32,
    /// The subflow's place among the connection's.
    pub subflow: u16,
    /// What its bytes are.
    pub news: MappingNews,
}

/// What a packet's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingNews {
    /// Bytes not seen before, at least some.
    Fresh,
    /// Bytes that another subflow had carried.
    Reinjected,
    /// Bytes that this subflow had carried.
    Repeated,
}

/// Packets kept for graphs at most, over all connections: some 10 MB.
const MAPPINGS_MAX: usize = 300_000;

/// One subflow.
#[derive(Clone, Debug, Serialize)]
pub struct MptcpSubflow {
    /// The end that opened the connection.
    pub client: SocketAddr,
    /// The other end.
    pub server: SocketAddr,
    /// Capture point.
    pub point: u16,
    /// First packet, nanoseconds since 1970-01-01 UTC.
    pub start_ns: u64,
    /// It joined by a token; false for the connection's first.
    pub joined: bool,
    /// Data from the client, and to it.
    pub directions: [SubflowDirection; 2],
}

/// One direction of a subflow.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SubflowDirection {
    /// Bytes first mapped here.
    pub bytes: u64,
    /// Of the connection's bytes in this direction.
    pub share: Option<f64>,
    /// Bytes mapped here after another subflow had carried them.
    pub reinjected_bytes: u64,
    /// Mappings seen, repetitions included.
    pub mappings: u64,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MptcpDirection {
    /// Bytes mapped, each once.
    pub bytes: u64,
    /// Bytes mapped again on another subflow.
    pub reinjected_bytes: u64,
    /// Mappings that came when an earlier data sequence number had not been seen.
    pub out_of_order: u64,
    /// From a mapping's first sight until everything before it had been seen: zero for those in order. Beside
    /// the receiver this is the time that data waits for other paths.
    pub out_of_order_delay: Option<SampleSummary>,
}

/// The data sequence of one direction.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// PacketFindings, by start: end and subflow.
    ranges: BTreeMap<u64, (u64, usize)>,
    /// Everything before it was seen.
    next: Option<u64>,
    /// PacketFindings above it: end and time, by start.
    waiting: BTreeMap<u64, (u64, Instant)>,
    delays: Samples<Duration>,
    /// The delays one by one, if they are kept.
    kept: Option<Vec<Duration>>,
    out_of_order: u64,
}

#[derive(Clone, Debug, Default)]
struct Connection {
    version: Option<u8>,
    /// Of the client and of the server.
    keys: [Option<u64>; 2],
    fast_close: bool,
    subflows: Vec<MptcpSubflow>,
    /// Sequence numbers of each subflow's SYN and SYN-ACK.
    first_numbers: Vec<[Option<SeqNum>; 2]>,
    /// The last mapping of each subflow.
    last_mappings: Vec<[Option<LastMapping>; 2]>,
    streams: [Stream; 2],
    /// What packets carried, for graphs.
    drawn: Option<[Stream; 2]>,
    mappings: [Vec<MappingSeen>; 2],
    mappings_left_out: u64,
}

/// A mapping, and its start in 64 bits and its bytes of data.
type LastMapping = (Mapping, (u64, u64));

/// Where a subflow belongs.
#[derive(Clone, Copy, Debug)]
struct Place {
    connection: usize,
    subflow: usize,
}

/// Follows all connections; give it the segments that have Multipath TCP options, in the order of capture.
#[derive(Clone, Debug, Default)]
pub struct MptcpAnalyzer {
    connections: Vec<Connection>,
    /// By capture point and ends, the lower first.
    subflows: HashMap<(u16, SocketAddr, SocketAddr), Place, FixedState>,
    /// Connection, and which of its ends owns the key, by capture point and token.
    tokens: BTreeMap<(u16, u32), (usize, usize)>,
    /// What packets carry is kept.
    keeps: bool,
    /// Packets for which there is still room.
    room: usize,
}

impl MptcpAnalyzer {
    /// Also keeps what single packets carry, for graphs.
    #[must_use]
    pub fn keeping_mappings(mut self) -> Self {
        self.keeps = true;
        self.room = MAPPINGS_MAX;
        self
    }

    /// Takes a segment's options.
    pub fn handle(&mut self, point: u16, segment: &Segment, options: &MptcpOptions, now: Instant) {
        let source = SocketAddr::new(segment.ip.src, segment.tcp.src_port);
        let destination = SocketAddr::new(segment.ip.dst, segment.tcp.dst_port);
        let key = (point, source.min(destination), source.max(destination));
        let is_syn = segment.tcp.flags.contains(TcpFlags::SYN);
        let is_answer = segment.tcp.flags.contains(TcpFlags::ACK);
        let place = match self.subflows.get(&key).copied() {
            // A port used again.
            Some(place) if is_syn && !is_answer && self.is_over(place, now) => {
                self.open(point, source, destination, options, now)
            }
            Some(place) => place,
            None => self.open(point, source, destination, options, now),
        };
        self.subflows.insert(key, place);
        let Some(connection) = self.connections.get_mut(place.connection) else { return };
        let from_server = usize::from(connection.subflows[place.subflow].client != source);
        if is_syn {
            connection.first_numbers[place.subflow][from_server] = Some(segment.tcp.seq);
        }
        connection.version = connection.version.or(options.capable);
        connection.fast_close |= options.is_fast_close;
        if options.capable.is_some() {
            let keys = [options.sender_key, options.receiver_key];
            for (end, key) in [from_server, 1 - from_server].into_iter().zip(keys) {
                connection.keys[end] = connection.keys[end].or(key);
            }
            let version = connection.version.unwrap_or(1);
            for (end, key) in connection.keys.into_iter().enumerate() {
                let token = key.map(|key| (token(version, key), (place.connection, end)));
                self.tokens.extend(token.map(|(token, owner)| ((point, token), owner)));
            }
        }
        let packet = (segment.tcp.seq, segment.tcp.payload_len as u64);
        connection.on_data(place.subflow, from_server, options, packet, now, &mut self.room);
    }

    fn is_over(&self, place: Place, now: Instant) -> bool {
        let subflow = &self.connections[place.connection].subflows[place.subflow];
        now.saturating_since(Instant::from_nanos(subflow.start_ns)) > Duration::from_secs(240)
    }

    fn open(
        &mut self,
        point: u16,
        source: SocketAddr,
        destination: SocketAddr,
        options: &MptcpOptions,
        now: Instant,
    ) -> Place {
        let joined = options.join_token.and_then(|token| self.tokens.get(&(point, token)).copied());
        // The token names the connection by the key of the end that the SYN goes to.
        let source_is_client = joined.is_none_or(|(_, owner)| owner == 1);
        let connection = match joined {
            Some((connection, _)) => connection,
            None => {
                let mut connection = Connection::default();
                if self.keeps {
                    connection.drawn = Some(Default::default());
                    connection.streams.iter_mut().for_each(|stream| stream.kept = Some(Vec::new()));
                }
                self.connections.push(connection);
                self.connections.len() - 1
            }
        };
        let (client, server) = if source_is_client { (source, destination) } else { (destination, source) };
        self.connections[connection].first_numbers.push([None; 2]);
        self.connections[connection].last_mappings.push([None; 2]);
        let subflows = &mut self.connections[connection].subflows;
        subflows.push(MptcpSubflow {
            client,
            server,
            point,
            start_ns: now.as_nanos(),
            joined: joined.is_some(),
            directions: [SubflowDirection::default(); 2],
        });
        Place { connection, subflow: subflows.len() - 1 }
    }

    /// The connections, in the order of first packets.
    #[must_use]
    pub fn finish(self) -> Vec<MptcpReport> {
        self.connections
            .into_iter()
            .enumerate()
            .map(|(id, connection)| connection.report(id as u64))
            .collect()
    }
}

/// The token of a key: the upper 32 bits of its hash.
fn token(version: u8, key: u64) -> u32 {
    let hash = hash(version, key);
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// The initial data sequence number of a key's owner: the lower 64 bits of its hash.
fn first_sequence(version: u8, key: u64) -> u64 {
    hash(version, key).iter().rev().take(8).rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

fn hash(version: u8, key: u64) -> Vec<u8> {
    match version {
        0 => Sha1::digest(key.to_be_bytes()).to_vec(),
        _ => Sha256::digest(key.to_be_bytes()).to_vec(),
    }
}

impl Connection {
    fn on_data(
        &mut self,
        subflow: usize,
        direction: usize,
        options: &MptcpOptions,
        packet: (SeqNum, u64),
        now: Instant,
        room: &mut usize,
    ) {
        if let (Some(version), Some(len), Some(key)) =
            (options.capable, options.first_data, self.keys[direction])
        {
            let start = first_sequence(version, key).wrapping_add(1);
            self.map(subflow, direction, (start, u64::from(len)), now);
            self.draw(subflow, direction, (start, u64::from(len)), now, room);
        }
        if let Some(mapping) = options.mapping {
            let mapped = self.mapped(direction, &mapping, options.is_fin);
            self.map(subflow, direction, mapped, now);
            self.last_mappings[subflow][direction] = Some((mapping, mapped));
        }
        // A packet without a mapping of its own goes on with the one before.
        if let Some((mapping, mapped)) = self.last_mappings[subflow][direction]
            && packet.1 > 0
        {
            let first = self.first_numbers[subflow][direction];
            let whole = options.mapping.is_some().then_some(mapped).filter(|_| first.is_none());
            if let Some(part) = carried(first, packet, &mapping, mapped).or(whole) {
                self.draw(subflow, direction, part, now, room);
            }
        }
    }

    /// Where a mapping starts, in 64 bits, and how many bytes of data it has.
    fn mapped(&self, direction: usize, mapping: &Mapping, is_fin: bool) -> (u64, u64) {
        let start = match mapping.is_wide {
            true => mapping.data_sequence,
            false => widen(self.streams[direction].next.unwrap_or(0), mapping.data_sequence as u32),
        };
        // A DATA_FIN takes one number, and is no data.
        (start, u64::from(mapping.len).saturating_sub(u64::from(is_fin)))
    }

    fn map(&mut self, subflow: usize, direction: usize, (start, len): (u64, u64), now: Instant) {
        let Some(end) = start.checked_add(len).filter(|end| *end > start) else { return };
        let found = self.streams[direction].add(start, end, subflow, now);
        let counts = &mut self.subflows[subflow].directions[direction];
        counts.mappings += 1;
        counts.bytes += found.0;
        counts.reinjected_bytes += found.1;
    }

    /// Keeps what a packet carries for graphs, if there is room.
    fn draw(
        &mut self,
        subflow: usize,
        direction: usize,
        (start, len): (u64, u64),
        now: Instant,
        room: &mut usize,
    ) {
        let Some(drawn) = &mut self.drawn else { return };
        let Some(end) = start.checked_add(len).filter(|end| *end > start) else { return };
        let news = match drawn[direction].add(start, end, subflow, now) {
            (1.., _) => MappingNews::Fresh,
            (0, 1..) => MappingNews::Reinjected,
            (0, 0) => MappingNews::Repeated,
        };
        if *room == 0 {
            self.mappings_left_out += 1;
            return;
        }
        *room -= 1;
        let seen = MappingSeen { time: now, start, len: len as u32, subflow: subflow as u16, news };
        self.mappings[direction].push(seen);
    }

    fn report(mut self, id: u64) -> MptcpReport {
        let directions = [0, 1].map(|direction| {
            let bytes: u64 = self.subflows.iter().map(|subflow| subflow.directions[direction].bytes).sum();
            for subflow in &mut self.subflows {
                let own = &mut subflow.directions[direction];
                own.share = (bytes > 0).then(|| own.bytes as f64 / bytes as f64);
            }
            let stream = &self.streams[direction];
            MptcpDirection {
                bytes,
                reinjected_bytes: self
                    .subflows
                    .iter()
                    .map(|s| s.directions[direction].reinjected_bytes)
                    .sum(),
                out_of_order: stream.out_of_order,
                out_of_order_delay: summary(&stream.delays),
            }
        });
        MptcpReport {
            id,
            version: self.version,
            keys_known: self.keys.iter().any(Option::is_some),
            fast_close: self.fast_close,
            subflows: self.subflows,
            directions,
            mappings: self.mappings,
            mappings_left_out: self.mappings_left_out,
            delays: self.streams.map(|stream| {
                let mut kept = stream.kept.unwrap_or_default();
                kept.sort_unstable();
                kept
            }),
        }
    }
}

/// What `packet` (sequence number, payload bytes) carries of a mapping of `len` bytes from `start` on: one
/// mapping may span many packets. None if it is not known: without the subflow's first number, or beyond the
/// mapping.
fn carried(
    first: Option<SeqNum>,
    (seq, payload): (SeqNum, u64),
    mapping: &Mapping,
    (start, len): (u64, u64),
) -> Option<(u64, u64)> {
    let offset = u64::from(seq.since(first?).wrapping_sub(mapping.subflow_sequence));
    (offset < len).then(|| (start.wrapping_add(offset), payload.min(len - offset)))
}

/// The 64-bit number nearest to `reference` with these lower 32 bits.
fn widen(reference: u64, low: u32) -> u64 {
    let distance = low.wrapping_sub(reference as u32) as i32;
    reference.wrapping_add_signed(i64::from(distance))
}

impl Stream {
    /// Adds `[start, end)` seen on `subflow`: gives the bytes not seen before, and those seen on another
    /// subflow.
    fn add(&mut self, start: u64, end: u64, subflow: usize, now: Instant) -> (u64, u64) {
        let mut fresh = Vec::new();
        let mut again_elsewhere = 0;
        let mut at = start;
        let before = self.ranges.range(..=start).next_back().map(|(from, _)| *from).unwrap_or(start);
        for (&from, &(to, carrier)) in self.ranges.range(before..end) {
            if to <= at {
                continue;
            }
            if from > at {
                fresh.push((at, from));
            }
            if carrier != subflow {
                again_elsewhere += to.min(end) - from.max(at);
            }
            at = to.max(at);
        }
        if at < end {
            fresh.push((at, end));
        }
        let bytes = fresh.iter().map(|(from, to)| to - from).sum();
        for (from, to) in fresh {
            self.insert(from, to, subflow);
            self.order(from, to, now);
        }
        (bytes, again_elsewhere)
    }

    /// Notes a fresh range; one that continues its predecessor on the same subflow extends it.
    fn insert(&mut self, from: u64, to: u64, subflow: usize) {
        if let Some((_, last)) = self.ranges.range_mut(..from).next_back()
            && last.0 == from
            && last.1 == subflow
        {
            last.0 = to;
            return;
        }
        self.ranges.insert(from, (to, subflow));
    }

    fn waited(&mut self, delay: Duration) {
        self.delays.record(delay);
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.len() < MAPPINGS_MAX) {
            kept.push(delay);
        }
    }

    fn order(&mut self, from: u64, to: u64, now: Instant) {
        let next = *self.next.get_or_insert(from);
        if from > next {
            self.out_of_order += 1;
            self.waiting.insert(from, (to, now));
            return;
        }
        self.waited(Duration::ZERO);
        let mut next = next.max(to);
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= next) {
            let (to, since) = first.remove();
            self.waited(now.saturating_since(since));
            next = next.max(to);
        }
        self.next = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_the_standards() {
        // A capture of Linux 6.18: the server's key of an MP_CAPABLE and the token of the MP_JOIN that
        // followed are checked on whole captures; here the hashes themselves (FIPS 180-4).
        assert_eq!(hash(0, 0).len(), 20);
        assert_eq!(hash(1, 0)[..4], [0xaf, 0x55, 0x70, 0xf5]);
        assert_eq!(hash(0, 0)[..4], [0x05, 0xfe, 0x40, 0x57]);
    }

    #[test]
    fn a_packet_carries_its_part_of_a_mapping() {
        let mapping = Mapping { data_sequence: 5_000, is_wide: true, subflow_sequence: 1, len: 3_000 };
        let first = Some(SeqNum::new(u32::MAX - 500));
        let part = |seq, payload| carried(first, (seq, payload), &mapping, (5_000, 3_000));
        assert_eq!(part(SeqNum::new(u32::MAX - 499), 1_400), Some((5_000, 1_400)));
        assert_eq!(part(SeqNum::new(900), 1_400), Some((6_400, 1_400)), "beyond the wrap");
        assert_eq!(part(SeqNum::new(2_300), 1_400), Some((7_800, 200)), "no more than the mapping");
        assert_eq!(part(SeqNum::new(900_000), 1_400), None, "outside of it");
        assert_eq!(carried(None, (SeqNum::new(7), 1_400), &mapping, (5_000, 3_000)), None);
    }

    #[test]
    fn reinjections_and_waiting_are_told() {
        let at = Instant::from_millis;
        let mut stream = Stream::default();
        assert_eq!(stream.add(1_000, 2_000, 0, at(0)), (1_000, 0));
        assert_eq!(stream.add(3_000, 4_000, 1, at(10)), (1_000, 0), "waits for what lies before");
        assert_eq!(stream.add(1_000, 2_000, 0, at(15)), (0, 0), "a repetition on its own subflow");
        assert_eq!(stream.add(2_000, 3_500, 0, at(30)), (1_000, 500), "half of it was carried by the other");
        assert_eq!(stream.out_of_order, 1);
        let delays = summary(&stream.delays).unwrap();
        assert_eq!((delays.n, delays.max_ms), (3, 20.0));
        assert_eq!(stream.next, Some(4_000));
    }

    #[test]
    fn numbers_of_32_bits_are_widened() {
        let reference = (7 << 32) + 0xffff_fff0;
        assert_eq!(widen(reference, 5), (8 << 32) + 5);
        assert_eq!(widen(reference, 0xffff_ff00), (7 << 32) + 0xffff_ff00);
    }
}
