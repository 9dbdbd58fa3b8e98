//! The analysis against what really happened: captures of kernel TCP over the lab's links, with the
//! kernels' counters.
//!
//! Made by `cellerator lab run scenarios/captures.toml --captures DIR`, packed with gzip
//! (`tests/captures/README.md`).

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{analyze, text};

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

/// A recorded case.
struct Case {
    name: String,
    truth: Value,
    /// As found in the captures beside the server and beside the client.
    server: Value,
    client: Value,
}

impl Case {
    fn read(truth: &Path) -> Self {
        let name =
            truth.file_name().and_then(|name| name.to_str()?.strip_suffix(".truth.json")).expect("a name");
        let found = |end: &str| {
            let file = captures().join(format!("{name}.{end}.pcapng.gz"));
            let out = analyze(&["--json", &file.display().to_string()], &[]);
            assert!(out.status.success(), "{}", text(&out.stderr));
            serde_json::from_slice(&out.stdout).expect("JSON")
        };
        let truth = serde_json::from_slice(&std::fs::read(truth).expect("readable")).expect("JSON");
        Self { server: found("server"), client: found("client"), truth, name: name.to_owned() }
    }

    fn all() -> Vec<Self> {
        let entries = std::fs::read_dir(captures()).expect("captures");
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        files.retain(|file| file.to_string_lossy().ends_with(".truth.json"));
        files.sort();
        assert!(files.len() >= 9, "{files:?}");
        files.iter().map(|file| Self::read(file)).collect()
    }

    /// A counter of the server's kernel.
    fn counted(&self, name: &str) -> u64 {
        self.truth["server"][name].as_u64().unwrap_or(0)
    }

    /// A figure of the direction from the server, summed over the flows of a capture.
    fn found(capture: &Value, path: &str) -> u64 {
        let flows = capture["flows"].as_array().expect("flows");
        let from_server = |flow: &Value| -> Value {
            let server = 1 - flow["client"].as_u64().expect("a handshake") as usize;
            flow["directions"][server].clone()
        };
        flows.iter().filter_map(|flow| from_server(flow).pointer(path)?.as_u64()).sum()
    }

    fn resent(&self, what: &str) -> u64 {
        Self::found(&self.server, &format!("/retransmissions/{what}"))
    }
}

#[test]
fn retransmissions_are_those_of_the_kernel() {
    for case in Case::all() {
        let found = case.resent("data_packets") + case.resent("syn") + case.resent("fin");
        assert_eq!(found, case.counted("Tcp.RetransSegs"), "{}", case.name);
    }
}

#[test]
fn their_causes_are_those_of_the_kernel() {
    let (mut right, mut all) = (0, 0);
    for case in Case::all() {
        for (cause, counter) in
            [("fast", "TcpExt.TCPFastRetrans"), ("rto_recovery", "TcpExt.TCPSlowStartRetrans")]
        {
            let (found, counted) = (case.resent(cause), case.counted(counter));
            right += found.min(counted);
            all += found.max(counted);
        }
    }
    assert!(all > 90, "there is something to tell apart: {all}");
    assert!(right * 100 >= all * 95, "{right} of {all}");
}

#[test]
fn kinds_add_up_to_what_was_sent_again() {
    let mut all = 0;
    for case in Case::all() {
        for flow in case.server["flows"].as_array().expect("flows") {
            for direction in flow["directions"].as_array().expect("two") {
                let resent = &direction["retransmissions"];
                let sum =
                    |names: &[&str]| -> Option<u64> { names.iter().map(|name| resent[name].as_u64()).sum() };
                let sent_again = sum(&["data_packets", "syn", "fin"]).expect("counts");
                if let Some(kinds) = sum(&["syn", "rto", "rto_recovery", "fast", "tlp", "unclear"]) {
                    assert_eq!(kinds, sent_again, "{}: {resent}", case.name);
                    all += kinds;
                }
            }
        }
    }
    assert!(all > 100, "{all}");
}

#[test]
fn time_outs_are_found_where_the_kernel_had_them() {
    for case in Case::all() {
        assert_eq!(case.resent("rto") > 0, case.counted("TcpExt.TCPTimeouts") > 0, "{}", case.name);
        let has_undone = case.counted("TcpExt.TCPLossUndo") + case.counted("TcpExt.TCPDSACKRecv") > 0;
        if has_undone {
            assert!(case.resent("spurious") > 0, "{}: what was not needed is found", case.name);
        }
    }
}

