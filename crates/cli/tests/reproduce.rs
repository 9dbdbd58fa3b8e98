//! `cellerator reproduce` as a user runs it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::schema;

fn reproduce(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellerator"));
    command.arg("reproduce").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
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
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

#[test]
fn an_experiment_is_run_stored_shown_and_kept() {
    let scratch = Scratch::new();
    let (out, page) = (scratch.path("out"), scratch.path("page.md"));
    let run = reproduce(&["ma-figure-2", "--out", &out, "--markdown", &page]);
    assert!(run.status.success(), "{}", said(&run));
    let stored = scratch.read("out/ma-figure-2.json");
    let document: Value = serde_json::from_str(&stored).unwrap();
    schema::check_against(&document, include_str!("../../../schemas/reproduction.schema.json"));
    let scenario = &document["scenarios"][0];
    assert_eq!(scenario["file"], "experiments/ma/figure-2.toml");
    assert!(document["runs"].as_array().unwrap().iter().all(|run| run["log_hash"].is_string()));

    let html = scratch.read("out/reproduction.html");
    for part in ["Asked:", "Found:", "We see:", "cellerator reproduce ma-figure-2", "The link", "<svg"] {
        assert!(html.contains(part), "{part}");
    }
    for outside in ["src=", "<script", "<link", "url(", "href=\"http"] {
        assert!(!html.contains(outside), "loads something: {outside}");
    }
    let markdown = scratch.read("page.md");
    assert!(markdown.contains("src=\"page/ma-figure-2-1.svg\""));
    assert!(scratch.read("page/ma-figure-2-1-narrow.svg").starts_with("<svg"));
    assert!(scratch.read("page/ma-figure-2-1.svg").starts_with("<svg"));

    // What is there is kept, and made again the same.
    let again = reproduce(&["ma-figure-2", "--out", &out, "--resume"]);
    assert!(said(&again).contains("is there already"), "{}", said(&again));
    assert_eq!(scratch.read("out/ma-figure-2.json"), stored);
    let anew = reproduce(&["ma-figure-2", "--out", &out, "--threads", "1"]);
    assert!(!said(&anew).contains("is there already"));
    assert_eq!(scratch.read("out/ma-figure-2.json"), stored, "the same, byte for byte");
    // Pages come from what is stored, without a run.
    fs::remove_file(scratch.0.path().join("out/reproduction.html")).unwrap();
    assert!(reproduce(&["--pages", "--all", "--out", &out]).status.success());
    assert_eq!(scratch.read("out/reproduction.html"), html);
}

#[test]
fn an_experiment_with_shorter_files_for_the_lab_is_kept_too() {
    let scratch = Scratch::new();
    let out = scratch.path("out");
    assert!(reproduce(&["wa-figure-3", "--out", &out]).status.success());
    let again = reproduce(&["wa-figure-3", "--out", &out, "--resume"]);
    assert!(said(&again).contains("wa-figure-3 is there already"), "{}", said(&again));
}

/// What cannot be written in the end is refused before anything runs.
#[test]
fn outputs_are_tried_first() {
    let scratch = Scratch::new();
    fs::write(scratch.0.path().join("file"), "").unwrap();
    let (out, below, here) = (scratch.path("out"), scratch.path("file/page"), scratch.path(""));
    for arguments in [["--out", &below], ["--html", &below], ["--markdown", &below], ["--html", &here]] {
        let refused = reproduce(
            &[&["ma-figure-2", "--out", &out][..if arguments[0] == "--out" { 1 } else { 3 }], &arguments]
                .concat(),
        );
        assert!(!refused.status.success());
        assert_eq!(said(&refused).lines().count(), 1, "{}", said(&refused));
    }
    assert!(!scratch.0.path().join("out/ma-figure-2.json").exists());
    let nothing = reproduce(&["--pages", "--out", &out]);
    assert!(!nothing.status.success() && said(&nothing).contains("no results yet"), "{}", said(&nothing));
}

#[test]
fn a_changed_scenario_is_run_again() {
    let scratch = Scratch::new();
    let (out, folder) = (scratch.path("out"), scratch.path("own"));
    fs::create_dir_all(scratch.0.path().join("own/ma")).unwrap();
    let text = include_str!("../../../experiments/ma/figure-2.toml").replace("15 MB", "1 MB");
    fs::write(scratch.0.path().join("own/ma/figure-2.toml"), &text).unwrap();
    let run = || said(&reproduce(&["ma-figure-2", "--out", &out, "--experiments", &folder, "--resume"]));
    assert!(!run().contains("is there already"));
    assert!(run().contains("is there already"));
    fs::write(scratch.0.path().join("own/ma/figure-2.toml"), text + "# another\n").unwrap();
    assert!(!run().contains("is there already"));
}

/// The environments' tables are what `analyze --compare` makes of the captures.
#[test]
fn the_tables_of_environments_are_those_of_analyze() {
    let scratch = Scratch::new();
    let (out, folder, captures) = (scratch.path("out"), scratch.path("own"), scratch.path("captures"));
    fs::create_dir_all(scratch.0.path().join("own/ev")).unwrap();
    let text =
        include_str!("../../../experiments/ev/environments.toml").replace("requests = 9", "requests = 1");
    fs::write(scratch.0.path().join("own/ev/environments.toml"), text).unwrap();
    let arguments = ["ev-environments", "--out", &out, "--experiments", &folder, "--captures", &captures];
    let run = reproduce(&arguments);
    assert!(run.status.success(), "{}", said(&run));
    let document: Value = serde_json::from_str(&scratch.read("out/ev-environments.json")).unwrap();
    let tables = document["outcome"]["tables"].as_array().unwrap();
    let row = |table: usize| {
        let rows = tables[table]["rows"].as_array().unwrap();
        rows.iter().find(|row| row["label"] == "phone Wi-Fi").unwrap()["values"].as_array().unwrap().clone()
    };

    let group = format!("phone={captures}/ev-environments-phone-wi-fi-*.client.pcapng");
    let mut analyze = Command::new(env!("CARGO_BIN_EXE_cellerator"));
    let analyze = analyze.args(["analyze", "--group", &group, "--compare", "--json"]).output().unwrap();
    assert!(analyze.status.success(), "{}", said(&analyze));
    let comparison: Value = serde_json::from_slice(&analyze.stdout).unwrap();
    let samples = comparison["environments"][0]["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 3);
    let count = |sample: &Value, key: &str| sample[key].as_u64().unwrap() as f64;
    let is = |value: &Value, wanted: f64| (value["mean"].as_f64().unwrap() - wanted).abs() < 1e-9;
    for (number, sample) in samples.iter().enumerate() {
        let percent = 100.0 * count(sample, "retransmitted") / count(sample, "packets");
        assert!(is(&row(0)[2 * number + 1], percent), "sample {number}: {percent} in {:?}", row(0));
    }
    let sum = |key: &str| samples.iter().map(|sample| count(sample, key)).sum::<f64>();
    assert!(sum("lost") > 0.0 && sum("packets") > 6_000.0, "{samples:?}");
    assert!(is(&row(1)[1], 100.0 * sum("lost") / sum("packets")), "{:?}", row(1));
    assert!(is(&row(1)[3], sum("out_of_order")), "{:?}", row(1));
}

/// A case that an experiment looks up and a file lacks is no empty field of a table: nothing is run.
#[test]
fn a_scenario_without_a_case_is_one_clear_line() {
    let scratch = Scratch::new();
    let (out, folder) = (scratch.path("out"), scratch.path("own"));
    fs::create_dir_all(scratch.0.path().join("own/ma")).unwrap();
    let text =
        include_str!("../../../experiments/ma/figure-2.toml").replace("name = \"CUBIC\"", "name = \"CUBC\"");
    fs::write(scratch.0.path().join("own/ma/figure-2.toml"), text).unwrap();
    let refused = reproduce(&["ma-figure-2", "--out", &out, "--experiments", &folder]);
    assert!(!refused.status.success());
    let said = said(&refused);
    let line = said.lines().last().unwrap();
    assert!(line.contains("ma/figure-2.toml: has no case `CUBIC`, which ma-figure-2 looks up"), "{said}");
    assert!(!scratch.0.path().join("out/ma-figure-2.json").exists());
}

/// Pages of what was not run, or of what an older program made, are refused.
#[test]
fn a_missing_or_older_result_is_one_clear_line() {
    let scratch = Scratch::new();
    let out = scratch.path("out");
    assert!(reproduce(&["mp-multi-path", "--out", &out]).status.success());
    let missing = reproduce(&["--pages", "ma-figure-2", "--out", &out]);
    assert!(!missing.status.success());
    assert_eq!(said(&missing).lines().count(), 1, "{}", said(&missing));
    assert!(said(&missing).contains("no result of ma-figure-2"), "{}", said(&missing));
    // A result without the values that its text has places for.
    let stored = scratch.read("out/mp-multi-path.json").replace("mp-multi-path", "ma-figure-2");
    fs::write(scratch.0.path().join("out/ma-figure-2.json"), stored).unwrap();
    let older = reproduce(&["--pages", "--all", "--out", &out]);
    assert!(!older.status.success());
    let said = said(&older);
    let parts = ["out/ma-figure-2.json", "experiments/ma/figure-2.md", "`{{accelerated}}` has no value"];
    assert!(said.lines().count() == 1 && parts.iter().all(|part| said.contains(part)), "{said}");
    assert!(said.contains("run `cellerator reproduce ma-figure-2` again"), "{said}");
}

#[test]
fn names_are_listed_and_wrong_ones_answered_with_them() {
    let list = said(&reproduce(&["--list"]));
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    let wrong = reproduce(&["ma-table-99"]);
    assert!(!wrong.status.success());
    for name in ["ma-table-1", "ma-figure-2", "ma-table-3", "ma-table-5"] {
        assert!(list.contains(name) && said(&wrong).contains(name), "{name}");
    }
    assert_eq!(said(&wrong).lines().count(), 1, "{}", said(&wrong));
    let nothing = reproduce(&[]);
    assert!(!nothing.status.success() && said(&nothing).contains("--list"), "{}", said(&nothing));
}

#[test]
fn an_interrupted_reproduction_shows_what_was_finished() {
    let scratch = Scratch::new();
    let out = scratch.path("out");
    // The first takes seconds, the second minutes.
    let mut running = Command::new(env!("CARGO_BIN_EXE_cellerator"))
        .args(["reproduce", "ma-figure-4", "ma-table-5", "--threads", "1", "--out", &out])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut words = BufReader::new(running.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(words.any(|line| line.contains("[2/2] ma-table-5")), "it ended by itself");
    let kill = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let last = words.last().unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert!(last.contains("interrupted after 1 of 2 experiments") && last.contains(&out), "{last}");
    for page in ["out/reproduction.html", "out/reproduction.md"] {
        let page = scratch.read(page);
        assert!(page.contains("interrupted after 1 of 2 experiments") && page.contains("ma-figure-4"));
    }
    assert!(!scratch.0.path().join("out/ma-table-5.json").exists());
}

/// Kernel TCP at both ends, two boxes and a router. Short: what it costs is for the experiment to say.
#[test]
fn flows_go_on_between_boxes_and_break_at_split_proxies() {
    let scratch = Scratch::new();
    let text = include_str!("../../../experiments/ev/moves.toml");
    let short = [
        ("time = \"60 s\"", "time = \"4 s\""),
        ("every = \"5 s\"", "every = \"2 s\""),
        ("bulk = 8", "bulk = 1"),
        ("exchanges = 4", "exchanges = 1"),
        ("uploads = 4", "uploads = 1"),
    ];
    let short = short.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    fs::create_dir_all(scratch.0.path().join("ev")).unwrap();
    fs::write(scratch.0.path().join("ev/moves.toml"), short).unwrap();
    let (out, folder) = (scratch.path("out"), scratch.0.path().to_str().unwrap());
    let run = reproduce(&["ev-moves", "--lab", "--out", &out, "--experiments", folder]);
    assert!(run.status.success(), "{}", said(&run));
    let document: Value = serde_json::from_str(&scratch.read("out/ev-moves.lab.json")).unwrap();
    schema::check_against(&document, include_str!("../../../schemas/reproduction.schema.json"));
    let checks = document["outcome"]["checks"].as_array().unwrap();
    for between in ["20 ms", "100 ms"] {
        for what in ["moves that a box refused", "flows broken, or with a wrong byte", "resets"] {
            let claim = format!("{between} between the boxes: {what}");
            let check = checks.iter().find(|check| check["claim"] == claim.as_str()).unwrap();
            assert_eq!(check["measured"], 0.0, "{claim}: {}", said(&run));
        }
    }
    let table = document["outcome"]["tables"][0]["rows"].as_array().unwrap();
    let value = |row: &str, column: usize| {
        let row = table.iter().find(|one| one["label"] == row).unwrap();
        row["values"][column]["mean"].as_f64().unwrap()
    };
    assert!(value("20 ms", 0) >= 3.0 && value("100 ms", 0) >= 3.0, "{table:?}");
    // A client that waits for data sends nothing that could be reset: its flow hangs.
    assert!(value("split TCP", 1) >= 1.0, "no proxy knows the other's connections: {table:?}");
    let (broken, left_kb) = (value("I-TCP, state only", 1), value("I-TCP, state only", 5));
    assert!(broken >= 1.0 && left_kb > 0.0, "the download's data stayed behind: {table:?}");
    assert_eq!((value("20 ms", 5), value("20 ms, CUBIC", 1)), (0.0, 0.0), "{table:?}");
}
