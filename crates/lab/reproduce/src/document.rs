//! [`Reproduction`]: an outcome with all that made it, and the folder it is stored in.

use std::fs;
use std::path::{Path, PathBuf};

use scenario::results::MadeBy;
use serde::{Deserialize, Serialize};

use crate::context::{Context, Evidence, text_of};
use crate::prose::Ran;
use crate::record::{RunRecord, UsedScenario, fingerprint};
use crate::{Experiment, Figure, Outcome, ReproduceError};

/// Name and version of the document; its schema is `schemas/reproduction.schema.json`.
pub const SCHEMA: &str = "cellerator/reproduction/1";

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

/// One table or figure of a paper, run again: its outcome, with all that made it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reproduction {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the experiment on the command line.
    pub experiment: String,
    /// Maker of the document.
    pub made_by: MadeBy,
    /// FNV-1a of the program's file: a result is current while it is the same.
    pub program: String,
    /// In the lab, the processor's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// In the lab, how long it took in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_s: Option<u32>,
    /// Its scenario files.
    pub scenarios: Vec<UsedScenario>,
    /// Figures that show what the links do over time.
    pub links: Vec<Figure>,
    /// Outcome of the experiment.
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

    /// Reasons why cases were not run, and which.
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

    /// Path of the result of an experiment: in the lab it has a place of its own.
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
