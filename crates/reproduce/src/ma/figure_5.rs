//! [MA] Fig 5: downloads of 32 KB to 10 MB.

use super::mean;
use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, Mark, Outcome, Paper, Point, ReproduceError, Runs,
    Series, Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ma-figure-5",
    paper: Paper::Ma,
    part: "Fig 5",
    title: "Downloads of 32 KB to 10 MB",
    asked: "How large must a file be to gain from acceleration, against windows of 17 and of 64 KB?",
    found: "Every size gains, and large files come near the link's capacity although the client's window is 17 KB.",
    files: &[scenario_file!("ma/figure-5.toml"), scenario_file!("ma/figure-5-lab.toml")],
    seconds: 20,
    lab: InLab::Takes(140),
    run,
};

/// Sizes in KB, as the scenario writes them.
const SIZES: [(f64, &str); 9] = [
    (32.0, "32 KB"),
    (64.0, "64 KB"),
    (128.0, "128 KB"),
    (256.0, "256 KB"),
    (512.0, "512 KB"),
    (1_000.0, "1 MB"),
    (2_000.0, "2 MB"),
    (5_000.0, "5 MB"),
    (10_000.0, "10 MB"),
];
const SMALL_WINDOW: &str = "direct, 17 KB";
const LARGE_WINDOW: &str = "direct, 64 KB";
const ACCELERATED: &str = "accelerated, 17 KB";
const ADAPTIVE: &str = "adaptive, 17 KB";
/// §I and Fig 2: long downloads, Mbit/s.
const PAPER_PLAIN: f64 = 1.5;
const PAPER_ACCELERATED: f64 = 5.0;
const PAPER_GAIN: f64 = PAPER_ACCELERATED / PAPER_PLAIN;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("ma/figure-5.toml")?;
    let runs = context.run(&scenario)?;
    let goodput = |case: &str, size: &str| runs.goodput(&format!("{case}, {size}"));
    let gain = |case: &str, size: &str| mean(goodput(case, size)) / mean(goodput(SMALL_WINDOW, size));
    let least = |case: &str, over: &str| {
        let ratios = SIZES.iter().map(|(_, size)| mean(goodput(case, size)) / mean(goodput(over, size)));
        ratios.fold(f64::NAN, f64::min)
    };
    let mut table = Table::new("Goodput from the client's SYN to the last byte", "size")
        .column(Source::Ours, SMALL_WINDOW, "Mbit/s", 2)
        .column(Source::Ours, LARGE_WINDOW, "Mbit/s", 2)
        .column(Source::Ours, ACCELERATED, "Mbit/s", 2)
        .column(Source::Adaptive, ADAPTIVE, "Mbit/s", 2)
        .column(Source::Ratio, "accelerated ÷ direct, 17 KB", "", 2)
        .column(Source::Ours, "accelerated, queue p95", "ms", 0)
        .column(Source::Adaptive, "adaptive, queue p95", "ms", 0);
    for (_, size) in SIZES {
        let queue = |case: &str| runs.queue_p95(&format!("{case}, {size}")).map(|m| m.mean);
        table.row(
            size,
            vec![
                goodput(SMALL_WINDOW, size).into(),
                goodput(LARGE_WINDOW, size).into(),
                goodput(ACCELERATED, size).into(),
                goodput(ADAPTIVE, size).into(),
                gain(ACCELERATED, size).into(),
                queue(ACCELERATED).into(),
                queue(ADAPTIVE).into(),
            ],
        );
    }
    // In the lab, where time is real, the longest downloads are left out.
    let is_there = |(_, size): &&(f64, &str)| runs.first(&format!("{ACCELERATED}, {size}")).is_some();
    let largest = SIZES.iter().rev().find(is_there).map_or("", |(_, size)| size);
    let count = runs.of(&format!("{ACCELERATED}, 32 KB")).count();
    Ok(Outcome {
        we_see: format!(
            "We see a gain at every size, of {:.1} times at 32 KB and {:.1} times at {largest}, where {:.2} Mbit/s come through a window of 17 KB ({count} downloads of each).",
            gain(ACCELERATED, "32 KB"),
            gain(ACCELERATED, largest),
            mean(goodput(ACCELERATED, largest))
        ),
        tables: vec![table],
        figures: vec![figure(&runs)],
        notes: vec![
            "Fig 5 is a picture, and its text names no number. It says that the gain is largest for small files; ours grows with the size. Our server begins with ten \
             segments (RFC 6928), which is nearly a window of 17 KB; the paper's Linux of 2011 began with three, and its slow start over a long round trip is what \
             small files gained from."
                .to_owned(),
            "`adaptive` knows the link from its first round trips and keeps some tens of ms of queue; `accelerated` begins at R_cap, which is set to just the link's rate here, and \
             so needs no queue to know it. Over a link that is not known beforehand R_cap fills the queue (Tables 3 and 5)."
                .to_owned(),
            "k = 250 acknowledgements make no rate estimate before some 0.5 MB: up to there `accelerated` sends at R_cap."
                .to_owned(),
        ],
        checks: vec![
            Check::at_least("accelerated ÷ direct with the same window, the smallest of all sizes", least(ACCELERATED, SMALL_WINDOW), 1.0),
            Check::at_least("accelerated ÷ direct at 10 MB, as 5 ÷ 1.5 Mbit/s in the paper", gain(ACCELERATED, "10 MB"), PAPER_GAIN),
            Check::at_least("adaptive ÷ accelerated, the smallest of all sizes", least(ADAPTIVE, ACCELERATED), 0.95),
        ],
    })
}

fn figure(runs: &Runs) -> Figure {
    let curve = |case: &str, source| {
        let point = |(kb, size): (f64, &str)| Some(Point::of(kb, runs.goodput(&format!("{case}, {size}"))?));
        Series::new(case, source, Mark::Dotted, SIZES.into_iter().filter_map(point).collect())
    };
    let level = |name: &str, y: f64| {
        let points = vec![Point::new(1_000.0, y), Point::new(10_000.0, y)];
        Series::new(name, Source::Paper, Mark::Line, points)
    };
    Figure::new(
        "Goodput of downloads",
        "Means of all downloads of a size, bars are their standard deviations. The paper's figure has the same axes, without numbers in its text; dashed is what §I and §II-B say of long downloads.",
        Axis::log("size, KB"),
    )
    .panel(
        Axis::linear("Mbit/s"),
        vec![
            curve(SMALL_WINDOW, Source::Ours),
            curve(LARGE_WINDOW, Source::Ours),
            curve(ACCELERATED, Source::Ours),
            curve(ADAPTIVE, Source::Adaptive),
            level("plain, paper: about 1.5", PAPER_PLAIN),
            level("accelerated, paper: about 5", PAPER_ACCELERATED),
        ],
    )
}
