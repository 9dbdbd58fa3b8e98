//! [`MptcpAnalyzer`]: connections of Multipath TCP, from the options of their subflows.
//!
//! Subflows are joined by tokens, which are hashes of keys: SHA-1 in version 0 (RFC 6824 §3.2), SHA-256 in
//! version 1 (RFC 8684 §3.2). Data of a connection is followed by its data sequence numbers: a mapping says
//! which they are, and the sequence numbers of a packet which part of the mapping it carries. Senders repeat a
//! mapping in each of its packets, and a mapping may be seen of which some packets never came: so what is
//! counted is what packets carry.

mod stream;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use capture::{Mapping, MptcpOptions, Segment};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::Serialize;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use units::{Duration, Instant};
use wire::TcpFlags;

use crate::report::{SampleSummary, summary};
use stream::{Carrier, Stream};

/// One connection.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Mappings that packets carried in both directions, in the order of capture; empty unless they were asked for.
    #[serde(skip)]
    pub mappings: [Vec<MappingSeen>; 2],
    /// Those beyond the most that are kept.
    #[serde(skip)]
    pub mappings_left_out: u64,
    /// The delays behind `out_of_order_delay`, longest last; empty unless mappings are kept.
    #[serde(skip)]
    pub delays: [Vec<Duration>; 2],
}

/// Mapping that one packet carried: a point of the graph of data sequence numbers over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingSeen {
    /// Time of the packet.
    pub time: Instant,
    /// Data sequence number, all 64 bits.
    pub start: u64,
    /// Bytes.
    pub len: u32,
    /// The subflow's place among the connection's.
    pub subflow: u16,
    /// Kind of its bytes.
    pub news: MappingNews,
}

/// Kind of a packet's bytes.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubflowDirection {
    /// Bytes of the connection's data that were seen here first.
    pub bytes: u64,
    /// Of the connection's bytes in this direction.
    pub share: Option<f64>,
    /// Bytes that this subflow carried after another one had; each counted once.
    pub reinjected_bytes: u64,
    /// Bytes that this subflow carried again: its own retransmissions. With the two others these are all bytes
    /// of data that it carried.
    pub repeated_bytes: u64,
    /// Packets that announced a mapping.
    pub mappings: u64,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MptcpDirection {
    /// Bytes of data, each once.
    pub bytes: u64,
    /// Bytes carried again by another subflow.
    pub reinjected_bytes: u64,
    /// Bytes carried again by the same subflow.
    pub repeated_bytes: u64,
    /// Packets with new data that came when an earlier data sequence number had not been seen.
    pub out_of_order: u64,
    /// From a packet's first sight until everything before its data had been seen: zero for those in order.
    /// Beside the receiver this is the time that data waits for other paths.
    pub out_of_order_delay: Option<SampleSummary>,
}

#[derive(Clone, Debug, Default)]
struct Connection {
    version: Option<u8>,
    /// Of the client and of the server.
    keys: [Option<u64>; 2],
    fast_close: bool,
    subflows: Vec<MptcpSubflow>,
    /// Both directions of each subflow.
    carriers: Vec<[Carrier; 2]>,
    streams: [Stream; 2],
    /// True if mappings of packets are kept, for graphs.
    keeps: bool,
    mappings: [Vec<MappingSeen>; 2],
    mappings_left_out: u64,
}

