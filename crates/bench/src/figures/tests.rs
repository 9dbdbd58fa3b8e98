use serde_json::Value;

use super::*;

fn run(way: Way, flows: usize, round: u32, goodput_gbps: f64) -> Run {
    let box_cpu_s_per_gb = (way != Way::Kernel).then_some(0.5);
    Run {
        way: way.name(),
        flows,
        round,
        goodput_gbps,
        box_cpu_s_per_gb,
        machine_cpu_s_per_gb: 1.0,
        retransmitted_segments: 2,
    }
}

/// Three rounds; the engine has half, a quarter and a third of the echo, which itself varies.
fn results() -> PathResults {
    let mut runs = Vec::new();
    for (round, echo, engine) in [(1, 20.0, 10.0), (2, 24.0, 6.0), (3, 30.0, 10.0)] {
        for flows in [1, 4] {
            runs.push(run(Way::Kernel, flows, round, 40.0));
            runs.push(run(Way::Echo, flows, round, echo));
            runs.push(run(Way::Pass, flows, round, echo));
            runs.push(run(Way::Fixed, flows, round, engine));
            runs.push(run(Way::Rate, flows, round, engine));
        }
    }
    let benchmark = PathBenchmark {
        time: units::Duration::from_millis(1_500),
        rounds: 3,
        program: "cellerator".into(),
        version: "0.0.1".to_owned(),
        command: "cellerator bench path".to_owned(),
    };
    let machine = Machine { processor: "P".to_owned(), processors: 2, kernel: "6.1".to_owned() };
    PathResults::new(&benchmark, machine, "cubic".to_owned(), vec![0.01, 0.3, 0.0], runs)
}

#[test]
fn a_spread_is_of_the_sorted_values() {
    let spread = |values: &[f64]| Spread::of(values.iter().copied()).map(|s| (s.median, s.min, s.max));
    assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
    assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), Some((2.5, 1.0, 4.0)));
    assert_eq!(spread(&[]), None);
}

#[test]
fn ratios_are_taken_within_a_round() {
    let results = results();
    let row = results.row(Way::Fixed, 1).unwrap();
    assert_eq!(row.ratio_to_echo, Spread { median: 0.3333, min: 0.25, max: 0.5 });
    assert_eq!(row.goodput_gbps, Spread { median: 10.0, min: 6.0, max: 10.0 });
    assert_eq!(row.retransmitted_segments, 6);
    assert_eq!(results.row(Way::Echo, 4).unwrap().ratio_to_echo.median, 1.0);
    assert!(results.row(Way::Kernel, 1).unwrap().box_cpu_s_per_gb.is_none());
    assert_eq!(results.rows.len(), 10);
}

#[test]
fn the_markdown_states_machine_command_and_noise() {
    let text = results().markdown();
    for wanted in [
        "Cellerator 0.0.1, Linux 6.1, P, 2 processors",
        "`cellerator bench path`: 3 rounds of 1.5 s",
        "up to 30 % of its processor time",
        "### 4 flows",
        "| engine accelerating, `fixed` | 10.00 (6.00–10.00) | 0.33 (0.25–0.50) | 0.50 | 1.00 | 6 |",
        "| kernel forwarding | 40.00 (40.00–40.00) | 1.67 (1.33–2.00) | – | 1.00 | 6 |",
        "`cellerator run --wired IF --mobile IF --controller fixed --rate '100 Gbit/s'`",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
}

/// The subset of JSON Schema that the schema is written in.
fn check(value: &Value, schema: &Value, root: &Value, at: &str, wrong: &mut Vec<String>) {
    if let Some(path) = schema["$ref"].as_str() {
        let target = root.pointer(path.trim_start_matches('#')).unwrap_or(&Value::Null);
        assert!(target.is_object(), "{at}: {path} leads nowhere");
        return check(value, target, root, at, wrong);
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
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        wrong.push(format!("{at} is none of {}", schema["enum"]));
    }
    for item in value.as_array().into_iter().flatten() {
        check(item, &schema["items"], root, &format!("{at}[]"), wrong);
    }
    let Some(object) = value.as_object() else { return };
    let properties = schema["properties"].as_object().expect("an object lists its properties");
    for (key, value) in object {
        match properties.get(key) {
            Some(schema) => check(value, schema, root, &format!("{at}.{key}"), wrong),
            None => wrong.push(format!("{at}.{key} is not in the schema")),
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
        serde_json::from_str(include_str!("../../../../schemas/bench-results.schema.json")).unwrap();
    let mut value = serde_json::to_value(results()).unwrap();
    let problems = |value: &Value| {
        let mut wrong = Vec::new();
        check(value, &schema, &schema, "results", &mut wrong);
        wrong
    };
    assert_eq!(problems(&value), [""; 0]);
    value["rows"][0]["flows"] = "one".into();
    value["more"] = 1.into();
    value.as_object_mut().unwrap().remove("machine");
    assert_eq!(problems(&value).len(), 3);
}
