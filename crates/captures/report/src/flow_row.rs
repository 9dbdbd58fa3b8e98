//! [`FlowRow`]: a flow as one row, every figure of the JSON schema a column.

use analysis::FlowReport;
use serde_json::Value as Json;
use tables::{Column, ColumnKind, Value};

/// The definitions that name the columns.
const DEFINITIONS: &str = include_str!("../../../../schemas/analysis.schema.json");

/// Column of a figure of a report in its row.
#[derive(Clone, Debug)]
enum Place {
    /// One column.
    Column(usize),
    /// An object: fields by name, in the order in which they are written.
    Object(Vec<(String, Place)>),
    /// One object for each direction.
    Directions([Box<Place>; 2]),
}

impl Place {
    /// Puts a value, or its parts, where they belong; what has no place is left out.
    fn put(&self, value: Json, row: &mut [Value]) {
        match (self, value) {
            (Self::Column(index), value) => row[*index] = cell(value),
            (Self::Object(fields), Json::Object(mut object)) => {
                for (name, place) in fields {
                    place.put(object.remove(name).unwrap_or_default(), row);
                }
            }
            (Self::Directions(places), Json::Array(items)) => {
                places.iter().zip(items).for_each(|(place, item)| place.put(item, row));
            }
            _ => {}
        }
    }
}

/// The value of a column; several items share one.
fn cell(value: Json) -> Value {
    match value {
        Json::Null | Json::Object(_) => Value::Null,
        Json::Bool(is) => is.into(),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(whole)) => whole.into(),
            (None, None) => number.as_f64().into(),
        },
        Json::String(text) => text.into(),
        // A list without items is no text, which a database can count.
        Json::Array(items) if items.is_empty() => Value::Null,
        Json::Array(items) => items.iter().map(item).collect::<Vec<_>>().join("; ").into(),
    }
}

/// An item of those that share a column.
fn item(item: &Json) -> String {
    match (item["kind"].as_str(), item["evidence"].as_str()) {
        (Some(kind), Some(evidence)) => format!("{kind}: {evidence}"),
        _ => item.to_string(),
    }
}

/// The columns of a flow, and the way from a report to its row.
#[derive(Clone, Debug)]
pub(crate) struct FlowRow {
    columns: Vec<Column>,
    root: Place,
    /// Names of the captures.
    files: Vec<String>,
}

impl FlowRow {
    /// For flows of the captures with these names.
    pub(crate) fn new(files: Vec<String>) -> Self {
        let schema: Json = serde_json::from_str(DEFINITIONS).unwrap_or_default();
        let mut columns = vec![Column::text("file").meaning("The file in which its first packet lies")];
        for (end, sender) in [("first", "sender of the first packet"), ("second", "other end")] {
            let of = |what: &str| format!("{what} of the {sender}");
            columns.push(Column::text(format!("{end}_address")).meaning(of("Address")));
            columns.push(Column::int(format!("{end}_port")).meaning(of("Port")));
        }
        let root = object(&schema["$defs"], "flow_report", "", &mut columns);
        Self { columns, root, files }
    }

    /// The columns: names are those of the JSON, joined by `_`; `a2b_` and `b2a_` stand before those of the
    /// directions, as in tcptrace: `a` sent the first packet.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Name of the file with this number.
    pub(crate) fn file(&self, capture: u16) -> Option<&str> {
        self.files.get(usize::from(capture)).map(String::as_str)
    }

    /// The row of a flow; what is not known is missing.
    pub(crate) fn of(&self, flow: &FlowReport) -> Vec<Value> {
        let mut row = vec![self.file(flow.capture).into()];
        for end in [flow.first, flow.second] {
            row.extend([end.ip().to_string().into(), u64::from(end.port()).into()]);
        }
        row.resize(self.columns.len(), Value::Null);
        // Every field that the report has is in the schema, which a test of the analysis checks.
        self.root.put(serde_json::to_value(flow).unwrap_or_default(), &mut row);
        row
    }
}