/// Connection and number of a subflow.
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
    /// True if mappings of packets are kept.
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
            connection.carriers[place.subflow][from_server].starts(segment.tcp.seq);
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
        connection.on_mapping(place.subflow, from_server, options, segment);
        connection.on_data(place.subflow, from_server, segment, now, &mut self.room);
    }

    /// Takes a segment with data and without options, which may go on with a mapping of before.
    #[inline]
    pub fn handle_plain(&mut self, point: u16, segment: &Segment, now: Instant) {
        if !self.subflows.is_empty() {
            self.go_on(point, segment, now);
        }
    }

    fn go_on(&mut self, point: u16, segment: &Segment, now: Instant) {
        let source = SocketAddr::new(segment.ip.src, segment.tcp.src_port);
        let destination = SocketAddr::new(segment.ip.dst, segment.tcp.dst_port);
        let key = (point, source.min(destination), source.max(destination));
        let Some(place) = self.subflows.get(&key).copied() else { return };
        let Some(connection) = self.connections.get_mut(place.connection) else { return };
        let from_server = usize::from(connection.subflows[place.subflow].client != source);
        connection.on_data(place.subflow, from_server, segment, now, &mut self.room);
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
                    connection.keeps = true;
                    connection.streams.iter_mut().for_each(|stream| stream.kept = Some(Vec::new()));
                }
                self.connections.push(connection);
                self.connections.len() - 1
            }
        };
        let (client, server) = if source_is_client { (source, destination) } else { (destination, source) };
        self.connections[connection].carriers.push(Default::default());
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
    /// Takes in what a segment's options announce of its subflow's data.
    fn on_mapping(&mut self, subflow: usize, direction: usize, options: &MptcpOptions, segment: &Segment) {
        let first = match (options.capable, options.first_data, self.keys[direction]) {
            (Some(version), Some(len), Some(key)) => Some(Mapping {
                data_sequence: first_sequence(version, key).wrapping_add(1),
                is_wide: true,
                subflow_sequence: 1,
                len,
            }),
            _ => None,
        };
        for mapping in first.into_iter().chain(options.mapping) {
            let mapped = self.mapped(direction, &mapping, options.is_fin);
            self.carriers[subflow][direction].on_mapping(mapping, mapped, segment.tcp.seq);
            self.subflows[subflow].directions[direction].mappings += u64::from(mapped.1 > 0);
        }
    }

    /// A segment's data, by the last mapping of its subflow.
    fn on_data(
        &mut self,
        subflow: usize,
        direction: usize,
        segment: &Segment,
        now: Instant,
        room: &mut usize,
    ) {
        let carrier = &mut self.carriers[subflow][direction];
        let payload = segment.tcp.payload_len as u64;
        let Some((start, end)) = carrier.part(segment.tcp.seq, payload) else { return };
        if carrier.is_copy(segment, (start, end), now) {
            return;
        }
        let found = self.streams[direction].add(start, end, carrier, now);
        let counts = &mut self.subflows[subflow].directions[direction];
        counts.bytes += found.fresh;
        counts.reinjected_bytes += found.reinjected;
        counts.repeated_bytes += found.repeated;
        if !self.keeps {
            return;
        }
        if *room == 0 {
            self.mappings_left_out += 1;
            return;
        }
        *room -= 1;
        let len = (end - start) as u32;
        let seen = MappingSeen { time: now, start, len, subflow: subflow as u16, news: found.news() };
        self.mappings[direction].push(seen);
    }

    /// Start of a mapping, in 64 bits, and number of its bytes of data.
    fn mapped(&self, direction: usize, mapping: &Mapping, is_fin: bool) -> (u64, u64) {
        let start = match mapping.is_wide {
            true => mapping.data_sequence,
            false => widen(self.streams[direction].next.unwrap_or(0), mapping.data_sequence as u32),
        };
        // A DATA_FIN takes one number, and is no data.
        (start, u64::from(mapping.len).saturating_sub(u64::from(is_fin)))
    }

    fn report(mut self, id: u64) -> MptcpReport {
        let directions = [0, 1].map(|direction| {
            let bytes: u64 = self.subflows.iter().map(|subflow| subflow.directions[direction].bytes).sum();
            for subflow in &mut self.subflows {
                let own = &mut subflow.directions[direction];
                own.share = (bytes > 0).then(|| own.bytes as f64 / bytes as f64);
            }
            let stream = &self.streams[direction];
            let sum = |of: fn(&SubflowDirection) -> u64| {
                self.subflows.iter().map(|subflow| of(&subflow.directions[direction])).sum()
            };
            MptcpDirection {
                bytes,
                reinjected_bytes: sum(|way| way.reinjected_bytes),
                repeated_bytes: sum(|way| way.repeated_bytes),
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

/// The 64-bit number nearest to `reference` with these lower 32 bits.
fn widen(reference: u64, low: u32) -> u64 {
    let distance = low.wrapping_sub(reference as u32) as i32;
    reference.wrapping_add_signed(i64::from(distance))
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
    fn numbers_of_32_bits_are_widened() {
        let reference = (7 << 32) + 0xffff_fff0;
        assert_eq!(widen(reference, 5), (8 << 32) + 5);
        assert_eq!(widen(reference, 0xffff_ff00), (7 << 32) + 0xffff_ff00);
    }
}
