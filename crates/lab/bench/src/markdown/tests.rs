use serde_json::Value;

use super::*;
use crate::comparison::Comparison;
use crate::results::{Sample, WayNote, rows};
use crate::stage::metric;
use crate::{Machine, Way};

/// Three rounds; the engine has half, a quarter and a third of the echo, which itself varies.
pub fn results() -> Results {
    let mut samples = Vec::new();
    for (round, echo, engine) in [(1, 20.0, 10.0), (2, 24.0, 6.0), (3, 30.0, 10.0)] {
        samples.push(Sample::new("1 flow", Way::Echo, round, [("gbps", echo)]));
        let mut sample = Sample::new("1 flow", Way::Adaptive, round, [("gbps", engine)]);
        sample.add("per_s", Some(123_456.7));
        samples.push(sample);
    }
    let compared = Comparison::ratio("Accelerating ÷ echo", "gbps", "1 flow", Way::Adaptive, Way::Echo);
    let added = Comparison::difference("Added", "gbps", "1 flow", Way::Adaptive, Way::Echo).in_unit(" µs", 1);
    let part = Part {
        name: "bulk".to_owned(),
        title: "Bulk".to_owned(),
        how: "As fast as it goes.".to_owned(),
        cellerator: "0.0.1".to_owned(),
        machine: Machine {
            processor: "P".to_owned(),
            processors: 2,
            kernel: "6.1".to_owned(),
            haproxy: Some("2.6".to_owned()),
        },
        command: "cellerator bench bulk".to_owned(),
        ended_unix_s: 0,
        took_s: 12.3,
        rounds: 3,
        busy_before: vec![0.01, 0.3, 0.0],
        missing: vec!["HAProxy is left out: it is not installed".to_owned()],
        metrics: vec![metric("gbps", "Gbit/s", 2), metric("per_s", "per s", 0)],
        ways: [Way::Echo, Way::Fixed, Way::Adaptive]
            .map(|way| WayNote {
                name: way.name().to_owned(),
                title: way.title().to_owned(),
                in_the_box: way.in_the_box(),
            })
            .to_vec(),
        rows: rows(&samples, &["echo", "accelerate"]),
        figures: [compared.at_least(0.6), added.at_most(30.0)]
            .iter()
            .filter_map(|c| c.figure(&samples))
            .collect(),
        samples,
    };
    let mut results = Results::new();
    results.put(part, &["bulk"]);
    results
}

#[test]
fn the_markdown_states_machine_command_noise_and_what_is_missing() {
    // Prose is wrapped.
    let text = results().markdown().replace('\n', " ");
    for wanted in [
        "| Accelerating ÷ echo | 0.33 (0.25–0.50) | ≥ 0.60 | 3 | **missed** |",
        "| Added | −18.0 µs (−20.0–−10.0) | ≤ 30 µs | 3 | met |",
        "Cellerator 0.0.1, Linux 6.1, P, 2 processors, 1970-01-01. 3 rounds, 12 s, made by `cellerator \
         bench bulk`.",
        "up to 30 % of its processor time",
        "HAProxy is left out: it is not installed.",
        "| 1 flow | accelerating | 10.00 (6.00–10.00) | 123,457 |",
        "| 1 flow | bare TUN echo | 24.00 (20.00–30.00) | – |",
        "- accelerating, `fixed`: `cellerator run --nice 0 --wired IF --mobile IF --controller fixed --rate '100 \
         Gbit/s'`",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
}

#[test]
fn numbers_are_grouped_and_zero_has_no_sign() {
    assert_eq!(grouped(1_234_567.89, 1), "1,234,567.9");
    assert_eq!(grouped(-0.001, 2), "0.00");
    assert_eq!(grouped(-999.5, 1), "−999.5");
}

#[test]
fn a_part_measured_again_takes_the_place_of_the_earlier_one() {
    let mut all = results();
    let part = |name: &str| Part { name: name.to_owned(), ..results().parts.remove(0) };
    all.put(part("first"), &["first", "bulk"]);
    all.put(Part { took_s: 1.0, ..part("bulk") }, &["first", "bulk"]);
    let names: Vec<(&str, f64)> = all.parts.iter().map(|part| (part.name.as_str(), part.took_s)).collect();
    assert_eq!(names, [("first", 12.3), ("bulk", 1.0)]);
}

/// The subset of JSON Schema that the schema is written in.
fn check(value: &Value, schema: &Value, root: &Value, at: &str, wrong: &mut Vec<String>) {
    if let Some(path) = schema["$ref"].as_str() {
        let target = root.pointer(path.trim_start_matches('#')).unwrap_or(&Value::Null);
        assert!(target.is_object(), "{at}: {path} leads nowhere");
        return check(value, target, root, at, wrong);
    }
    if let Some(several) = schema["oneOf"].as_array() {
        let problems = |one| {
            let mut wrong = Vec::new();
            check(value, one, root, at, &mut wrong);
            wrong
        };
        if several.iter().all(|one| !problems(one).is_empty()) {
            wrong.push(format!("{at} is none of the alternatives"));
        }
        return;
    }
    let is_of_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64(),
        other => panic!("{at}: the schema says type {other:?}"),
    };
    if !is_of_type {
        wrong.push(format!("{at} is not of type {}", schema["type"]));
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        wrong.push(format!("{at} is not {}", schema["const"]));
    }
    for item in value.as_array().into_iter().flatten() {
        check(item, &schema["items"], root, &format!("{at}[]"), wrong);
    }
    let Some(object) = value.as_object() else { return };
    for (key, value) in object {
        let known = &schema["properties"][key];
        match (known.is_object(), schema["additionalProperties"].is_object()) {
            (true, _) => check(value, known, root, &format!("{at}.{key}"), wrong),
            (false, true) => {
                check(value, &schema["additionalProperties"], root, &format!("{at}.{key}"), wrong);
            }
            _ => wrong.push(format!("{at}.{key} is not in the schema")),
        }
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(key) {
            wrong.push(format!("{at}.{key} is missing"));
        }
    }
}

#[test]
fn the_results_are_as_their_schema_says() {
    let schema: Value =
        serde_json::from_str(include_str!("../../../../../schemas/bench-results.schema.json")).unwrap();
    let results = results();
    let mut value = serde_json::to_value(&results).unwrap();
    assert_eq!(serde_json::from_value::<Results>(value.clone()).unwrap(), results);
    let problems = |value: &Value| {
        let mut wrong = Vec::new();
        check(value, &schema, &schema, "results", &mut wrong);
        wrong
    };
    assert_eq!(problems(&value), [""; 0]);
    value["parts"][0]["rounds"] = "one".into();
    value["more"] = 1.into();
    value["parts"][0].as_object_mut().unwrap().remove("machine");
    assert_eq!(problems(&value).len(), 3);
}
