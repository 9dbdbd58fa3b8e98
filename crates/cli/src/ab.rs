//! `cellerator ab`: an A/B phase of a running accelerator, and what it shows.

use std::process::ExitCode;

use anyhow::Result;
use run::{AbReport, Answer, Question};
use scenario::Quantity;
use units::Duration;

use crate::instance::{Which, ask, find, print, print_json, unexpected};

/// Arguments of `cellerator ab`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Pass half of the subscribers for a stated time, and measure the flows of all
    Start(StartArgs),
    /// Show the comparison of the phase that is under way, or was last
    Status(ShowArgs),
    /// End the phase before its time, and show the comparison
    Stop(ShowArgs),
}

/// Arguments of `cellerator ab start`.
#[derive(clap::Args)]
struct StartArgs {
    #[command(flatten)]
    which: Which,
    /// Duration of the phase; at its end everybody is accelerated again
    #[arg(long = "for", value_name = "TIME")]
    time: Quantity<Duration>,
    /// Seed that selects the half of the subscribers that is the control group: the same number, the same half
    /// [default: another one each time]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u32>,
    /// Print JSON (schemas/ab.schema.json)
    #[arg(long)]
    json: bool,
}

/// Arguments of `cellerator ab status` and `cellerator ab stop`.
#[derive(clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    which: Which,
    /// Print JSON (schemas/ab.schema.json)
    #[arg(long)]
    json: bool,
}

/// Runs `cellerator ab`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let (which, json, question) = match &args.command {
        Command::Start(args) => {
            let time_ms = args.time.0.as_millis();
            (&args.which, args.json, Question::BeginAb { time_ms, seed: args.seed })
        }
        Command::Status(args) => (&args.which, args.json, Question::Ab),
        Command::Stop(args) => (&args.which, args.json, Question::EndAb),
    };
    let found = find(which)?;
    match ask(&found, &question)? {
        Answer::Ab(report) if json => print_json(&*report)?,
        Answer::Ab(report) => print(&lines(&report)),
        other => return Err(unexpected(&found, &other)),
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(report: &AbReport) -> Vec<String> {
    let phase = &report.phase;
    let [elapsed, planned] = [phase.elapsed_ms, phase.planned_ms].map(|ms| ms / 1_000);
    let state = match phase.ended_by.as_deref() {
        None => format!("under way: {elapsed} of {planned} s"),
        Some(why) => format!("ended after {elapsed} of {planned} s ({why})"),
    };
    let mut lines = vec![format!("{}: A/B phase {state}, seed {}", phase.name, phase.seed)];
    for (passed, fast) in report.control.iter().zip(&report.accelerated) {
        lines.push(format!(
            "{}: {} subscribers with {} flows were passed, {} with {} accelerated",
            passed.direction, passed.subscribers, passed.flows, fast.subscribers, fast.flows
        ));
    }
    if report.metrics.iter().all(|metric| metric.control.is_none() && metric.accelerated.is_none()) {
        lines.push(
            "no flow has been measured: one counts when it has ended, or at the end of the phase".to_owned(),
        );
        return lines;
    }
    let table = history::comparison(report);
    lines.extend(table.to_string().lines().filter(|line| !line.is_empty()).map(str::to_owned));
    lines.push("means over subscribers, in brackets the 95 % confidence interval".to_owned());
    if report.lost_flows > 0 {
        lines.push(format!("{} flows had no room and are missing", report.lost_flows));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use run::{AbGroup, AbMetric, AbPhase, Estimate};

    #[test]
    fn a_comparison_says_who_what_and_how_sure() {
        let group = |subscribers, flows| AbGroup {
            direction: "downlink".to_owned(),
            subscribers,
            flows,
            delivered_bytes: 0,
        };
        let estimate = |value, low, high| Some(Estimate { subscribers: 9, value, low, high });
        let metric = |name: &str, unit: &str, control, accelerated, change| AbMetric {
            name: name.to_owned(),
            direction: "downlink".to_owned(),
            unit: unit.to_owned(),
            control,
            accelerated,
            change,
            control_quantiles: Vec::new(),
            accelerated_quantiles: Vec::new(),
        };
        let report = AbReport {
            phase: AbPhase {
                name: "radio".to_owned(),
                ended_by: Some("time".to_owned()),
                seed: 7,
                planned_ms: 60_000,
                elapsed_ms: 60_100,
                ..AbPhase::default()
            },
            lost_flows: 0,
            control: vec![group(4, 40)],
            accelerated: vec![group(5, 60)],
            metrics: vec![
                metric(
                    "goodput",
                    "bit/s",
                    estimate(2e6, Some(1e6), Some(4e6)),
                    estimate(5e6, None, None),
                    estimate(2.5, Some(1.5), Some(3.5)),
                ),
                metric("rtt", "ms", None, None, estimate(-20.0, Some(-30.0), Some(-10.0))),
            ],
        };
        let text = lines(&report).join("\n");
        for part in [
            "radio: A/B phase ended after 60 of 60 s (time), seed 7",
            "4 subscribers with 40 flows were passed, 5 with 60 accelerated",
            "2.00 Mbit/s [1.00, 4.00]",
            "5.00 Mbit/s",
            "2.50 times [1.50, 3.50]",
            "-20.00 ms [-30.00, -10.00]",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
