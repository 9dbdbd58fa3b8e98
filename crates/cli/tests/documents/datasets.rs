//! The figures of `make test-data` as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// Tables of a result of `tools/datasets/measure`.
pub fn markdown(document: &Value) -> String {
    let captures = &document["captures"];
    let mut text = format!(
        "{} captures, {:.1} GB; {} flows, {} samples of round trips, {} events; Parquet: {:.0} MB on {}. {} processors, \
         build: {}.\n\n",
        whole(&captures["files"]),
        number(&captures["bytes"]) / 1e9,
        whole(&captures["flows"]),
        whole(&captures["samples"]),
        whole(&captures["events"]),
        number(&captures["dataset_bytes"]) / 1e6,
        words(&document["file_system"]),
        whole(&document["processors"]),
        words(&document["build"]),
    );
    text += "| | 1 worker, s | 2 workers, s | times faster | s/GB, 1 worker | s/GB, 2 workers | processor s/GB |\n\
             |---|---:|---:|---:|---:|---:|---:|\n";
    for row in pairs(list(document, "ways"), "way") {
        let _ = writeln!(text, "| captures to tables: {}{}", words(&row[0]["way"]), costs(row));
    }
    for row in pairs(list(document, "engines"), "engine") {
        let (engine, version) = (words(&row[0]["engine"]), words(&row[0]["version"]));
        let _ = writeln!(text, "| ten questions: {engine} {version}{}", costs(row));
    }
    let with_two: Vec<&Value> =
        list(document, "engines").iter().filter(|engine| engine["workers"] == 2).collect();
    let names: Vec<String> =
        with_two.iter().map(|engine| format!("{}, s", words(&engine["engine"]))).collect();
    let _ = write!(
        text,
        "\n| question, with 2 workers | rows | {} |\n|---|---:|---:|---:|---:|\n",
        names.join(" | ")
    );
    for question in list(document, "questions") {
        let seconds: Vec<String> =
            list(question, "seconds").iter().map(|seconds| format!("{:.2}", number(seconds))).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            words(&question["question"]),
            question["rows"],
            seconds.join(" | ")
        );
    }
    text
}

/// The measurements of each name with one worker and with two.
fn pairs<'a>(all: &'a [Value], name: &str) -> Vec<[&'a Value; 2]> {
    let one = all.iter().filter(|row| row["workers"] == 1);
    let pair = |one: &'a Value| {
        let two = all.iter().find(|row| row["workers"] == 2 && row[name] == one[name]);
        [one, two.unwrap_or_else(|| panic!("{} with one worker only", one[name]))]
    };
    one.map(pair).collect()
}

/// The columns behind the name.
fn costs(row: [&Value; 2]) -> String {
    let [one, two] = row.map(|row| number(&row["seconds"]));
    format!(
        " | {one:.1} | {two:.1} | {:.2} | {:.2} | {:.2} | {:.2} |",
        one / two,
        number(&row[0]["s_per_gb"]),
        number(&row[1]["s_per_gb"]),
        number(&row[1]["cpu_s_per_gb"]),
    )
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap()
}
