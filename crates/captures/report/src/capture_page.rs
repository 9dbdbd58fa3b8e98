//! [`CapturePage`]: what `cellerator analyze` found, as one page that needs nothing else.
//!
//! The page holds a table of flows, and for those with most data every packet, packed (see [`packets`]) and
//! compressed; its scripts unpack a flow when it is chosen.

mod distribution;
mod multipath;
mod packets;
mod rows;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::{
    CaptureFile, Direction, Event, EventKind, Findings, FlowReport, MadeBy, PacketKind, PacketView,
    QuicFlowReport, Sink, UdpReport,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::{Compress, Compression, FlushCompress, Status};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use maud::{DOCTYPE, PreEscaped, html};
use serde::Serialize;

use distribution::{Course, CourseData, Curve, Distribution};
use multipath::Connection;
use packets::{FinishedLog, PacketLog, put};
use rows::Row;

/// Flows listed at most: those with most data.
const FLOWS_MAX: usize = 5_000;
/// QUIC flows listed at most: those with most data.
const QUIC_MAX: usize = 1_000;
/// Flows held beyond these before the lightest go.
const SURPLUS: usize = 1_000;
/// Packed packets held while reading at most, bytes; compressed they are about a third.
const HELD_MAX: usize = 40 << 20;
/// Compressed packets in the page at most, bytes; a third more as text.
const PACKED_MAX: usize = 12 << 20;

/// The scripts, in the order in which they need each other.
const SCRIPTS: [&str; 11] = [
    include_str!("capture_page/decode.js"),
    include_str!("capture_page/format.js"),
    include_str!("capture_page/plot.js"),
    include_str!("capture_page/sequence.js"),
    include_str!("capture_page/charts.js"),
    include_str!("capture_page/flow.js"),
    include_str!("capture_page/table.js"),
    include_str!("capture_page/overview.js"),
    include_str!("capture_page/multipath.js"),
    include_str!("capture_page/quic.js"),
    include_str!("capture_page/page.js"),
];

/// A flow that has ended, with its packets.
struct Kept {
    report: FlowReport,
    log: FinishedLog,
}

/// Rank that orders flows: those with most data first, then those that began first.
type Rank = (Reverse<u64>, u64);

fn rank(flow: &FlowReport) -> Rank {
    (Reverse(flow.directions.iter().map(|direction| direction.volume.unique_bytes).sum()), flow.id)
}

/// Collects what the page shows; see [`CapturePage::write`].
#[derive(Default)]
pub struct CapturePage {
    active: HashMap<u64, PacketLog, FixedState>,
    kept: Vec<Kept>,
    /// Flows of a lower rank are not listed, because enough of a higher one have been seen.
    last_listed: Option<Rank>,
    /// Bytes of packets in `kept`.
    held: usize,
    flows: u64,
    origin_ns: Option<u64>,
    course: Course,
    distributions: [Distribution; 5],
    found: BTreeMap<&'static str, u64>,
    /// Group that the flows that end belong to; their server if not given.
    group: Option<String>,
}

/// Everything but the packets.
#[derive(Serialize)]
struct Head<'a> {
    made_by: &'a MadeBy,
    captures: &'a [CaptureFile],
    mptcp: Vec<Connection<'a>>,
    udp: &'a UdpReport,
    quic: Vec<&'a QuicFlowReport>,
    flows: u64,
    start_ns: u64,
    rows: Vec<Row<'a>>,
    course: CourseData,
    distributions: Vec<Named>,
    found: &'a BTreeMap<&'static str, u64>,
    /// Criterion that groups the curves besides the first.
    grouped_by: &'static str,
    definitions: &'a serde_json::Value,
}

/// Curves of one figure.
#[derive(Serialize)]
struct Named {
    title: &'static str,
    unit: &'static str,
    curves: Vec<Curve>,
}

/// Titles and units of the figures that the curves show.
const FIGURES: [(&str, &str); 5] = [
    ("Throughput while data flowed", "Mbit/s"),
    ("Round-trip time, median of each flow", "ms"),
    ("Handshake", "ms"),
    ("Retransmitted data packets", "%"),
    ("Duration", "s"),
];

