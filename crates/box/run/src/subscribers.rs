//! View of subscribers: in parts of bounded size, found in a time that does not depend on how many flows
//! there are, so that a live view may ask every second.

use std::net::IpAddr;

use engine::{Engine, SubscriberReport};
use serde::{Deserialize, Serialize};
use units::{Instant, Rate};

use crate::status::{line, passed_lines};
use crate::{FlowLine, PassedLine};

/// Places of the table of subscribers that one answer looks at.
const SUBSCRIBERS_LOOKED_AT: u32 = 256;

/// Places of the table of flows that one answer looks at, for those of one subscriber.
const FLOWS_LOOKED_AT: u32 = 1_000;

/// A place in the table of all shards: the shard's number stands above those of its own places.
const SHARD_SHIFT: u32 = 40;

/// Windows that limit nothing.
const NO_WINDOW: u64 = 1 << 50;

/// Part of the subscribers that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberList {
    /// Those at the places that were looked at.
    pub subscribers: Vec<SubscriberLine>,
    /// Place at which to ask on; none behind the last one.
    pub next: Option<u64>,
}

/// A subscriber, as data towards clients has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubscriberLine {
    /// Its address; of an IPv6 prefix the first one.
    pub address: IpAddr,
    /// The client's port, where each flow has a controller of its own (`--sharing flow`).
    pub port: Option<u16>,
    /// Flows in the table.
    pub flows: u32,
    /// Time since a flow was opened or data was sent, ms.
    pub idle_ms: u64,
    /// Payload that has reached it since its controller began, bytes.
    pub delivered_bytes: u64,
    /// Payload that was sent again since this process has its flows, bytes.
    pub retransmitted_bytes: u64,
    /// Sent and not acknowledged, bytes.
    pub in_flight_bytes: u64,
    /// Memory in buffers of its flows, bytes.
    pub held_bytes: u64,
    /// Smoothed round-trip time over all its flows, µs; none before the first.
    pub srtt_us: Option<u64>,
    /// Estimate of the time in queues, µs: smoothed round trips less the shortest one of their flow.
    pub queueing_us: Option<u64>,
    /// Rate at which its controller sends, bit/s; none where a window alone limits it, and before there was data.
    pub rate_bps: Option<u64>,
    /// Amount of data that its controller lets be in flight, bytes; none where a rate alone limits it, and
    /// before there was data.
    pub window_bytes: Option<u64>,
    /// Traffic that passes to it in one schedule with its flows, or alone; none before anything did.
    #[serde(default)]
    pub opaque: Option<OpaqueLine>,
}

/// Traffic that passes to a subscriber in its schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpaqueLine {
    /// Bytes that wait for their turn.
    pub waiting_bytes: u64,
    /// Payload under way to it, as far as that is known.
    pub in_flight_bytes: u64,
    /// Evidence for the queue: `accelerated` (acknowledgements of accelerated flows), `passed-tcp` (those of
    /// TCP that passes), `echo` (replies to echo requests), `none`, or `contradicted` (they do not fit a
    /// queue that is first in, first out); with the last two nothing waits.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["accelerated", "passed-tcp", "echo", "none", "contradicted"])))]
    pub evidence: String,
    /// Bytes of packets that have passed so far: of TCP.
    #[serde(default)]
    pub tcp_bytes: u64,
    /// Of QUIC, as far as that shows: from port 443, or with a long header of version 1 or 2.
    #[serde(default)]
    pub quic_bytes: u64,
    /// Of other UDP.
    #[serde(default)]
    pub udp_bytes: u64,
    /// Of all else.
    #[serde(default)]
    pub other_bytes: u64,
    /// Version of QUIC in the newest handshake that was seen (RFC 8999), as a number.
    #[serde(default)]
    pub quic_version: Option<u32>,
    /// Round trip of that handshake between the accelerator and the client, µs.
    #[serde(default)]
    pub quic_handshake_us: Option<u64>,
}

/// A subscriber, part of its flows, and flows of it that were passed or ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberView {
    /// It; none when it is not known.
    pub subscriber: Option<SubscriberLine>,
    /// Its flows among those at the places that were looked at.
    pub flows: Vec<FlowLine>,
    /// Place at which to ask on for more of its flows; none behind the last one.
    pub next: Option<u64>,
    /// Flows of it among the 256 of its shard that were passed or ended last, newest first.
    pub passed: Vec<PassedLine>,
}

