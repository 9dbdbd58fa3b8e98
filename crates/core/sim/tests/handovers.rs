//! Clients that move between two boxes and take their flows along, over a wire that loses, delays, doubles and
//! reorders, with deaths of either box: never two owners, and no acknowledged byte is lost silently.
//!
//! `CELLERATOR_SIM_HANDOVERS=n` sets how many line-ups run.

// Helpers of a test are test code too, which the lint cannot know.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use handover::{HandoverOutcome, Refusal};
use sim::{
    Between, Death, End, LogMode, Move, Network, Random, RandomRun, Replacement, SimError, Tolerance,
    TwoBoxes, Violation,
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
    // In every third one queues mark what hosts send that agree on accurate ECN.
    let run = if seed.is_multiple_of(3) { run.with_marks() } else { run };
    // Flows whose windows are lowered stay behind: their hosts hear windows of their own where they come to.
    let is_apt = run.restarts.is_empty() && !run.network.checks.lowers_windows_only;
    let takes = is_apt.then(|| run.run().unwrap().simulated)?;
    Some((run, takes))
}

/// The wire between the boxes. What it doubles is marked twice: so it doubles nothing where marks are counted.
fn wire(random: &mut Random, run: &RandomRun) -> Between {
    let is_bad = random.one_in(2);
    let has_marks = run.network.flows.iter().any(|flow| flow.server.accurate_ecn.is_some());
    let between = Between {
        delay: Duration::from_millis(random.below(60)),
        jitter: Duration::from_millis(random.below(30)),
        loss_ppm: if is_bad { random.below(200_000) as u32 } else { 0 },
        twice_ppm: if is_bad { random.below(200_000) as u32 } else { 0 },
        cut: None,
    };
    Between { twice_ppm: if has_marks { 0 } else { between.twice_ppm }, ..between }
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
    let dies = boxes.has_deaths();
    let mut network = Network::new(&config, boxes).unwrap();
    match network.run() {
        Ok(_) => {}
        // A box that has died knows no more who has what. Packets that are routed to it go past the one that does,
        // which goes on with numbers that its hosts have left behind: as after a hang, hosts see to that.
        Err(SimError::Broken { violation: Violation::Packet { .. } | Violation::Silent { .. }, .. })
            if tolerance > Tolerance::Nothing => {}
        // Where hosts end by themselves, as when an address has changed: what a host says last, a reset, may be lost
        // with the box that dies, as any packet, and nobody says it again.
        Err(SimError::Broken { violation: Violation::Silent { .. }, .. })
            if config.checks.tolerance > Tolerance::Nothing && dies => {}
        Err(error) => panic!("seed {seed} ({}), {what}: {error}", run.rare),
    }
    let boxes = network.middlebox();
    assert_eq!(boxes.twice(), None, "seed {seed}: a flow with two owners, {what}");
    for ended in boxes.ended().iter().filter(|ended| ended.is_going) {
        let at = match ended.outcome {
            HandoverOutcome::Gone | HandoverOutcome::Come => 0,
            HandoverOutcome::Stayed(_) | HandoverOutcome::Unanswered | HandoverOutcome::Unfrozen => 1,
            HandoverOutcome::Broken => 2,
        };
        tally[at].fetch_add(1, Ordering::Relaxed);
    }
    if config.checks.tolerance < Tolerance::Tampering {
        for (flow, client) in network.clients().iter().enumerate() {
            assert_eq!(client.first_wrong_offset(), None, "seed {seed}, flow {flow}, {what}");
        }
    }
    TwoBoxesEnd { steps: boxes.steps(), recovered: boxes.recovered(), has_ended: boxes.has_ended() }
}

struct TwoBoxesEnd {
    steps: u64,
    recovered: u64,
    has_ended: bool,
}

/// A process goes on with what the box has written down.
fn successor(random: &mut Random, absent_ms_max: u64) -> Replacement {
    let absent = if random.one_in(2) { 0 } else { random.below(absent_ms_max) };
    // Records of a few flows, and notes; or all that the step has to write.
    let writes = if random.one_in(2) { random.below(12) } else { u64::MAX };
    Replacement::Successor { writes, absent: Duration::from_millis(absent) }
}

