//! `--parquet DIR` over folders: each series of captures by itself, resumable, in shards.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use analysis::{Event, FlowReport, MadeBy, PacketView, Sink};
use datasets::{Manifest, Record, Series, Settings, shard};
use indicatif::{ProgressBar, ProgressStyle};
use io::Clock;
use parallel::in_parallel_until;
use report::{CaptureId, Dataset};
use units::{Bytes, Duration, Instant};

use super::inputs::Input;
use super::{Args, read_quietly};
use crate::interruption::{self, Interruption};

/// True when the arguments mean a set of captures: a folder, a manifest or a shard, and no output but
/// the dataset.
pub(super) fn is_meant(args: &Args) -> bool {
    let other_outputs = [&args.html, &args.csv, &args.jsonl, &args.perfetto, &args.annotate];
    let is_alone = other_outputs.iter().all(|output| output.is_none()) && !args.json && args.graphs.is_none();
    let is_many = args.manifest.is_some()
        || args.write_manifest.is_some()
        || args.shard.is_some()
        || args.files.iter().any(|file| file.is_dir());
    is_many && is_alone && !args.compare && (args.parquet.is_some() || args.write_manifest.is_some())
}

/// What a series came to.
enum Done {
    /// Its results were there.
    Before,
    /// It was analyzed: so many flows.
    Now(u64),
    Failed(String),
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<ExitCode, String> {
    let series = series(args)?;
    if let Some(path) = &args.write_manifest {
        write_manifest(path, &series)?;
    }
    let Some(root) = &args.parquet else { return Ok(ExitCode::SUCCESS) };
    std::fs::create_dir_all(root).map_err(|error| format!("{}: cannot be made: {error}", root.display()))?;
    let own = shard(&series, args.shard.unwrap_or_default());
    let settings = Settings {
        cellerator: env!("CARGO_PKG_VERSION").to_owned(),
        idle_s: args.idle,
        one_point: args.one_point,
    };
    let all_threads = args.threads.map_or_else(::io::sched::cpu_count, usize::from).max(1);
    let workers = all_threads.min(own.len()).max(1);
    let threads_each = u16::try_from(all_threads / workers).unwrap_or(u16::MAX).max(1);
    let interruption = Interruption::listen()?;
    let progress = Progress::new(own.iter().map(|index| series[*index].bytes).sum(), own.len());
    // The largest first: the last one to end is then a short one.
    let mut order: Vec<usize> = (0..own.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(series[own[*place]].bytes));
    let outcomes = in_parallel_until(own.len(), workers, interruption.flag(), |job| {
        let series = &series[own[order[job]]];
        let done = one(root, series, &settings, args, threads_each)
            .unwrap_or_else(|error| Done::Failed(format!("{}: {error}", series.name)));
        progress.ended(series.bytes, &done);
        done
    });
    progress.finish();
    let (mut before, mut now, mut flows, mut failed) = (0, 0, 0, Vec::new());
    for outcome in outcomes.iter().flatten() {
        match outcome {
            Done::Before => before += 1,
            Done::Now(found) => (now, flows) = (now + 1, flows + found),
            Done::Failed(why) => failed.push(why.as_str()),
        }
    }
    failed.sort_unstable();
    failed.iter().for_each(|why| eprintln!("cellerator: {why}"));
    let finished = before + now + failed.len();
    if finished < own.len() {
        let what = format!("analyze: interrupted after {finished} of {} series", own.len());
        interruption::tell(&what, [root.as_path()]);
        return Ok(interruption.code());
    }
    let of = if own.len() < series.len() { format!(" of {}", series.len()) } else { String::new() };
    println!(
        "{}{of} series: {now} analyzed ({flows} flows), {before} unchanged, {} failed; dataset: {}",
        own.len(),
        failed.len(),
        root.display()
    );
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn series(args: &Args) -> Result<Vec<Series>, String> {
    let said = |error: datasets::DatasetsError| error.to_string();
    let Some(path) = &args.manifest else { return datasets::find(&args.files, &args.env).map_err(said) };
    let folder = path.parent().unwrap_or(Path::new(""));
    Manifest::read(path).and_then(|manifest| manifest.series(folder, &args.env)).map_err(said)
}

fn write_manifest(path: &Path, series: &[Series]) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let text = serde_json::to_string_pretty(&Manifest::of(series, folder)).map_err(|e| e.to_string())?;
    tables::write_whole(path, (text + "\n").as_bytes())
        .map_err(|error| format!("{}: cannot be written: {error}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// Analyzes a series, unless its results are there.
fn one(root: &Path, series: &Series, settings: &Settings, args: &Args, threads: u16) -> Result<Done, String> {
    let mut record = Record::of(series, settings).map_err(|error| error.to_string())?;
    let before = Record::read(root, series);
    if let Some(before) = &before {
        if before.still_holds(&record, root) {
            return Ok(Done::Before);
        }
        if let Some(other) = before.other_capture(&record) {
            return Err(format!(
                "the dataset has another series of this name, from {}: name them in a manifest",
                other.display()
            ));
        }
    }
    let folder = Path::new(&series.name).parent().unwrap_or(Path::new(""));
    let input = |file: &PathBuf| {
        let name = file.file_name().map(PathBuf::from).unwrap_or_default();
        Input::Called(file.clone(), folder.join(name).display().to_string())
    };
    let inputs: Vec<Input> = series.files.iter().map(input).collect();
    // Every shard, machine and run writes the same bytes.
    let mut command = "cellerator analyze --parquet".to_owned();
    if settings.one_point {
        command += " --one-point";
    }
    let made_by = MadeBy {
        cellerator: settings.cellerator.clone(),
        command: format!("{command} --idle {}", settings.idle_s),
    };
    let named = record.files.iter().zip(inputs.iter().map(capture::Source::name));
    let ids = named.map(|(file, name)| (CaptureId(file.identity.clone()), name)).collect();
    let dataset = Dataset::new(root, &series.env, ids, &made_by).of_series(&series.name);
    let (counted, findings) = read_quietly(args, threads, inputs, Counted { dataset, flows: 0 })?;
    if let Some(capture) = findings.captures.iter().find(|c| c.packets == 0 && c.problem.is_some()) {
        let why = capture.problem.as_deref().unwrap_or_default();
        return Err(format!("{}: {why}", capture.file));
    }
    let parts = counted.dataset.finish(&findings).map_err(|error| format!("writing failed: {error}"))?;
    record.flows = counted.flows;
    record.parts =
        parts.into_iter().map(|part| part.strip_prefix(root).map_or(part.clone(), Path::to_owned)).collect();
    record.write(root, series, before.as_ref()).map_err(|error| error.to_string())?;
    Ok(Done::Now(record.flows))
}

/// Passes everything on, and counts the flows.
struct Counted {
    dataset: Dataset,
    flows: u64,
}

impl Sink for Counted {
    fn on_flow(&mut self, flow: &FlowReport) {
        self.flows += 1;
        self.dataset.on_flow(flow);
    }
    fn on_event(&mut self, event: &Event) {
        self.dataset.on_event(event);
    }
    fn wants_packets(&self) -> bool {
        true
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        self.dataset.on_packet(packet);
    }
}

/// A bar on a terminal, a line every ten seconds elsewhere.
struct Progress {
    bar: ProgressBar,
    count: usize,
    state: Mutex<State>,
}

struct State {
    began: Instant,
    told: Instant,
    ended: usize,
    /// Bytes analyzed now: those of earlier runs cost no time.
    analyzed: u64,
    left: u64,
}

/// Between two lines.
const TELL_EVERY: Duration = Duration::from_secs(10);

impl Progress {
    fn new(bytes: u64, count: usize) -> Self {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new(bytes),
            false => ProgressBar::hidden(),
        };
        let style = "  {msg}  {wide_bar:.cyan/dim} {decimal_bytes} of {decimal_total_bytes}";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Clock::now();
        let state = State { began: now, told: now, ended: 0, analyzed: 0, left: bytes };
        Self { bar, count, state: Mutex::new(state) }
    }

    fn ended(&self, bytes: u64, done: &Done) {
        // Nobody panics while holding it.
        let Ok(mut state) = self.state.lock() else { return };
        state.ended += 1;
        state.left = state.left.saturating_sub(bytes);
        if matches!(done, Done::Now(_)) {
            state.analyzed += bytes;
        }
        let now = Clock::now();
        let line = state.line(self.count, now);
        self.bar.inc(bytes);
        self.bar.set_message(line.clone());
        if self.bar.is_hidden() && (now.saturating_since(state.told) >= TELL_EVERY) {
            state.told = now;
            eprintln!("  {line}");
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
        if let Ok(state) = self.state.lock() {
            eprintln!("  {}", state.line(self.count, Clock::now()));
        }
    }
}

impl State {
    /// "120 of 2000 series, 85 MB/s, 1 min 50 s left".
    fn line(&self, count: usize, now: Instant) -> String {
        let mut line = format!("{} of {count} series", self.ended);
        let seconds = now.saturating_since(self.began).as_secs_f64();
        if self.analyzed > 0 && seconds > 0.0 {
            let rate = self.analyzed as f64 / seconds;
            line += &format!(", {}/s", Bytes::new(rate as u64));
            if self.left > 0 {
                let left = (self.left as f64 / rate).ceil() as u64;
                let words = if left >= 60 {
                    format!("{} min {} s", left / 60, left % 60)
                } else {
                    format!("{left} s")
                };
                line += &format!(", {words} left");
            }
        }
        line
    }
}
