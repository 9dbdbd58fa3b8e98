//! `cellerator sim` as a user runs it: no root, the same bytes every time.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::schema;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cellerator");

fn cellerator(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A directory of this test alone, removed at its end.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
    fn scenario(&self, toml: &str) -> String {
        let path = self.path("scenario.toml");
        fs::write(&path, toml).unwrap();
        path
    }
}

/// Every file in a directory with its content, by name.
fn files(directory: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

fn results(directory: &str) -> serde_json::Value {
    let text = fs::read_to_string(Path::new(directory).join("results.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn each_scenario_gives_the_same_bytes_twice_whatever_the_number_of_threads() {
    let scratch = Scratch::new();
    let scenarios = [
        root().join("crates/cli/tests/scenarios/sim-mixed.toml"),
        root().join("scenarios/demo-small-window.toml"),
        root().join("scenarios/demo-lte-drive.toml"),
    ];
    for (number, scenario) in scenarios.iter().enumerate() {
        let run = |threads: &str| {
            let out = scratch.path(&format!("{number}-{threads}"));
            let scenario = scenario.to_str().unwrap();
            let arguments = ["sim", "run", scenario, "--threads", threads, "--out", &out, "--packets"];
            let output = cellerator(&arguments);
            assert!(output.status.success(), "{}", said(&output));
            out
        };
        let (one, three) = (run("1"), run("3"));
        schema::check(&results(&one));
        let (one, three) = (files(&one), files(&three));
        assert!(one.len() > 4, "{:?}", one.iter().map(|(name, _)| name).collect::<Vec<_>>());
        for ((name, a), (_, b)) in one.iter().zip(&three) {
            assert!(a == b, "{name} of {} differs", scenario.display());
        }
    }
}

#[test]
fn every_program_does_what_it_is_for() {
    let scratch = Scratch::new();
    let scenario = root().join("crates/cli/tests/scenarios/sim-mixed.toml");
    let out = scratch.path("out");
    let output = cellerator(&["sim", "run", scenario.to_str().unwrap(), "--out", &out]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("times as fast as real time"), "{}", said(&output));
    assert!(fs::read_to_string(Path::new(&out).join("report.html")).unwrap().ends_with("</html>\n"));
    let results = results(&out);
    let cases = results["scenarios"][0]["cases"].as_array().unwrap();
    let case =
        |name: &str| cases.iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("{name}"));
    let bytes = |name: &str| case(name)["figures"]["transfer"]["received_bytes"].as_u64().unwrap();
    let seconds = |name: &str| case(name)["figures"]["transfer"]["seconds"].as_f64().unwrap();
    for case in cases {
        assert!(case["problems"].is_null(), "{case}");
        assert_eq!(case["figures"]["transfer"]["hashes_equal"], true, "{case}");
        let accelerated = case["settings"]["accelerator"]["enabled"] == true;
        assert_eq!(case["simulation"]["accelerated_flows"].as_u64().unwrap() > 0, accelerated, "{case}");
    }
    // 5 + 20 ms each way.
    assert!(case("download, pinged")["figures"]["ping_ms"]["min"].as_f64().unwrap() >= 50.0);
    assert_eq!(bytes("upload over IPv6"), 400_000);
    assert_eq!(bytes("requests, accelerated"), 20 * 15_000);
    assert_eq!(case("requests, accelerated")["figures"]["response_ms"]["count"], 20);
    // 400 KB at 2 Mbit/s are 1.6 s.
    assert!((1.5..2.5).contains(&seconds("written slowly, read slowly")));
    for name in ["reset by the server", "reset by the client"] {
        assert!((150_000..400_000).contains(&bytes(name)), "{name}: {}", bytes(name));
    }
    assert_eq!(bytes("three clients, two flows each"), 6 * 400_000);
    assert_eq!(case("three clients, two flows each")["simulation"]["accelerated_flows"], 6);
}

#[test]
fn seeds_count_up_from_the_one_given() {
    let scratch = Scratch::new();
    let scenario =
        scratch.scenario("name = \"t\"\nradio.down.rate = \"5 Mbit/s\"\nworkload.size = \"50 KB\"\n");
    let json = scratch.path("results.json");
    let output = cellerator(&["sim", "run", &scenario, "--seed", "40", "--seeds", "3", "--json", &json]);
    assert!(output.status.success(), "{}", said(&output));
    let results: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let cases = results["scenarios"][0]["cases"].as_array().unwrap();
    let hash = |i: usize| cases[i]["simulation"]["log_hash"].as_str().unwrap();
    let seeds: Vec<u64> = cases.iter().map(|case| case["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [40, 41, 42]);
    assert!(hash(0) != hash(1) && hash(1) != hash(2));
}

#[test]
fn what_cannot_be_done_is_one_clear_line() {
    let scratch = Scratch::new();
    let arguments = "accelerator = { enabled = true, arguments = [\"--busy-poll\"] }";
    let scenario = scratch.scenario(&format!("name = \"t\"\n{arguments}\n"));
    let said_of = |arguments: &[&str]| {
        let output = cellerator(arguments);
        assert!(!output.status.success());
        said(&output)
    };
    let text = said_of(&["sim", "run", &scenario]);
    assert!(text.contains("case `t`") && text.contains("--busy-poll") && text.lines().count() == 1, "{text}");
    let text = said_of(&["sim", "run", &scenario, "--case", "x"]);
    assert!(text.contains("no case is named `x`; there are `t`"), "{text}");
    let text = said_of(&["sim", "run", &scratch.path("none.toml")]);
    assert!(text.contains("cannot read"), "{text}");
}

#[test]
fn a_run_that_fails_says_how_to_have_it_again() {
    let scratch = Scratch::new();
    let slow =
        "name = \"t\"\ntime_limit = \"2 s\"\nradio.down.rate = \"100 kbit/s\"\nworkload.size = \"1 MB\"\n";
    let scenario = scratch.scenario(slow);
    let output = cellerator(&["sim", "run", &scenario, "--seed", "7"]);
    assert!(!output.status.success());
    let text = said(&output);
    assert!(
        text.contains("the time limit ended the transfer") && text.contains("--seed 7 --seeds 1"),
        "{text}"
    );
}

#[test]
fn a_soak_counts_its_runs_and_a_seed_can_be_had_again() {
    let output = cellerator(&["sim", "soak", "--seeds", "40", "--threads", "2"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("from seed 1: 40 runs, 0 failed"), "{}", said(&output));
    let (one, two) =
        (cellerator(&["sim", "soak", "--seed", "12"]), cellerator(&["sim", "soak", "--seed", "12"]));
    assert_eq!(one.stdout, two.stdout);
    assert!(said(&one).contains("seed 12 (") && said(&one).contains("good"), "{}", said(&one));
}

fn interrupt(running: &Child) {
    let kill = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

#[test]
fn an_interrupted_soak_tells_what_it_has_done() {
    let mut running = Command::new(PROGRAM)
        .args(["sim", "soak", "--minutes", "60"])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut words = BufReader::new(running.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(words.any(|line| line.contains("Ctrl-C")));
    interrupt(&running);
    let last = words.last().unwrap();
    assert!(last.contains("interrupted after") && last.ends_with("what was finished is above"), "{last}");
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(said(&output).contains("from seed 1:"));
}

/// A run of one millisecond, and one that takes minutes.
const SHORT_AND_LONG: &str = r#"
name = "short-and-long"
time_limit = "3600 s"
radio.down = { rate = "1 Gbit/s", delay = "5 ms" }
[[case]]
name = "short"
workload.size = "10 KB"
[[case]]
name = "long"
workload.size = "400 GB"
"#;

#[test]
fn an_interrupted_run_writes_what_was_finished() {
    let scratch = Scratch::new();
    let scenario = scratch.scenario(SHORT_AND_LONG);
    let out = scratch.path("out");
    let mut running = Command::new(PROGRAM)
        .args(["sim", "run", &scenario, "--threads", "1", "--out", &out])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut words = BufReader::new(running.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(words.any(|line| line.contains("1 of 2 runs")), "it ended by itself");
    interrupt(&running);
    let last = words.last().unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    let results = results(&out);
    assert_eq!(results["interrupted"], serde_json::json!({ "finished": 1, "of": 2 }));
    assert_eq!(results["scenarios"][0]["cases"].as_array().unwrap().len(), 1);
    let page = fs::read_to_string(format!("{out}/report.html")).unwrap();
    assert!(page.contains("interrupted after 1 of 2 runs"));
    assert!(last.contains("interrupted after 1 of 2 runs") && last.contains(&out), "{last}");
}

#[test]
fn a_document_on_standard_output_stands_there_alone() {
    let scratch = Scratch::new();
    let scenario = scratch.scenario(SHORT_AND_LONG);
    let output = cellerator(&["sim", "run", &scenario, "--case", "short", "--json", "-"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["scenarios"][0]["cases"][0]["name"], "short");
    assert!(String::from_utf8_lossy(&output.stderr).contains("throughput"), "the table is on standard error");
    assert!(!Path::new("-").exists());
}

/// A start that began again in the middle of a look at others held the window of that moment for ever (seed 1: 9 of
/// 46 Mbit/s).
#[test]
fn on_links_that_repair_slowly_no_seed_stands_out() {
    let scratch = Scratch::new();
    let file = root().join("experiments/ma/table-5-held-back.toml");
    let (file, json) = (file.to_str().unwrap(), scratch.path("results.json"));
    let case = "adaptive, 1024 KB, 285 ms";
    let output = cellerator(&["sim", "run", file, "--case", case, "--seeds", "12", "--json", &json]);
    assert!(output.status.success(), "{}", said(&output));
    let document: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let cases = document["scenarios"][0]["cases"].as_array().unwrap();
    let goodput = |case: &serde_json::Value| case["figures"]["transfer"]["goodput_mbps"].as_f64().unwrap();
    let all: Vec<f64> = cases.iter().map(goodput).collect();
    assert_eq!(all.len(), 12);
    let most = all.iter().copied().fold(0.0, f64::max);
    assert!(all.iter().all(|one| *one >= most * 0.8), "{all:?}");
}

#[test]
fn terms_taken_out_one_after_the_other_fit_the_schema() {
    let scratch = Scratch::new();
    let spec = scratch.path("spec.toml");
    let text = "traces = [\"4g-lte-drive\"]\nschemes = [\"accel:adaptive\"]\nseconds = 2\nseeds = [1, 2]\n";
    fs::write(&spec, text).unwrap();
    let output = cellerator(&["sweep", "eliminate", &spec, "--terms", "blocking,constant", "--json", "-"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check_against(&document, include_str!("../../../schemas/elimination.schema.json"));
    assert_eq!(document["rounds"][0]["candidates"].as_array().map(Vec::len), Some(2));
    let output = cellerator(&["sweep", "eliminate", &spec, "--terms", "gravity"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("`gravity` is none; there are"), "{error}");
}

const RADIOS: &str = r#"
name = "radios"
title = "Two radios and a TCP"
time = "3 s"
beside = 1
[[radio]]
name = "wifi0"
down = { rate = "10 Mbit/s", delay = "10 ms", queue = "60 KB" }
up = { rate = "5 Mbit/s", delay = "10 ms" }
[[radio]]
name = "lte0"
down = { rate = "5 Mbit/s", delay = "30 ms", queue = "100 KB", loss = "0.1 %" }
up = { rate = "5 Mbit/s", delay = "30 ms" }
[[case]]
name = "lia"
congestion_control = "lia"
[[case]]
name = "bbr"
congestion_control = "bbr"
"#;

#[test]
fn several_radios_give_the_labs_results_and_what_is_missing_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.scenario(RADIOS);
    let outs = ["first", "second"].map(|name| scratch.path(name));
    for (out, threads) in outs.iter().zip(["1", "2"]) {
        let output = cellerator(&["sim", "run", &file, "--seeds", "2", "--threads", threads, "--out", out]);
        assert!(output.status.success(), "{}", said(&output));
    }
    let pages = outs.each_ref().map(|out| fs::read(Path::new(out).join("report.html")).unwrap());
    assert!(pages[0] == pages[1], "the same report with any number of threads");
    let text = fs::read_to_string(Path::new(&outs[0]).join("results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    schema::check_against(&results, include_str!("../../../schemas/multipath-lab.schema.json"));
    assert_eq!(results["made_by"]["runner"], "sim");
    let runs = results["scenarios"][0]["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4, "two cases, two seeds");
    for run in runs {
        let together = run["goodput_mbps"].as_f64().unwrap() + run["beside_mbps"][0].as_f64().unwrap();
        assert!(run["is_intact"] == true && (8.0..15.0).contains(&together), "{run}");
    }
    let wrong = scratch.scenario(&RADIOS.replace("name = \"bbr\"", "name = \"bbr\"\ndaemon = true"));
    let output = cellerator(&["sim", "run", &wrong]);
    assert!(
        !output.status.success() && said(&output).contains("only the lab has `daemon`"),
        "{}",
        said(&output)
    );
}
