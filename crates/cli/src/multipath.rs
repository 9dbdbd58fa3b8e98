//! `cellerator multipath`.

use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::multipath::{EventFile, SimulationOutcome, State, rules, simulate};
use anyhow::{Context, Result, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use figures::Table;
use io::{Clock, Interest, Signals, Waiter};
use scenario::Quantity;
use units::Duration;
use uplinks::{Answer, Daemon, EventLine, ProbeBy, Question, Running, Settings, Status};

use self::congestion::SchemeName;
use crate::instance::print_json;
use crate::output::Words;
use crate::{interruption, writable};

mod congestion;

/// Port of `cellerator probe server`.
const PROBE_PORT: u16 = 7311;

/// Arguments of `cellerator multipath`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: MultipathCommand,
}

#[derive(Subcommand)]
enum MultipathCommand {
    /// Steer this host's multi-path connections until Ctrl-C (as root)
    Run(Box<RunArgs>),
    /// Show a running path manager: paths, subflows, rates, and what happened last
    Status(StatusArgs),
    /// Show the paths only, or have one drained and no longer used
    Paths(PathsArgs),
    /// Couple the congestion windows of MPTCP subflows where data is sent: at servers
    Congestion(congestion::Args),
    /// Run the state machine over a written or recorded event file, in virtual time
    Simulate(SimulateArgs),
    /// Undo what a path manager has changed, once it has ended; started by it
    #[command(hide = true)]
    Guard {
        /// The instance's directory
        directory: PathBuf,
    },
}

#[derive(clap::Args)]
struct RunArgs {
    /// Interfaces that are paths [default: every one with a default route]
    interfaces: Vec<String>,
    /// Host on which `cellerator probe server` answers probes, with :PORT or not; once per IP version
    #[arg(long, value_name = "HOST")]
    server: Vec<String>,
    /// Without such a host: an address that answers ICMP echo; once per IP version
    #[arg(long, value_name = "ADDRESS")]
    ping: Vec<IpAddr>,
    /// File with the probe server's key
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Open subflows from every address to every address of the server
    #[arg(long)]
    full_mesh: bool,
    /// Leave sysctls as they are
    #[arg(long)]
    no_profile: bool,
    /// Set time-outs and keep-alives of MPTCP subflows alone (by BPF), not the host's
    #[arg(long)]
    per_subflow: bool,
    /// Couple the congestion windows of MPTCP subflows that this host sends on (by BPF) [default: each for itself]
    #[arg(long, value_enum, value_name = "SCHEME")]
    congestion: Option<SchemeName>,
    /// Silence after which keep-alives are sent: below what `probe timeout` found
    #[arg(long, value_name = "TIME", default_value = "120 s")]
    keep_alive: Quantity<Duration>,
    /// File with lines `INTERFACE DBM`, kept by whoever knows the radio
    #[arg(long, value_name = "FILE")]
    strength: Option<PathBuf>,
    /// Radio strength below which a path is backup only, dBm
    #[arg(long, value_name = "DBM", allow_negative_numbers = true)]
    weak: Option<i32>,
    /// Time between probes of a path that is up; more saves a radio's energy, and finds a death later
    #[arg(long, value_name = "TIME")]
    probe_every: Option<Quantity<Duration>>,
    /// Record everything that is seen, for `multipath simulate`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print events as lines of JSON
    #[arg(long)]
    json: bool,
    /// Print suspicions that come to nothing too
    #[arg(long)]
    verbose: bool,
}

#[derive(clap::Args)]
struct StatusArgs {
    /// Print JSON (schemas/multipath-status.schema.json)
    #[arg(long)]
    json: bool,
    /// Show it again every second until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    watch: bool,
}

