//! [`Reproduction`]: an outcome with all that made it, and the folder it is stored in.

use std::fs;
use std::path::{Path, PathBuf};

use scenario::results::{CaseResult, Distribution, MadeBy};
use serde::{Deserialize, Serialize};

use crate::context::{Evidence, text_of};
use crate::prose::Ran;
use crate::{Context, Experiment, Figure, Outcome, ReproduceError};

/// Name and version of the document; its schema is `schemas/reproduction.schema.json`.
pub const SCHEMA: &str = "cellerator/reproduction/1";

/// FNV-1a of 64 bits, hexadecimal: tells whether a file is the same.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The program that runs experiments.
#[derive(Clone, Debug)]
pub struct Maker {
    /// Version, command line, and in the lab the machine.
    pub made_by: MadeBy,
    /// [`fingerprint`] of the program's file.
    pub program: String,
    /// In the lab, the processor's model.
    pub processor: Option<String>,
}

/// A scenario file that was used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UsedScenario {
    /// Where it lies in the repository.
    pub file: String,
    /// [`fingerprint`] of its text.
    pub hash: String,
    /// Seed of its first repetition.
    pub seed: u64,
    /// What it models, and what that was fitted to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The whole text.
    pub text: String,
}

/// One run in a line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the case.
    pub case: String,
    /// Its seed.
    pub seed: u64,
    /// What the application received over the time it took.
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
    /// A number that every packet, place and time went into, from the simulator.
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
    /// Why the emulator's timing was too bad to believe the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrusted: Option<String>,
    /// In the lab, how often it was run before because the emulator was late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u32>,
    /// Why it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// What did not come out as it must.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl RunRecord {
    pub(crate) fn of(scenario: &str, result: &CaseResult) -> Self {
        let figures = result.figures.as_ref();
        let is_lab = result.simulation.is_none();
        Self {
            scenario: scenario.to_owned(),
            case: result.name.clone(),
            seed: result.seed,
            goodput_mbps: figures.map(|f| f.transfer.goodput_mbps),
            simulated_goodput_mbps: None,
            utilisation: figures.and_then(|f| f.radio.utilisation),
            queue_p95_ms: figures.map(|f| f.radio.queue_delay_ms.p95),
            log_hash: result.simulation.as_ref().map(|s| s.log_hash.clone()),
            late_p99_us: figures.filter(|_| is_lab).map(|f| f.timing.late_us.p99),
            late_p50_us: figures.filter(|_| is_lab).map(|f| f.timing.late_us.p50),
            late_max_us: figures.filter(|_| is_lab).map(|f| f.timing.late_us.max),
            distrusted: (!result.doubts.is_empty()).then(|| result.doubts.join("; ")),
            repeated: None,
            skipped: result.skipped.clone(),
            problems: result.problems.clone(),
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
            simulated_goodput_mbps: None,
            utilisation: None,
            queue_p95_ms: queues.map(|queues| queues.p95),
            log_hash: None,
            late_p99_us: Some(run.late_p99_us),
            late_p50_us: Some(run.late_p50_us),
            late_max_us: Some(run.late_max_us),
            distrusted: run.distrusted.clone(),
            repeated: None,
            skipped: None,
            problems: run.error.iter().cloned().chain(broken).collect(),
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
            simulated_goodput_mbps: None,
            utilisation: None,
            queue_p95_ms: None,
            log_hash: None,
            late_p99_us: Some(run.late_p99_us),
            late_p50_us: Some(run.late_p50_us),
            late_max_us: Some(run.late_max_us),
            distrusted: run.distrusted.clone(),
            repeated: None,
            skipped: None,
            problems: refused.take(3).cloned().collect(),
        }
    }
}

/// An outcome with all that made it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reproduction {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the experiment.
    pub experiment: String,
    /// What ran it.
    pub made_by: MadeBy,
    /// [`fingerprint`] of the program's file.
    pub program: String,
    /// In the lab, the processor's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// In the lab, how long it took in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_s: Option<u32>,
    /// Its scenario files.
    pub scenarios: Vec<UsedScenario>,
    /// What the links do over time.
    pub links: Vec<Figure>,
    /// What was found.
    pub outcome: Outcome,
    /// Every run.
    pub runs: Vec<RunRecord>,
}

impl Reproduction {
    /// Runs `experiment` through `context`.
    ///
    /// # Errors
    /// A scenario cannot be read or run.
    pub fn make(
        experiment: &'static Experiment,
        context: Context<'_>,
        maker: &Maker,
    ) -> Result<Self, ReproduceError> {
        context.check()?;
        let beside = context.beside();
        let (mut outcome, Evidence { used, mut runs, links }) = context.outcome()?;
        if let Some(beside) = beside {
            let (simulation, simulated) = beside.of_what_was_measured(&runs).outcome()?;
            for run in &mut runs {
                let is_same = |other: &&RunRecord| {
                    (&other.scenario, &other.case, other.seed) == (&run.scenario, &run.case, run.seed)
                };
                run.simulated_goodput_mbps = simulated.runs.iter().find(is_same).and_then(|r| r.goodput_mbps);
            }
            outcome.put_beside(&simulation);
            outcome.keep_measured();
        }
        let mut made = Self {
            schema: SCHEMA.to_owned(),
            experiment: experiment.name.to_owned(),
            made_by: maker.made_by.clone(),
            program: maker.program.clone(),
            processor: maker.processor.clone(),
            took_s: None,
            scenarios: used,
            links,
            outcome,
            runs,
        };
        made.tell(experiment)?;
        Ok(made)
    }

