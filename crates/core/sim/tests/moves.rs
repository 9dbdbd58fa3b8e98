//! An engine whose state moves to another one as bytes: from there on all is as if it had not.
//!
//! `CELLERATOR_SIM_MOVES=n` sets how many line-ups run that move at a step of chance.
//! `CELLERATOR_WRITE_IMAGES=1` writes the states that the next version has to read.

// Helpers of a test are test code too, which the lint cannot know.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use control::ControllerKind;
use engine::{Engine, IMAGE_VERSION, IMAGE_VERSION_OLDEST, ImageError};
use sim::{LogMode, Moves, Network, Random, RandomOutcome, RandomRun, Restarting};
use units::Bytes;

/// The line-ups move at every step.
const MOVED_ALL_THE_TIME: u64 = 200;
/// Those that move once, unless told otherwise.
const MOVED_ONCE: u64 = 2_000;

/// The line-up of `seed`, every second one under another controller than it draws: all of them in turn. In every third
/// one queues mark what hosts send that agree on accurate ECN.
fn line_up(seed: u64) -> RandomRun {
    let run = RandomRun::draw(seed, LogMode::Hash);
    let mut run = if seed.is_multiple_of(3) { run.with_marks() } else { run };
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

/// Line-ups of which a state is kept for the versions to come: several flows with debt in both directions,
/// lowered windows, `adaptive`, `bbr`.
const KEPT: [u64; 4] = [41, 55, 191, 217];

fn images() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images")
}

/// The state in the middle of a line-up.
fn image(run: &RandomRun) -> Vec<u8> {
    let steps = run.run().unwrap().steps;
    let middlebox = Restarting::new(&run.engine, Vec::new()).unwrap().moving(Moves::AtStep(steps / 2));
    let mut network = Network::new(&run.network, middlebox).unwrap();
    network.run().unwrap();
    network.middlebox().image().to_vec()
}

/// What of a state can be told from outside.
fn summary(engine: &Engine) -> String {
    let mut text = String::new();
    for flow in engine.flow_reports(0) {
        let (client, server, direction) = (flow.client, flow.server, flow.direction.name());
        let numbers = [flow.debt, flow.held, flow.in_flight].map(Bytes::get);
        let (state, last) = (flow.state.name(), flow.last_activity);
        writeln!(text, "{client} {server} {direction} {state} {numbers:?} {last}").unwrap();
    }
    // A counter that comes later is zero in what was stored before.
    for (half, stats) in [("down", Some(engine.stats())), ("up", engine.uplink_stats())] {
        let named = stats.into_iter().flat_map(|stats| stats.named()).filter(|(_, value)| *value > 0);
        named.for_each(|(name, value)| writeln!(text, "{half} {name} {value}").unwrap());
    }
    text
}

/// States of this version and of the one before, as they were written when that version was new.
#[test]
fn states_of_older_versions_are_taken_over() {
    if std::env::var_os("CELLERATOR_WRITE_IMAGES").is_some() {
        for seed in KEPT {
            let run = line_up(seed);
            let bytes = image(&run);
            let mut engine = Engine::new(run.engine).unwrap();
            engine.resume(&bytes).unwrap();
            let file = images().join(format!("version-{IMAGE_VERSION}-seed-{seed}"));
            std::fs::write(file.with_extension("bin"), bytes).unwrap();
            std::fs::write(file.with_extension("txt"), summary(&engine)).unwrap();
        }
    }
    for version in IMAGE_VERSION_OLDEST..=IMAGE_VERSION {
        for seed in KEPT {
            let file = images().join(format!("version-{version}-seed-{seed}"));
            let bytes = std::fs::read(file.with_extension("bin")).unwrap();
            let mut engine = Engine::new(line_up(seed).engine).unwrap();
            engine.resume(&bytes).unwrap();
            let expected = std::fs::read_to_string(file.with_extension("txt")).unwrap();
            assert_eq!(summary(&engine), expected, "version {version}, seed {seed}");
            let mut next = Engine::new(engine.config().clone()).unwrap();
            next.resume(&engine.store()).unwrap();
            assert_eq!(
                summary(&next),
                expected,
                "version {version}, seed {seed}, as version {IMAGE_VERSION}"
            );
        }
    }
}

#[test]
fn what_is_no_state_of_this_program_is_refused() {
    let run = line_up(KEPT[0]);
    let bytes = image(&run);
    let refused = |bytes: &[u8]| Engine::new(run.engine.clone()).unwrap().resume(bytes).unwrap_err();
    assert_eq!(refused(b"something else"), ImageError::Foreign);
    let mut newer = bytes.clone();
    newer[8..10].copy_from_slice(&(IMAGE_VERSION + 1).to_le_bytes());
    assert_eq!(refused(&newer), ImageError::Version { found: IMAGE_VERSION + 1 });
    for cut in [8, 9, 10, 20, bytes.len() / 2, bytes.len() - 1] {
        assert!(matches!(refused(&bytes[..cut]), ImageError::Damaged(_)), "cut to {cut}");
    }
    let mut engine = Engine::new(run.engine.clone()).unwrap();
    engine.resume(&bytes).unwrap();
    assert_eq!(engine.resume(&bytes), Err(ImageError::NotEmpty));
}

/// Whatever stands in the bytes: an error or an engine, and no panic.
#[test]
fn damaged_states_are_no_panic() {
    let run = line_up(KEPT[1]);
    let bytes = image(&run);
    let random = &mut Random::new(7);
    for _ in 0..3_000 {
        let mut damaged = bytes.clone();
        for _ in 0..random.within(1, 4) {
            let at = 10 + random.below(damaged.len() as u64 - 10) as usize;
            damaged[at] = random.below(256) as u8;
        }
        let mut engine = Engine::new(run.engine.clone()).unwrap();
        if engine.resume(&damaged).is_ok() {
            drop(engine.store());
        }
    }
}
