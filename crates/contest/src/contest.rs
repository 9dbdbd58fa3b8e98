//! [`Contest`]: every scheme on every trace.

use control::{ControllerConfig, CubicParams};
use sim::{SimError, in_parallel};
use units::{Bytes, Duration, Rate};

use crate::line_up::{BASE_RTT, LineUp};
use crate::results::{Delays, Run, TraceFigures};
use crate::{Buffer, ContestError, Scheme, TraceSource, Treatment, bulk, offset_ms};

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
    Idle { trace: usize },
    Bulk { trace: usize, buffer: Buffer, scheme: usize },
}

enum Made {
    Idle(TraceFigures),
    Bulk(Run),
}

impl Contest {
    /// How many runs it takes.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.jobs().len()
    }

    /// Makes all runs; `progress` hears of each that ends, from any thread.
    ///
    /// # Errors
    /// A run that cannot be made. A broken rule is no error but a problem in its [`Run`].
    pub fn hold(
        &self,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<(Vec<TraceFigures>, Vec<Run>), ContestError> {
        let jobs = self.jobs();
        let made = in_parallel(jobs.len(), self.settings.threads, |index| {
            let made = self.make(jobs[index]);
            progress(&self.describe(jobs[index], made.as_ref().ok()));
            made
        });
        let (mut traces, mut runs) = (Vec::new(), Vec::new());
        for one in made {
            match one? {
                Made::Idle(figures) => traces.push(figures),
                Made::Bulk(run) => runs.push(run),
            }
        }
        Ok((traces, runs))
    }

    fn jobs(&self) -> Vec<Job> {
        let traces = 0..self.traces.len();
        let idle = traces.clone().map(|trace| Job::Idle { trace });
        let mut jobs: Vec<Job> = idle.collect();
        for trace in traces {
            for &buffer in &self.settings.buffers {
                jobs.extend((0..self.schemes.len()).map(|scheme| Job::Bulk { trace, buffer, scheme }));
            }
        }
        jobs
    }

    fn name(&self, job: Job) -> String {
        match job {
            Job::Idle { trace } => format!("{}: idle ping", self.traces[trace].name),
            Job::Bulk { trace, buffer, scheme } => {
                format!("{}, {buffer}: {}", self.traces[trace].name, self.schemes[scheme])
            }
        }
    }

    fn describe(&self, job: Job, made: Option<&Made>) -> String {
        let name = self.name(job);
        match made {
            Some(Made::Bulk(run)) => format!(
                "{name}: {:.1} % used, queue p95 {:.0} ms, ping p95 {:.0} ms{}",
                run.utilisation * 100.0,
                run.queue_ms.p95,
                run.ping_ms.p95,
                run.problems.first().map_or_else(String::new, |problem| format!(" — {problem}"))
            ),
            _ => name,
        }
    }

    fn make(&self, job: Job) -> Result<Made, ContestError> {
        let length = self.settings.length;
        let failed = |source| ContestError::Sim { run: self.name(job), source };
        match job {
            Job::Idle { trace } => {
                idle(&self.traces[trace], length, self.settings.seed).map(Made::Idle).map_err(failed)
            }
            Job::Bulk { trace, buffer, scheme } => {
                let cell = Cell {
                    trace: &self.traces[trace],
                    buffer,
                    scheme: &self.schemes[scheme],
                    seed: self.settings.seed,
                    length,
                };
                cell.run().map(Made::Bulk).map_err(failed)
            }
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
}

impl Cell<'_> {
    pub(crate) fn run(&self) -> Result<Run, SimError> {
        let queue = self.buffer.bytes(mean_rate(self.trace, self.length));
        let line_up = LineUp { trace: self.trace, queue, scheme: self.scheme, seed: self.seed };
        let run = Run {
            trace: self.trace.name.clone(),
            buffer: self.buffer.to_string(),
            buffer_bytes: queue.get(),
            scheme: self.scheme.label.clone(),
            ..Run::default()
        };
        bulk::bulk(&line_up, self.length, run)
    }
}

fn mean_rate(trace: &TraceSource, length: Duration) -> Rate {
    Rate::from_transfer(trace.down.offered_bytes(Duration::ZERO, length), length)
}

/// The trace's own figures, with the ping alone on it.
pub(crate) fn idle(trace: &TraceSource, length: Duration, seed: u64) -> Result<TraceFigures, SimError> {
    let scheme = Scheme {
        label: "direct".to_owned(),
        treatment: Treatment::Direct,
        controller: ControllerConfig::Cubic(CubicParams::default()),
        feedback: None,
    };
    let queue = Buffer::Bdp(2).bytes(mean_rate(trace, length));
    let ping = bulk::idle_ping(&LineUp { trace, queue, scheme: &scheme, seed }, length)?;
    Ok(trace_figures(trace, length, ping))
}

fn trace_figures(trace: &TraceSource, length: Duration, idle: Delays) -> TraceFigures {
    let rate = mean_rate(trace, length);
    let bdp: Bytes = rate.bytes_in(BASE_RTT);
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
