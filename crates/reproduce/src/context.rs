//! [`Context`]: what an experiment runs its scenarios by.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engine::EngineConfig;
use scenario::results::CaseResult;
use scenario::{Case, Scenario};
use sim::{CaseRun, LogMode, in_parallel_until};
use units::Duration;

use crate::document::{RunRecord, UsedScenario, fingerprint};
use crate::lab_runs::LabRuns;
use crate::link_figure::links_of;
use crate::seen::{Eyes, Looking};
use crate::{Experiment, Figure, Outcome, RadioLog, ReproduceError, Run, Runs};

/// The engine that the settings of a case mean, by the same reading as `cellerator run`'s arguments.
pub type EngineOf<'a> = &'a (dyn Fn(&Case) -> Result<Option<EngineConfig>, String> + Sync);

/// Where scenarios are run.
#[derive(Clone, Copy)]
pub enum Where<'a> {
    /// In virtual time.
    Sim {
        /// Runs at the same time.
        threads: usize,
        /// Engines of the cases.
        engine_of: EngineOf<'a>,
    },
    /// With kernel TCP in namespaces, one run after the other; then the same scenario files in virtual time, to stand beside.
    Lab {
        /// The lab.
        runner: &'a lab::Runner<'a>,
        /// Runs at the same time in virtual time.
        threads: usize,
        /// Engines of the cases in virtual time.
        engine_of: EngineOf<'a>,
    },
}

/// A run has begun or ended, for a progress display.
#[derive(Clone, Debug)]
pub struct Step {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// Runs of the present scenario that have ended.
    pub done: usize,
    /// All of them.
    pub of: usize,
    /// The case.
    pub case: String,
}

/// A case, which repetition, its seed, and what runs it.
type Job = (Case, u32, u64, CaseRun);

/// What an experiment runs its scenarios by. It keeps a record of every run.
pub struct Context<'a> {
    experiment: &'static Experiment,
    place: Where<'a>,
    folder: Option<&'a Path>,
    captures: Option<&'a Path>,
    is_over: Option<&'a AtomicBool>,
    progress: &'a (dyn Fn(&Step) + Sync),
    /// Scenario and case of what the lab measured, in a simulation that is to stand beside it.
    measured: Option<Vec<(String, String)>>,
    used: Vec<UsedScenario>,
    runs: Vec<RunRecord>,
    links: Vec<Figure>,
}

/// What a [`Context`] has seen.
pub(crate) struct Evidence {
    pub used: Vec<UsedScenario>,
    pub runs: Vec<RunRecord>,
    pub links: Vec<Figure>,
}

impl<'a> Context<'a> {
    /// A context for `experiment`. Scenario files are read from below `folder` in place of those built in, if given:
    /// `experiments/ma/figure-2.toml` as `ma/figure-2.toml`.
    #[must_use]
    pub fn new(
        experiment: &'static Experiment,
        place: Where<'a>,
        folder: Option<&'a Path>,
        progress: &'a (dyn Fn(&Step) + Sync),
    ) -> Self {
        Self {
            experiment,
            place,
            folder,
            captures: None,
            is_over: None,
            progress,
            measured: None,
            used: Vec::new(),
            runs: Vec::new(),
            links: Vec::new(),
        }
    }

    /// The same, and what the simulator's experiments look at in captures is written to `folder` as well: a file per run and host, for
    /// `cellerator analyze`.
    #[must_use]
    pub fn with_captures(self, folder: Option<&'a Path>) -> Self {
        Self { captures: folder, ..self }
    }

    /// The same, but virtual time is given up soon after the flag has gone up, as [`ReproduceError::Interrupted`].
    #[must_use]
    pub fn until(self, is_over: &'a AtomicBool) -> Self {
        Self { is_over: Some(is_over), ..self }
    }

    /// Runs the experiment.
    ///
    /// # Errors
    /// A scenario cannot be read or run. An aim that is missed is no error.
    pub(crate) fn outcome(mut self) -> Result<(Outcome, Evidence), ReproduceError> {
        let outcome = (self.experiment.run)(&mut self)?;
        Ok((outcome, Evidence { used: self.used, runs: self.runs, links: self.links }))
    }

