//! `cellerator sim soak`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;
use io::{Clock, Signals, Waiter};
use sim::{LogMode, RandomFailure, RandomRun};
use units::{Duration, Instant};

use super::{in_words, threads};
use crate::interruption;
use crate::progress::Line;

/// Failures after which going on makes no sense.
const FAILURES_MAX: usize = 100;
/// Interval at which progress is shown.
const TURN: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub struct Args {
    /// Number of seeds [default: 10000, or until --minutes are over]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Run for this many minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Beside the hosts of each run: a host that forges their packets, and one that sends them again
    #[arg(long)]
    strangers: bool,
    /// The hosts of each run agree on accurate ECN, and queues on the way to the accelerator mark
    #[arg(long)]
    marks: bool,
    /// Runs at the same time [default: the number of processors]
    #[arg(long)]
    threads: Option<usize>,
    /// Run only this seed, and print its packets
    #[arg(long, conflicts_with_all = ["seeds", "minutes", "first"])]
    seed: Option<u64>,
}

/// State that the threads share.
struct Soak {
    next: AtomicU64,
    end: u64,
    variant: Variant,
    is_over: AtomicBool,
    runs: AtomicU64,
    packets: AtomicU64,
    simulated_ms: AtomicU64,
    failures: Mutex<Vec<RandomFailure>>,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    if let Some(seed) = args.seed {
        return Ok(replay(seed, Variant::of(args)));
    }
    let signals = Signals::terminating()?;
    let seeds = args.seeds.unwrap_or(if args.minutes.is_some() { u64::MAX } else { 10_000 });
    let soak = Soak {
        next: AtomicU64::new(args.first),
        end: args.first.saturating_add(seeds),
        variant: Variant::of(args),
        is_over: AtomicBool::new(false),
        runs: AtomicU64::new(0),
        packets: AtomicU64::new(0),
        simulated_ms: AtomicU64::new(0),
        failures: Mutex::new(Vec::new()),
    };
    let began = Clock::now();
    let deadline = args.minutes.map(|minutes| began + Duration::from_secs(60) * minutes);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads(args.threads)).map(|_| scope.spawn(|| soak.work())).collect();
        let waited = soak.watch(began, deadline, &signals, || workers.iter().all(|w| w.is_finished()));
        soak.is_over.store(true, Ordering::Relaxed);
        waited
    })?;
    let code = soak.summarise(args.first, Clock::now().saturating_since(began));
    let Some(signal) = signals.taken() else { return Ok(code) };
    let of = args.seeds.or(args.minutes.is_none().then_some(seeds));
    let of = of.map_or_else(String::new, |of| format!(" of {of}"));
    let runs = soak.runs.load(Ordering::Relaxed);
    interruption::tell(&format!("sim soak: interrupted after {runs}{of} runs"), []);
    Ok(interruption::code(Some(signal)))
}

/// Settings that are added to each run.
#[derive(Clone, Copy)]
struct Variant {
    strangers: bool,
    marks: bool,
}

impl Variant {
    fn of(args: &Args) -> Self {
        Self { strangers: args.strangers, marks: args.marks }
    }

    fn draw(self, seed: u64, log: LogMode) -> RandomRun {
        let run = RandomRun::draw(seed, log);
        let run = if self.marks { run.with_marks() } else { run };
        if self.strangers { run.with_strangers() } else { run }
    }

    /// Its arguments.
    const fn arguments(self) -> &'static str {
        match (self.strangers, self.marks) {
            (false, false) => "",
            (true, false) => " --strangers",
            (false, true) => " --marks",
            (true, true) => " --strangers --marks",
        }
    }
}

/// One run with every packet, the same as in the soak.
fn replay(seed: u64, variant: Variant) -> ExitCode {
    let run = variant.draw(seed, LogMode::Text);
    match run.run() {
        Ok(outcome) => {
            print!("{}", outcome.text);
            let rare = run.rare;
            println!(
                "seed {seed} ({rare}): good, {} packets, log {:016x}",
                outcome.packets, outcome.log_hash
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            print!("{}", failure.text);
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

impl Soak {
    fn work(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                return;
            }
            let outcome = self.variant.draw(seed, LogMode::Hash).run();
            self.runs.fetch_add(1, Ordering::Relaxed);
            match outcome {
                Ok(outcome) => {
                    self.packets.fetch_add(outcome.packets, Ordering::Relaxed);
                    self.simulated_ms.fetch_add(outcome.simulated.as_millis(), Ordering::Relaxed);
                }
                Err(failure) => {
                    println!("{failure}");
                    let Ok(mut failures) = self.failures.lock() else { return };
                    failures.push(failure);
                    if failures.len() >= FAILURES_MAX {
                        self.is_over.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    /// Shows progress until the work, the time or the user's patience is over.
    fn watch(
        &self,
        began: Instant,
        deadline: Option<Instant>,
        signals: &Signals,
        is_done: impl Fn() -> bool,
    ) -> Result<()> {
        eprintln!("  Ctrl-C ends it and tells what was found");
        let line = Line::of_words();
        let mut waiter = Waiter::new(Duration::ZERO)?;
        while !is_done() && signals.take().is_none() && deadline.is_none_or(|at| Clock::now() < at) {
            waiter.wait(Some(Clock::now() + TURN))?;
            line.say(self.progress(Clock::now().saturating_since(began)));
        }
        Ok(())
    }

    fn progress(&self, took: Duration) -> String {
        let runs = self.runs.load(Ordering::Relaxed);
        let failures = self.failures.lock().map_or(0, |failures| failures.len());
        let rate = runs as f64 / took.as_secs_f64().max(0.001);
        format!("{runs} runs, {failures} failed, {rate:.0} a second, {}", in_words(took))
    }

    fn summarise(&self, first: u64, took: Duration) -> ExitCode {
        let simulated = Duration::from_millis(self.simulated_ms.load(Ordering::Relaxed));
        println!(
            "from seed {first}: {}; {} packets, {} simulated",
            self.progress(took),
            self.packets.load(Ordering::Relaxed),
            in_words(simulated)
        );
        let Ok(mut failures) = self.failures.lock() else { return ExitCode::FAILURE };
        failures.sort_by_key(|failure| failure.seed);
        for failure in failures.iter() {
            println!("again: cellerator sim soak --seed {}{}", failure.seed, self.variant.arguments());
        }
        if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
