//! `cellerator analyze` as a user runs it.

mod copies;
mod edges;
mod frames;
mod live;
mod many;
mod metamorphic;
mod outputs;
mod page;
mod quic;
mod times;
mod truth;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use units::SeqNum;
use wire::{TcpFlags, TcpHeaderSpec};

/// A pcap file (raw IP, microseconds) of a handshake, two segments, and the second again after 300 ms.
fn capture() -> Vec<u8> {
    let ends: [SocketAddr; 2] =
        ["10.0.0.1:1000".parse().expect("an address"), "10.0.0.2:80".parse().expect("an address")];
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101_u32] {
        file.extend(word.to_le_bytes());
    }
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    for (us, from, seq, acked, flags, len) in [
        (0_u32, 0, 0, 0, syn, 0_usize),
        (40_000, 1, 0, 1, syn | ack, 0),
        (40_010, 0, 1, 1, ack, 0),
        (50_000, 0, 1, 1, ack, 1000),
        (50_100, 0, 1001, 1, ack, 1000),
        (90_000, 1, 1, 1001, ack, 0),
        (390_000, 0, 1001, 1, ack, 1000),
        (430_000, 1, 1, 2001, ack, 0),
    ] {
        let mut spec =
            TcpHeaderSpec::new(ends[from], ends[1 - from], SeqNum::new(seq), SeqNum::new(acked), flags);
        spec.window = 60_000;
        let mut header = [0; TcpHeaderSpec::MAX_LEN];
        let emitted = spec.emit_partial(&mut header, len).expect("a header");
        for word in [0, us, emitted.len as u32, emitted.total_len as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&header[..emitted.len]);
    }
    file
}

