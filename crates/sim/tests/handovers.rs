//! Clients that move between two boxes and take their flows along, over a wire that loses, delays, doubles and
//! reorders, with deaths of either box: never two owners, and no acknowledged byte is lost silently.
//!
//! `CELLERATOR_SIM_HANDOVERS=n` sets how many line-ups run.

// Helpers of a test are test code too, which the lint cannot know.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use handover::Outcome;
use sim::{
    Between, Death, LogMode, Move, Network, Random, RandomRun, SimError, Tolerance, TwoBoxes, Violation,
};
use units::{Bytes, Duration, Instant};

/// Line-ups, unless told otherwise.
const RUNS: u64 = 400;
/// Line-ups in which a box dies at every step, once each; short ones.
const DIES_EVERYWHERE: u64 = 12;
const STEPS_MAX: u64 = 400;

fn runs() -> u64 {
    std::env::var("CELLERATOR_SIM_HANDOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS)
}

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

/// The line-up of `seed` and how long it takes, unless its engine's process has a fate of its own, or nothing moves.
fn line_up(seed: u64) -> Option<(RandomRun, Duration)> {
    let run = RandomRun::draw(seed, LogMode::Hash);
    // Flows whose windows are lowered stay behind: their hosts hear windows of their own where they come to.
    let is_apt = run.restarts.is_empty() && !run.network.checks.lowers_windows_only;
    let takes = is_apt.then(|| run.run().unwrap().simulated)?;
    Some((run, takes))
}

fn wire(random: &mut Random) -> Between {
    let is_bad = random.one_in(2);
    Between {
        delay: Duration::from_millis(random.below(60)),
        jitter: Duration::from_millis(random.below(30)),
        loss_ppm: if is_bad { random.below(200_000) as u32 } else { 0 },
        twice_ppm: if is_bad { random.below(200_000) as u32 } else { 0 },
        cut: None,
    }
}

/// Each client goes to and fro a few times.
fn moves(run: &RandomRun, takes: Duration, random: &mut Random) -> Vec<Move> {
    let clients: BTreeSet<IpAddr> = run.network.flows.iter().map(|flow| flow.client.local.ip()).collect();
    let mut all = Vec::new();
    for client in clients {
        let count = random.within(1, 6);
        let mut times: Vec<u64> = (0..count).map(|_| random.below(takes.as_millis() + 1)).collect();
        times.sort_unstable();
        for (n, at) in times.into_iter().enumerate() {
            let at = run.network.starts_at + Duration::from_millis(at);
            let routed_at = at + Duration::from_millis(random.below(300));
            all.push(Move { at, routed_at, client, to: (n + 1) % 2 });
        }
    }
    all
}

/// How many hand-overs ended how: gone, stayed, broken.
type Tally = [AtomicU64; 3];

fn run(run: &RandomRun, boxes: TwoBoxes, tolerance: Tolerance, tally: &Tally, what: &str) -> TwoBoxesEnd {
    let seed = run.seed;
    let mut config = run.network.clone();
    config.checks.tolerance = config.checks.tolerance.max(tolerance);
    // Where boxes do not hear each other, packets pass the one that they are not routed to.
    config.checks.is_passed_by |= tolerance > Tolerance::Nothing;
    let mut network = Network::new(&config, boxes).unwrap();
    match network.run() {
        Ok(_) => {}
        // A box that has died knows no more who has what. Packets that are routed to it go past the one that does,
        // which goes on with numbers that its hosts have left behind: as after a hang, hosts see to that.
        Err(SimError::Broken { violation: Violation::Packet { .. } | Violation::Silent { .. }, .. })
            if tolerance > Tolerance::Nothing => {}
        Err(error) => panic!("seed {seed} ({}), {what}: {error}", run.rare),
    }
    let boxes = network.middlebox();
    assert_eq!(boxes.twice(), None, "seed {seed}: a flow with two owners, {what}");
    for ended in boxes.ended().iter().filter(|ended| ended.is_going) {
        let at = match ended.outcome {
            Outcome::Gone | Outcome::Come => 0,
            Outcome::Stayed(_) | Outcome::Unanswered => 1,
            Outcome::Broken => 2,
        };
        tally[at].fetch_add(1, Ordering::Relaxed);
    }
    if config.checks.tolerance < Tolerance::Tampering {
        for (flow, client) in network.clients().iter().enumerate() {
            assert_eq!(client.first_wrong_offset(), None, "seed {seed}, flow {flow}, {what}");
        }
    }
    TwoBoxesEnd { steps: boxes.steps() }
}

struct TwoBoxesEnd {
    steps: u64,
}

fn protocol() -> handover::Config {
    handover::Config { retry: Duration::from_millis(200), ..handover::Config::default() }
}

#[test]
fn flows_move_with_their_clients_and_nothing_is_lost() {
    let tally = Tally::default();
    for_all(1..1 + runs(), |seed| {
        let Some((line_up, takes)) = line_up(seed) else { return };
        let random = &mut Random::new(seed ^ 0x0e7);
        let (between, moves) = (wire(random), moves(&line_up, takes, random));
        let boxes = TwoBoxes::new(&line_up.engine, protocol(), between, &moves, Vec::new(), seed).unwrap();
        run(&line_up, boxes, Tolerance::Nothing, &tally, &format!("{between:?}"));
    });
    let [gone, stayed, broken] = tally.map(AtomicU64::into_inner);
    println!("{gone} hand-overs, {stayed} stayed, {broken} broken");
    assert!(gone > runs() / 2 && broken == 0, "{gone} gone, {stayed} stayed, {broken} broken");
}

#[test]
fn a_box_dies_at_any_step_and_nobody_has_a_flow_twice() {
    let tally = Tally::default();
    for_all(1..1 + runs() / 4, |seed| {
        let Some((line_up, takes)) = line_up(seed) else { return };
        let random = &mut Random::new(seed ^ 0xdead);
        let (between, moves) = (wire(random), moves(&line_up, takes, random));
        let boxes =
            |deaths| TwoBoxes::new(&line_up.engine, protocol(), between, &moves, deaths, seed).unwrap();
        let steps = run(&line_up, boxes(Vec::new()), Tolerance::Nothing, &tally, "nobody dies").steps;
        for _ in 0..4 {
            let death = Death { step: random.below(steps + 1), which: random.below(2) as usize };
            run(&line_up, boxes(vec![death]), Tolerance::Failures, &tally, &format!("{death:?}"));
        }
    });
}

/// Either box dies once at every step of a few line-ups.
#[test]
fn a_box_dies_at_every_step_and_nobody_has_a_flow_twice() {
    let tally = Tally::default();
    let (mut seed, mut line_ups) = (0, 0);
    while line_ups < DIES_EVERYWHERE {
        seed += 1;
        let Some((line_up, takes)) = line_up(seed) else { continue };
        let random = &mut Random::new(seed ^ 0xdead);
        let (between, moves) = (wire(random), moves(&line_up, takes, random));
        let boxes =
            |deaths| TwoBoxes::new(&line_up.engine, protocol(), between, &moves, deaths, seed).unwrap();
        let steps = run(&line_up, boxes(Vec::new()), Tolerance::Nothing, &tally, "nobody dies").steps;
        if !(10..STEPS_MAX).contains(&steps) {
            continue;
        }
        line_ups += 1;
        for_all(0..2 * steps, |n| {
            let death = Death { step: n / 2, which: (n % 2) as usize };
            run(&line_up, boxes(vec![death]), Tolerance::Failures, &tally, &format!("{death:?}"));
        });
    }
}

/// Nothing comes through between the boxes from some moment on, for longer than the lease: who may have it gives it
/// up before the other one does.
#[test]
fn a_wire_that_is_cut_leaves_no_flow_with_two_owners_and_none_without_a_word() {
    let tally = Tally::default();
    for_all(1..1 + runs() / 4, |seed| {
        let Some((line_up, takes)) = line_up(seed) else { return };
        let random = &mut Random::new(seed ^ 0xcc7);
        let moves = moves(&line_up, takes, random);
        let Some(first) = moves.first().map(|one| one.at) else { return };
        let delay = Duration::from_millis(20);
        let cut_at = first + Duration::from_millis(random.below(200));
        let lasts = Duration::from_secs(random.below(20));
        let between = Between { delay, cut: Some((cut_at, cut_at + lasts)), ..Between::default() };
        let lease = Duration::from_secs(8);
        let protocol = handover::Config { lease, ..protocol() };
        let boxes = TwoBoxes::new(&line_up.engine, protocol, between, &moves, Vec::new(), seed).unwrap();
        run(&line_up, boxes, Tolerance::Failures, &tally, &format!("{between:?}"));
    });
    let [gone, stayed, broken] = tally.map(AtomicU64::into_inner);
    println!("{gone} hand-overs, {stayed} stayed, {broken} broken");
    assert!(gone > 0 && broken > 0, "{gone} gone, {stayed} stayed, {broken} broken");
}

/// What nobody is owed any more is in no engine.
#[test]
fn nothing_is_owed_at_the_end() {
    for_all(1..1 + runs() / 8, |seed| {
        let Some((line_up, takes)) = line_up(seed) else { return };
        if line_up.network.checks.tolerance != Tolerance::Nothing {
            return;
        }
        let random = &mut Random::new(seed);
        let moves = moves(&line_up, takes, random);
        let boxes =
            TwoBoxes::new(&line_up.engine, protocol(), Between::default(), &moves, Vec::new(), seed).unwrap();
        let mut network = Network::new(&line_up.network, boxes).unwrap();
        network.run().unwrap();
        assert_eq!(network.middlebox().debt(), Bytes::ZERO, "seed {seed}");
        assert!(network.now() > Instant::ZERO);
    });
}
