//! What `--json`, `--once` and `status --watch` print of a real accelerator.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

use io::SpawnOptions;
use serde_json::Value;

use crate::network::{Network, PROGRAM};
use crate::schema::check_against;
use crate::traffic::{Traffic, add_clients};

/// What a command of ours prints, which must succeed.
pub fn printed(network: &Network, arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = network.middle.spawn(command, SpawnOptions::default()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn without_an_accelerator_a_table_is_an_error_of_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    let output = command.args(["top", "--once", "--state-directory"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true), "{said}");
    assert!(said.contains("no accelerator is running") && said.lines().count() == 1, "{said}");
    let output =
        Command::new(PROGRAM).args(["top", "nobody", "--once", "--interval", "100 ms"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "cellerator: top: no accelerator 'nobody' at this machine\n");
}

#[test]
fn a_sample_as_json_has_the_fields_of_its_schema_and_real_values() {
    let network = Network::build("json");
    add_clients(&network, 2);
    let accelerator = network.accelerate(&["--shards", "2"]);
    let traffic = Traffic::start(&network, &[2, 3, 4]);
    // Datagrams of QUIC's port take turns with it, once the first data has gone.
    let datagrams = network.server.run(|| UdpSocket::bind("10.2.0.2:443")).unwrap().unwrap();
    for _ in 0..20 {
        std::thread::park_timeout(Duration::from_millis(100));
        datagrams.send_to(&[7; 1_000], "10.1.0.2:5000").unwrap();
    }
    let text = printed(&network, &["top", &network.name, "--json", "--interval", "2 s"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    check_against(&json, include_str!("../../../../schemas/top.schema.json"));
    let [own] = json["accelerators"].as_array().unwrap().as_slice() else { panic!("{text}") };
    assert_eq!(own["name"], network.name.as_str(), "{text}");
    assert!(own["trouble"].is_null() && own["is_whole"] == true, "{text}");
    let totals = &own["totals"];
    let goodput = totals["downlink_goodput_bps"].as_u64().unwrap();
    assert!(goodput > 1_000_000 && totals["subscribers"] == 3, "{text}");
    assert!(totals["round_trip_us"].as_u64().unwrap() > 0, "{text}");
    let subscribers = own["subscribers"].as_array().unwrap();
    assert_eq!(subscribers.len(), 3, "{text}");
    let delivered: u64 = subscribers.iter().map(|it| it["delivered_bps"].as_u64().unwrap()).sum();
    // The same bytes, looked at a moment later.
    assert!(delivered.abs_diff(goodput) < goodput / 4, "{delivered} of {goodput}");
    let passed = |last: u8| {
        let of = subscribers.iter().find(|it| it["address"] == format!("10.1.0.{last}")).unwrap();
        of["opaque"]["quic_bytes"].as_u64()
    };
    assert!(passed(2) > Some(5_000) && passed(3).is_none(), "{text}");
    for it in subscribers {
        assert!(it["flows"] == 1 && it["srtt_us"].as_u64().unwrap() > 0, "{text}");
    }
    let table = printed(&network, &["top", &network.name, "--once", "--interval", "500 ms"]);
    assert!(["10.1.0.2 ", "10.1.0.3 ", "10.1.0.4 "].iter().all(|it| table.contains(it)), "{table}");
    drop(traffic);
    accelerator.stop();
}

#[test]
fn a_watched_status_has_rates_from_the_second_sample_on() {
    let network = Network::build("watch");
    let accelerator = network.accelerate(&[]);
    let traffic = Traffic::start(&network, &[2]);
    let text =
        printed(&network, &["status", &network.name, "--watch", "--interval", "500 ms", "--count", "2"]);
    let samples: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(samples.len(), 2, "{text}");
    let delivered = |sample: &str| {
        sample.lines().find(|line| line.starts_with("bytes delivered ")).unwrap_or_default().to_owned()
    };
    assert!(!delivered(samples[0]).contains("/s"), "{text}");
    let rate = delivered(samples[1]).split_whitespace().last().unwrap().to_owned();
    assert!(rate.strip_suffix("/s").unwrap().parse::<u64>().unwrap() > 100_000, "{text}");
    assert!(samples[1].contains("bit/s"), "{text}");
    drop(traffic);
    accelerator.stop();
}
