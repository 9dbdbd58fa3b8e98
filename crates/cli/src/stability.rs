//! `cellerator model stability`: [WA]'s theorem in numbers.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use figures::chart::{Axis, Chart, Ink, Mark, Range, Series, Width};
use figures::page;
use maud::html;
use num_complex::Complex64;
use reproduce::ControlledQueue;
use serde_json::{Value, json};

use crate::outcome;
use crate::output::{self, Words};

/// Arguments of `cellerator model stability`.
#[derive(clap::Args)]
pub struct Args {
    /// Coefficients α₁,α₂,… of the bandwidth's ARMA process
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.5,0.3",
        value_name = "X,X…",
        allow_hyphen_values = true
    )]
    alpha: Vec<f64>,
    /// Coefficients β₁,β₂,…; β₀ is 1
    #[arg(long, value_delimiter = ',', value_name = "X,X…", allow_hyphen_values = true)]
    beta: Vec<f64>,
    /// The gain g of w = b·τ − g·(q − q0); 1 is the paper's
    #[arg(long, default_value_t = 1.0, value_name = "G")]
    gain: f64,
    /// Steps τ simulated
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    steps: u32,
    /// Standard deviation of the bandwidth's noise, packets per step
    #[arg(long, default_value_t = 1.0, value_name = "PACKETS")]
    bandwidth_noise: f64,
    /// Standard deviation of the reports' noise π, packets
    #[arg(long, default_value_t = 1.0, value_name = "PACKETS")]
    report_noise: f64,
    /// Seed of the noise
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with the table and the queues
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the queues as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// One system, and what its queue did.
struct Case {
    name: String,
    system: ControlledQueue,
    start: f64,
    queue: Vec<f64>,
}

/// Coefficients at most: the roots are searched for all at once.
const ORDER_MAX: usize = 32;

/// Queues are drawn up to here, packets.
const DRAWN_MAX: f64 = 200.0;

/// Runs `cellerator model stability`; an error is one line.
pub fn main(args: &Args) -> Result<ExitCode> {
    let numbers =
        args.alpha.iter().chain(&args.beta).chain([&args.gain, &args.bandwidth_noise, &args.report_noise]);
    if numbers.clone().any(|x| !x.is_finite() || x.abs() > 100.0) || args.gain <= 0.0 {
        bail!("model stability: coefficients must be between −100 and 100, and the gain above 0");
    }
    if args.alpha.len().max(args.beta.len()) > ORDER_MAX {
        bail!("model stability: at most {ORDER_MAX} coefficients of a kind");
    }
    let words = Words::beside([&args.json, &args.html, &args.svg].map(Option::as_deref))?;
    let cases = cases(args);
    let table = table(&cases);
    words.say(&format!("{NOTE}\n\n{}", listed(&cases)));
    let command = outcome::command_line();
    let write = |path: &PathBuf, text: &str| output::save(path, text).context("model stability");
    let chart = chart(&cases, &command);
    if let Some(path) = &args.json {
        let document = json!({ "command": command, "cases": cases.iter().map(document).collect::<Vec<_>>() });
        write(path, &format!("{document:#}\n"))?;
    }
    if let Some(path) = &args.svg {
        write(path, &chart.file(Width::Wide))?;
    }
    if let Some(path) = &args.html {
        let body = html! { p { (NOTE) } pre { (table) } (chart.figure()) p { code { (command) } } };
        write(path, &page::page("Stability of [WA]", "", &body))?;
    }
    Ok(ExitCode::SUCCESS)
}

const NOTE: &str = "Matrix A is (11) with one step of delay: w(n+1) = b(n) − g·(q(n) − q0) + π.\nTaken as \
    written, (9)–(11) give q(n+1) = q0 + π(n+1).";

/// The queues, a panel each; one that leaves all bounds lies at the edge.
fn chart(cases: &[Case], command: &str) -> Chart {
    let chart = Chart { made_by: command.to_owned(), ..Chart::new(TITLE, Axis::exact("step")) };
    cases.iter().fold(chart, |chart, case| {
        let largest = case.queue.iter().fold(1.0f64, |max, q| max.max(q.abs())).min(DRAWN_MAX);
        let y = Axis::linear(&format!("{}: q(n) − q0, packets", case.name));
        let queue = case.queue.iter().copied().map(Some);
        let line = Series::of_bins("", Ink::Colour(0), Mark::Line, 1.0, queue);
        chart.panel(y.over(Range::Between(-largest, largest)), vec![line])
    })
}

const TITLE: &str = "Queues under [WA]'s control: those of stable systems stay, those of unstable ones grow";

