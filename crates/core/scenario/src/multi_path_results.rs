//! Results of runs of a multi-path scenario, in the lab or in the simulator.

use std::collections::BTreeMap;

use figures::stats::Moments;
use serde::{Deserialize, Serialize};

use crate::MultiPath;
use crate::results::MadeBy;

/// The schema's name.
pub const SCHEMA: &str = "cellerator/multipath-lab/1";
/// Width of a bin of throughput, ms.
pub const BIN_MS: u64 = 20;

/// Results of scenarios with several radios, in the lab or in the simulator. Flows and queues are in bins of
/// 20 ms.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MultiPathResults {
    /// [`SCHEMA`].
    pub schema: String,
    /// Versions and machine.
    pub made_by: MadeBy,
    /// Results by scenario.
    pub scenarios: Vec<MultiPathResult>,
}

/// Results of one scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MultiPathResult {
    /// Scenario that was run.
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("type" = "object")))]
    pub scenario: MultiPath,
    /// Case by case, repetition by repetition.
    pub runs: Vec<MultiPathRun>,
}

/// One run of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MultiPathRun {
    /// Case.
    pub case: String,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Seed.
    pub seed: u64,
    /// Time until the connection was up, ms.
    pub connected_ms: f64,
    /// Time from connection to the last byte, or the time's end, s.
    pub seconds: f64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Payload at the application over that time, Mbit/s.
    pub goodput_mbps: f64,
    /// The same of each TCP beside the transfer, Mbit/s.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside_mbps: Vec<f64>,
    /// Longest time without a byte, ms, and when it began, s.
    pub longest_stall_ms: f64,
    /// Time at which the stall began, s.
    pub stalled_at_s: f64,
    /// Every time of 50 ms and more without a byte: when it began, s, and how long it was, ms.
    pub stalls: Vec<(f64, f64)>,
    /// The longest of those that began within a second of a radio's death, or of its NAT's or its own
    /// address's change, ms; zero where nothing stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub death_stall_ms: Option<f64>,
    /// Longest queue of any radio in that time, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub death_queue_ms: Option<f64>,
    /// Most unsent data at that death in the sender's sockets of the living paths, ms at their rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub death_unsent_ms: Option<f64>,
    /// Radios that returned: when, and until data came through each again, ms; none when it did not.
    pub reuses: Vec<Reuse>,
    /// New connections.
    pub connects: Vec<Connect>,
    /// True when the bytes that came are those that were sent.
    pub is_intact: bool,
    /// SHA-256 of what came.
    pub sha256: String,
    /// The connection was MPTCP to its end.
    pub is_multi_path: bool,
    /// TCP payload towards the receiver by flow (`RADIO-SERVERADDRESS`), in bins of [`BIN_MS`] ms, bytes.
    pub flows: BTreeMap<String, Vec<u64>>,
    /// Longest queue of each radio in the same bins, ms.
    pub queues_ms: BTreeMap<String, Vec<u32>>,
    /// Lines that the path manager printed, each with its time in s.
    pub events: Vec<String>,
    /// The emulator's lateness, 99th percentile, µs.
    pub late_p99_us: f64,
    /// Median of the same.
    #[serde(default)]
    pub late_p50_us: f64,
    /// Largest of the same.
    #[serde(default)]
    pub late_max_us: f64,
    /// Reason why the emulator's timing was too bad to believe the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrusted: Option<String>,
    /// Sysctls after the path manager was killed are those before it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_profile_restored: Option<bool>,
    /// Error of the run; none of the figures counts then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A radio that returned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reuse {
    /// Name of the radio.
    pub radio: String,
    /// Time of its return, s.
    pub at_s: f64,
    /// Time until 10 KB had come through it, ms; none when it died again or the run ended before.
    pub after_ms: Option<f64>,
}

/// Time that a new connection may take, s.
pub const CONNECT_LIMIT_S: u64 = 8;

fn connect_limit_s() -> f64 {
    CONNECT_LIMIT_S as f64
}

/// A new connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connect {
    /// Time of the attempt, s.
    pub at_s: f64,
    /// Time until it was up, ms; none when it was not within `limit_s`.
    pub up_ms: Option<f64>,
    /// For so long it was waited for, s.
    #[serde(default = "connect_limit_s")]
    pub limit_s: f64,
    /// Time until its answer was there, ms.
    pub answered_ms: Option<f64>,
}

