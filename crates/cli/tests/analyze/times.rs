//! Where time went, against what the sender's kernel says it waited for: captures of one flow each at both
//! ends, made by `tools/capture-times` (`tests/captures/README.md`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{analyze, text};

/// Parts and findings are the same, or as the kernel says, within so many percent of the flow's time.
const WITHIN: f64 = 5.0;

/// Parts in which data of the sender is outstanding: what the kernel calls busy.
const BUSY: [&str; 6] = ["slow_start", "receive_window", "loss_recovery", "outage", "path_rate", "policer"];
/// Parts in which nothing of it is.
const NOT_BUSY: [&str; 4] = ["handshake", "application", "closing", "unclear"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/times")
}

/// A flow as seen from one end, and its kernel's word.
struct Seen {
    what: String,
    flow: Value,
    kernel: toml::Table,
}

impl Seen {
    fn read(kind: &str, end: &str, kernel: &toml::Table) -> Self {
        let out = analyze(
            &["--json", &folder().join(format!("{kind}.{end}.pcapng.gz")).display().to_string()],
            &[],
        );
        assert!(out.status.success(), "{}", text(&out.stderr));
        let document: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let flows = document["flows"].as_array().expect("flows");
        assert_eq!(flows.len(), 1, "{kind} at the {end}");
        let flow = flows[0].clone();
        // The data is the server's.
        assert_eq!(flow["budget"]["direction"], 1, "{kind} at the {end}");
        Self { what: format!("{kind} at the {end}"), flow, kernel: kernel.clone() }
    }

    /// Percent of the flow's time.
    fn part(&self, name: &str) -> f64 {
        let of = |name: &str| self.flow["budget"][format!("{name}_ns")].as_u64().expect("a part") as f64;
        100.0 * of(name) / of("total")
    }

    fn parts(&self, names: &[&str]) -> f64 {
        names.iter().map(|name| self.part(name)).sum()
    }

    /// The same of what the kernel counted.
    fn counted(&self, name: &str) -> f64 {
        let microseconds = self.kernel[name].as_integer().expect("microseconds") as f64;
        100.0 * microseconds * 1_000.0 / self.flow["budget"]["total_ns"].as_u64().expect("a time") as f64
    }

    fn main_part(&self) -> &'static str {
        let all = BUSY.iter().chain(&NOT_BUSY);
        all.max_by(|a, b| self.part(a).total_cmp(&self.part(b))).expect("parts")
    }

    /// Kinds of findings about the data that are about its speed and not about single packets.
    fn limits(&self) -> Vec<&str> {
        let all = self.flow["diagnoses"].as_array().expect("a list").iter();
        let kinds = all.filter(|one| one["direction"] == 1).filter_map(|one| one["kind"].as_str());
        let limits = ["receive_window_limited", "zero_window", "bufferbloat", "application_limited"];
        kinds.filter(|kind| limits.contains(kind)).collect()
    }
}

/// Each kind of flow, from the server and from the client.
fn flows() -> BTreeMap<String, [Seen; 2]> {
    let said = std::fs::read_to_string(folder().join("times.toml")).expect("readable");
    let said: BTreeMap<String, toml::Table> = toml::from_str(&said).expect("TOML");
    assert!(said.len() >= 9, "{said:?}");
    let seen = |(kind, kernel): (&String, &toml::Table)| {
        (kind.clone(), ["server", "client"].map(|end| Seen::read(kind, end, kernel)))
    };
    said.iter().map(seen).collect()
}

fn assert_near(what: &str, found: f64, expected: f64) {
    assert!((found - expected).abs() <= WITHIN, "{what}: {found:.1} % for {expected:.1} %");
}

#[test]
fn time_is_spent_as_the_kernel_says_from_either_end() {
    for seen in flows().values().flatten() {
        let (what, busy) = (&seen.what, seen.counted("busy_us"));
        assert_near(&format!("{what}: busy"), seen.parts(&BUSY), busy);
        assert_near(&format!("{what}: not busy"), seen.parts(&NOT_BUSY), 100.0 - busy);
        let limited = seen.counted("rwnd_limited_us");
        assert_near(&format!("{what}: receive window"), seen.part("receive_window"), limited);
    }
}

#[test]
fn both_ends_tell_the_same_cause() {
    for (kind, [server, client]) in flows() {
        for part in BUSY.iter().chain(&NOT_BUSY) {
            assert_near(&format!("{kind}: {part}"), client.part(part), server.part(part));
        }
        assert_eq!(client.main_part(), server.main_part(), "{kind}");
        assert_eq!(client.limits(), server.limits(), "{kind}");
        assert_eq!((&server.flow["vantage"], &client.flow["vantage"]), (&"second".into(), &"first".into()));
    }
}

#[test]
fn the_cause_is_what_held_the_flow_back() {
    let flows = flows();
    for (kind, cause, limits) in [
        ("small-window", "receive_window", &["receive_window_limited"][..]),
        ("slow-reader", "receive_window", &["receive_window_limited"]),
        ("bursts", "application", &["application_limited"]),
        ("requests", "application", &["application_limited"]),
        ("bufferbloat", "path_rate", &["bufferbloat"]),
        ("loss", "path_rate", &[]),
        ("policer", "policer", &[]),
        ("small-buffer", "path_rate", &[]),
    ] {
        for seen in &flows[kind] {
            assert_eq!((seen.main_part(), seen.limits()), (cause, limits.to_vec()), "{}", seen.what);
        }
    }
    // 2.5 s without a link, and what the time-outs add.
    for seen in &flows["outage"] {
        assert!((30.0..45.0).contains(&seen.part("outage")), "{}: {}", seen.what, seen.part("outage"));
    }
}
