//! What `probe` says of paths with something in the way: random loss, a small MTU, blocked ports, several addresses
//! of a server. Needs root.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use lab::Role;
use link::LossModel;
use serde_json::Value;
use units::{Bytes, Rate};

use crate::probe::link::{Bed, Radio, document};
use crate::schema;

const SWEEP: &str = include_str!("../../../../schemas/probe-sweep.schema.json");
const RTT: &str = include_str!("../../../../schemas/probe-rtt.schema.json");
const TCP: &str = include_str!("../../../../schemas/probe-tcp.schema.json");
const SERVER: &str = "10.1.0.2";

fn radio(mbps: u64, loss_ppm: u32) -> Radio {
    let loss = if loss_ppm > 0 { LossModel::Bernoulli { ppm: loss_ppm } } else { LossModel::None };
    Radio { rate: Rate::from_mbps(mbps), queue: Bytes::new(mbps * 12_500), loss }
}

fn sweep(bed: &Bed, rates: &str, more: &[&str]) -> Value {
    let found = bed.measure(&[&["sweep", SERVER, "--rates", rates, "--time", "2 s"], more].concat());
    schema::check_against(&found, SWEEP);
    found
}

#[test]
fn random_loss_is_not_taken_for_the_capacity() {
    let bed = Bed::build("random", &radio(100, 100_000));
    for rates in ["1 Mbit/s,4 Mbit/s", "3 Mbit/s"] {
        let found = sweep(&bed, rates, &["--ways", "down"]);
        let way = &found["directions"][0];
        assert_eq!(way["capacity"]["is_least"], true, "{rates}: {}", found["verdict"]);
        let random = way["random_loss_percent"].as_f64().unwrap();
        assert!((5.0..16.0).contains(&random), "{rates}: {random}");
        let verdict = found["verdict"].as_str().unwrap();
        assert!(verdict.contains("carries at least ") && verdict.contains("lost at random"), "{verdict}");
    }
    drop(bed.end());
    // The same loss on a link that carries less than is sent.
    let bed = Bed::build("random-2", &radio(2, 50_000));
    let found = sweep(&bed, "1 Mbit/s,4 Mbit/s", &["--ways", "down"]);
    assert_eq!(found["directions"][0]["capacity"]["is_least"], false, "{}", found["verdict"]);
    drop(bed.end());
}

#[test]
fn an_mtu_below_the_packets_is_named() {
    let bed = Bed::build("mtu", &radio(20, 0));
    let rules = "add table ip t; add chain ip t c { type filter hook forward priority 0; }; \
        add rule ip t c meta length > 1280 drop";
    bed.run(Role::Accelerator, "nft", &[rules]);
    let found = sweep(&bed, "2 Mbit/s", &["--packet", "1400"]);
    for way in found["directions"].as_array().unwrap() {
        assert_eq!(way["longest_packet_bytes"], 1_280, "{}", found["verdict"]);
    }
    let verdict = found["verdict"].as_str().unwrap();
    assert!(verdict.contains("packets of 1400 bytes do not come through"), "{verdict}");
    drop(bed.end());
}

#[test]
fn the_server_answers_from_the_address_that_was_asked() {
    let bed = Bed::build("homes", &radio(20, 0));
    for address in ["10.1.0.77/24", "10.1.0.78/32"] {
        bed.run(Role::Server, "ip", &["address", "add", address, "dev", "lo"]);
    }
    for host in ["10.1.0.2", "10.1.0.77", "10.1.0.78"] {
        let found = bed.measure(&["rtt", host, "--idle", "--time", "1 s"]);
        schema::check_against(&found, RTT);
        let idle = &found["phases"][0];
        assert_eq!((&idle["loss_percent"], &idle["repeated"]), (&0.0.into(), &0.into()), "{host}");
    }
    drop(bed.end());
}

