//! The schemas of `schemas/` are those of the types that are written: names, types, what is required, and
//! descriptions, which are the doc comments. `CELLERATOR_WRITE_SCHEMAS=1` writes them anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Those that are not of a type, and why.
const BY_HAND: [(&str, &str); 3] = [
    ("congestion-pages", "tools/measure-pages writes it"),
    ("firewalls", "a test of crates/box/run writes it"),
    ("kernels", "tools/kernels/test-kernels writes it"),
];

/// A file of `schemas/`, without what the names of all have.
struct File {
    name: &'static str,
    title: &'static str,
    /// `schema` of its documents; empty where they have none.
    constant: &'static str,
    /// A doc comment's `none` and `empty` are `null` and `absent` in JSON. Not where the text is shown elsewhere, too.
    is_of_json: bool,
    schema: Value,
}

/// That of what is written of a type. Its title is the constant unless it has one.
fn of<T: JsonSchema>(name: &'static str, constant: &'static str, title: &'static str) -> File {
    let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let title = if title.is_empty() { constant } else { title };
    File { name, title, constant, is_of_json: true, schema: schema.to_value() }
}

/// All that are of types.
fn files() -> Vec<File> {
    let manifest = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let manifest = manifest.into_root_schema_for::<datasets::Manifest>().to_value();
    vec![
        of::<run::AbReport>("ab", "", "What `cellerator ab status --json` prints"),
        of::<bench::Results>("bench-results", bench::SCHEMA, "Results of `cellerator bench`"),
        of::<congestion::CompareReport>("congestion-compare", "cellerator/congestion-compare/1", ""),
        of::<congestion::CongestionStatus>("congestion-status", "cellerator/congestion-status/1", ""),
        of::<contest::Document>("contest", contest::SCHEMA, ""),
        of::<coupled::CoupledStatus>("coupled-status", "cellerator/coupled-status/1", ""),
        of::<datasets::DatasetComparison>(
            "dataset-comparison",
            datasets::COMPARISON_SCHEMA,
            "What `cellerator analyze --compare BEFORE AFTER --json` prints",
        ),
        of::<run::Diagnosis>("doctor", "", "cellerator doctor --json"),
        of::<drwa::DrwaStatus>("drwa-status", "cellerator/drwa-status/1", ""),
        of::<contest::Eliminated>("elimination", "cellerator/elimination/1", ""),
        of::<scenario::results::Results>("lab-results", scenario::results::SCHEMA, ""),
        of::<history::Report>("live-report", history::SCHEMA, "cellerator report --json"),
        File {
            schema: manifest,
            ..of::<datasets::Manifest>(
                "manifest",
                datasets::MANIFEST_SCHEMA,
                "Captures that belong together, for `cellerator analyze --manifest`",
            )
        },
        of::<scenario::multi_path_results::MultiPathResults>(
            "multipath-lab",
            scenario::multi_path_results::SCHEMA,
            "Multi-path scenarios in the lab or the simulator",
        ),
        of::<multipath::SimulationOutcome>(
            "multipath-simulation",
            "",
            "The path state machine over an event file",
        ),
        of::<uplinks::Status>("multipath-status", uplinks::SCHEMA, "State of a running path manager"),
        of::<measure::AllDocument>("probe-all", "cellerator/probe-all/1", ""),
        of::<measure::EnvironmentComparison>("probe-compare", "cellerator/probe-compare/1", ""),
        of::<measure::HopsDocument>("probe-hops", "cellerator/probe-hops/1", ""),
        of::<measure::MiddleboxDocument>("probe-middlebox", "cellerator/probe-middlebox/1", ""),
        of::<measure::RecordDocument>("probe-record", "cellerator/probe-record/1", ""),
        of::<measure::RttDocument>("probe-rtt", "cellerator/probe-rtt/1", ""),
        of::<measure::SweepDocument>("probe-sweep", "cellerator/probe-sweep/1", ""),
        of::<measure::TcpDocument>("probe-tcp", "cellerator/probe-tcp/1", ""),
        of::<measure::TimeoutDocument>("probe-timeout", "cellerator/probe-timeout/1", ""),
        of::<reproduce::Reproduction>("reproduction", reproduce::SCHEMA, ""),
        of::<datasets::Record>(
            "series",
            datasets::RECORD_SCHEMA,
            "What a dataset has of one series: v1/series/RUN.json",
        ),
        of::<run::Status>("status", "", "cellerator status --json"),
        of::<top::Report>("top", "", "cellerator top --json"),
        analyzed(),
        event(),
    ]
}

