//! [`Stage`]: what every measurement needs, and the parts that can be put on it.

use std::path::Path;

use units::{Duration, Instant};

use crate::boxed::BoxProgram;
use crate::comparison::Comparison;
use crate::machine::{Ticks, cpu_seconds};
use crate::pause::Pause;
use crate::results::{Metric, Sample};
use crate::topology::{Network, NetworkOptions};
use crate::{BenchError, Way};

/// Inputs of every measurement.
pub(crate) struct Stage<'a> {
    pub network: Network,
    /// `cellerator`.
    pub program: &'a Path,
    /// For what programs write; removed at the end.
    pub directory: &'a Path,
    pub pause: Pause<'a>,
    /// Duration of each run.
    pub time: Duration,
    /// Told what takes long.
    pub steps: &'a dyn Fn(&str),
}

impl Stage<'_> {
    /// Tells the user what takes a while from here on.
    pub fn step(&self, text: &str) {
        (self.steps)(text);
    }

    /// Puts `way` into the box.
    pub fn start(&mut self, way: Way) -> Result<Option<BoxProgram>, BenchError> {
        self.start_with(way, &[])
    }

    /// The same with further arguments of `cellerator`.
    pub fn start_with(&mut self, way: Way, more: &[&str]) -> Result<Option<BoxProgram>, BenchError> {
        BoxProgram::start(way, more, self.program, &self.network, self.directory, &mut self.pause)
    }

    /// Takes it out again after `flows` flows.
    pub fn stop(&mut self, boxed: Option<BoxProgram>, flows: u64) -> Result<(), BenchError> {
        boxed.map_or(Ok(()), |boxed| boxed.stop_after(flows, &mut self.pause))
    }
}

/// Plan of a part.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub title: &'static str,
    pub how: &'static str,
    pub metrics: Vec<Metric>,
    /// In the order of the first round.
    pub ways: Vec<Way>,
    pub rounds: u32,
    /// Duration of each run.
    pub time: Duration,
    pub network: NetworkOptions,
    pub comparisons: Vec<Comparison>,
}

/// A part: measures one way in one round, in all its cases.
pub(crate) trait Measure {
    /// Plan of the part.
    fn plan(&self) -> Plan;

    /// Puts `way` into the box, measures, and takes it out.
    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError>;
}

/// A metric.
pub(crate) fn metric(name: &str, title: &str, digits: u8) -> Metric {
    Metric { name: name.to_owned(), title: title.to_owned(), digits }
}

/// Time and processor time at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    at: Instant,
    box_cpu_s: Option<f64>,
    machine: Ticks,
}

/// Resources and bytes between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub seconds: f64,
    /// Processor time of the program in the box, if there is one.
    pub box_cpu_s: Option<f64>,
    /// Processor time of everything.
    pub machine_cpu_s: f64,
}

impl Meter {
    /// Reads all clocks; `boxed` is the program in the box.
    pub fn read(boxed: Option<&BoxProgram>) -> Self {
        let box_cpu_s = boxed.and_then(|boxed| cpu_seconds(boxed.pid()));
        Self { at: io::Clock::now(), box_cpu_s, machine: Ticks::now() }
    }

    /// Resources and bytes since `begin`.
    pub fn since(self, begin: Self) -> Spent {
        Spent {
            seconds: self.at.saturating_since(begin.at).as_secs_f64(),
            box_cpu_s: self.box_cpu_s.zip(begin.box_cpu_s).map(|(end, begin)| end - begin),
            machine_cpu_s: self.machine.busy_seconds_since(begin.machine),
        }
    }
}