fn protocol() -> handover::Config {
    handover::Config { retry: Duration::from_millis(200), ..handover::Config::default() }
}

/// A line-up, and what was drawn for it.
struct Drawn {
    line_up: RandomRun,
    between: Between,
    moves: Vec<Move>,
    random: Random,
}

impl Drawn {
    /// The line-up of `seed`, if it is apt; wire and moves by that and `salt`.
    fn new(seed: u64, salt: u64) -> Option<Self> {
        let (line_up, takes) = line_up(seed)?;
        let mut random = Random::new(seed ^ salt);
        let between = wire(&mut random, &line_up);
        let moves = moves(&line_up, takes, &mut random);
        Some(Self { line_up, between, moves, random })
    }

    fn boxes(&self, deaths: Vec<Death>) -> TwoBoxes {
        let Self { line_up, between, moves, .. } = self;
        TwoBoxes::new(&line_up.engine, protocol(), *between, moves, deaths, line_up.seed).unwrap()
    }

    /// Runs it with these deaths.
    fn run(&self, deaths: Vec<Death>, tolerance: Tolerance, tally: &Tally, what: &str) -> TwoBoxesEnd {
        run(&self.line_up, self.boxes(deaths), tolerance, tally, what)
    }

    /// Its steps when nobody dies.
    fn steps(&self, tally: &Tally) -> u64 {
        self.run(Vec::new(), Tolerance::Nothing, tally, "nobody dies").steps
    }
}

#[test]
fn flows_move_with_their_clients_and_nothing_is_lost() {
    let tally = Tally::default();
    for_all(1..1 + runs(), |seed| {
        let Some(drawn) = Drawn::new(seed, 0x0e7) else { return };
        drawn.run(Vec::new(), Tolerance::Nothing, &tally, &format!("{:?}", drawn.between));
    });
    let [gone, stayed, broken] = tally.map(AtomicU64::into_inner);
    println!("{gone} hand-overs, {stayed} stayed, {broken} broken");
    assert!(gone > runs() / 2 && broken == 0, "{gone} gone, {stayed} stayed, {broken} broken");
}