/// What `analysis::DocumentWriter` writes, piece by piece. What is not known is null, never zero.
#[derive(Serialize, JsonSchema)]
struct Analysis {
    /// Name and version of this schema.
    schema: &'static str,
    /// Program that made it.
    made_by: analysis::MadeBy,
    /// The captures, in the order given.
    captures: Vec<analysis::CaptureFile>,
    /// Flows, in the order they ended; `id` is the order of first packets.
    flows: Vec<analysis::FlowReport>,
    /// Connections of Multipath TCP, in the order of first packets.
    mptcp: Vec<analysis::MptcpReport>,
    /// Connections captured at both of their ends.
    pairs: Vec<analysis::Pair>,
    /// All UDP of the captures.
    udp: analysis::UdpReport,
    /// Flows taken for QUIC, in the order of first packets; the 10,000 with most data, if there are more. Nothing is
    /// decrypted.
    quic: Vec<analysis::QuicFlowReport>,
    /// Events in the order of the segments that showed them, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<analysis::Event>,
}

/// Schema of `analysis`. Its texts are shown by `analyze --explain` and in tables.
fn analyzed() -> File {
    let mut file = of::<Analysis>("analysis", analysis::SCHEMA, "Results of `cellerator analyze --json`");
    file.is_of_json = false;
    // What is written besides the fields of the type.
    let budget = &mut file.schema["$defs"]["TimeBudget"];
    budget["properties"]["slow_because"] = json!({
        "type": ["string", "null"],
        "description": "The largest part in words, with the next ones; null without duration.",
    });
    budget["required"].as_array_mut().unwrap().push("slow_because".into());
    // The kinds of events as one: what not all of them have may be absent.
    let event = &mut file.schema["$defs"]["Event"];
    let Value::Array(kinds) = event.as_object_mut().unwrap().remove("oneOf").unwrap() else {
        panic!("{event}")
    };
    let mut names = Vec::new();
    for mut kind in kinds {
        let mut name = kind["properties"].as_object_mut().unwrap().remove("event").unwrap();
        name["description"] = kind["description"].take();
        names.push(name);
        let Value::Object(fields) = kind["properties"].take() else { panic!("{kind}") };
        event["properties"].as_object_mut().unwrap().extend(fields);
    }
    event["properties"]["event"] = json!({ "oneOf": names, "description": "Kind of the event." });
    event["required"].as_array_mut().unwrap().push("event".into());
    file
}

/// Schema of a line of events. Those of flows are of a type; every line has its time besides.
fn event() -> File {
    let title = "A line of `cellerator events --json` and of `cellerator export flows`";
    let mut file = of::<run::FlowEvent>("event", "", title);
    let schema = &mut file.schema;
    let time = json!({
        "type": "integer", "minimum": 0, "description": "Time at which it was told, ms since 1970-01-01 00:00 UTC.",
    });
    let instance = json!({
        "type": "object",
        "description": "Something has happened to the instance. Fields that are not listed belong to the event: the \
                        types in crates/box/run/src/event.rs describe them.",
        "properties": {
            "at_ms": time,
            "event": { "type": "string", "description": "Its name; stable." },
            "severity": { "enum": ["info", "notice", "warning"], "description": "Severity: the attention it asks for." },
            "text": { "type": "string", "description": "One line for people." },
        },
        "required": ["at_ms", "event", "severity", "text"],
        "additionalProperties": true,
    });
    let Value::Array(variants) = schema["oneOf"].take() else { panic!("{schema}") };
    let mut kinds = vec![json!({ "$ref": "#/$defs/instance" })];
    schema["$defs"]["instance"] = instance;
    for mut variant in variants {
        let name = variant["properties"]["event"]["const"].as_str().unwrap().to_owned();
        variant["properties"]["at_ms"] = time.clone();
        variant["required"].as_array_mut().unwrap().insert(0, "at_ms".into());
        kinds.push(json!({ "$ref": format!("#/$defs/{name}") }));
        schema["$defs"][name] = variant;
    }
    schema["oneOf"] = kinds.into();
    schema["description"] = "Each line is one of these.".into();
    file
}

