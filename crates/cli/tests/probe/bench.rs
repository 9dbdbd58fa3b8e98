//! How exact the probe is on this machine, and what other programs say of the same link. `make bench-probe`.

use std::io::Read;
use std::path::PathBuf;
use std::process::Child;

use lab::Role;
use link::{Capacity, DelayModel, LinkConfig, LossModel, QueueLimit};
use serde_json::{Value, json};
use units::{Bytes, Duration, Rate};

use crate::probe::link::{Bed, Radio, air, one_at_a_time};
use crate::probe::loopback::{Server, document};
use crate::probe::truth::{bias_ms, swept};

/// Adds a part to the result document, where one is wanted.
pub fn keep(part: &str, value: &Value) {
    let Some(path) = std::env::var_os("PROBE_BENCH_OUT").map(PathBuf::from) else { return };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|_| "{}".to_owned());
    let mut document: Value = serde_json::from_str(&text).unwrap();
    document["schema"] = "cellerator/probe-bench/1".into();
    document[part] = value.clone();
    std::fs::write(&path, serde_json::to_string_pretty(&document).unwrap() + "\n").unwrap();
}

/// A figure of this machine beside its aim: what misses it is told, and is no error of the program.
fn beside_aim(what: &str, value: f64, aim: f64, unit: &str) {
    let word = if value <= aim { "reached" } else { "missed" };
    eprintln!("  {what}: {value:.3} {unit}, aim at most {aim} {unit}: {word}");
}

/// Its own is that of iperf3.
const XFR_PORT: &str = "5999";

#[test]
#[ignore = "a figure of this machine: make bench-probe"]
fn gaps_between_packets() {
    // Client and server only: an emulator of links would want a processor of its own.
    let _turn = one_at_a_time();
    let server = Server::start(&[]);
    let rates = "2 Mbit/s,8 Mbit/s,26 Mbit/s,50 Mbit/s,100 Mbit/s,200 Mbit/s";
    let sweep = document(&server.measure(&["sweep", "--rates", rates, "--time", "5 s", "--json", "-"]));
    let mut rows = Vec::new();
    for way in sweep["directions"].as_array().unwrap() {
        for step in way["steps"].as_array().unwrap() {
            let timer = &step["timer"];
            rows.push(json!({
                "direction": step["direction"], "rate_mbps": step["rate_mbps"], "lost": step["lost"],
                "gap_error_p99_us": timer["gap_error_p99_us"], "late_p99_us": timer["late_p99_us"],
            }));
        }
    }
    eprintln!("{}", serde_json::to_string_pretty(&rows).unwrap());
    keep("gaps", &json!(rows));
    for row in &rows {
        let what = format!("gap error p99, {} at {} Mbit/s", row["direction"], row["rate_mbps"]);
        beside_aim(&what, row["gap_error_p99_us"].as_f64().unwrap(), 50.0, "µs");
    }
    assert_eq!(rows.len(), 12);
}

#[test]
#[ignore = "a figure of this machine: make bench-probe"]
fn round_trips_above_the_links_log() {
    let radio = Radio { rate: Rate::from_mbps(20), queue: Bytes::new(500_000), loss: LossModel::None };
    let bed = Bed::build("bench-bias", &radio);
    let rtt = bed.measure(&["rtt", "10.1.0.2", "--idle", "--time", "10 s"]);
    let bias = bias_ms(&rtt["phases"], &bed.end());
    let at = |per_mille| figures::stats::percentile(&bias, per_mille).unwrap();
    let result = json!({"least_ms": bias[0], "median_ms": at(500), "p99_ms": at(990)});
    eprintln!("round trip above the link's: {result}");
    keep("round_trip_bias", &result);
    beside_aim("round trip longer than the link's, median", at(500), 0.15, "ms");
    assert!(bias[0] >= 0.0, "faster than the link: {result}");
}

#[test]
#[ignore = "a figure of this machine: make bench-probe"]
fn a_sweep_beside_the_links_log() {
    let rows = swept("bench-sweep", "2 Mbit/s,8 Mbit/s,26 Mbit/s", "5 s");
    for row in &rows {
        let off = |name: &str| row[name]["told"].as_f64().unwrap() - row[name]["truth"].as_f64().unwrap();
        assert_eq!((off("lost"), &row["same_runs"]), (0.0, &true.into()), "{row}");
        let goodput = off("goodput_mbps") / row["goodput_mbps"]["truth"].as_f64().unwrap();
        assert!(goodput.abs() < 0.005, "{row}");
        let run = format!("{} at {} Mbit/s", row["direction"], row["rate_mbps"]);
        beside_aim(&format!("losses that differ, {run}"), off("lost").abs(), 0.0, "packets");
        beside_aim(&format!("goodput differs, {run}"), goodput.abs() * 100.0, 0.5, "%");
        beside_aim(&format!("variation p95 differs, {run}"), off("variation_p95_ms").abs(), 0.2, "ms");
    }
    keep("sweep", &json!(rows));
}

