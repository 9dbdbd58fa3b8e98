//! `cellerator bench`.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use bench::{BenchError, Benchmark, ClientSide, Interrupted, PartName, Progress, Results};
use clap::builder::PossibleValue;
use clap::{Subcommand, ValueEnum};
use io::Signals;
use io::features::{Feature, require};
use run::{Config, Event, Notrack};
use units::Duration;

use crate::output::{self, Words, is_standard_output};
use crate::{interruption, outcome, writable};

/// Arguments of `cellerator bench`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Parts to measure [default: everything, about 15 minutes]
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<Name>,
    /// Rounds, instead of each part's own number. Each round measures every way through the box once, and
    /// compares within the round
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pairs: Option<u32>,
    /// Seconds of each run, instead of each part's own time
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: Option<u64>,
    /// Write the results as JSON (schemas/bench-results.schema.json) after each part. Other parts of an
    /// earlier run stay in FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results as Markdown, including those that stay in the JSON file
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Measure nothing. Write the Markdown and the plots of an earlier run's JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["parts", "pairs", "seconds", "json"])]
    show: Option<PathBuf>,
    /// Write the plots as SVG to this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<HelperCommand>,
}

#[derive(Subcommand)]
enum HelperCommand {
    /// Be the bare TUN echo between two interfaces until a signal comes
    #[command(hide = true)]
    Echo(EchoArgs),
    /// Be the servers of many flows, as told on standard input
    #[command(hide = true)]
    HoldServer {
        #[arg(long, default_value = "0")]
        buffer: usize,
    },
    /// Be the clients of many flows
    #[command(hide = true)]
    HoldClients(HoldArgs),
    /// Measure the engine alone with so many flows, and print JSON
    #[command(hide = true)]
    EngineCost {
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
        flows: u32,
    },
}

#[derive(clap::Args)]
struct HoldArgs {
    #[arg(long)]
    to: SocketAddr,
    #[arg(long)]
    flows: u32,
    #[arg(long, default_value = "0")]
    first: u32,
    #[arg(long, default_value = "1")]
    subscribers: u32,
    #[arg(long, default_value = "0")]
    buffer: usize,
}

#[derive(clap::Args)]
struct EchoArgs {
    #[arg(long)]
    wired: String,
    #[arg(long)]
    mobile: String,
    #[arg(long)]
    no_gso: bool,
    #[arg(long)]
    busy_poll: bool,
    #[arg(long, default_value = "0")]
    shards: u16,
    /// Everything to this address comes through it, too
    #[arg(long)]
    all_to: Option<IpAddr>,
}

/// A part, as clap wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Name(PartName);

impl ValueEnum for Name {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Name; PartName::ALL.len()] = {
            let mut all = [Name(PartName::ALL[0]); PartName::ALL.len()];
            let mut i = 1;
            while i < all.len() {
                all[i] = Name(PartName::ALL[i]);
                i += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.about()))
    }
}

/// Runs `cellerator bench`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    match &args.command {
        None => match &args.show {
            Some(path) => show_again(path, args),
            None => return measure(args),
        },
        Some(HelperCommand::Echo(args)) => echo(args).context("bench"),
        Some(HelperCommand::HoldServer { buffer }) => bench::hold_server(*buffer).context("bench"),
        Some(HelperCommand::HoldClients(args)) => hold_clients(args).context("bench"),
        Some(HelperCommand::EngineCost { flows }) => engine_cost(*flows),
    }
    .map(|()| ExitCode::SUCCESS)
}

fn echo(args: &EchoArgs) -> Result<(), run::RunError> {
    let mut show = |event: &Event| drop(writeln!(std::io::stdout(), "{}", event.line()));
    let config = Config {
        wired: args.wired.clone(),
        mobile: args.mobile.clone(),
        gso: !args.no_gso,
        busy_poll: args.busy_poll,
        shards: usize::from(args.shards),
        notrack: Notrack::Auto,
        ..Config::default()
    };
    bench::echo(&config, args.all_to, &mut show)
}

fn hold_clients(args: &HoldArgs) -> Result<(), BenchError> {
    bench::hold_clients(ClientSide {
        to: args.to,
        flows: args.flows,
        first: args.first,
        subscribers: args.subscribers,
        buffer: args.buffer,
    })
}

fn engine_cost(flows: u32) -> Result<()> {
    let cost = bench::engine_cost(flows).context("bench")?;
    let json = serde_json::to_string(&cost).context("bench")?;
    writeln!(std::io::stdout(), "{json}").context("bench")
}

