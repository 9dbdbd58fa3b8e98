//! [`Job`]: the runs of a contest, and what they are called.

use scenario::Quantity;
use units::{Bytes, Duration};

use super::{Contest, Made, Part};
use crate::{Beside, Buffer, short};

/// One run to make.
#[derive(Clone, Copy)]
pub(super) enum Job {
    Idle { trace: usize, seed: usize },
    Limit { trace: usize, seed: usize, buffer: Buffer, late: Duration },
    Bulk(Place),
    Short { place: Place, size: Bytes, is_known: bool },
    Mixed(Place),
    Flows(Place, u16),
    Beside(Place, Beside),
}

/// A scheme on a trace with a queue. Traces, seeds and schemes are numbered as in the contest.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub trace: usize,
    pub seed: usize,
    pub buffer: Buffer,
    pub scheme: usize,
}

impl Contest {
    /// All runs, seed by seed, so that what an interruption leaves can be compared.
    pub(super) fn jobs(&self) -> Vec<Job> {
        let mut jobs: Vec<Job> =
            self.traces_and_seeds().map(|(trace, seed)| Job::Idle { trace, seed }).collect();
        for seed in 0..self.settings.seeds.len() {
            if self.settings.parts.contains(&Part::Bulk) {
                jobs.extend(self.limits_of(seed));
            }
            for part in &self.settings.parts {
                let places = self.places(seed);
                match part {
                    Part::Bulk => jobs.extend(places.map(Job::Bulk)),
                    Part::Mixed => jobs.extend(places.map(Job::Mixed)),
                    Part::Flows(count) => jobs.extend(places.map(|place| Job::Flows(place, *count))),
                    Part::Beside(beside) => jobs.extend(places.map(|place| Job::Beside(place, *beside))),
                    Part::Short => jobs.extend(places.flat_map(|place| {
                        let kinds = short::SIZES.into_iter().flat_map(|size| [(size, false), (size, true)]);
                        kinds.map(move |(size, is_known)| Job::Short { place, size, is_known })
                    })),
                }
            }
        }
        jobs
    }

    /// Each trace with the seeds for which it is another.
    fn traces_and_seeds(&self) -> impl Iterator<Item = (usize, usize)> {
        let seeds = self.settings.seeds.len();
        let of = move |all: &Vec<_>| all.len().min(seeds);
        self.traces.iter().enumerate().flat_map(move |(trace, all)| (0..of(all)).map(move |s| (trace, s)))
    }

    fn limits_of(&self, seed: usize) -> impl Iterator<Item = Job> {
        let settings = &self.settings;
        self.traces_and_seeds().filter(move |(_, of)| *of == seed).flat_map(move |(trace, seed)| {
            settings.buffers.iter().flat_map(move |&buffer| {
                settings.late.iter().map(move |&late| Job::Limit { trace, seed, buffer, late })
            })
        })
    }

    fn places(&self, seed: usize) -> impl Iterator<Item = Place> {
        let (traces, schemes) = (self.traces.len(), self.schemes.len());
        let buffers = &self.settings.buffers;
        (0..traces).flat_map(move |trace| {
            buffers.iter().flat_map(move |&buffer| {
                (0..schemes).map(move |scheme| Place { trace, seed, buffer, scheme })
            })
        })
    }

    pub(super) fn name(&self, job: Job) -> String {
        let with_seed = |seed: usize| match self.settings.seeds.as_slice() {
            [_] => String::new(),
            seeds => format!(", seed {}", seeds[seed]),
        };
        let trace_name = |trace: usize, seed: usize| &self.source(trace, seed).name;
        let at = |place: Place| {
            let Place { trace, seed, buffer, scheme } = place;
            format!("{}, {buffer}{}: {}", trace_name(trace, seed), with_seed(seed), self.schemes[scheme])
        };
        match job {
            Job::Idle { trace, seed } => {
                format!("{}{}: idle ping", trace_name(trace, seed), with_seed(seed))
            }
            Job::Limit { trace, seed, buffer, late } => {
                let (name, seed) = (trace_name(trace, seed), with_seed(seed));
                format!("{name}, {buffer}{seed}: limit, {} late", Quantity(late))
            }
            Job::Bulk(place) => at(place),
            Job::Short { place, size, is_known } => format!("{}, {}", at(place), short_name(size, is_known)),
            Job::Mixed(place) => format!("{}, mixed", at(place)),
            Job::Flows(place, count) => format!("{}, {count} flows", at(place)),
            Job::Beside(place, beside) => format!("{}, beside {beside}", at(place)),
        }
    }

    pub(super) fn describe(&self, job: Job, made: Option<&Made>) -> String {
        let problem = |problems: &[String]| problems.first().map_or_else(String::new, |p| format!(" — {p}"));
        let what = match made {
            Some(Made::Bulk(run)) => format!(": {}{}", run.in_words(), problem(&run.problems)),
            Some(Made::Short(run)) => {
                format!(": p50 {:.0} ms{}", run.completion_ms.p50, problem(&run.problems))
            }
            Some(Made::Mixed(run)) => format!(
                ": {:.1} % used, ping p95 {:.0} ms{}",
                run.utilisation * 100.0,
                run.ping_ms.p95,
                problem(&run.problems)
            ),
            Some(Made::Flows(run)) => format!(
                ": {:.1} % used, queue p95 {:.0} ms, fairness {:.3}{}",
                run.utilisation * 100.0,
                run.queue_ms.p95,
                run.fairness,
                problem(&run.problems)
            ),
            Some(Made::Beside(run)) => format!(
                ": {:.2} Mbit/s beside {:.2}, ping p95 {:.0} ms{}",
                run.own_mbps,
                run.beside_mbps.iter().sum::<f64>(),
                run.ping_ms.p95,
                problem(&run.problems)
            ),
            _ => String::new(),
        };
        self.name(job) + &what
    }
}

fn short_name(size: Bytes, is_known: bool) -> String {
    format!("{} KB, {} client", size.get() / 1_000, if is_known { "known" } else { "new" })
}