#[derive(clap::Args)]
struct PathsArgs {
    /// Drain this interface, and use it no longer
    #[arg(long, value_name = "INTERFACE", conflicts_with = "resume")]
    retire: Option<String>,
    /// Use this interface again
    #[arg(long, value_name = "INTERFACE")]
    resume: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct SimulateArgs {
    /// Event file; --rules needs none
    file: Option<PathBuf>,
    /// Print JSON (schemas/multipath-simulation.schema.json)
    #[arg(long)]
    json: bool,
    /// Print the machine's rules instead
    #[arg(long, value_enum, value_name = "HOW", conflicts_with = "file")]
    rules: Option<RulesAs>,
}

#[derive(Clone, Copy, ValueEnum)]
enum RulesAs {
    /// A Markdown table
    Table,
    /// A diagram of states and causes
    Diagram,
    /// The thresholds
    Thresholds,
}

/// Runs `cellerator multipath`; an error is one clear line: what, where, what to do.
pub fn main(args: Args) -> Result<ExitCode> {
    match args.command {
        MultipathCommand::Run(args) => run(&args),
        MultipathCommand::Status(args) => status(&args),
        MultipathCommand::Paths(args) => paths(&args),
        MultipathCommand::Congestion(args) => congestion::main(&args),
        MultipathCommand::Simulate(args) => simulation(&args),
        MultipathCommand::Guard { directory } => {
            uplinks::guard::watch(&directory)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    let settings = settings(args)?;
    if let Some(path) = &args.record {
        writable::file(path)?;
    }
    let signals = Signals::terminating()?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let is_json = args.json;
    let mut tell = |line: &EventLine| {
        let line = if is_json { serde_json::to_string(line).unwrap_or_default() } else { line.to_string() };
        // A reader who has gone away is no error.
        let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{line}\n").as_bytes());
    };
    let daemon = Daemon::start(settings, Path::new(io::INSTANCE_DIRECTORY), &program, &mut tell);
    let ended = daemon?.run(&signals)?;
    for problem in &ended.problems {
        eprintln!("cellerator: not undone: {problem}");
    }
    for address in &ended.in_use {
        eprintln!("cellerator: the endpoint {address} is removed when the subflows that use it have ended");
    }
    let is_clean = ended.problems.is_empty();
    Ok(if is_clean { interruption::code(Some(ended.signal)) } else { ExitCode::FAILURE })
}

fn settings(args: &RunArgs) -> Result<Settings> {
    let mut probes = Vec::new();
    for host in &args.server {
        probes.extend(resolve(host)?.into_iter().map(ProbeBy::Server));
    }
    probes.extend(args.ping.iter().copied().map(ProbeBy::Ping));
    let mut thresholds = ::multipath::Settings::default();
    thresholds.weak_dbm = args.weak.unwrap_or(thresholds.weak_dbm);
    if let Some(Quantity(every)) = args.probe_every {
        if every < Duration::from_millis(20) || every > Duration::from_secs(60) {
            bail!("--probe-every: from 20 ms to 60 s");
        }
        thresholds.probe_idle = every;
    }
    let key = args.key_file.as_ref().map(|path| {
        let bytes = io::read_secret(path).context("the key")?;
        match bytes.trim_ascii_end() {
            [] => bail!("{} is empty: a key has at least one byte", path.display()),
            key => Ok(key.to_vec()),
        }
    });
    let keep_alive = args.keep_alive.0;
    // What the kernel takes for TCP_KEEPIDLE.
    if keep_alive < Duration::from_secs(1) || keep_alive > Duration::from_secs(32_767) {
        bail!("--keep-alive: from 1 s to 32767 s");
    }
    let mut settings = Settings::default();
    settings.interfaces.clone_from(&args.interfaces);
    settings.probes = probes;
    settings.key = key.transpose()?;
    settings.full_mesh = args.full_mesh;
    settings.with_profile = !args.no_profile;
    settings.is_per_subflow = args.per_subflow;
    settings.congestion = args.congestion.map(SchemeName::scheme);
    settings.keep_alive = keep_alive;
    settings.strength_file.clone_from(&args.strength);
    settings.record.clone_from(&args.record);
    settings.is_verbose = args.verbose;
    settings.thresholds = thresholds;
    Ok(settings)
}

/// The first address of each IP version that a host has.
fn resolve(host: &str) -> Result<Vec<SocketAddr>> {
    let failed = |e: &dyn std::fmt::Display| anyhow!("--server {host}: no such host ({e})");
    let all: Vec<SocketAddr> = match host.parse::<SocketAddr>() {
        Ok(address) => vec![address],
        Err(_) => match host.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, PROBE_PORT)],
            Err(_) if host.contains(':') => host.to_socket_addrs().map_err(|e| failed(&e))?.collect(),
            Err(_) => (host, PROBE_PORT).to_socket_addrs().map_err(|e| failed(&e))?.collect(),
        },
    };
    let one = |is_ipv4: bool| all.iter().find(|at| at.is_ipv4() == is_ipv4).copied();
    let found: Vec<SocketAddr> = [true, false].into_iter().filter_map(one).collect();
    if found.is_empty() { Err(failed(&"it has no address")) } else { Ok(found) }
}