fn analyze(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cellerator"))
        .arg("analyze")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("standard input");
    std::thread::scope(|scope| {
        // It writes before it has read everything; and one that refuses its arguments does not read.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().expect("it ends")
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_table_and_json_from_standard_input() {
    let table = analyze(&["-"], &capture());
    let shown = text(&table.stdout);
    assert!(table.status.success(), "{}", text(&table.stderr));
    assert!(
        shown.contains("8 packets, 8 of TCP") && shown.contains("10.0.0.1:1000 -> 10.0.0.2:80"),
        "{shown}"
    );
    assert!(shown.contains("1>2 time outs: 1 retransmission time-outs"), "{shown}");

    let json = analyze(&["--json", "--events", "-"], &capture());
    let document: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(document["schema"], "cellerator/analysis/1");
    let flow = &document["flows"][0];
    assert_eq!((&flow["vantage"], &flow["client"]), (&"first".into(), &0.into()));
    assert_eq!(flow["directions"][0]["retransmissions"]["rto"], 1);
    assert_eq!(document["events"][0]["cause"], "rto");
}

#[test]
fn a_folder_with_a_broken_file_gives_what_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = capture();
    // Rotated within the connection; the second part has lost its end.
    let cut = 24 + 5 * 56;
    let head = &file[..cut];
    let tail = [&file[..24], &file[cut..file.len() - 7]].concat();
    std::fs::write(folder.path().join("a.pcap1"), head).expect("written");
    std::fs::write(folder.path().join("a.pcap2"), tail).expect("written");
    std::fs::write(folder.path().join("notes.txt"), b"no capture").expect("written");
    let out = analyze(&[&folder.path().display().to_string()], &[]);
    let (shown, said) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{said}");
    assert!(said.contains("a.pcap2: the file is cut at byte") && said.lines().count() == 1, "{said}");
    assert!(shown.contains("a.pcap1: 5 packets") && shown.contains("a.pcap2: 2 packets"), "{shown}");
    assert!(shown.contains("\n1 flow\n") && !shown.contains("notes"), "{shown}");
}

#[test]
fn text_says_what_was_skipped_and_sorted() {
    let mut file = capture();
    let mut udp = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    udp.extend([0; 8]);
    let mut fragment = udp.clone();
    fragment[6..10].copy_from_slice(&[0x20, 0, 64, 6]);
    // No IP, UDP twice, a fragment, a TCP header cut in half; the last two come 2 ms late.
    let frames = [vec![0x05; 30], udp.clone(), udp, fragment, file[40..60].to_vec()];
    for (us, frame) in [440_000, 441_000, 442_000, 439_000, 440_500_u32].into_iter().zip(frames) {
        for word in [0, us, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    let out = text(&analyze(&["-"], &file).stdout);
    let said = "-: 13 packets, 8 of TCP, 2 of UDP, 1 not IP, 1 fragments, 1 with headers cut, 1 steps back in \
                time, 2 put in the order of time";
    assert_eq!(out.lines().next(), Some(said));
    let json: Value = serde_json::from_slice(&analyze(&["-", "--json"], &file).stdout).expect("JSON");
    let found = &json["captures"][0];
    assert_eq!((&found["sorted"], &found["time_steps_back"]), (&2.into(), &1.into()));
    let skipped: u64 = found["skipped"].as_object().expect("counts").values().filter_map(Value::as_u64).sum();
    assert_eq!(found["packets"].as_u64(), found["segments"].as_u64().map(|segments| segments + skipped));
}

#[test]
fn a_capture_is_never_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pcap");
    std::fs::write(&path, capture()).expect("written");
    let name = path.display().to_string();
    let other = folder.path().join("../").join(folder.path().file_name().expect("a name")).join("a.pcap");
    for flag in ["--html", "--csv", "--jsonl", "--perfetto", "--annotate"] {
        for target in [&name, &other.display().to_string()] {
            let out = analyze(&[&name, flag, target], &[]);
            let said = text(&out.stderr);
            assert!(!out.status.success() && said.contains("choose another name"), "{flag}: {said}");
            assert_eq!(std::fs::read(&path).expect("read"), capture(), "{flag}");
        }
    }
    let out = analyze(&[&name, "--csv", "-", "--jsonl", "-"], &[]);
    assert!(text(&out.stderr).contains("--csv and --jsonl both go to standard output"));
    let out = analyze(&["--group", &format!("a={name}"), "--compare", "--html", &name], &[]);
    assert!(text(&out.stderr).contains("choose another name"));
    assert_eq!(std::fs::read(&path).expect("read"), capture());
}

#[test]
fn the_same_packets_in_two_files_are_no_retransmissions() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("one.pcap"), capture()).expect("written");
    std::fs::write(folder.path().join("two.pcap"), capture()).expect("written");
    let place = folder.path().display().to_string();
    let retransmissions = |args: &[&str]| -> Vec<u64> {
        let document: Value = serde_json::from_slice(&analyze(args, &[]).stdout).expect("JSON");
        let flows = document["flows"].as_array().expect("flows").clone();
        let of = |flow: &Value| {
            flow["directions"][0]["retransmissions"]["data_packets"].as_u64().expect("a number")
        };
        flows.iter().map(of).collect()
    };
    assert_eq!(retransmissions(&["--json", &place]), [1, 1]);
    // At one place they are copies.
    assert_eq!(retransmissions(&["--json", "--one-point", &place]), [1]);
}

/// The capture of [`capture`] many times, with other addresses.
fn many_flows() -> Vec<u8> {
    let file = capture();
    let mut all = file[..24].to_vec();
    for flow in 0..1_500_u16 {
        let mut packets = file[24..].to_vec();
        let mut at = 0;
        while at < packets.len() {
            let len = u32::from_le_bytes(packets[at + 8..at + 12].try_into().expect("four bytes")) as usize;
            let ip = at + 16;
            // The network of both ends.
            packets[ip + 13..ip + 15].copy_from_slice(&flow.to_be_bytes());
            packets[ip + 17..ip + 19].copy_from_slice(&flow.to_be_bytes());
            at = ip + len;
        }
        all.extend(packets);
    }
    all
}

#[test]
fn threads_change_nothing() {
    let file = many_flows();
    let of = |threads: &str, more: &[&str]| {
        let out = analyze(&[&["--threads", threads, "-"], more].concat(), &file);
        assert!(out.status.success(), "{}", text(&out.stderr));
        // The command is a part of the document.
        text(&out.stdout).lines().filter(|line| !line.contains("made_by")).collect::<Vec<_>>().join("\n")
    };
    let alone = of("1", &["--json", "--events"]);
    assert!(alone.contains("\"id\":1499") && !alone.contains("\"id\":1500"), "1500 flows");
    for threads in ["2", "3", "40"] {
        assert_eq!(of(threads, &["--json", "--events"]), alone, "{threads} threads");
    }
    // With an output of packets.
    let folder = tempfile::tempdir().expect("a folder");
    let pages: Vec<Vec<u8>> = ["1", "2"]
        .map(|threads| {
            let path = folder.path().join(format!("{threads}.json"));
            of(threads, &["--perfetto", &path.display().to_string()]);
            std::fs::read(path).expect("written")
        })
        .to_vec();
    assert!(pages[0] == pages[1] && pages[0].len() > 10_000);
    assert!(!analyze(&["--threads", "0", "-"], &file).status.success());
}

#[test]
fn what_is_no_capture_is_said() {
    let out = analyze(&["-"], b"hello");
    assert!(!out.status.success() && text(&out.stderr).contains("-: not a capture"), "{}", text(&out.stderr));
    let out = analyze(&["--json", "/nowhere/at/all.pcap"], &[]);
    assert!(
        !out.status.success() && out.stdout.is_empty() && text(&out.stderr).contains("no such file"),
        "{}",
        text(&out.stderr)
    );
}

/// Names of all fields within a value.
fn names(value: &Value, found: &mut BTreeSet<String>) {
    for (name, inner) in value.as_object().into_iter().flatten() {
        found.insert(name.clone());
        names(inner, found);
    }
    value.as_array().into_iter().flatten().for_each(|inner| names(inner, found));
}

#[test]
fn every_field_is_explained() {
    let json = analyze(&["--json", "--events", "-"], &capture());
    let document: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let mut fields = BTreeSet::new();
    names(&document, &mut fields);
    assert!(fields.len() > 120, "{fields:?}");
    // Of the tables; the kinds of findings; and a cause.
    let others =
        ["flow_id", "a2b_rtt_karn_p95_ms", "rtt_mean_ms", "split_connection", "tlp", "dsack", "half_closed"];
    for name in fields.iter().map(String::as_str).chain(others) {
        let out = analyze(&["--explain", name], &[]);
        let shown = text(&out.stdout);
        assert!(out.status.success(), "{name}: {}", text(&out.stderr));
        let is_said = shown.lines().any(|line| {
            line.split_once(": ").is_some_and(|(what, said)| {
                let what = what.split([' ', '.', '(']).any(|part| part == name);
                what && said.trim().len() > 3
            })
        });
        assert!(is_said, "{name}: {shown}");
    }
}

#[test]
fn metrics_are_explained() {
    let out = analyze(&["--explain", "spurious"], &[]);
    let shown = text(&out.stdout);
    assert!(out.status.success() && shown.contains("retransmissions.spurious_dsack: "), "{shown}");
    let all = text(&analyze(&["--explain", "RTT"], &[]).stdout);
    assert!(
        ["karn", "tcptrace", "timestamps"].iter().all(|way| all.contains(&format!("rtt_report.{way}: "))),
        "{all}"
    );
    let kinds = text(&analyze(&["--explain", "diagnosis"], &[]).stdout);
    assert!(kinds.contains("diagnosis_kind = bufferbloat: "), "{kinds}");
    assert!(!analyze(&["--explain", "no such thing"], &[]).status.success());
}

#[test]
fn a_comparison_needs_environments() {
    let out = analyze(&["--compare", "a.pcap"], &[]);
    assert!(!out.status.success() && text(&out.stderr).contains("--group"), "{}", text(&out.stderr));
}

#[test]
fn beginnings_of_captures_are_told_from_other_files() {
    let whole = capture();
    for (bytes, said) in [
        (&[][..], "the file is empty"),
        (&whole[..10], "cut at byte 0: the header of the file needs 24 bytes and 10 are left"),
        (&b"no capture at all, only text"[..], "not a capture"),
    ] {
        let out = analyze(&["-"], bytes);
        assert!(!out.status.success() && text(&out.stderr).contains(said), "{}", text(&out.stderr));
    }
}
