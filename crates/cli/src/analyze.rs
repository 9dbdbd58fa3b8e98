//! `cellerator analyze`: captures to flows and figures.

mod annotate;
mod effect;
mod feed;
mod fields;
mod groups;
mod inputs;
mod many;
mod outputs;
mod quic;
mod table;
mod threads;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::{CaptureFile, Config, Event, Findings, FlowReport, MadeBy, PacketView, PairFinder, Sink};
use anyhow::{Context, Result, bail};
use report::Wanted;
use serde_json::Value;
use units::Duration;

use feed::{Feed, Points};
use inputs::Input;
use outputs::Outputs;

/// Arguments of `cellerator analyze`.
#[derive(clap::Args)]
pub struct Args {
    /// Captures (pcap or pcapng, also in gzip or zstd), folders of them, or `-` for standard input
    #[arg(required_unless_present_any = ["explain", "group", "manifest"], value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Add every retransmission, probe, reset and mark of congestion to the JSON
    #[arg(long, requires = "json")]
    events: bool,
    /// Write a report: one page with graphs of the flows, which any browser shows without network
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Write one comma-separated line per flow with all its figures; `-` is standard output
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Write one JSON object per flow and line; `-` is standard output
    #[arg(long, value_name = "FILE.jsonl")]
    jsonl: Option<PathBuf>,
    /// Add Parquet tables (captures, flows, mptcp, intervals, events, samples, pairs) to a dataset in
    /// this folder. Of folders of captures each series, the successive files of one host, is analyzed by
    /// itself; what is in the dataset and has not changed is not done again
    #[arg(long, value_name = "DIR")]
    parquet: Option<PathBuf>,
    /// Name of the captures' environment (a network, a carrier) in the dataset
    #[arg(long, value_name = "NAME", default_value = "none")]
    env: String,
    /// Take the series of captures that this file lists (schemas/manifest.schema.json)
    #[arg(long, value_name = "FILE.json", requires = "parquet", conflicts_with = "files")]
    manifest: Option<PathBuf>,
    /// Write which files were found to belong together, to be changed by hand
    #[arg(long, value_name = "FILE.json")]
    write_manifest: Option<PathBuf>,
    /// Do only this part of the series: `2/7` is the second of seven. Parts may run at the same time, on
    /// several machines, and twice
    #[arg(long, value_name = "I/N", requires = "parquet")]
    shard: Option<datasets::Shard>,
    /// Draw graphs of every flow by tcptrace's letters: T throughput, R round-trip time, S time-sequence,
    /// N outstanding data, F segment size, G all
    #[arg(long, value_name = "LETTERS", value_parser = Wanted::parse)]
    graphs: Option<Wanted>,
    /// The folder for graphs
    #[arg(long, value_name = "DIR", default_value = "graphs", requires = "graphs")]
    graphs_to: PathBuf,
    /// Write the graphs for gnuplot instead of xplot
    #[arg(long, requires = "graphs")]
    gnuplot: bool,
    /// Write a trace that ui.perfetto.dev opens
    #[arg(long, value_name = "FILE.json")]
    perfetto: Option<PathBuf>,
    /// Write the captures as one pcapng file with the findings as comments of its packets
    #[arg(long, value_name = "FILE.pcapng")]
    annotate: Option<PathBuf>,
    /// Captures of one environment (`wifi=a*.pcap`, a folder, or several with commas). Give it once for
    /// each environment
    #[arg(long, value_name = "NAME=FILES", requires = "compare", conflicts_with = "files")]
    group: Vec<String>,
    /// Compare environments (--group): tables as in [EV] and [MP], medians with confidence intervals. Or
    /// two datasets, before and after a change: its effect, with confidence intervals over subscribers
    #[arg(long)]
    compare: bool,
    /// Samples of the bootstrap that compares two datasets
    #[arg(long, value_name = "N", default_value_t = 2000, requires = "compare", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    samples: u32,
    /// Seed of these samples
    #[arg(long, value_name = "N", default_value_t = 1, requires = "compare")]
    seed: u64,
    /// Show at most this many flows, those with most data first; 0 shows all
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// A flow has ended after this many seconds without a packet
    #[arg(long, default_value_t = 900, value_name = "S")]
    idle: u64,
    /// Files that overlap in time were captured at one place, such as one per interface or direction.
    /// Without this they count as captures at different places, and flows that both saw are shown once
    /// for each
    #[arg(long)]
    one_point: bool,
    /// Each interface of a pcapng file is a capture point of its own, such as both sides of a box: flows are
    /// shown once for each, and what was lost between them. Without this the second sight of a packet counts
    /// as a duplicate
    #[arg(long, conflicts_with_all = ["one_point", "annotate", "parquet"])]
    by_interface: bool,
    /// Threads that analyze; does not change the result [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Explain a field of the JSON, by its name or a part of it: its meaning and how it is found
    #[arg(long, value_name = "METRIC", conflicts_with = "files")]
    explain: Option<String>,
}

