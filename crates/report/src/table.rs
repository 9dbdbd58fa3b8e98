//! [`summary`]: one row per case, the same figures for terminal and page.

use std::fmt;

use scenario::results::{CaseResult, Figures, ScenarioResult};

use crate::compare::Moments;

/// Columns with headings and rows of text; every column but the first is aligned right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Heading of each column: name and unit.
    pub headings: Vec<(&'static str, &'static str)>,
    /// Rows with as many fields as there are headings.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The table in at most `width` columns of a terminal: columns go, in the order of `may_go` (their names), until it fits. None is
    /// cut. Gives the names of those that went as well.
    #[must_use]
    pub fn fitting(&self, width: usize, may_go: &[&str]) -> (Self, Vec<&'static str>) {
        let (mut table, mut gone) = (self.clone(), Vec::new());
        for name in may_go {
            if table.width() <= width {
                break;
            }
            let Some(at) = table.headings.iter().position(|(heading, _)| heading == name) else { continue };
            gone.push(table.headings.remove(at).0);
            for row in &mut table.rows {
                if at < row.len() {
                    row.remove(at);
                }
            }
        }
        (table, gone)
    }

    /// Columns of a terminal that it takes.
    #[must_use]
    pub fn width(&self) -> usize {
        let widths = self.widths();
        // Two spaces before each column.
        widths.iter().sum::<usize>() + 2 * widths.len()
    }

    fn widths(&self) -> Vec<usize> {
        let count = |text: &str| text.chars().count();
        let heading = |i: usize| self.headings.get(i).map_or(0, |(name, unit)| count(name).max(count(unit)));
        let field = |i: usize| self.rows.iter().filter_map(|r| r.get(i)).map(|s| count(s)).max().unwrap_or(0);
        (0..self.headings.len()).map(|i| heading(i).max(field(i))).collect()
    }
}

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

/// The columns of [`summary`] that a narrow terminal can do without, the least needed first.
pub const SUMMARY_MAY_GO: [&str; 5] = ["queue p50", "resent", "window", "sender", "link used"];

/// The summary of a scenario: one row per case; of one that was repeated the means, and behind the throughput its standard deviation.
/// A question mark marks a case with doubtful figures.
#[must_use]
pub fn summary(result: &ScenarioResult) -> Table {
    let mut table = Table { headings: vec![("case", ""), ("sender", "")], rows: Vec::new() };
    table.headings.extend(COLUMNS.iter().map(|(name, unit, _)| (*name, *unit)));
    for (name, cases) in grouped(result) {
        let figures: Vec<&Figures> = cases.iter().filter_map(|c| c.figures.as_ref()).collect();
        let is_doubtful = cases.iter().any(|case| !case.doubts.is_empty());
        let mut row = vec![if is_doubtful { format!("{name} ?") } else { name.to_owned() }];
        row.push(cases.first().map_or_else(String::new, |case| case.sender().to_owned()));
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

/// The mean of `value` over repetitions, or a dash.
fn number(figures: &[&Figures], decimals: usize, value: fn(&Figures) -> Option<f64>) -> String {
    let values: Vec<f64> = figures.iter().filter_map(|f| value(f)).collect();
    Moments::of(&values).map_or_else(|| "–".to_owned(), |m| format!("{:.decimals$}", m.mean))
}

/// The same with the standard deviation where there are repetitions.
fn spread(figures: &[&Figures], decimals: usize, value: fn(&Figures) -> f64) -> String {
    let values: Vec<f64> = figures.iter().map(|f| value(f)).collect();
    let Some(moments) = Moments::of(&values) else { return "–".to_owned() };
    let deviation =
        moments.deviation.map_or_else(String::new, |deviation| format!(" ±{deviation:.decimals$}"));
    format!("{:.decimals$}{deviation}", moments.mean)
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
        let widths = self.widths();
        let has_units = units.iter().any(|unit| !unit.is_empty());
        let headings = [&names, &units].into_iter().take(1 + usize::from(has_units));
        let last_heading = usize::from(has_units);
        for (n, row) in headings.chain(&self.rows).enumerate() {
            let mut line = String::from(" ");
            for (i, (field, width)) in row.iter().zip(&widths).enumerate() {
                line += &if i == 0 { format!(" {field:<width$}") } else { format!("  {field:>width$}") };
            }
            writeln!(f, "{}", line.trim_end())?;
            if n == last_heading {
                writeln!(f, "  {}", "─".repeat(self.width() - 2))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_none_is_cut() {
        let table = Table {
            headings: vec![("case", ""), ("a", "ms"), ("long heading", ""), ("b", "")],
            rows: vec![vec!["direct".to_owned(), "1".to_owned(), "2".to_owned(), "33333".to_owned()]],
        };
        let lines = |table: &Table| -> Vec<usize> {
            table.to_string().lines().map(|line| line.chars().count()).collect()
        };
        assert_eq!(lines(&table).into_iter().max(), Some(table.width()));
        let (same, gone) = table.fitting(80, &["long heading", "a"]);
        assert!(gone.is_empty() && same.rows == table.rows);
        let (narrow, gone) = table.fitting(20, &["long heading", "a"]);
        assert_eq!((narrow.width(), gone), (19, vec!["long heading"]));
        assert_eq!(narrow.rows, [["direct", "1", "33333"]]);
        assert!(lines(&narrow).into_iter().all(|width| width <= 20));
    }
}
