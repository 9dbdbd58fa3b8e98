//! The `cellerator` command: parses arguments and calls the crate that does the work.

mod ab;
mod analyze;
mod bench;
mod completions;
mod congestion;
mod contest;
mod dashboard;
mod demo;
mod doctor;
mod drwa;
mod events;
mod examples;
mod feedback_adapter;
mod instance;
mod interruption;
mod lab;
mod lab_moves;
mod lab_multipath;
mod live_capture;
mod looking;
mod man;
mod metrics;
mod model;
mod multipath;
mod outcome;
mod output;
mod path_args;
mod probe;
mod progress;
mod report;
mod reproduce;
mod run;
mod served;
mod sim;
mod stability;
mod sweep;
mod top;
mod trace;
mod writable;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Makes TCP fast over cellular links, and measures how fast.
#[derive(Parser)]
#[command(name = "cellerator", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Accelerate TCP between two interfaces of this machine
    Run(Box<::run::Settings>),
    /// Show the state of a running accelerator: counters, memory, steering
    Status(instance::StatusArgs),
    /// Show the flows of a running accelerator, and which flows it passed last and why
    Flows(instance::ShowArgs),
    /// End a running accelerator: it delivers what it owes and hands its flows back
    Drain(instance::DrainArgs),
    /// Hand a subscriber over to another box, with its flows (docs/handover.md)
    Handover(instance::HandoverArgs),
    /// Compare accelerated subscribers with a control group that is passed bit for bit
    Ab(ab::Args),
    /// Make a running accelerator read its settings file again
    Reload(instance::Which),
    /// Say what this machine can do as an accelerator, what it lacks, and which command mends it
    Doctor(doctor::Args),
    /// Tell what happens to a running accelerator, as it happens
    Events(events::EventsArgs),
    /// Export what a running accelerator knows of ended flows, to files and collectors
    Export(events::ExportArgs),
    /// Record what an accelerator does, a minute at a time, for `report`
    History(report::HistoryArgs),
    /// Report of live traffic: what was accelerated, what was passed, and what was before
    Report(report::ReportArgs),
    /// Serve the metrics of running accelerators to Prometheus
    Metrics(metrics::Args),
    /// Watch running accelerators and their subscribers live in a terminal, of this machine or another one
    Top(top::Args),
    /// Show running accelerators live in a browser on this machine
    Dashboard(dashboard::Args),
    /// Emulate cellular networks between real TCP stacks, in network namespaces (as root)
    Lab(lab::Args),
    /// Simulate the same networks in virtual time, in seconds and without root, or random networks
    Sim(sim::Args),
    /// Convert metrics of radio networks (srsRAN, ETSI MEC RNIS) into reports for `run --feedback`
    FeedbackAdapter(feedback_adapter::Args),
    /// Manage the receive windows of this machine's own connections, against bufferbloat (as root)
    Drwa(drwa::Args),
    /// Have this machine's own connections sent by `adaptive` as the kernel's congestion control (as root)
    Congestion(congestion::Args),
    /// Show what acceleration does: downloads over emulated 3G, LTE and 5G, with and without it
    Demo(demo::Args),
    /// Draw what a controller does to a link, or compute the stability of a queue
    Model(model::Args),
    /// Generate, inspect, plot and convert capacity traces
    Trace(trace::Args),
    /// Compare schemes on capacity traces: use of the link, queueing delay, loaded ping
    Contest(contest::Args),
    /// Run a grid of a controller's parameters on capacity traces, in shards
    Sweep(sweep::Args),
    /// Run the papers' tables and figures again, and show them beside the printed values
    Reproduce(reproduce::Args),
    /// Steer multi-path TCP over several uplinks: leave paths that die, use those that return
    Multipath(multipath::Args),
    /// Measure a live path between this machine and another: loss, delay, capacity
    Probe(probe::Args),
    /// Measure how fast this machine is as an accelerator
    Bench(bench::Args),
    /// Analyze the TCP flows in captures: retransmissions by cause, round-trip times, loss, windows, what
    /// held each flow back
    Analyze(analyze::Args),
    /// Capture an interface's packets into a file, and analyze them
    Capture(live_capture::Args),
    /// Print the manual page of a command, or write those of all
    Man(man::Args),
    /// Print a script that completes commands and options in a shell
    Completions(completions::Args),
}