/// Rates (Mbit/s), round trips (ms) and losses (per cent) of [MA] Tables 1 and 4.
const MA_3G: [(f64, f64, f64); 8] = [
    (0.8, 62.0, 0.02),
    (1.6, 69.0, 0.01),
    (2.4, 68.0, 0.32),
    (3.2, 84.0, 0.14),
    (4.0, 287.0, 1.9),
    (4.8, 792.0, 27.1),
    (5.6, 753.0, 26.5),
    (6.4, 679.0, 35.4),
];
const MA_LTE: [(f64, f64, f64); 8] = [
    (1.6, 25.0, 0.01),
    (4.0, 34.0, 0.01),
    (8.0, 38.0, 0.8),
    (16.0, 51.0, 3.7),
    (28.0, 66.0, 5.5),
    (36.0, 171.0, 10.7),
    (40.0, 964.0, 11.8),
    (80.0, 1466.0, 34.8),
];

#[test]
#[ignore = "a figure of the papers: make bench-probe"]
fn links_of_the_papers_give_the_shape_of_their_tables() {
    let links = [
        ("3g", MA_3G, Rate::from_kbps(4_100), Bytes::new(350_000), 26),
        ("lte", MA_LTE, Rate::from_mbps(52), Bytes::new(9_000_000), 7),
    ];
    let mut papers = serde_json::Map::new();
    for (name, table, rate, queue, delay_ms) in links {
        let link = |seed| LinkConfig {
            capacity: Capacity::Constant(rate),
            queue: QueueLimit::Bytes(queue),
            delay: DelayModel::Fixed(Duration::from_millis(delay_ms)),
            ..air(seed)
        };
        let bed = Bed::of_air(name, [link(3), link(4)]);
        let rates: Vec<String> = table.iter().map(|(mbps, ..)| format!("{mbps} Mbit/s")).collect();
        let arguments = ["sweep", "10.1.0.2", "--ways", "down", "--time", "5 s", "--rates", &rates.join(",")];
        let sweep = bed.measure(&arguments);
        drop(bed.end());
        let steps = sweep["directions"][0]["steps"].as_array().unwrap();
        let rows: Vec<Value> = table
            .iter()
            .zip(steps)
            .map(|((mbps, rtt, lost), step)| {
                json!({
                    "sent_mbps": mbps, "ma_rtt_ms": rtt, "ma_lost_percent": lost,
                    "rtt_p50_ms": step["rtt"]["p50_ms"], "lost_percent": step["loss_percent"],
                })
            })
            .collect();
        rows.iter().for_each(|row| eprintln!("{name}: {row}"));
        // The shape: little delay and no loss up to the capacity; beyond it the delay of a full queue.
        let of = |at: usize, name: &str| rows[at][name].as_f64().unwrap();
        assert!(of(7, "rtt_p50_ms") > of(0, "rtt_p50_ms") * 8.0 && of(7, "lost_percent") > 5.0);
        assert!(of(3, "rtt_p50_ms") < of(0, "rtt_p50_ms") * 2.0 && of(3, "lost_percent") < 1.0);
        papers.insert(name.to_owned(), rows.into());
    }
    keep("papers", &Value::Object(papers));
}

