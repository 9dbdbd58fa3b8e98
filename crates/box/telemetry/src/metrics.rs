//! The metrics, as one list: what each is called, what it means, and where in a snapshot it stands.
//!
//! `docs/metrics.md` shows the same list; a test compares them. Names follow the conventions of Prometheus:
//! base units, a unit at the end of the name, `_total` behind counters.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use run::{Distribution, HalfSnapshot, ShardSnapshot, SideSnapshot, Snapshot};

use crate::Answered;

/// Prefix of all names.
pub const PREFIX: &str = "cellerator";

/// The label that has the accelerator's name.
const ACCELERATOR: &str = "accelerator";

const SIDES: [&str; 2] = ["wired", "mobile"];

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows; its name ends in `_total`.
    Counter,
    /// A level.
    Gauge,
    /// Counts of values, by classes.
    Histogram,
    /// A gauge that is always 1, and says what it says by its labels.
    Info,
}

impl MetricKind {
    /// The name of it in the exposition format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }

    const fn metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
            Self::Info => MetricType::Info,
        }
    }
}

/// Source of the values of a metric.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Whether it answers: the only one that is there if it does not.
    Answers,
    /// One value.
    Whole(fn(&Snapshot) -> Option<f64>),
    /// One count.
    Count(fn(&Snapshot) -> u64),
    /// One sum of times, in ns.
    Spent(fn(&Snapshot) -> u64),
    /// One count of [`Snapshot::others`], by its name; none if there is none of that name.
    Other(&'static str),
    /// Reports of base stations, by what became of them.
    Reports,
    /// By interface.
    Interface(fn(&Snapshot) -> [bool; 2]),
    /// By side.
    Side(fn(&SideSnapshot) -> u64),
    /// By shard.
    Shard(fn(&ShardSnapshot) -> u64),
    /// By direction: a counter or level by its name.
    Half(&'static str),
    /// By direction: a sum of times in µs, by its name.
    HalfMicros(&'static str),
    /// By direction: a level.
    HalfLevel(fn(&HalfSnapshot) -> u64),
    /// Flows by direction and state.
    Flows,
    /// Flows passed or ended, by reason.
    Passed,
    /// Bytes of flows that pass, by reason.
    PassedBytes,
    /// By direction: times in µs.
    Times(fn(&HalfSnapshot) -> &Distribution),
    /// Time per packet, in ns.
    PacketTime,
    /// Identity of the instance.
    About,
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name without [`PREFIX`], unit and `_total`.
    stem: &'static str,
    /// Its unit, which ends its name.
    pub unit: Option<&'static str>,
    /// Its kind.
    pub kind: MetricKind,
    /// Meaning of the metric.
    pub help: &'static str,
    source: Source,
}

impl Family {
    /// Its whole name, as in queries.
    #[must_use]
    pub fn name(&self) -> String {
        let end = match self.kind {
            MetricKind::Counter => "_total",
            MetricKind::Info => "_info",
            MetricKind::Gauge | MetricKind::Histogram => "",
        };
        format!("{}{end}", self.bare_name())
    }

    fn bare_name(&self) -> String {
        let stem = if self.stem.is_empty() { PREFIX.to_owned() } else { format!("{PREFIX}_{}", self.stem) };
        self.unit.map_or(stem.clone(), |unit| format!("{stem}_{unit}"))
    }

    /// Its labels, besides the accelerator's name.
    #[must_use]
    pub const fn labels(&self) -> &'static [&'static str] {
        match self.source {
            Source::Answers
            | Source::Whole(_)
            | Source::Count(_)
            | Source::Spent(_)
            | Source::Other(_)
            | Source::PacketTime => &[],
            Source::Reports => &["outcome"],
            Source::Interface(_) | Source::Side(_) => &["side"],
            Source::Shard(_) => &["shard"],
            Source::Half(_) | Source::HalfMicros(_) | Source::HalfLevel(_) | Source::Times(_) => {
                &["direction"]
            }
            Source::Flows => &["direction", "state"],
            Source::Passed | Source::PassedBytes => &["reason"],
            Source::About => &["version", "steering"],
        }
    }
}

macro_rules! families {
    ($($kind:ident $stem:literal $(in $unit:literal)? $source:expr => $help:literal;)*) => {
        /// Every metric, in the order in which they are shown.
        pub const FAMILIES: &[Family] = &[$(
            Family { stem: $stem, unit: families!(@unit $($unit)?), kind: MetricKind::$kind, help: $help, source: $source },
        )*];
    };
    (@unit) => { None };
    (@unit $unit:literal) => { Some($unit) };
}

families! {
    Gauge "up" Source::Answers => "1 if the accelerator answers, 0 if it is not there or hangs";
    Info "" Source::About => "Version, and how packets are steered into the process";
    Gauge "uptime" in "seconds" Source::Whole(|s| Some(s.uptime_ms as f64 / 1e3))
        => "Time since the process has begun; another process has taken its place where it falls";
    Gauge "draining" Source::Whole(|s| Some(f64::from(u8::from(s.is_draining))))
        => "1 while it takes nothing new over and ends when nothing is owed";
    Gauge "standing_by" Source::Whole(|s| Some(f64::from(u8::from(!s.stands_by.is_empty()))))
        => "1 while a packet filter is against it: nothing is steered until none is";
    Gauge "interface_up" Source::Interface(|s| s.are_up) => "1 if the interface of that side is up";
    Gauge "resident_memory" in "bytes" Source::Whole(|s| (s.resident_bytes > 0).then_some(s.resident_bytes as f64))
        => "Memory of the process";
    Gauge "successor_ready" Source::Whole(|s| Some(f64::from(u8::from(s.recovery.is_ready))))
        => "1 if another process goes on with the flows when this one dies";
    Counter "hand_overs" Source::Count(|s| s.upgrades)
        => "Upgrades: a process of this line took the place of another one, with its devices";
    Counter "deaths" Source::Count(|s| s.recovery.deaths)
        => "Processes of this line that have died and whose flows another one was to go on with";
    Counter "flows_recovered" Source::Count(|s| s.recovery.flows_recovered)
        => "Flows that went on with another process after a death";
    Counter "flows_lost" Source::Count(|s| s.recovery.flows_lost)
        => "Flows that were owed something at a death and were reset";

    Gauge "subscribers" Source::Whole(|s| Some(s.subscribers as f64))
        => "Subscribers that are known: with flows, or remembered from before";
    Gauge "flows" Source::Flows => "Flows in the table by state; one that is accelerated both ways counts in both";
    Counter "flows_opened" Source::Half("flows_opened") => "Flows whose handshake was seen to begin";
    Counter "flows_accelerated" Source::Half("flows_accelerated") => "Flows that were accelerated";
    Counter "flows_windowed" Source::Half("flows_windowed") => "Flows whose window was ours to lower (drwa)";
    Counter "flows_ended" Source::Half("flows_ended") => "Flows that left the table, for whatever reason";
    Counter "flows_passed" Source::Passed
        => "Flows passed, or ended, by reason; closed and reset are the ends of accelerated flows";
    Gauge "debt" in "bytes" Source::HalfLevel(|half| half.debt_bytes)
        => "Acknowledged to sending hosts, and not by the receiving ones";
    Gauge "held" in "bytes" Source::HalfLevel(|half| half.counter("buffer_bytes_now"))
        => "Memory in buffers of flows";

    Counter "received_packets" Source::Side(|side| side.received_packets)
        => "Packets that came from that side, as they were on the link";
    Counter "received" in "bytes" Source::Side(|side| side.received_bytes)
        => "Bytes of packets that came from that side, IP headers included";
    Counter "sent_packets" Source::Side(|side| side.sent_packets)
        => "Packets sent to that side, as they are on the link";
    Counter "sent" in "bytes" Source::Side(|side| side.sent_bytes)
        => "Bytes of packets sent to that side, IP headers included";
    Counter "dropped_packets" Source::Side(|side| side.dropped_packets)
        => "Packets that the kernel refused, or that were lost in a full queue; a super-packet counts as one";

    Counter "taken" in "bytes" Source::Half("bytes_received") => "Payload taken from sending hosts";
    Counter "goodput" in "bytes" Source::Half("bytes_delivered") => "Payload acknowledged by receiving hosts";
    Counter "data_packets" Source::Half("data_segments")
        => "Packets with data made for receiving hosts, as they are on the link";
    Counter "data" in "bytes" Source::Half("data_bytes")
        => "Bytes of packets with data made for receiving hosts, IP headers included; goodput over it is the useful share";
    Counter "retransmitted_packets" Source::Half("segments_retransmitted") => "Of those packets, ones sent again";
    Counter "retransmitted" in "bytes" Source::Half("bytes_retransmitted") => "Payload sent again";
    Counter "duplicates_reported" Source::Half("duplicates_reported")
        => "Acknowledgements by which a receiving host said that data had come twice (D-SACK): spurious retransmissions, \
            or copies that the network made";
    Counter "timeouts" Source::Half("timeouts") => "Retransmission time-outs";
    Counter "spurious_timeouts" Source::Half("timeouts_undone") => "Of those, ones found needless and taken back";
    Counter "acks_made" Source::Half("acks_made") => "Acknowledgements made for sending hosts";
    Counter "acks_suppressed" Source::Half("acks_consumed") => "Acknowledgements of receiving hosts that went no further";
    Counter "flows_accurate_ecn" Source::Half("flows_accurate_ecn")
        => "Flows taken over whose hosts agreed on accurate ECN (RFC 9768)";
    Counter "ce_packets" Source::Half("ce_packets")
        => "Packets of such flows that arrived marked CE, and were counted in their receiver's place";
    Counter "undelivered" in "bytes" Source::Half("bytes_acked_but_lost")
        => "Acknowledged to a sending host, and never by the receiving one";
    Counter "memory_refusals" Source::Half("memory_refused")
        => "Packets left to the sending host to send again, because memory was short";
    Counter "passed_in_turns" in "bytes" Source::Half("opaque_bytes")
        => "Bytes of packets that passed to clients in turns with accelerated flows, IP headers included";
    Counter "passed_in_turns_tcp" in "bytes" Source::Half("opaque_tcp_bytes") => "Of those bytes, ones of TCP that passes";
    Counter "passed_in_turns_quic" in "bytes" Source::Half("opaque_quic_bytes")
        => "Of those bytes, ones of QUIC, inferred: from port 443, or with a long header of version 1 or 2 (RFC 8999)";
    Counter "quic_handshakes" Source::Half("quic_handshakes")
        => "Handshakes of QUIC seen in turns with accelerated flows";
    Counter "quic_handshakes_round_trip" in "seconds" Source::HalfMicros("quic_handshakes_us")
        => "Their round trips between here and the clients, in all";
    Counter "passed_in_turns_dropped_packets" Source::Half("opaque_dropped")
        => "Of those packets, ones dropped because their flow's queue was too long";
    Counter "passed_in_turns_marked_packets" Source::Half("opaque_marked")
        => "Of those packets, ones marked (ECN) for the same reason";
    Counter "passed_in_turns_overdue_packets" Source::Half("opaque_overdue")
        => "Of those packets, ones sent beyond the window, since nothing had told for 100 ms what is under way";
    Counter "echo_requests_sent" Source::Half("markers_sent")
        => "Echo requests sent to know what has arrived of what passes";
    Counter "echo_requests_answered" Source::Half("markers_answered") => "Of those, ones that were answered";
    Counter "bad_checksums" Source::Half("bad_checksums") => "Packets with a wrong checksum";
    Counter "unacceptable_acks" Source::Half("unacceptable_acks")
        => "Packets dropped for an acknowledgement that cannot be true, or for none";
    Counter "inexact_resets" Source::Half("inexact_resets") => "Resets with another number than the exact one";
    Counter "window_fallbacks" Source::Half("fell_back_to_honour")
        => "Times a flow went back to honouring the window, since its host discards what lies beyond it";

    Histogram "round_trip" in "seconds" Source::Times(|half| &half.round_trip)
        => "Round trips between here and receiving hosts, by packets sent once";
    Histogram "queueing_delay" in "seconds" Source::Times(|half| &half.queueing)
        => "By how much each of them was longer than the shortest of its flow: an estimate of the time in queues";
    Histogram "packet_time" in "seconds" Source::PacketTime
        => "Time per packet, system calls included, of one in sixteen of the packet loop's turns that have packets";

    Gauge "scrape_wait" in "seconds" Source::Whole(|s| Some(s.packets_waited_ns as f64 / 1e9))
        => "Time in which packets of the first shard waited for this answer";
    Counter "answers" Source::Count(|s| s.answers)
        => "Questions that packet loops have answered: of metrics, status, live views";
    Counter "answering" in "seconds" Source::Spent(|s| s.answering_ns)
        => "Processor time of the packet loops for these answers, all shards together";

    Counter "kernel_refusals" Source::Other("kernel_refusals") => "What the kernel has refused for the moment";
    Counter "bypass_flows" Source::Other("bypass_flows") => "Passed flows left to the kernel";
    Counter "bypass_flows_ended" Source::Other("bypass_flows_ended") => "Of those, ones that have ended";
    Counter "bypass_packets" Source::Other("bypass_packets") => "Packets of those, which did not come to the process";
    Counter "bypass" in "bytes" Source::PassedBytes
        => "Bytes of TCP that passes, headers included, by the reason why its flows pass; unknown: they began before";
    Counter "feedback_reports" Source::Reports => "Reports of base stations, by what became of them";
    Gauge "feedback_age" in "seconds" Source::Whole(|s| s.feedback_age_ms.map(|ms| ms as f64 / 1e3))
        => "Time since the last report of a base station that was not refused";

    Counter "shard_packets" Source::Shard(|shard| shard.received_packets) => "Packets that came to a shard";
    Gauge "shard_flows" Source::Shard(|shard| shard.flows) => "Flows of a shard";
    Gauge "shard_held" in "bytes" Source::Shard(|shard| shard.held_bytes) => "Memory in buffers of a shard's flows";
}

/// Outcomes of reports of base stations: the name of the counter, and the label.
const REPORTS: [(&str, &str); 7] = [
    ("feedback_accepted", "accepted"),
    ("feedback_malformed", "malformed"),
    ("feedback_unknown_version", "unknown-version"),
    ("feedback_wrong_key", "wrong-key"),
    ("feedback_old_sequence", "old-sequence"),
    ("feedback_too_late", "too-late"),
    ("feedback_unknown_subscriber", "unknown-subscriber"),
];

/// Metrics of the accelerators, in the OpenMetrics text format.
#[must_use]
pub fn exposition(answers: &[Answered]) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Answers(answers.to_vec())));
    let mut text = String::new();
    // Writing to a string does not fail.
    _ = text::encode(&mut text, &registry);
    text
}

