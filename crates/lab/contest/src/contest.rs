//! [`Contest`]: every scheme on every trace.

use std::sync::atomic::{AtomicBool, Ordering};

use control::{ControllerConfig, CubicParams};
use parallel::in_parallel_until;
use scenario::results::Interrupted;
use sim::SimError;
use units::{Bytes, Duration, Rate};

use crate::line_up::LineUp;
use crate::results::{
    BesideRun, Delays, Document, FlowsRun, Limit, MixedRun, Run, SCHEMA, Seeded, ShortRun, TraceFigures,
};
use crate::{
    Beside, Buffer, ContestError, PathSettings, Scheme, TraceSource, Treatment, beside, bulk, flows, limit,
    mixed, offset_ms, short,
};
use jobs::{Job, Place};

mod jobs;

/// Settings that all runs have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Length of each run.
    pub length: Duration,
    /// Sizes of the radio queue.
    pub buffers: Vec<Buffer>,
    /// Seeds, at least one: of what the hosts send and their numbers, of what the radio loses, and of
    /// presets' traces.
    pub seeds: Vec<u64>,
    /// Runs at the same time; nothing else depends on it.
    pub threads: usize,
    /// Parts that are run.
    pub parts: Vec<Part>,
    /// Lateness of the senders of the limits; none for no limit.
    pub late: Vec<Duration>,
    /// Path around the radio link, and what the radio loses.
    pub path: PathSettings,
}

/// A part of a contest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A bulk flow and a ping.
    Bulk,
    /// Short downloads.
    Short,
    /// Four flows of different kinds, and a call.
    Mixed,
    /// Number of downloads at once, 2 to 256.
    Flows(u16),
    /// A download beside others of the client that the accelerator passes, or these alone.
    Beside(Beside),
}

impl core::str::FromStr for Part {
    type Err = ContestError;

    fn from_str(text: &str) -> Result<Self, ContestError> {
        if let Some(neighbours) = text.strip_prefix("beside=") {
            return neighbours.parse().map(Self::Beside);
        }
        if let Some(all) = text.strip_prefix("alone=") {
            return all.parse().map(|all: Beside| Self::Beside(all.alone()));
        }
        let flows =
            text.strip_prefix("flows=").and_then(|n| n.parse().ok()).filter(|n| (2..=256).contains(n));
        match (text, flows) {
            ("bulk", _) => Ok(Self::Bulk),
            ("short", _) => Ok(Self::Short),
            ("mixed", _) => Ok(Self::Mixed),
            (_, Some(count)) => Ok(Self::Flows(count)),
            _ => Err(ContestError::setting(
                "part",
                format!(
                    "`{text}` is none; there are bulk, short, mixed, flows=N with N from 2 to 256, \
                     and beside= or alone= with {}",
                    crate::beside::BesideKind::NAMES
                ),
            )),
        }
    }
}

/// Schemes against each other on traces.
#[derive(Clone, Debug)]
pub struct Contest {
    /// Settings that all runs have in common.
    pub settings: Settings,
    /// The traces, each as every seed has it: files are the same for all, presets are drawn anew.
    pub traces: Vec<Vec<TraceSource>>,
    /// The schemes.
    pub schemes: Vec<Scheme>,
}

enum Made {
    Idle(TraceFigures),
    Limit(Limit),
    Bulk(Run),
    Short(ShortRun),
    Mixed(MixedRun),
    Flows(FlowsRun),
    Beside(BesideRun),
}