/// Shard that a place in the table of all shards is in, and where there.
pub(crate) fn shard_and_place(from: u64) -> (usize, u64) {
    let shard = from >> SHARD_SHIFT;
    (usize::try_from(shard).unwrap_or(usize::MAX), from & ((1 << SHARD_SHIFT) - 1))
}

impl SubscriberList {
    /// The same, of one of `shards` shards: behind its end comes the next one.
    pub(crate) fn of_shard(self, shard: usize, shards: usize) -> Self {
        let place = |shard: usize, place: u64| ((shard as u64) << SHARD_SHIFT) | place;
        let next = self.next.map(|next| place(shard, next));
        let behind = (shard.saturating_add(1) < shards).then(|| place(shard + 1, 0));
        Self { next: next.or(behind), ..self }
    }
}

/// The engine's subscribers from a place on.
pub(crate) fn list_of_engine(engine: &Engine, from: u64, now: Instant) -> SubscriberList {
    let page = engine.subscriber_page(from, SUBSCRIBERS_LOOKED_AT);
    let subscribers = page.found.iter().map(|report| subscriber_line(report, now)).collect();
    SubscriberList { subscribers, next: page.next }
}

/// The engine's subscriber of an address, with flows from a place on.
pub(crate) fn view_of_engine(engine: &Engine, client: IpAddr, from: u64, now: Instant) -> SubscriberView {
    let page = engine.flow_page(Some(client), from, FLOWS_LOOKED_AT);
    let subscriber = engine.subscriber_report(client).map(|report| subscriber_line(&report, now));
    let is_same = |other: IpAddr| {
        let prefix_len = engine.config().ipv6_prefix_len;
        match (client, other) {
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let host_bits = 128 - u32::from(prefix_len.min(128));
                (a.to_bits() ^ b.to_bits()).checked_shr(host_bits).unwrap_or(0) == 0
            }
            (a, b) => a == b,
        }
    };
    let passed = passed_lines(engine).filter(|flow| is_same(flow.client.ip())).collect();
    let flows = page.found.iter().map(|report| line(report, now)).collect();
    SubscriberView { subscriber, flows, next: page.next, passed }
}

fn subscriber_line(report: &SubscriberReport, now: Instant) -> SubscriberLine {
    let idle_ms = now.saturating_since(report.last_used).as_millis();
    let bare = SubscriberLine {
        address: report.address,
        port: report.port,
        flows: report.flows,
        idle_ms,
        delivered_bytes: 0,
        retransmitted_bytes: 0,
        in_flight_bytes: 0,
        held_bytes: 0,
        srtt_us: None,
        queueing_us: None,
        rate_bps: None,
        window_bytes: None,
        opaque: None,
    };
    let Some(path) = &report.path else { return bare };
    SubscriberLine {
        delivered_bytes: path.delivered.get(),
        retransmitted_bytes: path.retransmitted.get(),
        in_flight_bytes: path.in_flight.get(),
        held_bytes: path.held.get(),
        srtt_us: path.srtt.map(|srtt| srtt.as_micros()),
        queueing_us: path.queueing.map(|queueing| queueing.as_micros()),
        rate_bps: Some(path.rate).filter(|rate| *rate < Rate::MAX).map(Rate::as_bps),
        window_bytes: Some(path.window.get()).filter(|window| *window < NO_WINDOW),
        opaque: path.opaque.map(|opaque| OpaqueLine {
            waiting_bytes: opaque.waiting.get(),
            in_flight_bytes: opaque.in_flight.get(),
            evidence: opaque.evidence.name().to_owned(),
            tcp_bytes: opaque.passed.tcp,
            quic_bytes: opaque.passed.quic,
            udp_bytes: opaque.passed.udp,
            other_bytes: opaque.passed.other,
            quic_version: opaque.quic.map(|handshake| handshake.version),
            quic_handshake_us: opaque.quic.map(|handshake| handshake.round_trip.as_micros()),
        }),
        ..bare
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_part_is_in_the_same_shard_or_the_next_one() {
        let part = |next| SubscriberList { subscribers: Vec::new(), next };
        let next = part(Some(256)).of_shard(1, 3).next.unwrap();
        assert_eq!(shard_and_place(next), (1, 256));
        let next = part(None).of_shard(1, 3).next.unwrap();
        assert_eq!(shard_and_place(next), (2, 0));
        assert_eq!(part(None).of_shard(2, 3).next, None);
        assert_eq!(part(None).of_shard(usize::MAX, 3).next, None, "no shard has this number");
        assert_eq!(shard_and_place(u64::MAX).0, (1 << 24) - 1);
    }
}