/// The same in the older text format of Prometheus, whose counters are called `_total` everywhere, and which
/// knows neither units nor `info`.
#[must_use]
pub fn text_format(open_metrics: &str) -> String {
    let kinds = |name: &str| FAMILIES.iter().find(|family| family.bare_name() == name);
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let words = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
        match words {
            Some(("HELP" | "TYPE", rest)) => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let full = kinds(name).map_or(name.to_owned(), Family::name);
                let rest = if rest == "info" { "gauge" } else { rest };
                let word = &line[..6];
                text.push_str(&format!("{word} {full} {rest}\n"));
            }
            Some(_) => {}
            None if line.starts_with('#') => {}
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[derive(Debug)]
struct Answers(Vec<Answered>);

impl Collector for Answers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in FAMILIES {
            let stem = match family.stem {
                "" => PREFIX.to_owned(),
                stem => format!("{PREFIX}_{stem}"),
            };
            let unit = family.unit.map(|unit| Unit::Other(unit.to_owned()));
            let metric =
                encoder.encode_descriptor(&stem, family.help, unit.as_ref(), family.kind.metric_type())?;
            let mut series = Series { metric, kind: family.kind };
            for answer in &self.0 {
                let name = (ACCELERATOR, answer.name.as_str());
                match (family.source, &answer.snapshot) {
                    (Source::Answers, snapshot) => {
                        series.put(&[name], f64::from(u8::from(snapshot.is_some())))?;
                    }
                    (source, Some(snapshot)) => show(&mut series, name, source, snapshot)?,
                    (_, None) => {}
                }
            }
        }
        Ok(())
    }
}

