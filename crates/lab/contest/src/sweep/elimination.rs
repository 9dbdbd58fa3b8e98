//! [`Elimination`]: the terms of a law taken out one after the other, the one first whose loss costs least.
//!
//! ```text
//!   law ──▶ without each of its terms in turn: every trace, queue and seed ──▶ the cheapest costs ≤ 1?
//!    ▲                                                                          yes: it goes │   │ no: end
//!    └───────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! What a term costs is the worst of all cells, a cell being a trace with a queue behind a path, or a case of
//! a scenario file: the share (of a case, the goodput)
//! that its loss takes, in units of [`Tolerance::share`], or the 95th percentile of the queueing delay that
//! it adds, in units of [`Tolerance::queue`], both against the whole law and as means over the seeds.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use control::{ControllerConfig, Term};
use engine::EngineConfig;
use figures::Table;
use figures::stats::{Moments, half_width};
use parallel::in_parallel_until;
use scenario::{Case, ReadTrace, Scenario};
use serde::{Deserialize, Serialize};
use sim::{CaseRun, LogMode};
use units::Duration;

use super::spec::Prepared;
use super::{Progress, SweepSpec};
use crate::ContestError;
use crate::contest::Cell;

/// A term that cost more in the round before is run again only when none of the cheaper ones may go.
const FAR: f64 = 4.0;

/// Largest loss that is tolerated in any cell.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tolerance {
    /// Of the whole law's share.
    pub share: f64,
    /// Of the whole law's 95th percentile of the queueing delay.
    pub queue: f64,
    /// Delays are told apart from this on, in ms.
    pub queue_ms: f64,
}

impl Default for Tolerance {
    /// A hundredth of the share, a twentieth of the delay, a millisecond.
    fn default() -> Self {
        Self { share: 0.01, queue: 0.05, queue_ms: 1.0 }
    }
}

/// Elimination to be run.
#[derive(Clone, Debug)]
pub struct Elimination {
    /// Grids of one scheme each, `accel:adaptive`, without parameters; all of them count.
    pub specs: Vec<SweepSpec>,
    /// Cases of scenario files; they count as well.
    pub cases: Vec<CaseCell>,
    /// The terms tried; all if empty.
    pub terms: Vec<String>,
    /// Rounds at most.
    pub rounds: usize,
    /// Loss that is tolerated.
    pub tolerance: Tolerance,
    /// Runs at the same time; the result does not depend on it.
    pub threads: usize,
}

/// One repetition of an accelerated case of a scenario file.
#[derive(Clone, Debug)]
pub struct CaseCell {
    name: String,
    case: Case,
    plan: scenario::LinkPlan,
    engine: EngineConfig,
    seed: u64,
    time_limit: Duration,
}

impl CaseCell {
    /// The repetitions of all cases of `scenario` whose accelerator is controlled by `adaptive`.
    ///
    /// # Errors
    /// A trace of it cannot be read, an accelerator is set up wrongly, or no case is accelerated so.
    pub fn all_of(
        scenario: &Scenario,
        trace: ReadTrace<'_>,
        engine_of: &dyn Fn(&Case) -> Result<Option<EngineConfig>, String>,
    ) -> Result<Vec<Self>, ContestError> {
        let problem = |what: &Case, problem: &dyn core::fmt::Display| ContestError::File {
            file: scenario.name.clone(),
            problem: format!("case `{}`: {problem}", what.name),
        };
        let mut cells = Vec::new();
        for case in scenario.resolved() {
            let Some(engine) = engine_of(&case).map_err(|e| problem(&case, &e))? else { continue };
            if !matches!(engine.controller, ControllerConfig::Adaptive(_)) {
                continue;
            }
            for repetition in 0..scenario.repetitions {
                let seed = scenario.seed.wrapping_add(u64::from(repetition));
                let plan = case.links(seed, trace).map_err(|e| problem(&case, &e))?;
                cells.push(Self {
                    name: format!("{}, {}", scenario.name, case.name),
                    case: case.clone(),
                    plan,
                    engine: engine.clone(),
                    seed,
                    time_limit: scenario.time_limit.0,
                });
            }
        }
        if cells.is_empty() {
            let problem = "no case has an accelerator with the controller `adaptive`".to_owned();
            return Err(ContestError::File { file: scenario.name.clone(), problem });
        }
        Ok(cells)
    }

