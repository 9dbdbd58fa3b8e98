//! `cellerator history` records what an accelerator does; `cellerator report` says what it did.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Error, Result, anyhow, bail};
use history::{About, HistoryFile, MadeBy, Recorder, Report, Slice};
use io::{Clock, Signals};
use scenario::Quantity;
use units::Duration;

use crate::looking::only_look;
use crate::output::{self, Words};
use crate::writable;

/// Directory in which histories are kept.
const DIRECTORY: &str = "/var/lib/cellerator";

/// Arguments of `cellerator history`.
#[derive(clap::Args)]
pub struct HistoryArgs {
    /// The accelerator: its --name, or its interfaces as WIRED-MOBILE. It need not run yet
    #[arg(value_name = "NAME")]
    name: String,
    /// Forget what is older
    #[arg(long, value_name = "TIME", default_value = "7 d")]
    keep: Quantity<Duration>,
    /// Keep the history in DIR
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    directory: PathBuf,
    /// Length of a slice
    #[arg(long, hide = true, value_name = "TIME", default_value = "1 min")]
    every: Quantity<Duration>,
}

/// Arguments of `cellerator report`.
#[derive(clap::Args)]
pub struct ReportArgs {
    /// The accelerator: its --name, its interfaces as WIRED-MOBILE, or its process number. Not needed if
    /// only one runs
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Report of the time since so long ago, of which `cellerator history` has kept figures
    #[arg(long, value_name = "TIME", default_value = "1h")]
    since: Quantity<Duration>,
    /// Only until so long ago
    #[arg(long, value_name = "TIME", default_value = "0 s")]
    until: Quantity<Duration>,
    /// Record for TIME from now on, and report of that; needs no history
    #[arg(long, value_name = "TIME", conflicts_with_all = ["since", "until", "directory"])]
    during: Option<Quantity<Duration>>,
    /// Put an earlier report beside it: the JSON of another time, or of other settings
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Directory of the history
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    directory: PathBuf,
    /// Write a page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the figures as JSON (schemas/live-report.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one sheet as PDF, printed by the Chromium of this machine
    #[arg(long, value_name = "FILE")]
    pdf: Option<PathBuf>,
}

fn wall_ms() -> u64 {
    Clock::wall_nanos() / 1_000_000
}

