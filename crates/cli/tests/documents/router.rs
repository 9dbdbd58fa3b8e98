//! The figures of `make docs-router` as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// The table of a result of `tools/measure-router`.
pub fn markdown(document: &Value) -> String {
    let cases = document["cases"].as_array().unwrap();
    let words = |name: &str| document[name].as_str().unwrap();
    let mut text = format!(
        "{}, {} with {} processors, Linux {}; one run each.\n\n|",
        words("program"),
        words("machine"),
        document["processors"],
        words("kernel")
    );
    for case in cases {
        let _ = write!(text, " | {} flows", case["flows"]);
    }
    let _ = writeln!(text, " |\n|---|{}", "---:|".repeat(cases.len()));
    let mut row = |what: &str, value: &dyn Fn(&Value) -> String| {
        let cells: Vec<String> = cases.iter().map(value).collect();
        let _ = writeln!(text, "| {what} | {} |", cells.join(" | "));
    };
    let number = |case: &Value, name: &str| case[name].as_f64().unwrap();
    let megabytes = |name: &'static str| move |case: &Value| format!("{:.1} MB", number(case, name) / 1e6);
    row("resident before", &megabytes("resident_before_bytes"));
    row("resident with all flows open", &megabytes("resident_open_bytes"));
    row("processor time to open them", &|case| format!("{:.2} s", number(case, "opening_cpu_ms") / 1e3));
    row("time of the downloads", &|case| format!("{:.2} s", number(case, "download_s")));
    row("processor time of the downloads, and share of one processor", &|case| {
        let (taken, lasted) = (number(case, "download_cpu_ms") / 1e3, number(case, "download_s"));
        format!("{taken:.2} s, {:.0} %", 100.0 * taken / lasted)
    });
    row("resident afterwards", &megabytes("resident_after_bytes"));
    row("most memory of the control group", &megabytes("group_peak_bytes"));
    text
}
