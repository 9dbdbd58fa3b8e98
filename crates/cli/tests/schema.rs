//! Checks a document against a schema, as far as ours go: types, required and unknown keys,
//! constants, alternatives, references.

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
    if let Err(wrong) = fits(document, &schema, &schema, "document") {
        panic!("{wrong}");
    }
}

fn fits(value: &Value, schema: &Value, root: &Value, path: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return fits(value, &root["$defs"][reference.trim_start_matches("#/$defs/")], root, path);
    }
    if let Some(several) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let wrong: Vec<String> = several.iter().map_while(|one| fits(value, one, root, path).err()).collect();
        return if wrong.len() < several.len() { Ok(()) } else { Err(wrong.join(", or ")) };
    }
    let must = |is_so: bool, wrong: &dyn Fn() -> String| if is_so { Ok(()) } else { Err(wrong()) };
    if let Some(wanted) = schema.get("const") {
        must(value == wanted, &|| format!("{path}: {value} is not {wanted}"))?;
    }
    if let Some(allowed) = schema["enum"].as_array() {
        must(allowed.contains(value), &|| format!("{path}: {value}"))?;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_right = types.is_empty() || types.iter().any(|t| is_of(value, t));
    must(is_right, &|| format!("{path}: {value} is none of {types:?}"))?;
    // What is no object, as null where that is allowed, needs no keys.
    let required = schema["required"].as_array().filter(|_| value.is_object());
    for key in required.into_iter().flatten().filter_map(Value::as_str) {
        must(value.get(key).is_some(), &|| format!("{path} lacks {key}"))?;
    }
    let more = &schema["additionalProperties"];
    if let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object()) {
        for (key, value) in object {
            let known = properties.get(key).or((*more == true).then_some(&Value::Null));
            let schema = known.ok_or_else(|| format!("{path} has unknown key {key}"))?;
            fits(value, schema, root, &format!("{path}.{key}"))?;
        }
    } else if more.is_object() {
        for (key, value) in value.as_object().into_iter().flatten() {
            fits(value, more, root, &format!("{path}.{key}"))?;
        }
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        fits(item, &schema["items"], root, &format!("{path}[{i}]"))?;
    }
    Ok(())
}

fn is_of(value: &Value, type_name: &str) -> bool {
    match type_name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        other => panic!("the schema has an unknown type {other}"),
    }
}
