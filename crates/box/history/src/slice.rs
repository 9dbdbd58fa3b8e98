//! [`Slice`]: what happened in a minute, without any address.

use std::collections::BTreeMap;

use run::{AbReport, Distribution, EventDirection, FlowRecord, HalfSnapshot, Snapshot};
use serde::{Deserialize, Serialize};

/// Flows of which a slice keeps figures; of more it keeps these and counts all. 100 a minute are some megabytes a
/// day.
pub const FLOWS_PER_SLICE: usize = 100;

/// Reasons that are ends of flows that were accelerated until then, and none for passing.
const ENDS: [&str; 4] = ["closed", "reset", "idle", "client-gone"];

/// Events between two looks at an accelerator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slice {
    /// Its end, ms since 1970.
    pub at_ms: u64,
    /// Its length, ms.
    pub span_ms: u64,
    /// The process that was asked; another one has taken its place where it differs.
    pub process: u32,
    /// Method by which packets came to the process.
    pub steering: String,
    /// Subscribers that were known at its end.
    pub subscribers: u64,
    /// Flows whose handshake was seen to begin, by the direction that has more of them.
    pub flows_opened: u64,
    /// Flows that were accelerated, by the direction that has more of them.
    pub flows_accelerated: u64,
    /// Flows that were passed, by reason.
    pub passed: BTreeMap<String, u64>,
    /// Bytes of TCP that passed, by the same reasons, headers included, where programs steer; `unknown` are those of
    /// flows that began before the process.
    #[serde(default)]
    pub passed_bytes: BTreeMap<String, u64>,
    /// Packets of passed flows that stayed in the kernel.
    pub bypass_packets: u64,
    /// Traffic that took turns with accelerated flows towards clients.
    pub in_turns: TurnsFigures,
    /// Bytes that came from servers and were sent to clients through the process, IP headers included.
    pub wired_received_bytes: u64,
    /// The second of these.
    pub mobile_sent_bytes: u64,
    /// Data towards clients.
    pub downlink: HalfFigures,
    /// Data towards servers, where uploads are accelerated.
    pub uplink: Option<HalfFigures>,
    /// Accelerated flows that have ended and of which there is a record.
    pub ended: u64,
    /// Figures of the first [`FLOWS_PER_SLICE`] of those.
    pub flows: Vec<FlowFigures>,
    /// Report of the A/B phase that was under way at its end, or that has ended since the slice before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ab: Option<Box<AbReport>>,
}

/// Bytes with IP headers that passed and took turns with accelerated flows towards their clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TurnsFigures {
    /// Of TCP.
    pub tcp_bytes: u64,
    /// Of QUIC, as far as that shows: from UDP port 443, or a packet that begins as QUIC does.
    pub quic_bytes: u64,
    /// Of anything else: other UDP, ICMP, tunnels.
    pub other_bytes: u64,
    /// Packets that were dropped because their flow had too much in its queue for too long.
    pub dropped_packets: u64,
}

impl TurnsFigures {
    fn between(old: &HalfSnapshot, new: &HalfSnapshot) -> Self {
        let count = |name: &str| grown(old.counter(name), new.counter(name));
        let (tcp_bytes, quic_bytes) = (count("opaque_tcp_bytes"), count("opaque_quic_bytes"));
        Self {
            tcp_bytes,
            quic_bytes,
            other_bytes: count("opaque_bytes").saturating_sub(tcp_bytes + quic_bytes),
            dropped_packets: count("opaque_dropped"),
        }
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.tcp_bytes += other.tcp_bytes;
        self.quic_bytes += other.quic_bytes;
        self.other_bytes += other.other_bytes;
        self.dropped_packets += other.dropped_packets;
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tcp_bytes + self.quic_bytes + self.other_bytes
    }
}

/// Figures of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HalfFigures {
    /// Payload acknowledged by receiving hosts, bytes.
    pub goodput_bytes: u64,
    /// Packets with data that were sent to them, bytes with IP headers.
    pub data_bytes: u64,
    /// Those packets.
    pub data_packets: u64,
    /// Of those, packets sent again.
    pub resent_packets: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Of those, ones that were taken back.
    pub spurious_timeouts: u64,
    /// Acknowledged to the sending host and never by the receiving one, bytes.
    pub undelivered_bytes: u64,
    /// Round trips to receiving hosts, µs.
    pub round_trip: Distribution,
    /// Part of that is an estimate of time in queues, µs.
    pub queueing: Distribution,
}

