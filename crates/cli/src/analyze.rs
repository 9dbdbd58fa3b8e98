//! `cellerator analyze`: captures to flows and figures.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::{
    Analyzer, CaptureFile, Config, DocumentWriter, FlowReport, MadeBy, SampleSummary, Sink, Skipped, Vantage,
};
use capture::{Merged, Source, decode, decompressed};
use serde_json::Value;
use units::Duration;

/// Arguments of `cellerator analyze`.
#[derive(clap::Args)]
pub struct Args {
    /// Captures (pcap or pcapng, also in gzip or zstd), folders of them, or `-` for standard input
    #[arg(required_unless_present = "explain", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Put every retransmission, probe and reset into the JSON
    #[arg(long, requires = "json")]
    events: bool,
    /// Show at most so many flows, those with most data first; 0 shows all
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// A flow without a packet for so many seconds has ended
    #[arg(long, default_value_t = 900, value_name = "S")]
    idle: u64,
    /// Files that overlap in time were captured at one place, as one per interface or direction; else they are taken as
    /// captures at different places, and what they both saw is shown once for each
    #[arg(long)]
    one_point: bool,
    /// Say what a field of the JSON means, by its name or a part of it, and how it is found
    #[arg(long, value_name = "METRIC", conflicts_with = "files")]
    explain: Option<String>,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let (written, code) = if let Some(metric) = &args.explain {
        (out.write_all(explain(metric)?.as_bytes()), ExitCode::SUCCESS)
    } else if args.json {
        let made_by = MadeBy { cellerator: env!("CARGO_PKG_VERSION").to_owned(), command: command() };
        let inputs = inputs(&args.files)?;
        let (writer, captures) = read(args, inputs, DocumentWriter::new(&mut out, &made_by, args.events));
        (writer.finish(&captures).map(|_| ()), outcome(&captures))
    } else {
        let (mut top, captures) = read(args, inputs(&args.files)?, Top::new(args.top));
        top.thin();
        let text = table(&captures, &top.flows, top.all_flows);
        (out.write_all(text.as_bytes()), outcome(&captures))
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("writing the result failed: {error}"))
        }
        _ => Ok(code),
    }
}

/// Reads all captures into `sink`; says on standard error what could not be read.
fn read<S: Sink>(args: &Args, inputs: Vec<Input>, sink: S) -> (S, Vec<CaptureFile>) {
    let config = Config { idle: Duration::from_secs(args.idle), ..Config::default() };
    let mut captures: Vec<CaptureFile> = inputs.iter().map(Input::as_capture).collect();
    let mut merged = Merged::new(inputs);
    let mut analyzer = Analyzer::new(config, sink);
    while merged.advance() {
        let Some((source, record)) = merged.current() else { break };
        match decode(record.link, record.bytes, record.wire_len) {
            Ok(segment) => {
                captures[source].segments += 1;
                let point = if args.one_point { 0 } else { merged.point(source) };
                analyzer.handle_segment(point, &segment, record.time);
            }
            Err(skip) => captures[source].skipped.count(skip),
        }
    }
    finish_captures(&mut captures, &merged);
    for capture in &captures {
        if let Some(problem) = &capture.problem {
            eprintln!("cellerator: {}: {problem}", capture.file);
        }
    }
    (analyzer.finish(), captures)
}

/// Failure when nothing at all could be read.
fn outcome(captures: &[CaptureFile]) -> ExitCode {
    match captures.iter().all(|capture| capture.packets == 0 && capture.problem.is_some()) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// The schema's descriptions of all fields whose names contain `metric`.
fn explain(metric: &str) -> Result<String, String> {
    let schema: Value = serde_json::from_str(include_str!("../../../schemas/analysis.schema.json"))
        .map_err(|error| format!("the schema of the results cannot be read: {error}"))?;
    let wanted = metric.to_lowercase().replace([' ', '-'], "_");
    let mut text = String::new();
    for (object, definition) in schema["$defs"].as_object().into_iter().flatten() {
        for (field, meaning) in definition["properties"].as_object().into_iter().flatten() {
            if field.contains(&wanted) {
                let meaning = meaning["description"].as_str().unwrap_or_default();
                let _ = writeln!(text, "{object}.{field}: {meaning}");
            }
        }
    }
    if text.is_empty() {
        return Err(format!("no field's name contains {metric:?}: docs/analyze.md lists what there is"));
    }
    Ok(text)
}

fn command() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}

