//! [`Benchmark`]: runs parts, each way in turn, round by round.

use std::cell::RefCell;
use std::path::PathBuf;

use io::{Clock, Instance, Signals};
use units::Duration;

use crate::machine::Ticks;
use crate::pause::Pause;
use crate::results::{Part, Sample, WayNote, rounded, rows};
use crate::stage::{Measure, Plan, Stage};
use crate::topology::Network;
use crate::{BenchError, Machine, PartName, Way, instance};

/// Time during which the machine is watched before each round, to say when it is not quiet.
const WATCH: Duration = Duration::from_millis(200);

/// Settings of a benchmark: ways, times and rounds.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// Rounds, where they are not those of the part: every way is measured once in each.
    pub rounds: Option<u32>,
    /// Duration of each run, where it is not the part's own time.
    pub time: Option<Duration>,
    /// The `cellerator` program to put into the box.
    pub program: PathBuf,
    /// Version of that program.
    pub version: String,
    /// The command line that made the results.
    pub command: String,
}

/// Progress of a benchmark.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A part begins.
    Part(PartName),
    /// A round begins: its number from 1, of how many.
    Round(u32, u32),
    /// A way is put into the box.
    Way(Way),
    /// Something begins that takes seconds.
    Step(&'a str),
    /// Something was measured, as its part describes it.
    Sample(&'a Sample, &'a str),
    /// Something is left out.
    Missing(&'a str),
}

impl Benchmark {
    /// Makes a network, measures every way of `part` in every round, and removes the network. Ended
    /// early it gives the rounds that were finished, and says so in [`Part::missing`].
    ///
    /// A way that fails is left out from then on, and said in [`Part::missing`]. `signals` must
    /// catch what is to end it early; everything is removed then too.
    ///
    /// # Errors
    /// Without root, when the network cannot be made, or when the user interrupts.
    pub fn run(
        &self,
        part: PartName,
        signals: &Signals,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Part, BenchError> {
        progress(Progress::Part(part));
        let begin = Clock::now();
        let mut measure = part.measure();
        let mut plan = measure.plan();
        plan.rounds = self.rounds.unwrap_or(plan.rounds);
        plan.time = self.time.unwrap_or(plan.time);
        io::features::require(io::features::Feature::Namespaces)?;
        io::features::require(io::features::Feature::Tun)?;
        let instance: Instance = instance::register(&Network::names())?;
        let progress = RefCell::new(progress);
        let progress = |event: Progress<'_>| (progress.borrow_mut())(event);
        let mut stage = Stage {
            network: Network::create(plan.network)?,
            program: &self.program,
            directory: instance.path(),
            pause: Pause::new(signals)?,
            time: plan.time,
            steps: &|text| progress(Progress::Step(text)),
        };
        let mut made = Made::default();
        let mut ways = plan.ways.clone();
        let rounds = plan.rounds;
        for round in 1..=rounds {
            let whole = (made.samples.len(), made.busy_before.len());
            match self.round(round, &mut stage, (&mut *measure, &plan, &mut ways), &mut made, &progress) {
                // What was measured in whole rounds is worth telling.
                Err(BenchError::Interrupted) if round > 1 => {
                    made.samples.truncate(whole.0);
                    made.busy_before.truncate(whole.1);
                    plan.rounds = round - 1;
                    made.missing.push(format!("interrupted after {} of {rounds} rounds", plan.rounds));
                    break;
                }
                ended => ended?,
            }
        }
        drop(stage);
        Ok(self.part(part, plan, made, Clock::now().saturating_since(begin)))
    }

    /// Measures each of the ways once.
    fn round(
        &self,
        round: u32,
        stage: &mut Stage<'_>,
        (measure, plan, ways): (&mut dyn Measure, &Plan, &mut Vec<Way>),
        made: &mut Made,
        progress: &dyn Fn(Progress<'_>),
    ) -> Result<(), BenchError> {
        progress(Progress::Round(round, plan.rounds));
        made.busy_before.push(rounded(busy_share(&mut stage.pause)?));
        let mut turn = ways.clone();
        // Another way is first in each round, so that none always follows the same one.
        let first = (round as usize - 1) % turn.len().max(1);
        turn.rotate_left(first);
        for way in turn {
            progress(Progress::Way(way));
            match measure.measure(stage, way, round) {
                Ok(samples) => {
                    for sample in samples {
                        progress(Progress::Sample(&sample, &described(plan, &sample)));
                        made.samples.push(sample);
                    }
                }
                Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
                Err(error) => {
                    let line = left_out(way, &error);
                    progress(Progress::Missing(&line));
                    made.missing.push(line);
                    ways.retain(|other| *other != way);
                }
            }
        }
        Ok(())
    }

    fn part(&self, name: PartName, plan: Plan, made: Made, took: Duration) -> Part {
        let names: Vec<&str> = plan.ways.iter().map(|way| way.name()).collect();
        let note = |way: &Way| WayNote {
            name: way.name().to_owned(),
            title: way.title().to_owned(),
            in_the_box: way.in_the_box(),
        };
        Part {
            name: name.name().to_owned(),
            title: plan.title.to_owned(),
            how: plan.how.to_owned(),
            cellerator: self.version.clone(),
            machine: Machine::here(),
            command: self.command.clone(),
            ended_unix_s: Clock::wall_nanos() / 1_000_000_000,
            took_s: (took.as_secs_f64() * 10.0).round() / 10.0,
            rounds: plan.rounds,
            busy_before: made.busy_before,
            missing: made.missing,
            metrics: plan.metrics,
            ways: plan.ways.iter().map(note).collect(),
            rows: rows(&made.samples, &names),
            figures: plan.comparisons.iter().filter_map(|c| c.figure(&made.samples)).collect(),
            samples: made.samples,
        }
    }
}

/// Results so far.
#[derive(Debug, Default)]
struct Made {
    samples: Vec<Sample>,
    busy_before: Vec<f64>,
    missing: Vec<String>,
}

fn left_out(way: Way, error: &BenchError) -> String {
    let text = error.to_string();
    match error {
        BenchError::Missing { .. } => text,
        _ => format!("{} is left out, it failed: {text}", way.title()),
    }
}

/// Share of time in which the machine is busy while nothing of ours runs.
fn busy_share(pause: &mut Pause<'_>) -> Result<f64, BenchError> {
    let before = Ticks::now();
    pause.wait(WATCH)?;
    Ok(Ticks::now().busy_share_since(before))
}

/// The values of a sample with the titles of their metrics, in the part's order.
fn described(plan: &Plan, sample: &Sample) -> String {
    let values = plan.metrics.iter().filter_map(|metric| {
        let value = sample.values.get(&metric.name)?;
        Some(format!("{value:.*} {}", usize::from(metric.digits), metric.title))
    });
    values.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