/// A label: name and value.
type Label<'a> = (&'a str, &'a str);

/// The series of a family.
struct Series<'a> {
    metric: MetricEncoder<'a>,
    kind: MetricKind,
}

impl Series<'_> {
    /// Counts have 53 bits here, which are enough for nine petabytes; others are shown as they are.
    fn put(&mut self, labels: &[Label<'_>], value: f64) -> fmt::Result {
        let labels = labels.to_vec();
        match self.kind {
            MetricKind::Info => self.metric.encode_info(&labels),
            _ => self.metric.encode_family(&labels)?.encode_gauge(&value),
        }
    }

    fn count(&mut self, labels: &[Label<'_>], value: u64) -> fmt::Result {
        let labels = labels.to_vec();
        let mut metric = self.metric.encode_family(&labels)?;
        match self.kind {
            MetricKind::Counter => metric.encode_counter::<NoLabelSet, _, f64>(&value, None),
            _ => metric.encode_gauge(&value),
        }
    }

    /// Seconds, of nanoseconds.
    fn spend(&mut self, labels: &[Label<'_>], ns: u64) -> fmt::Result {
        let labels = labels.to_vec();
        let seconds = ns as f64 / 1e9;
        self.metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&seconds, None)
    }

    /// `scale` of them are a second.
    fn distribute(&mut self, labels: &[Label<'_>], seen: &Distribution, scale: f64) -> fmt::Result {
        let labels = labels.to_vec();
        let bounds = seen.bounds.iter().map(|bound| *bound as f64 / scale).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(seen.counts.iter().copied()).collect();
        let (sum, count) = (seen.sum as f64 / scale, seen.counts.iter().sum());
        self.metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

fn show(series: &mut Series<'_>, name: Label<'_>, source: Source, of: &Snapshot) -> fmt::Result {
    let halves = || [("downlink", Some(&of.downlink)), ("uplink", of.uplink.as_ref())];
    let halves =
        || halves().into_iter().filter_map(|(direction, half)| Some((("direction", direction), half?)));
    match source {
        Source::Answers => Ok(()),
        Source::Whole(value) => value(of).map_or(Ok(()), |value| series.put(&[name], value)),
        Source::Count(value) => series.count(&[name], value(of)),
        Source::Spent(value) => series.spend(&[name], value(of)),
        Source::Other(counter) => {
            of.others.get(counter).map_or(Ok(()), |value| series.count(&[name], *value))
        }
        Source::Reports => REPORTS.iter().try_for_each(|(counter, outcome)| {
            let count = of.others.get(*counter);
            count.map_or(Ok(()), |count| series.count(&[name, ("outcome", outcome)], *count))
        }),
        Source::Interface(are) => SIDES
            .iter()
            .zip(are(of))
            .try_for_each(|(side, is)| series.put(&[name, ("side", side)], f64::from(u8::from(is)))),
        Source::Side(count) => SIDES
            .iter()
            .zip(&of.sides)
            .try_for_each(|(label, side)| series.count(&[name, ("side", label)], count(side))),
        Source::Shard(count) => of.shards.iter().enumerate().try_for_each(|(number, shard)| {
            series.count(&[name, ("shard", &number.to_string())], count(shard))
        }),
        Source::Half(counter) => {
            halves().try_for_each(|(label, half)| series.count(&[name, label], half.counter(counter)))
        }
        Source::HalfMicros(counter) => {
            halves().try_for_each(|(label, half)| series.spend(&[name, label], half.counter(counter) * 1_000))
        }
        Source::HalfLevel(level) => {
            halves().try_for_each(|(label, half)| series.count(&[name, label], level(half)))
        }
        Source::Flows => halves().try_for_each(|(label, half)| {
            half.flows
                .iter()
                .try_for_each(|(state, flows)| series.count(&[name, label, ("state", state)], *flows))
        }),
        Source::Passed => {
            of.passed.iter().try_for_each(|(reason, flows)| series.count(&[name, ("reason", reason)], *flows))
        }
        Source::PassedBytes => of
            .passed_bytes
            .iter()
            .try_for_each(|(reason, bytes)| series.count(&[name, ("reason", reason)], *bytes)),
        Source::Times(times) => {
            halves().try_for_each(|(label, half)| series.distribute(&[name, label], times(half), 1e6))
        }
        Source::PacketTime => series.distribute(&[name], &of.packet_time, 1e9),
        Source::About => series.put(&[name, ("version", &of.version), ("steering", &of.steering)], 1.0),
    }
}

#[cfg(test)]
mod tests;