/// Brings a schema, and those in it, to the form of the files.
fn settle(schema: &mut Value, definitions: &Map<String, Value>, is_of_json: bool) {
    let Value::Object(object) = schema else { return };
    for key in ["format", "maximum", "default"] {
        object.remove(key);
    }
    // The fields of a variant's type stand beside those of the variant.
    if object.contains_key("properties")
        && let Some(name) = object.remove("$ref")
    {
        let inner = definitions[name.as_str().unwrap().trim_start_matches("#/$defs/")].clone();
        merge(object, inner);
    }
    if let Some(Value::String(name)) = object.get_mut("$ref") {
        *name = format!("#/$defs/{}", snake(name.trim_start_matches("#/$defs/")));
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = plain(text);
    }
    // Values of an enumeration that have a meaning each.
    if object
        .get("oneOf")
        .and_then(Value::as_array)
        .is_some_and(|all| all.iter().all(|one| one["const"].is_string()))
    {
        let values = object.remove("oneOf");
        object.insert("anyOf".to_owned(), values.unwrap_or_default());
    }
    // A tuple of equal ones.
    if let Some(all) = object.get("prefixItems").and_then(Value::as_array)
        && all.iter().all(|one| *one == all[0])
    {
        let one = all[0].clone();
        object.remove("prefixItems");
        object.insert("items".to_owned(), one);
    }
    let required = object.get("required").cloned().unwrap_or_default();
    for (key, inner) in object.iter_mut() {
        match (key.as_str(), inner) {
            ("properties", Value::Object(named)) => {
                for (name, inner) in named {
                    let is_required = required.as_array().is_some_and(|all| all.contains(&json!(name)));
                    settle(inner, definitions, is_of_json);
                    settle_field(inner, is_required, is_of_json);
                }
            }
            ("$defs", Value::Object(named)) => {
                named.values_mut().for_each(|one| settle(one, definitions, is_of_json));
            }
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(several)) => {
                several.iter_mut().for_each(|one| settle(one, definitions, is_of_json));
            }
            ("items" | "additionalProperties", inner) => settle(inner, definitions, is_of_json),
            _ => {}
        }
    }
    if object.contains_key("properties") {
        object.entry("additionalProperties").or_insert(false.into());
    }
    if let Some(Value::Object(definitions)) = object.remove("$defs") {
        let named = definitions.into_iter().map(|(name, schema)| (snake(&name), schema)).collect();
        object.insert("$defs".to_owned(), Value::Object(named));
    }
}

/// Adds the fields of `inner` to those of `object`.
fn merge(object: &mut Map<String, Value>, mut inner: Value) {
    if let Some(Value::Object(fields)) = object.get_mut("properties")
        && let Value::Object(own) = inner["properties"].take()
    {
        fields.extend(own);
    }
    if let Some(Value::Array(required)) = object.get_mut("required")
        && let Value::Array(own) = inner["required"].take()
    {
        required.extend(own);
    }
}

/// Brings a field to the form of the files. What a doc comment calls none is null in JSON, or absent where the
/// field is not required; empty is absent there, too.
fn settle_field(field: &mut Value, is_required: bool, is_of_json: bool) {
    let null = json!({ "type": "null" });
    let is_nullable = field["type"].as_array().is_some_and(|all| all.contains(&json!("null")))
        || field["anyOf"].as_array().is_some_and(|all| all.contains(&null));
    let word = match (is_required, is_nullable) {
        (true, false) => "none",
        (true, true) => "null",
        (false, _) => "absent",
    };
    if let Some(Value::String(text)) = field.get_mut("description").filter(|_| is_of_json) {
        *text = text.replace("; none", &format!("; {word}"));
        if !is_required {
            *text = text.replace("; empty", "; absent");
        }
    }
    if is_required || !is_nullable {
        return;
    }
    if let Some(Value::Array(all)) = field.get_mut("type") {
        all.retain(|one| one != "null");
        if let [one] = all.as_slice() {
            field["type"] = one.clone();
        }
    }
    if let Some(Value::Array(all)) = field.get_mut("anyOf") {
        all.retain(|one| *one != null);
        if let [Value::Object(one)] = all.as_slice() {
            let mut one = one.clone();
            if let Some(text) = field.get("description") {
                one.insert("description".to_owned(), text.clone());
            }
            *field = Value::Object(one);
        }
    }
}

