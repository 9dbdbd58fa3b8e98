//! [DR]: DRWA beside others: several with it, one without it, and pages. The lab's alone.

use figures::stats::Moments;
use scenario::results::Figures;

use super::mean;
use crate::case_id::case_ids;
use crate::experiment::built_in;
use crate::runs::most;
use crate::{
    Axis, Check, Context, Experiment, Facts, Figure, InLab, Outcome, Paper, ReproduceError, Runs, Series,
    Source, Table,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "dr-sharing",
    paper: Paper::Dr,
    part: "Table 1, row 12",
    prose: built_in!("dr/sharing.md"),
    files: &[built_in!("dr/sharing.toml")],
    seconds: 2,
    lab: InLab::Takes(660),
    run,
};

case_ids! {
    /// Downloads that start one after the other.
    enum Beside {
        ThreePaper = "Three of them, paper",
        ThreeAdditions = "Three of them, additions",
        Neither = "Against one without, static",
        AgainstPaper = "Against one without, paper",
        AgainstAdditions = "Against one without, additions",
        PagesStatic = "Pages beside a download, static",
        PagesDrwa = "Pages beside a download, DRWA",
    }
}

impl Beside {
    const SHARING: [Self; 5] =
        [Self::ThreePaper, Self::ThreeAdditions, Self::Neither, Self::AgainstPaper, Self::AgainstAdditions];
}

/// Throughput of a flow in the second half, Mbit/s.
fn late(runs: &Runs<Beside>, case: Beside, flow: usize) -> Option<Moments> {
    runs.moments(case, |figures| late_of(figures).get(flow).copied().unwrap_or(f64::NAN))
}

fn late_of(figures: &Figures) -> Vec<f64> {
    figures.transfer.flows.iter().map(|flow| flow.late_mbps.unwrap_or(f64::NAN)).collect()
}

/// The largest distance of a flow from the mean of all, as a share of it.
fn off_the_mean(figures: &Figures) -> f64 {
    let late = late_of(figures);
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    most(late.iter().map(|own| (own / mean - 1.0).abs()))
}

fn run(context: &mut Context<'_>) -> Result<Outcome, ReproduceError> {
    let scenario = context.scenario("dr/sharing.toml")?;
    let runs: Runs<Beside> = context.run(&scenario)?;
    let off = |case| mean(runs.moments(case, off_the_mean));
    let share = |case| {
        let of = |flow| mean(late(&runs, case, flow));
        of(0) / (of(0) + of(1))
    };
    let page = |case| {
        let response = |figures: &Figures| figures.response_ms.map_or(f64::NAN, |times| times.p50);
        runs.moments(case, response)
    };
    let goodput = |case| mean(runs.goodput(case));
    let shorter = mean(page(Beside::PagesDrwa)) / mean(page(Beside::PagesStatic));
    let outcome = Outcome {
        facts: Facts::of([
            ("paper_off_percent", (off(Beside::ThreePaper) * 100.0).into()),
            ("off_percent", (off(Beside::ThreeAdditions) * 100.0).into()),
            ("fixed_share", (share(Beside::Neither) * 100.0).into()),
            ("paper_share", (share(Beside::AgainstPaper) * 100.0).into()),
            ("share", (share(Beside::AgainstAdditions) * 100.0).into()),
            ("page_ms", mean(page(Beside::PagesDrwa)).into()),
            ("static_page_ms", mean(page(Beside::PagesStatic)).into()),
        ]),
        tables: vec![shares(&runs), pages(&runs, &page)],
        figures: vec![figure(&runs)],
        checks: vec![
            Check::at_most(
                "three with DRWA: largest distance from the mean share, mean over runs",
                off(Beside::ThreeAdditions),
                0.2,
            ),
            Check::at_least(
                "against one without: share of the capacity ÷ share with a static window too",
                share(Beside::AgainstAdditions) / share(Beside::Neither),
                0.8,
            ),
            Check::at_most("a page of 100 KB beside a download: time with DRWA ÷ static", shorter, 0.76),
            Check::at_least(
                "the download beside pages: DRWA ÷ static",
                goodput(Beside::PagesDrwa) / goodput(Beside::PagesStatic),
                0.97,
            ),
        ],
        ..Outcome::default()
    };
    if context.simulates() {
        // The simulated client knows nothing of its other connections, and loads no pages.
        let (tables, figures, checks) = (Vec::new(), Vec::new(), Vec::new());
        return Ok(Outcome { tables, figures, checks, ..outcome });
    }
    Ok(outcome)
}

fn shares(runs: &Runs<Beside>) -> Table {
    let mut table = Table::new("Shares in the second half", "downloads")
        .column(Source::Ours, "first", "Mbit/s", 2)
        .column(Source::Ours, "second", "Mbit/s", 2)
        .column(Source::Ours, "third", "Mbit/s", 2)
        .column(Source::Ours, "mean queue", "ms", 0);
    for case in Beside::SHARING {
        let mut values: Vec<_> = (0..3).map(|flow| late(runs, case, flow).into()).collect();
        values.push(runs.moments(case, |figures| figures.radio.queue_delay_ms.mean).into());
        table.row(case.label(), values);
    }
    table
}

fn pages(runs: &Runs<Beside>, page: &dyn Fn(Beside) -> Option<Moments>) -> Table {
    let mut table = Table::new("Pages of 100 KB beside a download", "window")
        .column(Source::Ours, "time of a page, median", "ms", 0)
        .column(Source::Ours, "download", "Mbit/s", 2);
    for (name, case) in [("static", Beside::PagesStatic), ("DRWA", Beside::PagesDrwa)] {
        table.row(name, vec![page(case).into(), runs.goodput(case).into()]);
    }
    table
}

fn figure(runs: &Runs<Beside>) -> Figure {
    let names = ["three, paper", "three", "two static", "against, paper", "against"];
    let series = ["first", "second", "third"].into_iter().enumerate();
    let series = series.map(|(flow, name)| {
        let source = [Source::Adaptive, Source::Ours, Source::Limit][flow];
        Series::at_places(name, source, Beside::SHARING.map(|case| late(runs, case, flow)))
    });
    Figure::new("shares", Axis::named("downloads", names)).panel(Axis::linear("Mbit/s"), series.collect())
}