    /// True with kernel TCP, and in virtual time for what stands beside it: what needs the simulator is skipped then, and has no figures.
    #[must_use]
    pub fn is_lab(&self) -> bool {
        matches!(self.place, Where::Lab { .. }) || self.measured.is_some()
    }

    /// What runs the lab's scenario files in virtual time; none where this is no lab. It runs nothing before it was told what the lab measured.
    pub(crate) fn beside(&self) -> Option<Self> {
        let Where::Lab { threads, engine_of, .. } = self.place else { return None };
        let place = Where::Sim { threads, engine_of };
        Some(Self {
            measured: Some(Vec::new()),
            is_over: self.is_over,
            ..Self::new(self.experiment, place, self.folder, self.progress)
        })
    }

    /// The same, running what has a record among `runs` that was not skipped.
    pub(crate) fn of_what_was_measured(self, runs: &[RunRecord]) -> Self {
        let there = runs.iter().filter(|run| run.skipped.is_none());
        let measured = there.map(|run| (run.scenario.clone(), run.case.clone())).collect();
        Self { measured: Some(measured), ..self }
    }

    fn is_wanted(&self, scenario: &Scenario, case: &Case) -> bool {
        let is_it = |(of, name): &(String, String)| *of == scenario.name && *name == case.name;
        self.measured.as_ref().is_none_or(|measured| measured.iter().any(is_it))
    }

    /// The experiment's scenario file of this path (`experiments/ma/figure-2.toml`, or its end). In the lab, where time is real, it is the
    /// shorter one that lies beside it (`figure-2-lab.toml`) if there is one.
    ///
    /// # Errors
    /// It is not among the experiment's files, or cannot be read.
    pub fn scenario(&mut self, path: &str) -> Result<Scenario, ReproduceError> {
        let named = |path: &str| self.experiment.files.iter().find(|file| file.path.ends_with(path));
        let shorter = path.strip_suffix(".toml").map(|stem| format!("{stem}-lab.toml"));
        let file = shorter.filter(|_| self.is_lab()).and_then(|path| named(&path)).or_else(|| named(path));
        let file = file.ok_or_else(|| ReproduceError::Meaning {
            file: path.to_owned(),
            problem: format!("is not among the files of {}", self.experiment.name),
        })?;
        let text = text_of(file, self.folder)?;
        let scenario = Scenario::from_toml(file.path, &text)?;
        let hash = fingerprint(text.as_bytes());
        let description = scenario.description.as_deref().unwrap_or_default().trim().to_owned();
        let (file, seed) = (file.path.to_owned(), scenario.seed);
        self.used.push(UsedScenario { file, hash, seed, description, text });
        Ok(scenario)
    }

    /// Runs every case of `scenario`, as often as it says.
    ///
    /// # Errors
    /// A link or an engine cannot be made, or the lab fails. A broken rule or a transfer that fails is no error but
    /// a problem of its run.
    pub fn run(&mut self, scenario: &Scenario) -> Result<Runs, ReproduceError> {
        self.watch(scenario, Looking { radio: true, ..Looking::default() })
    }

    /// The same, and what is to be looked at is in [`Run::seen`].
    ///
    /// # Errors
    /// As [`Context::run`].
    pub fn watch(&mut self, scenario: &Scenario, looking: Looking) -> Result<Runs, ReproduceError> {
        let traces = self.traces(scenario);
        for figure in links_of(scenario, &traces)? {
            if !self.links.contains(&figure) {
                self.links.push(figure);
            }
        }
        let runs = match self.place {
            Where::Sim { threads, engine_of } => {
                self.simulate(scenario, &traces, (threads, engine_of), looking)?
            }
            Where::Lab { runner, .. } => {
                let tell = |done, of, case: &str| self.tell(done, of, case);
                LabRuns { runner, traces: &traces, looking, tell: &tell }
                    .run(self.experiment.name, scenario)?
            }
        };
        self.runs.extend(runs.runs.iter().map(|run| RunRecord::of(&scenario.name, &run.result)));
        Ok(runs)
    }

