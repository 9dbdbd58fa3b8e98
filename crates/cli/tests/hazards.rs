//! `docs/hazards.md` names a test for every hazard, and the tests exist.

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

#[test]
fn every_hazard_has_a_decision_and_its_tests_exist() {
    let mut tests = BTreeSet::new();
    tests_below(&root().join("crates"), &mut tests);
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