/// Analyzes one file: a table, and a report if `html` names one.
pub fn file(path: &Path, html: Option<&Path>) -> Result<ExitCode> {
    #[derive(clap::Parser)]
    struct Whole {
        #[command(flatten)]
        args: Args,
    }
    let mut words: Vec<OsString> = vec!["analyze".into(), path.into()];
    if let Some(html) = html {
        words.extend(["--html".into(), html.into()]);
    }
    let whole = <Whole as clap::Parser>::try_parse_from(words)?;
    main(&whole.args)
}

/// Reads one file into `sink`, with the settings that the command has by default.
pub fn read_file<S: Sink>(path: &Path, sink: S) -> Result<S> {
    #[derive(clap::Parser)]
    struct Whole {
        #[command(flatten)]
        args: Args,
    }
    let words: [OsString; 2] = ["analyze".into(), path.into()];
    let whole = <Whole as clap::Parser>::try_parse_from(words)?;
    let (sink, _) = read(&whole.args, inputs::inputs(&whole.args.files)?, sink)?;
    Ok(sink)
}

/// Runs the command.
pub fn main(args: &Args) -> Result<ExitCode> {
    if let Some(metric) = &args.explain {
        return print(explain(metric)?.as_bytes()).map(|()| ExitCode::SUCCESS);
    }
    if args.compare && args.group.is_empty() {
        return effect::compare(args);
    }
    if args.compare {
        return groups::compare(args);
    }
    if args.env != "none" && args.parquet.is_none() && args.write_manifest.is_none() {
        bail!("--env names an environment in a dataset: give --parquet DIR");
    }
    if many::is_meant(args) {
        return many::run(args);
    }
    if args.manifest.is_some() || args.shard.is_some() || args.write_manifest.is_some() {
        bail!("series and shards make a dataset only: leave the other outputs out");
    }
    let inputs = inputs::inputs(&args.files)?;
    let made_by = MadeBy { cellerator: env!("CARGO_PKG_VERSION").to_owned(), command: command() };
    let outputs = Outputs::open(args, &inputs, &made_by)?;
    let (outputs, findings) = read(args, inputs, outputs)?;
    outputs.finish(&findings, &made_by, || inputs::inputs(&args.files))?;
    Ok(outcome(&findings.captures))
}

/// Writes to standard output; a reader that has gone is no failure.
fn print(text: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing the result failed"),
    }
}

/// Reads all captures into `sink`; says on standard error what could not be read.
fn read<S: Sink>(args: &Args, inputs: Vec<Input>, sink: S) -> Result<(S, Findings)> {
    read_from(args, inputs, sink, 0)
}

/// As [`read`], with the number of the first flow.
fn read_from<S: Sink>(args: &Args, inputs: Vec<Input>, sink: S, first_flow: u64) -> Result<(S, Findings)> {
    let (sink, findings) = found(args, args.threads, inputs, sink, first_flow)?;
    for capture in &findings.captures {
        if let Some(problem) = &capture.problem {
            eprintln!("cellerator: {}: {problem}", capture.file);
        }
    }
    Ok((sink, findings))
}

/// As [`read`], in this number of threads, and without a word on standard error.
fn read_quietly<S: Sink>(args: &Args, threads: u16, inputs: Vec<Input>, sink: S) -> Result<(S, Findings)> {
    found(args, Some(threads), inputs, sink, 0)
}

