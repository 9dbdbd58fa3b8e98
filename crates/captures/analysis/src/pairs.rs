//! [`PairFinder`]: one transfer captured at both of its ends, also where addresses are translated between them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;

use crate::direction::{Direction, PerDirection};
use crate::opening::OpeningMark;
use crate::report::FlowReport;
use crate::vantage::Vantage;

/// The same connection seen at two capture points, as [MP] §III-A captured: on the client's interface and
/// the server's.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// The flow captured nearer to the client.
    pub client_flow: u64,
    /// The flow captured nearer to the server.
    pub server_flow: u64,
    /// Ends of these two flows, in this order. Not in JSON, where the flows themselves say it.
    #[serde(skip)]
    pub ends: [FlowEnds; 2],
    /// The server's clock less the client's, milliseconds: from SYN and SYN-ACK at both points as in RFC 5905
    /// §8, right if both ways take equally long.
    pub clock_offset_ms: f64,
    /// Time from one point to the other and back during the handshake, milliseconds.
    pub path_rtt_ms: f64,
    /// The ends have other addresses or ports at the other point: something between translates them. What
    /// both SYNs say is the same then: their sequence numbers, or their timestamps.
    pub is_translated: bool,
    /// Something between the two points acknowledges by itself, as this project's accelerator: data was
    /// acknowledged sooner than the way to the other point and back allows. Each side has packets of its own
    /// then, and `lost_to_server` and `lost_to_client` are absent.
    pub is_divided: bool,
    /// Packets from the client that the server's point did not see; super-packets count as the segments they
    /// stand for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_to_server: Option<u64>,
    /// Packets from the server that the client's point did not see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_to_client: Option<u64>,
}

/// Ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEnds {
    /// Place, among the captures, of the file in which its first packet lies.
    pub capture: u16,
    /// Sender of its first packet.
    pub first: SocketAddr,
    /// Its other end.
    pub second: SocketAddr,
}

/// Facts needed of a flow.
#[derive(Clone, Copy, Debug)]
struct Observation {
    flow: u64,
    point: u16,
    ends: FlowEnds,
    syn_ns: u64,
    /// SYN to SYN-ACK at this point.
    to_server_ms: f64,
    /// Packets on the wire by the client and by the server.
    packets: [u64; 2],
    /// The shortest round trip of the client's data and of the server's, from this point on.
    data_rtt_ms: [Option<f64>; 2],
    /// The largest windows that client and server advertised.
    windows: [Option<u64>; 2],
    is_at_client: bool,
    opening: Option<OpeningMark>,
}

impl Observation {
    /// True when the other may be the same connection elsewhere, as place and time go.
    fn is_elsewhere(&self, other: &Self) -> bool {
        other.point != self.point && other.syn_ns.abs_diff(self.syn_ns) < APART_NS
    }
}

/// Clocks further apart than this are not compared: the ports may have been used again.
const APART_NS: u64 = 60_000_000_000;

/// Fewer round trips of data than this show no shortest one.
const SAMPLES_MIN: u64 = 5;

/// Collects flows, and finds those that are one.
#[derive(Clone, Debug, Default)]
pub struct PairFinder {
    sights: BTreeMap<(SocketAddr, SocketAddr), Vec<Observation>>,
    pairs: Vec<Pair>,
}

impl PairFinder {
    /// Takes a flow; those without a whole handshake cannot be paired.
    pub fn push(&mut self, flow: &FlowReport) {
        let (Some(client), Some(to_server_ms)) = (flow.client, flow.handshake.to_server_ms) else {
            return;
        };
        let of_both = [client, client.reverse()];
        let ends = PerDirection::new(flow.first, flow.second);
        let packets = of_both.map(|end| flow.directions[end].volume.wire_segments);
        let at_client = match client {
            Direction::FromFirst => Vantage::First,
            Direction::FromSecond => Vantage::Second,
        };
        let sight = Observation {
            flow: flow.id,
            point: flow.point,
            ends: FlowEnds { capture: flow.capture, first: flow.first, second: flow.second },
            syn_ns: flow.start_ns,
            to_server_ms,
            packets,
            data_rtt_ms: of_both.map(|end| {
                let karn = flow.directions[end].rtt.karn?;
                (karn.n >= SAMPLES_MIN).then_some(karn.min_ms)
            }),
            windows: of_both.map(|end| flow.directions[end].window.max),
            is_at_client: flow.vantage == Some(at_client),
            opening: flow.handshake.mark,
        };
        let seen = self.sights.entry((ends[client], ends[client.reverse()])).or_default();
        match seen.iter().position(|other| sight.is_elsewhere(other)) {
            Some(index) => {
                let other = seen.swap_remove(index);
                self.pairs.push(pair(&other, &sight, false));
            }
            None => seen.push(sight),
        }
    }

