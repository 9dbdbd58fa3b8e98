//! [WA] Fig 7: bandwidth, window and queue over time, for NewReno and for the proxy.

use figures::stats::Moments;

use super::figure_3::samples;
use super::{dropped, mean, percent};
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::link_figure::capacity_over_time;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Looking, Mark, Outcome, Paper, Point,
    ReproduceError, Runs, Series, Source, Table,
};
use scenario::Case;
use units::{Duration, Instant};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "wa-figure-7",
    paper: Paper::Wa,
    part: "Fig 7",
    prose: built_in!("wa/figure-7.md"),
    files: &[built_in!("wa/figure-7.toml")],
    seconds: 3,
    lab: InLab::Lacks,
    run,
};

case_ids! {
    /// The cases of `wa/figure-7.toml`.
    enum Scheme {
        Old = "NewReno of 2007",
        PerStep = "proxy, (18) per step",
        InFlight = "proxy, (18) in flight",
        Predictive = "proxy, predictive",
        Adaptive = "adaptive",
    }
}
/// q0 of the paper, packets.
const Q0: f64 = 15.0;
/// The base station's buffer, packets.
const BUFFER: f64 = 20.0;
/// A rate holds so long: T.
const HOLDS: Duration = Duration::from_millis(200);
/// Seconds drawn: long enough for two teeth of the saw.
const SHOWN: (f64, f64) = (30.0, 60.0);

/// Mean and deviation of the queue in packets, and the share of time in which it is empty.
fn queue(runs: &Runs<Scheme>, case: Scheme) -> (Option<Moments>, f64) {
    let run = runs.of(case).next();
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
    let runs = context.watch::<Scheme>(&scenario, looking)?;
    let capacity = match runs.of(Scheme::Old).next() {
        Some(run) => link_of(&run.result.settings, run.result.seed)?,
        None => Vec::new(),
    };
    let mut table = Table::new("The queue in the base station, seconds 10 to 150", "scheme")
        .column(Source::Ours, "queue", "packets", 1)
        .column(Source::Ours, "empty", "% of the time", 1)
        .column(Source::Ours, "dropped", "packets", 0)
        .column(Source::Ours, "link used", "%", 1)
        .column(Source::Ours, "queue p95", "ms", 0);
    for case in Scheme::all() {
        let (length, empty) = queue(&runs, case);
        let p95 = runs.queue_p95(case);
        let values = vec![
            length.into(),
            empty.into(),
            dropped(&runs, case).into(),
            percent(&runs, case).into(),
            p95.into(),
        ];
        table.row(case.label(), values);
    }
    let spread = |case: Scheme| queue(&runs, case).0.and_then(|m| m.deviation()).unwrap_or(f64::NAN);
    let length = |case: Scheme| mean(queue(&runs, case).0);
    let empty = |case: Scheme| queue(&runs, case).1;
    Ok(Outcome {
        facts: Facts::of([
            ("empty", empty(Scheme::Old).into()),
            ("dropped", mean(dropped(&runs, Scheme::Old)).into()),
            ("queue", length(Scheme::PerStep).into()),
            ("spread", spread(Scheme::PerStep).into()),
        ]),
        tables: vec![table],
        figures: vec![figure(&runs, capacity)],
        checks: vec![
            Check::at_least("queue under the proxy, packets (q0 = 15)", length(Scheme::PerStep), Q0 - 2.0),
            Check::at_most("queue under the proxy, packets (q0 = 15)", length(Scheme::PerStep), Q0 + 5.0),
            Check::at_most(
                "queue deviation, proxy ÷ NewReno",
                spread(Scheme::PerStep) / spread(Scheme::Old),
                0.5,
            ),
            Check::at_most("packets dropped under the proxy", mean(dropped(&runs, Scheme::PerStep)), 0.0),
            Check::at_least(
                "link used, adaptive ÷ NewReno",
                mean(percent(&runs, Scheme::Adaptive)) / mean(percent(&runs, Scheme::Old)),
                1.0,
            ),
        ],
        ..Outcome::default()
    })
}

/// The radio link's rate in the seconds shown, in steps as long as it holds.
fn link_of(case: &Case, seed: u64) -> Result<Vec<Point>, ReproduceError> {
    let plan = case.links(seed, &mut |file| Err(format!("{file}: this link is drawn, it has no trace")))?;
    capacity_over_time(&plan.radio_down, SHOWN, HOLDS)
        .map_err(|error| ReproduceError::meaning("wa/figure-7.toml", error))
}

fn figure(runs: &Runs<Scheme>, capacity: Vec<Point>) -> Figure {
    let run = |case: Scheme| runs.of(case).next();
    let line = |name: &str, source, points| Series::new(name, source, Mark::Line, points);
    let queue = |case: Scheme| samples(run(case), SHOWN, |sample| Some(sample.queue_bytes));
    let full = || Series::level("full", Source::Limit, SHOWN, BUFFER);
    Figure::new("over_time", Axis::linear_from("seconds", SHOWN.0))
        .panel(
            Axis::linear("Mbit/s"),
            vec![Series::new("(a) bandwidth", Source::Limit, Mark::Ground, capacity)],
        )
        .panel(
            Axis::linear("packets"),
            vec![line(
                "(b) window of the proxy: in flight",
                Source::Ours,
                samples(run(Scheme::PerStep), SHOWN, |s| s.accelerator.map(|(_, flight)| flight)),
            )],
        )
        .panel(
            Axis::linear("packets"),
            vec![line(
                "(c) congestion window of NewReno",
                Source::Ours,
                samples(run(Scheme::Old), SHOWN, |s| s.window),
            )],
        )
        .panel(
            Axis::linear("packets"),
            vec![
                Series::level("(d) queue: q0, paper", Source::Paper, SHOWN, Q0),
                line("under the proxy", Source::Ours, queue(Scheme::PerStep)),
                line("under adaptive", Source::Adaptive, queue(Scheme::Adaptive)),
                full(),
            ],
        )
        .panel(
            Axis::linear("packets"),
            vec![line("(e) queue under NewReno", Source::Ours, queue(Scheme::Old)), full()],
        )
}