fn ask(question: &Question) -> Result<Status> {
    let running = Running::here(Path::new(io::INSTANCE_DIRECTORY))?;
    match running.ask(question)? {
        Answer::Status(status) => Ok(*status),
        Answer::Refused(why) => bail!(why),
        Answer::Done => match running.ask(&Question::Status)? {
            Answer::Status(status) => Ok(*status),
            _ => bail!("the path manager is of another version"),
        },
    }
}

fn status(args: &StatusArgs) -> Result<ExitCode> {
    if args.json {
        return json(&ask(&Question::Status)?);
    }
    let words = Words::default();
    if !args.watch {
        let status = ask(&Question::Status)?;
        words.say(&(summary(&status) + "\n" + &tables(&status) + &events(&status)));
        return Ok(ExitCode::SUCCESS);
    }
    let signals = Signals::terminating()?;
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(&signals, Interest::Read, 0)?;
    while signals.take().is_none() {
        let status = ask(&Question::Status)?;
        words.say(&format!("\x1b[2J\x1b[H{}\n{}{}", summary(&status), tables(&status), events(&status)));
        waiter.wait(Some(Clock::now() + Duration::from_secs(1)))?;
    }
    Ok(interruption::code(signals.taken()))
}

fn paths(args: &PathsArgs) -> Result<ExitCode> {
    let retire = |path: &String, is_retired| Question::Retire { path: path.clone(), is_retired };
    let question = match (&args.retire, &args.resume) {
        (Some(path), _) => retire(path, true),
        (_, Some(path)) => retire(path, false),
        _ => Question::Status,
    };
    let status = ask(&question)?;
    if args.json {
        return json(&status.paths);
    }
    Words::default().say(&path_table(&status).to_string());
    Ok(ExitCode::SUCCESS)
}

fn json(value: &impl serde::Serialize) -> Result<ExitCode> {
    print_json(value)?;
    Ok(ExitCode::SUCCESS)
}

fn summary(status: &Status) -> String {
    let mut lines = vec![format!(
        "path manager, process {}, up {} s: {} connections, {} fell back to TCP",
        status.pid,
        status.up_ms / 1_000,
        status.connections,
        status.fallbacks
    )];
    lines.extend(status.conflicts.iter().map(|line| format!("conflict: {line}")));
    lines.extend(status.lacks.iter().map(|line| format!("missing: {line}")));
    lines.join("\n") + "\n"
}

fn path_table(status: &Status) -> Table {
    let headings = [
        ("path", ""),
        ("state", ""),
        ("why", ""),
        ("for", "s"),
        ("address", ""),
        ("seen as", ""),
        ("RTT", "ms"),
        ("lost", "of 20"),
        ("radio", "dBm"),
        ("down", "Mbit/s"),
        ("up", "Mbit/s"),
        ("flows", ""),
    ];
    let rows = status.paths.iter().map(|p| {
        let mut why = p.cause.to_string();
        if p.is_last {
            why.push_str(", kept: the last");
        }
        if p.is_retired {
            why.push_str(", retired");
        }
        if p.hold_ms > 0 {
            why.push_str(&format!(", waits {:.1} s", p.hold_ms as f64 / 1e3));
        }
        let dash = || "–".to_owned();
        vec![
            p.name.clone(),
            if p.is_backup == Some(true) { format!("{}, backup", p.state) } else { p.state.to_string() },
            why,
            format!("{:.1}", p.for_ms as f64 / 1e3),
            p.address.map_or_else(dash, |a| a.to_string()),
            p.seen_as.map_or_else(dash, |a| a.to_string()),
            p.rtt_ms.map_or_else(dash, |ms| format!("{ms:.1}")),
            p.probes_lost.to_string(),
            p.strength_dbm.map_or_else(dash, |dbm| dbm.to_string()),
            format!("{:.2}", p.receive_mbps),
            format!("{:.2}", p.send_mbps),
            p.subflows.len().to_string(),
        ]
    });
    Table { headings: headings.to_vec(), rows: rows.collect() }
}

