//! `cellerator multipath` and `lab multipath`: kernel MPTCP between namespaces, the path manager as users
//! start it, and the machine over event files. What needs root or MPTCP says so and is left out without.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::schema;

mod aims;
mod compare;
mod congestion;
mod coupled;
mod daemon;
mod others;
mod routes;

/// Two radios; the first is dead from 2 s to 5 s.
const DEATH: &str = r#"
name = "death"
title = "Wi-Fi dies for 3 s"
time = "9 s"
connects = ["3 s"]

[[radio]]
name = "wifi0"
down = { rate = "12 Mbit/s", delay = "10 ms", queue = "64 KB" }
up = { rate = "5 Mbit/s", delay = "10 ms" }
event = [{ at = "2 s", does = "dies" }, { at = "5 s", does = "returns" }]

[[radio]]
name = "lte0"
down = { rate = "8 Mbit/s", delay = "20 ms", queue = "64 KB" }
up = { rate = "3 Mbit/s", delay = "20 ms" }

[[case]]
name = "daemon"
daemon = true

[[case]]
name = "killed"
daemon = true
kill_at = "6 s"
"#;

fn cellerator(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellerator")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// False, with a line that says what is missing, where the kernel or the user lacks something.
fn has_mptcp() -> bool {
    let is_root = fs::read_to_string("/proc/self/status").unwrap().contains("Uid:\t0\t");
    let has = is_root && Path::new("/proc/sys/net/mptcp/enabled").exists();
    if !has {
        eprintln!("left out: needs root, and a kernel with MPTCP");
    }
    has
}

/// Runs scenario files; the results.
fn lab<P: AsRef<Path>>(files: &[P], more: &[&str]) -> Value {
    let json = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let mut arguments = vec!["lab", "multipath"];
    arguments.extend(files.iter().map(|file| file.as_ref().to_str().unwrap()));
    arguments.extend(["--json", json.to_str().unwrap()]);
    arguments.extend(more);
    let output = cellerator(&arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    eprintln!("{stderr}{}", said(&output));
    let results = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    schema::check_against(&results, include_str!("../../../schemas/multipath-lab.schema.json"));
    results
}

/// The runs of a case of the first scenario.
fn runs<'a>(results: &'a Value, case: &str) -> Vec<&'a Value> {
    let all = results["scenarios"][0]["runs"].as_array().unwrap();
    all.iter().filter(|run| run["case"] == case).collect()
}

/// Where `words` are first told after `from` in what the path manager said.
fn place(run: &Value, words: &str, from: usize) -> usize {
    let events: Vec<&str> = run["events"].as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
    let found = events.iter().skip(from).position(|event| event.contains(words));
    from + found.unwrap_or_else(|| panic!("`{words}` is not said in {events:#?}"))
}

#[test]
fn a_dead_path_is_left_and_used_again_and_a_kill_is_undone() {
    if !has_mptcp() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("death.toml");
    fs::write(&file, DEATH).unwrap();
    let results = lab(&[file], &[]);
    for case in ["daemon", "killed"] {
        let run = runs(&results, case)[0];
        assert!(run["is_intact"] == true && run["is_multi_path"] == true && run["error"].is_null(), "{run}");
        let up = place(run, "wifi0 down -> up", 0);
        let down = place(run, "wifi0 suspect -> down: lost", up);
        // The endpoint goes and the routes are demoted when it is found dead; both come back with it.
        let removed = place(run, "wifi0 endpoint 10.100.0.2 removed", up);
        let demoted = place(run, "wifi0 1 default routes demoted", up);
        assert!(demoted <= down);
        place(run, "wifi0 down -> up: answered", down);
        place(run, "wifi0 endpoint 10.100.0.2 added", removed);
        place(run, "wifi0 1 default routes restored", demoted);
        // Wi-Fi carries data after its return, and a connection begun while it was dead came up.
        assert!(run["reuses"][0]["after_ms"].is_number(), "{}", run["reuses"]);
        assert!(run["connects"][0]["up_ms"].is_number(), "{}", run["connects"]);
    }
    assert_eq!(runs(&results, "killed")[0]["is_profile_restored"], true);
    assert!(cellerator(&["lab", "list"]).status.success());
}

#[test]
fn event_files_are_run_in_virtual_time() {
    let folder = root().join("scenarios/multipath");
    for name in ["silent-death", "flapping", "drive"] {
        let file = folder.join(format!("{name}.txt"));
        let output = cellerator(&["multipath", "simulate", file.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(said(&output).contains("suspect -> down: lost"));
        let json = cellerator(&["multipath", "simulate", file.to_str().unwrap(), "--json"]);
        let outcome: Value = serde_json::from_slice(&json.stdout).unwrap();
        schema::check_against(&outcome, include_str!("../../../schemas/multipath-simulation.schema.json"));
        assert!(outcome["lines"].as_array().unwrap().len() > 5);
    }
    let output = cellerator(&["multipath", "simulate", "/no/such/file"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stderr.lines().count() == 1, "{stderr}");
}

/// The document shows the machine's own table.
#[test]
fn the_document_shows_the_machines_own_rules() {
    let document = fs::read_to_string(root().join("docs/multipath.md")).unwrap();
    for how in ["table", "diagram"] {
        let rules = said(&cellerator(&["multipath", "simulate", "--rules", how]));
        let rules = rules.trim_end();
        assert!(document.contains(rules), "docs/multipath.md must have, from `--rules {how}`:\n{rules}");
    }
}

#[test]
fn what_is_missing_is_one_line() {
    for (arguments, word) in [
        (&["multipath", "run"][..], "probe"),
        (&["multipath", "status"][..], "no path manager runs here"),
        (&["multipath", "run", "--server", "no.such.host.invalid"][..], "no such host"),
        (&["multipath", "run", "--ping", "192.0.2.1", "--probe-every", "1 ms"][..], "20 ms"),
    ] {
        let output = cellerator(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.lines().count() == 1, "{arguments:?}: {stderr}");
        assert!(stderr.contains(word) || stderr.contains("run as root"), "{arguments:?}: {stderr}");
    }
}
