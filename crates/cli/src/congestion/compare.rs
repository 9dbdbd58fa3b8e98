//! `cellerator congestion compare`: is `adaptive` better for this server's clients than what it has?

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::congestion::{CompareReport, Comparing, EndedBy, Metric, Shows, Side, Unit, compare};
use anyhow::{Result, bail};
use clap::ValueEnum;
use figures::Table;
use figures::stats::{Estimate, metric_words};
use io::{Clock, Signals};
use scenario::Quantity;
use units::Duration;

use crate::instance::print_json;
use crate::interruption;
use crate::output::{Words, show_log};

/// Arguments of `cellerator congestion compare`.
#[derive(clap::Args)]
pub struct Args {
    /// The other congestion control: any that the kernel has [default: the one of the sysctl
    /// net.ipv4.tcp_congestion_control]
    #[arg(long, value_name = "NAME")]
    with: Option<String>,
    /// Only connections with this local port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Only connections of processes in this control group or below it: a folder in the tree of cgroup2
    #[arg(long, value_name = "FOLDER")]
    cgroup: Option<PathBuf>,
    /// Duration of the comparison [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Quantity<Duration>>,
    /// Unit that is put into one of the two groups, and counts once
    #[arg(long, value_enum, default_value_t = By::Client)]
    by: By,
    /// Seed that decides which half uses which congestion control: the same number, the same half [default: another
    /// one each time]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u32>,
    /// Print JSON at the end (schemas/congestion-compare.schema.json); words go to standard error
    #[arg(long)]
    json: bool,
    /// Print the verifier's whole log when the kernel refuses a program
    #[arg(long)]
    verbose: bool,
}

/// Input of the hash that makes the two groups.
#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// An IPv4 address, or the first 64 bits of an IPv6 one
    Client,
    /// Each connection for itself: for few clients
    Connection,
}

/// Compares, and prints what was found.
pub fn main(args: &Args) -> Result<ExitCode> {
    // Times are told in seconds.
    if args.time.as_ref().is_some_and(|time| time.0 < Duration::from_secs(1)) {
        bail!("--for must be at least 1 s");
    }
    let words = Words::beside([args.json.then_some(Path::new("-"))])?;
    let signals = Signals::terminating()?;
    let what = Comparing {
        with: args.with.clone(),
        port: args.port,
        group: args.cgroup.clone(),
        time: args.time.as_ref().map(|time| time.0),
        by: match args.by {
            By::Client => Unit::Client,
            By::Connection => Unit::Connection,
        },
        // Below a microsecond of the clock: another one each time.
        seed: args.seed.unwrap_or_else(|| (Clock::wall_nanos() >> 10) as u32),
    };
    let report = compare(&what, &signals, &mut |line| words.say(line))
        .inspect_err(|error| show_log(error.log(), args.verbose))?;
    if args.json {
        print_json(&report)?;
    } else {
        words.say(&lines(&report).join("\n"));
    }
    Ok(if report.ended_by == EndedBy::Time { ExitCode::SUCCESS } else { interruption::code(signals.taken()) })
}

fn lines(report: &CompareReport) -> Vec<String> {
    let (other, own) = (&report.other, &report.adaptive);
    let elapsed = report.elapsed_ms / 1_000;
    let time = match (report.planned_ms, report.ended_by) {
        (Some(planned), EndedBy::Signal) => format!("{elapsed} of {} s", planned / 1_000),
        _ => format!("{elapsed} s"),
    };
    let mut lines = vec![format!(
        "'{}' beside '{}' for {time}: {}, by {}, seed {}",
        own.control,
        other.control,
        report.users,
        report.by.name(),
        report.seed
    )];
    if other.connections + own.connections == 0 {
        lines.push("no connection was established meanwhile: nothing was measured".to_owned());
        lines.extend(missing(report));
        return lines;
    }
    let clients = [report.by.plural()].map(|name| (name, ""));
    let headings = [("", "")].into_iter().chain(clients.into_iter().filter(|_| report.by == Unit::Client));
    let more = [("connections", ""), ("of them running", ""), ("acknowledged", "MB")];
    let headings = headings.chain(more).collect();
    let other_name = format!("other: {}", other.control);
    let rows = [(other_name, other), (own.control.clone(), own)];
    let rows = rows.map(|(name, side)| group(name, side, report.by)).into();
    push_table(&mut lines, &Table { headings, rows });
    let headings = ["metric", "other", "adaptive", "change", "what it shows"];
    let headings = headings.map(|name| (name, "")).to_vec();
    push_table(&mut lines, &Table { headings, rows: report.metrics.iter().map(row).collect() });
    lines.push(format!("means over {}, in brackets the 95 % confidence interval", report.by.plural()));
    if report.metrics.iter().any(|metric| metric.shows == Some(Shows::NoChange)) {
        lines.push(
            "no change: the interval contains 1 (times) or 0 (differences); more time or clients may show one"
                .to_owned(),
        );
    }
    lines.extend(missing(report));
    lines
}