fn found<S: Sink>(
    args: &Args,
    threads: Option<u16>,
    inputs: Vec<Input>,
    sink: S,
    first_flow: u64,
) -> Result<(S, Findings)> {
    let config = Config {
        idle: Duration::from_secs(args.idle),
        first_flow,
        on_memory: Some(::io::prefer_huge_pages),
        fetch: Some(::io::prefetch),
        ..Config::default()
    };
    let pairs = (inputs.len() > 1 || args.by_interface).then(PairFinder::default);
    let points = match (args.one_point, args.by_interface) {
        (true, _) => Points::One,
        (_, true) => Points::Interfaces(Vec::new()),
        _ => Points::Files,
    };
    let feed = Feed::new(inputs, points, args.html.is_some(), config.idle);
    let (feed, Paired { sink, pairs }) = threads::run(threads, config, feed, Paired { sink, pairs })?;
    let (captures, mptcp, udp) = feed.finish();
    let pairs = pairs.map(PairFinder::finish).unwrap_or_default();
    Ok((sink, Findings { captures, mptcp, pairs, udp }))
}

/// Passes everything on, and finds flows captured at both ends.
struct Paired<S> {
    sink: S,
    pairs: Option<PairFinder>,
}

impl<S: Sink> Sink for Paired<S> {
    fn on_flow(&mut self, flow: &FlowReport) {
        if let Some(pairs) = &mut self.pairs {
            pairs.push(flow);
        }
        self.sink.on_flow(flow);
    }
    fn on_event(&mut self, event: &Event) {
        self.sink.on_event(event);
    }
    fn wants_packets(&self) -> bool {
        self.sink.wants_packets()
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        self.sink.on_packet(packet);
    }
}

/// Failure when nothing at all could be read.
fn outcome(captures: &[CaptureFile]) -> ExitCode {
    match captures.iter().all(|capture| capture.packets == 0 && capture.problem.is_some()) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// Meanings of everything whose name contains `metric`: fields and values of the JSON, and columns of the
/// tables.
fn explain(metric: &str) -> Result<String> {
    let schema: Value = serde_json::from_str(include_str!("../../../schemas/analysis.schema.json"))
        .context("the schema of the results cannot be read")?;
    let wanted = metric.to_lowercase().replace([' ', '-'], "_");
    let mut text = String::new();
    explain_fields(&mut text, "results", &schema, &wanted);
    for (object, definition) in schema["$defs"].as_object().into_iter().flatten() {
        // All that is in something of this name, as `rtt_report` is asked for by `rtt`.
        let is_it =
            object.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
        let within = if is_it { "" } else { wanted.as_str() };
        explain_fields(&mut text, object, definition, within);
        explain_values(&mut text, object, definition, within);
    }
    // A name that only a table has.
    if text.is_empty() {
        for (table, column) in report::columns() {
            if column.name.contains(&wanted) {
                let unit = column.unit.map(|unit| format!(" ({unit})")).unwrap_or_default();
                let _ = writeln!(text, "table {table}, {}{unit}: {}", column.name, column.meaning);
            }
        }
    }
    if text.is_empty() {
        bail!("no field's name contains {metric:?}: docs/analyze.md lists what there is");
    }
    Ok(text)
}

fn explain_fields(text: &mut String, object: &str, definition: &Value, wanted: &str) {
    for (field, meaning) in definition["properties"].as_object().into_iter().flatten() {
        if field.contains(wanted) {
            let said = meaning["description"].as_str().unwrap_or_default();
            let _ = writeln!(text, "{object}.{field}: {said}");
        }
        explain_values(text, &format!("{object}.{field}"), meaning, wanted);
    }
}

fn explain_values(text: &mut String, name: &str, definition: &Value, wanted: &str) {
    for value in definition["anyOf"].as_array().into_iter().flatten() {
        if let Some(constant) = value["const"].as_str().filter(|constant| constant.contains(wanted)) {
            let said = value["description"].as_str().unwrap_or_default();
            let _ = writeln!(text, "{name} = {constant}: {said}");
        }
    }
}

fn command() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}