impl Sink for CapturePage {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.flows += 1;
        self.describe(flow);
        let log = self.active.remove(&flow.id).unwrap_or_default();
        if self.last_listed.is_some_and(|last| rank(flow) > last) {
            return;
        }
        let log = log.finish();
        self.held += log.len();
        self.kept.push(Kept { report: flow.clone(), log });
        if self.kept.len() >= FLOWS_MAX + SURPLUS || self.held > HELD_MAX {
            self.thin();
        }
    }

    fn on_event(&mut self, event: &Event) {
        if let EventKind::Spurious { by, sent_ns, .. } = event.kind
            && let Some(log) = self.active.get_mut(&event.flow)
        {
            log.on_spurious(event.direction, sent_ns, by);
        }
    }

    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, packet: &PacketView<'_>) {
        let now = packet.time.as_nanos();
        self.origin_ns = Some(self.origin_ns.map_or(now, |origin| origin.min(now)));
        let is_repeated = matches!(packet.kind, PacketKind::Retransmission { .. });
        self.course.add(packet.time, packet.len, is_repeated);
        self.active.entry(packet.flow).or_default().push(packet);
    }
}

impl CapturePage {
    /// Nothing collected.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The flows that end from here on belong to the environment `name`: distributions are shown by
    /// environment.
    pub fn group(&mut self, name: &str) {
        self.group = Some(name.to_owned());
    }

    /// The flow's part in what is shown over all flows.
    fn describe(&mut self, flow: &FlowReport) {
        let direction = &flow.directions[flow.main_direction()];
        let server = match flow.client {
            Some(Direction::FromSecond) => flow.first.ip(),
            _ => flow.second.ip(),
        };
        let group = self.group.clone().unwrap_or_else(|| server.to_string());
        let is_bulk = direction.volume.data_packets >= 10;
        let figures = [
            direction.throughput.active_bps.filter(|_| is_bulk).map(|bps| bps / 1e6),
            direction.rtt.karn.map(|rtt| rtt.p50_ms),
            flow.handshake.total_ms,
            direction.loss.rate.filter(|_| is_bulk).map(|rate| rate * 100.0),
            Some(flow.duration_s).filter(|_| direction.volume.unique_bytes > 0),
        ];
        for (distribution, figure) in self.distributions.iter_mut().zip(figures) {
            if let Some(value) = figure {
                distribution.add(&group, value);
            }
        }
        let mut kinds: Vec<&'static str> = flow.diagnoses.iter().map(|found| found.kind.name()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            *self.found.entry(kind).or_default() += 1;
        }
    }

    /// Keeps the flows with most data.
    fn thin(&mut self) {
        self.sort();
        self.held = 0;
        for one in &mut self.kept {
            self.held += one.log.len();
            if self.held > HELD_MAX / 4 * 3 {
                self.held -= one.log.len();
                one.log = FinishedLog::default();
            }
        }
    }

    fn sort(&mut self) {
        self.kept.sort_by_key(|one| rank(&one.report));
        self.kept.truncate(FLOWS_MAX);
        if let Some(last) = self.kept.get(FLOWS_MAX - 1) {
            self.last_listed = Some(rank(&last.report));
        }
    }

    /// Writes the page.
    ///
    /// # Errors
    /// Writing failed.
    pub fn write(mut self, out: &mut impl Write, made_by: &MadeBy, findings: &Findings) -> io::Result<()> {
        self.sort();
        let origin_ns = self.origin_ns.unwrap_or(0);
        let mut packer = Packer::new();
        // Data comes before the head, which says where what lies: it need not be held.
        let shell = shell();
        let (start, rest) = shell.split_once(DATA).unwrap_or((&shell, ""));
        let (middle, end) = rest.split_once(HEAD).unwrap_or((rest, ""));
        out.write_all(start.as_bytes())?;
        let (mut places, mut written) = (Vec::new(), 0);
        for one in &mut self.kept {
            places.push(place(one, out, &mut written, &mut packer)?);
        }
        let mut rows: Vec<Row<'_>> = self.kept.iter().map(|one| Row::of(&one.report, origin_ns)).collect();
        for (row, place) in rows.iter_mut().zip(places) {
            row.data = place;
        }
        let schema: serde_json::Value = serde_json::from_str(SCHEMA)?;
        let distributions = self
            .distributions
            .into_iter()
            .zip(FIGURES)
            .map(|(distribution, (title, unit))| Named { title, unit, curves: distribution.curves() });
        let head = Head {
            made_by,
            captures: &findings.captures,
            mptcp: findings.mptcp.iter().map(|one| Connection::of(one, origin_ns)).collect(),
            udp: &findings.udp,
            quic: listed(&findings.udp),
            flows: self.flows,
            start_ns: origin_ns,
            rows,
            course: self.course.data(),
            distributions: distributions.collect(),
            found: &self.found,
            grouped_by: if self.group.is_some() { "environment" } else { "server" },
            definitions: &schema["$defs"],
        };
        let head = BASE64.encode(packer.pack(&serde_json::to_vec(&head)?));
        for part in [middle, &head, end] {
            out.write_all(part.as_bytes())?;
        }
        Ok(())
    }
}

