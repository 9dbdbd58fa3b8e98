//! [`RunRecord`] and [`UsedScenario`]: what a result keeps of each run, and of each scenario file.

use figures::number;
use scenario::results::{CaseResult, Distribution};
use serde::{Deserialize, Serialize};

/// FNV-1a of 64 bits, hexadecimal: tells whether a file is the same.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// A scenario file that was used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsedScenario {
    /// Path in the repository.
    pub file: String,
    /// FNV-1a of its text.
    pub hash: String,
    /// Seed of its first repetition.
    pub seed: u64,
    /// Description of what it models, and of what that was fitted to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The whole text.
    pub text: String,
}

impl UsedScenario {
    /// The file that has this text.
    pub(crate) fn new(file: &str, text: String, seed: u64, description: &str) -> Self {
        let (hash, description) = (fingerprint(text.as_bytes()), description.trim().to_owned());
        Self { file: file.to_owned(), hash, seed, description, text }
    }
}

/// One run in a line.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunRecord {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the case.
    pub case: String,
    /// Its seed.
    pub seed: u64,
    /// Goodput: data that the application received over the time it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_mbps: Option<f64>,
    /// Beside a run of the lab: what the same case and seed give in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_goodput_mbps: Option<f64>,
    /// Delivered over offered bytes on the radio link, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// 95th percentile of the queueing delay on the radio link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_p95_ms: Option<f64>,
    /// A number that every packet, place and time went into, from the simulator: equal for equal runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_hash: Option<String>,
    /// 99th percentile of the emulator's own lateness, from the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_p99_us: Option<f64>,
    /// Median of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_p50_us: Option<f64>,
    /// Largest of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_max_us: Option<f64>,
    /// Reason why the emulator's timing was too bad to believe the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrusted: Option<String>,
    /// In the lab, how often it was run before because the emulator was late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u32>,
    /// Reason why it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Results that are not as they must be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl RunRecord {
    /// Goodput in virtual time and in the lab, the queue and the emulator's lateness, as pages show them.
    pub(crate) fn numbers(&self) -> [String; 6] {
        [
            number(self.simulated_goodput_mbps, 2),
            number(self.goodput_mbps, 2),
            number(self.queue_p95_ms, 0),
            number(self.late_p50_us, 0),
            number(self.late_p99_us, 0),
            number(self.late_max_us, 0),
        ]
    }

    pub(crate) fn of(scenario: &str, result: &CaseResult) -> Self {
        let figures = result.figures.as_ref();
        let is_lab = result.simulation.is_none();
        Self {
            scenario: scenario.to_owned(),
            case: result.name.clone(),
            seed: result.seed,
            goodput_mbps: figures.map(|f| f.transfer.goodput_mbps),
            utilisation: figures.and_then(|f| f.radio.utilisation),
            queue_p95_ms: figures.map(|f| f.radio.queue_delay_ms.p95),
            log_hash: result.simulation.as_ref().map(|s| s.log_hash.clone()),
            late_p99_us: figures.filter(|_| is_lab).map(|f| f.timing.late_us.p99),
            late_p50_us: figures.filter(|_| is_lab).map(|f| f.timing.late_us.p50),
            late_max_us: figures.filter(|_| is_lab).map(|f| f.timing.late_us.max),
            distrusted: (!result.doubts.is_empty()).then(|| result.doubts.join("; ")),
            skipped: result.skipped.clone(),
            problems: result.problems.clone(),
            ..Self::default()
        }
    }

    /// Of a run with several radios, which exists in the lab only.
    pub(crate) fn of_radios(scenario: &str, run: &lab::radios::MultiPathRun) -> Self {
        let queues = run.queues_ms.values().flatten().map(|ms| f64::from(*ms));
        let queues = Distribution::of(&mut queues.collect::<Vec<_>>());
        let is_done = run.error.is_none();
        let broken = (!run.is_intact).then(|| "what came is not what was sent".to_owned());
        Self {
            scenario: scenario.to_owned(),
            case: run.case.clone(),
            seed: run.seed,
            goodput_mbps: is_done.then_some(run.goodput_mbps),
            queue_p95_ms: queues.map(|queues| queues.p95),
            late_p99_us: Some(run.late_p99_us),
            late_p50_us: Some(run.late_p50_us),
            late_max_us: Some(run.late_max_us),
            distrusted: run.distrusted.clone(),
            problems: run.error.iter().cloned().chain(broken).collect(),
            ..Self::default()
        }
    }

    /// Of a run with moving subscribers, which exists in the lab only. Flows that break are its figures, no problems.
    pub(crate) fn of_moves(scenario: &str, run: &lab::moves::MovesRun) -> Self {
        let refused = run.moves.iter().filter_map(|one| one.refused.as_ref());
        Self {
            scenario: scenario.to_owned(),
            case: run.case.clone(),
            seed: run.seed,
            goodput_mbps: Some(run.flows.iter().map(|flow| flow.goodput_mbps).sum()),
            late_p99_us: Some(run.late_p99_us),
            late_p50_us: Some(run.late_p50_us),
            late_max_us: Some(run.late_max_us),
            distrusted: run.distrusted.clone(),
            problems: refused.take(3).cloned().collect(),
            ..Self::default()
        }
    }
}
