//! [WA] Fig 7: bandwidth, window and queue over time, for NewReno and for the proxy.

use super::figure_3::samples;
use super::{OLD, dropped, mean, percent};
use crate::experiment::scenario_file;
use crate::link_figure::capacity_over_time;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, Looking, Mark, Moments, Outcome, Paper, Point,
    ReproduceError, Runs, Series, Source, Table,
};
use scenario::Case;
use units::{Duration, Instant};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "wa-figure-7",
    paper: Paper::Wa,
    part: "Fig 7",
    title: "Bandwidth, window and queue over time",
    asked: "How do window and queue follow a rate that is drawn anew every 200 ms?",
    found: "NewReno's window is a regular saw-tooth and its queue swings between empty and full; the proxy's queue stays around 15 packets.",
    files: &[scenario_file!("wa/figure-7.toml")],
    seconds: 3,
    lab: InLab::Lacks(
        "how window and queue change is looked up inside the simulated hosts; `wa-table-1` runs the same link",
    ),
    run,
};

const STEP: &str = "proxy, (18) per step";
const FLIGHT: &str = "proxy, (18) in flight";
const PREDICTIVE: &str = "proxy, predictive";
const ADAPTIVE: &str = "adaptive";
/// q0 of the paper, packets.
const Q0: f64 = 15.0;
/// The base station's buffer, packets.
const BUFFER: f64 = 20.0;
/// A rate holds so long: T.
const HOLDS: Duration = Duration::from_millis(200);
/// Seconds drawn: long enough for two teeth of the saw.
const SHOWN: (f64, f64) = (30.0, 60.0);

/// Mean and deviation of the queue in packets, and the share of time in which it is empty.
fn queue(runs: &Runs, case: &str) -> (Option<Moments>, f64) {
    let run = runs.runs.iter().find(|run| run.result.name == case);
    // The first ten seconds belong to slow start.
    let settled = |sample: &&sim::Sample| sample.at >= Instant::from_millis(10_000);
    let samples = run.map_or(&[][..], |run| &run.seen.samples[..]);
    let values: Vec<f64> =
        samples.iter().filter(settled).map(|s| s.queue_bytes.get() as f64 / super::PACKET).collect();
    let empty = values.iter().filter(|v| **v < 0.5).count() as f64 / values.len().max(1) as f64;
    (Moments::of(values), empty * 100.0)
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("wa/figure-7.toml")?;
    let looking = Looking { every: Some(Duration::from_millis(20)), ..Looking::default() };
    let runs = context.watch(&scenario, looking)?;
    let capacity = match runs.runs.iter().find(|run| run.result.name == OLD) {
        Some(run) => link_of(&run.result.settings, run.result.seed)?,
        None => Vec::new(),
    };
    let mut table = Table::new("The queue in the base station, seconds 10 to 150", "scheme")
        .column(Source::Ours, "queue", "packets", 1)
        .column(Source::Ours, "empty", "% of the time", 1)
        .column(Source::Ours, "dropped", "packets", 0)
        .column(Source::Ours, "link used", "%", 1)
        .column(Source::Ours, "queue p95", "ms", 0);
    for case in [OLD, STEP, FLIGHT, PREDICTIVE, ADAPTIVE] {
        let (length, empty) = queue(&runs, case);
        let p95 = runs.queue_p95(case);
        let values = vec![
            length.into(),
            empty.into(),
            dropped(&runs, case).into(),
            percent(&runs, case).into(),
            p95.into(),
        ];
        table.row(case, values);
    }
    let spread = |case: &str| queue(&runs, case).0.map_or(f64::NAN, |m| m.deviation);
    let length = |case: &str| mean(queue(&runs, case).0);
    let empty = |case: &str| queue(&runs, case).1;
    Ok(Outcome {
        we_see: format!(
            "We see NewReno's queue empty for {:.0} % of the time and {:.0} of its packets dropped; under the proxy {:.1} ± {:.1} packets wait, and none is dropped.",
            empty(OLD),
            mean(dropped(&runs, OLD)),
            length(STEP),
            spread(STEP)
        ),
        tables: vec![table],
        figures: vec![figure(&runs, capacity)],
        notes: vec![
            "(18) with w(n) read as the packets of a step is the reading that gives the paper's picture. Read as packets in flight, as an ns-2 window limits them, what \
             the radio path itself holds counts too, and the queue is shorter. `predictive`, ours, aims at no fixed number of packets but at the shortest queue that \
             keeps the link busy."
                .to_owned(),
        ],
        checks: vec![
            Check::at_least("queue under the proxy, packets (q0 = 15)", length(STEP), Q0 - 2.0),
            Check::at_most("queue under the proxy, packets (q0 = 15)", length(STEP), Q0 + 5.0),
            Check::at_most("queue deviation, proxy ÷ NewReno", spread(STEP) / spread(OLD), 0.5),
            Check::at_most("packets dropped under the proxy", mean(dropped(&runs, STEP)), 0.0),
            Check::at_least("link used, adaptive ÷ NewReno", mean(percent(&runs, ADAPTIVE)) / mean(percent(&runs, OLD)), 1.0),
        ],
    })
}

/// The radio link's rate in the seconds shown, in steps as long as it holds.
fn link_of(case: &Case, seed: u64) -> Result<Vec<Point>, ReproduceError> {
    let plan = case.links(seed, &mut |file| Err(format!("{file}: this link is drawn, it has no trace")))?;
    capacity_over_time(&plan.radio_down, SHOWN, HOLDS).map_err(|error| ReproduceError::Meaning {
        file: "wa/figure-7.toml".to_owned(),
        problem: error.to_string(),
    })
}

fn figure(runs: &Runs, capacity: Vec<Point>) -> Figure {
    let run = |case: &str| runs.runs.iter().find(|run| run.result.name == case);
    let line = |name: &str, source, points| Series::new(name, source, Mark::Line, points);
    let queue = |case: &str| samples(run(case), SHOWN, |sample| Some(sample.queue_bytes));
    let level = |y: f64| vec![Point::new(SHOWN.0, y), Point::new(SHOWN.1, y)];
    let full = || Series::new("full", Source::Limit, Mark::Line, level(BUFFER));
    Figure::new(
        "Fig 7: bandwidth, window and queue",
        "Seconds 30 to 60 of 150. (a) bandwidth, (b) window of the proxy, (c) of NewReno, (d) queue under the proxy with q0 dashed, (e) under NewReno, as the paper's Fig 7. \
         The proxy's window is what it has in flight: per step, (18) is no window.",
        Axis::linear_from("seconds", SHOWN.0),
    )
    .panel(Axis::linear("Mbit/s"), vec![Series::new("(a) bandwidth", Source::Limit, Mark::Ground, capacity)])
    .panel(
        Axis::linear("packets"),
        vec![line("(b) window of the proxy: in flight", Source::Ours, samples(run(STEP), SHOWN, |s| s.accelerator.map(|(_, flight)| flight)))],
    )
    .panel(
        Axis::linear("packets"),
        vec![line("(c) congestion window of NewReno", Source::Ours, samples(run(OLD), SHOWN, |s| s.window))],
    )
    .panel(
        Axis::linear("packets"),
        vec![
            line("(d) queue: q0, paper", Source::Paper, level(Q0)),
            line("under the proxy", Source::Ours, queue(STEP)),
            line("under adaptive", Source::Adaptive, queue(ADAPTIVE)),
            full(),
        ],
    )
    .panel(Axis::linear("packets"), vec![line("(e) queue under NewReno", Source::Ours, queue(OLD)), full()])
}
