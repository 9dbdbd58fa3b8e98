//! [`Snapshot`]: what a running instance shows as metrics.
//!
//! ```text
//!   packet loop: ShardMeters, a copy of some kilobytes ─▶ the console's thread: Snapshot ─▶ JSON ─▶ who asked
//! ```
//!
//! The packet loops only copy: what they do for it does not depend on the number of flows.

use std::collections::BTreeMap;

use engine::{BOUNDS_US, Engine, FlowState, Meters, PassReason, Stats};
use serde::{Deserialize, Serialize};

use crate::counters::{Answering, Counters, PACKET_TIME_BOUNDS_NS, PacketTime};
use crate::status::RecoveryStatus;

/// Metrics that a shard hands over.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardMeters {
    pub counters: Counters,
    pub packet_time: PacketTime,
    pub answering: Answering,
    pub engine: EngineMeters,
}

/// Metrics that an engine hands over.
#[derive(Clone, Debug, Default)]
pub struct EngineMeters {
    /// Of the downlink, and of all flows where only it is accelerated; none without an engine.
    pub downlink: Option<HalfMeters>,
    /// Of the uplink, where it is accelerated.
    pub uplink: Option<HalfMeters>,
    /// Subscribers that are known.
    pub subscribers: u64,
}

/// Metrics of one direction.
#[derive(Clone, Debug, Default)]
pub struct HalfMeters {
    /// Its counters.
    pub stats: Stats,
    /// Its levels and distributions.
    pub meters: Meters,
}

impl EngineMeters {
    /// Those of `engine`.
    #[must_use]
    pub fn of(engine: &Engine) -> Self {
        let half =
            |stats: &Stats, meters: &Meters| HalfMeters { stats: stats.clone(), meters: meters.clone() };
        let uplink = engine.uplink_stats().zip(engine.uplink_meters());
        Self {
            downlink: Some(half(engine.stats(), engine.meters())),
            uplink: uplink.map(|(stats, meters)| half(stats, meters)),
            subscribers: engine.subscriber_count() as u64,
        }
    }
}

/// The whole instance as metrics. Counters begin with the process, but for those that its flows bring along when
/// they come from another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// The instance's name.
    pub name: String,
    /// Its process.
    pub process: u32,
    /// The program's version.
    pub version: String,
    /// Method by which packets come here.
    pub steering: String,
    /// Names of the interfaces: wired, mobile; empty from another version.
    pub interface_names: [String; 2],
    /// The interfaces are up: wired, mobile.
    pub are_up: [bool; 2],
    /// It was asked to stop and delivers what it owes.
    pub is_draining: bool,
    /// Reason why it steers nothing, and waits: a packet filter is against it. Empty while it works.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stands_by: String,
    /// Time since its start, ms.
    pub uptime_ms: u64,
    /// Memory of its process, bytes; 0 when unknown.
    pub resident_bytes: u64,
    /// Time in which packets of the first shard waited for this answer, ns.
    pub packets_waited_ns: u64,
    /// Questions that the packet loops have answered before this one.
    pub answers: u64,
    /// Processor time of the packet loops for those answers, of all shards together, ns.
    pub answering_ns: u64,
    /// State of recovery: who goes on if this process dies, and what became of those that have died.
    pub recovery: RecoveryStatus,
    /// Upgrades in which a process of this line took the place of another one with its devices.
    #[serde(rename = "hand_overs")]
    pub upgrades: u64,
    /// Time since the last report of a base station that was not refused, ms; none if there was none.
    pub feedback_age_ms: Option<u64>,
    /// Counts beside the flows: reports of base stations, flows left to the kernel, what the kernel has
    /// refused.
    pub others: BTreeMap<String, u64>,
    /// By the side that packets came from or left to: wired, mobile.
    pub sides: [SideSnapshot; 2],
    /// Of each shard.
    pub shards: Vec<ShardSnapshot>,
    /// Flows accelerated towards clients; and all that is counted where only these are.
    pub downlink: HalfSnapshot,
    /// Flows accelerated towards servers, if any are.
    pub uplink: Option<HalfSnapshot>,
    /// Flows passed or ended, by reason.
    pub passed: BTreeMap<String, u64>,
    /// Bytes of TCP that passed, by reason, where programs steer.
    pub passed_bytes: BTreeMap<String, u64>,
    /// Subscribers that are known.
    pub subscribers: u64,
    /// Time per packet of turns that were timed, ns.
    pub packet_time: Distribution,
}

