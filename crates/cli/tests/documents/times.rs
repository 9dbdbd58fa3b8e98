//! The times of `make times` as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// Programs and crates below this many seconds are counted together.
const LEAST_S: f64 = 5.0;

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// The tables of a result of `tools/time-checks`.
pub fn markdown(document: &Value) -> String {
    let mut text = format!(
        "From nothing, with {} processors, Linux {}. Seconds; of crates, those of all units, of which as many are \
         compiled at once as there are processors.\n\n| step | s |\n|---|---:|\n",
        document["processors"],
        document["kernel"].as_str().unwrap()
    );
    let steps = document["steps_s"].as_object().unwrap();
    for (name, took) in steps {
        let _ = writeln!(text, "| {name} | {:.0} |", seconds(took));
    }
    let _ = writeln!(text, "| all | {:.0} |", steps.values().map(seconds).sum::<f64>());
    let _ = writeln!(
        text,
        "\n| crate | library | its tests | run | of it in real time | processor | pauses of fixed length |\n\
         |---|---:|---:|---:|---:|---:|---:|\n| {} dependencies | {:.0} | | | | | |\n| linking, {} programs | {:.0} | | | | | |",
        document["dependencies"],
        seconds(&document["dependencies_s"]),
        document["links"],
        seconds(&document["links_s"])
    );
    let columns = ["library_s", "tests_s", "run_s", "in_real_time_s", "run_processor_s"];
    let total = |of: &Value| columns[..3].iter().map(|column| seconds(&of[column])).sum::<f64>();
    let mut crates: Vec<&Value> = document["crates"].as_array().unwrap().iter().collect();
    crates.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let (large, small): (Vec<&Value>, Vec<&Value>) = crates.into_iter().partition(|of| total(of) >= LEAST_S);
    let mut row = |name: &str, of: &[&Value]| {
        let sum = |column: &str| of.iter().map(|one| seconds(&one[column])).sum::<f64>();
        let cells: Vec<String> = columns.iter().map(|column| format!("{:.0}", sum(column))).collect();
        let pauses = format!("{:.0}: {:.1} s", sum("fixed_pauses"), sum("fixed_pauses_s"));
        let _ = writeln!(text, "| {name} | {} | {pauses} |", cells.join(" | "));
    };
    for one in &large {
        row(one["package"].as_str().unwrap().trim_start_matches("cellerator-"), &[one]);
    }
    row(&format!("{} others", small.len()), &small);
    text.push_str("\n| program | tests | s | processor | slowest |\n|---|---:|---:|---:|---|\n");
    let mut programs: Vec<&Value> = document["programs"].as_array().unwrap().iter().collect();
    programs.sort_by(|a, b| seconds(&b["seconds"]).total_cmp(&seconds(&a["seconds"])));
    for program in programs.into_iter().filter(|program| seconds(&program["seconds"]) >= LEAST_S) {
        let counted: u64 =
            program["counts"].as_array().unwrap()[..2].iter().map(|n| n.as_u64().unwrap()).sum();
        let slowest = program["slowest"].as_array().unwrap().first();
        let slowest = slowest.map_or_else(String::new, |test| {
            format!("`{}` {:.0}", test[0].as_str().unwrap(), seconds(&test[1]))
        });
        let _ = writeln!(
            text,
            "| {}{} | {counted} | {:.0} | {:.0} | {slowest} |",
            program["name"].as_str().unwrap().trim_start_matches("cellerator-"),
            if program["is_real"] == true { ", in real time" } else { "" },
            seconds(&program["seconds"]),
            seconds(&program["processor_s"])
        );
    }
    text
}
