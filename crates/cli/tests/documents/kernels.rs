//! What `make kernels` found as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// The check whose words belong into the table: which pairs of hosts there are differs between kernels.
const TOLD: &str = "tcp_ecn";
/// Another one: how many marks there were is what it is about.
const TOLD_AS_WELL: &str = "marks";

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

/// The table of a result of `tools/kernels/test-kernels`, and what it says of all that is not `ok`.
pub fn markdown(document: &Value) -> String {
    let kernels = document["kernels"].as_array().unwrap();
    let machine = if document["is_emulated"].as_bool().unwrap() { "emulated" } else { "in virtual machines" };
    let mut text = format!(
        "{}, {}. Debian's kernels, {machine} by QEMU.\n\n| check |",
        word(document, "program"),
        word(document, "date")
    );
    for kernel in kernels {
        let _ = write!(text, " Linux {} |", word(kernel, "package"));
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(kernels.len()));
    let mut notes = String::new();
    for check in kernels.iter().flat_map(|kernel| kernel["checks"].as_array().unwrap()).fold(
        Vec::<&Value>::new(),
        |mut all, check| {
            if !all.iter().any(|one| one["check"] == check["check"]) {
                all.push(check);
            }
            all
        },
    ) {
        let _ = write!(text, "| {} |", word(check, "what"));
        for kernel in kernels {
            let checks = kernel["checks"].as_array().unwrap();
            let Some(found) = checks.iter().find(|one| one["check"] == check["check"]) else {
                text += " not run |";
                continue;
            };
            let _ = write!(text, " {} |", word(found, "result"));
            if found["result"] != "ok" || [TOLD, TOLD_AS_WELL].iter().any(|told| check["check"] == *told) {
                let (name, package) = (word(check, "check"), word(kernel, "package"));
                let _ = writeln!(notes, "- `{name}`, Linux {package}: {}", word(found, "said"));
            }
        }
        text.push('\n');
    }
    for kernel in kernels.iter().filter(|kernel| !word(kernel, "machine").is_empty()) {
        let _ = writeln!(notes, "- Linux {}: {}", word(kernel, "package"), word(kernel, "machine"));
    }
    if !notes.is_empty() {
        let _ = write!(text, "\n{notes}");
    }
    text
}

#[test]
fn what_is_not_ok_is_told_below_the_table() {
    let check = |name: &str, result: &str, said: &str| serde_json::json!({"check": name, "what": format!("what {name} does"), "result": result, "said": said, "seconds": 1.0});
    let kernel = |package: &str, machine: &str, checks: Vec<Value>| serde_json::json!({"release": package, "package": package, "seconds": 9, "machine": machine, "checks": checks});
    let document = serde_json::json!({
        "schema": "cellerator/kernels/1", "program": "cellerator 0.1.0", "date": "2026-11-27", "is_emulated": true,
        "kernels": [
            kernel("6.1.1-1", "", vec![check("tcx", "not supported", "too old"), check(TOLD, "ok", "9 pairs")]),
            kernel("7.0-1", "the machine ended", vec![check("tcx", "failed", "it hangs")]),
        ],
    });
    crate::schema::check_against(&document, super::KERNELS_SCHEMA);
    let expected = "cellerator 0.1.0, 2026-11-27. Debian's kernels, emulated by QEMU.\n\n\
        | check | Linux 6.1.1-1 | Linux 7.0-1 |\n|---|---|---|\n\
        | what tcx does | not supported | failed |\n| what tcp_ecn does | ok | not run |\n\n\
        - `tcx`, Linux 6.1.1-1: too old\n- `tcx`, Linux 7.0-1: it hangs\n- `tcp_ecn`, Linux 6.1.1-1: 9 pairs\n\
        - Linux 7.0-1: the machine ended\n";
    assert_eq!(markdown(&document), expected);
}