/// Counts of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SideSnapshot {
    /// Packets that came, as they were on the link.
    pub received_packets: u64,
    /// Bytes of those, IP headers included.
    pub received_bytes: u64,
    /// Packets that were sent, as they are on the link.
    pub sent_packets: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Packets that the kernel refused to take, and such as were lost in a full queue; a super-packet is one.
    pub dropped_packets: u64,
}

/// Metrics of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShardSnapshot {
    /// Packets that came from either side, as they were on the link.
    pub received_packets: u64,
    /// Flows in its table, a flow accelerated in both directions twice.
    pub flows: u64,
    /// Memory in buffers, bytes.
    pub held_bytes: u64,
}

/// Flows of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HalfSnapshot {
    /// Flows in the table, by state.
    pub flows: BTreeMap<String, u64>,
    /// Acknowledged to the sending hosts and not by the receiving ones, bytes.
    pub debt_bytes: u64,
    /// Counters and levels by name, as in the status; and those of [`Meters`].
    pub counters: BTreeMap<String, u64>,
    /// Round trips to the receiving hosts, µs.
    pub round_trip: Distribution,
    /// Part of that is an estimate of time in queues, µs.
    pub queueing: Distribution,
}

/// Counts of values, by size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    /// Upper bounds of the classes, ascending; the last class has none.
    pub bounds: Vec<u64>,
    /// Values in each class alone; one more than there are bounds.
    pub counts: Vec<u64>,
    /// All values together.
    pub sum: u64,
}

impl Distribution {
    fn add(&mut self, bounds: &[u64], counts: &[u64], sum: u64) {
        if self.counts.is_empty() {
            (self.bounds, self.counts) = (bounds.to_vec(), vec![0; counts.len()]);
        }
        self.counts.iter_mut().zip(counts).for_each(|(own, other)| *own += other);
        self.sum = self.sum.saturating_add(sum);
    }
}

impl HalfSnapshot {
    fn add(&mut self, HalfMeters { stats, meters }: &HalfMeters) {
        for state in FlowState::ALL {
            *self.flows.entry(state.name().to_owned()).or_default() += meters.flows(state);
        }
        self.debt_bytes += meters.debt().get();
        let own = [
            ("flows_opened", meters.flows_opened),
            ("flows_ended", meters.flows_ended),
            ("data_segments", meters.data_segments),
            ("data_bytes", meters.data_bytes),
            ("segments_retransmitted", meters.segments_retransmitted),
            // The counter of the same name follows when a flow has ended.
            ("bytes_retransmitted", meters.bytes_retransmitted),
            ("duplicates_reported", meters.duplicates_reported),
        ];
        let counted =
            stats.named().into_iter().filter(|(name, _)| own.iter().all(|(other, _)| name != other));
        for (name, value) in counted.chain(own) {
            *self.counters.entry(name.to_owned()).or_default() += value;
        }
        for (own, other) in
            [(&mut self.round_trip, &meters.round_trip), (&mut self.queueing, &meters.queueing)]
        {
            own.add(&BOUNDS_US, other.counts(), other.sum_us());
        }
    }

