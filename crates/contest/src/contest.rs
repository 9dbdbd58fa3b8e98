//! [`Contest`]: every scheme on every trace.

use control::{ControllerConfig, CubicParams};
use scenario::Quantity;
use sim::{SimError, in_parallel};
use units::{Bytes, Duration, Rate};

use crate::line_up::LineUp;
use crate::results::{Delays, Document, Limit, MixedRun, Run, SCHEMA, ShortRun, TraceFigures};
use crate::{
    Buffer, ContestError, PathSettings, Scheme, TraceSource, Treatment, bulk, limit, mixed, offset_ms, short,
};

/// What all runs have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Length of each run.
    pub length: Duration,
    /// Sizes of the radio queue.
    pub buffers: Vec<Buffer>,
    /// Seed of what the hosts send and their numbers.
    pub seed: u64,
    /// Runs at the same time; nothing else depends on it.
    pub threads: usize,
    /// What is run.
    pub parts: Vec<Part>,
    /// How late the senders of the limits know; none for no limit.
    pub late: Vec<Duration>,
    /// What is around the radio link.
    pub path: PathSettings,
}

/// A part of a contest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A bulk flow and a ping.
    Bulk,
    /// Short downloads.
    Short,
    /// Four flows of different kinds.
    Mixed,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bulk, Self::Short, Self::Mixed];

    /// The name used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Short => "short",
            Self::Mixed => "mixed",
        }
    }
}

impl core::str::FromStr for Part {
    type Err = ContestError;

    fn from_str(text: &str) -> Result<Self, ContestError> {
        Self::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| ContestError::Setting {
            what: "part",
            problem: format!("`{text}` is none; there are {}", Self::ALL.map(Self::name).join(", ")),
        })
    }
}

/// Schemes against each other on traces.
#[derive(Clone, Debug)]
pub struct Contest {
    /// What all runs have in common.
    pub settings: Settings,
    /// The traces.
    pub traces: Vec<TraceSource>,
    /// The schemes.
    pub schemes: Vec<Scheme>,
}

/// One run to make.
#[derive(Clone, Copy)]
enum Job {
    Idle(usize),
    Limit { trace: usize, buffer: Buffer, late: Duration },
    Bulk(Place),
    Short { place: Place, size: Bytes, is_known: bool },
    Mixed(Place),
}

/// A scheme on a trace with a queue.
#[derive(Clone, Copy)]
struct Place {
    trace: usize,
    buffer: Buffer,
    scheme: usize,
}

enum Made {
    Idle(TraceFigures),
    Limit(Limit),
    Bulk(Run),
    Short(ShortRun),
    Mixed(MixedRun),
}