#[test]
fn beside_the_receiver_losses_are_those_of_the_link() {
    for case in Case::all() {
        // Of short flows whole tails and handshakes are lost, which leave nothing at the receiver to see.
        if case.name == "short-flows" {
            continue;
        }
        let lost = Case::found(&case.client, "/loss/before_capture");
        let dropped = case.truth["dropped"]["radio_down"].as_u64().expect("a count");
        assert!(lost.abs_diff(dropped) * 10 <= dropped, "{}: {lost} found, {dropped} dropped", case.name);
        assert_eq!(
            Case::found(&case.client, "/loss/reordered"),
            0,
            "{}: these links keep the order",
            case.name
        );
    }
}

#[test]
fn acknowledgements_that_the_link_dropped_are_missed_by_their_numbers() {
    let mut told = 0;
    for case in Case::all() {
        let of_client = |capture: &Value| -> Option<u64> {
            let flows = capture["flows"].as_array().expect("flows").iter();
            let acks = |flow: &Value| {
                let client = flow["client"].as_u64().expect("a handshake") as usize;
                flow["directions"][client]["loss"]["acks_before_capture"].as_u64()
            };
            flows.map(acks).sum()
        };
        // IPv6 has no identifications, and too few packets tell nothing.
        let Some(lost) = of_client(&case.server) else {
            assert!(["ipv6", "short-flows"].contains(&case.name.as_str()), "{}", case.name);
            continue;
        };
        let dropped = case.truth["dropped"]["radio_up"].as_u64().expect("a count");
        // One in twenty may have carried more than an acknowledgement, or be the last.
        assert!(lost.abs_diff(dropped) * 20 <= dropped, "{}: {lost} found, {dropped} dropped", case.name);
        assert_eq!(of_client(&case.client), Some(0), "{}: beside their sender", case.name);
        told += u64::from(dropped > 20);
    }
    assert!(told > 0, "there is something to find");
}

#[test]
fn round_trips_and_bytes_are_those_of_the_path() {
    for case in Case::all() {
        let sent = case.truth["bytes"].as_u64().expect("bytes");
        let unique = Case::found(&case.server, "/unique_bytes");
        let flows = case.server["flows"].as_array().expect("flows");
        // Each answer has a header of HTTP.
        let header = (unique - sent) / flows.len() as u64;
        assert!((100..500).contains(&header), "{}: {unique} for {sent}", case.name);
        let path = case.truth["path_rtt_ms"].as_f64().expect("a time");
        for flow in flows {
            let server = 1 - flow["client"].as_u64().expect("a handshake") as usize;
            let karn = &flow["directions"][server]["rtt"]["karn"];
            let Some(least) = karn["min_ms"].as_f64() else { continue };
            assert!((path..path + 60.0).contains(&least), "{}: {least} ms on a path of {path} ms", case.name);
            if karn["n"].as_u64() > Some(50) {
                assert!(least < path + 2.0, "{}: {least} ms on a path of {path} ms", case.name);
            }
        }
    }
}

/// The kinds that are found in the data from the server.
fn kinds(capture: &Value) -> Vec<String> {
    let flow = &capture["flows"][0];
    let server = 1 - flow["client"].as_u64().expect("a handshake");
    let all = flow["diagnoses"].as_array().expect("diagnoses").iter();
    let of_server = all.filter(|found| found["direction"].as_u64() == Some(server));
    of_server.map(|found| found["kind"].as_str().expect("a kind").to_owned()).collect()
}

#[test]
fn a_small_window_is_found_beside_the_receiver_too() {
    for case in Case::all() {
        let is_expected = case.name == "small-window";
        for (end, capture) in [("server", &case.server), ("client", &case.client)] {
            let is_found = kinds(capture).iter().any(|kind| kind == "receive_window_limited");
            assert_eq!(is_found, is_expected, "{} at the {end}", case.name);
        }
    }
}

