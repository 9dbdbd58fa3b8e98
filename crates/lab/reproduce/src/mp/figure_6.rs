//! [MP] Fig 6: throughput over time of one path, on the move.

use super::figure_1::curve;
use super::{mean, over_runs};
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::most;
use crate::{
    Axis, Check, Context, Experiment, Facts, Figure, InLab, Looking, Mark, Outcome, Paper, ReproduceError,
    Runs, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mp-figure-6",
    paper: Paper::Mp,
    part: "Fig 6",
    prose: built_in!("mp/figure-6.md"),
    files: &[built_in!("mp/figure-6.toml")],
    seconds: 4,
    lab: InLab::Lacks,
    run,
};

case_ids! {
    /// The cases of `mp/figure-6.toml`.
    enum Network {
        Verizon4g = "Verizon 4G",
        Att4g = "AT&T 4G",
        Sprint4g = "Sprint 4G",
        Att35g = "AT&T 3.5G",
        Verizon3g = "Verizon 3G",
        Sprint3g = "Sprint 3G",
    }
}

/// Table IV: mean bandwidth of the curves, Mbit/s.
const PAPER: [(Network, f64); 6] = [
    (Network::Verizon4g, 7.79),
    (Network::Att4g, 14.74),
    (Network::Sprint4g, 4.81),
    (Network::Att35g, 3.47),
    (Network::Verizon3g, 0.85),
    (Network::Sprint3g, 0.31),
];
/// Carriers, and their newer and older network, as the paper's three diagrams show them.
const CARRIERS: [(&str, [Network; 2]); 3] = [
    ("AT&T", [Network::Att4g, Network::Att35g]),
    ("Verizon", [Network::Verizon4g, Network::Verizon3g]),
    ("Sprint", [Network::Sprint4g, Network::Sprint3g]),
];
/// Seconds drawn.
const SHOWN_S: f64 = 100.0;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("mp/figure-6.toml")?;
    let runs = context.watch::<Network>(&scenario, Looking { flows: true, ..Looking::default() })?;
    let adaptive = context.run_adaptive(&scenario)?;
    let throughput = |case: Network| mean(over_runs(&runs, case, |m| m.throughput_mbps()));
    let mut table = Table::new("Mean throughput", "network")
        .column(Source::Paper, "mean", "Mbit/s", 2)
        .column(Source::Ours, "mean", "Mbit/s", 2)
        .column(Source::Adaptive, "mean", "Mbit/s", 2)
        .column(Source::Ours, "queue p95", "ms", 0)
        .column(Source::Adaptive, "queue p95", "ms", 0);
    for (case, paper) in PAPER {
        let values = vec![
            paper.into(),
            throughput(case).into(),
            adaptive.goodput(case).into(),
            runs.queue_p95(case).into(),
            adaptive.queue_p95(case).into(),
        ];
        table.row(case.label(), values);
    }
    let ratio = |carrier: usize| {
        let [new, old] = CARRIERS[carrier].1;
        throughput(new) / throughput(old)
    };
    let farthest = most(PAPER.map(|(case, paper)| (throughput(case) / paper - 1.0).abs()));
    let least = adaptive.least_goodput_over(&runs);
    let longest = adaptive.longest_queue_over(&runs);
    Ok(Outcome {
        facts: Facts::of([
            ("att", ratio(0).into()),
            ("verizon", ratio(1).into()),
            ("sprint", ratio(2).into()),
        ]),
        tables: vec![table],
        figures: vec![figure(&runs)],
        checks: vec![
            Check::at_most("farthest mean from Table IV's, share", farthest, 0.15),
            Check::at_least("least goodput of adaptive ÷ NewReno", least, 0.97),
            Check::at_most("largest queue p95 of adaptive ÷ NewReno", longest, 1.0),
        ],
        ..Outcome::default()
    })
}

fn figure(runs: &Runs<Network>) -> Figure {
    let shown = |case: Network| curve(runs, case).into_iter().filter(|p| p.x <= SHOWN_S).collect::<Vec<_>>();
    let mut figure = Figure::new("throughput", Axis::linear("seconds"));
    for (carrier, networks) in CARRIERS {
        let levels = PAPER.iter().filter(|(case, _)| networks.contains(case)).map(|(case, y)| {
            Series::level(&format!("{}, paper", case.label()), Source::Paper, (0.0, SHOWN_S), *y)
        });
        let ours = networks.map(|case| Series::new(case.label(), Source::Ours, Mark::Line, shown(case)));
        figure = figure.panel(Axis::linear(&format!("{carrier}, Mbit/s")), levels.chain(ours).collect());
    }
    figure
}
