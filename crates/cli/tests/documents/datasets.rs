//! The figures of `make test-data` as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// Tables of a result of `tools/datasets/measure`.
pub fn markdown(document: &Value) -> String {
    let captures = &document["captures"];
    let whole = |value: &Value| value.as_u64().unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let list = |name: &str| document[name].as_array().unwrap();
    let mut text = format!(
        "{} captures, {:.1} GB; {} flows, {} samples of round trips, {} events; Parquet: {:.0} MB. {} processors, \
         build: {}.\n\n",
        whole(&captures["files"]),
        number(&captures["bytes"]) / 1e9,
        whole(&captures["flows"]),
        whole(&captures["samples"]),
        whole(&captures["events"]),
        number(&captures["dataset_bytes"]) / 1e6,
        whole(&document["processors"]),
        document["build"].as_str().unwrap(),
    );
    text += "| captures to tables | workers | s | s/GB | processor s/GB |\n|---|---:|---:|---:|---:|\n";
    for way in list("ways") {
        let cpu = way["cpu_s_per_gb"].as_f64().map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.2}"));
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {:.2} | {cpu} |",
            way["way"].as_str().unwrap(),
            way["workers"],
            number(&way["seconds"]),
            number(&way["s_per_gb"]),
        );
    }
    let names: Vec<String> = list("engines")
        .iter()
        .map(|engine| {
            format!("{} {}, s", engine["engine"].as_str().unwrap(), engine["version"].as_str().unwrap())
        })
        .collect();
    let _ = write!(text, "\n| question | rows | {} |\n|---|---:|---:|---:|---:|\n", names.join(" | "));
    for question in list("questions") {
        let seconds: Vec<String> = question["seconds"]
            .as_array()
            .unwrap()
            .iter()
            .map(|seconds| format!("{:.2}", number(seconds)))
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            question["question"].as_str().unwrap(),
            question["rows"],
            seconds.join(" | ")
        );
    }
    text
}
