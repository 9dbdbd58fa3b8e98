//! Report on traffic beside the flows of cases: a table of all of it, and charts of their shares.

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Series};
use maud::{Markup, html};
use scenario::results::{BesideFigures, CaseResult, Figures, ScenarioResult};

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
    let name = |case: &CaseResult| match result.scenario.repetitions {
        0 | 1 => case.name.clone(),
        _ => format!("{} (seed {})", case.name, case.seed),
    };
    let mut all = Vec::new();
    for case in &result.cases {
        let beside = case.figures.iter().flat_map(|figures| &figures.beside);
        all.extend(beside.map(|one| (name(case), one)));
    }
    all
}

/// A row for each flow beside a case's own, with what those got meanwhile.
fn table(rows: &[(String, &BesideFigures)]) -> Table {
    let headings = vec![
        ("case", ""),
        ("beside it", ""),
        ("from", "s"),
        ("to", "s"),
        ("got", "Mbit/s"),
        ("workload meanwhile", "Mbit/s"),
        ("pages p50", "ms"),
        ("pages p95", "ms"),
        ("call p95", "ms"),
        ("call up p95", "ms"),
        ("call loss", "%"),
    ];
    let row = |(case, one): &(String, &BesideFigures)| {
        let ms = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.0}"));
        vec![
            case.clone(),
            one.name(),
            format!("{:.1}", one.start_s),
            format!("{:.1}", one.end_s),
            format!("{:.2}", one.goodput_mbps),
            format!("{:.2}", one.own_mbps),
            ms(one.response_ms.map(|pages| pages.p50)),
            ms(one.response_ms.map(|pages| pages.p95)),
            ms(one.delay_ms.map(|delay| delay.p95)),
            ms(one.delay_up_ms.map(|delay| delay.p95)),
            one.loss.map_or_else(|| "–".to_owned(), |loss| format!("{:.2}", 100.0 * loss)),
        ]
    };
    Table { headings, rows: rows.iter().map(row).collect() }
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