fn object(definitions: &Json, name: &str, prefix: &str, columns: &mut Vec<Column>) -> Place {
    let definition = &definitions[name];
    let required: Vec<&str> =
        definition["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let properties = definition["properties"].as_object();
    let others = properties.into_iter().flat_map(|all| all.keys()).map(String::as_str);
    let others: Vec<&str> = others.filter(|field| !required.contains(field)).collect();
    let places = required.iter().chain(&others).map(|field| {
        let place = field_place(definitions, &definition["properties"][*field], prefix, field, columns);
        ((*field).to_owned(), place)
    });
    Place::Object(places.collect())
}

fn field_place(
    definitions: &Json,
    schema: &Json,
    prefix: &str,
    field: &str,
    columns: &mut Vec<Column>,
) -> Place {
    let references = [&schema["$ref"], &schema["anyOf"][0]["$ref"], &schema["items"]["$ref"]];
    let inner = references.iter().find_map(|r| r.as_str()).and_then(|r| r.rsplit('/').next());
    let is_object = inner.filter(|inner| definitions[*inner]["properties"].is_object());
    match is_object {
        Some(inner) if field == "directions" => Place::Directions(
            ["a2b_", "b2a_"]
                .map(|way| Box::new(object(definitions, inner, &format!("{prefix}{way}"), columns))),
        ),
        Some(inner) if schema["type"] != "array" => {
            object(definitions, inner, &format!("{prefix}{field}_"), columns)
        }
        _ => {
            columns.push(column(&format!("{prefix}{field}"), schema));
            Place::Column(columns.len() - 1)
        }
    }
}

fn column(name: &str, schema: &Json) -> Column {
    let types = &schema["type"];
    let is =
        |wanted: &str| types == wanted || types.as_array().is_some_and(|all| all.contains(&wanted.into()));
    let kind = match () {
        () if is("integer") => ColumnKind::Int,
        () if is("number") => ColumnKind::Float,
        () if is("boolean") => ColumnKind::Bool,
        () => ColumnKind::Text,
    };
    let mut column = Column::new(name, kind);
    column.unit = unit(name).map(str::to_owned);
    column.meaning(schema["description"].as_str().unwrap_or_default())
}

/// The unit that a name ends in.
fn unit(name: &str) -> Option<&'static str> {
    let of_ending = [("_bps", "bit/s"), ("_ms", "ms"), ("_ns", "ns"), ("_s", "s"), ("bytes", "B")];
    of_ending.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, unit)| *unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_schema() {
        let row = FlowRow::new(Vec::new());
        let column = |name: &str| row.columns().iter().find(|column| column.name == name).cloned();
        let kind = |name: &str| column(name).map(|column| column.kind);
        let first: Vec<&str> = row.columns().iter().take(6).map(|column| column.name.as_str()).collect();
        assert_eq!(
            first,
            ["file", "first_address", "first_port", "second_address", "second_port", "id"],
            "in columns of their own"
        );
        assert_eq!(
            (kind("first_address"), kind("second_port")),
            (Some(ColumnKind::Text), Some(ColumnKind::Int))
        );
        assert_eq!(kind("id"), Some(ColumnKind::Int));
        assert_eq!(kind("end"), Some(ColumnKind::Text));
        assert_eq!(kind("vantage"), Some(ColumnKind::Text));
        assert_eq!(kind("diagnoses"), Some(ColumnKind::Text));
        assert_eq!(kind("mptcp"), Some(ColumnKind::Bool));
        assert_eq!(kind("b2a_window_scale"), Some(ColumnKind::Int));
        let percentile = column("b2a_rtt_karn_p95_ms").unwrap();
        assert_eq!((percentile.kind, percentile.unit.as_deref()), (ColumnKind::Float, Some("ms")));
        assert!(!percentile.meaning.is_empty());
        let mut names: Vec<&str> = row.columns().iter().map(|column| column.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), row.columns().len(), "names are unique");
    }
}