    /// The pairs, in the order of the client's flows.
    #[must_use]
    pub fn finish(mut self) -> Vec<Pair> {
        let mut alone: Vec<Observation> = std::mem::take(&mut self.sights).into_values().flatten().collect();
        alone.sort_by_key(|sight| sight.flow);
        let alone = self.join(alone, |opening| Some(opening.numbers));
        self.join(alone, |opening| opening.stamps);
        self.pairs.sort_by_key(|pair| pair.client_flow);
        self.pairs
    }
}

impl PairFinder {
    /// Joins flows between other addresses by what `mark` takes of their SYNs, if only two have the same; gives
    /// those that stay alone.
    fn join(
        &mut self,
        alone: Vec<Observation>,
        mark: impl Fn(&OpeningMark) -> Option<[u32; 2]>,
    ) -> Vec<Observation> {
        let mut by_mark: BTreeMap<[u32; 2], Vec<Observation>> = BTreeMap::new();
        let mut left = Vec::new();
        for sight in alone {
            match sight.opening.as_ref().and_then(&mark) {
                Some(mark) => by_mark.entry(mark).or_default().push(sight),
                None => left.push(sight),
            }
        }
        for alike in by_mark.into_values() {
            match alike.as_slice() {
                [a, b] if a.is_elsewhere(b) => self.pairs.push(pair(a, b, true)),
                _ => left.extend(alike),
            }
        }
        left.sort_by_key(|sight| sight.flow);
        left
    }
}

/// The point nearer to the client waits longer for the SYN-ACK.
fn pair(a: &Observation, b: &Observation, is_translated: bool) -> Pair {
    let a_is_client = a.is_at_client || (!b.is_at_client && a.to_server_ms >= b.to_server_ms);
    let (client, server) = if a_is_client { (a, b) } else { (b, a) };
    let between_syns = (server.syn_ns as i64 - client.syn_ns as i64) as f64 / 1e6;
    // The way there: offset + delay. The way back: delay - offset.
    let path_rtt_ms = client.to_server_ms - server.to_server_ms;
    let is_divided = is_divided(client, server, path_rtt_ms);
    let lost = |sent: u64, seen: u64| (!is_divided).then(|| sent.saturating_sub(seen));
    Pair {
        is_translated,
        is_divided,
        client_flow: client.flow,
        server_flow: server.flow,
        ends: [client.ends, server.ends],
        clock_offset_ms: between_syns - path_rtt_ms / 2.0,
        path_rtt_ms,
        lost_to_server: lost(client.packets[0], server.packets[0]),
        lost_to_client: lost(server.packets[1], client.packets[1]),
    }
}

/// True when data was acknowledged between the points.
///
/// An acknowledgement from behind the far point passes both: seen from the near point no round trip of data
/// can be shorter than the shortest from the far one, nor than the way between them. The latter is known from
/// the handshake alone, which may have waited for a radio to wake up: so it counts only where the hosts'
/// windows, too, are not the same at both points.
fn is_divided(client: &Observation, server: &Observation, path_rtt_ms: f64) -> bool {
    let is_other = |a: Option<u64>, b: Option<u64>| a.zip(b).is_some_and(|(a, b)| a != b);
    let has_other_windows = (0..2).any(|end| is_other(client.windows[end], server.windows[end]));
    let too_soon = |near: &Observation, far: &Observation, end: usize| {
        let Some(near_ms) = near.data_rtt_ms[end] else { return false };
        let beyond = far.data_rtt_ms[end].is_some_and(|far_ms| near_ms < far_ms / 2.0);
        beyond || (has_other_windows && near_ms < path_rtt_ms / 2.0)
    };
    too_soon(client, server, 0) || too_soon(server, client, 1)
}
