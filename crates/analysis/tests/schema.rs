//! The JSON is as its schema says: types, required and unknown keys, constants, references.
#![allow(clippy::unwrap_used)] // A broken schema shall stop the test.

mod made;

use analysis::{CaptureFile, DocumentWriter, MadeBy, Sink, Skipped};
use made::{MSS, Tape, With};
use serde_json::Value;
use wire::TcpFlags;

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../schemas/analysis.schema.json")).unwrap()
}

fn check(value: &Value, schema: &Value, root: &Value, at: &str, wrong: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return check(value, &root["$defs"][reference.trim_start_matches("#/$defs/")], root, at, wrong);
    }
    if let Some(several) = schema["anyOf"].as_array() {
        let fits = |one: &&Value| {
            let mut found = Vec::new();
            check(value, one, root, at, &mut found);
            found.is_empty()
        };
        if several.iter().find(fits).is_none() {
            wrong.push(format!("{at} fits none"));
        }
        return;
    }
    let is_of = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("null") => value.is_null(),
        _ => false,
    };
    let types = schema["type"].as_array().map_or_else(|| vec![schema["type"].clone()], Clone::clone);
    if !types.iter().any(is_of) {
        wrong.push(format!("{at}: {value} is none of {types:?}"));
    }
    if schema.get("const").is_some_and(|wanted| wanted != value)
        || schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value))
    {
        wrong.push(format!("{at}: {value}"));
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(key).is_none() {
            wrong.push(format!("{at} lacks {key}"));
        }
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => check(inner, schema, root, &format!("{at}.{key}"), wrong),
            None => wrong.push(format!("{at} has unknown key {key}")),
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(item, &schema["items"], root, &format!("{at}[{index}]"), wrong);
    }
}

fn document(wants_events: bool) -> Value {
    let mut tape = Tape::opened();
    for n in [0, 1, 2, 3, 3, 5, 4] {
        tape.data(50_000 + u64::from(n), n);
    }
    tape.ack(90_000, 4, &[(3, 4)]);
    tape.data(700_000, 4);
    tape.send(800_000, 1, 1, 1 + 4 * MSS, 0, &With { window: Some(0), ..With::default() });
    tape.send(900_000, 0, 1 + 6 * MSS, 1, 1, &With::default());
    tape.send(950_000, 1, 1, 1 + 4 * MSS, 0, &With { flags: TcpFlags::RST, ..With::default() });
    let kept = tape.analyze();
    let mut skipped = Skipped::default();
    skipped.count(capture::Skip::NotIp);
    let capture = CaptureFile {
        file: "made.pcap".to_owned(),
        packets: 12,
        clipped: 0,
        time_steps_back: 0,
        dropped: Some(3),
        problem: None,
        skipped,
        segments: 11,
    };
    let made_by = MadeBy { cellerator: "0".to_owned(), command: "test".to_owned() };
    let mut writer = DocumentWriter::new(Vec::new(), &made_by, wants_events);
    kept.events.iter().for_each(|event| writer.on_event(event));
    for flow in [kept.flows.clone(), kept.flows].concat() {
        writer.on_flow(&flow);
    }
    serde_json::from_slice(&writer.finish(&[capture]).unwrap()).unwrap()
}

#[test]
fn the_results_are_as_their_schema_says() {
    let schema = schema();
    let problems = |value: &Value| {
        let mut wrong = Vec::new();
        check(value, &schema, &schema, "results", &mut wrong);
        wrong
    };
    assert_eq!(problems(&document(false)), [""; 0]);
    let mut value = document(true);
    assert_eq!(problems(&value), [""; 0]);
    assert_eq!(value["flows"].as_array().map(Vec::len), Some(2));
    assert!(value["events"].as_array().is_some_and(|events| events.len() >= 5));
    value["flows"][0]["vantage"] = "nowhere".into();
    value["flows"][0]["directions"][0]["packets"] = "many".into();
    value["more"] = 1.into();
    value.as_object_mut().unwrap().remove("captures");
    assert_eq!(problems(&value).len(), 4);
}