/// Runs `cellerator history` until it is asked to end.
pub fn history(args: &HistoryArgs) -> Result<ExitCode> {
    let signals = Signals::terminating().context("history")?;
    let keep_ms = args.keep.0.as_millis();
    let mut file = HistoryFile::open(&args.directory, &args.name, keep_ms).context("history")?;
    let directory = Path::new(io::INSTANCE_DIRECTORY);
    only_look(directory, &[&args.directory]).context("history")?;
    let mut recorder = Recorder::new(directory, &args.name, args.every.0);
    let path = HistoryFile::path(&args.directory, &args.name);
    let is_there = run::find(directory).unwrap_or_default().iter().any(|found| found.name == args.name);
    let wait = if is_there { "" } else { " as soon as it runs: this user sees none of that name now" };
    Words::default().say(&format!("recording '{}' into {}{wait}", args.name, path.display()));
    while signals.take().is_none() {
        if let Some(slice) = recorder.turn().context("history")? {
            file.add(&slice).context("history")?;
        }
    }
    if let Some(slice) = recorder.look() {
        file.add(&slice).context("history")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `cellerator report`; an error is one clear line: what, where, what to do.
pub fn report(args: &ReportArgs) -> Result<ExitCode> {
    let words = Words::beside([args.html.as_deref(), args.json.as_deref(), args.pdf.as_deref()])?;
    let printer = match &args.pdf {
        Some(path) if output::is_standard_output(path) => {
            bail!("report: --pdf needs a file");
        }
        Some(_) => Some(history::printer(&std::env::var_os("PATH").unwrap_or_default()).context(
            "report: --pdf needs a browser that prints, and there is none in the PATH: install Debian's package \
             chromium, or use --html and print the page elsewhere",
        )?),
        None => None,
    };
    let files = [args.html.as_deref(), args.json.as_deref(), args.pdf.as_deref()];
    files.into_iter().flatten().try_for_each(writable::file).context("report")?;
    let before = args.before.as_deref().map(read).transpose()?;
    let name = name(args)?;
    let (slices, from_ms, to_ms) = match args.during {
        Some(Quantity(time)) => record(&name, time)?,
        None => kept(args, &name)?,
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let made_by = MadeBy { version, command: format!("cellerator {command}") };
    // While it runs it tells of a phase itself; of those before, the history does.
    let phase = history::phase(Path::new(io::INSTANCE_DIRECTORY), &name);
    let about = About { accelerator: &name, from_ms, to_ms, phase: phase.as_ref() };
    let report = Report::of(&slices, about, made_by).map_err(|error| {
        let hint = "`cellerator history NAME` records from when it is started; --during TIME records now";
        anyhow!("report: {error}: {hint}")
    })?;
    let report = match &before {
        Some(before) => report.beside(before),
        None => report,
    };
    if let Some(path) = &args.html {
        output::save(path, &history::html(&report))?;
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&report).context("report")?;
        output::save(path, &(json + "\n"))?;
    }
    if let (Some(path), Some(printer)) = (&args.pdf, &printer) {
        history::print(printer, &history::one_page(&report), path).context("report")?;
        eprintln!("  wrote {}", path.display());
    }
    words.say(&said(&report));
    Ok(ExitCode::SUCCESS)
}

/// The accelerator that is meant. One that does not run any more may have a history.
fn name(args: &ReportArgs) -> Result<String> {
    let has_history = |name: &&String| HistoryFile::path(&args.directory, name).exists();
    if let Some(name) = args.name.as_ref().filter(|_| args.during.is_none()).filter(has_history) {
        return Ok(name.clone());
    }
    let all = run::find(Path::new(io::INSTANCE_DIRECTORY))?;
    run::choose(all, args.name.as_deref()).map(|found| found.name).map_err(Error::msg)
}

/// Slices that `cellerator history` has kept of the time that is meant.
fn kept(args: &ReportArgs, name: &str) -> Result<(Vec<Slice>, u64, u64)> {
    let path = HistoryFile::path(&args.directory, name);
    if !path.exists() {
        bail!(
            "report: there is no history of '{name}' in {}: `cellerator history {name}` records one, or --during TIME \
             records now",
            args.directory.display()
        );
    }
    let slices = HistoryFile::read(&path).context("report")?;
    let ago = |span: Quantity<Duration>| wall_ms().saturating_sub(span.0.as_millis());
    let (from_ms, to_ms) = (ago(args.since), ago(args.until));
    if from_ms >= to_ms {
        bail!("report: --until must be less than --since");
    }
    Ok((slices, from_ms, to_ms))
}

/// Records an accelerator for so long.
fn record(name: &str, time: Duration) -> Result<(Vec<Slice>, u64, u64)> {
    // Sixty slices, of a second at least and of a minute at most.
    let every = Duration::from_millis((time.as_millis() / 60).clamp(1_000, 60_000));
    let signals = Signals::terminating().context("report")?;
    let mut recorder = Recorder::new(Path::new(io::INSTANCE_DIRECTORY), name, every);
    let (from_ms, end) = (wall_ms(), Clock::now() + time);
    let mut slices = Vec::new();
    while Clock::now() < end && signals.take().is_none() {
        slices.extend(recorder.turn().context("report")?);
    }
    slices.extend(recorder.look());
    Ok((slices, from_ms, wall_ms()))
}

fn read(path: &Path) -> Result<Report> {
    let what = || format!("report: --before {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    let report: Report = serde_json::from_str(&text).with_context(what)?;
    if report.schema != history::SCHEMA {
        bail!("{}: its schema is '{}' and not '{}'", what(), report.schema, history::SCHEMA);
    }
    Ok(report)
}

/// The report for the terminal.
fn said(report: &Report) -> String {
    let tables = [Some(report.downloads()), Some(report.kinds()), report.changes()];
    let phases = report.ab.iter().map(history::comparison);
    let tables = tables.into_iter().flatten().chain(phases).map(|table| table.to_string());
    std::iter::once(report.finding() + "\n").chain(tables).collect::<Vec<_>>().join("\n")
}
