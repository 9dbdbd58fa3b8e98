//! [`FlowLines`]: one line per flow, as CSV or JSON.

use std::io::{self, Write};

use analysis::{FlowReport, SCHEMA};
use serde_json::Value;

/// The definitions that name the columns.
const DEFINITIONS: &str = include_str!("../../../schemas/analysis.schema.json");

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// RFC 4180, with a header line.
    Csv,
    /// One JSON object per line.
    Json,
}

/// One column: its name and the way to its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    path: String,
}

/// Writes flows as lines. Columns are those of the JSON schema: always all of them, in one order; what is not known is
/// empty.
#[derive(Debug)]
pub struct FlowLines<W> {
    out: W,
    format: LineFormat,
    columns: Vec<Column>,
    failed: Option<io::Error>,
}

impl<W: Write> FlowLines<W> {
    /// Writes the header, if the format has one.
    pub fn new(out: W, format: LineFormat) -> Self {
        let columns = if format == LineFormat::Csv { columns() } else { Vec::new() };
        let mut lines = Self { out, format, columns, failed: None };
        if format == LineFormat::Csv {
            let names: Vec<&str> = lines.columns.iter().map(|column| column.name.as_str()).collect();
            let header = names.join(",");
            lines.line(&header);
        }
        lines
    }

    fn line(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{text}").err();
        }
    }

    /// Writes one flow.
    pub fn push(&mut self, flow: &FlowReport) {
        let Ok(mut value) = serde_json::to_value(flow) else { return };
        if self.format == LineFormat::Json {
            value["schema"] = SCHEMA.into();
            return self.line(&value.to_string());
        }
        let fields: Vec<String> =
            self.columns.iter().map(|column| field(value.pointer(&column.path))).collect();
        self.line(&fields.join(","));
    }

    /// Ends the lines.
    ///
    /// # Errors
    /// Writing failed, now or before.
    pub fn finish(mut self) -> io::Result<()> {
        self.failed.map_or_else(|| self.out.flush(), Err)
    }
}

/// The columns of a flow: every figure of the schema, `1to2_` and `2to1_` before those of the directions.
fn columns() -> Vec<Column> {
    let schema: Value = serde_json::from_str(DEFINITIONS).unwrap_or_default();
    let mut found = Vec::new();
    walk(&schema["$defs"], "flow_report", "", "", &mut found);
    found
}

fn walk(definitions: &Value, object: &str, name: &str, path: &str, found: &mut Vec<Column>) {
    for (field, schema) in definitions[object]["properties"].as_object().into_iter().flatten() {
        let reference = [&schema["$ref"], &schema["anyOf"][0]["$ref"], &schema["items"]["$ref"]];
        let inner = reference.iter().find_map(|r| r.as_str()).and_then(|r| r.rsplit('/').next());
        let is_object = inner.filter(|inner| definitions[*inner]["properties"].is_object());
        let (name, path) = (format!("{name}{field}"), format!("{path}/{field}"));
        match (is_object, field.as_str()) {
            (Some(inner), "directions") => {
                walk(definitions, inner, "1to2_", &format!("{path}/0"), found);
                walk(definitions, inner, "2to1_", &format!("{path}/1"), found);
            }
            (Some(inner), _) if schema["type"] != "array" => {
                walk(definitions, inner, &format!("{name}_"), &path, found);
            }
            _ => found.push(Column { name, path }),
        }
    }
}

/// A value as a CSV field.
fn field(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => quoted(text),
        Some(Value::Array(items)) => {
            let said = |item: &Value| match (item["kind"].as_str(), item["evidence"].as_str()) {
                (Some(kind), Some(evidence)) => format!("{kind}: {evidence}"),
                _ => item.to_string(),
            };
            quoted(&items.iter().map(said).collect::<Vec<_>>().join("; "))
        }
        Some(other) => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_schema() {
        let columns = columns();
        let path = |name: &str| columns.iter().find(|column| column.name == name).map(|c| c.path.as_str());
        assert_eq!(path("id"), Some("/id"));
        assert_eq!(path("handshake_total_ms"), Some("/handshake/total_ms"));
        assert_eq!(path("2to1_rtt_karn_p95_ms"), Some("/directions/1/rtt/karn/p95_ms"));
        assert_eq!(path("diagnoses"), Some("/diagnoses"));
        let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), columns.len(), "names are unique");
    }

    #[test]
    fn fields_are_quoted_where_needed() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(field(None), "");
    }
}