/// A doc comment as one line, links to items as their names.
fn plain(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`")
}

/// `FlowReport` as `flow_report`; of QUIC by the names that `analyze --explain` has.
fn snake(name: &str) -> String {
    let of_quic = [
        ("CourseReport", "quic_course"),
        ("FlowletReport", "quic_flowlets"),
        ("Move", "quic_move"),
        ("PauseReport", "quic_pauses"),
        ("QuicFlowReport", "quic_flow"),
        ("SpinReport", "quic_spin"),
    ];
    if let Some((_, name)) = of_quic.iter().find(|(of, _)| *of == name) {
        return (*name).to_owned();
    }
    let mut snake = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

/// The keys of a schema, in the order of the files.
const ORDER: [&str; 14] = [
    "$schema",
    "title",
    "$ref",
    "type",
    "const",
    "enum",
    "description",
    "minimum",
    "items",
    "required",
    "properties",
    "additionalProperties",
    "anyOf",
    "oneOf",
];

/// The text of a schema, fields in the order of the type's.
fn text(value: &Value, depth: usize, order: &[&str]) -> String {
    let line = |depth: usize| format!("\n{}", "  ".repeat(depth));
    let between = |all: Vec<String>| all.join(&format!(",{}", line(depth + 1)));
    match value {
        Value::Object(object) if !object.is_empty() => {
            let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
            keys.sort_by_key(|key| order.iter().position(|one| one == key).unwrap_or(usize::MAX));
            let required = object.get("required").and_then(Value::as_array).into_iter().flatten();
            let required: Vec<&str> = required.filter_map(Value::as_str).collect();
            let inner = |key: &str| match key {
                "properties" => text(&object[key], depth + 1, &required),
                "$defs" => text(&object[key], depth + 1, &[]),
                _ => text(&object[key], depth + 1, &ORDER),
            };
            let all = keys.into_iter().map(|key| format!("{}: {}", json!(key), inner(key))).collect();
            format!("{{{}{}{}}}", line(depth + 1), between(all), line(depth))
        }
        Value::Array(all) if !all.is_empty() => {
            let all = all.iter().map(|one| text(one, depth + 1, &ORDER)).collect();
            format!("[{}{}{}]", line(depth + 1), between(all), line(depth))
        }
        other => other.to_string(),
    }
}

/// The files' names and texts.
fn generated() -> Vec<(String, String)> {
    let text_of = |File { name, title, constant, is_of_json, mut schema }: File| {
        let definitions = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
        settle(&mut schema, &definitions, is_of_json);
        schema["title"] = title.into();
        if !constant.is_empty() {
            assert_eq!(schema["properties"]["schema"]["type"], "string", "{name}");
            let text = "Name and version of this schema.";
            schema["properties"]["schema"] =
                json!({ "type": "string", "const": constant, "description": text });
        }
        (format!("{name}.schema.json"), text(&schema, 0, &ORDER) + "\n")
    };
    files().into_iter().map(text_of).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

#[test]
fn the_schemas_are_those_of_the_types() {
    for (name, text) in generated() {
        let path = folder().join(&name);
        if std::env::var_os("CELLERATOR_WRITE_SCHEMAS").is_some() {
            std::fs::write(path, text).unwrap();
        } else {
            assert!(
                std::fs::read_to_string(path).unwrap() == text,
                "{name}: CELLERATOR_WRITE_SCHEMAS=1 writes it anew:\n{text}"
            );
        }
    }
}

#[test]
fn every_schema_is_of_a_type_or_has_a_reason_not_to_be() {
    let by_hand = BY_HAND.map(|(name, _)| format!("{name}.schema.json"));
    let known: BTreeSet<String> = generated().into_iter().map(|(name, _)| name).chain(by_hand).collect();
    let there = std::fs::read_dir(folder()).unwrap();
    let there: BTreeSet<String> =
        there.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(known, there);
}
