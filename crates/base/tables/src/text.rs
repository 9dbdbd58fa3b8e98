//! Rows as text: CSV (RFC 4180) and JSON lines.

use std::fmt::Write as _;

use crate::schema::Column;
use crate::value::Value;

/// The header line of CSV.
pub(crate) fn header(columns: &[Column]) -> String {
    let names: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
    names.join(",") + "\n"
}

/// A row as a line of CSV; what is missing is empty.
pub(crate) fn csv(row: &[Value]) -> String {
    let mut line = String::new();
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        let _ = match value {
            Value::Null => Ok(()),
            Value::Bool(value) => write!(line, "{value}"),
            Value::Int(value) => write!(line, "{value}"),
            Value::Float(value) => write!(line, "{value}"),
            Value::Text(value) => write!(line, "{}", quoted(value)),
        };
    }
    line.push('\n');
    line
}

/// A row as a line of JSON; what is missing is null.
pub(crate) fn json(columns: &[Column], row: &[Value]) -> String {
    let mut line = String::from("{");
    for (index, (column, value)) in columns.iter().zip(row).enumerate() {
        let separator = if index > 0 { "," } else { "" };
        let name = serde_json::Value::from(column.name.as_str());
        let value = serde_json::to_value(value).unwrap_or_default();
        let _ = write!(line, "{separator}{name}:{value}");
    }
    line + "}\n"
}

/// A field of CSV, in quotes where it needs them. An empty text is quoted, a missing one is not.
fn quoted(text: &str) -> String {
    match text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_where_needed_and_missing_is_not_empty() {
        let row = ["a, \"b\"".into(), Value::Null, "".into(), 1.5.into(), true.into(), (-3).into()];
        assert_eq!(csv(&row), "\"a, \"\"b\"\"\",,\"\",1.5,true,-3\n");
        let columns = [Column::text("x"), Column::int("y")];
        assert_eq!(json(&columns, &["a\n\"".into(), Value::Null]), "{\"x\":\"a\\n\\\"\",\"y\":null}\n");
        assert_eq!(header(&columns), "x,y\n");
    }
}
