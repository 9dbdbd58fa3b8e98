//! `cellerator drwa`: receive windows of this machine's own connections.

use std::io::Write;
use std::process::ExitCode;

use ::drwa::{AttachArgs, DrwaStatus, Line, State};
use anyhow::{Context, Result};
use io::Signals;
use units::Bytes;

use crate::instance::print_json;
use crate::output;

/// Arguments of `cellerator drwa`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Manage the receive windows of this machine's TCP connections over INTERFACE, until interrupted (as root)
    Attach(AttachArgs),
    /// End it, and undo what a killed one left (as root)
    Detach(DetachArgs),
    /// Show what is attached: per connection RTT, RTT_min, estimated cwnd, window (as root)
    Status(StatusArgs),
}

#[derive(clap::Args)]
struct DetachArgs {
    /// Only the one attached to this interface
    interface: Option<String>,
}

#[derive(clap::Args)]
struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also connections that have ended
    #[arg(long)]
    all: bool,
}

/// Runs `cellerator drwa`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let result = match &args.command {
        Command::Attach(args) => attach(args),
        Command::Detach(args) => ::drwa::detach(args.interface.as_deref()).map(|lines| print(&lines)),
        Command::Status(args) => return status(args),
    };
    result.map(|()| ExitCode::SUCCESS).context("drwa")
}

fn attach(args: &AttachArgs) -> Result<(), ::drwa::DrwaError> {
    let signals = Signals::terminating()?;
    ::drwa::attach(args, &signals, &mut |line| print(&[line.to_owned()]))
}

/// A reader who has gone away is no reason to stop.
fn print(lines: &[String]) {
    let mut out = std::io::stdout().lock();
    for line in lines {
        drop(writeln!(out, "{line}"));
    }
    drop(out.flush());
}

fn status(args: &StatusArgs) -> Result<ExitCode> {
    let mut status = ::drwa::status().context("drwa")?;
    if !args.all {
        for interface in &mut status.attached {
            interface.connections.retain(|line| line.state != State::Ended);
        }
    }
    if args.json {
        print_json(&status)?;
    } else {
        print(&lines(&status));
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(status: &DrwaStatus) -> Vec<String> {
    if status.attached.is_empty() {
        return vec!["nothing is attached: `cellerator drwa attach INTERFACE`".to_owned()];
    }
    let mut lines = Vec::new();
    for at in &status.attached {
        let counted = &at.counters;
        let place = output::namespace(at.is_here, at.namespace_name.as_deref(), at.namespace);
        lines.push(format!("{} ({}), process {}, {place}", at.interface, at.hook, at.process));
        lines.push(format!(
            "  managed: {} connections, {} received, {} of {} windows lowered, {} rounds",
            counted.managed,
            Bytes::new(counted.received_bytes),
            counted.windows_lowered,
            counted.segments_out,
            counted.rounds
        ));
        lines.push(format!(
            "  left alone: {} first seen after their SYN, {} Multipath TCP, {} not chosen",
            counted.left_alone_late, counted.left_alone_multipath, counted.left_alone_unselected
        ));
        lines.push(format!(
            "  {:<44} {:>10} {:>9} {:>9} {:>10} {:>10} {:>10}",
            "connection", "state", "RTT ms", "min ms", "cwnd B", "told B", "own B"
        ));
        lines.extend(at.connections.iter().map(connection_line));
    }
    lines
}

fn connection_line(line: &Line) -> String {
    let state = match line.state {
        State::Opening => "opening",
        State::Managed => "managed",
        State::Late => "late",
        State::Multipath => "multipath",
        State::Unselected => "not chosen",
        State::Ended => "ended",
    };
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let bytes = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    format!(
        "  {:<44} {:>10} {:>9} {:>9} {:>10} {:>10} {:>10}",
        format!("{} > {}", line.remote, line.local),
        state,
        ms(line.rtt_ms),
        ms(line.rtt_min_ms),
        bytes(line.cwnd_est_bytes),
        line.told_bytes,
        line.own_bytes
    )
}
