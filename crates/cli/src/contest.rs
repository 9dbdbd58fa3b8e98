//! `cellerator contest`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::contest::{
    Buffer, Contest, Document, LabContest, Maker, Part, Scheme, Settings, TraceSource, page, tables,
};
use anyhow::{Context, Result, bail};
use io::{Clock, Signals};
use lab::Instance;
use scenario::Quantity;
use units::Duration;

use crate::interruption::Interruption;
use crate::output::Words;
use crate::path_args::PathArgs;
use crate::{interruption, outcome, output, writable};

/// Arguments of `cellerator contest`.
#[derive(clap::Args)]
pub struct Args {
    /// Capacity traces: files in Mahimahi's format or with lines of `seconds Mbit/s`, or names of
    /// presets. `+FILE` behind a trace gives the uplink its own trace
    #[arg(required = true, value_name = "TRACE[+UPLINK]")]
    traces: Vec<String>,
    /// Schemes that control the sending: direct:NAME (the server), kernel:adaptive, accel:NAME (the accelerator, per
    /// client), split:NAME (the accelerator, per flow). Parameters: accel:rate?alpha=40ms&beta=60ms
    #[arg(long, value_delimiter = ',', default_value = "direct:cubic,direct:bbr,accel:rate,accel:adaptive")]
    schemes: Vec<String>,
    /// Radio queues: sizes, bandwidth-delay products such as 2bdp, or `both` (4MB and 2bdp)
    #[arg(long, value_delimiter = ',', default_value = "4MB", value_name = "SIZE")]
    buffer: Vec<String>,
    /// Parts to run: bulk (a download and a ping), short (downloads of 16 KB, 100 KB and 1 MB), mixed (four flows and
    /// a call), flows=N (N downloads), beside=cubic|reno|bbr|bbr3|fixed|adaptive|quic|quic-bbr[:N] (a download beside
    /// others that pass), alone=… (those others alone)
    #[arg(long, value_delimiter = ',', default_value = "bulk", value_name = "PART")]
    part: Vec<Part>,
    /// Delay with which the senders of the limit know capacity and queue; one limit for each
    #[arg(long, value_delimiter = ',', default_value = "20 ms,40 ms", value_name = "TIME")]
    limit_delay: Vec<Quantity<Duration>>,
    /// Leave out the limits
    #[arg(long)]
    no_limit: bool,
    #[command(flatten)]
    path: PathArgs,
    /// Use real kernel TCP in namespaces, in real time, one run after the other (direct:cubic,
    /// direct:bbr, accel:NAME)
    #[arg(long)]
    lab: bool,
    /// Length of each run
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Time in the traces at which the runs begin
    #[arg(long, default_value = "0 s", value_name = "TIME")]
    from: Quantity<Duration>,
    /// Set a controller's parameter in all schemes that have this controller
    #[arg(long, value_name = "CONTROLLER.NAME=VALUE")]
    param: Vec<String>,
    /// Seed of all random choices: traces of presets, losses of the radio, contents that hosts send
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Make every run with this many seeds, from --seed on, and show means with 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    seeds: u16,
    /// Runs at the same time; does not change the results [default: the number of processors]
    #[arg(long)]
    threads: Option<usize>,
    /// Write the results as JSON (schemas/contest.schema.json); - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with plots as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs `cellerator contest`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let contest = contest(args)?;
    let files = [args.json.as_deref(), args.html.as_deref()];
    let words = Words::beside(files)?;
    let plain = files.into_iter().flatten().filter(|path| !output::is_standard_output(path));
    plain.clone().try_for_each(writable::file)?;
    let count = contest.runs();
    let (ended, began) = (AtomicUsize::new(0), Clock::now());
    let progress = |what: &str| {
        let number = ended.fetch_add(1, Ordering::Relaxed) + 1;
        let seconds = Clock::now().saturating_since(began).as_secs_f64();
        eprintln!("  [{number}/{count}, {seconds:.0} s] {what}");
    };
    let (held, code) = if args.lab {
        (in_lab(&contest, &progress)?, interruption::code(None))
    } else {
        let interruption = Interruption::listen()?;
        let held = contest.hold(&progress, interruption.flag())?;
        (held, interruption.code())
    };
    let document = Document {
        made_by: Maker {
            cellerator: env!("CARGO_PKG_VERSION").to_owned(),
            command: outcome::command_line(),
            runner: if args.lab { "lab" } else { "sim" }.to_owned(),
        },
        ..held
    };
    words.say(&tables(&document, words.columns()));
    if let Some(path) = &args.html {
        output::save(path, &page(&document))?;
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&document).context("results as JSON")?;
        output::save(path, &(json + "\n"))?;
    }
    if let Some(interrupted) = document.interrupted {
        interruption::tell(&format!("contest: {interrupted}"), plain);
        return Ok(code);
    }
    let bulk = document.runs.iter().map(|run| &run.problems);
    let short = document.short.iter().map(|run| &run.problems);
    let mixed = document.mixed.iter().map(|run| &run.problems);
    let flows = document.flows.iter().map(|run| &run.problems);
    let beside = document.beside.iter().map(|run| &run.problems);
    let is_good = bulk.chain(short).chain(mixed).chain(flows).chain(beside).all(Vec::is_empty);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn contest(args: &Args) -> Result<Contest> {
    let length = Duration::from_secs(args.seconds);
    let mut schemes: Vec<Scheme> = args.schemes.iter().map(|s| s.trim().parse()).collect::<Result<_, _>>()?;
    for setting in &args.param {
        set(&mut schemes, setting)?;
    }
    let mut buffers: Vec<Buffer> = Vec::new();
    for buffer in &args.buffer {
        let names: &[&str] = if buffer == "both" { &["4MB", "2bdp"] } else { &[buffer] };
        buffers.extend(names.iter().map(|n| n.parse()).collect::<Result<Vec<Buffer>, _>>()?);
    }
    let seeds: Vec<u64> = (0..u64::from(args.seeds)).map(|number| args.seed.wrapping_add(number)).collect();
    let open = |name: &String| TraceSource::open_all(name, args.from.0, length, &seeds);
    let traces = args.traces.iter().map(open).collect::<Result<_, _>>()?;
    let threads = args.threads.unwrap_or_else(io::sched::cpu_count).max(1);
    let late = if args.no_limit { Vec::new() } else { args.limit_delay.iter().map(|q| q.0).collect() };
    let path = args.path.settings()?;
    let settings = Settings { length, buffers, seeds, threads, parts: args.part.clone(), late, path };
    Ok(Contest { settings, traces, schemes })
}

fn in_lab(contest: &Contest, progress: &(dyn Fn(&str) + Sync)) -> Result<Document> {
    let signals = Signals::terminating()?;
    let instance = Instance::register(None, "contest")?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let lab = LabContest { contest, instance: &instance, signals: &signals, program };
    Ok(lab.hold(progress)?)
}

/// Sets `controller.name=value` wherever that controller is.
fn set(schemes: &mut [Scheme], setting: &str) -> Result<()> {
    let wrong = || format!("--param `{setting}`: write CONTROLLER.NAME=VALUE, as in rate.alpha=40ms");
    let (path, value) = setting.split_once('=').with_context(wrong)?;
    let (controller, name) = path.trim().split_once('.').with_context(wrong)?;
    let mut is_used = false;
    for scheme in schemes.iter_mut().filter(|scheme| scheme.controller.name() == controller) {
        scheme.set(name, value)?;
        is_used = true;
    }
    if !is_used {
        bail!("--param `{setting}`: no scheme has the controller `{controller}`");
    }
    Ok(())
}
