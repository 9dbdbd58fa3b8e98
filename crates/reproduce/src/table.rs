//! [`Table`]: the paper's values and ours side by side.

use serde::{Deserialize, Serialize};

use crate::Moments;

/// Where values come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Printed in the paper.
    Paper,
    /// Our runs of what the paper ran.
    Ours,
    /// Our runs with the project's own controller.
    Adaptive,
    /// What no scheme can exceed on this link.
    Limit,
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
            Self::Ratio => "ratio",
        }
    }
}

/// A column of a [`Table`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Where its values come from.
    pub source: Source,
    /// What they are.
    pub heading: String,
    /// Their unit; empty for none.
    pub unit: String,
    /// Decimals shown.
    pub digits: u8,
}

/// A field of a [`Table`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
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
}

impl Value {
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
        let deviation = moments.filter(|m| m.count > 1).map(|m| m.deviation);
        Self { deviation, ..Self::from(moments.map(|m| m.mean)) }
    }
}
impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::default() }
    }
}

/// A row of a [`Table`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What it is about.
    pub label: String,
    /// One value per column.
    pub values: Vec<Value>,
}

/// The paper's values and ours side by side.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Table {
    /// What it shows.
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

    /// Adds a row; what is missing at its end is empty.
    pub fn row(&mut self, label: impl Into<String>, values: Vec<Value>) {
        let mut values = values;
        values.resize(self.columns.len(), Value::default());
        self.rows.push(Row { label: label.into(), values });
    }

    /// Drops rows and columns without a value of ours.
    pub(crate) fn keep_measured(&mut self) {
        let columns = self.columns.clone();
        let is_ours = |row: &Row| {
            columns.iter().zip(&row.values).any(|(c, v)| c.source != Source::Paper && v.mean.is_some())
        };
        self.rows.retain(is_ours);
        let is_kept: Vec<bool> = (0..self.columns.len())
            .map(|i| self.rows.iter().any(|row| row.values.get(i).is_some_and(|v| *v != Value::default())))
            .collect();
        let mut kept = is_kept.iter();
        self.columns.retain(|_| kept.next().copied().unwrap_or(true));
        for row in &mut self.rows {
            let mut kept = is_kept.iter();
            row.values.retain(|_| kept.next().copied().unwrap_or(true));
        }
    }

    /// The texts of a row.
    pub(crate) fn texts<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = (&'a Column, String)> {
        self.columns.iter().zip(&row.values).map(|(column, value)| (column, value.show(column.digits)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_with_their_spread_or_as_a_dash() {
        let moments = Moments { mean: 1.25, deviation: 0.5, count: 3 };
        assert_eq!(Value::from(Some(moments)).show(1), "1.2 ± 0.5");
        assert_eq!(Value::from(Some(Moments { count: 1, ..moments })).show(2), "1.25");
        assert_eq!(Value::from(f64::NAN).show(2), "–");
        assert_eq!(
            (Value::from(-0.04).show(1), Value::from(-0.06).show(1)),
            ("0.0".to_owned(), "-0.1".to_owned())
        );
        assert_eq!(Value::from("none").show(2), "none");
    }

    #[test]
    fn a_short_row_is_filled() {
        let mut table =
            Table::new("t", "rate").column(Source::Paper, "a", "ms", 0).column(Source::Ours, "b", "", 1);
        table.row("x", vec![3.0.into()]);
        let texts: Vec<String> = table.texts(&table.rows[0]).map(|(_, text)| text).collect();
        assert_eq!(texts, ["3", "–"]);
    }
}
