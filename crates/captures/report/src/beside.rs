//! Report on traffic beside the flows of cases: a table of all of it, and charts of their shares.

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Series};
use maud::{Markup, html};
use scenario::results::{BesideFigures, CaseResult, Figures, ScenarioResult};

use crate::summary::run_name;

/// Table and charts; nothing where nothing went on.
pub(crate) fn shown(result: &ScenarioResult) -> Markup {
    let rows = of_cases(result);
    if rows.is_empty() {
        return html! {};
    }
    let firsts = result.cases.iter().filter(|case| case.repetition == 1);
    html! {
        h3 { "Beside the flows of the workload" }
        (table(&rows).html(&|_| None, &|_| None))
        @for (case, figures) in firsts.filter_map(|case| Some((case, case.figures.as_ref()?))) {
            @if !figures.beside.is_empty() { (chart(case, figures).figure()) }
        }
    }
}

fn of_cases(result: &ScenarioResult) -> Vec<(String, &BesideFigures)> {
    let mut all = Vec::new();
    for case in &result.cases {
        let beside = case.figures.iter().flat_map(|figures| &figures.beside);
        all.extend(beside.map(|one| (run_name(result, case), one)));
    }
    all
}

/// A row for each flow beside a case's own, with what those got meanwhile.
fn table(rows: &[(String, &BesideFigures)]) -> Table {
    let or_none = |value: Option<f64>, decimals: usize| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
    };
    Table::of(
        rows,
        &[
            ("case", "", &|(case, _)| case.clone()),
            ("beside it", "", &|(_, one)| one.name()),
            ("from", "s", &|(_, one)| format!("{:.1}", one.start_s)),
            ("to", "s", &|(_, one)| format!("{:.1}", one.end_s)),
            ("got", "Mbit/s", &|(_, one)| format!("{:.2}", one.goodput_mbps)),
            ("workload meanwhile", "Mbit/s", &|(_, one)| format!("{:.2}", one.own_mbps)),
            ("pages p50", "ms", &|(_, one)| or_none(one.response_ms.map(|pages| pages.p50), 0)),
            ("pages p95", "ms", &|(_, one)| or_none(one.response_ms.map(|pages| pages.p95), 0)),
            ("call p95", "ms", &|(_, one)| or_none(one.delay_ms.map(|delay| delay.p95), 0)),
            ("call up p95", "ms", &|(_, one)| or_none(one.delay_up_ms.map(|delay| delay.p95), 0)),
            ("call loss", "%", &|(_, one)| or_none(one.loss.map(|loss| 100.0 * loss), 2)),
        ],
    )
}

/// Chart of the throughput of the workload's flows and of each one beside them, over the capacity of the link.
fn chart(case: &CaseResult, figures: &Figures) -> Chart {
    let series = &figures.series;
    let line = |name: &str, ink, mark, values: &[f64]| {
        Series::of_bins(name, ink, mark, series.bin_s, values.iter().copied().map(Some))
    };
    let mut lines = vec![
        line("the link", Ink::Limit, Mark::Ground, &series.capacity_mbps),
        line("workload", Ink::Colour(0), Mark::Line, &series.goodput_mbps),
    ];
    let beside = figures.beside.iter().enumerate();
    lines.extend(
        beside.map(|(i, one)| line(&one.name(), Ink::Colour(i + 1), Mark::Line, &one.goodput_series_mbps)),
    );
    Chart::new(&format!("Who got what: {}", case.name), Axis::exact("time, s"))
        .panel(Axis::linear("Goodput, Mbit/s"), lines)
}
