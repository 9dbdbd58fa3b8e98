//! [`summary`]: one row per case, the same figures for terminal and page.

use std::fmt;

use scenario::results::{CaseResult, Figures, ScenarioResult};

/// Columns with headings and rows of text; every column but the first is aligned right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Heading of each column: name and unit.
    pub headings: Vec<(&'static str, &'static str)>,
    /// Rows with as many fields as there are headings.
    pub rows: Vec<Vec<String>>,
}

type Column = (&'static str, &'static str, fn(&[&Figures]) -> String);

const COLUMNS: [Column; 7] = [
    ("throughput", "Mbit/s", |f| number(f, 2, |f| Some(f.transfer.goodput_mbps))),
    ("link used", "%", |f| number(f, 1, |f| f.radio.utilisation.map(|u| 100.0 * u))),
    ("queue p50", "ms", |f| number(f, 1, |f| Some(f.radio.queue_delay_ms.p50))),
    ("queue p95", "ms", |f| number(f, 1, |f| Some(f.radio.queue_delay_ms.p95))),
    ("resent", "segments", |f| number(f, 0, |f| Some(f.retransmissions.over_radio as f64))),
    ("window", "KB", |f| number(f, 1, |f| f.window.map(|w| w.max_bytes as f64 / 1e3))),
    ("content", "", |f| hashes(f)),
];

/// The summary of a scenario: one row per case, the median when it was repeated.
#[must_use]
pub fn summary(result: &ScenarioResult) -> Table {
    let mut table = Table { headings: vec![("case", "")], rows: Vec::new() };
    table.headings.extend(COLUMNS.iter().map(|(name, unit, _)| (*name, *unit)));
    for (name, cases) in grouped(result) {
        let figures: Vec<&Figures> = cases.iter().filter_map(|c| c.figures.as_ref()).collect();
        let mut row = vec![name.to_owned()];
        if figures.is_empty() {
            row.push("not run".to_owned());
            row.resize(table.headings.len(), String::new());
        } else {
            row.extend(COLUMNS.iter().map(|(_, _, show)| show(&figures)));
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

/// The median of `value` over repetitions, or a dash.
fn number(figures: &[&Figures], decimals: usize, value: fn(&Figures) -> Option<f64>) -> String {
    let mut values: Vec<f64> = figures.iter().filter_map(|f| value(f)).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).map_or_else(|| "–".to_owned(), |v| format!("{v:.decimals$}"))
}

fn hashes(figures: &[&Figures]) -> String {
    let equal = figures.iter().filter(|f| f.transfer.hashes_equal).count();
    match equal {
        n if n == figures.len() => "equal".to_owned(),
        _ if figures.iter().all(|f| f.transfer.cut_short) => "cut short".to_owned(),
        n => format!("DIFFERENT ({n} of {} equal)", figures.len()),
    }
}

impl fmt::Display for Table {
    /// Prints aligned columns with a rule below the headings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.headings.iter().map(|(name, _)| (*name).to_owned()).collect();
        let units: Vec<String> = self.headings.iter().map(|(_, unit)| (*unit).to_owned()).collect();
        let all = || [&names, &units].into_iter().chain(&self.rows);
        let width = |i: usize| all().filter_map(|r| r.get(i)).map(|s| s.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..names.len()).map(width).collect();
        for (n, row) in all().enumerate() {
            let mut line = String::from(" ");
            for (i, (field, width)) in row.iter().zip(&widths).enumerate() {
                line += &if i == 0 { format!(" {field:<width$}") } else { format!("  {field:>width$}") };
            }
            writeln!(f, "{}", line.trim_end())?;
            if n == 1 {
                writeln!(f, "  {}", "─".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1)))?;
            }
        }
        Ok(())
    }
}
