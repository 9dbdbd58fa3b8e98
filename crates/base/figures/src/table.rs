//! [`Table`]: rows of text for terminal, page and Markdown.
//!
//! It is our own: `comfy-table` fits a table to a terminal by wrapping fields, which tears numbers apart;
//! here whole columns go, the least needed first, and the reader is told.

use std::fmt;

use maud::{Markup, html};

use crate::chart::{Ink, class};

/// Columns with headings and rows of text; every column but the first is aligned right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Heading of each column: name and unit.
    pub headings: Vec<(&'static str, &'static str)>,
    /// Rows with as many fields as there are headings.
    pub rows: Vec<Vec<String>>,
}

/// Column of a table of `T`s: its name, its unit, and its field in the row of each.
pub type TableColumn<'a, T> = (&'static str, &'static str, &'a dyn Fn(&T) -> String);

impl Table {
    /// The table with a row for each of `items`.
    #[must_use]
    pub fn of<T>(items: &[T], columns: &[TableColumn<'_, T>]) -> Self {
        let row = |item: &T| columns.iter().map(|(_, _, field)| field(item)).collect();
        Self {
            headings: columns.iter().map(|(name, unit, _)| (*name, *unit)).collect(),
            rows: items.iter().map(row).collect(),
        }
    }

    /// The table in at most `width` columns of a terminal: columns go, in the order of `may_go` (their
    /// names), until it fits. None is cut. Gives the names of those that went as well.
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

    /// The table as text, [fitted](Self::fitting) to a terminal; below it the names of columns that went.
    #[must_use]
    pub fn for_terminal(&self, width: usize, may_go: &[&str]) -> String {
        let (table, gone) = self.fitting(width, may_go);
        match gone.as_slice() {
            [] => table.to_string(),
            gone => format!("{table}  the terminal is too narrow for: {}\n", gone.join(", ")),
        }
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

/// Look of a field in HTML: its class, if any.
type Look<'a> = &'a dyn Fn(&str) -> Option<&'static str>;

impl Table {
    /// The table in a page. Where it is too wide for the screen, its rows become blocks in which each field
    /// names itself. `colour` gives the number of a row's colour, `look` a field's class.
    #[must_use]
    pub fn html(&self, colour: &dyn Fn(&[String]) -> Option<usize>, look: Look<'_>) -> Markup {
        let heading = |column: usize| self.headings.get(column).copied().unwrap_or_default();
        let label = |column: usize| match heading(column) {
            (name, "") => name.to_owned(),
            (name, unit) => format!("{name}, {unit}"),
        };
        html! {
            div class="scroll" {
                table class="fields" {
                    thead { tr { @for (name, unit) in &self.headings { th { (name) small { (unit) } } } } }
                    tbody {
                        @for row in &self.rows {
                            @let colour = colour(row);
                            tr class=[colour.map(|number| class(Ink::Colour(number)))] {
                                @for (column, field) in row.iter().enumerate() {
                                    // A number alone does not say what it is of.
                                    @let is_number = column == 0 && field.starts_with(|c: char| c.is_ascii_digit());
                                    td class=[look(field)] data-label=(label(column)) data-number[is_number] {
                                        @if column == 0 && colour.is_some() { span class="swatch" {} }
                                        (field)
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The table in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |fields: &mut dyn Iterator<Item = String>| -> String {
            format!("| {} |\n", fields.map(|field| field.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
        };
        let heading = |(name, unit): &(&str, &str)| match *unit {
            "" => (*name).to_owned(),
            unit => format!("{name}, {unit}"),
        };
        let rules = (0..self.headings.len()).map(|column| if column == 0 { "---" } else { "---:" });
        let text = line(&mut self.headings.iter().map(heading))
            + &format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
        self.rows.iter().fold(text, |text, row| text + &line(&mut row.iter().cloned()))
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
    fn a_page_and_markdown_have_every_field() {
        let table = Table {
            headings: vec![("case", ""), ("rate", "Mbit/s")],
            rows: vec![vec!["a|b".to_owned(), "<1".to_owned()]],
        };
        assert_eq!(table.markdown(), "| case | rate, Mbit/s |\n|---|---:|\n| a\\|b | <1 |\n");
        let html = table.html(&|_| Some(2), &|field| field.starts_with('<').then_some("less")).into_string();
        assert!(html.contains("<tr class=\"c2\">") && html.contains("<span class=\"swatch\">"), "{html}");
        assert!(html.contains("<td class=\"less\" data-label=\"rate, Mbit/s\">&lt;1</td>"), "{html}");
    }

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
