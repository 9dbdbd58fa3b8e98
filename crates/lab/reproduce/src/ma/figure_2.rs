//! [MA] Fig 2: a window of 17 KB, with and without opportunistic transmission at a fixed rate.

use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::{
    Axis, CaseId, Check, Context, Experiment, Facts, Figure, InLab, Outcome, Paper, ReproduceError, Runs,
    Series, Source, Table, rebinned,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ma-figure-2",
    paper: Paper::Ma,
    part: "Fig 2",
    prose: built_in!("ma/figure-2.md"),
    files: &[built_in!("ma/figure-2.toml"), built_in!("ma/figure-2-lab.toml")],
    seconds: 3,
    lab: InLab::Takes(50),
    run,
};

case_ids! {
    /// The cases of `ma/figure-2.toml`.
    enum Flow { Cubic = "CUBIC", Accelerated = "accelerated", Adaptive = "adaptive" }
}

/// §II-B and §I: what the text says of the two curves, Mbit/s. The figure itself is only a picture.
const PAPER: [(Flow, f64); 2] = [(Flow::Cubic, 1.5), (Flow::Accelerated, 5.0)];
/// Bins of the figure, seconds.
const BIN_S: f64 = 0.5;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("ma/figure-2.toml")?;
    let runs = context.run(&scenario)?;
    let goodput = |case: Flow| runs.goodput(case).map_or(f64::NAN, |m| m.mean);
    let ratio = |case: Flow| goodput(case) / goodput(Flow::Cubic);
    let mut table = Table::new("Goodput of the download", "case")
        .column(Source::Paper, "goodput", "Mbit/s", 1)
        .column(Source::Ours, "goodput", "Mbit/s", 2)
        .column(Source::Ratio, "÷ CUBIC", "", 2)
        .column(Source::Ours, "queue p95", "ms", 0);
    for case in Flow::all() {
        let paper = PAPER.iter().find(|(flow, _)| *flow == case).map(|(_, value)| *value);
        table.row(
            case.label(),
            vec![paper.into(), runs.goodput(case).into(), ratio(case).into(), runs.queue_p95(case).into()],
        );
    }
    Ok(Outcome {
        facts: Facts::of([
            ("accelerated", goodput(Flow::Accelerated).into()),
            ("cubic", goodput(Flow::Cubic).into()),
            ("gain", ratio(Flow::Accelerated).into()),
            ("adaptive", goodput(Flow::Adaptive).into()),
        ]),
        tables: vec![table],
        figures: vec![figure(&runs)],
        checks: vec![
            Check::at_least(
                "accelerated ÷ CUBIC as in the paper's text",
                ratio(Flow::Accelerated),
                PAPER[1].1 / PAPER[0].1,
            ),
            Check::at_least(
                "adaptive ÷ accelerated",
                goodput(Flow::Adaptive) / goodput(Flow::Accelerated),
                0.97,
            ),
        ],
        ..Outcome::default()
    })
}

fn figure(runs: &Runs<Flow>) -> Figure {
    let curve = |case: Flow, source| {
        let series = runs.first(case).map(|figures| &figures.series);
        let bins = series.map_or(Vec::new(), |own| rebinned(&own.goodput_mbps, own.bin_s, BIN_S));
        let bins: Vec<Option<f64>> = bins.into_iter().map(Some).collect();
        Series::over_time(case.label(), source, BIN_S, &bins)
    };
    let seconds = runs.runs.iter().filter_map(|run| run.result.figures.as_ref()).map(|f| f.transfer.seconds);
    let end = seconds.fold(1.0, f64::max);
    let level = |(flow, y): (Flow, f64)| {
        Series::level(&format!("{}, paper: about {y}", flow.label()), Source::Paper, (0.0, end), y)
    };
    let mut series: Vec<Series> = PAPER.into_iter().map(level).collect();
    series.extend([
        curve(Flow::Cubic, Source::Ours),
        curve(Flow::Accelerated, Source::Ours),
        curve(Flow::Adaptive, Source::Adaptive),
    ]);
    Figure::new("goodput", Axis::linear("seconds")).panel(Axis::linear("Mbit/s"), series)
}