/// Keeps the flows with most data, so that memory does not grow with the capture.
struct Top {
    /// Flows to keep at most.
    limit: usize,
    flows: Vec<FlowReport>,
    /// A flow with less data than this is not among them.
    floor: u64,
    all_flows: usize,
}

impl Top {
    /// Keeps `limit` flows; zero is all.
    fn new(limit: usize) -> Self {
        let limit = if limit == 0 { usize::MAX } else { limit };
        Self { limit, flows: Vec::new(), floor: 0, all_flows: 0 }
    }

    /// Drops all but the flows with most data.
    fn thin(&mut self) {
        self.flows.sort_by_key(|flow| (std::cmp::Reverse(data(flow)), flow.id));
        self.flows.truncate(self.limit);
        if self.flows.len() == self.limit {
            self.floor = self.flows.last().map_or(0, data);
        }
    }
}

impl Sink for Top {
    fn on_flow(&mut self, flow: FlowReport) {
        self.all_flows += 1;
        if data(&flow) >= self.floor {
            self.flows.push(flow);
            if self.flows.len() / 2 > self.limit.max(50) {
                self.thin();
            }
        }
    }
}

/// A file, or standard input.
enum Input {
    File(PathBuf),
    StandardInput,
}

impl Source for Input {
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::StandardInput => "-".to_owned(),
        }
    }
    fn open(&self) -> io::Result<Box<dyn io::Read + Send>> {
        match self {
            Self::File(path) => decompressed(File::open(path)?),
            Self::StandardInput => decompressed(io::stdin()),
        }
    }
    fn can_reopen(&self) -> bool {
        match self {
            // A named pipe gives its bytes only once.
            Self::File(path) => path.metadata().is_ok_and(|metadata| metadata.is_file()),
            Self::StandardInput => false,
        }
    }
}

impl Input {
    fn as_capture(&self) -> CaptureFile {
        CaptureFile {
            file: self.name(),
            packets: 0,
            clipped: 0,
            time_steps_back: 0,
            dropped: None,
            problem: None,
            skipped: Skipped::default(),
            segments: 0,
        }
    }
}

/// The files meant: folders give theirs, in the order of names, without those that are hidden.
fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, String> {
    let mut found = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            found.push(Input::StandardInput);
        } else if path.is_dir() {
            found.extend(folder(path)?.into_iter().map(Input::File));
        } else if path.exists() {
            found.push(Input::File(path.clone()));
        } else {
            return Err(format!("{}: no such file: name a capture, a folder, or -", path.display()));
        }
    }
    Ok(found)
}

fn folder(path: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.is_file() && is_named_like_a_capture(file))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(format!(
            "{}: no captures in this folder (.pcap, .pcapng, .cap, .dmp, …)",
            path.display()
        ));
    }
    Ok(files)
}

/// By one of the usual endings, with `.gz` or `.zst` behind it, or a number as of rotated files.
fn is_named_like_a_capture(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    !name.starts_with('.')
        && name.split('.').skip(1).any(|part| {
            let part = part.trim_end_matches(|c: char| c.is_ascii_digit());
            matches!(part, "pcap" | "pcapng" | "cap" | "ntar" | "dmp" | "dump")
        })
}

fn finish_captures(captures: &mut [CaptureFile], merged: &Merged<Input>) {
    for (capture, health) in captures.iter_mut().zip(merged.healths()) {
        capture.packets = health.packets;
        capture.clipped = health.clipped;
        capture.time_steps_back = health.time_steps_back;
        capture.dropped = health.dropped;
    }
    for problem in merged.problems() {
        if let Some(capture) = captures.iter_mut().find(|capture| capture.file == problem.name) {
            capture.problem = Some(problem.error.to_string());
        }
    }
}