fn cases(args: &Args) -> Vec<Case> {
    let system = |gain: f64, alphas: &[f64]| ControlledQueue {
        gain,
        alphas: alphas.to_vec(),
        betas: args.beta.clone(),
    };
    let steps = args.steps as usize;
    let noise = (args.bandwidth_noise, args.report_noise);
    let case = |name: &str, system: ControlledQueue, start: f64, noise| Case {
        name: name.to_owned(),
        queue: system.queue(steps, start, noise, args.seed),
        system,
        start,
    };
    let alphas = &args.alpha;
    vec![
        case("given", system(args.gain, alphas), 0.0, noise),
        case("[WA], g = 1, E[q(0)] = q0", system(1.0, alphas), 0.0, noise),
        case("[WA], g = 1, q(0) = q0 + 10, no noise", system(1.0, alphas), 10.0, (0.0, 0.0)),
        case("AR root outside the unit circle (α₁ = 1.02)", system(1.0, &[1.02]), 0.0, noise),
        case("g = 0.5, E[q(0)] = q0", system(0.5, alphas), 0.0, noise),
        case("g = 0.25, q(0) = q0 + 10, no noise", system(0.25, alphas), 10.0, (0.0, 0.0)),
    ]
}

fn largest(values: &[Complex64]) -> f64 {
    values.iter().map(|value| value.norm()).fold(0.0, f64::max)
}

/// The largest distance from q0 in the first and in the last quarter.
fn excursions(queue: &[f64]) -> (f64, f64) {
    let quarter = (queue.len() / 4).max(1);
    let far = |part: &[f64]| part.iter().fold(0.0f64, |max, q| max.max(q.abs()));
    (far(&queue[..quarter]), far(&queue[queue.len() - quarter..]))
}

fn table(cases: &[Case]) -> String {
    let heading = row(&HEADINGS.map(str::to_owned), (12, 12));
    let mut text = format!("{:<46}{heading}\n", "system");
    for case in cases {
        text += &format!("{:<46}{}\n", case.name, row(&fields(case), (12, 12)));
    }
    text + "Quarters: the largest |q(n) − q0| in packets, of a queue that may become negative, as in the theorem.\n"
}

/// The same for a terminal: names have a line of their own, so that it fits 80 columns.
fn listed(cases: &[Case]) -> String {
    let mut text = format!("  {}\n", row(&HEADINGS.map(str::to_owned), (13, 14)));
    for case in cases {
        text += &format!("{}\n  {}\n", case.name, row(&fields(case), (13, 14)));
    }
    text + "\nQuarters: the largest |q(n) − q0| in packets, of a queue that may become\nnegative, as in the theorem.\n"
}

const HEADINGS: [&str; 6] = ["Σ|α|", "|λ| B", "|λ| C", "1st quarter", "last quarter", "verdict"];

/// Fields below [`HEADINGS`].
fn fields(case: &Case) -> [String; 6] {
    let (b, c) = case.system.eigenvalues();
    let (first, last) = excursions(&case.queue);
    [
        format!("{:.3}", case.system.alpha_sum()),
        format!("{:.4}", largest(&b)),
        format!("{:.4}", largest(&c)),
        size(first),
        size(last),
        case.system.stability().name().to_owned(),
    ]
}

/// The fields in columns; those of the quarters are so wide.
fn row([sum, b, c, first, last, verdict]: &[String; 6], (wide, wider): (usize, usize)) -> String {
    format!("{sum:>8}{b:>8}{c:>8}{first:>wide$}{last:>wider$}  {verdict}")
}

fn size(packets: f64) -> String {
    if packets < 1e5 { format!("{packets:.2}") } else { format!("{packets:.1e}") }
}

fn document(case: &Case) -> Value {
    let (b, c) = case.system.eigenvalues();
    let values = |values: &[Complex64]| -> Vec<Value> {
        values.iter().map(|v| json!({ "re": v.re, "im": v.im, "modulus": v.norm() })).collect()
    };
    json!({
        "name": case.name,
        "gain": case.system.gain,
        "alpha": case.system.alphas,
        "beta": case.system.betas,
        "start_packets": case.start,
        "eigenvalues_b": values(&b),
        "eigenvalues_c": values(&c),
        "verdict": case.system.stability().name(),
        "queue_deviation_packets": case.queue,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_cases_of_the_paper_and_ours_come_out_as_they_must() {
        let line = Line::try_parse_from(["stability", "--alpha", "0.5,-0.3", "--beta", "0.2"]).unwrap();
        let cases = cases(&line.args);
        let verdicts: Vec<&str> = cases.iter().map(|case| case.system.stability().name()).collect();
        let neutral = "neutrally stable";
        assert_eq!(verdicts, [neutral, neutral, neutral, "unstable", "stable", "stable"]);
        let text = table(&cases);
        assert!(text.contains("0.800") && text.contains("1.0000") && text.contains("0.7071"), "{text}");
        assert_eq!(document(&cases[0])["alpha"], json!([0.5, -0.3]));
        assert!(main(&Line::try_parse_from(["stability", "--gain", "0"]).unwrap().args).is_err());
    }
}
