//! The table for people.

use std::fmt::Write as _;

use analysis::{
    CaptureFile, Direction, DirectionReport, End, Findings, FlowReport, InterfaceCount, MptcpReport, Pair,
    Retransmissions, Sink, TimeCause, Vantage,
};
use figures::Table;

use super::fields::{number, rtt};
use super::quic::describe_udp;

/// Keeps the flows with most data, so that memory does not grow with the capture.
pub(super) struct Top {
    /// Flows to keep at most.
    pub(super) limit: usize,
    pub(super) flows: Vec<FlowReport>,
    /// A flow with less data than this is not among them.
    floor: u64,
    pub(super) all_flows: usize,
}

impl Top {
    /// Keeps `limit` flows; zero is all.
    pub(super) fn new(limit: usize) -> Self {
        let limit = if limit == 0 { usize::MAX } else { limit };
        Self { limit, flows: Vec::new(), floor: 0, all_flows: 0 }
    }

    /// Drops all but the flows with most data.
    pub(super) fn thin(&mut self) {
        self.flows.sort_by_key(|flow| (std::cmp::Reverse(data(flow)), flow.id));
        self.flows.truncate(self.limit);
        if self.flows.len() == self.limit {
            self.floor = self.flows.last().map_or(0, data);
        }
    }
}

impl Sink for Top {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.all_flows += 1;
        if data(flow) >= self.floor {
            self.flows.push(flow.clone());
            if self.flows.len() / 2 > self.limit.max(50) {
                self.thin();
            }
        }
    }
}

/// The table for people: captures, then flows with their two directions and what was found, then UDP.
pub(super) fn table(findings: &Findings, top: &Top, columns: usize) -> String {
    let Top { limit, flows, all_flows, .. } = top;
    let all_flows = *all_flows;
    let mut text = String::new();
    for capture in &findings.captures {
        let _ = writeln!(text, "{}", capture_line(capture));
    }
    let shown = flows.len();
    let which = match shown < all_flows {
        true => format!(", the {shown} with most data (--top 0 shows all)"),
        false => String::new(),
    };
    let flows_word = if all_flows == 1 { "flow" } else { "flows" };
    let of_tcp = if findings.udp.datagrams > 0 { "TCP " } else { "" };
    let _ = writeln!(text, "\n{all_flows} {of_tcp}{flows_word}{which}\n");
    for flow in flows {
        describe(&mut text, flow, columns);
    }
    for pair in findings.pairs.iter().take(50) {
        let _ = writeln!(text, "{}", pair_line(pair));
    }
    for connection in &findings.mptcp {
        describe_multipath(&mut text, connection);
    }
    describe_udp(&mut text, &findings.udp, *limit, columns);
    text
}

/// A connection captured at two points, and what got lost between them, if that can be told.
fn pair_line(pair: &Pair) -> String {
    let (client, server) = (pair.client_flow, pair.server_flow);
    let translated = if pair.is_translated { ", addresses translated between them" } else { "" };
    let path = format!("path {:.3} ms, the server's clock {:+.3} ms", pair.path_rtt_ms, pair.clock_offset_ms);
    match (pair.lost_to_server, pair.lost_to_client) {
        (Some(to_server), Some(to_client)) => format!(
            "#{client} and #{server} are one connection at both ends{translated}: {path}; lost on the way \
             {to_server} to the server, {to_client} to the client"
        ),
        _ => format!(
            "#{client} and #{server} are one connection at both sides of a box that acknowledges by \
             itself{translated}: {path}; packets that one side alone has are the box's, not lost"
        ),
    }
}