    /// Says again what is to be said of it: its text may have changed since it was made.
    ///
    /// # Errors
    /// The text has a place that the result has no value for.
    pub fn tell(&mut self, experiment: &Experiment) -> Result<(), ReproduceError> {
        let ran = if self.is_lab() { Ran::InLab } else { Ran::Simulated };
        let told = experiment.prose()?.tell(&mut self.outcome, ran);
        told.map_err(|problem| experiment.prose_error(&problem))
    }

    /// True when this program would run the same scenarios: the result need not be made again. What
    /// counts are the files that it was made of: of an experiment that has shorter ones for the lab,
    /// never all.
    ///
    /// # Errors
    /// A scenario file below `folder` cannot be read.
    pub fn is_current(
        &self,
        experiment: &Experiment,
        folder: Option<&Path>,
        maker: &Maker,
    ) -> Result<bool, ReproduceError> {
        let is_same_program =
            self.program == maker.program && self.made_by.cellerator == maker.made_by.cellerator;
        for used in &self.scenarios {
            let Some(file) = experiment.files.iter().find(|file| file.path == used.file) else {
                return Ok(false);
            };
            if fingerprint(text_of(file, folder)?.as_bytes()) != used.hash {
                return Ok(false);
            }
        }
        Ok(is_same_program)
    }

    /// Kernel TCP made it.
    #[must_use]
    pub fn is_lab(&self) -> bool {
        self.made_by.runner == "lab"
    }

    /// The emulator's own lateness in the lab: the 99th percentile of its worst run, µs; zero without a
    /// run there.
    #[must_use]
    pub fn latest_us(&self) -> f64 {
        self.runs.iter().filter_map(|run| run.late_p99_us).fold(0.0, f64::max)
    }

    /// Why cases were not run, and which.
    pub(crate) fn skipped(&self) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for run in &self.runs {
            let Some(why) = run.skipped.as_deref() else { continue };
            match reasons.iter_mut().find(|(other, _)| *other == why) {
                Some((_, cases)) => cases.push(&run.case),
                None => reasons.push((why, vec![&run.case])),
            }
        }
        reasons
    }

    /// Goodput in the lab over that in virtual time, of each run that has both, the least first.
    pub(crate) fn agreement(&self) -> Vec<f64> {
        let ratio = |run: &RunRecord| Some(run.goodput_mbps? / run.simulated_goodput_mbps?);
        let mut ratios: Vec<f64> = self.runs.iter().filter_map(ratio).filter(|r| r.is_finite()).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    /// Aims reached, and all.
    #[must_use]
    pub fn score(&self) -> (usize, usize) {
        let checks = &self.outcome.checks;
        (checks.iter().filter(|check| check.passed).count(), checks.len())
    }
}

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store in `folder`, which is made.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: &Path) -> Result<Self, ReproduceError> {
        fs::create_dir_all(folder).map_err(|error| ReproduceError::file(folder, error))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Where the result of an experiment lies: in the lab it has a place of its own.
    #[must_use]
    pub fn path(&self, experiment: &str, is_lab: bool) -> PathBuf {
        self.folder.join(format!("{experiment}{}.json", if is_lab { ".lab" } else { "" }))
    }

    /// The result of an experiment, if it is there, told by the experiment's text.
    ///
    /// # Errors
    /// It cannot be read, is no such document, or lacks a value that the text has a place for.
    pub fn told(
        &self,
        experiment: &Experiment,
        is_lab: bool,
    ) -> Result<Option<Reproduction>, ReproduceError> {
        let Some(mut found) = self.load(experiment.name, is_lab)? else { return Ok(None) };
        found.tell(experiment).map_err(|problem| {
            let place = if is_lab { " --lab" } else { "" };
            let again = format!(
                "was made by another version ({problem}); run `cellerator reproduce {}{place}` again",
                experiment.name
            );
            ReproduceError::file(&self.path(experiment.name, is_lab), again)
        })?;
        Ok(Some(found))
    }

    /// The result of an experiment, if it is there.
    ///
    /// # Errors
    /// It cannot be read, or is no such document.
    pub fn load(&self, experiment: &str, is_lab: bool) -> Result<Option<Reproduction>, ReproduceError> {
        let path = self.path(experiment, is_lab);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ReproduceError::file(&path, error)),
        };
        let remedy = |what: String| ReproduceError::file(&path, format!("{what}; delete it and run again"));
        let found: Reproduction =
            serde_json::from_str(&text).map_err(|error| remedy(format!("is no result ({error})")))?;
        if found.schema == SCHEMA {
            Ok(Some(found))
        } else {
            Err(remedy(format!("is a `{}`, not a `{SCHEMA}`", found.schema)))
        }
    }

    /// Stores a result; a stopped program leaves the old one or the new one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, result: &Reproduction) -> Result<PathBuf, ReproduceError> {
        let path = self.path(&result.experiment, result.is_lab());
        let text = serde_json::to_string_pretty(result).map_err(|e| ReproduceError::file(&path, e))?;
        let beside = path.with_extension("part");
        let written = fs::write(&beside, text + "\n").and_then(|()| fs::rename(&beside, &path));
        written.map_err(|error| ReproduceError::file(&path, error))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests;
