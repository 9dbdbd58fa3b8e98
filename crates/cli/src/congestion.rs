//! `cellerator congestion`: `adaptive` as the congestion control of this machine's own kernel.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::congestion::{CongestionStatus, ConnectionStatus, Loaded, RunningComparison, Users};
use anyhow::{Context, Result};
use clap::Subcommand;
use figures::Table;
use io::{Clock, Signals};

use self::boot_unit::Place;
use crate::instance::print_json;
use crate::interruption;
use crate::output::{Words, namespace, show_log};

mod boot_unit;
mod compare;

/// Arguments of `cellerator congestion`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load it, and have new connections of this network namespace use it, until interrupted (as root)
    Load(LoadArgs),
    /// Have half of the new connections use it and half another one, and compare them (as root)
    Compare(compare::Args),
    /// End what was loaded, in whatever network namespace (as root)
    Unload,
    /// Have systemd load it now and at every boot (as root)
    Install(InstallArgs),
    /// Show what is loaded, and rate, queue and window of the connections that use it (as root)
    Status(StatusArgs),
}

/// Connections that use it.
#[derive(clap::Args)]
struct UserArgs {
    /// Only connections with this local port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Only connections of processes in this control group or below it: a folder in the tree of cgroup2
    #[arg(long, value_name = "FOLDER")]
    cgroup: Option<PathBuf>,
    /// Only register it: for programs that choose it by TCP_CONGESTION
    #[arg(long, conflicts_with_all = ["port", "cgroup"])]
    register_only: bool,
}

impl UserArgs {
    fn users(&self) -> Users {
        match self.register_only {
            true => Users::Asking,
            false => Users::New { port: self.port, group: self.cgroup.clone() },
        }
    }

    /// The same as arguments.
    fn words(&self) -> Vec<String> {
        let port = self.port.iter().flat_map(|port| ["--port".to_owned(), port.to_string()]);
        let group = self.cgroup.iter().flat_map(|group| ["--cgroup".to_owned(), group.display().to_string()]);
        port.chain(group).chain(self.register_only.then(|| "--register-only".to_owned())).collect()
    }
}

#[derive(clap::Args)]
struct LoadArgs {
    #[command(flatten)]
    users: UserArgs,
    /// Print the verifier's whole log when the kernel refuses the program
    #[arg(long)]
    verbose: bool,
}

#[derive(clap::Args)]
struct InstallArgs {
    #[command(flatten)]
    users: UserArgs,
    /// End it, and take away what was installed
    #[arg(long, conflicts_with_all = ["port", "cgroup", "register_only"])]
    remove: bool,
    /// Write into the tree of another machine, and start nothing
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    root: PathBuf,
}

#[derive(clap::Args)]
struct StatusArgs {
    /// Print JSON (schemas/congestion-status.schema.json)
    #[arg(long)]
    json: bool,
}

/// Runs `cellerator congestion`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Load(args) => load(args),
        Command::Compare(args) => compare::main(args),
        Command::Unload => {
            unload()?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Install(args) => {
            install(args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Status(args) => status(args),
    }
}

fn load(args: &LoadArgs) -> Result<ExitCode> {
    let words = Words::default();
    let signals = Signals::terminating()?;
    ::congestion::hold(&args.users.users(), &signals, &mut |line| words.say(line))
        .inspect_err(|error| show_log(error.log(), args.verbose))?;
    Ok(interruption::code(signals.taken()))
}

fn install(args: &InstallArgs) -> Result<()> {
    let words = Words::default();
    let place = Place::of(&args.root)?;
    if args.remove {
        words.say(&place.remove()?.join("\n"));
        return Ok(());
    }
    let program = std::env::current_exe().context("where this program is")?;
    words.say(&place.install(&program, &args.users.words())?.join("\n"));
    Ok(())
}

fn unload() -> Result<()> {
    let place = Place::of(Path::new("/")).ok();
    let of_unit = place.as_ref().and_then(Place::process);
    let mut lines = ::congestion::unload()?;
    if of_unit.is_some()
        && let Some(command) = place.as_ref().and_then(Place::for_good)
    {
        lines.push(format!("{} loads it again at the next boot: `{command}` ends that", boot_unit::NAME));
    }
    Words::default().say(&lines.join("\n"));
    Ok(())
}

fn status(args: &StatusArgs) -> Result<ExitCode> {
    let status = ::congestion::status()?;
    if args.json {
        print_json(&status)?;
    } else {
        Words::default().say(&told(&status));
    }
    Ok(ExitCode::SUCCESS)
}

fn told(status: &CongestionStatus) -> String {
    if status.loaded.is_empty() {
        return "nothing is loaded: connections use the kernel's own congestion control".to_owned();
    }
    status.loaded.iter().map(loaded_told).collect::<Vec<_>>().join("\n")
}

fn loaded_told(loaded: &Loaded) -> String {
    let place = namespace(loaded.is_here, loaded.namespace_name.as_deref(), loaded.namespace);
    let (name, process, users) = (&loaded.name, loaded.process, &loaded.users);
    let head = match &loaded.comparison {
        None => format!("congestion control '{name}', process {process}: {users} in {place} use it"),
        Some(comparison) => format!(
            "congestion control '{name}', process {process}: half of {users} in {place} use it, half '{}': a \
             comparison is under way, by {}, seed {}, {}",
            comparison.with,
            comparison.by.name(),
            comparison.seed,
            time_of(comparison)
        ),
    };
    if loaded.connections.is_empty() {
        return format!("{head}\n  no connection uses it");
    }
    let rows = loaded.connections.iter().map(row).collect();
    let headings = vec![
        ("remote", ""),
        ("local port", ""),
        ("rate", "Mbit/s"),
        ("expected", "Mbit/s"),
        ("queue", "ms"),
        ("floor", "ms"),
        ("window", "KB"),
        ("shares with", ""),
        ("bound by", ""),
    ];
    format!("{head}\n{}", Table { headings, rows })
}

/// Duration of a comparison so far.
fn time_of(comparison: &RunningComparison) -> String {
    let elapsed = (Clock::wall_nanos() / 1_000_000).saturating_sub(comparison.began_ms) / 1_000;
    comparison
        .planned_ms
        .map_or_else(|| format!("{elapsed} s"), |planned| format!("{elapsed} of {} s", planned / 1_000))
}

fn row(one: &ConnectionStatus) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"));
    vec![
        std::net::SocketAddr::new(one.remote, one.remote_port).to_string(),
        one.local_port.to_string(),
        number(one.rate_mbps),
        number(one.forecast_mbps),
        number(one.queue_ms),
        number(one.floor_ms),
        (one.window_bytes / 1_000).to_string(),
        one.shares_with.to_string(),
        one.bound.to_owned(),
    ]
}
