//! [`Context`]: what an experiment runs its scenarios by.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engine::EngineConfig;
use parallel::in_parallel_until;
use scenario::results::CaseResult;
use scenario::{Case, Scenario};
use sim::{CaseRun, LogMode};

use crate::case_id::missing;
use crate::lab_runs::{self, LabRuns};
use crate::link_figure::links_of;
use crate::record::{RunRecord, UsedScenario};
use crate::seen::{Eyes, Looking};
use crate::{CaseId, Experiment, Figure, Outcome, RadioLog, ReproduceError, Run, Runs};

/// The engine that the settings of a case mean, by the same reading as `cellerator run`'s arguments.
pub type EngineOf<'a> = &'a (dyn Fn(&Case) -> Result<Option<EngineConfig>, String> + Sync);

/// Place where scenarios are run.
#[derive(Clone, Copy)]
pub enum Where<'a> {
    /// In virtual time.
    Sim {
        /// Runs at the same time.
        threads: usize,
        /// Engines of the cases.
        engine_of: EngineOf<'a>,
    },
    /// With kernel TCP in namespaces, one run after the other; then the same scenario files in virtual
    /// time, to stand beside.
    Lab {
        /// The lab.
        runner: &'a lab::Runner<'a>,
        /// Runs at the same time in virtual time.
        threads: usize,
        /// Engines of the cases in virtual time.
        engine_of: EngineOf<'a>,
        /// Folder of results that `lab multipath` wrote, in place of runs with several radios.
        measured: Option<&'a Path>,
    },
    /// Nowhere: files are read and checked, and no run has figures.
    Nowhere {
        /// As for the lab.
        is_lab: bool,
    },
    /// Results that a test makes up.
    #[cfg(test)]
    Given(crate::given::Given<'a>),
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

/// Means by which an experiment runs its scenarios. It keeps a record of every run.
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

/// Observations of a [`Context`].
pub(crate) struct Evidence {
    pub used: Vec<UsedScenario>,
    pub runs: Vec<RunRecord>,
    pub links: Vec<Figure>,
}

impl<'a> Context<'a> {
    /// A context for `experiment`. Scenario files are read from below `folder` in place of those built
    /// in, if given: `experiments/ma/figure-2.toml` as `ma/figure-2.toml`.
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

    /// The same, and what the simulator's experiments look at in captures is written to `folder` as
    /// well: a file per run and host, for `cellerator analyze`.
    #[must_use]
    pub fn with_captures(self, folder: Option<&'a Path>) -> Self {
        Self { captures: folder, ..self }
    }

    /// The same, but virtual time is given up soon after the flag has gone up, as
    /// [`ReproduceError::Interrupted`].
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

    /// True with kernel TCP, and in virtual time for what stands beside it: what needs the simulator is
    /// skipped then, and has no figures.
    #[must_use]
    pub fn is_lab(&self) -> bool {
        matches!(self.place, Where::Lab { .. } | Where::Nowhere { is_lab: true }) || self.measured.is_some()
    }

    /// True in virtual time alone: not for the lab, not beside it, and not to build an experiment only.
    #[must_use]
    pub(crate) fn simulates(&self) -> bool {
        !matches!(self.place, Where::Lab { .. } | Where::Nowhere { .. }) && self.measured.is_none()
    }

    /// Builds the experiment and runs nothing.
    ///
    /// # Errors
    /// As [`Experiment::check`].
    pub(crate) fn check(&self) -> Result<(), ReproduceError> {
        self.experiment.check(self.folder, self.is_lab())
    }

    /// Context that runs the lab's scenario files in virtual time; none where this is no lab. It runs nothing
    /// before it was told what the lab measured.
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

    /// The experiment's scenario file of this path (`experiments/ma/figure-2.toml`, or its end). In the
    /// lab, where time is real, it is the shorter one that lies beside it (`figure-2-lab.toml`) if
    /// there is one.
    ///
    /// # Errors
    /// It is not among the experiment's files, or cannot be read.
    pub fn scenario(&mut self, path: &str) -> Result<Scenario, ReproduceError> {
        let named = |path: &str| self.experiment.files.iter().find(|file| file.path.ends_with(path));
        let shorter = path.strip_suffix(".toml").map(|stem| format!("{stem}-lab.toml"));
        let file = shorter.filter(|_| self.is_lab()).and_then(|path| named(&path)).or_else(|| named(path));
        let file = file.ok_or_else(|| {
            let problem = format!("is not among the files of {}", self.experiment.name);
            ReproduceError::meaning(path, problem)
        })?;
        let text = text_of(file, self.folder)?;
        let scenario = Scenario::from_toml(file.path, &text)?;
        let description = scenario.description.as_deref().unwrap_or_default();
        self.used.push(UsedScenario::new(file.path, text, scenario.seed, description));
        Ok(scenario)
    }

    /// Runs every case of `scenario`, as often as it says.
    ///
    /// # Errors
    /// The scenario lacks a case that is looked up, a link or an engine cannot be made, or the lab
    /// fails. A broken rule or a transfer that fails is no error but a problem of its run.
    pub fn run<C: CaseId>(&mut self, scenario: &Scenario) -> Result<Runs<C>, ReproduceError> {
        self.watch(scenario, Looking { radio: true, ..Looking::default() })
    }

    /// The same, and what is to be looked at is in [`Run::seen`].
    ///
    /// # Errors
    /// As [`Context::run`].
    pub fn watch<C: CaseId>(
        &mut self,
        scenario: &Scenario,
        looking: Looking,
    ) -> Result<Runs<C>, ReproduceError> {
        self.check_cases::<C>(scenario)?;
        match self.place {
            Where::Nowhere { .. } => return Ok(Runs::default()),
            #[cfg(test)]
            Where::Given(given) => return Ok(Runs::new(crate::given::runs(scenario, given))),
            Where::Sim { .. } | Where::Lab { .. } => {}
        }
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
            Where::Nowhere { .. } => Vec::new(),
            #[cfg(test)]
            Where::Given(_) => Vec::new(),
        };
        self.runs.extend(runs.iter().map(|run| RunRecord {
            repeated: (run.repeated > 0).then_some(run.repeated),
            ..RunRecord::of(&scenario.name, &run.result)
        }));
        Ok(Runs::new(runs))
    }

    /// Runs a scenario of several radios in the lab; none elsewhere.
    ///
    /// # Errors
    /// The scenario cannot be read, or the lab fails.
    pub(crate) fn multi_path(
        &mut self,
        file: &crate::BuiltIn,
    ) -> Result<Option<lab::radios::MultiPathResult>, ReproduceError> {
        let text = text_of(file, self.folder)?;
        let scenario = crate::mp::read_multi_path(file, &text)?;
        let Where::Lab { runner, measured, .. } = self.place else { return Ok(None) };
        self.used.push(UsedScenario::new(file.path, text, scenario.seed, &scenario.description));
        if let Some(folder) = measured {
            let result = crate::mp::earlier_runs(folder, &scenario)?;
            self.runs.extend(result.runs.iter().map(|run| RunRecord::of_radios(&scenario.name, run)));
            return Ok(Some(result));
        }
        let runner = lab::Runner { traces: PathBuf::from("experiments"), ..runner.clone() };
        let of = scenario.cases.len() * scenario.repetitions as usize;
        let mut done = 0;
        let result = runner.run_radios(&scenario, None, None, &mut |run| {
            done += 1;
            self.tell(done, of, &run.case);
        });
        let result = result.map_err(|error| ReproduceError::lab(self.experiment.name, &error))?;
        self.runs.extend(result.runs.iter().map(|run| RunRecord::of_radios(&scenario.name, run)));
        Ok(Some(result))
    }

    /// Runs the scenario of moving subscribers in the lab; none elsewhere.
    ///
    /// # Errors
    /// The scenario cannot be read, or the lab fails.
    pub(crate) fn moves(&mut self) -> Result<Option<lab::moves::MovesResult>, ReproduceError> {
        let file = &crate::ev::MOVES;
        let text = text_of(file, self.folder)?;
        let scenario = crate::ev::read_moves(&text)?;
        let Where::Lab { runner, .. } = self.place else { return Ok(None) };
        self.used.push(UsedScenario::new(file.path, text, scenario.seed, &scenario.description));
        let runner = lab::Runner { traces: PathBuf::from("experiments"), ..runner.clone() };
        let mut done = 0;
        let result = runner.run_moves(&scenario, &mut |run| {
            done += 1;
            self.tell(done, scenario.cases.len(), &run.case);
        });
        let result = result.map_err(|error| ReproduceError::lab(self.experiment.name, &error))?;
        self.runs.extend(result.runs.iter().map(|run| RunRecord::of_moves(&scenario.name, run)));
        Ok(Some(result))
    }

    /// Every case that is looked up is there; a file of the lab may leave out what the longer one has.
    fn check_cases<C: CaseId>(&self, scenario: &Scenario) -> Result<(), ReproduceError> {
        let mut there = scenario.resolved();
        if self.is_lab() {
            for file in self.experiment.files {
                there.extend(Scenario::from_toml(file.path, file.text)?.resolved());
            }
        }
        let there: Vec<String> = there.into_iter().map(|case| case.name).collect();
        let used = self.used.last().map_or(scenario.name.as_str(), |used| used.file.as_str());
        match missing::<C>(&there) {
            None => Ok(()),
            Some(problem) => {
                let problem = format!("{problem}, which {} looks up", self.experiment.name);
                Err(ReproduceError::meaning(used, problem))
            }
        }
    }

    /// Folder of the scenario's trace files.
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
    ) -> Result<Vec<Run>, ReproduceError> {
        let (mut jobs, mut left): (Vec<Job>, Vec<Run>) = (Vec::new(), Vec::new());
        for repetition in 1..=scenario.repetitions {
            let seed = scenario.seed.wrapping_add(u64::from(repetition - 1));
            for case in scenario.resolved().into_iter().filter(|case| self.is_wanted(scenario, case)) {
                if let Some(key) = case.lab_only() {
                    left.push(lab_runs::skipped(case, seed, format!("only the lab has `{key}`")));
                    continue;
                }
                let plan = case.links(seed, &mut |file| lab::read_trace(traces, file))?;
                let engine = engine_of(&case).map_err(|problem| {
                    ReproduceError::meaning(&scenario.name, format!("case `{}`: {problem}", case.name))
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
        let mut runs = left;
        for ((case, repetition, seed, _), outcome) in jobs.into_iter().zip(outcomes) {
            let (outcome, radio, seen) = outcome.ok_or_else(interrupted)??;
            runs.push(Run {
                result: CaseResult {
                    problems: outcome.problems,
                    doubts: outcome.doubts,
                    figures: Some(outcome.figures),
                    simulation: Some(outcome.simulation),
                    ..CaseResult::new(case, repetition, seed)
                },
                radio,
                seen,
                repeated: 0,
            });
        }
        Ok(runs)
    }

    /// Observer of a run.
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
pub(crate) fn text_of(file: &crate::BuiltIn, folder: Option<&Path>) -> Result<String, ReproduceError> {
    let Some(folder) = folder else { return Ok(file.text.to_owned()) };
    let path = folder.join(file.path.strip_prefix("experiments/").unwrap_or(file.path));
    std::fs::read_to_string(&path).map_err(|error| ReproduceError::file(&path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{all, chosen, fingerprint};

    fn experiment(name: &str) -> &'static Experiment {
        chosen(&[name.to_owned()]).unwrap()[0]
    }

    /// A folder of this test alone, with these files.
    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn a_file_without_a_case_that_is_looked_up_is_one_line() {
        let experiment = experiment("ma-figure-2");
        let typo = experiment.files[0].text.replace("name = \"adaptive\"", "name = \"adaptve\"");
        let folder = folder(&[("ma/figure-2.toml", &typo)]);
        let said = experiment.check(Some(folder.path()), false).unwrap_err().to_string();
        let wanted = "experiments/ma/figure-2.toml: has no case `adaptive`, which ma-figure-2 looks up";
        assert_eq!(said, wanted);
    }

    /// Time is real there: a shorter file may leave out what the longer one has, but not have another
    /// name for it.
    #[test]
    fn the_labs_file_may_leave_cases_out() {
        let short =
            experiment("ma-figure-5").files.iter().find(|file| file.path.ends_with("-lab.toml")).unwrap();
        let there = Scenario::from_toml(short.path, short.text).unwrap().resolved();
        assert!(!there.iter().any(|case| case.name.ends_with("10 MB")), "a file that leaves something out");
        experiment("ma-figure-5").check(None, true).unwrap();
    }

    #[test]
    fn every_case_of_the_labs_files_is_one_of_the_longer_files() {
        for experiment in all() {
            let names = |is_lab: bool| -> Vec<String> {
                let own = experiment.files.iter().filter(|file| file.path.ends_with("-lab.toml") == is_lab);
                let cases =
                    own.flat_map(|file| Scenario::from_toml(file.path, file.text).unwrap().resolved());
                cases.map(|case| case.name).collect()
            };
            let longer = names(false);
            for name in names(true) {
                assert!(longer.contains(&name), "{}: {name}", experiment.name);
            }
        }
    }

    #[test]
    fn the_lab_has_the_shorter_file_and_the_simulator_the_longer_one() {
        let of = |is_lab: bool, path: &str| {
            let place = Where::Nowhere { is_lab };
            let mut context = Context::new(experiment("ma-figure-2"), place, None, &|_| {});
            context.scenario(path).map(|scenario| scenario.name)
        };
        assert_eq!(of(false, "ma/figure-2.toml").unwrap(), "ma-figure-2");
        assert_eq!(of(true, "ma/figure-2.toml").unwrap(), "ma-figure-2-lab");
        let said = of(false, "ma/figure-3.toml").unwrap_err().to_string();
        assert_eq!(said, "ma/figure-3.toml: is not among the files of ma-figure-2");
    }

    #[test]
    fn what_was_used_is_recorded_with_its_hash() {
        let mut context =
            Context::new(experiment("ma-figure-2"), Where::Nowhere { is_lab: false }, None, &|_| {});
        context.scenario("ma/figure-2.toml").unwrap();
        let used = &context.used[0];
        assert_eq!((used.file.as_str(), used.seed), ("experiments/ma/figure-2.toml", 1));
        assert_eq!(used.hash, fingerprint(used.text.as_bytes()));
        assert!(used.description.starts_with("HSPA"), "{}", used.description);
    }
}