    /// A counter or level by its name; 0 for one that there is not.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

impl Snapshot {
    /// With what the shards have handed over, in their order, and the drops of the devices' queues.
    pub(crate) fn with_meters(mut self, shards: &[ShardMeters], queue_drops: [u64; 2]) -> Self {
        let mut counters = Counters::default();
        let mut packet_time = PacketTime::default();
        for shard in shards {
            counters.add(&shard.counters);
            packet_time.add(&shard.packet_time);
            self.answers += shard.answering.count;
            self.answering_ns += shard.answering.sum_ns;
            self.add_engine(&shard.engine);
            let halves = [&shard.engine.downlink, &shard.engine.uplink].into_iter().flatten();
            let (flows, held_bytes) = halves.fold((0, 0), |(flows, held), half| {
                (flows + half.stats.flows_now, held + half.stats.buffer_bytes_now)
            });
            let received = shard.counters.sides.iter().map(|side| side.received_on_link.packets);
            self.shards.push(ShardSnapshot { received_packets: received.sum(), flows, held_bytes });
        }
        for ((side, counted), queue_drops) in self.sides.iter_mut().zip(counters.sides).zip(queue_drops) {
            *side = SideSnapshot {
                received_packets: counted.received_on_link.packets,
                received_bytes: counted.received_on_link.bytes,
                sent_packets: counted.sent_on_link.packets,
                sent_bytes: counted.sent_on_link.bytes,
                dropped_packets: counted.refused_packets + queue_drops,
            };
        }
        self.packet_time.add(&PACKET_TIME_BOUNDS_NS, &packet_time.counts, packet_time.sum_ns);
        self
    }

    /// Snapshot of engines, without anything around them.
    #[must_use]
    pub fn of_engines(shards: &[EngineMeters]) -> Self {
        let meters = |engine: &EngineMeters| ShardMeters { engine: engine.clone(), ..ShardMeters::default() };
        Self::default().with_meters(&shards.iter().map(meters).collect::<Vec<_>>(), [0; 2])
    }

    fn add_engine(&mut self, engine: &EngineMeters) {
        self.subscribers += engine.subscribers;
        if let Some(downlink) = &engine.downlink {
            self.downlink.add(downlink);
            for reason in PassReason::ALL {
                let flows = downlink.stats.passed_for(reason);
                *self.passed.entry(reason.name().to_owned()).or_default() += flows;
            }
        }
        if let Some(uplink) = &engine.uplink {
            self.uplink.get_or_insert_default().add(uplink);
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::EngineConfig;

    use super::*;

    #[test]
    fn shards_add_up_and_each_has_its_own_levels() {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let mut shard = ShardMeters { engine: EngineMeters::of(&engine), ..ShardMeters::default() };
        let half = shard.engine.downlink.as_mut().unwrap();
        (half.stats.flows_now, half.stats.buffer_bytes_now, half.stats.bytes_delivered) = (3, 700, 5);
        half.stats.bytes_retransmitted = 9;
        shard.answering = Answering { count: 4, sum_ns: 5_000 };
        shard.counters.sides[0].sent_on_link = crate::counters::OnLink { packets: 2, bytes: 2_000 };
        let snapshot = Snapshot::default().with_meters(&[shard.clone(), shard], [1, 0]);
        assert_eq!(snapshot.shards.len(), 2);
        assert_eq!(snapshot.shards[1], ShardSnapshot { received_packets: 0, flows: 3, held_bytes: 700 });
        assert_eq!(snapshot.downlink.counter("bytes_delivered"), 10);
        assert_eq!(snapshot.downlink.counter("bytes_retransmitted"), 0, "those that were seen when sent");
        assert_eq!((snapshot.sides[0].sent_bytes, snapshot.sides[0].dropped_packets), (4_000, 1));
        assert_eq!((snapshot.answers, snapshot.answering_ns), (8, 10_000));
        assert_eq!(snapshot.passed.len(), PassReason::COUNT);
        assert_eq!(snapshot.downlink.round_trip.counts.len(), snapshot.downlink.round_trip.bounds.len() + 1);
        assert!(snapshot.uplink.is_none());
        let json = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
        let other: Snapshot = serde_json::from_str(r#"{"name":"radio","new":1}"#).unwrap();
        assert_eq!(other.name, "radio", "what another version has and has not is no error");
    }
}
