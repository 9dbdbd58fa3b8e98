//! `cellerator multipath congestion`: coupled congestion control of this machine's MPTCP subflows.

use std::process::ExitCode;

use ::coupled::{CoupledStatus, Loaded};
use anyhow::Result;
use clap::{Subcommand, ValueEnum};
use control::coupled::Scheme;
use figures::Table;
use io::Signals;

use crate::instance::print_json;
use crate::interruption;
use crate::output::{Words, namespace, show_log};

/// Arguments of `cellerator multipath congestion`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load a scheme, and have MPTCP subflows of this network namespace use it, until interrupted (as root)
    Load(LoadArgs),
    /// End what was loaded, in whatever network namespace (as root)
    Unload(UnloadArgs),
    /// Show what is loaded, and the windows of the connections that use it (as root)
    Status(StatusArgs),
}

/// A coupled scheme.
#[derive(Clone, Copy, ValueEnum)]
pub enum SchemeName {
    /// Together as much as one TCP on the best path (RFC 6356)
    Lia,
    /// Balanced: answers sooner, and leaves a clean path what it can carry
    Balia,
    /// Grows as one TCP over all windows
    CoupledIncrease,
    /// Grows as TCP, shrinks by half of all windows
    CoupledDecrease,
    /// Grows and shrinks as one TCP over all windows
    FullyCoupled,
}

impl SchemeName {
    /// The scheme.
    pub const fn scheme(self) -> Scheme {
        match self {
            Self::Lia => Scheme::Lia,
            Self::Balia => Scheme::Balia,
            Self::CoupledIncrease => Scheme::CoupledIncrease,
            Self::CoupledDecrease => Scheme::CoupledDecrease,
            Self::FullyCoupled => Scheme::FullyCoupled,
        }
    }
}

#[derive(clap::Args)]
struct LoadArgs {
    /// The scheme
    #[arg(value_enum)]
    scheme: SchemeName,
    /// Only register it: for programs that choose it by TCP_CONGESTION, and for sysctls
    #[arg(long)]
    register_only: bool,
    /// Print the verifier's whole log when the kernel refuses the program
    #[arg(long)]
    verbose: bool,
}

#[derive(clap::Args)]
struct UnloadArgs {
    /// Only this scheme
    #[arg(value_enum)]
    scheme: Option<SchemeName>,
}

#[derive(clap::Args)]
struct StatusArgs {
    /// Print JSON (schemas/coupled-status.schema.json)
    #[arg(long)]
    json: bool,
}

/// Runs `cellerator multipath congestion`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Load(args) => load(args),
        Command::Unload(args) => {
            let lines = ::coupled::unload(args.scheme.map(SchemeName::scheme))?;
            Words::default().say(&lines.join("\n"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Status(args) => status(args),
    }
}

fn load(args: &LoadArgs) -> Result<ExitCode> {
    let words = Words::default();
    let signals = Signals::terminating()?;
    let held =
        ::coupled::hold(args.scheme.scheme(), !args.register_only, &signals, &mut |line| words.say(line));
    held.inspect_err(|error| show_log(error.log(), args.verbose))?;
    Ok(interruption::code(signals.taken()))
}

fn status(args: &StatusArgs) -> Result<ExitCode> {
    let status = ::coupled::status()?;
    if args.json {
        print_json(&status)?;
    } else {
        Words::default().say(&told(&status));
    }
    Ok(ExitCode::SUCCESS)
}

fn told(status: &CoupledStatus) -> String {
    if status.loaded.is_empty() {
        return "nothing is loaded: subflows are not coupled".to_owned();
    }
    status.loaded.iter().map(scheme_told).collect::<Vec<_>>().join("\n")
}

fn scheme_told(loaded: &Loaded) -> String {
    let who = match loaded.is_chosen {
        true => format!(
            "MPTCP subflows of {} use it",
            namespace(loaded.is_here, loaded.namespace_name.as_deref(), loaded.namespace)
        ),
        false => "for those that choose it".to_owned(),
    };
    let head =
        format!("{}, congestion control '{}', process {}: {who}", loaded.scheme, loaded.name, loaded.process);
    let rows = loaded.connections.iter().flat_map(|connection| {
        connection.subflows.iter().map(|subflow| {
            let dash = || "–".to_owned();
            vec![
                format!("{:08x}", connection.token),
                subflow.window.to_string(),
                subflow.ssthresh.map_or_else(dash, |threshold| threshold.to_string()),
                subflow.rtt_ms.map_or_else(dash, |ms| format!("{ms:.1}")),
            ]
        })
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return format!("{head}\n  no connection uses it");
    }
    let headings = vec![("connection", ""), ("window", "segments"), ("threshold", "segments"), ("RTT", "ms")];
    format!("{head}\n{}", Table { headings, rows })
}