impl Contest {
    /// How many runs it takes.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.jobs().len()
    }

    /// Makes all runs; `progress` hears of each that ends, from any thread. What made the document is left open.
    ///
    /// # Errors
    /// A run that cannot be made. A broken rule is no error but a problem in its [`Run`].
    pub fn hold(&self, progress: &(dyn Fn(&str) + Sync)) -> Result<Document, ContestError> {
        self.hold_all(&self.jobs(), progress)
    }

    /// The limits alone.
    pub(crate) fn limits(&self) -> Document {
        let jobs: Vec<Job> = self.jobs().into_iter().filter(|job| matches!(job, Job::Limit { .. })).collect();
        // Nothing can go wrong without a network.
        self.hold_all(&jobs, &|_| {}).unwrap_or_default()
    }

    fn hold_all(&self, jobs: &[Job], progress: &(dyn Fn(&str) + Sync)) -> Result<Document, ContestError> {
        let made = in_parallel(jobs.len(), self.settings.threads, |index| {
            let job = jobs[index];
            let made = self.make(job).map_err(|source| ContestError::Sim { run: self.name(job), source });
            progress(&self.describe(job, made.as_ref().ok()));
            made
        });
        let mut document = Document {
            schema: SCHEMA.to_owned(),
            seconds: self.settings.length.as_secs_f64(),
            seed: self.settings.seed,
            path: self.settings.path.document(),
            ..Document::default()
        };
        for one in made {
            match one? {
                Made::Idle(figures) => document.traces.push(figures),
                Made::Limit(limit) => document.limits.push(limit),
                Made::Bulk(run) => document.runs.push(run),
                Made::Short(run) => document.short.push(run),
                Made::Mixed(run) => document.mixed.push(run),
            }
        }
        Ok(document)
    }

    fn jobs(&self) -> Vec<Job> {
        let settings = &self.settings;
        let mut jobs: Vec<Job> = (0..self.traces.len()).map(Job::Idle).collect();
        let pairs = || (0..self.traces.len()).flat_map(|t| settings.buffers.iter().map(move |b| (t, *b)));
        let places = || {
            pairs().flat_map(|(trace, buffer)| {
                (0..self.schemes.len()).map(move |scheme| Place { trace, buffer, scheme })
            })
        };
        if settings.parts.contains(&Part::Bulk) {
            jobs.extend(pairs().flat_map(|(trace, buffer)| {
                settings.late.iter().map(move |&late| Job::Limit { trace, buffer, late })
            }));
        }
        for part in &settings.parts {
            match part {
                Part::Bulk => jobs.extend(places().map(Job::Bulk)),
                Part::Mixed => jobs.extend(places().map(Job::Mixed)),
                Part::Short => jobs.extend(places().flat_map(|place| {
                    let kinds = short::SIZES.into_iter().flat_map(|size| [(size, false), (size, true)]);
                    kinds.map(move |(size, is_known)| Job::Short { place, size, is_known })
                })),
            }
        }
        jobs
    }

    fn name(&self, job: Job) -> String {
        let at = |place: Place| {
            format!("{}, {}: {}", self.traces[place.trace].name, place.buffer, self.schemes[place.scheme])
        };
        match job {
            Job::Idle(trace) => format!("{}: idle ping", self.traces[trace].name),
            Job::Limit { trace, buffer, late } => {
                format!("{}, {buffer}: limit, {} late", self.traces[trace].name, Quantity(late))
            }
            Job::Bulk(place) => at(place),
            Job::Short { place, size, is_known } => format!("{}, {}", at(place), short_name(size, is_known)),
            Job::Mixed(place) => format!("{}, four flows", at(place)),
        }
    }

    fn describe(&self, job: Job, made: Option<&Made>) -> String {
        let problem = |problems: &[String]| problems.first().map_or_else(String::new, |p| format!(" — {p}"));
        let what = match made {
            Some(Made::Bulk(run)) => format!(
                ": {:.1} % used, queue p95 {:.0} ms, ping p95 {:.0} ms{}",
                run.utilisation * 100.0,
                run.queue_ms.p95,
                run.ping_ms.p95,
                problem(&run.problems)
            ),
            Some(Made::Short(run)) => {
                format!(": p50 {:.0} ms{}", run.completion_ms.p50, problem(&run.problems))
            }
            Some(Made::Mixed(run)) => format!(
                ": {:.1} % used, ping p95 {:.0} ms{}",
                run.utilisation * 100.0,
                run.ping_ms.p95,
                problem(&run.problems)
            ),
            _ => String::new(),
        };
        self.name(job) + &what
    }

    fn make(&self, job: Job) -> Result<Made, SimError> {
        let (length, seed) = (self.settings.length, self.settings.seed);
        match job {
            Job::Idle(trace) => idle(&self.traces[trace], length, seed, &self.settings.path).map(Made::Idle),
            Job::Limit { trace, buffer, late } => {
                let source = &self.traces[trace];
                let queue = buffer.bytes(mean_rate(source, length), self.settings.path.base_rtt());
                Ok(Made::Limit(Limit {
                    trace: source.name.clone(),
                    buffer: buffer.to_string(),
                    late_ms: late.as_millis_f64(),
                    points: limit::limit(&source.down, length, late, queue),
                }))
            }
            Job::Bulk(place) => self.cell(place).run().map(Made::Bulk),
            Job::Short { place, size, is_known } => {
                let cell = self.cell(place);
                let run = ShortRun {
                    trace: cell.trace.name.clone(),
                    buffer: cell.buffer.to_string(),
                    scheme: cell.scheme.label.clone(),
                    size_bytes: size.get(),
                    client: if is_known { "known" } else { "new" }.to_owned(),
                    ..ShortRun::default()
                };
                short::short(&cell.line_up(), length, size, is_known, run).map(Made::Short)
            }
            Job::Mixed(place) => {
                let cell = self.cell(place);
                let run = MixedRun {
                    trace: cell.trace.name.clone(),
                    buffer: cell.buffer.to_string(),
                    scheme: cell.scheme.label.clone(),
                    ..MixedRun::default()
                };
                mixed::mixed(&cell.line_up(), length, run).map(Made::Mixed)
            }
        }
    }

    fn cell(&self, place: Place) -> Cell<'_> {
        Cell {
            trace: &self.traces[place.trace],
            buffer: place.buffer,
            scheme: &self.schemes[place.scheme],
            seed: self.settings.seed,
            length: self.settings.length,
            path: &self.settings.path,
        }
    }
}