impl Contest {
    /// Number of its runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.jobs().len()
    }

    /// Makes all runs; `progress` hears of each that ends, from any thread. What made the document is left
    /// open.
    ///
    /// Once `is_over` no run begins, and what was under way is left out: the document says how far it came.
    ///
    /// # Errors
    /// A run that cannot be made. A broken rule is no error but a problem in its [`Run`].
    pub fn hold(
        &self,
        progress: &(dyn Fn(&str) + Sync),
        is_over: &AtomicBool,
    ) -> Result<Document, ContestError> {
        self.hold_all(&self.jobs(), progress, is_over)
    }

    /// The limits alone.
    pub(crate) fn limits(&self) -> Document {
        let jobs: Vec<Job> = self.jobs().into_iter().filter(|job| matches!(job, Job::Limit { .. })).collect();
        // Nothing can go wrong without a network.
        self.hold_all(&jobs, &|_| {}, &AtomicBool::new(false)).unwrap_or_default()
    }

    fn hold_all(
        &self,
        jobs: &[Job],
        progress: &(dyn Fn(&str) + Sync),
        is_over: &AtomicBool,
    ) -> Result<Document, ContestError> {
        let made = in_parallel_until(jobs.len(), self.settings.threads, is_over, |index| {
            let job = jobs[index];
            let made =
                self.make(job, is_over).map_err(|source| ContestError::Sim { run: self.name(job), source });
            // It may have been cut short.
            if is_over.load(Ordering::Relaxed) {
                return None;
            }
            progress(&self.describe(job, made.as_ref().ok()));
            Some(made)
        });
        let made: Vec<_> = made.into_iter().flatten().flatten().collect();
        let interrupted =
            (made.len() < jobs.len()).then_some(Interrupted { finished: made.len(), of: jobs.len() });
        let mut document = Document { interrupted, ..self.empty() };
        for one in made {
            match one? {
                Made::Idle(figures) => document.traces.push(figures),
                Made::Limit(limit) => document.limits.push(limit),
                Made::Bulk(run) => document.runs.push(run),
                Made::Short(run) => document.short.push(run),
                Made::Mixed(run) => document.mixed.push(run),
                Made::Flows(run) => document.flows.push(run),
                Made::Beside(run) => document.beside.push(run),
            }
        }
        document.summarise();
        Ok(document)
    }

    /// A document without any run.
    fn empty(&self) -> Document {
        Document {
            schema: SCHEMA.to_owned(),
            seconds: self.settings.length.as_secs_f64(),
            seeds: self.settings.seeds.clone(),
            path: self.settings.path.document(),
            ..Document::default()
        }
    }

    fn make(&self, job: Job, is_over: &AtomicBool) -> Result<Made, SimError> {
        let length = self.settings.length;
        match job {
            Job::Idle { trace, seed } => {
                let (source, number) = (self.source(trace, seed), self.settings.seeds[seed]);
                idle(source, length, number, &self.settings.path).map(Made::Idle)
            }
            Job::Limit { trace, seed, buffer, late } => {
                let source = self.source(trace, seed);
                let queue = buffer.bytes(mean_rate(source, length), self.settings.path.base_rtt());
                Ok(Made::Limit(Limit {
                    trace: source.name.clone(),
                    buffer: buffer.to_string(),
                    seed: self.settings.seeds[seed],
                    late_ms: late.as_millis_f64(),
                    points: limit::limit(&source.down, length, late, queue),
                }))
            }
            Job::Bulk(place) => {
                let run = self.cell(place, is_over).run()?;
                // Of the others the figures say enough.
                let series = run.series.clone().filter(|_| place.seed == 0);
                Ok(Made::Bulk(Run { series, ..run }))
            }
            Job::Short { place, size, is_known } => {
                let cell = self.cell(place, is_over);
                let run = ShortRun {
                    size_bytes: size.get(),
                    client: if is_known { "known" } else { "new" }.to_owned(),
                    ..cell.begun::<ShortRun>()
                };
                short::short(&cell.line_up(), length, size, is_known, run).map(Made::Short)
            }
            Job::Mixed(place) => {
                let cell = self.cell(place, is_over);
                mixed::mixed(&cell.line_up(), length, cell.begun()).map(Made::Mixed)
            }
            Job::Flows(place, count) => {
                let cell = self.cell(place, is_over);
                let run: FlowsRun = cell.begun();
                flows::flows(&cell.line_up(), length, usize::from(count), run).map(Made::Flows)
            }
            Job::Beside(place, neighbours) => {
                let cell = self.cell(place, is_over);
                let run = BesideRun { beside: neighbours.to_string(), ..cell.begun::<BesideRun>() };
                beside::beside(&cell.line_up(), length, neighbours, run).map(Made::Beside)
            }
        }
    }

    /// A trace as a seed, by its place in the list, has it.
    fn source(&self, trace: usize, seed: usize) -> &TraceSource {
        let all = &self.traces[trace];
        &all[seed.min(all.len() - 1)]
    }

    fn cell<'a>(&'a self, place: Place, is_over: &'a AtomicBool) -> Cell<'a> {
        Cell {
            trace: self.source(place.trace, place.seed),
            buffer: place.buffer,
            scheme: &self.schemes[place.scheme],
            seed: self.settings.seeds[place.seed],
            length: self.settings.length,
            path: &self.settings.path,
            is_over,
        }
    }
}

/// One bulk run.
pub(crate) struct Cell<'a> {
    pub trace: &'a TraceSource,
    pub buffer: Buffer,
    pub scheme: &'a Scheme,
    pub seed: u64,
    pub length: Duration,
    pub path: &'a PathSettings,
    pub is_over: &'a AtomicBool,
}

impl Cell<'_> {
    fn line_up(&self) -> LineUp<'_> {
        LineUp {
            trace: self.trace,
            queue: self.buffer.bytes(mean_rate(self.trace, self.length), self.path.base_rtt()),
            scheme: self.scheme,
            path: self.path,
            seed: self.seed,
            is_over: self.is_over,
        }
    }

    /// A run of this without figures yet.
    fn begun<R: Seeded>(&self) -> R {
        R::of([self.trace.name.clone(), self.buffer.to_string(), self.scheme.label.clone()], self.seed)
    }

    pub(crate) fn run(&self) -> Result<Run, SimError> {
        let line_up = self.line_up();
        let run = Run { buffer_bytes: line_up.queue.get(), ..self.begun() };
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
        schedules_passed: true,
        has_markers: false,
    };
    let queue = Buffer::Bdp(2).bytes(mean_rate(trace, length), path.base_rtt());
    // Over in an instant: nothing to interrupt.
    let is_over = &AtomicBool::new(false);
    let ping = bulk::idle_ping(&LineUp { trace, queue, scheme: &scheme, path, seed, is_over }, length)?;
    Ok(TraceFigures { seed, ..trace_figures(trace, length, path, ping) })
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
        seed: 1,
        mean_mbps: rate.as_mbps_f64(),
        bdp_bytes: bdp.get(),
        offset_p95_ms: offset_ms(&trace.down, length),
        idle_ping_ms: idle,
        capacity_mbps: crate::series::of_trace(&trace.down, length),
    }
}

#[cfg(test)]
mod tests;