    /// The cell's name and its figures, with the law but for the terms of `without`.
    fn run(&self, without: &str, is_over: &AtomicBool) -> Result<(String, Figures), ContestError> {
        let mut engine = self.engine.clone();
        if let ControllerConfig::Adaptive(params) = &mut engine.controller {
            // Checked before: all variants are made of known names.
            params.without = without.parse().unwrap_or_default();
        }
        let run =
            CaseRun::new(&self.case, &self.plan, Some(engine), (self.seed, self.time_limit), LogMode::Hash);
        let outcome = run
            .run_until(is_over, &mut |_| ())
            .map_err(|source| ContestError::Sim { run: self.name.clone(), source })?;
        let figures = Figures {
            share: outcome.figures.transfer.goodput_mbps,
            queue_ms: outcome.figures.radio.queue_delay_ms.p95,
            loss: dropped_share(&outcome.figures.radio),
        };
        Ok((self.name.clone(), figures))
    }
}

/// Result of an elimination: terms of a law taken out one after the other, the one first whose loss costs
/// least.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Eliminated {
    /// `cellerator/elimination/1`.
    pub schema: String,
    /// The command that made it.
    pub command: String,
    /// Largest loss that is tolerated in any cell.
    pub tolerance: Tolerance,
    /// Traces with a queue behind a path, each the mean of its seeds.
    pub cells: usize,
    /// Round after round.
    pub rounds: Vec<Round>,
    /// False if it was interrupted.
    pub is_complete: bool,
}

/// Each of the terms left is taken out in turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Round {
    /// The terms that are out already, joined by +.
    pub without: String,
    /// Cost of each remaining term, the cheapest first; always against the whole law.
    pub candidates: Vec<Candidate>,
    /// The term that goes after this round, if any.
    pub goes: Option<String>,
}

/// Cost of the loss of a term.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The term.
    pub term: String,
    /// In units of what may be lost, in the worst cell; at most 1 and it may go.
    pub cost: f64,
    /// The worst cell.
    pub worst: String,
    /// Its share less the whole law's, in per cent of that; mean over the seeds.
    pub share_percent: f64,
    /// Half of the 95 % confidence interval of that; none with one seed.
    pub share_interval: Option<f64>,
    /// The same of the delay's 95th percentile.
    pub queue_percent: f64,
    /// Half of its interval.
    pub queue_interval: Option<f64>,
    /// Packets dropped by the queue: change in points, mean of all cells.
    pub loss_points: f64,
    /// Means over all cells.
    pub mean_share_percent: f64,
    /// Means over all cells.
    pub mean_queue_percent: f64,
}

/// Figures of one run.
#[derive(Clone, Copy, Debug)]
struct Figures {
    share: f64,
    queue_ms: f64,
    loss: f64,
}

/// Figures of all seeds of each cell, by its name.
type Cells = BTreeMap<String, Vec<Figures>>;

