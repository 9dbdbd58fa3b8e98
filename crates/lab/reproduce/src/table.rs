//! [`Table`]: the paper's values and ours side by side.

use serde::{Deserialize, Serialize};

use figures::stats::Moments;

/// Source of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Printed in the paper.
    Paper,
    /// Our runs of what the paper ran.
    Ours,
    /// Our runs with the project's own controller.
    Adaptive,
    /// Bound that no scheme can exceed on this link.
    Limit,
    /// In a figure of the lab's: the same scenario files in virtual time.
    Simulated,
    /// One value over another.
    Ratio,
}

impl Source {
    /// The word for it in headings.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Ours => "ours",
            Self::Adaptive => "adaptive",
            Self::Limit => "limit",
            Self::Simulated => "simulated",
            Self::Ratio => "ratio",
        }
    }
}

/// A column of a table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Column {
    /// Source of its values.
    pub source: Source,
    /// Heading that names the values.
    pub heading: String,
    /// Their unit; empty for none.
    pub unit: String,
    /// Decimals shown.
    pub digits: u8,
}

/// A field of a table: a number, with its standard deviation over repetitions, or text; empty for nothing.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Value {
    /// The number; none where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Standard deviation over repetitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// Text in place of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Value that the same scenario files give in virtual time, beside a value from the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Box<Value>>,
}

impl Value {
    /// Nothing was measured for it.
    fn is_empty(&self) -> bool {
        self.mean.is_none() && self.text.is_none()
    }

    /// It as text with `digits` decimals; a dash for nothing.
    #[must_use]
    pub fn show(&self, digits: u8) -> String {
        let digits = usize::from(digits);
        match (&self.text, self.mean, self.deviation) {
            (Some(text), ..) => text.clone(),
            (None, Some(mean), Some(deviation)) => {
                format!("{} ± {deviation:.digits$}", rounded(mean, digits))
            }
            (None, Some(mean), None) => rounded(mean, digits),
            (None, None, _) => "–".to_owned(),
        }
    }
}

/// `value` with `digits` decimals, without a sign where they are all zero.
fn rounded(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if is_zero { text.trim_start_matches('-').to_owned() } else { text }
}

impl From<f64> for Value {
    fn from(mean: f64) -> Self {
        Self::from(Some(mean))
    }
}
impl From<Option<f64>> for Value {
    fn from(mean: Option<f64>) -> Self {
        Self { mean: mean.filter(|v| v.is_finite()), ..Self::default() }
    }
}
impl From<Option<Moments>> for Value {
    fn from(moments: Option<Moments>) -> Self {
        let deviation = moments.and_then(|moments| moments.deviation());
        Self { deviation, ..Self::from(moments.map(|m| m.mean)) }
    }
}
impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::default() }
    }
}

/// A row of a table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// Label of the row.
    pub label: String,
    /// One value per column.
    pub values: Vec<Value>,
}