    /// Where the scenario's trace files are.
    fn traces(&self, scenario: &Scenario) -> PathBuf {
        let file = self.experiment.files.iter().find(|file| file.path.contains(&scenario.name));
        let parent = file.and_then(|file| Path::new(file.path).parent()).unwrap_or(Path::new("experiments"));
        let below = parent.strip_prefix("experiments").unwrap_or(parent);
        self.folder.map_or_else(|| parent.to_owned(), |folder| folder.join(below))
    }

    fn simulate(
        &self,
        scenario: &Scenario,
        traces: &Path,
        (threads, engine_of): (usize, EngineOf<'_>),
        looking: Looking,
    ) -> Result<Runs, ReproduceError> {
        let mut jobs: Vec<Job> = Vec::new();
        for repetition in 1..=scenario.repetitions {
            let seed = scenario.seed.wrapping_add(u64::from(repetition - 1));
            for case in scenario.resolved().into_iter().filter(|case| self.is_wanted(scenario, case)) {
                let plan = case.links(seed, &mut |file| lab::read_trace(traces, file))?;
                let engine = engine_of(&case).map_err(|problem| ReproduceError::Meaning {
                    file: scenario.name.clone(),
                    problem: format!("case `{}`: {problem}", case.name),
                })?;
                let run = CaseRun::new(&case, &plan, engine, (seed, scenario.time_limit.0), LogMode::Hash);
                jobs.push((case, repetition, seed, run));
            }
        }
        let (ended, never) = (AtomicUsize::new(0), AtomicBool::new(false));
        let interrupted = || ReproduceError::Interrupted { run: self.experiment.name.to_owned() };
        let outcomes = in_parallel_until(jobs.len(), threads, self.is_over.unwrap_or(&never), |index| {
            let (case, _, _, run) = &jobs[index];
            let outcome = self.eyes(looking, scenario, &jobs[index]).and_then(|mut eyes| {
                let outcome = run.watch(&mut eyes).map_err(|source| match source {
                    sim::SimError::Stopped => interrupted(),
                    source => {
                        let run = format!("{}, case `{}`", self.experiment.name, case.name);
                        ReproduceError::Sim { run, source }
                    }
                });
                eyes.end_files()?;
                let mut outcome = outcome?;
                let log = std::mem::take(&mut outcome.radio);
                let radio = if looking.radio { RadioLog::of(&log) } else { RadioLog::default() };
                Ok((outcome, radio, eyes.seen()))
            });
            let done = ended.fetch_add(1, Ordering::Relaxed) + 1;
            self.tell(done, jobs.len(), &case.name);
            outcome
        });
        let mut runs = Runs::default();
        for ((case, repetition, seed, _), outcome) in jobs.into_iter().zip(outcomes) {
            let (outcome, radio, seen) = outcome.ok_or_else(interrupted)??;
            runs.runs.push(Run {
                result: CaseResult {
                    name: case.name.clone(),
                    repetition,
                    seed,
                    settings: case,
                    accelerator_command: None,
                    skipped: None,
                    problems: outcome.problems,
                    doubts: outcome.doubts,
                    figures: Some(outcome.figures),
                    simulation: Some(outcome.simulation),
                },
                radio,
                seen,
            });
        }
        Ok(runs)
    }

    /// What looks at a run.
    fn eyes(&self, looking: Looking, scenario: &Scenario, job: &Job) -> Result<Eyes<'a>, ReproduceError> {
        let (case, repetition, ..) = job;
        let eyes = Eyes::new(looking).until(self.is_over);
        match self.captures {
            Some(folder) => eyes.writing(folder, &lab::run_name(scenario, case, *repetition)),
            None => Ok(eyes),
        }
    }

    fn tell(&self, done: usize, of: usize, case: &str) {
        (self.progress)(&Step { experiment: self.experiment.name, done, of, case: case.to_owned() });
    }
}

/// The text of a scenario file, from below `folder` if that is given.
pub(crate) fn text_of(file: &crate::ScenarioFile, folder: Option<&Path>) -> Result<String, ReproduceError> {
    let Some(folder) = folder else { return Ok(file.text.to_owned()) };
    let path = folder.join(file.path.strip_prefix("experiments/").unwrap_or(file.path));
    std::fs::read_to_string(&path).map_err(|error| ReproduceError::file(&path, error))
}

/// How long the links of a scenario are shown at most.
pub(crate) const LINK_SHOWN: Duration = Duration::from_secs(60);
