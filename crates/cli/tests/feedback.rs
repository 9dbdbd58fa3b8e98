//! `cellerator feedback-adapter`, `model stability` and `trace generate --redraw` as a user runs them.

use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use units::{Bytes, Rate};
use wire::{FeedbackDatagram, FeedbackError, FeedbackKey};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cellerator");

/// Two readings of one device by a gNB, the second of a device nobody mapped.
const METRICS: &str = r#"{"timestamp": 1700000000.5, "cells": [{"cell_metrics": {}, "ue_list": [
    {"pci": 1, "rnti": 17921, "cqi": 15, "dl_mcs": 27, "dl_brate": 17500000.0, "dl_bs": 44000},
    {"pci": 1, "rnti": 17999, "dl_brate": 1000.0, "dl_bs": 0}]}]}
{"timestamp": 1700000001.5, "cells": [{"cell_metrics": {}, "ue_list": [
    {"pci": 1, "rnti": 17921, "cqi": 9, "dl_mcs": 12, "dl_brate": 4000000.0, "dl_bs": 90000}]}]}
"#;

fn adapt(arguments: &[&str], input: &str) -> (Vec<Vec<u8>>, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let to = socket.local_addr().unwrap().to_string();
    let mut child = Command::new(PROGRAM)
        .args(["feedback-adapter", "--to", &to])
        .args(arguments)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let mut datagrams = Vec::new();
    let mut buffer = [0; 2_048];
    // Loopback: what was sent before the program ended is there.
    while let Ok(length) = socket.recv(&mut buffer) {
        datagrams.push(buffer[..length].to_vec());
    }
    (datagrams, said)
}

#[test]
fn metrics_of_a_gnb_become_datagrams() {
    let (datagrams, said) = adapt(&["srsran", "--map", "17921=10.45.0.2"], METRICS);
    let reports: Vec<_> =
        datagrams.iter().map(|bytes| FeedbackDatagram::decode(bytes, None).unwrap()).collect();
    let figures: Vec<_> = reports.iter().map(|report| (report.bandwidth, report.queue)).collect();
    assert_eq!(
        figures,
        [
            (Some(Rate::from_kbps(17_500)), Some(Bytes::new(44_000))),
            (Some(Rate::from_kbps(4_000)), Some(Bytes::new(90_000))),
        ]
    );
    assert!(reports.iter().all(|report| report.subscriber.to_string() == "10.45.0.2"));
    assert!(reports[0].sequence < reports[1].sequence);
    assert!(said.contains("no address for `1/17999`"), "{said}");
}

#[test]
fn a_document_with_nothing_in_it_is_refused() {
    let refused = |kind: &str, input: &str| {
        let mut child = Command::new(PROGRAM)
            .args(["feedback-adapter", kind, "--to", "127.0.0.1:9"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // Of another kind, of none, and nothing at all.
    for (kind, input, needed) in [
        ("mec-rnis", METRICS, "cellUEInfo"),
        ("srsran", "{\"rate\": 5}", "ue_list"),
        ("srsran", "", "ue_list"),
    ] {
        let (code, said) = refused(kind, input);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("nothing found in") && said.contains(needed), "{said}");
    }
    assert!(refused("srsran", "{\"rate\": 5}").1.contains("document 1 says nothing of any device"));
    // A cell without devices is one of its kind.
    assert_eq!(refused("srsran", "{\"cells\": [{\"ue_list\": []}]}").0, Some(0));
}

#[test]
fn signed_datagrams_need_the_key() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&path, "a key of more than sixteen bytes").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let (datagrams, _) =
        adapt(&["srsran", "--map", "17921=10.45.0.2", "--key-file", path.to_str().unwrap()], METRICS);
    let key = FeedbackKey::new(b"a key of more than sixteen bytes").unwrap();
    let wrong = FeedbackKey::new(b"another key of sixteen bytes and more").unwrap();
    assert_eq!(datagrams.len(), 2);
    assert!(FeedbackDatagram::decode(&datagrams[0], Some(&key)).is_ok());
    let refused: Result<_, FeedbackError> = FeedbackDatagram::decode(&datagrams[0], Some(&wrong));
    assert!(refused.is_err());
}

fn cellerator(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_theorem_by_numbers() {
    let output = cellerator(&["model", "stability"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let verdict = |start: &str| {
        let mut lines = said.lines().skip_while(|line| !line.starts_with(start));
        let line = lines.nth(1).expect("a line of the table below the name");
        assert!(line.chars().count() <= 80, "{line}");
        line.split("  ").last().unwrap().trim().to_owned()
    };
    assert_eq!(verdict("[WA], g = 1, E[q(0)] = q0"), "neutrally stable");
    assert_eq!(verdict("AR root outside the unit circle"), "unstable");
    assert_eq!(verdict("g = 0.5"), "stable");
}

#[test]
fn a_redrawn_rate_becomes_a_trace() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let name = path.to_str().unwrap();
    let rate = ["--redraw", "1 Mbit/s..2 Mbit/s", "--every", "200 ms"];
    let output = cellerator(
        &[&["trace", "generate"], &rate[..], &["--seconds", "60", "--seed", "3", "-o", name]].concat(),
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = std::fs::read_to_string(&path).unwrap();
    // 60 s around 1.5 Mbit/s: 7,500 opportunities of 1500 bytes; 300 draws leave a few per cent.
    let opportunities = trace.lines().count();
    assert!((7_100..7_900).contains(&opportunities), "{opportunities}");
}