/// The paper's values and ours side by side.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Table {
    /// Title of the table.
    pub title: String,
    /// Heading of the rows' labels.
    pub rows_are: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// A table without columns and rows.
    #[must_use]
    pub fn new(title: &str, rows_are: &str) -> Self {
        Self { title: title.to_owned(), rows_are: rows_are.to_owned(), columns: Vec::new(), rows: Vec::new() }
    }

    /// The same with one more column.
    #[must_use]
    pub fn column(mut self, source: Source, heading: &str, unit: &str, digits: u8) -> Self {
        self.columns.push(Column { source, heading: heading.to_owned(), unit: unit.to_owned(), digits });
        self
    }

    /// The same with a column for each of these headings.
    #[must_use]
    pub fn columns<S: AsRef<str>>(
        self,
        headings: impl IntoIterator<Item = (Source, S)>,
        unit: &str,
        digits: u8,
    ) -> Self {
        let one = |table: Self, (source, heading): (Source, S)| {
            table.column(source, heading.as_ref(), unit, digits)
        };
        headings.into_iter().fold(self, one)
    }

    /// Adds a row; what is missing at its end is empty.
    pub fn row(&mut self, label: impl Into<String>, values: Vec<Value>) {
        let mut values = values;
        values.resize(self.columns.len(), Value::default());
        self.rows.push(Row { label: label.into(), values });
    }

    /// Puts the values of `simulated` beside those of ours.
    pub(crate) fn put_beside(&mut self, simulated: &Self) {
        let columns = &self.columns;
        for (row, beside) in self.rows.iter_mut().zip(&simulated.rows).filter(|(a, b)| a.label == b.label) {
            for ((column, value), beside) in columns.iter().zip(&mut row.values).zip(&beside.values) {
                let is_there = column.source != Source::Paper && !beside.is_empty();
                value.simulated = is_there.then(|| Box::new(beside.clone()));
            }
        }
    }

    /// The columns as they are shown: what was simulated beside the lab's values stands before them.
    pub(crate) fn shown(&self) -> Vec<Shown<'_>> {
        let is_beside =
            |i: usize| self.rows.iter().any(|row| row.values.get(i).is_some_and(|v| v.simulated.is_some()));
        let is_lab = (0..self.columns.len()).any(is_beside);
        let mut shown = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            let place = |is_simulated| Shown { column, index, is_simulated, is_lab };
            if is_beside(index) {
                shown.push(place(true));
            }
            shown.push(place(false));
        }
        shown
    }

    /// Drops rows and columns without a value of ours.
    pub(crate) fn keep_measured(&mut self) {
        let columns = self.columns.clone();
        let is_ours = |row: &Row| {
            columns.iter().zip(&row.values).any(|(c, v)| c.source != Source::Paper && v.mean.is_some())
        };
        self.rows.retain(is_ours);
        let is_kept: Vec<bool> = (0..self.columns.len())
            .map(|i| self.rows.iter().any(|row| row.values.get(i).is_some_and(|v| !v.is_empty())))
            .collect();
        let mut kept = is_kept.iter();
        self.columns.retain(|_| kept.next().copied().unwrap_or(true));
        for row in &mut self.rows {
            let mut kept = is_kept.iter();
            row.values.retain(|_| kept.next().copied().unwrap_or(true));
        }
    }
}

/// A column as it is shown.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub column: &'a Column,
    index: usize,
    /// It has what was simulated beside the lab's values.
    pub is_simulated: bool,
    /// Its table has values of the lab.
    is_lab: bool,
}

