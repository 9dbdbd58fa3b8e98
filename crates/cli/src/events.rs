//! `cellerator events` and `export`: what a running accelerator tells.

use std::fs::OpenOptions;
use std::io::{ErrorKind, LineWriter, Write};
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Error, Result};
use clap::Subcommand;
use io::Signals;
use run::{FlowEvent, FlowRecord, Wishes};
use serde_json::Value;
use telemetry::{Collector, Exporter, Next, Stream};

use crate::looking::{only_look, only_look_and_tell};
use crate::output::is_standard_output;

/// Arguments of `cellerator events`.
#[derive(clap::Args)]
pub struct EventsArgs {
    /// The accelerator: its --name, its interfaces as WIRED-MOBILE, or its process number. Not needed if
    /// only one runs
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Tell of flows and subscribers, too: accelerated, passed and why, time-outs taken back, outages
    #[arg(long)]
    flows: bool,
    /// Print JSON, a line each (schemas/event.schema.json)
    #[arg(long)]
    json: bool,
}

/// Arguments of `cellerator export`.
#[derive(clap::Args)]
pub struct ExportArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A record of each flow that has ended, from now on: as JSON lines, or as IPFIX to a collector
    Flows(FlowsArgs),
}

#[derive(clap::Args)]
struct FlowsArgs {
    /// The accelerator: its --name, its interfaces as WIRED-MOBILE, or its process number. Not needed if
    /// only one runs
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Append the records to FILE, a line of JSON each [default: standard output, without --ipfix]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Send the records to a collector as IPFIX (RFC 7011)
    #[arg(long, value_name = "HOST:PORT")]
    ipfix: Option<String>,
    /// Send them over TCP instead of UDP
    #[arg(long, requires = "ipfix")]
    tcp: bool,
    /// The observation domain that the collector knows this accelerator by
    #[arg(long, value_name = "N", default_value = "1", requires = "ipfix")]
    domain: u32,
    /// Send what acceleration adds, too (sent again, time-outs, round trips), in elements of the enterprise of this
    /// number (docs/metrics.md)
    #[arg(long, value_name = "N", requires = "ipfix")]
    enterprise: Option<u32>,
}

/// Runs `cellerator events`; an error is one clear line: what, where, what to do.
pub fn events(args: &EventsArgs) -> Result<ExitCode> {
    only_look(Path::new(io::INSTANCE_DIRECTORY), &[]).context("events")?;
    let wishes = Wishes { events: true, flows: args.flows, ended: false };
    let mut out = std::io::stdout().lock();
    let is_json = args.json;
    listen("events", args.name.as_deref(), wishes, &mut |line| {
        let Some(line) = line else { return Ok(()) };
        let shown = if is_json { line.to_owned() } else { words(line) };
        writeln!(out, "{shown}").and_then(|()| out.flush())
    })
}

/// Runs `cellerator export`.
pub fn export(args: &ExportArgs) -> Result<ExitCode> {
    let What::Flows(args) = &args.what;
    let mut file: Option<Box<dyn Write>> = match &args.json {
        None if args.ipfix.is_some() => None,
        Some(path) if !is_standard_output(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.with_context(|| format!("export: cannot write to {}", path.display()))?;
            Some(Box::new(LineWriter::new(file)))
        }
        _ => Some(Box::new(std::io::stdout().lock())),
    };
    let mut collector = args.ipfix.as_deref().map(|to| collector(to, args)).transpose()?;
    // The file is open; a collector is connected to again and again.
    let directory = Path::new(io::INSTANCE_DIRECTORY);
    let confined =
        if collector.is_some() { only_look_and_tell(directory) } else { only_look(directory, &[]) };
    confined.context("export")?;
    let wishes = Wishes { ended: true, ..Wishes::default() };
    let result = listen("export", args.name.as_deref(), wishes, &mut |line| {
        if let Some(line) = line {
            if let Some(file) = &mut file {
                writeln!(file, "{line}")?;
            }
            if let (Some(collector), Some(record)) = (&mut collector, record(line)) {
                collector.add(&record);
            }
        } else if let Some(file) = &mut file {
            file.flush()?;
        }
        collector.iter_mut().for_each(Collector::turn);
        Ok(())
    });
    if let Some(file) = &mut file {
        // A reader who has gone away is no error.
        drop(file.flush());
    }
    if let Some(collector) = &mut collector {
        collector.flush();
        let (sent, lost) = collector.counted();
        let lost = if lost > 0 {
            format!(", {lost} lost: the collector could not be reached")
        } else {
            String::new()
        };
        io::say(format_args!("cellerator: export: {sent} records sent{lost}"));
    }
    result
}

fn collector(to: &str, args: &FlowsArgs) -> Result<Collector> {
    let at = || format!("export: --ipfix {to}");
    let mut addresses = to.to_socket_addrs().with_context(at)?;
    let address = addresses.next().context("it has no address").with_context(at)?;
    let exporter = Exporter::new(args.domain, args.enterprise);
    Collector::open(address, args.tcp, exporter).context("export")
}

/// Takes in what the accelerator `name` tells, until it or this process is to end: lines, and pauses.
fn listen(
    command: &'static str,
    name: Option<&str>,
    wishes: Wishes,
    take: &mut dyn FnMut(Option<&str>) -> std::io::Result<()>,
) -> Result<ExitCode> {
    let directory = Path::new(io::INSTANCE_DIRECTORY);
    let signals = Signals::terminating().context(command)?;
    let found = run::choose(run::find(directory)?, name).map_err(Error::msg)?;
    let mut stream = Stream::open(directory, &found, wishes).context(command)?;
    while signals.take().is_none() {
        let taken = match stream.next_line().context(command)? {
            Next::Line(line) => take(Some(&line)),
            Next::Nothing => take(None),
            Next::End => break,
        };
        match taken {
            // A reader who has gone away is no error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            taken => taken.context(command)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn record(line: &str) -> Option<FlowRecord> {
    match serde_json::from_str(line).ok()? {
        FlowEvent::FlowEnded(record) => Some(record),
        _ => None,
    }
}

/// A line for people.
fn words(line: &str) -> String {
    let Ok(Value::Object(event)) = serde_json::from_str(line) else { return line.to_owned() };
    let seconds = event.get("at_ms").and_then(Value::as_u64).unwrap_or(0) / 1_000;
    let [hours, minutes, seconds] = [seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60];
    let clock = format!("{hours:02}:{minutes:02}:{seconds:02} UTC");
    if let Some(text) = event.get("text").and_then(Value::as_str) {
        let severity = event.get("severity").and_then(Value::as_str).unwrap_or_default();
        let severity = if severity == "info" { String::new() } else { format!("{severity}: ") };
        return format!("{clock}  {severity}{text}");
    }
    format!("{clock}  {}", run::flow_text(&event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_people_have_the_time_and_what_matters() {
        let died = r#"{"at_ms":1700000000000,"severity":"warning","text":"the watchdog has ended","event":"watchdog-died"}"#;
        assert_eq!(words(died), "22:13:20 UTC  warning: the watchdog has ended");
        let passed = r#"{"at_ms":0,"event":"flow-passed","client":"10.1.0.2:5","server":"192.0.2.1:80","direction":"downlink","reason":"mptcp"}"#;
        assert_eq!(
            words(passed),
            "00:00:00 UTC  flow passed: client 10.1.0.2:5, direction downlink, reason mptcp, server 192.0.2.1:80"
        );
        assert_eq!(words("no JSON"), "no JSON");
        assert!(record(passed).is_none());
    }
}