impl Elimination {
    /// Runs it; once `is_over` the rounds that are whole are given. `told` hears of each when it ends.
    ///
    /// # Errors
    /// A setting or trace that is not right, a term that is not known.
    pub fn run(
        &self,
        command: String,
        progress: &(dyn Fn(Progress<'_>) + Sync),
        told: &dyn Fn(&Round),
        is_over: &AtomicBool,
    ) -> Result<Eliminated, ContestError> {
        let all = || Term::ALL.iter().map(|(_, name)| (*name).to_owned());
        if let Some(unknown) = self.terms.iter().find(|term| !all().any(|known| known == **term)) {
            let known: Vec<_> = all().collect();
            let problem = format!("`{unknown}` is none; there are {}", known.join(", "));
            return Err(ContestError::setting("term", problem));
        }
        let is_one = |spec: &SweepSpec| spec.schemes.len() == 1 && spec.parameters.is_empty();
        if !self.specs.iter().all(is_one) {
            let problem = "give one, `accel:adaptive`, and no parameters: cells are not told apart by them";
            return Err(ContestError::setting("schemes", problem));
        }
        let mut left: Vec<String> =
            all().filter(|t| self.terms.is_empty() || self.terms.contains(t)).collect();
        let mut result = Eliminated {
            schema: "cellerator/elimination/1".to_owned(),
            command,
            tolerance: self.tolerance,
            cells: 0,
            rounds: Vec::new(),
            is_complete: false,
        };
        let mut whole: Option<Cells> = None;
        let mut out: Vec<String> = Vec::new();
        // What each of them cost last.
        let mut costs: BTreeMap<String, f64> = BTreeMap::new();
        // Those tried since a term went last, cheapest first.
        let mut candidates: Vec<Candidate> = Vec::new();
        while result.rounds.len() < self.rounds.max(1) && !left.is_empty() {
            let is_new = |term: &&String| candidates.iter().all(|tried| tried.term != **term);
            let is_near = |term: &&String| costs.get(*term).is_none_or(|cost| *cost <= FAR);
            let mut tried: Vec<String> = left.iter().filter(is_new).filter(is_near).cloned().collect();
            if tried.is_empty() {
                tried = left.iter().filter(is_new).cloned().collect();
            }
            let with = |term: &String| out.iter().chain([term]).cloned().collect::<Vec<_>>().join("+");
            let variants = tried.iter().map(with);
            let variants: Vec<String> =
                whole.is_none().then(|| "none".to_owned()).into_iter().chain(variants).collect();
            let Some(mut measured) = self.measure(&variants, progress, is_over)? else { return Ok(result) };
            let law = match &whole {
                Some(law) => law,
                None => whole.insert(measured.remove(0)),
            };
            result.cells = law.len();
            let pairs = tried.iter().zip(&measured);
            candidates.extend(pairs.map(|(term, cells)| candidate(term, law, cells, self.tolerance)));
            candidates.sort_by(|a, b| {
                a.cost.total_cmp(&b.cost).then(a.mean_cost(self).total_cmp(&b.mean_cost(self)))
            });
            costs.extend(candidates.iter().map(|candidate| (candidate.term.clone(), candidate.cost)));
            let goes = candidates.first().filter(|first| first.cost <= 1.0).map(|first| first.term.clone());
            if goes.is_none() && candidates.len() < left.len() {
                // Nor is one of the dear ones taken to stay without having been run again.
                continue;
            }
            let without = if out.is_empty() { "none".to_owned() } else { out.join("+") };
            let candidates = core::mem::take(&mut candidates);
            let round = Round { without, candidates, goes: goes.clone() };
            told(&round);
            result.rounds.push(round);
            let Some(goes) = goes else { break };
            left.retain(|term| *term != goes);
            out.push(goes);
        }
        result.is_complete = true;
        Ok(result)
    }

    /// All cells of each variant; none when it was interrupted.
    fn measure(
        &self,
        variants: &[String],
        progress: &(dyn Fn(Progress<'_>) + Sync),
        is_over: &AtomicBool,
    ) -> Result<Option<Vec<Cells>>, ContestError> {
        let mut grids = Vec::new();
        for spec in &self.specs {
            let mut spec = spec.clone();
            let values = variants.iter().cloned().map(toml::Value::String).collect();
            spec.parameters.insert("without".to_owned(), toml::Value::Array(values));
            grids.push(spec.prepare()?);
        }
        let jobs = grids.iter().flat_map(|grid| (0..grid.len()).map(move |number| Job::Point(grid, number)));
        let of_cases = |variant| self.cases.iter().map(move |case| Job::Case(case, variant));
        let jobs: Vec<Job<'_>> = jobs.chain(variants.iter().flat_map(of_cases)).collect();
        let done = Mutex::new(0);
        let runs = in_parallel_until(jobs.len(), self.threads, is_over, |index| {
            let run = match jobs[index] {
                Job::Point(grid, number) => run(grid, number, is_over)?,
                Job::Case(case, variant) => {
                    let (cell, figures) = case.run(variant, is_over)?;
                    (variant.clone(), cell, figures)
                }
            };
            if let Ok(mut done) = done.lock() {
                *done += 1;
                progress(Progress { done: *done, of: jobs.len(), cell: &run.1 });
            }
            Ok::<_, ContestError>(run)
        });
        if is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut all = vec![Cells::new(); variants.len()];
        for run in runs.into_iter().flatten() {
            let (variant, cell, figures) = run?;
            if let Some(at) = variants.iter().position(|known| *known == variant) {
                all[at].entry(cell).or_default().push(figures);
            }
        }
        Ok(Some(all))
    }
}

/// Run of the elimination.
enum Job<'a> {
    /// A point of a grid, which says what is left out.
    Point(&'a Prepared, usize),
    /// A case without some terms.
    Case(&'a CaseCell, &'a String),
}

/// The variant, the cell's name, and its figures.
fn run(
    grid: &Prepared,
    number: usize,
    is_over: &AtomicBool,
) -> Result<(String, String, Figures), ContestError> {
    let point = grid.point(number);
    let (_, trace) = grid.source(point.trace, point.seed_index);
    let cell = Cell {
        trace,
        buffer: point.buffer,
        scheme: &point.scheme,
        seed: point.seed,
        length: grid.length,
        path: &grid.path,
        is_over,
    };
    let name = format!("{}, {}, {} wired", trace.name, point.buffer, grid.path.wan_rtt);
    let run = cell.run().map_err(|source| ContestError::Sim { run: name.clone(), source })?;
    let figures = Figures { share: run.utilisation, queue_ms: run.queue_ms.p95, loss: run.loss };
    // `without` is the only parameter.
    Ok((point.values.concat(), name, figures))
}

/// Packets that the queue dropped, of those that came to it: full packets, as in bulk transfers.
fn dropped_share(radio: &scenario::results::RadioFigures) -> f64 {
    let dropped = radio.dropped_full as f64;
    dropped / (dropped + radio.delivered_bytes as f64 / PACKET).max(1.0)
}

/// Bytes of a full packet.
const PACKET: f64 = 1_500.0;

fn candidate(term: &str, law: &Cells, cells: &Cells, tolerance: Tolerance) -> Candidate {
    let mut candidate = Candidate {
        term: term.to_owned(),
        cost: 0.0,
        worst: String::new(),
        share_percent: 0.0,
        share_interval: None,
        queue_percent: 0.0,
        queue_interval: None,
        loss_points: 0.0,
        mean_share_percent: 0.0,
        mean_queue_percent: 0.0,
    };
    let weight = 1.0 / law.len().max(1) as f64;
    for (name, whole) in law {
        let Some(without) = cells.get(name) else { continue };
        // Seed by seed, so that what both have in common does not widen the interval.
        let pairs = || whole.iter().zip(without);
        let changes = |of: fn(&Figures) -> f64| {
            let scale = pairs().map(|(whole, _)| of(whole)).sum::<f64>() / whole.len() as f64;
            let changes = pairs().map(move |(whole, without)| (of(without) - of(whole)) / scale.max(1e-9));
            Moments::of(changes).map_or((0.0, None, scale), |m| (m.mean, half_width(&m), scale))
        };
        let (share, share_interval, _) = changes(|figures| figures.share);
        let (queue, queue_interval, queue_ms) = changes(|figures| figures.queue_ms);
        let is_told_apart = queue * queue_ms > tolerance.queue_ms;
        let worse = (-share / tolerance.share).max(if is_told_apart { queue / tolerance.queue } else { 0.0 });
        candidate.loss_points +=
            pairs().map(|(a, b)| b.loss - a.loss).sum::<f64>() / whole.len() as f64 * weight;
        candidate.mean_share_percent += share * 100.0 * weight;
        candidate.mean_queue_percent += queue * 100.0 * weight;
        // What becomes better costs nothing.
        if candidate.worst.is_empty() || worse > candidate.cost {
            candidate.cost = worse.max(0.0);
            candidate.worst.clone_from(name);
            (candidate.share_percent, candidate.queue_percent) = (share * 100.0, queue * 100.0);
            candidate.share_interval = share_interval.map(|half| half * 100.0);
            candidate.queue_interval = queue_interval.map(|half| half * 100.0);
        }
    }
    candidate.loss_points *= 100.0;
    candidate
}

impl Candidate {
    /// The same of the mean of all cells, which may be less than nothing: of equals the one goes first whose
    /// loss does most good.
    fn mean_cost(&self, of: &Elimination) -> f64 {
        self.mean_queue_percent / of.tolerance.queue - self.mean_share_percent / of.tolerance.share
    }
}

impl Round {
    /// Heading and table, the cheapest term first.
    #[must_use]
    pub fn table(&self) -> (String, Table) {
        let change = |value: f64, interval: Option<f64>| match interval {
            Some(half) => format!("{value:+.2} ± {half:.2}"),
            None => format!("{value:+.2}"),
        };
        let row = |candidate: &Candidate| {
            vec![
                candidate.term.clone(),
                format!("{:.2}", candidate.cost),
                change(candidate.share_percent, candidate.share_interval),
                change(candidate.queue_percent, candidate.queue_interval),
                format!("{:+.2}", candidate.mean_share_percent),
                format!("{:+.2}", candidate.mean_queue_percent),
                format!("{:+.3}", candidate.loss_points),
                candidate.worst.clone(),
            ]
        };
        let headings = vec![
            ("without", ""),
            ("cost", "at most 1 to go"),
            ("share", "%, worst cell"),
            ("queue p95", "%, worst cell"),
            ("share", "%, mean"),
            ("queue p95", "%, mean"),
            ("loss", "points, mean"),
            ("worst cell", ""),
        ];
        let goes = self.goes.as_ref().map_or("nothing more can go".to_owned(), |term| format!("{term} goes"));
        let title = match self.without.as_str() {
            "none" => format!("The whole law: {goes}"),
            without => format!("Without {without}: {goes}"),
        };
        (title, Table { headings, rows: self.candidates.iter().map(row).collect() })
    }
}

impl Eliminated {
    /// A table for each round.
    #[must_use]
    pub fn tables(&self) -> Vec<(String, Table)> {
        self.rounds.iter().map(Round::table).collect()
    }

    /// The first round and the last as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let tables = self.tables();
        let ends = tables.first().into_iter().chain(tables.get(1..).and_then(<[_]>::last));
        ends.map(|(title, table)| format!("{title}:\n\n{}", table.markdown())).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests;