/// The table for people: captures, then flows with their two directions and what was found.
fn table(captures: &[CaptureFile], flows: &[FlowReport], all_flows: usize) -> String {
    let mut text = String::new();
    for capture in captures {
        let _ = writeln!(text, "{}", capture_line(capture));
    }
    let shown = flows.len();
    let which = match shown < all_flows {
        true => format!(", the {shown} with most data (--top 0 shows all)"),
        false => String::new(),
    };
    let flows_word = if all_flows == 1 { "flow" } else { "flows" };
    let _ = writeln!(text, "\n{all_flows} {flows_word}{which}\n");
    for flow in flows {
        describe(&mut text, flow);
    }
    text
}

fn data(flow: &FlowReport) -> u64 {
    flow.directions.iter().map(|direction| direction.unique_bytes).sum()
}

fn capture_line(capture: &CaptureFile) -> String {
    let mut line = format!("{}: {} packets, {} of TCP", capture.file, capture.packets, capture.segments);
    let skipped = &capture.skipped;
    for (count, what) in [
        (skipped.fragment, "fragments"),
        (skipped.cut, "with headers cut"),
        (skipped.unknown_link, "of an unknown link type"),
        (capture.time_steps_back, "steps back in time"),
        (capture.dropped.unwrap_or(0), "lost by the capturing machine"),
    ] {
        if count > 0 {
            let _ = write!(line, ", {count} {what}");
        }
    }
    line
}

fn describe(text: &mut String, flow: &FlowReport) {
    let arrow = match flow.client {
        Some(0) => "->",
        Some(_) => "<-",
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
        "#{}{} {} {arrow} {}  {:.3} s  {:?}  {place}; handshake {} ms (server {}, client {})",
        flow.id,
        if flow.point > 0 { format!(" (point {})", flow.point) } else { String::new() },
        flow.first,
        flow.second,
        flow.duration_s,
        flow.end,
        number(handshake.total_ms),
        number(handshake.to_server_ms),
        number(handshake.to_client_ms),
    );
    let _ = writeln!(
        text,
        "  {:>3} {:>8} {:>12} {:>9} {:>7} {:>22} {:>7} {:>7} {:>6} {:>22} {:>9}",
        "",
        "packets",
        "bytes",
        "Mbit/s",
        "resent",
        "syn/rto/fast/tlp/spur",
        "loss %",
        "before",
        "late",
        "RTT ms min/p50/p95",
        "window"
    );
    for (direction, name) in flow.directions.iter().zip(["1>2", "2>1"]) {
        let r = &direction.retransmissions;
        let causes = format!("{}/{}/{}/{}/{}", r.syn, count(r.rto), count(r.fast), count(r.tlp), r.spurious);
        let _ = writeln!(
            text,
            "  {name} {:>8} {:>12} {:>9} {:>7} {causes:>22} {:>7} {:>7} {:>6} {:>22} {:>9}",
            direction.packets,
            direction.unique_bytes,
            number(direction.throughput_active_bps.map(|rate| rate / 1e6)),
            r.data_packets + r.syn + r.fin,
            number(direction.loss.rate.map(|rate| rate * 100.0)),
            direction.loss.before_capture,
            direction.loss.reordered,
            rtt(direction.rtt.karn),
            direction.window.max.map_or_else(|| "-".to_owned(), |max| max.to_string()),
        );
    }
    for diagnosis in &flow.diagnoses {
        let kind = serde_json::to_value(diagnosis.kind).ok();
        let kind = kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or_default().replace('_', " ");
        let way = if diagnosis.direction == 0 { "1>2" } else { "2>1" };
        let _ = writeln!(text, "  {way} {kind}: {}", diagnosis.evidence);
    }
    text.push('\n');
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn rtt(summary: Option<SampleSummary>) -> String {
    summary.map_or_else(|| "-".to_owned(), |s| format!("{:.2}/{:.2}/{:.2}", s.min_ms, s.p50_ms, s.p95_ms))
}