fn tables(status: &Status) -> String {
    let mut said = path_table(status).to_string();
    let rows: Vec<Vec<String>> = status
        .paths
        .iter()
        .flat_map(|p| p.subflows.iter().map(move |s| (p, s)))
        .map(|(p, s)| {
            vec![
                format!("{:08x}", s.token),
                p.name.clone(),
                s.local.to_string(),
                s.remote.to_string(),
                if !s.is_established {
                    "closing"
                } else if s.is_backup {
                    "backup"
                } else {
                    "open"
                }
                .to_owned(),
                format!("{:.1}", s.rtt_ms),
                s.cwnd.to_string(),
                s.backoff.to_string(),
                format!("{:.2}", s.bytes_received as f64 / 1e6),
                format!("{:.2}", s.bytes_acked as f64 / 1e6),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let headings = vec![
            ("connection", ""),
            ("path", ""),
            ("local", ""),
            ("remote", ""),
            ("subflow", ""),
            ("RTT", "ms"),
            ("cwnd", ""),
            ("backoff", ""),
            ("received", "MB"),
            ("acked", "MB"),
        ];
        let table = Table { headings, rows };
        said.push_str(&format!("\n{table}"));
    }
    said
}

fn events(status: &Status) -> String {
    let last = status.events.iter().rev().take(12).rev();
    let lines: Vec<String> = last.map(ToString::to_string).collect();
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

fn simulation(args: &SimulateArgs) -> Result<ExitCode> {
    let words = Words::default();
    let Some(path) = &args.file else {
        match args.rules {
            Some(RulesAs::Table) => words.say(&rules::markdown()),
            Some(RulesAs::Diagram) => words.say(&rules::diagram()),
            Some(RulesAs::Thresholds) => {
                let named = ::multipath::Settings::default().named();
                let rows = named.into_iter().map(|n| vec![n.name, n.value]).collect();
                let headings = vec![("threshold", ""), ("value", "")];
                words.say(&Table { headings, rows }.to_string());
            }
            None => bail!("name an event file, or --rules table, diagram or thresholds"),
        }
        return Ok(ExitCode::SUCCESS);
    };
    let name = || path.display().to_string();
    let file = EventFile::parse(&fs::read_to_string(path).with_context(name)?).with_context(name)?;
    if file.paths.is_empty() {
        bail!("{}: no path is in it: begin with `0 path wifi rtt 20ms`", path.display());
    }
    let outcome = simulate(&file, ::multipath::Settings::default());
    if args.json {
        return json(&outcome);
    }
    words.say(&simulated(&outcome));
    Ok(ExitCode::SUCCESS)
}

fn simulated(outcome: &SimulationOutcome) -> String {
    let mut said = String::new();
    for line in &outcome.lines {
        let (s, us) = (line.at_us / 1_000_000, line.at_us % 1_000_000);
        said.push_str(&format!("{s:>6}.{:03}  {:<12} {}\n", us / 1_000, line.path, line.what));
    }
    let mut headings = vec![("path", "")];
    headings.extend(State::ALL.iter().map(|state| (state.name(), "s")));
    headings.push(("probes", ""));
    let rows = outcome.paths.iter().enumerate().map(|(i, name)| {
        let mut row = vec![name.clone()];
        row.extend(State::ALL.iter().map(|state| {
            let ms = outcome.time_in_state_ms.get(i).and_then(|times| times.get(state)).copied().unwrap_or(0);
            format!("{:.3}", ms as f64 / 1e3)
        }));
        row.push(outcome.probes.get(i).copied().unwrap_or(0).to_string());
        row
    });
    let table = Table { headings, rows: rows.collect() };
    format!("{said}\n{table}")
}
