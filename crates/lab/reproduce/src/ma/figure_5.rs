//! [MA] Fig 5: downloads of 32 KB to 10 MB.

use super::mean;
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::least;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Mark, Outcome, Paper, ReproduceError,
    Runs, Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ma-figure-5",
    paper: Paper::Ma,
    part: "Fig 5",
    prose: built_in!("ma/figure-5.md"),
    files: &[built_in!("ma/figure-5.toml"), built_in!("ma/figure-5-lab.toml")],
    seconds: 20,
    lab: InLab::Takes(140),
    run,
};

case_ids! {
    /// The cases of `ma/figure-5.toml`.
    enum Flow {
        SmallWindow = "direct, 17 KB",
        LargeWindow = "direct, 64 KB",
        Accelerated = "accelerated, 17 KB",
        Adaptive = "adaptive, 17 KB",
    }
}
case_ids! {
    /// Its grid: sizes of the download.
    enum Size {
        Kb32 = "32 KB",
        Kb64 = "64 KB",
        Kb128 = "128 KB",
        Kb256 = "256 KB",
        Kb512 = "512 KB",
        Mb1 = "1 MB",
        Mb2 = "2 MB",
        Mb5 = "5 MB",
        Mb10 = "10 MB",
    }
}

/// Sizes in KB.
const SIZES: [(f64, Size); 9] = [
    (32.0, Size::Kb32),
    (64.0, Size::Kb64),
    (128.0, Size::Kb128),
    (256.0, Size::Kb256),
    (512.0, Size::Kb512),
    (1_000.0, Size::Mb1),
    (2_000.0, Size::Mb2),
    (5_000.0, Size::Mb5),
    (10_000.0, Size::Mb10),
];
/// §I and Fig 2: long downloads, Mbit/s.
const PAPER_PLAIN: f64 = 1.5;
const PAPER_ACCELERATED: f64 = 5.0;
const PAPER_GAIN: f64 = PAPER_ACCELERATED / PAPER_PLAIN;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("ma/figure-5.toml")?;
    let runs = context.run(&scenario)?;
    let goodput = |case: Flow, size: Size| runs.goodput((case, size));
    let gain = |case: Flow, size: Size| mean(goodput(case, size)) / mean(goodput(Flow::SmallWindow, size));
    let least_over = |case: Flow, over: Flow| {
        least(SIZES.map(|(_, size)| mean(goodput(case, size)) / mean(goodput(over, size))))
    };
    let mut table = Table::new("Goodput from the client's SYN to the last byte", "size")
        .column(Source::Ours, Flow::SmallWindow.label(), "Mbit/s", 2)
        .column(Source::Ours, Flow::LargeWindow.label(), "Mbit/s", 2)
        .column(Source::Ours, Flow::Accelerated.label(), "Mbit/s", 2)
        .column(Source::Adaptive, Flow::Adaptive.label(), "Mbit/s", 2)
        .column(Source::Ratio, "accelerated ÷ direct, 17 KB", "", 2)
        .column(Source::Ours, "accelerated, queue p95", "ms", 0)
        .column(Source::Adaptive, "adaptive, queue p95", "ms", 0);
    for (_, size) in SIZES {
        let queue = |case: Flow| runs.queue_p95((case, size)).map(|m| m.mean);
        table.row(
            size.label(),
            vec![
                goodput(Flow::SmallWindow, size).into(),
                goodput(Flow::LargeWindow, size).into(),
                goodput(Flow::Accelerated, size).into(),
                goodput(Flow::Adaptive, size).into(),
                gain(Flow::Accelerated, size).into(),
                queue(Flow::Accelerated).into(),
                queue(Flow::Adaptive).into(),
            ],
        );
    }
    // In the lab, where time is real, the longest downloads are left out.
    let is_there = |size: &Size| runs.first((Flow::Accelerated, *size)).is_some();
    let largest = Size::all().into_iter().rfind(is_there).unwrap_or(Size::Kb32);
    let count = runs.of((Flow::Accelerated, Size::Kb32)).count();
    Ok(Outcome {
        facts: Facts::of([
            ("least_gain", gain(Flow::Accelerated, Size::Kb32).into()),
            ("largest_gain", gain(Flow::Accelerated, largest).into()),
            ("largest", largest.label().into()),
            ("goodput", mean(goodput(Flow::Accelerated, largest)).into()),
            ("count", count.into()),
        ]),
        tables: vec![table],
        figures: vec![figure(&runs)],
        checks: vec![
            Check::at_least(
                "accelerated ÷ direct with the same window, the smallest of all sizes",
                least_over(Flow::Accelerated, Flow::SmallWindow),
                1.0,
            ),
            Check::at_least(
                "accelerated ÷ direct at 10 MB, as 5 ÷ 1.5 Mbit/s in the paper",
                gain(Flow::Accelerated, Size::Mb10),
                PAPER_GAIN,
            ),
            Check::at_least(
                "adaptive ÷ accelerated, the smallest of all sizes",
                least_over(Flow::Adaptive, Flow::Accelerated),
                0.95,
            ),
        ],
        ..Outcome::default()
    })
}

fn figure(runs: &Runs<(Flow, Size)>) -> Figure {
    let curve = |case: Flow, source| {
        let means = SIZES.map(|(kb, size)| (kb, runs.goodput((case, size))));
        Series::of(case.label(), source, Mark::Dotted, means)
    };
    let level = |name: &str, y: f64| Series::level(name, Source::Paper, (1_000.0, 10_000.0), y);
    Figure::new("goodput", Axis::log("size, KB")).panel(
        Axis::linear("Mbit/s"),
        vec![
            curve(Flow::SmallWindow, Source::Ours),
            curve(Flow::LargeWindow, Source::Ours),
            curve(Flow::Accelerated, Source::Ours),
            curve(Flow::Adaptive, Source::Adaptive),
            level("plain, paper: about 1.5", PAPER_PLAIN),
            level("accelerated, paper: about 5", PAPER_ACCELERATED),
        ],
    )
}