/// A flow that was accelerated and has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowFigures {
    /// Its data went towards the server.
    pub is_uplink: bool,
    /// Payload that arrived, bytes.
    pub delivered_bytes: u64,
    /// Payload that was sent again, bytes.
    pub resent_bytes: u64,
    /// From its first packet to its last, ms.
    pub lasted_ms: u64,
}

impl FlowFigures {
    /// Of a record; none if its beginning was not seen.
    #[must_use]
    pub fn of(record: &FlowRecord) -> Option<Self> {
        Some(Self {
            is_uplink: record.flow.direction == EventDirection::Uplink,
            delivered_bytes: record.delivered_bytes,
            resent_bytes: record.retransmitted_bytes,
            lasted_ms: record.ended_ms.saturating_sub(record.began_ms?),
        })
    }

    /// Payload over its whole life, bit/s; none for a flow within a millisecond.
    #[must_use]
    pub fn rate_bps(&self) -> Option<f64> {
        (self.lasted_ms > 0).then(|| self.delivered_bytes as f64 * 8e3 / self.lasted_ms as f64)
    }
}

/// Growth of a counter. One that has become smaller belongs to a new process and began at zero.
fn grown(old: u64, new: u64) -> u64 {
    if new < old { new } else { new - old }
}

fn distribution(old: &Distribution, new: &Distribution) -> Distribution {
    let is_new = new.sum < old.sum || new.bounds != old.bounds;
    let before = |class: usize| if is_new { 0 } else { old.counts.get(class).copied().unwrap_or(0) };
    Distribution {
        bounds: new.bounds.clone(),
        counts: new
            .counts
            .iter()
            .enumerate()
            .map(|(class, count)| count.saturating_sub(before(class)))
            .collect(),
        sum: if is_new { new.sum } else { new.sum - old.sum },
    }
}

impl HalfFigures {
    fn between(old: &HalfSnapshot, new: &HalfSnapshot) -> Self {
        let count = |name: &str| grown(old.counter(name), new.counter(name));
        Self {
            goodput_bytes: count("bytes_delivered"),
            data_bytes: count("data_bytes"),
            data_packets: count("data_segments"),
            resent_packets: count("segments_retransmitted"),
            timeouts: count("timeouts"),
            spurious_timeouts: count("timeouts_undone"),
            undelivered_bytes: count("bytes_acked_but_lost"),
            round_trip: distribution(&old.round_trip, &new.round_trip),
            queueing: distribution(&old.queueing, &new.queueing),
        }
    }

    /// Adds another one, of the same direction.
    pub fn add(&mut self, other: &Self) {
        self.goodput_bytes += other.goodput_bytes;
        self.data_bytes += other.data_bytes;
        self.data_packets += other.data_packets;
        self.resent_packets += other.resent_packets;
        self.timeouts += other.timeouts;
        self.spurious_timeouts += other.spurious_timeouts;
        self.undelivered_bytes += other.undelivered_bytes;
        for (own, other) in [(&mut self.round_trip, &other.round_trip), (&mut self.queueing, &other.queueing)]
        {
            if own.bounds.is_empty() {
                *own = other.clone();
                continue;
            }
            own.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
            own.sum = own.sum.saturating_add(other.sum);
        }
    }
}