#[test]
fn each_case_is_told_by_what_was_found() {
    let said = |case: &Case| -> Vec<String> {
        let flows = case.server["flows"].as_array().expect("flows");
        let found = flows.iter().flat_map(|flow| flow["diagnoses"].as_array().expect("a list").clone());
        found.map(|one| one["kind"].as_str().expect("a kind").to_owned()).collect()
    };
    for case in Case::all() {
        let kinds = said(&case);
        let has = |kind: &str| kinds.iter().any(|found| found == kind);
        let is_as_it_must = match case.name.as_str() {
            "clean" => kinds.is_empty(),
            "bufferbloat" => has("bufferbloat") && !has("loss"),
            "small-window" => kinds == ["receive_window_limited"],
            "outage" => has("time_outs") && has("needless_retransmissions") && !has("bufferbloat"),
            "loss" | "ipv6" | "small-queue" => kinds == ["loss"],
            "acks-lost" => has("loss") && !has("split_connection"),
            _ => has("loss"),
        };
        assert!(is_as_it_must, "{}: {kinds:?}", case.name);
        assert_eq!(case.server["flows"][0]["vantage"], "second", "{}: beside the server", case.name);
    }
}

/// Share of a cause of the time in the flow with most data, percent.
fn share(capture: &Value, cause: &str) -> f64 {
    let flows = capture["flows"].as_array().expect("flows");
    let total = |flow: &&Value| flow["budget"]["total_ns"].as_u64();
    let budget = &flows.iter().max_by_key(total).expect("a flow")["budget"];
    let part = |name: &str| budget[format!("{name}_ns")].as_u64().expect("a part") as f64;
    100.0 * part(cause) / part("total")
}

#[test]
fn time_goes_where_it_does_from_either_end() {
    // Lost acknowledgements and a flow of few round trips look different from the two ends.
    for case in
        Case::all().iter().filter(|case| !["acks-lost", "short-flows", "clean"].contains(&&*case.name))
    {
        for cause in ["receive_window", "application", "loss_recovery", "outage", "path_rate", "policer"] {
            let (server, client) = (share(&case.server, cause), share(&case.client, cause));
            assert!((server - client).abs() <= 5.0, "{} {cause}: {server} {client}", case.name);
        }
    }
}

#[test]
fn most_of_the_time_goes_where_the_scenario_lets_it() {
    for (name, cause, least) in [
        ("bufferbloat", "path_rate", 85.0),
        ("outage", "loss_recovery", 65.0),
        ("small-window", "receive_window", 80.0),
    ] {
        let case = Case::read(&captures().join(format!("{name}.truth.json")));
        for capture in [&case.server, &case.client] {
            assert!(share(capture, cause) >= least, "{name} {cause}: {}", share(capture, cause));
        }
    }
}

#[test]
fn a_lost_request_is_loss_from_either_end() {
    // The acknowledgement of the handshake was lost, and the request with it: the client saw an open connection.
    let case = Case::read(&captures().join("acks-lost.truth.json"));
    for capture in [&case.server, &case.client] {
        let all =
            ["handshake", "slow_start", "receive_window", "application", "outage", "path_rate", "closing"];
        let most = all.map(|cause| share(capture, cause)).into_iter().fold(0.0, f64::max);
        assert!(share(capture, "loss_recovery") > most, "{}", capture["flows"][0]["budget"]);
        assert!((3.0..6.0).contains(&share(capture, "handshake")), "{}", capture["flows"][0]["budget"]);
        assert!(share(capture, "application") < 5.0, "{}", capture["flows"][0]["budget"]);
    }
}

#[test]
fn kinds_of_retransmissions_are_told_on_a_narrow_terminal_too() {
    let shown = |name: &str| {
        let file = captures().join(format!("{name}.pcapng.gz"));
        text(&analyze(&[&file.display().to_string()], &[]).stdout)
    };
    let outage = shown("outage.server");
    assert!(
        outage.contains("\n  2>1 resent: syn 0, rto 1, fast 30, tlp 0, unclear 0, spurious 1\n"),
        "{outage}"
    );
    assert!(!outage.contains("1>2 resent:") && !shown("clean.server").contains("resent:"), "{outage}");
    // One whole for every share.
    let small = shown("small-window.client");
    let share = |after: &str| small.split_once(after).expect("said").1.split_once(" %").expect("a share").0;
    assert_eq!(share("window was full "), share("window full "), "{small}");
}