impl MultiPathResults {
    /// Adds others: runs of the same scenario stand together, in the order of its cases. A run of a case that is
    /// there already, with the same number, replaces that.
    pub fn add(&mut self, others: Self) {
        for other in others.scenarios {
            // How often each case was run is no part of what was run.
            let is_same = |own: &&mut MultiPathResult| {
                let repetitions = own.scenario.repetitions;
                MultiPath { repetitions, ..other.scenario.clone() } == own.scenario
            };
            let Some(own) = self.scenarios.iter_mut().find(is_same) else {
                self.scenarios.push(other);
                continue;
            };
            own.scenario.repetitions = own.scenario.repetitions.max(other.scenario.repetitions);
            let is_replaced = |run: &MultiPathRun| {
                other.runs.iter().any(|new| (&new.case, new.repetition) == (&run.case, run.repetition))
            };
            own.runs.retain(|run| !is_replaced(run));
            own.runs.extend(other.runs);
            let place = |run: &MultiPathRun| own.scenario.cases.iter().position(|case| case.name == run.case);
            own.runs.sort_by_key(|run| (run.repetition, place(run)));
        }
    }
}

impl MultiPathResult {
    /// The runs of a case that did not fail.
    pub fn of<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a MultiPathRun> {
        self.runs.iter().filter(move |run| run.case == case && run.error.is_none())
    }

    /// A figure over a case's runs.
    pub fn moments(&self, case: &str, value: impl Fn(&MultiPathRun) -> Option<f64>) -> Option<Moments> {
        Moments::of(self.of(case).filter_map(value))
    }

    /// Mean goodput of a case, Mbit/s.
    #[must_use]
    pub fn goodput(&self, case: &str) -> Option<f64> {
        self.moments(case, |run| Some(run.goodput_mbps)).map(|m| m.mean)
    }

    /// The largest of a figure over a case's runs.
    #[must_use]
    pub fn largest(&self, case: &str, value: impl Fn(&MultiPathRun) -> Option<f64>) -> Option<f64> {
        self.of(case).filter_map(value).reduce(f64::max)
    }
}

impl MultiPathRun {
    /// Bytes that it took for each byte of a TCP beside it, on the mean; none without one.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let mean = Moments::of(self.beside_mbps.iter().copied())?.mean;
        Some(self.goodput_mbps / mean)
    }

    /// Longest queue of any radio in `ms` from `at_s` on, ms.
    #[must_use]
    pub fn queue_ms(&self, at_s: f64, ms: f64) -> f64 {
        let from = (at_s * 1e3) as usize / BIN_MS as usize;
        let to = from + ms as usize / BIN_MS as usize + 2;
        let of = |bins: &Vec<u32>| {
            bins.get(from..to.min(bins.len())).and_then(|bins| bins.iter().max().copied()).unwrap_or(0)
        };
        f64::from(self.queues_ms.values().map(of).max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = 'a'\ntitle = 'A'\ntime = '5 s'\nrepetitions = 2\n[[radio]]\nname = 'wifi0'\n\
                        down = { rate = '10 Mbit/s' }\nup = { rate = '2 Mbit/s' }\n[[case]]\nname = 'k'\n\
                        [[case]]\nname = 'd'\n";

    fn results(repetitions: u32, runs: &[(&str, u32, f64)]) -> MultiPathResults {
        let scenario = MultiPath { repetitions, ..MultiPath::from_toml("a.toml", TEXT).unwrap() };
        let run = |&(case, repetition, goodput_mbps): &(&str, u32, f64)| MultiPathRun {
            case: case.to_owned(),
            repetition,
            goodput_mbps,
            ..MultiPathRun::default()
        };
        let result = MultiPathResult { scenario, runs: runs.iter().map(run).collect() };
        MultiPathResults { schema: SCHEMA.to_owned(), made_by: MadeBy::default(), scenarios: vec![result] }
    }

    #[test]
    fn parts_are_put_together_and_a_run_made_again_replaces_the_first() {
        let mut all = results(2, &[("d", 1, 1.0), ("d", 2, 2.0)]);
        all.add(results(5, &[("k", 1, 3.0)]));
        all.add(results(1, &[("d", 2, 4.0)]));
        let [only] = all.scenarios.as_slice() else { panic!("one scenario: {all:?}") };
        let runs: Vec<_> =
            only.runs.iter().map(|run| (run.case.as_str(), run.repetition, run.goodput_mbps)).collect();
        assert_eq!(runs, [("k", 1, 3.0), ("d", 1, 1.0), ("d", 2, 4.0)]);
        assert_eq!(only.scenario.repetitions, 5);
        let mut other = results(2, &[("k", 1, 5.0)]);
        other.scenarios[0].scenario.seed = 9;
        all.add(other);
        assert_eq!(all.scenarios.len(), 2, "another seed is another scenario");
    }
}
