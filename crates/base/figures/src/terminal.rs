//! [`for_terminal`]: a Markdown page of tables for a terminal, whose width it keeps.

use crate::wrapped;

/// The least width of a first column whose words are wrapped.
const FIRST_MIN: usize = 20;

/// `markdown` in at most `columns`: words are wrapped, and so is the first column of a table; of a table that
/// still does not fit the last columns go, which is said below it. Nothing is cut.
#[must_use]
pub fn for_terminal(markdown: &str, columns: usize) -> String {
    let (mut text, mut rows): (String, Vec<Vec<String>>) = (String::new(), Vec::new());
    for line in markdown.lines() {
        if line.starts_with('|') {
            rows.push(cells(line));
            continue;
        }
        text += &table(&std::mem::take(&mut rows), columns);
        text += &wrapped(&plain(line), columns).join("\n");
        text.push('\n');
    }
    text + &table(&rows, columns)
}

fn cells(line: &str) -> Vec<String> {
    line.trim().trim_matches('|').split('|').map(|cell| plain(cell.trim())).collect()
}

/// Without the marks of Markdown that a terminal does not show.
fn plain(text: &str) -> String {
    text.replace("**", "").replace('`', "")
}

fn table(rows: &[Vec<String>], columns: usize) -> String {
    let is_rule = |row: &&Vec<String>| !row.iter().all(|cell| cell.chars().all(|c| c == '-' || c == ':'));
    let rows: Vec<&Vec<String>> = rows.iter().filter(is_rule).collect();
    let Some(heading) = rows.first() else { return String::new() };
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut kept = heading.len();
    let others = |kept: usize| (1..kept).map(|column| 2 + width(column)).sum::<usize>();
    while kept > 2 && width(0).min(FIRST_MIN) + others(kept) > columns {
        kept -= 1;
    }
    let first = width(0).min(columns.saturating_sub(others(kept)).max(FIRST_MIN));
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let name = wrapped(row.first().map_or("", String::as_str), first);
        for (line, part) in name.iter().enumerate() {
            text += &format!("{part:<first$}");
            for column in 1..if line == 0 { kept } else { 0 } {
                let cell = row.get(column).map_or("", String::as_str);
                text += &format!("  {cell:>0$}", width(column));
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        if number == 0 {
            text += &"─".repeat(first + others(kept));
            text.push('\n');
        }
    }
    if kept < heading.len() {
        let gone: Vec<&str> =
            heading[kept..].iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        let note = format!("(not shown for want of width: {})", gone.join(", "));
        text += &wrapped(&note, columns).join("\n");
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Benchmark\n\nSome words that are much longer than what fits into forty columns.\n\n\
        | figure | median | aim | pairs | |\n|---|---|---|---|---|\n\
        | Throughput, 1 flow: accelerating ÷ bare echo | 0.86 (0.77–0.91) | ≥ 0.60 | 5 | met |\n\
        | Time | 2.48 | ≤ 1.50 | 5 | **missed** |\n";

    #[test]
    fn no_line_is_longer_than_the_terminal_and_nothing_is_cut() {
        for columns in [40, 60, 80] {
            let text = for_terminal(PAGE, columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
            for word in "Throughput, 1 flow: accelerating ÷ bare echo".split(' ') {
                assert!(text.contains(word), "{columns}: {word} is missing in\n{text}");
            }
        }
        assert!(for_terminal(PAGE, 40).contains("(not shown for want of width: "));
        let wide = for_terminal(PAGE, 120);
        assert!(!wide.contains("not shown") && wide.contains("2.48  ≤ 1.50      5  missed"), "{wide}");
    }
}
