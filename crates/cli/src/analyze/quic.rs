//! UDP in the table for people: QUIC flows, and what else there is.

use std::cmp::Reverse;
use std::fmt::Write as _;

use analysis::{
    Direction, QuicEvidence, QuicFlowReport, QuicInferred, QuicPackets, QuicVersion, SampleSummary,
    SpinState, UdpReport,
};
use figures::Table;

use super::fields::{number, rtt};

/// Columns of a flow that a narrow terminal can do without, the least needed first.
const MAY_GO: [&str; 2] = ["ECT/CE", "duplicates"];

/// Adds what is known of the UDP, with `limit` QUIC flows at most.
pub(super) fn describe_udp(text: &mut String, udp: &UdpReport, limit: usize, columns: usize) {
    if udp.datagrams == 0 {
        return;
    }
    let mut order: Vec<&QuicFlowReport> = udp.quic.iter().collect();
    order.sort_by_key(|flow| (Reverse(flow.payload_bytes()), flow.id));
    order.truncate(limit);
    let which = match (order.len() as u64) < udp.quic_flows {
        true => format!(", the {} with most data (--top 0 shows more)", order.len()),
        false => String::new(),
    };
    let word = if udp.quic_flows == 1 { "flow" } else { "flows" };
    let _ = write!(text, "{} QUIC {word}{which}", udp.quic_flows);
    if !order.is_empty() {
        text.push_str("; nothing is decrypted: headers and counts, then what is inferred from them");
    }
    text.push_str("\n\n");
    for flow in order {
        describe_flow(text, flow, columns);
    }
    if udp.ended_early > 0 {
        let _ = writeln!(text, "{} flows were ended early: too many at a time", udp.ended_early);
    }
    describe_other(text, udp);
}

fn describe_other(text: &mut String, udp: &UdpReport) {
    let other = &udp.other;
    if other.datagrams == 0 {
        return;
    }
    let ports: Vec<String> = other
        .ports
        .iter()
        .take(5)
        .map(|of| format!("{} ({} datagrams, {} B)", of.port, of.datagrams, of.ip_bytes))
        .collect();
    let more = if other.ports.len() > ports.len() { ", …" } else { "" };
    let _ = writeln!(
        text,
        "other UDP: {} conversations, {} datagrams, {} B; by port: {}{more}\n",
        other.conversations,
        other.datagrams,
        other.ip_bytes,
        ports.join(", ")
    );
}

fn describe_flow(text: &mut String, flow: &QuicFlowReport, columns: usize) {
    let arrow = match flow.inferred.client {
        Some(Direction::FromFirst) => "->",
        Some(Direction::FromSecond) => "<-",
        None => "--",
    };
    let point = if flow.point > 0 { format!(" (point {})", flow.point) } else { String::new() };
    let (first, second, duration) = (flow.first, flow.second, flow.duration_s);
    let _ = writeln!(text, "QUIC #{}{point} {first} {arrow} {second}  {duration:.3} s", flow.id);
    let _ = writeln!(text, "  {}; {}", version(flow), ids(flow));
    let (table, _) = directions(flow).fitting(columns, &MAY_GO);
    let _ = write!(text, "{table}");
    let long = flow.directions.as_array().each_ref().map(|way| long(&way.packets));
    if long.iter().any(Option::is_some) {
        let [first, second] = long.map(|of| of.unwrap_or_else(|| "none".to_owned()));
        let _ = writeln!(text, "  long headers: 1>2 {first}; 2>1 {second}");
    }
    if flow.pauses.count > 0 {
        let pauses = &flow.pauses;
        let _ = writeln!(
            text,
            "  {} pauses of both ends, {:.3} s in all, the longest {:.3} s",
            pauses.count,
            pauses.total_ms / 1e3,
            pauses.longest_ms / 1e3
        );
    }
    for line in inferred(&flow.inferred, flow) {
        let _ = writeln!(text, "  inferred: {line}");
    }
    text.push('\n');
}

fn version(flow: &QuicFlowReport) -> String {
    let name = |version: &QuicVersion| match &version.name {
        Some(name) => name.clone(),
        None => version.number.clone(),
    };
    match (&flow.version_offered, &flow.version) {
        (Some(offered), Some(version)) if offered != version => {
            format!("version {}, after {} was offered", name(version), name(offered))
        }
        (_, Some(version)) | (Some(version), None) => format!("version {}", name(version)),
        (None, None) => "version not known".to_owned(),
    }
}

fn ids(flow: &QuicFlowReport) -> String {
    if flow.connection_id_bytes.iter().all(Option::is_none) {
        return "connection IDs not known".to_owned();
    }
    let len = |len: &Option<u64>| len.map_or_else(|| "?".to_owned(), |len| len.to_string());
    let [first, second] = flow.connection_id_bytes.as_array().each_ref().map(len);
    format!("connection IDs of {first} and {second} bytes")
}