fn short_name(size: Bytes, is_known: bool) -> String {
    format!("{} KB, {} client", size.get() / 1_000, if is_known { "known" } else { "new" })
}

/// One bulk run.
pub(crate) struct Cell<'a> {
    pub trace: &'a TraceSource,
    pub buffer: Buffer,
    pub scheme: &'a Scheme,
    pub seed: u64,
    pub length: Duration,
    pub path: &'a PathSettings,
}

impl Cell<'_> {
    fn line_up(&self) -> LineUp<'_> {
        let queue = self.buffer.bytes(mean_rate(self.trace, self.length), self.path.base_rtt());
        LineUp { trace: self.trace, queue, scheme: self.scheme, path: self.path, seed: self.seed }
    }

    pub(crate) fn run(&self) -> Result<Run, SimError> {
        let line_up = self.line_up();
        let run = Run {
            trace: self.trace.name.clone(),
            buffer: self.buffer.to_string(),
            buffer_bytes: line_up.queue.get(),
            scheme: self.scheme.label.clone(),
            ..Run::default()
        };
        bulk::bulk(&line_up, self.length, run)
    }
}

pub(crate) fn mean_rate(trace: &TraceSource, length: Duration) -> Rate {
    Rate::from_transfer(trace.down.offered_bytes(Duration::ZERO, length), length)
}

/// The trace's own figures, with the ping alone on it.
pub(crate) fn idle(
    trace: &TraceSource,
    length: Duration,
    seed: u64,
    path: &PathSettings,
) -> Result<TraceFigures, SimError> {
    let scheme = Scheme {
        label: "direct".to_owned(),
        treatment: Treatment::Direct,
        controller: ControllerConfig::Cubic(CubicParams::default()),
        feedback: None,
    };
    let queue = Buffer::Bdp(2).bytes(mean_rate(trace, length), path.base_rtt());
    let ping = bulk::idle_ping(&LineUp { trace, queue, scheme: &scheme, path, seed }, length)?;
    Ok(trace_figures(trace, length, path, ping))
}

pub(crate) fn trace_figures(
    trace: &TraceSource,
    length: Duration,
    path: &PathSettings,
    idle: Delays,
) -> TraceFigures {
    let rate = mean_rate(trace, length);
    let bdp: Bytes = rate.bytes_in(path.base_rtt());
    TraceFigures {
        trace: trace.name.clone(),
        mean_mbps: rate.as_mbps_f64(),
        bdp_bytes: bdp.get(),
        offset_p95_ms: offset_ms(&trace.down, length),
        idle_ping_ms: idle,
    }
}

#[cfg(test)]
mod tests;