/// An error in one line, as every one is shown: its contexts and its causes, joined by ": ". Many errors of other
/// crates tell their cause themselves: what the line has already is not told again.
fn error_line(error: &anyhow::Error) -> String {
    let join = |line: String, cause: String| if line.contains(&cause) { line } else { line + ": " + &cause };
    error.chain().map(ToString::to_string).reduce(join).unwrap_or_default()
}

/// Ends with what is wrong with the command line. What is no number is said in plain words.
fn refuse(error: &clap::Error) -> ! {
    let text = error.to_string();
    let plain = ::run::in_plain_words(&text);
    if plain == text {
        error.exit();
    }
    eprint!("{plain}");
    std::process::exit(error.exit_code());
}

fn main() -> ExitCode {
    // Watchdogs and successors execute `/proc/self/exe`, and would be called `exe`.
    drop(io::set_thread_name(c"cellerator"));
    let arguments = output::without_dash(std::env::args_os().collect());
    let matches = examples::with_examples(Cli::command()).try_get_matches_from(arguments);
    let cli =
        matches.and_then(|matches| Cli::from_arg_matches(&matches)).unwrap_or_else(|error| refuse(&error));
    let result = match cli.command {
        Command::Run(settings) => run::main(*settings),
        Command::Status(args) => instance::status(&args),
        Command::Flows(args) => instance::flows(&args),
        Command::Drain(args) => instance::drain(&args),
        Command::Handover(args) => instance::handover(&args),
        Command::Reload(which) => instance::reload(&which),
        Command::Ab(args) => ab::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Events(args) => events::events(&args),
        Command::Export(args) => events::export(&args),
        Command::History(args) => report::history(&args),
        Command::Report(args) => report::report(&args),
        Command::Metrics(args) => metrics::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Dashboard(args) => dashboard::main(&args),
        Command::Lab(args) => lab::main(args),
        Command::Sim(args) => sim::main(args),
        Command::FeedbackAdapter(args) => feedback_adapter::main(&args),
        Command::Demo(args) => demo::main(&args),
        Command::Drwa(args) => drwa::main(&args),
        Command::Congestion(args) => congestion::main(&args),
        Command::Model(args) => model::main(args),
        Command::Trace(args) => trace::main(args),
        Command::Contest(args) => contest::main(&args),
        Command::Sweep(args) => sweep::main(args),
        Command::Reproduce(args) => reproduce::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Analyze(args) => analyze::main(&args),
        Command::Capture(args) => live_capture::main(&args),
        Command::Probe(args) => probe::main(args),
        Command::Multipath(args) => multipath::main(args),
        Command::Man(args) => man::main(&args),
        Command::Completions(args) => completions::main(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            let message = error_line(&error);
            // What accelerators and labs keep of themselves is for root.
            let is_hidden = message.contains(io::INSTANCE_DIRECTORY) && message.ends_with("(os error 13)");
            let hint = if is_hidden { ": run as root" } else { "" };
            io::say(format_args!("cellerator: {message}{hint}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Error;
    use io::IoError;

    use super::error_line;

    #[test]
    fn causes_are_told_once() {
        let refused = IoError::system("open x", std::io::Error::from_raw_os_error(2));
        let line = "drwa: cannot open x: No such file or directory (os error 2)";
        assert_eq!(error_line(&Error::from(refused).context("drwa")), line);
        assert_eq!(error_line(&Error::msg("no key").context("a.key")), "a.key: no key");
    }
}