/// The two directions of a flow.
fn directions(flow: &QuicFlowReport) -> Table {
    let names = ["", "datagrams", "bytes", "Mbit/s", "1-RTT", "duplicates", "ECT/CE"];
    let rows = flow.directions.iter().zip(["1>2", "2>1"]).map(|(way, name)| {
        vec![
            name.to_owned(),
            way.datagrams.to_string(),
            way.payload_bytes.to_string(),
            number(way.active_bps.map(|bps| bps / 1e6)),
            way.packets.short.to_string(),
            way.duplicates.to_string(),
            format!("{}/{}", way.ect, way.ce),
        ]
    });
    Table { headings: names.map(|name| (name, "")).to_vec(), rows: rows.collect() }
}

/// Packets with long headers, by type; none without any.
fn long(packets: &QuicPackets) -> Option<String> {
    let types = [
        (packets.initial, "Initial"),
        (packets.zero_rtt, "0-RTT"),
        (packets.handshake, "Handshake"),
        (packets.retry, "Retry"),
        (packets.version_negotiation, "Version Negotiation"),
        (packets.other_long, "other"),
    ];
    let seen: Vec<String> = types
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    (!seen.is_empty()).then(|| seen.join(", "))
}

/// Facts inferred of a flow, a line each.
fn inferred(found: &QuicInferred, flow: &QuicFlowReport) -> Vec<String> {
    let mut lines = Vec::new();
    match flow.recognized_by {
        QuicEvidence::Version => {}
        QuicEvidence::ConnectionIds => {
            lines.push("QUIC, because an end repeats the other's connection ID".to_owned());
        }
        QuicEvidence::Port => lines.push("QUIC, a guess by port and shape: no handshake was seen".to_owned()),
    }
    let handshake = &found.handshake;
    if [handshake.to_server_ms, handshake.to_client_ms].iter().any(Option::is_some) {
        lines.push(format!(
            "handshake {} ms (server {}, client {})",
            number(handshake.total_ms),
            number(handshake.to_server_ms),
            number(handshake.to_client_ms)
        ));
    }
    if found.connections > 1 {
        let count = found.connections;
        lines.push(format!("{count} connections on these ports, whose round trips are not told apart"));
    }
    if let Some(spin) = &found.spin {
        lines.push(match (spin.state, spin.rtt) {
            (SpinState::Spinning, Some(times)) => format!(
                "spin bit: {} round trips, ms min/p50/p95 {}, medians{}",
                times.n,
                rtt(Some(times)),
                halves(found.client, spin.answers.as_array(), |half| half.p50_ms)
            ),
            (SpinState::Constant, _) => "spin bit: not spinning (constant)".to_owned(),
            (SpinState::Random, _) => "spin bit: not spinning (random)".to_owned(),
            _ => "spin bit: too few or too sparse packets to tell".to_owned(),
        });
    }
    if let Some(flowlets) = &found.flowlets
        && flowlets.answers.iter().any(Option::is_some)
    {
        let count: u64 = flowlets.answers.iter().flatten().map(|answers| answers.n).sum();
        let whole = flowlets.rtt_min_ms.map(|ms| format!(", round trip at most {ms:.2} ms"));
        lines.push(format!(
            "flowlets: {count} answers after pauses, shortest ms{}{}",
            halves(found.client, flowlets.answers.as_array(), |half| half.min_ms),
            whole.unwrap_or_default()
        ));
    }
    lines.extend(changes(found));
    for step in &found.moves {
        let after = (step.time_ns.saturating_sub(flow.start_ns)) as f64 / 1e9;
        let (from, to) = (step.from, step.to);
        lines.push(format!("the client moved from {from} to {to} after {after:.3} s: same connection ID"));
    }
    if found.moves_left_out > 0 {
        lines.push(format!("{} further moves", found.moves_left_out));
    }
    lines
}

fn changes(found: &QuicInferred) -> Option<String> {
    let [first, second] = found.connection_id_changes.as_array().map(|count| count.unwrap_or(0));
    (first + second > 0).then(|| format!("new connection IDs: 1>2 {first}, 2>1 {second}"))
}

/// The parts of a round trip on both sides of the capture point, each by what the end there took to answer.
fn halves(
    client: Option<Direction>,
    answers: &[Option<SampleSummary>; 2],
    of: impl Fn(&SampleSummary) -> f64,
) -> String {
    let [first, second] = answers.each_ref().map(|half| number(half.as_ref().map(&of)));
    match client {
        Some(Direction::FromFirst) => format!(" (server {second}, client {first})"),
        Some(Direction::FromSecond) => format!(" (server {first}, client {second})"),
        None => format!(" (first end {first}, second end {second})"),
    }
}
