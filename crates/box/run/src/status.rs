//! Status of a running instance, as it goes through the control socket and into JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use engine::{Engine, FlowReport, PassReason};
use serde::{Deserialize, Serialize};
use units::{Instant, Rate};

use crate::counters::Counters;

/// Status of a running accelerator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// The instance's name.
    pub name: String,
    /// Its process.
    pub process: u32,
    /// The program's version.
    pub version: String,
    /// Way in which packets are steered into the process: `tcx`, `rules` or `inline`; empty from another
    /// version.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["tcx", "rules", "inline", ""])))]
    #[serde(default)]
    pub steering: String,
    /// Interface towards the servers.
    pub wired: String,
    /// Interface towards the clients.
    pub mobile: String,
    /// Each of the two, wired and mobile: `up`, `down`, or `gone`; empty from another version.
    #[cfg_attr(feature = "schema", schemars(extend("items" = { "enum": ["up", "down", "gone", ""] })))]
    #[serde(default)]
    pub interfaces: [String; 2],
    /// It was asked to stop and delivers what it owes.
    pub is_draining: bool,
    /// Reason why it steers nothing, and waits: a packet filter is against it. Empty while it works.
    #[serde(default)]
    pub stands_by: String,
    /// Time since its start, seconds.
    pub uptime_s: u64,
    /// Memory of its process, bytes; 0 when unknown.
    pub resident_bytes: u64,
    /// State of recovery: who goes on if this process dies, and what became of those before it that have died.
    #[serde(default)]
    pub recovery: RecoveryStatus,
    /// Traffic that passed through, by the side it came from or left to: wired, then mobile.
    pub sides: [SideStatus; 2],
    /// Counts and state of each shard; one for each thread that handles packets.
    #[serde(default)]
    pub shards: Vec<ShardStatus>,
    /// Counts of the processors.
    #[serde(flatten)]
    pub processor: ProcessorStatus,
}

impl Status {
    /// With what the shards have counted, in their order, and the drops of the devices' queues.
    pub(crate) fn with_reports(mut self, reports: &[Report], queue_drops: [u64; 2]) -> Self {
        let mut counters = Counters::default();
        for Report { counters: own, processor } in reports {
            counters.add(own);
            self.processor.add(processor);
            let received_packets = own.sides.iter().map(|side| side.received_packets).sum();
            self.shards.push(ShardStatus { received_packets, flows_now: processor.counter("flows_now") });
        }
        for ((side, counters), queue_drops) in self.sides.iter_mut().zip(counters.sides).zip(queue_drops) {
            *side = SideStatus {
                received_packets: counters.received_packets,
                received_bytes: counters.received_bytes,
                sent_packets: counters.sent_packets,
                refused_packets: counters.refused_packets,
                queue_drops,
            };
        }
        self
    }
}

/// State of recovery: who goes on if a process dies, and what became of those that have died. Upgrades do not
/// begin it anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecoveryStatus {
    /// The watchdog has what another process needs to go on with the flows.
    pub is_ready: bool,
    /// Reason why it has not, or why nobody would use it; empty if it is ready.
    pub why_not: String,
    /// Processes that have died, and whose flows another one was to go on with.
    pub deaths: u64,
    /// Time since the last of them, ms; none if there was none.
    pub last_death_ms: Option<u64>,
    /// Flows that went on, over all deaths: one that is accelerated in both directions counts twice.
    pub flows_recovered: u64,
    /// Flows that were owed something and did not: they were reset.
    pub flows_lost: u64,
}

/// Traffic that passed through one side; a super-packet counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SideStatus {
    /// Packets the kernel handed over.
    pub received_packets: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Packets written.
    pub sent_packets: u64,
    /// Packets the kernel refused to take.
    pub refused_packets: u64,
    /// Packets lost because the device's queue was full.
    pub queue_drops: u64,
}

/// A shard: some of the subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShardStatus {
    /// Packets the kernel handed over, of either side.
    pub received_packets: u64,
    /// Flows in its table.
    pub flows_now: u64,
}

/// Counts of a processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessorStatus {
    /// Acknowledged to senders and not by receivers, over all flows, bytes.
    pub debt_bytes: u64,
    /// Counters since the start, and levels (`…_now`), by name.
    pub counters: BTreeMap<String, u64>,
    /// Flows passed or ended, by reason.
    pub passed: BTreeMap<String, u64>,
    /// Bytes of TCP that passed, by the reason why its flows pass, headers included; counted where programs steer.
    /// `unknown` are those of flows that began before the process, or passed too long ago.
    #[serde(default)]
    pub passed_bytes: BTreeMap<String, u64>,
    /// Controller that finds the rate towards a client, for new flows; empty without an engine.
    #[serde(default)]
    pub controller: String,
}

impl ProcessorStatus {
    /// A counter or level by its name; 0 for one that there is not.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Adds what another one has counted.
    pub(crate) fn add(&mut self, other: &Self) {
        self.debt_bytes += other.debt_bytes;
        self.controller.clone_from(&other.controller);
        for (sums, parts) in [
            (&mut self.counters, &other.counters),
            (&mut self.passed, &other.passed),
            (&mut self.passed_bytes, &other.passed_bytes),
        ] {
            for (name, value) in parts {
                *sums.entry(name.clone()).or_default() += value;
            }
        }
    }
}