/// A connection of Multipath TCP: its subflows with their shares, then what the whole had to wait for.
fn describe_multipath(text: &mut String, connection: &MptcpReport) {
    let version = connection.version.map_or_else(|| "?".to_owned(), |version| version.to_string());
    let count = connection.subflows.len();
    let word = if count == 1 { "subflow" } else { "subflows" };
    let _ = writeln!(text, "MPTCP #{} version {version}, {count} {word}", connection.id);
    for subflow in &connection.subflows {
        let ways = [("1>2", &subflow.directions[0]), ("2>1", &subflow.directions[1])].map(|(name, way)| {
            let share = way.share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0));
            let (reinjected, repeated) = (way.reinjected_bytes, way.repeated_bytes);
            format!("{name} {} B ({share}), reinjected {reinjected} B, again {repeated} B", way.bytes)
        });
        let joined = if subflow.joined { "joined" } else { "first" };
        let _ = writeln!(text, "  {} -> {} {joined}: {}", subflow.client, subflow.server, ways.join("; "));
    }
    for (name, way) in [("1>2", &connection.directions[0]), ("2>1", &connection.directions[1])] {
        if let Some(delay) = way.out_of_order_delay.filter(|_| way.bytes > 0) {
            let _ = writeln!(
                text,
                "  {name} {} B, {} of {} packets out of order; wait until in order ms p50/p95/max \
                 {:.2}/{:.2}/{:.2}",
                way.bytes, way.out_of_order, delay.n, delay.p50_ms, delay.p95_ms, delay.max_ms
            );
        }
    }
    text.push('\n');
}

fn data(flow: &FlowReport) -> u64 {
    flow.directions.iter().map(|direction| direction.volume.unique_bytes).sum()
}

fn capture_line(capture: &CaptureFile) -> String {
    let mut line = format!("{}: {} packets, {} of TCP", capture.file, capture.packets, capture.segments);
    if capture.datagrams > 0 {
        let _ = write!(line, ", {} of UDP", capture.datagrams);
    }
    let skipped = &capture.skipped;
    let other = if capture.datagrams > 0 { "neither" } else { "not TCP" };
    for (count, what) in [
        (skipped.not_ip, "not IP"),
        (skipped.not_tcp.saturating_sub(capture.datagrams), other),
        (skipped.fragment, "fragments"),
        (skipped.cut, "with headers cut"),
        (skipped.unknown_link, "of an unknown link type"),
        (capture.bad_blocks, "in blocks that cannot be read"),
        (capture.time_steps_back, "steps back in time"),
        (capture.sorted, "put in the order of time"),
        (capture.dropped.unwrap_or(0), "lost by the capturing machine"),
    ] {
        if count > 0 {
            let _ = write!(line, ", {count} {what}");
        }
    }
    for InterfaceCount { interface, packets, segments } in &capture.interfaces {
        let _ = write!(line, "\n  interface {interface}: {packets} packets, {segments} of TCP");
    }
    line
}

/// Columns of a flow that a narrow terminal can do without, the least needed first.
const MAY_GO: [&str; 5] = ["window", "late", KINDS, "before", "bytes"];
/// The column that says why packets were sent again.
const KINDS: &str = "syn/rto/fast/tlp/unclear/spur";

