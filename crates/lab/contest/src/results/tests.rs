use std::sync::atomic::AtomicBool;

use serde_json::Value;
use units::{Bytes, Duration};

use crate::{Contest, Part, PathSettings, Settings, TraceSource};

/// Fails with the path of the first thing that does not fit; knows as much of JSON Schema as the schema uses.
fn fits(value: &Value, schema: &Value, root: &Value, path: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        return fits(value, &root["$defs"][reference.trim_start_matches("#/$defs/")], root, path);
    }
    if let Some(wanted) = schema.get("const") {
        assert_eq!(value, wanted, "{path}");
    }
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(allowed.contains(value), "{path}: {value}");
    }
    let is_right = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64(),
        _ => true,
    };
    assert!(is_right, "{path}: {value} is no {}", schema["type"]);
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(value.get(key).is_some(), "{path} lacks {key}");
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let schema = schema["properties"].get(key).unwrap_or_else(|| panic!("{path} has unknown key {key}"));
        fits(value, schema, root, &format!("{path}.{key}"));
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        fits(item, &schema["items"], root, &format!("{path}[{i}]"));
    }
}

#[test]
fn a_document_fits_its_schema_and_makes_tables_and_a_page() {
    let length = Duration::from_secs(3);
    let settings = Settings {
        length,
        buffers: vec!["4MB".parse().unwrap(), "2bdp".parse().unwrap()],
        seeds: vec![1, 2],
        threads: 2,
        parts: vec![Part::Bulk, Part::Short, Part::Mixed, Part::Flows(3)],
        late: vec![Duration::from_millis(20), Duration::from_millis(40)],
        path: PathSettings { window_max: Some(Bytes::from_mib(8)), ..PathSettings::default() },
    };
    let traces = vec![TraceSource::open_all("3g-hspa", Duration::ZERO, length, &[1, 2]).unwrap()];
    let schemes = vec!["direct:cubic".parse().unwrap(), "accel:rate".parse().unwrap()];
    let mut document = Contest { settings, traces, schemes }.hold(&|_| {}, &AtomicBool::new(false)).unwrap();
    document.interrupted = Some(scenario::results::Interrupted { finished: 70, of: 71 });
    document.made_by.runner = "sim".to_owned();
    document.runs[0].problems.push("a <made up> problem".to_owned());
    let schema: Value =
        serde_json::from_str(include_str!("../../../../../schemas/contest.schema.json")).unwrap();
    let json = serde_json::to_value(&document).unwrap();
    fits(&json, &schema, &schema, "contest");
    assert_eq!(serde_json::from_value::<super::Document>(json).unwrap(), document);
    assert_eq!(
        (document.runs.len(), document.short.len(), document.mixed.len(), document.flows.len()),
        (8, 48, 8, 8)
    );
    assert!(document.limits.iter().all(|limit| limit.points.len() > 2));

    let text = crate::tables(&document, 200);
    for wanted in [
        "3g-hspa: 3 s",
        "queue of 2 BDP",
        "direct:cubic",
        "÷ bound",
        "call p95",
        "many downloads",
        "fairness",
        "20 ms late",
        "40 ms late",
        "window-max 8 MiB",
    ] {
        assert!(text.contains(wanted), "{wanted} is missing in {text}");
    }
    let page = crate::page(&document);
    assert_eq!(
        page.matches("<svg class=\"chart half\"").count(),
        4 + 6,
        "one plot per queue, for the trace and over all; three over time"
    );
    assert!(page.contains("class=\"fields matrix\"") && page.contains("class=\"ground\""));
    assert!(
        page.contains("a &lt;made up&gt; problem")
            && !page.replace("http://www.w3.org/2000/svg", "").contains("http")
    );
}
