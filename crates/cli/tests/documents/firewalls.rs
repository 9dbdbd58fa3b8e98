//! What `make firewalls` found as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// In the order in which they come.
const PHASES: [&str; 6] = ["start", "run", "rule added", "upgrade", "crash", "drain"];

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

/// A row for each firewall and way of steering.
pub fn markdown(document: &Value) -> String {
    let mut text =
        format!("| firewall | steered by | {} |\n|---|---|{}\n", PHASES.join(" | "), "---|".repeat(6));
    let cells = document["cells"].as_array().unwrap();
    let mut rows: Vec<[&str; 2]> = Vec::new();
    for cell in cells {
        let row = [word(cell, "firewall"), word(cell, "steering")];
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    for [firewall, steering] in rows {
        let ways = if steering == "tcx" { "programs" } else { steering };
        let _ = write!(text, "| {firewall} | {ways} |");
        for phase in PHASES {
            let is_it = |cell: &&Value| {
                [word(cell, "firewall"), word(cell, "steering"), word(cell, "phase")]
                    == [firewall, steering, phase]
            };
            let outcome = cells.iter().find(is_it).map_or("–", |cell| word(cell, "outcome"));
            let _ = write!(text, " {outcome} |");
        }
        text.push('\n');
    }
    text
}

#[test]
fn a_row_has_all_phases_of_a_firewall() {
    let cell = |steering: &str, phase: &str, outcome: &str| {
        serde_json::json!({
            "firewall": "none", "steering": steering, "phase": phase, "outcome": outcome, "said": "",
        })
    };
    let cells = [
        cell("tcx", "start", "refused"),
        cell("rules", "start", "works"),
        cell("rules", "rule added", "passes"),
    ];
    let document = serde_json::json!({ "schema": "cellerator/firewalls/1", "cells": cells });
    crate::schema::check_against(&document, super::FIREWALLS_SCHEMA);
    let expected = "| firewall | steered by | start | run | rule added | upgrade | crash | drain |\n\
        |---|---|---|---|---|---|---|---|\n\
        | none | programs | refused | – | – | – | – | – |\n\
        | none | rules | works | – | passes | – | – | – |\n";
    assert_eq!(markdown(&document), expected);
}
