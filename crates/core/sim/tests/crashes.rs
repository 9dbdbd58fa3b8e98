//! An engine that dies at any step, and another one that goes on with what was written down: no acknowledged
//! byte is lost, and every rule holds as if nothing had happened but the loss of a packet.
//!
//! `CELLERATOR_SIM_CRASHES=n` sets how many line-ups crash at a step of chance.

// Helpers of a test are test code too, which the lint cannot know.

use std::sync::atomic::{AtomicU64, Ordering};

use sim::{Crash, LogMode, Random, RandomRun};
use units::Duration;

/// Line-ups that crash once, unless told otherwise.
const CRASHED_ONCE: u64 = 2_000;
/// Line-ups that crash again and again.
const CRASHED_OFTEN: u64 = 300;
/// Line-ups that crash at every step, once each; short ones.
const CRASHED_EVERYWHERE: u64 = 12;
const STEPS_MAX: u64 = 600;

/// Runs `check` for each number, on all processors.
fn for_all(numbers: std::ops::Range<u64>, check: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(numbers.start);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    check(number);
                }
            });
        }
    });
}

/// The line-up of `seed` and its steps, unless packets go past its engine anyway. In every third one queues mark what
/// hosts send that agree on accurate ECN.
fn line_up(seed: u64) -> Option<(RandomRun, u64)> {
    let run = RandomRun::draw(seed, LogMode::Hash);
    let run = if seed.is_multiple_of(3) { run.with_marks() } else { run };
    let steps = run.restarts.is_empty().then(|| run.run().unwrap().steps)?;
    Some((run, steps))
}

/// Flows that went on, over all line-ups with `crashes`.
fn recovered(run: &RandomRun, crashes: Vec<Crash>) -> u64 {
    let mut crashing = run.clone();
    crashing.crashes = crashes;
    let outcome =
        crashing.run().unwrap_or_else(|failure| panic!("{failure}, crashed {:?}", crashing.crashes));
    assert_eq!(outcome.recovered[1], 0, "seed {}: flows that could not go on", run.seed);
    outcome.recovered[0]
}

fn crash(random: &mut Random, step: u64) -> Crash {
    let absent = if random.one_in(2) { 0 } else { random.below(500) };
    Crash { step, records: random.below(4), absent: Duration::from_millis(absent) }
}

#[test]
fn h02_a_crash_at_any_step_loses_no_acknowledged_byte() {
    let runs = std::env::var("CELLERATOR_SIM_CRASHES").ok().and_then(|text| text.parse().ok());
    let runs = runs.unwrap_or(CRASHED_ONCE);
    let flows = AtomicU64::new(0);
    for_all(1..1 + runs, |seed| {
        let Some((run, steps)) = line_up(seed) else { return };
        let random = &mut Random::new(seed);
        let step = random.below(steps.max(1));
        flows.fetch_add(recovered(&run, vec![crash(random, step)]), Ordering::Relaxed);
    });
    let flows = flows.into_inner();
    assert!(flows > runs / 2, "only {flows} flows went on after {runs} crashes");
}

#[test]
fn h02_crashes_again_and_again_lose_no_acknowledged_byte() {
    for_all(1..1 + CRASHED_OFTEN, |seed| {
        let Some((run, steps)) = line_up(seed) else { return };
        let random = &mut Random::new(seed ^ 0xdead);
        // Each one loses a packet: so few that hosts do not give up.
        let every = random.within(30, 300);
        // Each one adds steps; those beyond the end never come.
        let number = (4 * steps / every).min(200);
        let mut crashes = Vec::new();
        for n in 0..number {
            let step = n * every + random.below(every);
            crashes.push(crash(random, step));
        }
        recovered(&run, crashes);
    });
}

#[test]
fn h02_a_crash_at_every_step_loses_no_acknowledged_byte() {
    let short = (1..).filter_map(line_up).filter(|(_, steps)| *steps <= STEPS_MAX);
    for (run, steps) in short.take(CRASHED_EVERYWHERE as usize) {
        for_all(0..2 * steps, |n| {
            let absent = Duration::from_millis(n % 3 * 100);
            recovered(&run, vec![Crash { step: n / 2, records: n % 2 * 4, absent }]);
        });
    }
}