/// Kills a server when it is no longer needed.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program that is over said to its standard error.
fn ended(child: &mut Child) -> String {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

fn output(bed: &Bed, program: &str, arguments: &[&str]) -> Option<String> {
    // One whose server does not run may wait for ever.
    let child = bed.start(Role::Client, "timeout", &[&["40", program], arguments].concat())?;
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        eprintln!("  {program}: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(text)
}

fn json_of(text: Option<String>) -> Value {
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}

/// What xfr says of a test.
fn xfr(bed: &Bed, test: &[&str]) -> Value {
    let plain = ["10.1.0.2", "-p", XFR_PORT, "--json", "--no-tui", "--no-update-check"];
    json_of(output(bed, "xfr", &[&plain[..], test].concat()))
}

#[test]
#[ignore = "needs irtt, iperf3 and xfr: make bench-probe"]
fn what_other_programs_say_of_the_same_link() {
    let loss = LossModel::Bernoulli { ppm: 5_000 };
    let radio = Radio { rate: Rate::from_mbps(20), queue: Bytes::new(250_000), loss };
    let bed = Bed::build("others", &radio);
    let mut servers: Vec<Serving> = [
        ("iperf3", &["-s"][..]),
        ("irtt", &["server"][..]),
        ("xfr", &["serve", "--no-mdns", "-p", XFR_PORT][..]),
    ]
    .into_iter()
    .filter_map(|(program, arguments)| bed.start(Role::Server, program, arguments).map(Serving))
    .collect();
    bed.run(Role::Client, "sleep", &["1"]);
    // One that does not understand its arguments would be a column of nothing.
    for Serving(server) in &mut servers {
        assert!(server.try_wait().unwrap().is_none(), "{}", ended(server));
    }
    let mut rows = Vec::new();
    let mut row = |program: &str, what: &str, value: Option<f64>| {
        eprintln!("  {program:10} {what:42} {value:?}");
        rows.push(json!({"program": program, "figure": what, "value": value}));
    };
    // Round trips, idle.
    let own = bed.measure(&["rtt", "10.1.0.2", "--idle", "--every", "10 ms", "--time", "10 s"]);
    let of = |name: &str| own["phases"][0]["rtt"][name].as_f64();
    row("cellerator", "idle round trip, least, ms", of("min_ms"));
    row("cellerator", "idle round trip, median, ms", of("p50_ms"));
    row("cellerator", "idle, packets that did not come back, %", own["phases"][0]["loss_percent"].as_f64());
    let irtt =
        json_of(output(&bed, "irtt", &["client", "-i", "10ms", "-d", "10s", "-q", "-o", "-", "10.1.0.2"]));
    let ms = |name: &str| irtt["stats"]["rtt"][name].as_f64().map(|ns| ns / 1e6);
    row("irtt", "idle round trip, least, ms", ms("min"));
    row("irtt", "idle round trip, median, ms", ms("median"));
    row("irtt", "idle, packets that did not come back, %", irtt["stats"]["packet_loss_percent"].as_f64());
    // UDP at a rate below and above the link's.
    for mbps in [10_u32, 30] {
        let rate = format!("{mbps} Mbit/s");
        let own = bed.measure(&["sweep", "10.1.0.2", "--ways", "up", "--rates", &rate, "--time", "5 s"]);
        let step = &own["directions"][0]["steps"][0];
        row("cellerator", &format!("UDP up at {mbps} Mbit/s: lost, %"), step["loss_percent"].as_f64());
        row(
            "cellerator",
            &format!("UDP up at {mbps} Mbit/s: goodput, Mbit/s"),
            step["goodput_mbps"].as_f64(),
        );
        // iperf3 counts payload: the same packets on the wire.
        let payload = format!("{}", u64::from(mbps) * 1_000_000 * 1_372 / 1_400);
        let arguments = ["-c", "10.1.0.2", "-u", "-b", &payload, "-l", "1372", "-t", "5", "-J"];
        let iperf = json_of(output(&bed, "iperf3", &arguments));
        let sum = |name: &str| iperf["end"]["sum"][name].as_f64();
        let received = sum("bits_per_second").zip(sum("lost_percent"));
        row("iperf3", &format!("UDP up at {mbps} Mbit/s: lost, %"), sum("lost_percent"));
        row(
            "iperf3",
            &format!("UDP up at {mbps} Mbit/s: goodput, Mbit/s"),
            received.map(|(bps, lost)| bps * (1.0 - lost / 100.0) / 1e6),
        );
        let payload_kbps = format!("{}K", u64::from(mbps) * 1_000 * 1_372 / 1_400);
        let xfr = xfr(&bed, &["-u", "-b", &payload_kbps, "-l", "1372", "-t", "5s"]);
        row("xfr", &format!("UDP up at {mbps} Mbit/s: lost, %"), xfr["udp_stats"]["lost_percent"].as_f64());
        row("xfr", &format!("UDP up at {mbps} Mbit/s: goodput, Mbit/s"), xfr["throughput_mbps"].as_f64());
    }
    // TCP.
    let own = bed.measure(&[
        "tcp",
        "10.1.0.2",
        "--ways",
        "down",
        "--time",
        "10 s",
        "--repetitions",
        "1",
        "--cc",
        "cubic",
    ]);
    row("cellerator", "TCP down, CUBIC: goodput, Mbit/s", own["runs"][0]["goodput_mbps"].as_f64());
    row("cellerator", "TCP down, CUBIC: sent again", own["runs"][0]["retransmitted"].as_f64());
    let iperf = json_of(output(&bed, "iperf3", &["-c", "10.1.0.2", "-R", "-C", "cubic", "-t", "10", "-J"]));
    let end = &iperf["end"];
    row(
        "iperf3",
        "TCP down, CUBIC: goodput, Mbit/s",
        end["sum_received"]["bits_per_second"].as_f64().map(|bps| bps / 1e6),
    );
    row("iperf3", "TCP down, CUBIC: sent again", end["sum_sent"]["retransmits"].as_f64());
    let xfr = xfr(&bed, &["-R", "--congestion", "cubic", "-t", "10s"]);
    row("xfr", "TCP down, CUBIC: goodput, Mbit/s", xfr["throughput_mbps"].as_f64());
    row("xfr", "TCP down, CUBIC: sent again", xfr["tcp_info"]["retransmits"].as_f64());
    drop(servers);
    drop(bed.end());
    keep("others", &json!(rows));
}