impl Shown<'_> {
    /// Source of its values, in words; empty for a ratio.
    pub fn words(&self) -> String {
        let of = self.column.source;
        let place = if self.is_simulated { "simulated" } else { "kernel" };
        match of {
            Source::Paper => of.word().to_owned(),
            Source::Ratio if !self.is_lab => String::new(),
            _ if !self.is_lab => of.word().to_owned(),
            Source::Ours | Source::Ratio => place.to_owned(),
            Source::Adaptive | Source::Limit | Source::Simulated => format!("{}, {place}", of.word()),
        }
    }

    /// The text of its field in a row.
    pub fn text(&self, row: &Row) -> String {
        let value = row.values.get(self.index);
        let shown = if self.is_simulated { value.and_then(|v| v.simulated.as_deref()) } else { value };
        shown.map_or("–".to_owned(), |value| value.show(self.column.digits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_with_their_spread_or_as_a_dash() {
        assert_eq!(Value::from(Some(Moments::told(1.25, 0.5))).show(1), "1.2 ± 0.5");
        assert_eq!(Value::from(Moments::of([1.25])).show(2), "1.25");
        assert_eq!(Value::from(f64::NAN).show(2), "–");
        assert_eq!(
            (Value::from(-0.04).show(1), Value::from(-0.06).show(1)),
            ("0.0".to_owned(), "-0.1".to_owned())
        );
        assert_eq!(Value::from("none").show(2), "none");
    }

    #[test]
    fn what_was_simulated_stands_before_the_labs_values() {
        let table = |paper: f64, ours: f64| {
            let mut table =
                Table::new("t", "rate").column(Source::Paper, "p", "", 0).column(Source::Ours, "o", "ms", 0);
            table.row("x", vec![paper.into(), ours.into()]);
            table.row("not there", vec![paper.into(), f64::NAN.into()]);
            table
        };
        let mut lab = table(1.0, 3.0);
        assert!(lab.shown().iter().all(|shown| !shown.is_simulated));
        lab.put_beside(&table(1.0, 2.0));
        lab.keep_measured();
        let shown = lab.shown();
        let words: Vec<String> = shown.iter().map(Shown::words).collect();
        assert_eq!(words, ["paper", "simulated", "kernel"]);
        let texts: Vec<String> = shown.iter().map(|shown| shown.text(&lab.rows[0])).collect();
        assert_eq!((lab.rows.len(), texts), (1, vec!["1".to_owned(), "2".to_owned(), "3".to_owned()]));
    }

    #[test]
    fn a_short_row_is_filled() {
        let mut table =
            Table::new("t", "rate").column(Source::Paper, "a", "ms", 0).column(Source::Ours, "b", "", 1);
        table.row("x", vec![3.0.into()]);
        let texts: Vec<String> = table.shown().iter().map(|shown| shown.text(&table.rows[0])).collect();
        assert_eq!(texts, ["3", "–"]);
    }

    #[test]
    fn columns_and_rows_without_a_value_of_ours_are_dropped() {
        let mut table = Table::new("t", "rate")
            .column(Source::Paper, "printed", "", 0)
            .column(Source::Ours, "measured", "", 0)
            .column(Source::Ours, "simulator's", "", 0)
            .column(Source::Paper, "nowhere", "", 0);
        table.row("both", vec![1.0.into(), 2.0.into()]);
        table.row("paper's", vec![1.0.into()]);
        table.row("words", vec![Value::default(), "none".into()]);
        table.keep_measured();
        let headings: Vec<&str> = table.columns.iter().map(|column| column.heading.as_str()).collect();
        assert_eq!(headings, ["printed", "measured"]);
        let labels: Vec<&str> = table.rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(labels, ["both"], "words alone are no measurement");
        assert_eq!(table.rows[0].values.len(), 2);
    }

    #[test]
    fn sources_have_their_words_in_simulation_and_lab() {
        let sources = [Source::Ours, Source::Adaptive, Source::Limit, Source::Ratio, Source::Paper];
        let table = |beside: bool| {
            let table = sources.iter().fold(Table::new("t", "r"), |t, s| t.column(*s, "h", "", 0));
            let mut table = table;
            table.row("x", vec![1.0.into(); 5]);
            if beside {
                let simulated = table.clone();
                table.put_beside(&simulated);
            }
            table.shown().iter().map(Shown::words).collect::<Vec<String>>()
        };
        assert_eq!(table(false), ["ours", "adaptive", "limit", "", "paper"]);
        let lab = ["simulated", "kernel", "adaptive, simulated", "adaptive, kernel", "limit, simulated"];
        assert_eq!(table(true)[..5], lab);
        assert_eq!(table(true)[5..], ["limit, kernel", "simulated", "kernel", "paper"]);
    }

    /// Rows are the same by their labels: another row's value is never put beside.
    #[test]
    fn a_row_of_another_label_is_not_put_beside() {
        let table = |label: &str, value: f64| {
            let mut table = Table::new("t", "r").column(Source::Ours, "h", "", 0);
            table.row(label, vec![value.into()]);
            table
        };
        let mut lab = table("a", 1.0);
        lab.put_beside(&table("b", 2.0));
        assert_eq!(lab.rows[0].values[0].simulated, None);
        lab.put_beside(&table("a", 3.0));
        assert_eq!(lab.rows[0].values[0].simulated.as_deref(), Some(&Value::from(3.0)));
    }

    #[test]
    fn a_value_is_stored_with_what_it_has_only() {
        let stored = |value: Value| serde_json::to_string(&value).unwrap();
        assert_eq!(stored(f64::NAN.into()), "{}");
        assert_eq!(stored(1.5.into()), r#"{"mean":1.5}"#);
        assert_eq!(stored(Some(Moments::told(1.0, 0.5)).into()), r#"{"mean":1.0,"deviation":0.5}"#);
    }
}
