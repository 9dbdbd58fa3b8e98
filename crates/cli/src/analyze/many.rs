//! `--parquet DIR` over folders: each series of captures by itself, resumable, in shards.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use analysis::{Event, FlowReport, MadeBy, PacketView, Sink};
use anyhow::{Context, Result, bail};
use capture::CaptureSource as _;
use datasets::{CaptureSeries, DatasetsError, Manifest, Record, Settings, shard};
use io::Clock;
use parallel::in_parallel_until;
use report::{CaptureId, Dataset};
use units::{Bytes, Instant};

use super::inputs::Input;
use super::{Args, read_quietly};
use crate::error_line;
use crate::interruption::{self, Interruption};
use crate::progress::Line;

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

/// Outcome of a series.
enum Done {
    /// Its results were there.
    Before,
    /// It was analyzed.
    Now {
        flows: u64,
        /// Doubts about its files.
        doubts: Vec<String>,
    },
    Failed(String),
    /// There was no room for it: no matter of this series.
    NoRoom(String),
}

/// Outcome of a failure to write in the folder `root`.
fn not_written(error: std::io::Error, root: &Path) -> Result<Done> {
    use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | ReadOnlyFilesystem => {
            Ok(Done::NoRoom(format!("{}: {error}", root.display())))
        }
        _ => Err(error).context("writing failed"),
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let series = series(args)?;
    if let Some(path) = &args.write_manifest {
        write_manifest(path, &series)?;
    }
    let Some(root) = &args.parquet else { return Ok(ExitCode::SUCCESS) };
    std::fs::create_dir_all(root).with_context(|| format!("{}: cannot be made", root.display()))?;
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
    let is_full = AtomicBool::new(false);
    let outcomes = in_parallel_until(own.len(), workers, interruption.flag(), |job| {
        let series = &series[own[order[job]]];
        if is_full.load(Ordering::Relaxed) {
            return None;
        }
        let done = one(root, series, &settings, args, threads_each)
            .unwrap_or_else(|error| Done::Failed(format!("{}: {}", series.name, error_line(&error))));
        is_full.fetch_or(matches!(done, Done::NoRoom(_)), Ordering::Relaxed);
        progress.ended(series.bytes, &done);
        Some(done)
    });
    progress.finish();
    let (mut before, mut now, mut flows, mut failed, mut said) = (0, 0, 0, 0, Vec::new());
    let mut no_room = None;
    for outcome in outcomes.iter().flatten().flatten() {
        match outcome {
            Done::Before => before += 1,
            Done::Now { flows: found, doubts } => {
                (now, flows) = (now + 1, flows + found);
                said.extend(doubts);
            }
            Done::Failed(why) => {
                failed += 1;
                said.push(why);
            }
            Done::NoRoom(why) => no_room = Some(why),
        }
    }
    said.sort_unstable();
    said.iter().for_each(|line| eprintln!("cellerator: {line}"));
    let finished = before + now + failed;
    if let Some(why) = no_room {
        bail!("{why}; {} of {} series are done, and are not done again", before + now, own.len());
    }
    if finished < own.len() {
        let what = format!("analyze: interrupted after {finished} of {} series", own.len());
        interruption::tell(&what, [root.as_path()]);
        return Ok(interruption.code());
    }
    let of = if own.len() < series.len() { format!(" of {}", series.len()) } else { String::new() };
    println!(
        "{}{of} series: {now} analyzed ({flows} flows), {before} unchanged, {failed} failed; dataset: {}",
        own.len(),
        root.display()
    );
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn series(args: &Args) -> Result<Vec<CaptureSeries>> {
    let Some(path) = &args.manifest else { return Ok(datasets::find(&args.files, &args.env)?) };
    Ok(Manifest::read(path)?.series(path.parent().unwrap_or(Path::new("")), &args.env)?)
}

fn write_manifest(path: &Path, series: &[CaptureSeries]) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let text = serde_json::to_string_pretty(&Manifest::of(series, folder))?;
    tables::write_whole(path, (text + "\n").as_bytes())
        .with_context(|| format!("{}: cannot be written", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// Analyzes a series, unless its results are there.
fn one(root: &Path, series: &CaptureSeries, settings: &Settings, args: &Args, threads: u16) -> Result<Done> {
    let mut record = Record::of(series, settings)?;
    let before = Record::read(root, series);
    if let Some(before) = &before {
        if before.still_holds(&record, root) {
            return Ok(Done::Before);
        }
        if let Some(other) = before.other_capture(&record) {
            bail!(
                "the dataset has another series of this name, from {}: name them in a manifest",
                other.display()
            );
        }
    }
    let folder = Path::new(&series.name).parent().unwrap_or(Path::new(""));
    let input = |file: &PathBuf| {
        let name = file.file_name().map(PathBuf::from).unwrap_or_default();
        Input::Called(file.clone(), folder.join(name).display().to_string())
    };
    // A rotation has just begun a file that has nothing yet, or ended with one. One by itself is a fault.
    let (empty, full): (Vec<_>, Vec<_>) = (series.files.iter().map(input).zip(&record.files))
        .partition(|(_, file)| file.bytes == 0 && record.files.len() > 1);
    let doubt = |file: &str, what: &str| format!("{}: {file}: {what}", series.name);
    let mut doubts: Vec<String> =
        empty.iter().map(|(input, _)| doubt(&input.name(), "empty, and left out")).collect();
    let ids = full.iter().map(|(input, file)| (CaptureId(file.identity.clone()), input.name())).collect();
    let inputs: Vec<Input> = full.into_iter().map(|(input, _)| input).collect();
    // Every shard, machine and run writes the same bytes.
    let mut command = "cellerator analyze --parquet".to_owned();
    if settings.one_point {
        command += " --one-point";
    }
    let made_by = MadeBy {
        cellerator: settings.cellerator.clone(),
        command: format!("{command} --idle {}", settings.idle_s),
    };
    let dataset = Dataset::new(root, &series.env, ids, &made_by).of_series(&series.name);
    let (counted, findings) = read_quietly(args, threads, inputs, Counted { dataset, flows: 0 })?;
    if let Some(capture) = findings.captures.iter().find(|c| c.packets == 0 && c.problem.is_some()) {
        let why = capture.problem.as_deref().unwrap_or_default();
        bail!("{}: {why}", capture.file);
    }
    let broken =
        findings.captures.iter().filter_map(|capture| Some((&capture.file, capture.problem.as_ref()?)));
    doubts.extend(broken.map(|(file, problem)| doubt(file, problem)));
    if Record::of(series, settings).is_ok_and(|now| !record.is_of(&now)) {
        doubts.push(format!("{}: changed while it was read: the next run does it again", series.name));
    }
    let parts = match counted.dataset.close(&findings) {
        Ok(parts) => parts,
        Err(error) => return not_written(error, root),
    };
    let flows = counted.flows;
    record.flows = flows;
    match record.publish(root, series, before.as_ref(), parts) {
        Ok(()) => Ok(Done::Now { flows, doubts }),
        Err(DatasetsError::Io { error, .. }) => not_written(error, root),
        Err(other) => Err(other.into()),
    }
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

/// Progress of all series.
struct Progress {
    line: Line,
    count: usize,
    state: Mutex<State>,
}

struct State {
    began: Instant,
    ended: usize,
    /// Bytes analyzed now: those of earlier runs cost no time.
    analyzed: u64,
    left: u64,
}

impl Progress {
    fn new(bytes: u64, count: usize) -> Self {
        let state = State { began: Clock::now(), ended: 0, analyzed: 0, left: bytes };
        let line = Line::of_bytes(Bytes::new(bytes), &state.words(count));
        Self { line, count, state: Mutex::new(state) }
    }

    fn ended(&self, bytes: u64, done: &Done) {
        // Nobody panics while holding it.
        let Ok(mut state) = self.state.lock() else { return };
        state.ended += 1;
        state.left = state.left.saturating_sub(bytes);
        if matches!(done, Done::Now { .. }) {
            state.analyzed += bytes;
        }
        self.line.add(bytes);
        self.line.say(state.words(self.count));
    }

    fn finish(self) {
        drop(self.line);
        if let Ok(state) = self.state.lock() {
            eprintln!("  {}", state.words(self.count));
        }
    }
}

impl State {
    /// "120 of 2000 series, 85 MB/s, 1 min 50 s left".
    fn words(&self, count: usize) -> String {
        let mut line = format!("{} of {count} series", self.ended);
        let seconds = Clock::now().saturating_since(self.began).as_secs_f64();
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
