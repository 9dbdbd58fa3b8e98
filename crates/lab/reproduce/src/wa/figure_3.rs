//! [WA] Figs 3 and 4: what a rate that changes every 10 s costs NewReno.

use super::{RUN_S, dropped, figure_4, mean, percent};
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, Host, InLab, Looking, Mark, Outcome, Paper,
    Point, ReproduceError, Run, Runs, Series, Source, Table,
};
use units::{Bytes, Duration, Instant};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "wa-figure-3",
    paper: Paper::Wa,
    part: "Figs 3, 4",
    prose: built_in!("wa/figure-3.md"),
    files: &[
        built_in!("wa/figure-3.toml"),
        built_in!("wa/figure-3-delays.toml"),
        built_in!("wa/figure-3-lab.toml"),
    ],
    seconds: 3,
    lab: InLab::Takes(182),
    run,
};

/// §III: kbit/s the link could carry and what NewReno got.
const IDEAL_KBPS: f64 = 222.7;
const PAPER_KBPS: f64 = 190.4;
const PAPER_PERCENT: f64 = 100.0 * PAPER_KBPS / IDEAL_KBPS;

case_ids! {
    /// The cases of `wa/figure-3.toml`, and the other half of the names in `wa/table-1.toml`.
    pub(super) enum Scheme {
        Old = "NewReno of 2007",
        Today = "NewReno of today",
        PerStep = "proxy, (18) per step",
        InFlight = "proxy, (18) in flight",
        Predictive = "proxy, predictive",
        Adaptive = "adaptive",
    }
}
case_ids! {
    /// The first half of the cases of `wa/figure-3-delays.toml`: the wired delay, one way.
    enum Delay {
        Ms1 = "1 ms",
        Ms10 = "10 ms",
        Ms50 = "50 ms",
        Ms100 = "100 ms",
        Ms200 = "200 ms",
        Ms300 = "300 ms",
        Ms400 = "400 ms",
    }
}
case_ids! {
    /// The other half.
    enum Hosts { Old = "2007", Today = "today" }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    // Captures of kernels hold pieces of many segments, which the radio link does not see as such.
    let packets_of = (!context.is_lab()).then_some(Host::Server);
    let every = Some(Duration::from_millis(100));
    let looking = Looking { every, packets_of, radio: true, ..Looking::default() };
    let scenario = context.scenario("wa/figure-3.toml")?;
    let runs = context.watch::<Scheme>(&scenario, looking)?;
    // Seven delays of 150 s are too long where time is real.
    let sweep = if context.is_lab() {
        Runs::default()
    } else {
        let sweep = context.scenario("wa/figure-3-delays.toml")?;
        context.run(&sweep)?
    };
    let share = |case: Scheme| mean(percent(&runs, case));
    let best = |case: Scheme| mean(runs.queue_p95(case));
    Ok(Outcome {
        facts: Facts::of([
            ("old", share(Scheme::Old).into()),
            ("today", share(Scheme::Today).into()),
            ("proxy", share(Scheme::PerStep).into()),
        ]),
        tables: vec![table(&runs), delays(&sweep)],
        figures: vec![figure(&runs), figure_4::figure(runs.of(Scheme::Old).next())],
        checks: vec![
            Check::at_least(
                "link used by NewReno of 2007, percent (paper 84 to 86)",
                share(Scheme::Old),
                84.0,
            ),
            Check::at_most(
                "link used by NewReno of 2007, percent (paper 84 to 86)",
                share(Scheme::Old),
                87.5,
            ),
            Check::at_least("link used by the proxy, percent", share(Scheme::PerStep), 97.0),
            Check::at_least(
                "adaptive ÷ NewReno of 2007, link used",
                share(Scheme::Adaptive) / share(Scheme::Old),
                1.0,
            ),
            Check::at_most(
                "adaptive ÷ NewReno of 2007, queueing delay p95",
                best(Scheme::Adaptive) / best(Scheme::Old),
                1.0,
            ),
        ],
        ..Outcome::default()
    })
}