impl Slice {
    /// Slice between two snapshots, with the flows that have ended meanwhile.
    #[must_use]
    pub fn between(old: &Snapshot, new: &Snapshot, at_ms: u64, span_ms: u64, ended: &[FlowFigures]) -> Self {
        let others = |name: &str| {
            let of = |snapshot: &Snapshot| snapshot.others.get(name).copied().unwrap_or(0);
            grown(of(old), of(new))
        };
        let by_reason = |old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>| {
            let growth = new.iter().map(|(reason, count)| {
                (reason.clone(), grown(old.get(reason).copied().unwrap_or(0), *count))
            });
            growth.filter(|(_, growth)| *growth > 0).collect::<BTreeMap<_, _>>()
        };
        let mut passed = by_reason(&old.passed, &new.passed);
        passed.retain(|reason, _| !ENDS.contains(&reason.as_str()));
        let none = HalfSnapshot::default();
        let (old_up, new_up) = (old.uplink.as_ref().unwrap_or(&none), new.uplink.as_ref());
        // A flow that is accelerated both ways is counted in both halves.
        let half = |name: &str| {
            let up = new_up.map_or(0, |new| grown(old_up.counter(name), new.counter(name)));
            grown(old.downlink.counter(name), new.downlink.counter(name)).max(up)
        };
        Self {
            at_ms,
            span_ms,
            process: new.process,
            steering: new.steering.clone(),
            subscribers: new.subscribers,
            flows_opened: half("flows_opened"),
            flows_accelerated: half("flows_accelerated"),
            passed,
            passed_bytes: by_reason(&old.passed_bytes, &new.passed_bytes),
            bypass_packets: others("bypass_packets"),
            in_turns: TurnsFigures::between(&old.downlink, &new.downlink),
            wired_received_bytes: grown(old.sides[0].received_bytes, new.sides[0].received_bytes),
            mobile_sent_bytes: grown(old.sides[1].sent_bytes, new.sides[1].sent_bytes),
            downlink: HalfFigures::between(&old.downlink, &new.downlink),
            uplink: new_up.map(|new| HalfFigures::between(old_up, new)),
            ended: ended.len() as u64,
            flows: ended.iter().take(FLOWS_PER_SLICE).copied().collect(),
            ab: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(delivered: u64, times: [u64; 2], passed: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let half = &mut snapshot.downlink;
        half.counters.insert("bytes_delivered".to_owned(), delivered);
        half.queueing = Distribution { bounds: vec![1_000], counts: times.to_vec(), sum: 10 * delivered };
        let kinds =
            [("opaque_bytes", 10), ("opaque_tcp_bytes", 2), ("opaque_quic_bytes", 5), ("opaque_dropped", 1)];
        half.counters.extend(kinds.map(|(name, times)| (name.to_owned(), times * delivered)));
        snapshot.passed.insert("mptcp".to_owned(), passed);
        snapshot.passed.insert("closed".to_owned(), 50);
        snapshot
    }

    #[test]
    fn a_slice_has_what_was_added_and_a_new_process_begins_at_zero() {
        let (old, new) = (snapshot(100, [4, 1], 3), snapshot(250, [5, 3], 4));
        let slice = Slice::between(&old, &new, 60_000, 60_000, &[]);
        assert_eq!(slice.downlink.goodput_bytes, 150);
        assert_eq!((slice.downlink.queueing.counts, slice.downlink.queueing.sum), (vec![1, 2], 1_500));
        // Flows that were accelerated until they closed were not passed.
        assert_eq!(slice.passed, BTreeMap::from([("mptcp".to_owned(), 1)]));
        assert!(slice.uplink.is_none());
        let in_turns =
            TurnsFigures { tcp_bytes: 300, quic_bytes: 750, other_bytes: 450, dropped_packets: 150 };
        assert_eq!((slice.in_turns, slice.in_turns.bytes()), (in_turns, 1_500));
        let after = Slice::between(&new, &snapshot(30, [1, 0], 0), 120_000, 60_000, &[]);
        assert_eq!((after.downlink.goodput_bytes, after.downlink.queueing.counts), (30, vec![1, 0]));
        assert!(after.passed.is_empty());
    }

    #[test]
    fn of_many_flows_some_are_kept_and_all_are_counted() {
        let flow = FlowFigures { is_uplink: false, delivered_bytes: 1_000, resent_bytes: 0, lasted_ms: 4 };
        assert_eq!(flow.rate_bps(), Some(2e6));
        assert_eq!(FlowFigures { lasted_ms: 0, ..flow }.rate_bps(), None);
        let empty = Snapshot::default();
        let slice = Slice::between(&empty, &empty, 0, 1, &[flow; FLOWS_PER_SLICE + 7]);
        assert_eq!((slice.ended, slice.flows.len()), (FLOWS_PER_SLICE as u64 + 7, FLOWS_PER_SLICE));
    }
}
