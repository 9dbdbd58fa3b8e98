//! The figures of `tools/bench-profile` as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// Groups of functions with half a percent somewhere.
const SHARE_MIN: f64 = 0.5;

pub(super) fn markdown(document: &Value) -> String {
    let columns: Vec<&str> =
        document["columns"].as_array().unwrap().iter().map(|column| column.as_str().unwrap()).collect();
    let mut text = format!(
        "Share of the program's processor time, %, Linux {}, made by `tools/bench-profile --json FILE bulk`.\n\n",
        document["kernel"].as_str().unwrap()
    );
    let _ = writeln!(text, "| functions | {} |\n|---|{}", columns.join(" | "), "---:|".repeat(columns.len()));
    for row in document["rows"].as_array().unwrap() {
        let shares: Vec<f64> =
            row["shares_percent"].as_array().unwrap().iter().map(|share| share.as_f64().unwrap()).collect();
        if shares.iter().any(|share| *share >= SHARE_MIN) {
            let shares: Vec<String> = shares.iter().map(|share| format!("{share:.0}")).collect();
            let _ = writeln!(text, "| {} | {} |", row["functions"].as_str().unwrap(), shares.join(" | "));
        }
    }
    text
}
