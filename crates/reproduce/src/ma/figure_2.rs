//! [MA] Fig 2: a window of 17 KB, with and without opportunistic transmission at a fixed rate.

use crate::experiment::scenario_file;
use crate::{
    Axis, Check, Context, Experiment, Figure, InLab, Mark, Outcome, Paper, Point, ReproduceError, Runs,
    Series, Source, Table, rebinned,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ma-figure-2",
    paper: Paper::Ma,
    part: "Fig 2",
    title: "A window of 17 KB, and what is sent beyond it",
    asked: "Does a client that advertises 17 KB take more, if the accelerator just sends it, at a fixed 5.6 Mbit/s?",
    found: "Yes: about 5 Mbit/s against about 1.5 Mbit/s of plain CUBIC with the same window.",
    files: &[scenario_file!("ma/figure-2.toml"), scenario_file!("ma/figure-2-lab.toml")],
    seconds: 3,
    lab: InLab::Takes(50),
    run,
};

/// §II-B and §I: what the text says of the two curves, Mbit/s. The figure itself is only a picture.
const PAPER: [(&str, f64); 2] = [("CUBIC", 1.5), ("accelerated", 5.0)];
const ADAPTIVE: &str = "adaptive";
/// Bins of the figure, seconds.
const BIN_S: f64 = 0.5;

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("ma/figure-2.toml")?;
    let runs = context.run(&scenario)?;
    let goodput = |case: &str| runs.goodput(case).map_or(f64::NAN, |m| m.mean);
    let ratio = |case: &str| goodput(case) / goodput("CUBIC");
    let mut table = Table::new("Goodput of the download", "case")
        .column(Source::Paper, "goodput", "Mbit/s", 1)
        .column(Source::Ours, "goodput", "Mbit/s", 2)
        .column(Source::Ratio, "÷ CUBIC", "", 2)
        .column(Source::Ours, "queue p95", "ms", 0);
    for case in ["CUBIC", "accelerated", ADAPTIVE] {
        let paper = PAPER.iter().find(|(name, _)| *name == case).map(|(_, value)| *value);
        table.row(
            case,
            vec![paper.into(), runs.goodput(case).into(), ratio(case).into(), runs.queue_p95(case).into()],
        );
    }
    Ok(Outcome {
        we_see: format!(
            "We see {:.2} Mbit/s against {:.2} Mbit/s, {:.1} times as much; the `adaptive` control, which is told no rate, gets {:.2} Mbit/s.",
            goodput("accelerated"),
            goodput("CUBIC"),
            ratio("accelerated"),
            goodput(ADAPTIVE)
        ),
        tables: vec![table],
        figures: vec![figure(&runs)],
        notes: notes(context.is_lab()),
        checks: vec![
            Check::at_least(
                "accelerated ÷ CUBIC as in the paper's text",
                ratio("accelerated"),
                PAPER[1].1 / PAPER[0].1,
            ),
            Check::at_least("adaptive ÷ accelerated", goodput(ADAPTIVE) / goodput("accelerated"), 0.97),
        ],
    })
}

fn notes(is_lab: bool) -> Vec<String> {
    let mut notes = vec![
        "`accelerated` is told the link's rate and sends just that, so that nothing queues. `adaptive` finds the rate: it keeps a queue of some tens of ms, which is what it \
         knows by that the link is full."
            .to_owned(),
    ];
    if is_lab {
        notes.push(
            "A kernel's window is not exactly 17 KB: asked for that, Linux advertises 18.3 KB at its most, so that plain CUBIC gets a tenth more, and the ratio is that much \
             smaller. A download of 6 MB also spends a larger share of its time on its start than one of 15 MB."
                .to_owned(),
        );
    }
    notes
}

fn figure(runs: &Runs) -> Figure {
    let curve = |case: &str, source| {
        let points = runs.first(case).map_or(Vec::new(), |figures| {
            let series = &figures.series;
            let bins = rebinned(&series.goodput_mbps, series.bin_s, BIN_S);
            let at = |(i, y): (usize, &f64)| Point::new((i as f64 + 0.5) * BIN_S, *y);
            bins.iter().enumerate().map(at).collect()
        });
        Series::new(case, source, Mark::Line, points)
    };
    let seconds = runs.runs.iter().filter_map(|run| run.result.figures.as_ref()).map(|f| f.transfer.seconds);
    let end = seconds.fold(1.0, f64::max);
    let level = |(name, y): (&str, f64)| {
        let points = vec![Point::new(0.0, y), Point::new(end, y)];
        Series::new(&format!("{name}, paper: about {y}"), Source::Paper, Mark::Line, points)
    };
    let mut series: Vec<Series> = PAPER.into_iter().map(level).collect();
    series.extend([
        curve("CUBIC", Source::Ours),
        curve("accelerated", Source::Ours),
        curve(ADAPTIVE, Source::Adaptive),
    ]);
    Figure::new(
        "Goodput of a download with a client window of 17 KB",
        "Means over 0.5 s of what the application received; a curve ends with its download. The paper's curves are known by the levels its text names.",
        Axis::linear("seconds"),
    )
    .panel(Axis::linear("Mbit/s"), series)
}
