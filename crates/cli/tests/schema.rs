//! Checks a document against a schema, as far as ours go: types, required and unknown keys,
//! constants, references.

use serde_json::Value;

const SCHEMA: &str = include_str!("../../../schemas/lab-results.schema.json");

/// Fails with the path of the first thing in a results document that does not fit.
#[allow(dead_code)]
pub fn check(document: &Value) {
    check_against(document, SCHEMA);
}

/// Fails with the path of the first thing that does not fit `schema`.
#[allow(dead_code)]
pub fn check_against(document: &Value, schema: &str) {
    let schema: Value = serde_json::from_str(schema).unwrap();
    fits(document, &schema, &schema, "document");
}

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
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    assert!(
        types.is_empty() || types.iter().any(|t| is_of(value, t)),
        "{path}: {value} is none of {types:?}"
    );
    // What is no object, as null where that is allowed, needs no keys.
    let required = schema["required"].as_array().filter(|_| value.is_object());
    for key in required.into_iter().flatten().filter_map(Value::as_str) {
        assert!(value.get(key).is_some(), "{path} lacks {key}");
    }
    if let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object()) {
        for (key, value) in object {
            let schema = properties.get(key).unwrap_or_else(|| panic!("{path} has unknown key {key}"));
            fits(value, schema, root, &format!("{path}.{key}"));
        }
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        fits(item, &schema["items"], root, &format!("{path}[{i}]"));
    }
}

fn is_of(value: &Value, type_name: &str) -> bool {
    match type_name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_u64(),
        "null" => value.is_null(),
        other => panic!("the schema has an unknown type {other}"),
    }
}