fn table(runs: &Runs<Scheme>) -> Table {
    let mut table = Table::new("150 s of 384 and 38.4 kbit/s in turn", "scheme")
        .column(Source::Paper, "received", "kbit/s", 1)
        .column(Source::Paper, "link used", "%", 1)
        .column(Source::Ours, "carried", "kbit/s", 1)
        .column(Source::Ours, "link used", "%", 1)
        .column(Source::Ours, "queue p95", "ms", 0)
        .column(Source::Ours, "dropped", "packets", 0);
    for case in Scheme::all() {
        let is_paper = case == Scheme::Old;
        table.row(
            case.label(),
            vec![
                is_paper.then_some(PAPER_KBPS).into(),
                is_paper.then_some(PAPER_PERCENT).into(),
                runs.moments(case, |f| f.radio.delivered_bytes as f64 * 8.0 / f.transfer.seconds / 1e3)
                    .into(),
                percent(runs, case).into(),
                runs.queue_p95(case).into(),
                dropped(runs, case).into(),
            ],
        );
    }
    table
}

fn delays(sweep: &Runs<(Delay, Hosts)>) -> Table {
    let mut table = Table::new("Link used over other wired delays", "one way")
        .column(Source::Paper, "NewReno", "%", 1)
        .column(Source::Ours, "2007", "%", 1)
        .column(Source::Ours, "today", "%", 1);
    for delay in Delay::all() {
        let [old, today] = [Hosts::Old, Hosts::Today].map(|hosts| percent(sweep, (delay, hosts)).into());
        table.row(delay.label(), vec![PAPER_PERCENT.into(), old, today]);
    }
    table
}

/// Points of a run's samples in packets of the paper.
pub(super) fn samples(
    run: Option<&Run>,
    seconds: (f64, f64),
    value: impl Fn(&sim::Sample) -> Option<Bytes>,
) -> Vec<Point> {
    let at = |sample: &sim::Sample| {
        let x = sample.at.saturating_since(Instant::ZERO).as_secs_f64();
        let inside = x >= seconds.0 && x <= seconds.1;
        value(sample).filter(|_| inside).map(|bytes| Point::new(x, bytes.get() as f64 / super::PACKET))
    };
    run.map_or(Vec::new(), |run| run.seen.samples.iter().filter_map(at).collect())
}

/// Capacity of the radio link, as ground.
pub(super) fn capacity(run: Option<&Run>, seconds: (f64, f64), unit: f64) -> Series {
    let series = run.and_then(|run| run.result.figures.as_ref()).map(|figures| &figures.series);
    let points = series.map_or(Vec::new(), |series| {
        let at = |(i, mbps): (usize, &f64)| Point::new(i as f64 * series.bin_s, mbps * unit);
        series
            .capacity_mbps
            .iter()
            .enumerate()
            .map(at)
            .filter(|p| p.x >= seconds.0 && p.x <= seconds.1)
            .collect()
    });
    Series::new("capacity", Source::Limit, Mark::Ground, points)
}

fn figure(runs: &Runs<Scheme>) -> Figure {
    let run = |case: Scheme| runs.of(case).next();
    let all = (0.0, RUN_S);
    let line = |name: &str, source, points| Series::new(name, source, Mark::Line, points);
    let queue = |case: Scheme| samples(run(case), all, |sample| Some(sample.queue_bytes));
    Figure::new("over_time", Axis::linear("seconds"))
        .panel(Axis::linear("kbit/s"), vec![capacity(run(Scheme::Old), all, 1e3)])
        .panel(
            Axis::linear("window, packets"),
            vec![line("NewReno of 2007", Source::Ours, samples(run(Scheme::Old), all, |s| s.window))],
        )
        .panel(
            Axis::linear("queue, packets"),
            vec![
                line("NewReno of 2007", Source::Ours, queue(Scheme::Old)),
                Series::level("limit", Source::Limit, all, 20.0),
            ],
        )
        .panel(
            Axis::linear("queue, packets"),
            vec![
                line(Scheme::PerStep.label(), Source::Ours, queue(Scheme::PerStep)),
                line(Scheme::Adaptive.label(), Source::Adaptive, queue(Scheme::Adaptive)),
            ],
        )
}
