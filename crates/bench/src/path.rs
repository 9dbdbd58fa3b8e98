//! [`PathBenchmark`]: bulk throughput through the box, each way in turn.

use std::fs;
use std::path::{Path, PathBuf};

use io::{Clock, Instance, Interest, Signals, Waiter};
use units::{Duration, Instant};

use crate::boxed::BoxProgram;
use crate::figures::{PathResults, Run};
use crate::load::Load;
use crate::machine::{Ticks, cpu_seconds};
use crate::topology::Network;
use crate::{BenchError, Machine, Way, instance};

/// Flows side by side, one case each.
const FLOWS: [usize; 2] = [1, 4];

/// What is sent before counting begins: slow start is over, buffers have grown.
const WARM_UP: Duration = Duration::from_millis(700);

/// How long the machine is watched before each round, to say when it is not quiet.
const WATCH: Duration = Duration::from_millis(300);

/// What to measure.
#[derive(Clone, Debug)]
pub struct PathBenchmark {
    /// How long each flow count of each way is measured in each round, after the warm-up.
    pub time: Duration,
    /// Rounds: every way is measured once in each.
    pub rounds: u32,
    /// The `cellerator` program to put into the box.
    pub program: PathBuf,
    /// Version of that program.
    pub version: String,
    /// The command line that made the results.
    pub command: String,
}

/// What is going on.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A round begins: its number from 1, of how many.
    Round(u32, u32),
    /// A way is put into the box.
    Way(Way),
    /// Something was measured.
    Run(&'a Run),
}

/// Waits that end at once when the user asks to stop.
#[derive(Debug)]
pub(crate) struct Pause<'a> {
    waiter: Waiter,
    signals: &'a Signals,
}

impl<'a> Pause<'a> {
    pub fn new(signals: &'a Signals) -> Result<Self, BenchError> {
        let waiter = Waiter::new(Duration::ZERO)?;
        waiter.add(signals, Interest::Read, 0)?;
        Ok(Self { waiter, signals })
    }

    /// Waits for `time`.
    pub fn wait(&mut self, time: Duration) -> Result<(), BenchError> {
        self.waiter.wait(Some(Clock::now() + time))?;
        if self.signals.take().is_some() { Err(BenchError::Interrupted) } else { Ok(()) }
    }
}

/// What every run needs.
struct Bench<'a> {
    benchmark: &'a PathBenchmark,
    network: Network,
    directory: &'a Path,
    pause: Pause<'a>,
    /// Of the sender, as seen last.
    congestion_control: String,
}

impl PathBenchmark {
    /// Makes the network, measures every way in every round, and removes the network.
    ///
    /// `signals` must catch what is to end it early; everything is removed then too.
    ///
    /// # Errors
    /// Without root, when the program in the box fails, or when the user interrupts.
    pub fn run(
        &self,
        signals: &Signals,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<PathResults, BenchError> {
        io::features::require(io::features::Feature::Namespaces)?;
        io::features::require(io::features::Feature::Tun)?;
        let instance: Instance = instance::register(&Network::names())?;
        let mut bench = Bench {
            benchmark: self,
            network: Network::create()?,
            directory: instance.path(),
            pause: Pause::new(signals)?,
            congestion_control: String::new(),
        };
        let mut runs = Vec::new();
        let mut busy_before = Vec::new();
        for round in 1..=self.rounds {
            progress(Progress::Round(round, self.rounds));
            busy_before.push(bench.busy_share()?);
            let mut ways = Way::ALL;
            // Another way is first in each round, so that none always follows the same one.
            ways.rotate_left((round as usize - 1) % Way::ALL.len());
            for way in ways {
                progress(Progress::Way(way));
                for run in bench.measure(way, round)? {
                    progress(Progress::Run(&run));
                    runs.push(run);
                }
            }
        }
        Ok(PathResults::new(self, Machine::here(), bench.congestion_control, busy_before, runs))
    }
}

impl Bench<'_> {
    /// How busy the machine is while nothing of ours runs.
    fn busy_share(&mut self) -> Result<f64, BenchError> {
        let before = Ticks::now();
        self.pause.wait(WATCH)?;
        Ok(Ticks::now().busy_share_since(before))
    }