fn describe(text: &mut String, flow: &FlowReport, columns: usize) {
    let arrow = match flow.client {
        Some(Direction::FromFirst) => "->",
        Some(Direction::FromSecond) => "<-",
        None => "--",
    };
    let place = match flow.vantage {
        Some(Vantage::First) => "captured at the first end",
        Some(Vantage::Second) => "captured at the second end",
        Some(Vantage::Middle) => "captured on the way",
        Some(Vantage::Both) => "captured where both ends are near",
        None => "capture point not known",
    };
    let handshake = &flow.handshake;
    let _ = writeln!(
        text,
        "#{}{} {} {arrow} {}  {:.3} s  {}\n  {place}; handshake {} ms (server {}, client {})",
        flow.id,
        if flow.point > 0 { format!(" (point {})", flow.point) } else { String::new() },
        flow.first,
        flow.second,
        flow.duration_s,
        end(flow.end),
        number(handshake.total_ms),
        number(handshake.to_server_ms),
        number(handshake.to_client_ms),
    );
    let (table, gone) = directions(flow).fitting(columns, &MAY_GO);
    let _ = write!(text, "{table}");
    if gone.contains(&KINDS) {
        for (direction, way) in flow.directions.iter().zip(["1>2", "2>1"]) {
            text.extend(kinds_of_resent(direction).map(|kinds| format!("  {way} {kinds}\n")));
        }
    }
    if let Some(reason) = flow.budget.slow_because() {
        let way = way(flow.budget.direction);
        let part = |cause: TimeCause| match flow.budget.per_mille(cause) {
            0 => None,
            share => Some(format!("{} {}.{} %", cause.name(), share / 10, share % 10)),
        };
        let parts: Vec<String> = TimeCause::ALL.into_iter().filter_map(part).collect();
        let _ = writeln!(text, "  {way} {reason}\n      time: {}", parts.join(", "));
    }
    for diagnosis in &flow.diagnoses {
        let kind = serde_json::to_value(diagnosis.kind).ok();
        let kind = kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or_default().replace('_', " ");
        let way = way(diagnosis.direction);
        let _ = writeln!(text, "  {way} {kind}: {}", diagnosis.evidence);
    }
    text.push('\n');
}

fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::FromFirst => "1>2",
        Direction::FromSecond => "2>1",
    }
}

/// The two directions of a flow.
fn directions(flow: &FlowReport) -> Table {
    let names = [
        "",
        "packets",
        "bytes",
        "Mbit/s",
        "resent",
        KINDS,
        "loss %",
        "before",
        "late",
        "RTT ms min/p50/p95",
        "window",
    ];
    let row = |(direction, name): (&DirectionReport, &str)| {
        let r = &direction.retransmissions;
        vec![
            name.to_owned(),
            direction.volume.packets.to_string(),
            direction.volume.unique_bytes.to_string(),
            number(direction.throughput.active_bps.map(|rate| rate / 1e6)),
            (r.data_packets + r.syn + r.fin).to_string(),
            kinds(r).map(|(_, count)| count).join("/"),
            number(direction.loss.rate.map(|rate| rate * 100.0)),
            match direction.loss.acks_before_capture.unwrap_or(0) {
                0 => direction.loss.before_capture.to_string(),
                acks => format!("{} +{acks} acks", direction.loss.before_capture),
            },
            direction.loss.reordered.to_string(),
            rtt(direction.rtt.karn),
            direction.window.max.map_or_else(|| "-".to_owned(), |max| max.to_string()),
        ]
    };
    Table {
        headings: names.map(|name| (name, "")).to_vec(),
        rows: flow.directions.iter().zip(["1>2", "2>1"]).map(row).collect(),
    }
}

/// Reasons why packets were sent again, and of how many it is known that this was not needed.
fn kinds(r: &Retransmissions) -> [(&'static str, String); 6] {
    [
        ("syn", r.syn.to_string()),
        ("rto", count(r.rto.zip(r.rto_recovery).map(|(timer, after)| timer + after))),
        ("fast", count(r.fast)),
        ("tlp", count(r.tlp)),
        ("unclear", count(r.unclear)),
        ("spurious", r.spurious.to_string()),
    ]
}

/// The same in a line, for a terminal without room for the column; none without anything sent again.
fn kinds_of_resent(direction: &DirectionReport) -> Option<String> {
    let r = &direction.retransmissions;
    let known = kinds(r).into_iter().filter(|(_, count)| count != "-");
    let known: Vec<String> = known.map(|(kind, count)| format!("{kind} {count}")).collect();
    (r.data_packets + r.syn + r.fin + r.spurious > 0).then(|| format!("resent: {}", known.join(", ")))
}

fn end(end: End) -> &'static str {
    match end {
        End::Closed => "closed",
        End::ResetByFirst => "reset by the first end",
        End::ResetBySecond => "reset by the second end",
        End::HalfClosed => "half closed",
        End::Open => "open",
    }
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
