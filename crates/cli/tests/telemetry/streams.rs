//! `cellerator events` and `export flows --json`, and what becomes of them when a process takes another one's place.

use std::time::Duration;

use serde_json::Value;

use crate::network::{Network, Running};

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Opens flows until one of them is told of: nothing says from when on it listens.
fn hear_of_a_flow(network: &Network, events: &Running) -> Value {
    for _ in 0..20 {
        let (client, server) = network.download(10_000);
        while let Some(line) = events.find("flow-accelerated", Duration::from_secs(1)) {
            let told = json(&line);
            if told["server"] == server.to_string() {
                assert_eq!(told["client"], client.to_string());
                return told;
            }
        }
    }
    panic!("no flow was told of");
}

#[test]
fn events_tell_of_flows_and_go_on_with_the_process_that_takes_the_place() {
    let network = Network::build("events");
    let mut old = network.accelerate(&[]);
    let events = Running::start(&network.middle, &["events", &network.name, "--flows", "--json"]);
    let told = hear_of_a_flow(&network, &events);
    assert_eq!((told["direction"].as_str(), told["at_ms"].is_u64()), (Some("downlink"), true), "{told}");
    let new = network.accelerate(&["--replace", &network.name]);
    let handed = json(&events.wait_for("handed-over"));
    assert_eq!((handed["severity"].as_str(), handed["flows"].is_u64()), (Some("info"), true), "{handed}");
    assert!(old.child.wait().unwrap().success());
    hear_of_a_flow(&network, &events);
    new.stop();
    drop(events);
}

#[test]
fn ended_flows_are_exported_as_json_lines() {
    const LEN: u64 = 300_000;
    const MORE: u64 = 1_000;
    let network = Network::build("export");
    let accelerator = network.accelerate(&["--direction", "downlink"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.jsonl");
    let export = Running::start(
        &network.middle,
        &["export", "flows", &network.name, "--json", path.to_str().unwrap()],
    );
    let mut ends = Vec::new();
    let mut records: Vec<Value> = Vec::new();
    crate::network::wait_until("a record of a whole flow is there", || {
        ends.push(network.abort(LEN as usize, MORE as usize));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        records = text.lines().map(json).collect();
        records.iter().any(|record| record["began_ms"].is_u64())
    });
    let record = records.iter().find(|record| record["began_ms"].is_u64()).unwrap();
    assert_eq!(
        (record["event"].as_str(), record["direction"].as_str()),
        (Some("flow-ended"), Some("downlink"))
    );
    assert!(ends.iter().any(|(client, server)| {
        record["client"] == client.to_string() && record["server"] == server.to_string()
    }));
    assert_eq!(record["taken_bytes"].as_u64(), Some(LEN + MORE));
    assert!((LEN..=LEN + MORE).contains(&record["delivered_bytes"].as_u64().unwrap()), "{record}");
    assert!(record["server_bytes"].as_u64().unwrap() > LEN && record["client_packets"].as_u64().unwrap() > 1);
    assert_eq!(record["reason"].as_str(), Some("reset"));
    assert!(record["ended_ms"].as_u64() >= record["began_ms"].as_u64());
    export.stop();
    accelerator.stop();
}