#[test]
fn a_small_window_is_named_for_a_sender_that_paces_and_random_loss_for_one_that_does_not() {
    let limits = |found: &Value| -> Vec<String> {
        schema::check_against(found, TCP);
        let runs = found["runs"].as_array().unwrap().iter();
        runs.map(|run| run["limit"]["by"].as_str().unwrap().to_owned()).collect()
    };
    let of = |bed: &Bed, more: &[&str]| {
        let base = ["tcp", SERVER, "--ways", "down", "--time", "3 s", "--repetitions", "1"];
        bed.measure(&[&base[..], more].concat())
    };
    let bed = Bed::build("window", &radio(40, 0));
    let found = of(&bed, &["--cc", "bbr,cubic", "--window", "20 KB"]);
    assert_eq!(limits(&found), ["receive window", "receive window"], "{}", found["verdict"]);
    let verdict = found["verdict"].as_str().unwrap();
    assert!(
        verdict.ends_with(" KB), limited by the receive window.") && !verdict.contains(". "),
        "{verdict}"
    );
    drop(bed.end());
    let bed = Bed::build("lossy", &radio(40, 20_000));
    let found = of(&bed, &["--cc", "cubic"]);
    assert_eq!(limits(&found), ["loss"], "{}", found["runs"][0]["limit"]);
    drop(bed.end());
}

#[test]
fn a_blocked_port_is_named_and_nothing_else_of_it() {
    let mut bed = Bed::build("blocked", &radio(20, 0));
    bed.serve(env!("CARGO_BIN_EXE_cellerator"), &["probe", "server", "--ports", "80,443"]);
    for (rule, how) in
        [("reject with tcp reset", "blocked: refused by a reset"), ("drop", "blocked: no answer comes")]
    {
        let rules = format!(
            "flush ruleset; add table ip t; add chain ip t c {{ type filter hook forward priority 0; }}; \
             add rule ip t c tcp dport 80 {rule}"
        );
        bed.run(Role::Accelerator, "nft", &[&rules]);
        let found = bed.measure(&["middlebox", SERVER, "--ports", "80,443", "--delay", "1500 ms"]);
        let findings = found["findings"].as_array().unwrap();
        let of_80: Vec<&Value> = findings.iter().filter(|finding| finding["port"] == 80).collect();
        assert_eq!(of_80.len(), 1, "{of_80:?}");
        assert_eq!((&of_80[0]["test"], &of_80[0]["verdict"]), (&"reachable".into(), &how.into()));
        assert_eq!(of_80[0]["outcome"], "found");
        let is_clear = |finding: &&Value| finding["test"] == "reachable" && finding["outcome"] == "clear";
        assert_eq!(findings.iter().filter(is_clear).count(), 2, "443, and the main port");
        let verdict = found["verdict"].as_str().unwrap();
        assert!(verdict.starts_with("Port 80 is blocked on the way: "), "{verdict}");
    }
    drop(bed.end());
}

/// A server at every address of this machine, ended when dropped.
struct Everywhere(Child, String);

impl Everywhere {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cellerator"))
            .args(["probe", "server", "--listen", "[::]:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.by_ref().map(Result::unwrap).find(|line| line.contains("listening at")).unwrap();
        let port = line.split("]:").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Self(child, port)
    }
}

impl Drop for Everywhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn hosts_may_stand_in_brackets_and_each_address_answers_for_itself() {
    let server = Everywhere::start();
    let measure = |host: &str| {
        Command::new(env!("CARGO_BIN_EXE_cellerator"))
            .args(["probe", "rtt", host, "--port", &server.1, "--idle", "--time", "500 ms", "--json", "-"])
            .output()
            .unwrap()
    };
    for host in ["127.0.0.1", "127.0.0.5", "::1", "[::1]"] {
        let found = document(&measure(host));
        assert_eq!(found["phases"][0]["loss_percent"], 0.0, "{host}");
    }
    let output = measure("fe80::1");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("needs the interface"), "{said}");
}
