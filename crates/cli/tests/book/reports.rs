//! `cellerator history` and `cellerator report` beside an accelerator that works, with an upgrade in between.

use std::fs;
use std::process::Command;

use io::SpawnOptions;
use serde_json::Value;

use crate::network::{Network, PROGRAM, Running, wait_until};
use crate::schema;

/// What `cellerator report` says, and whether it was content.
fn report(network: &Network, arguments: &[&str]) -> (bool, String) {
    say(network, &[&["report", &network.name], arguments].concat())
}

/// What a command says, and whether it was content.
fn say(network: &Network, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = network.middle.spawn(command, SpawnOptions::default()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// The document, which follows its schema.
fn document(path: &str) -> Value {
    let document: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    schema::check_against(&document, include_str!("../../../../schemas/live-report.schema.json"));
    document
}

#[test]
fn what_was_recorded_is_reported_and_an_upgrade_is_no_gap() {
    const LEN: usize = 1_500_000;
    let network = Network::build("history");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let in_folder = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (ok, said) = report(&network, &["--directory", folder.to_str().unwrap()]);
    assert!(!ok && said.contains("no accelerator"), "{said}");
    let mut old = network.accelerate(&[]);
    let (ok, said) = report(&network, &["--directory", folder.to_str().unwrap()]);
    assert!(!ok && said.contains("there is no history of"), "{said}");
    let directory = ["--directory", folder.to_str().unwrap()];
    let arguments = [&["history", &network.name, "--every", "1 s"][..], &directory].concat();
    let history = Running::start(&network.middle, &arguments);
    history.wait_for("recording");
    let file = in_folder(&format!("{}.history.jsonl", network.name));
    let recorded = || fs::read_to_string(&file).unwrap_or_default();
    let seen = |text: &str| -> Vec<Value> {
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let sum = |slices: &[Value], of: &str| -> u64 {
        slices.iter().map(|slice| slice["downlink"][of].as_u64().unwrap()).sum()
    };
    wait_until("it has begun to record", || !recorded().is_empty());
    network.download(LEN);
    wait_until("the download is recorded", || sum(&seen(&recorded()), "goodput_bytes") >= LEN as u64);
    // A comparison that the process tells nobody of once it has gone.
    let (ok, said) = say(&network, &["ab", "start", &network.name, "--for", "1 s", "--seed", "5"]);
    assert!(ok, "{said}");
    wait_until("the end of the A/B phase is recorded", || {
        seen(&recorded()).iter().any(|slice| slice["ab"]["ended_by"] == "time")
    });
    let ended = || seen(&recorded()).iter().filter(|slice| slice["ab"]["is_running"] == false).count();
    let new = network.accelerate(&["--replace", &network.name]);
    assert!(old.child.wait().unwrap().success());
    network.download(LEN);
    wait_until("so is the one after the upgrade", || {
        sum(&seen(&recorded()), "goodput_bytes") >= 2 * LEN as u64
    });
    assert!(!recorded().contains("10.1.0.2"), "no address is kept");
    // Some that end at once, of which there are records.
    let mut aborted = 0;
    wait_until("records of flows are there", || {
        network.abort(300_000, 1_000);
        aborted += 301_000;
        seen(&recorded()).iter().any(|slice| slice["ended"].as_u64() > Some(0))
    });
    let (json, html) = (in_folder("report.json"), in_folder("report.html"));
    let (ok, said) =
        report(&network, &[&["--since", "1h", "--json", &json, "--html", &html][..], &directory].concat());
    assert!(ok && said.contains("flows were accelerated"), "{said}");
    let first = document(&json);
    let delivered = first["totals"]["downlink_bytes"].as_u64().unwrap();
    assert!(
        // Headers, and what is sent again, are less than a tenth.
        delivered >= 2 * LEN as u64 && delivered < (2 * LEN as u64 + aborted) * 11 / 10,
        "nothing is counted twice: {delivered}"
    );
    assert!(first["flows"]["ended"].as_u64() > Some(0), "{first}");
    assert_eq!(
        (first["ab"].as_array().unwrap().len(), ended()),
        (1, 1),
        "once, however often it was asked for"
    );
    assert_eq!((&first["ab"][0]["seed"], &first["ab"][0]["planned_ms"]), (&5.into(), &1_000.into()));
    let page = fs::read_to_string(&html).unwrap();
    assert!(
        page.contains("of it only") && page.contains("were not measured") && page.contains("Control group"),
        "{page}"
    );
    let before = in_folder("both.json");
    let arguments = [&["--during", "2 s", "--before", &json, "--json", &before][..]].concat();
    let (ok, said) = report(&network, &arguments);
    assert!(ok, "{said}");
    assert_eq!(document(&before)["before"]["downloads"].as_array().unwrap().len(), 3);
    let (ok, said) = report(&network, &["--during", "1 s", "--before", &html]);
    assert!(!ok && said.contains("--before"), "{said}");
    history.stop();
    new.stop();
}

#[test]
fn one_sheet_is_printed_where_a_browser_is_and_its_lack_is_said_at_once() {
    let network = Network::build("sheet");
    let accelerator = network.accelerate(&[]);
    let folder = tempfile::tempdir().unwrap();
    let pdf = folder.path().join("report.pdf");
    let mut command = Command::new(PROGRAM);
    command
        .args(["report", &network.name, "--during", "1 h", "--pdf", pdf.to_str().unwrap()])
        .env("PATH", "/nowhere");
    command.stderr(std::process::Stdio::piped());
    let output = network.middle.spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("chromium") && said.contains("--html"), "{said}");
    if history::printer(&std::env::var_os("PATH").unwrap()).is_some() {
        let (ok, said) = report(&network, &["--during", "2 s", "--pdf", pdf.to_str().unwrap()]);
        assert!(ok, "{said}");
        let printed = fs::read(&pdf).unwrap();
        // Objects of the kind `Page`; `Pages` is their list.
        let pages = String::from_utf8_lossy(&printed).matches("/Type /Page\n").count();
        assert_eq!(pages, 1, "it is one sheet");
    }
    accelerator.stop();
}
