//! [MP] Fig 6: throughput over time of one path, on the move.

use scenario::WindowPolicy;

use super::figure_1::curve;
use super::{mean, over_runs};
use crate::accelerated::with_adaptive;
use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, Looking, Mark, Outcome, Paper, Point, ReproduceError,
    Runs, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mp-figure-6",
    paper: Paper::Mp,
    part: "Fig 6",
    title: "Throughput over time, on the move",
    asked: "How does the throughput of one path change over time in a car?",
    found: "In saw-teeth, AT&T's 4G too, and every carrier's 3G far below its 4G.",
    files: &[scenario_file!("mp/figure-6.toml")],
    seconds: 4,
    lab: InLab::Lacks(
        "six downloads of 12 to 100 MB, with and without an accelerator, take half an hour where time is real",
    ),
    run,
};

/// Table IV: mean bandwidth of the curves, Mbit/s.
const PAPER: [(&str, f64); 6] = [
    ("Verizon 4G", 7.79),
    ("AT&T 4G", 14.74),
    ("Sprint 4G", 4.81),
    ("AT&T 3.5G", 3.47),
    ("Verizon 3G", 0.85),
    ("Sprint 3G", 0.31),
];
/// Carriers, and their newer and older network, as the paper's three diagrams show them.
const CARRIERS: [(&str, [&str; 2]); 3] = [
    ("AT&T", ["AT&T 4G", "AT&T 3.5G"]),
    ("Verizon", ["Verizon 4G", "Verizon 3G"]),
    ("Sprint", ["Sprint 4G", "Sprint 3G"]),
];
/// Seconds drawn.
const SHOWN_S: f64 = 100.0;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("mp/figure-6.toml")?;
    let runs = context.watch(&scenario, Looking { flows: true, ..Looking::default() })?;
    let adaptive = context.watch(&with_adaptive(&scenario, WindowPolicy::Honour), Looking::default())?;
    let throughput = |case: &str| mean(over_runs(&runs, case, |m| m.throughput_mbps()));
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
        table.row(case, values);
    }
    let ratio = |carrier: usize| {
        let [new, old] = CARRIERS[carrier].1;
        throughput(new) / throughput(old)
    };
    let farthest =
        PAPER.iter().map(|(case, paper)| (throughput(case) / paper - 1.0).abs()).fold(f64::NAN, f64::max);
    let goodput = |runs: &Runs, case: &str| mean(runs.goodput(case));
    let least = PAPER
        .iter()
        .map(|(case, _)| goodput(&adaptive, case) / goodput(&runs, case))
        .fold(f64::NAN, f64::min);
    let queue = |runs: &Runs, case: &str| mean(runs.queue_p95(case));
    let longest =
        PAPER.iter().map(|(case, _)| queue(&adaptive, case) / queue(&runs, case)).fold(f64::NAN, f64::max);
    Ok(Outcome {
        we_see: format!(
            "We see AT&T's 4G at {:.1} times its 3.5G, Verizon's at {:.1} and Sprint's at {:.1} times their 3G, all in saw-teeth under drawn capacities.",
            ratio(0), ratio(1), ratio(2)
        ),
        tables: vec![table],
        figures: vec![figure(&runs)],
        notes: vec!["The curves of the paper are pictures; dashed are the means of Table IV. Only the first 100 s are drawn.".to_owned()],
        checks: vec![
            Check::at_most("farthest mean from Table IV's, share", farthest, 0.15),
            Check::at_least("least goodput of adaptive ÷ NewReno", least, 0.97),
            Check::at_most("largest queue p95 of adaptive ÷ NewReno", longest, 1.0),
        ],
    })
}

fn figure(runs: &Runs) -> Figure {
    let shown = |case: &str| curve(runs, case).into_iter().filter(|p| p.x <= SHOWN_S).collect::<Vec<_>>();
    let mut figure = Figure::new(
        "Fig 6: throughput over time, on the move",
        "Means over 1 s of what the client received, a diagram per carrier.",
        Axis::linear("seconds"),
    );
    for (carrier, networks) in CARRIERS {
        let levels = PAPER.iter().filter(|(case, _)| networks.contains(case)).map(|(case, y)| {
            let points = vec![Point::new(0.0, *y), Point::new(SHOWN_S, *y)];
            Series::new(&format!("{case}, paper"), Source::Paper, Mark::Line, points)
        });
        let ours = networks.iter().map(|case| Series::new(case, Source::Ours, Mark::Line, shown(case)));
        figure = figure.panel(Axis::linear(&format!("{carrier}, Mbit/s")), levels.chain(ours).collect());
    }
    figure
}
