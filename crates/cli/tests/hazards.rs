//! `docs/hazards.md` names a test for every hazard, `SECURITY.md` tests for everyone who is trusted with something,
//! and the tests exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What is not built and therefore has no test; the table says why.
const NOT_BUILT: [&str; 2] = ["H32", "H35"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of test functions and packet scripts below `folder`.
fn tests_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|e| e == "pkt") {
            found.insert(path.file_stem().unwrap().to_string_lossy().into_owned());
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                match line.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next()) {
                    Some(name) if is_test => {
                        found.insert(name.to_owned());
                        is_test = false;
                    }
                    Some(_) => {}
                    // `#[ignore]` and the like may stand between.
                    None => is_test = line == "#[test]" || (is_test && line.starts_with("#[")),
                }
            }
        }
    }
}

/// Of all crates.
fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for folder in ["crates", "fuzzing"] {
        tests_below(&root().join(folder), &mut found);
    }
    found
}

#[test]
fn every_hazard_has_a_decision_and_its_tests_exist() {
    let tests = tests();
    let text = std::fs::read_to_string(root().join("docs/hazards.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| H"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let ids: Vec<String> = (1..=37).map(|n| format!("H{n}")).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ids);
    let mut named = BTreeSet::new();
    for row in &rows {
        let [id, _, decision, list] = row[..] else { panic!("a row has four columns: {row:?}") };
        assert!(!decision.is_empty(), "{id} has no decision");
        let names: Vec<&str> = list.split(',').map(|name| name.trim().trim_matches('`')).collect();
        if NOT_BUILT.contains(&id) {
            assert_eq!(list, "", "{id} has tests now: take it off the list of this test");
            continue;
        }
        for name in names {
            let prefix = format!("h{:02}_", id[1..].parse::<u32>().unwrap());
            assert!(name.starts_with(&prefix), "{id}: `{name}` does not carry its number");
            assert!(tests.contains(name), "{id}: there is no test `{name}`");
            named.insert(name);
        }
    }
    assert!(named.len() >= 60, "only {} tests are named", named.len());
}

/// README's limits: words of each, and the tests or result files that hold what it says.
const LIMITS: [(&str, &[&str]); 16] = [
    ("Linux only", &["an_old_kernel_steers_by_rules_or_not_at_all"]),
    ("keeps three capabilities", &["tools/package-test"]),
    ("need no privilege", &["the_image_has_the_program_alone_and_runs_it_as_an_ordinary_user"]),
    (
        "no more than eight",
        &["there_are_no_more_threads_than_processors", "a_shard_per_processor_and_no_more_than_eight"],
    ),
    ("what a machine carries", &["docs/results/bench.json"]),
    ("Uploads are accelerated only if", &["without_flags_the_defaults_of_the_engine_hold"]),
    ("Multipath TCP", &["h09_mptcp", "h09_multipath_tcp_works_and_passes_unchanged"]),
    ("TCP-MD5", &["h09_tcp_md5"]),
    ("TCP-AO", &["h09_tcp_ao"]),
    ("Fast Open", &["h09_fast_open_data"]),
    ("L4S senders", &["h25_scalable_sender", "h25_accurate_ecn_scalable_sender"]),
    ("already running", &["h11_unknown_mid_flow"]),
    ("one direction", &["h10_one_direction"]),
    ("nobody can go on", &["h02_without_a_successor_of_a_bridge_flows_with_debt_are_reset"]),
    ("All others continue", &["h02_killed_as_a_bridge_flows_with_debt_are_reset_and_the_others_go_on"]),
    ("off by\n  default", &["defaults_are_those_of_the_crates"]),
];

#[test]
fn every_limit_in_the_readme_is_held() {
    let tests = tests();
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let limits = text.split("\n## Limits\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    for (words, held) in LIMITS {
        assert!(limits.contains(words), "README's limits do not say '{words}'");
        for one in held {
            assert!(tests.contains(*one) || root().join(one).is_file(), "'{words}': there is no `{one}`");
        }
    }
    for limit in limits.split("\n- ").skip(1) {
        let is_held = LIMITS.iter().any(|(words, _)| limit.contains(words));
        assert!(is_held, "nothing holds: {limit}");
    }
}

/// What stands between backquotes in a text.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn what_security_md_names_exists() {
    let tests = tests();
    let text = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| who |"));
    let mut count = 0;
    for row in rows {
        let [who, .., named] = row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("a row has several columns: {row}")
        };
        let named = quoted(named);
        assert!(!named.is_empty(), "{who}: no test is named");
        named.iter().for_each(|name| assert!(tests.contains(*name), "{who}: there is no test `{name}`"));
        count += named.len();
    }
    assert!(count >= 30, "only {count} tests are named");
    let targets = text.split("\n- ").find(|item| item.starts_with("Fuzz targets")).unwrap();
    let files = std::fs::read_dir(root().join("fuzz/fuzz_targets")).unwrap();
    let names: Vec<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let known: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let named: BTreeSet<&str> =
        quoted(targets).into_iter().filter(|word| !word.contains([' ', '/'])).collect();
    let unknown: Vec<&&str> = named.difference(&known).collect();
    assert!(named.len() >= 20 && unknown.is_empty(), "there are no fuzz targets {unknown:?}");
}

/// `tools/check-advisories` with a `cargo` that does what `script` says.
fn advisories(script: &str, arguments: &[&str]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let cargo = folder.path().join("cargo");
    std::fs::write(&cargo, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&cargo, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let tool = root().join("tools/check-advisories");
    let output = std::process::Command::new(tool).args(arguments).env("PATH", path).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn advisories_are_checked_or_a_line_says_why_not() {
    let missing = "echo 'error: no such command: deny' >&2; exit 101";
    let offline = r#"case "$*" in *fetch*) echo 'error: failed to fetch' >&2; exit 1;; esac"#;
    let clean = r#"case "$*" in *advisories*) echo "advisories ok";; esac"#;
    let found = r#"case "$*" in *advisories*) echo 'error[vulnerability]: x' >&2; exit 1;; esac"#;
    for (name, script, why) in
        [("missing", missing, "cargo-deny is missing"), ("offline", offline, "failed to fetch")]
    {
        for (arguments, succeeds) in [(&["."][..], false), (&["--if-possible", "."], true)] {
            let (has_succeeded, said) = advisories(script, arguments);
            assert_eq!(has_succeeded, succeeds, "{name} {arguments:?}: {said}");
            assert!(said.starts_with("advisories were not checked: ") && said.contains(why), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
    for arguments in [&["."][..], &["--if-possible", ".", "fuzz"]] {
        assert_eq!(advisories(clean, arguments), (true, String::new()));
        let (has_succeeded, said) = advisories(found, arguments);
        assert!(!has_succeeded && said.contains("vulnerability"), "a finding is one in every mode: {said}");
    }
}