#[test]
fn a_box_dies_at_any_step_and_nobody_has_a_flow_twice() {
    let tally = Tally::default();
    for_all(1..1 + runs() / 4, |seed| {
        let Some(mut drawn) = Drawn::new(seed, 0xdead) else { return };
        let steps = drawn.steps(&tally);
        for _ in 0..4 {
            let which = drawn.random.below(2) as usize;
            let death =
                Death { step: drawn.random.below(steps + 1), which, replacement: Replacement::Stranger };
            drawn.run(vec![death], Tolerance::Failures, &tally, &format!("{death:?}"));
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
        let Some(drawn) = Drawn::new(seed, 0xdead) else { continue };
        let steps = drawn.steps(&tally);
        if !(10..STEPS_MAX).contains(&steps) {
            continue;
        }
        line_ups += 1;
        for_all(0..2 * steps, |n| {
            let death = Death { step: n / 2, which: (n % 2) as usize, replacement: Replacement::Stranger };
            drawn.run(vec![death], Tolerance::Failures, &tally, &format!("{death:?}"));
        });
    }
}

/// Where a process goes on with what was written down, nothing is lost, and nobody is reset: as if nothing had
/// happened but the loss of a packet.
#[test]
fn a_box_dies_at_any_step_and_its_successor_goes_on() {
    let (tally, recovered) = (Tally::default(), AtomicU64::new(0));
    for_all(1..1 + runs(), |seed| {
        let Some(mut drawn) = Drawn::new(seed, 0x4e14) else { return };
        let steps = drawn.steps(&tally);
        let mut deaths = Vec::new();
        let random = &mut drawn.random;
        for _ in 0..random.within(1, 6) {
            let (step, which) = (random.below(steps + 1), random.below(2) as usize);
            deaths.push(Death { step, which, replacement: successor(random, 500) });
        }
        let what = format!("{deaths:?} {:?}", drawn.between);
        let end = drawn.run(deaths, Tolerance::Nothing, &tally, &what);
        recovered.fetch_add(end.recovered, Ordering::Relaxed);
    });
    let [gone, stayed, broken] = tally.map(AtomicU64::into_inner);
    let recovered = recovered.into_inner();
    println!("{gone} hand-overs, {stayed} stayed, {broken} broken, {recovered} flows went on");
    assert!(gone > runs() / 2 && recovered > runs() / 2, "{gone} gone, {recovered} recovered");
    assert_eq!(broken, 0, "nobody may be reset");
}

/// Either box dies once at every step of a few line-ups, before, within and after what the step writes down.
#[test]
fn a_box_dies_at_every_step_and_its_successor_goes_on() {
    let tally = Tally::default();
    let (mut seed, mut line_ups) = (0, 0);
    while line_ups < DIES_EVERYWHERE / 3 {
        seed += 1;
        let Some(drawn) = Drawn::new(seed, 0x4e14) else { continue };
        let steps = drawn.steps(&tally);
        if !(10..STEPS_MAX).contains(&steps) {
            continue;
        }
        line_ups += 1;
        for_all(0..10 * steps, |n| {
            let writes = [0, 1, 2, 5, u64::MAX][(n % 5) as usize];
            let replacement = Replacement::Successor { writes, absent: Duration::from_millis(n % 3 * 100) };
            let death = Death { step: n / 10, which: (n / 5 % 2) as usize, replacement };
            drawn.run(vec![death], Tolerance::Nothing, &tally, &format!("{death:?}"));
        });
    }
    let [gone, stayed, broken] = tally.map(AtomicU64::into_inner);
    assert_eq!(broken, 0, "{gone} gone, {stayed} stayed");
}

/// Successors that come later than the lease, and wires that are cut for longer: who may have a flow gives it up
/// before the other one acts.
#[test]
fn successors_that_come_too_late_have_no_flow_that_the_other_box_may_have() {
    let tally = Tally::default();
    for_all(1..1 + runs() / 2, |seed| {
        let Some((line_up, takes)) = line_up(seed) else { return };
        let random = &mut Random::new(seed ^ 0x1a7e);
        let moves = moves(&line_up, takes, random);
        let Some(first) = moves.first().map(|one| one.at) else { return };
        let mut between = wire(random, &line_up);
        if random.one_in(2) {
            let cut_at = first + Duration::from_millis(random.below(200));
            between.cut = Some((cut_at, cut_at + Duration::from_secs(random.below(20))));
        }
        let protocol = handover::Config { lease: Duration::from_secs(8), ..protocol() };
        let deaths = |steps: u64, random: &mut Random| {
            let one = |random: &mut Random| {
                let (step, which) = (random.below(steps + 1), random.below(2) as usize);
                Death { step, which, replacement: successor(random, 25_000) }
            };
            (0..random.within(1, 5)).map(|_| one(random)).collect::<Vec<_>>()
        };
        let deaths = deaths(40, random);
        let what = format!("{deaths:?} {between:?}");
        let boxes = TwoBoxes::new(&line_up.engine, protocol, between, &moves, deaths, seed).unwrap();
        run(&line_up, boxes, Tolerance::Failures, &tally, &what);
    });
    let [gone, stayed, broken] = tally.map(AtomicU64::into_inner);
    println!("{gone} hand-overs, {stayed} stayed, {broken} broken");
    assert!(gone > 0 && broken > 0, "{gone} gone, {stayed} stayed, {broken} broken");
}

/// Nothing comes through between the boxes from some moment on, for longer than the lease: who may have it gives it
/// up before the other one does.
#[test]
fn a_wire_that_is_cut_leaves_no_flow_with_two_owners_and_none_without_a_word() {
    let tally = Tally::default();
    for_all(1..1 + runs() / 2, |seed| {
        let Some((line_up, takes)) = line_up(seed) else { return };
        let random = &mut Random::new(seed ^ 0xcc7);
        let moves = moves(&line_up, takes, random);
        let Some(first) = moves.first().map(|one| one.at) else { return };
        let delay = Duration::from_millis(20);
        let cut_at = first + Duration::from_millis(random.below(200));
        let lasts = Duration::from_secs(4 + random.below(20));
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

/// The other box takes shorter packets than some flows send: their clients stay, others go, and nothing is lost.
#[test]
fn clients_stay_whose_packets_are_too_long_for_the_other_box() {
    let (tally, refused) = (Tally::default(), AtomicU64::new(0));
    for_all(1..1 + runs() / 8, |seed| {
        let Some((line_up, takes)) = line_up(seed) else { return };
        let random = &mut Random::new(seed ^ 0x3707);
        let moves = moves(&line_up, takes, random);
        let mut boxes =
            TwoBoxes::new(&line_up.engine, protocol(), Between::default(), &moves, Vec::new(), seed).unwrap();
        boxes.set_mtu(1, 1_000);
        let mut network = Network::new(&line_up.network, boxes).unwrap();
        network.run().unwrap();
        let boxes = network.middlebox();
        assert_eq!(boxes.twice(), None, "seed {seed}");
        let is_too_long = |ended: &&handover::Ended| ended.outcome == HandoverOutcome::Stayed(Refusal::Mtu);
        refused.fetch_add(boxes.ended().iter().filter(is_too_long).count() as u64, Ordering::Relaxed);
        let gone = boxes.ended().iter().filter(|ended| ended.outcome == HandoverOutcome::Gone).count();
        tally[0].fetch_add(gone as u64, Ordering::Relaxed);
    });
    let (gone, refused) = (tally[0].load(Ordering::Relaxed), refused.into_inner());
    println!("{gone} hand-overs, {refused} refused");
    assert!(refused > 0, "{gone} gone, none refused");
}

/// The box that clients have left ends before routing follows them, in good order or without a word: packets go past
/// both boxes until routing leads to the other one. Its flows go on, with every byte.
#[test]
fn a_box_ends_before_routing_follows_and_flows_go_on() {
    for is_announced in [true, false] {
        let (tally, ended) = (Tally::default(), AtomicU64::new(0));
        for_all(1..1 + runs(), |seed| {
            let Some((line_up, takes)) = line_up(seed) else { return };
            let random = &mut Random::new(seed ^ 0xe4d);
            let between = Between { cut: None, ..wire(random, &line_up) };
            let mut moves = moves(&line_up, takes, random);
            // All go to the second box, and routing follows late.
            moves.retain(|one| one.to == 1);
            moves.dedup_by_key(|one| one.client);
            let Some(at) = moves.iter().map(|one| one.at).max() else { return };
            let at = at + Duration::from_millis(random.below(1_000));
            for one in &mut moves {
                one.routed_at = at + Duration::from_millis(random.below(4_000));
            }
            let mut boxes =
                TwoBoxes::new(&line_up.engine, protocol(), between, &moves, Vec::new(), seed).unwrap();
            boxes.set_end(End { at, which: 0, is_announced });
            let mut line_up = line_up;
            line_up.network.checks.is_passed_by = true;
            let what = format!("announced: {is_announced}, {between:?}");
            // A reset that goes past overtakes what is owed.
            let tolerance = if line_up.has_resets() { Tolerance::Failures } else { Tolerance::Nothing };
            let end = run(&line_up, boxes, tolerance, &tally, &what);
            ended.fetch_add(u64::from(end.has_ended), Ordering::Relaxed);
        });
        let [gone, _, broken] = tally.map(AtomicU64::into_inner);
        let ended = ended.into_inner();
        println!("announced: {is_announced}: {gone} hand-overs, {ended} boxes ended");
        assert!(
            gone > runs() / 4 && ended > runs() / 4 && broken == 0,
            "{gone} gone, {ended} ended, {broken} broken"
        );
    }
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