/// The QUIC flows with most data, in the order of first packets.
fn listed(udp: &UdpReport) -> Vec<&QuicFlowReport> {
    let mut flows: Vec<&QuicFlowReport> = udp.quic.iter().collect();
    flows.sort_by_key(|flow| (Reverse(flow.payload_bytes()), flow.id));
    flows.truncate(QUIC_MAX);
    flows.sort_by_key(|flow| flow.id);
    flows
}

const SCHEMA: &str = include_str!("../../../../schemas/analysis.schema.json");

/// Writes a flow's report and packets behind `written` characters of others; none when there are no packets
/// or the page is full.
fn place(
    one: &mut Kept,
    out: &mut impl Write,
    written: &mut usize,
    packer: &mut Packer,
) -> io::Result<Option<[u64; 4]>> {
    let log = std::mem::take(&mut one.log);
    if log.packets == 0 || *written / 4 * 3 >= PACKED_MAX {
        return Ok(None);
    }
    let report = serde_json::to_vec(&one.report)?;
    let mut bytes = Vec::new();
    put(&mut bytes, report.len() as u64);
    put(&mut bytes, u64::from(log.packets));
    bytes.extend(report);
    bytes.extend(log.bytes);
    let text = BASE64.encode(packer.pack(&bytes));
    out.write_all(text.as_bytes())?;
    let from = *written;
    *written += text.len();
    Ok(Some([from as u64, text.len() as u64, u64::from(log.packets), log.left_out]))
}

/// Compresses one piece after the other, each on its own (raw deflate, RFC 1951).
struct Packer {
    compress: Compress,
    packed: Vec<u8>,
}

impl Packer {
    fn new() -> Self {
        Self { compress: Compress::new(Compression::new(3), false), packed: Vec::new() }
    }

    fn pack(&mut self, bytes: &[u8]) -> &[u8] {
        self.compress.reset();
        self.packed.clear();
        // Deflate grows what it cannot shrink by a few bytes per 16 KB.
        self.packed.reserve(bytes.len() + bytes.len() / 1_000 + 256);
        while let Ok(Status::Ok | Status::BufError) = self.compress.compress_vec(
            bytes.get(self.compress.total_in() as usize..).unwrap_or_default(),
            &mut self.packed,
            FlushCompress::Finish,
        ) {
            self.packed.reserve(4_096);
        }
        &self.packed
    }
}

/// Marks of the places of packets and head in the page: neither is in its texts.
const DATA: &str = "<!-- data -->";
const HEAD: &str = "<!-- head -->";

/// The page around its data. Base64 has no character that could end an element.
fn shell() -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { "Capture analysis" }
                style { (PreEscaped(include_str!("capture_page/page.css"))) }
            }
            body {
                (PreEscaped(include_str!("capture_page/page.html")))
                script type="text/plain" id="data" { (PreEscaped(DATA)) }
                script type="text/plain" id="head" { (PreEscaped(HEAD)) }
                script {
                    (PreEscaped("\n\"use strict\";\n(() => {\n"))
                    @for script in SCRIPTS { (PreEscaped(script)) }
                    (PreEscaped("})();\n"))
                }
            }
        }
    };
    whole.into_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_place_for_each_kind_of_data() {
        let shell = shell();
        assert_eq!((shell.matches(DATA).count(), shell.matches(HEAD).count()), (1, 1));
        assert!(shell.find(DATA) < shell.find(HEAD), "the head says where in the data what lies");
        assert!(shell.starts_with("<!DOCTYPE html><html lang=\"en\">") && shell.ends_with("</html>\n"));
    }
}