    fn measure(&mut self, way: Way, round: u32) -> Result<Vec<Run>, BenchError> {
        let program = &self.benchmark.program;
        let mut boxed = BoxProgram::start(way, program, &self.network, self.directory, &mut self.pause)?;
        let mut runs = Vec::new();
        for flows in FLOWS {
            runs.push(self.transfer(way, round, flows, boxed.as_ref().map(BoxProgram::pid))?);
            if let Some(boxed) = &mut boxed {
                boxed.check()?;
            }
        }
        if let Some(boxed) = boxed {
            boxed.stop(FLOWS.iter().sum::<usize>() as u64, &mut self.pause)?;
        }
        Ok(runs)
    }

    fn transfer(&mut self, way: Way, round: u32, flows: usize, pid: Option<u32>) -> Result<Run, BenchError> {
        let load = Load::start(&self.network, flows, &mut self.pause)?;
        load.congestion_control().clone_into(&mut self.congestion_control);
        self.pause.wait(WARM_UP)?;
        let begin = self.read(&load, pid)?;
        self.pause.wait(self.benchmark.time)?;
        let end = self.read(&load, pid)?;
        drop(load);
        if end.received == begin.received {
            return Err(BenchError::NoBytes(way.name().to_owned()));
        }
        Ok(Run::between(way, flows, round, &begin, &end))
    }

    fn read(&self, load: &Load, pid: Option<u32>) -> Result<Reading, BenchError> {
        Ok(Reading {
            at: Clock::now(),
            received: load.received(),
            box_cpu_s: pid.and_then(cpu_seconds),
            machine: Ticks::now(),
            retransmitted: self.network.server.run(retransmitted_here)?,
        })
    }
}

/// All counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub at: Instant,
    pub received: u64,
    pub box_cpu_s: Option<f64>,
    pub machine: Ticks,
    pub retransmitted: u64,
}

/// Segments that hosts of this thread's namespace have sent more than once.
fn retransmitted_here() -> u64 {
    retransmitted(&fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default()).unwrap_or(0)
}

/// `RetransSegs` of the two `Tcp:` lines, names and values.
fn retransmitted(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let column = lines.next()?.split_ascii_whitespace().position(|name| name == "RetransSegs")?;
    lines.next()?.split_ascii_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retransmissions_are_found_by_name() {
        let snmp = "Ip: A B\nIp: 1 2\nTcp: InSegs OutSegs RetransSegs InErrs\nTcp: 5 6 7 8\n";
        assert_eq!(retransmitted(snmp), Some(7));
        assert_eq!(retransmitted("Tcp: InSegs\nTcp: 1\n"), None);
    }

    /// The whole of it, short; asserts what must hold on any machine.
    #[test]
    fn the_kernels_way_is_measured_and_nothing_is_left() {
        let signals = Signals::catch(&[libc::SIGUSR2]).unwrap();
        let directory = std::env::temp_dir();
        let benchmark = PathBenchmark {
            time: Duration::from_millis(200),
            rounds: 1,
            program: PathBuf::from("/bin/false"),
            version: String::new(),
            command: String::new(),
        };
        let network = Network::create().unwrap_or_else(|e| panic!("this test needs root: {e}"));
        let pause = Pause::new(&signals).unwrap();
        let mut bench = Bench {
            benchmark: &benchmark,
            network,
            directory: &directory,
            pause,
            congestion_control: String::new(),
        };
        let runs = bench.measure(Way::Kernel, 1).unwrap();
        assert_eq!(runs.iter().map(|run| run.flows).collect::<Vec<_>>(), FLOWS);
        assert!(runs.iter().all(|run| run.goodput_gbps > 0.0 && run.box_cpu_s_per_gb.is_none()));
        let failed = bench.measure(Way::Pass, 1).unwrap_err().to_string();
        assert!(failed.starts_with("pass: it ended by itself, exit status: 1"), "{failed}");
        drop(bench);
        let names = Network::names();
        assert!(!io::Namespace::list().unwrap().iter().any(|name| names.contains(name)));
    }
}
