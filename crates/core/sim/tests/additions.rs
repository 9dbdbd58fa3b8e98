//! Random line-ups with something added. Strangers beside the hosts: a blind one that knows addresses and ports, and
//! one on the path that sends again what has passed; no flow may notice. Marks: the hosts agree on accurate ECN, and
//! queues mark what they send; no CE mark is lost or invented.
//!
//! `CELLERATOR_SIM_SEEDS=n` sets how many seeds run, from `CELLERATOR_SIM_FIRST` on; `CELLERATOR_SIM_SEED=n`
//! runs one and prints its packets. `cellerator sim soak --strangers` and `--marks` run as many as they are told.

// Helpers of a test are test code too, which the lint cannot know.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sim::{LogMode, RandomFailure, RandomRun};

const SEEDS: u64 = 1_500;

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

type Addition = fn(RandomRun) -> RandomRun;

fn run(seed: u64, log: LogMode, adds: Addition) -> Result<String, RandomFailure> {
    adds(RandomRun::draw(seed, log)).run().map(|outcome| outcome.text)
}

fn run_all(seeds: std::ops::Range<u64>, adds: Addition) -> Vec<RandomFailure> {
    let (next, failures) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    failures.lock().unwrap().extend(run(seed, LogMode::Hash, adds).err());
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort_by_key(|failure| failure.seed);
    failures
}

#[test]
fn no_flow_notices_strangers() {
    run_seeds(RandomRun::with_strangers);
}

/// RFC 9768 §3.2.2: what was told of marks is what arrived.
#[test]
fn no_mark_is_lost_or_invented() {
    run_seeds(RandomRun::with_marks);
}

fn run_seeds(adds: Addition) {
    if let Some(seed) = env("CELLERATOR_SIM_SEED") {
        match run(seed, LogMode::Text, adds) {
            Ok(text) => println!("{text}"),
            Err(failure) => panic!("{}\n{failure}", failure.text),
        }
        return;
    }
    let first = env("CELLERATOR_SIM_FIRST").unwrap_or(1);
    let failures = run_all(first..first + env("CELLERATOR_SIM_SEEDS").unwrap_or(SEEDS), adds);
    let list: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(
        list.is_empty(),
        "{} runs failed; replay one with CELLERATOR_SIM_SEED=n\n{}",
        list.len(),
        list.join("\n")
    );
}

/// What they send goes into the run: a run without them is another one.
#[test]
fn strangers_are_there_and_the_same_each_time() {
    let run_one = |seed| run(seed, LogMode::Text, RandomRun::with_strangers).unwrap();
    let with: Vec<String> = (1..=24).map(run_one).collect();
    let again: Vec<String> = (1..=24).map(run_one).collect();
    assert!(with == again);
    let forged: usize = with.iter().map(|text| text.matches("of a stranger").count()).sum();
    assert!(forged > 24, "{forged}");
}