fn measure(args: &Args) -> Result<ExitCode> {
    let parts: Vec<PartName> = match args.parts.as_slice() {
        [] => PartName::ALL.to_vec(),
        some => PartName::ALL.into_iter().filter(|part| some.contains(&Name(*part))).collect(),
    };
    // Once, not for each part: even the engine alone is measured in a network of its own.
    require(Feature::Namespaces).context("bench")?;
    // Before minutes of measuring: a path that cannot be written should not cost them.
    let words = Words::beside([args.json.as_deref(), args.markdown.as_deref()])?;
    [&args.json, &args.markdown].into_iter().flatten().try_for_each(|path| writable::file(path))?;
    let kept = args.json.as_deref().filter(|path| !is_standard_output(path));
    let mut results = kept.map_or(Ok(Results::new()), earlier)?;
    let signals = Signals::terminating().context("bench")?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let benchmark = Benchmark {
        time: args.seconds.map(Duration::from_secs),
        rounds: args.pairs,
        program,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: outcome::command_line(),
    };
    let order = PartName::ALL.map(PartName::name);
    let mut made = Results::new();
    let mut failed = Vec::new();
    results.interrupted = None;
    for (finished, part) in parts.iter().enumerate() {
        let measured = benchmark.run(*part, &signals, &mut show);
        if signals.taken().is_some() {
            results.interrupted = Some(Interrupted { finished, of: parts.len() });
        }
        match measured {
            Ok(part) => {
                made.put(part.clone(), &order);
                // A part that was ended early takes no whole one's place.
                if results.interrupted.is_none() || results.part(&part.name).is_none() {
                    results.put(part, &order);
                }
                // After each, so that what comes later cannot lose it.
                save(args, &results)?;
            }
            Err(BenchError::Interrupted) if finished > 0 => save(args, &results)?,
            Err(BenchError::Interrupted) => {}
            Err(error) => {
                eprintln!("bench: {}: {error}", part.name());
                failed.push(part.name());
            }
        }
        if results.interrupted.is_some() {
            break;
        }
    }
    made.interrupted = results.interrupted;
    if !made.parts.is_empty() {
        words.say(&format!("\n{}", figures::for_terminal(&made.markdown(), words.columns())));
        to_standard_output(args, &results)?;
    }
    if let Some(interrupted) = made.interrupted {
        match made.parts.is_empty() {
            true => eprintln!("cellerator: bench: {interrupted}; nothing is written"),
            false => interruption::tell(&format!("bench: {interrupted}"), files(args)),
        }
        return Ok(interruption::code(signals.taken()));
    }
    match failed.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => bail!("bench: these parts failed: {}", failed.join(", ")),
    }
}

/// The files that are written.
fn files(args: &Args) -> impl Iterator<Item = &Path> {
    [&args.json, &args.markdown, &args.plots].into_iter().flatten().map(PathBuf::as_path)
}

fn show_again(path: &Path, args: &Args) -> Result<()> {
    if !path.is_file() {
        bail!("bench: there is no file {}", path.display());
    }
    let results = earlier(path)?;
    save(args, &results)?;
    let words = Words::beside([args.markdown.as_deref()])?;
    words.say(&figures::for_terminal(&results.markdown(), words.columns()));
    to_standard_output(args, &results)
}

/// The results that an earlier run wrote to `path`, if it is there.
fn earlier(path: &Path) -> Result<Results> {
    let text = match std::fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Results::new()),
        text => text.with_context(|| format!("bench: cannot read {}", path.display()))?,
    };
    let results =
        serde_json::from_str(&text).ok().filter(|results: &Results| results.schema == bench::SCHEMA);
    results.with_context(|| {
        format!(
            "bench: {} is not of the form {}: delete it or name another file",
            path.display(),
            bench::SCHEMA
        )
    })
}

fn show(step: Progress<'_>) {
    match step {
        Progress::Part(part) => eprintln!("{}: {}", part.name(), part.about()),
        Progress::Round(round, rounds) => eprintln!(" round {round} of {rounds}"),
        Progress::Way(_) => {}
        Progress::Step(text) => eprintln!("  {text} …"),
        Progress::Sample(sample, values) => {
            eprintln!("  {:<14} {:<22} {values}", sample.case, sample.way);
        }
        Progress::Missing(line) => eprintln!("  {line}"),
    }
}

/// Writes the files that were asked for.
fn save(args: &Args, results: &Results) -> Result<()> {
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let file = |path: &Option<PathBuf>| path.clone().filter(|path| !is_standard_output(path));
    if let Some(path) = file(&args.markdown) {
        create_parent(&path)?;
        write(&path, results.markdown())?;
    }
    if let Some(directory) = &args.plots {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        for (name, svg) in results.plots() {
            write(&directory.join(format!("{name}.svg")), svg)?;
        }
    }
    match file(&args.json) {
        Some(path) => write(&path, json(results)?),
        None => Ok(()),
    }
}

/// Writes the document that is to go to standard output, once and at the end.
fn to_standard_output(args: &Args, results: &Results) -> Result<()> {
    let goes = |path: &Option<PathBuf>| path.as_deref().is_some_and(is_standard_output);
    if goes(&args.json) {
        output::save(Path::new("-"), &json(results)?)?;
    }
    if goes(&args.markdown) {
        output::save(Path::new("-"), &results.markdown())?;
    }
    Ok(())
}

fn json(results: &Results) -> Result<String> {
    serde_json::to_string_pretty(results).map(|json| json + "\n").context("results as JSON")
}

fn create_parent(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))
}