/// Connections that are in neither group.
fn missing(report: &CompareReport) -> Vec<String> {
    let mut lines = Vec::new();
    for side in [&report.other, &report.adaptive] {
        if side.refused > 0 {
            lines.push(format!(
                "the kernel did not give '{}' to {} connections: they are missing",
                side.control, side.refused
            ));
        }
    }
    if report.lost_connections > 0 {
        lines.push(format!("{} connections had no room and are missing", report.lost_connections));
    }
    lines
}

fn push_table(lines: &mut Vec<String>, table: &Table) {
    lines.extend(table.to_string().lines().filter(|line| !line.is_empty()).map(str::to_owned));
}

fn group(name: String, side: &Side, by: Unit) -> Vec<String> {
    let clients = (by == Unit::Client).then(|| side.units.to_string());
    let figures =
        [side.connections.to_string(), side.running.to_string(), format!("{:.1}", side.bytes as f64 / 1e6)];
    [name].into_iter().chain(clients).chain(figures).collect()
}

fn row(metric: &Metric) -> Vec<String> {
    let is_rate = metric.unit == "bit/s";
    let (scale, unit) = if is_rate { (1e-6, "Mbit/s") } else { (1.0, metric.unit.as_str()) };
    let told = |estimate: Option<_>, scale, unit: &str, is_signed| {
        let estimate: Option<Estimate> = estimate.map(Estimate::from);
        estimate.map_or_else(|| "–".to_owned(), |estimate| estimate.told(scale, unit, is_signed))
    };
    let change = match is_rate {
        true => told(metric.change, 1.0, "times", false),
        false => told(metric.change, 1.0, unit, true),
    };
    let shows = match metric.shows {
        Some(Shows::Higher) => "higher",
        Some(Shows::Lower) => "lower",
        Some(Shows::NoChange) => "no change is shown",
        None => "too few to say",
    };
    vec![
        metric_words(&metric.name).to_owned(),
        told(metric.other, scale, unit, false),
        told(metric.adaptive, scale, unit, false),
        change,
        shows.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::congestion::CompareEstimate;

    fn report() -> CompareReport {
        let side = |control: &str, refused| Side {
            control: control.to_owned(),
            units: 9,
            connections: 40,
            running: 2,
            bytes: 12_340_000,
            refused,
        };
        let estimate = |value, interval: Option<(f64, f64)>| {
            Some(CompareEstimate {
                count: 9,
                value,
                low: interval.map(|(low, _)| low),
                high: interval.map(|(_, high)| high),
            })
        };
        let metric = |name: &str, unit: &str, change, shows| Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            other: estimate(2e6, Some((1e6, 4e6))),
            adaptive: None,
            change,
            shows,
        };
        CompareReport {
            schema: "cellerator/congestion-compare/1",
            users: "new connections with local port 443".to_owned(),
            by: Unit::Client,
            seed: 7,
            began_ms: 1,
            planned_ms: Some(60_000),
            elapsed_ms: 12_300,
            ended_by: EndedBy::Signal,
            other: side("bbr", 0),
            adaptive: side("adaptive", 3),
            lost_connections: 0,
            metrics: vec![
                metric("goodput", "bit/s", estimate(2.5, Some((1.5, 3.5))), Some(Shows::Higher)),
                metric("rtt", "ms", estimate(-20.0, Some((-30.0, 10.0))), Some(Shows::NoChange)),
                metric("resent", "%", None, None),
            ],
        }
    }

    #[test]
    fn a_comparison_says_who_what_and_how_sure() {
        let text = lines(&report()).join("\n");
        for part in [
            "'adaptive' beside 'bbr' for 12 of 60 s: new connections with local port 443, by client, seed 7",
            "other: bbr",
            "12.3",
            "2.00 Mbit/s [1.00, 4.00]",
            "2.50 times [1.50, 3.50]",
            "higher",
            "-20.00 ms [-30.00, +10.00]",
            "no change is shown",
            "the interval contains 1 (times) or 0 (differences)",
            "too few to say",
            "means over clients",
            "the kernel did not give 'adaptive' to 3 connections",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("no room"), "{text}");
    }

    #[test]
    fn without_a_connection_it_says_so_in_place_of_tables() {
        let mut report = report();
        (report.other.connections, report.adaptive.connections) = (0, 0);
        report.lost_connections = 4;
        let text = lines(&report).join("\n");
        assert!(
            text.contains("nothing was measured") && text.contains("4 connections had no room"),
            "{text}"
        );
        assert!(!text.contains("goodput"), "{text}");
    }
}
