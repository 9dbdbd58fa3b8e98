//! [`summary`]: one row per case, the same figures for terminal and page.

use figures::Table;
use figures::stats::{self, Moments};
use scenario::results::{BesideFigures, CaseResult, Figures, ScenarioResult};

type Column = (&'static str, &'static str, fn(&[&Figures]) -> String);

const COLUMNS: [Column; 7] = [
    ("throughput", "Mbit/s", |f| spread(f, 2, |f| f.transfer.goodput_mbps)),
    ("link used", "%", |f| number(f, 1, |f| f.radio.utilisation.map(|u| 100.0 * u))),
    ("queue p50", "ms", |f| number(f, 1, |f| Some(f.radio.queue_delay_ms.p50))),
    ("queue p95", "ms", |f| number(f, 1, |f| Some(f.radio.queue_delay_ms.p95))),
    ("resent", "segments", |f| number(f, 0, |f| Some(f.retransmissions.over_radio as f64))),
    ("window", "KB", |f| number(f, 1, |f| f.window.map(|w| w.max_bytes as f64 / 1e3))),
    ("content", "", |f| hashes(f)),
];

/// The same where something goes on beside the workload's flows: what those got meanwhile, and who else waited.
const BESIDE_COLUMNS: [Column; 4] = [
    ("meanwhile", "Mbit/s", |f| spread_of(f, 2, |f| of_downloads(f, |one| one.own_mbps).next())),
    ("beside", "Mbit/s", |f| {
        spread_of(f, 2, |f| of_downloads(f, |one| one.goodput_mbps).reduce(|a, b| a + b))
    }),
    ("ping p50", "ms", |f| number(f, 0, |f| f.ping_ms.map(|ping| ping.p50))),
    ("ping p95", "ms", |f| number(f, 0, |f| f.ping_ms.map(|ping| ping.p95))),
];

/// A figure of each download beside a case's flows; where there is none, of whatever else is there.
fn of_downloads(figures: &Figures, value: fn(&BesideFigures) -> f64) -> impl Iterator<Item = f64> {
    let has_downloads = figures.beside.iter().any(|one| one.kind.is_download());
    let shown = figures.beside.iter().filter(move |one| one.kind.is_download() == has_downloads);
    shown.map(value).collect::<Vec<_>>().into_iter()
}

/// The columns of [`summary`] that a narrow terminal can do without, the least needed first.
pub const SUMMARY_MAY_GO: [&str; 7] =
    ["queue p50", "resent", "window", "sender", "link used", "queue p95", "ping p50"];

/// The summary of a scenario: one row per case; of one that was repeated the means, and behind the
/// throughput its standard deviation. A question mark marks a case with doubtful figures.
#[must_use]
pub fn summary(result: &ScenarioResult) -> Table {
    let mut table = Table { headings: vec![("case", ""), ("sender", "")], rows: Vec::new() };
    let has_others = result.cases.iter().any(|case| !case.settings.workload.beside().is_empty());
    let beside: &[Column] = if has_others { &BESIDE_COLUMNS } else { &[] };
    let columns = || COLUMNS.iter().take(1).chain(beside).chain(&COLUMNS[1..]);
    table.headings.extend(columns().map(|(name, unit, _)| (*name, *unit)));
    for (name, cases) in grouped(result) {
        let figures: Vec<&Figures> = cases.iter().filter_map(|c| c.figures.as_ref()).collect();
        let is_doubtful = cases.iter().any(|case| !case.doubts.is_empty());
        let mut row = vec![if is_doubtful { format!("{name} ?") } else { name.to_owned() }];
        row.push(cases.first().map_or_else(String::new, |case| case.sender().to_owned()));
        if figures.is_empty() {
            row.push("not run".to_owned());
            row.resize(table.headings.len(), String::new());
        } else {
            row.extend(columns().map(|(_, _, show)| show(&figures)));
        }
        table.rows.push(row);
    }
    table
}

/// Cases by name in the order first run.
pub(crate) fn grouped(result: &ScenarioResult) -> Vec<(&str, Vec<&CaseResult>)> {
    let mut groups: Vec<(&str, Vec<&CaseResult>)> = Vec::new();
    for case in &result.cases {
        match groups.iter_mut().find(|(name, _)| *name == case.name) {
            Some((_, cases)) => cases.push(case),
            None => groups.push((&case.name, vec![case])),
        }
    }
    groups
}

/// Name of a run: of the case, with the seed where there are several.
pub(crate) fn run_name(result: &ScenarioResult, case: &CaseResult) -> String {
    match result.scenario.repetitions {
        0 | 1 => case.name.clone(),
        _ => format!("{} (seed {})", case.name, case.seed),
    }
}

/// The mean of `value` over repetitions, or a dash.
fn number(figures: &[&Figures], decimals: usize, value: fn(&Figures) -> Option<f64>) -> String {
    let mean = stats::mean(figures.iter().filter_map(|f| value(f)));
    mean.map_or_else(|| "–".to_owned(), |mean| format!("{mean:.decimals$}"))
}

/// The same with the standard deviation where there are repetitions.
fn spread(figures: &[&Figures], decimals: usize, value: fn(&Figures) -> f64) -> String {
    spread_over(figures.iter().map(|f| value(f)), decimals)
}

/// The same of those that have the value.
fn spread_of(figures: &[&Figures], decimals: usize, value: fn(&Figures) -> Option<f64>) -> String {
    spread_over(figures.iter().filter_map(|f| value(f)), decimals)
}

fn spread_over(values: impl Iterator<Item = f64>, decimals: usize) -> String {
    let moments = Moments::of(values);
    moments.map_or_else(|| "–".to_owned(), |moments| format!("{moments:.decimals$}"))
}

fn hashes(figures: &[&Figures]) -> String {
    let equal = figures.iter().filter(|f| f.transfer.hashes_equal).count();
    match equal {
        n if n == figures.len() => "equal".to_owned(),
        _ if figures.iter().all(|f| f.transfer.cut_short) => "cut short".to_owned(),
        n => format!("DIFFERENT ({n} of {} equal)", figures.len()),
    }
}