/// Part of the flows, and those passed last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowList {
    /// Flows in the table, from the asked one on, in bounded number.
    pub flows: Vec<FlowLine>,
    /// The flows passed or ended last, of each shard newest first; with the first part only.
    pub passed: Vec<PassedLine>,
}

/// A flow in the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowLine {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
    /// `downlink` or `uplink`: what follows is about data in this direction.
    pub direction: String,
    /// `observing`, `accelerated`, `draining` or `closed`.
    pub state: String,
    /// Acknowledged to the sender and not by the receiver, bytes.
    pub debt_bytes: u64,
    /// Memory of its buffer, bytes.
    pub held_bytes: u64,
    /// Sent to the receiver and not acknowledged, bytes.
    pub in_flight_bytes: u64,
    /// Smoothed round-trip time between here and the receiver, µs.
    pub srtt_us: Option<u64>,
    /// The window the receiver advertises, bytes.
    pub client_window_bytes: u64,
    /// Highest rate to the subscriber, over all its flows, bit/s; none where a window alone limits it.
    pub subscriber_rate_bps: Option<u64>,
    /// Time since its last packet, ms.
    pub idle_ms: u64,
}

/// A flow that was passed or has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedLine {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
    /// Reason, as in the counters.
    pub reason: String,
}

/// Counts of a shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub counters: Counters,
    pub processor: ProcessorStatus,
}

/// The engine's counters and levels.
pub(crate) fn of_engine(engine: &Engine) -> ProcessorStatus {
    let stats = engine.stats();
    let mut counters: BTreeMap<String, u64> =
        stats.named().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if let Some(uplink) = engine.uplink_stats() {
        counters.extend(uplink.named().into_iter().map(|(name, value)| (format!("uplink_{name}"), value)));
    }
    let passed = PassReason::ALL
        .into_iter()
        .map(|reason| (reason.name().to_owned(), stats.passed_for(reason)))
        .filter(|(_, flows)| *flows > 0)
        .collect();
    let controller = engine.config().controller.name().to_owned();
    let passed_bytes = BTreeMap::new();
    ProcessorStatus { debt_bytes: engine.debt().get(), counters, passed, passed_bytes, controller }
}

/// The same once the flows are another process's: nothing is there now.
pub(crate) fn without_levels(mut status: ProcessorStatus) -> ProcessorStatus {
    status.debt_bytes = 0;
    status.counters.iter_mut().filter(|(name, _)| name.ends_with("_now")).for_each(|(_, level)| *level = 0);
    status
}

/// The engine's flows from the `skip`th on, `count` at most.
pub(crate) fn flows_of_engine(engine: &Engine, skip: usize, count: usize, now: Instant) -> FlowList {
    let flows = engine.flow_reports(skip).take(count).map(|report| line(&report, now)).collect();
    let mut passed = Vec::new();
    if skip == 0 {
        passed.extend(passed_lines(engine));
    }
    FlowList { flows, passed }
}

/// The engine's flows that were passed or ended last, newest first.
pub(crate) fn passed_lines(engine: &Engine) -> impl Iterator<Item = PassedLine> {
    engine.passed_recently().map(|flow| PassedLine {
        client: flow.client,
        server: flow.server,
        reason: flow.reason.name().to_owned(),
    })
}

/// A flow as it is shown.
pub(crate) fn line(report: &FlowReport, now: Instant) -> FlowLine {
    FlowLine {
        client: report.client,
        server: report.server,
        direction: report.direction.name().to_owned(),
        state: report.state.name().to_owned(),
        debt_bytes: report.debt.get(),
        held_bytes: report.held.get(),
        in_flight_bytes: report.in_flight.get(),
        srtt_us: report.srtt.map(|srtt| srtt.as_micros()),
        client_window_bytes: report.client_window.get(),
        subscriber_rate_bps: report.subscriber_rate.filter(|rate| *rate < Rate::MAX).map(Rate::as_bps),
        idle_ms: now.saturating_since(report.last_activity).as_millis(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Every object in `value` has the fields that the schema lists, and no other.
    fn fits(value: &Value, schema: &Value, root: &Value) {
        let schema = match schema["$ref"].as_str() {
            Some(name) => &root["$defs"][name.rsplit('/').next().unwrap()],
            None => schema,
        };
        if let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
            assert_eq!(fields.keys().collect::<Vec<_>>(), known.keys().collect::<Vec<_>>());
            assert_eq!(schema["required"].as_array().unwrap().len(), known.len(), "all are always there");
            fields.iter().for_each(|(name, value)| fits(value, &known[name], root));
        }
        value.as_array().into_iter().flatten().for_each(|value| fits(value, &schema["items"], root));
    }

    #[test]
    fn a_status_has_the_fields_of_its_schema() {
        let schema: Value =
            serde_json::from_str(include_str!("../../../../schemas/status.schema.json")).unwrap();
        let status = Status { shards: vec![ShardStatus::default()], ..Status::default() };
        let json = serde_json::to_value(&status).unwrap();
        fits(&json, &schema, &schema);
        // One of an older version says nothing of recovery.
        let mut older = json;
        older.as_object_mut().unwrap().remove("recovery");
        assert_eq!(serde_json::from_value::<Status>(older).unwrap(), status);
    }
}
