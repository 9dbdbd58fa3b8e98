//! An engine whose state moves to another one as bytes: from there on all is as if it had not.
//!
//! `CELLERATOR_SIM_MOVES=n` sets how many line-ups run that move at a step of chance.

// Helpers of a test are test code too, which the lint cannot know.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicU64, Ordering};

use control::ControllerKind;
use sim::{LogMode, Moves, Random, RandomOutcome, RandomRun};

/// The line-ups move at every step.
const MOVED_ALL_THE_TIME: u64 = 200;
/// Those that move once, unless told otherwise.
const MOVED_ONCE: u64 = 2_000;

/// The line-up of `seed`, every second one under another controller than it draws: all of them in turn.
fn line_up(seed: u64) -> RandomRun {
    let mut run = RandomRun::draw(seed, LogMode::Hash);
    if seed % 2 == 1 {
        let kinds = ControllerKind::ALL;
        run.engine.controller = kinds[(seed / 2) as usize % kinds.len()].config();
    }
    run
}

/// The same, whose state moves.
fn moving(stays: &RandomRun, moves: Moves) -> RandomRun {
    let mut run = stays.clone();
    run.moves = moves;
    run
}

/// What is told apart: packets, their times, counters, and how the run ended. A line-up that breaks a rule
/// under a controller that it was not drawn for breaks it at the same packet.
fn outcome(run: &RandomRun) -> Result<RandomOutcome, String> {
    run.run().map_err(|failure| failure.to_string())
}

/// Runs `check` for each seed, on all processors.
fn for_all(seeds: std::ops::Range<u64>, check: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    check(seed);
                }
            });
        }
    });
}

#[test]
fn a_state_that_moves_at_every_step_changes_nothing() {
    for_all(1..MOVED_ALL_THE_TIME + 1, |seed| {
        let stays = line_up(seed);
        let moves = moving(&stays, Moves::AtEveryStep);
        assert_eq!(outcome(&moves), outcome(&stays), "seed {seed} ({})", stays.rare);
    });
}

#[test]
fn a_state_that_moves_once_changes_nothing() {
    let runs = std::env::var("CELLERATOR_SIM_MOVES").ok().and_then(|text| text.parse().ok());
    let first = MOVED_ALL_THE_TIME + 1;
    for_all(first..first + runs.unwrap_or(MOVED_ONCE), |seed| {
        let stays = line_up(seed);
        let Ok(expected) = outcome(&stays) else { return };
        let step = Random::new(seed).below(expected.steps.max(1));
        let moves = moving(&stays, Moves::AtStep(step));
        assert_eq!(outcome(&moves), Ok(expected), "seed {seed}, step {step}");
    });
}
