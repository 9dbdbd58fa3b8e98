//! What a download gets whose client moves between two boxes, beside one whose client stays.

// Helpers of a test are test code too, which the lint cannot know.

use engine::EngineConfig;
use link::{Capacity, RateSteps};
use sim::{
    Application, Between, CheckConfig, LineUp, LogMode, Move, Network, PathConfig, RadioConfig, Span,
    Tolerance, TwoBoxes,
};
use units::{Bytes, Duration, Instant, Rate};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
/// What a station keeps for a subscriber, at least; 40 ms of its fastest rate where that is more.
const QUEUE_MIN: u64 = 50_000;

/// From one move to the next, s.
const EVERY: u64 = 5;
/// How long nothing is delivered at a move.
const GAP: u64 = 50;

/// Width of a bin, ms.
const BIN: u64 = 5;

/// What one download saw.
struct Seen {
    /// Delivered in order in each bin, bytes.
    bins: Vec<u64>,
    /// Segments that came twice.
    twice: u64,
}

impl Seen {
    /// Bytes from one millisecond to another.
    fn bytes(&self, span: std::ops::Range<u64>) -> u64 {
        self.bins[(span.start / BIN) as usize..(span.end / BIN) as usize].iter().sum()
    }

    /// The longest time around a move in which nothing was delivered in order, ms.
    fn gap(&self) -> u64 {
        let near = |n: &usize| {
            let into = *n as u64 * BIN % (EVERY * 1_000);
            *n as u64 * BIN > EVERY * 1_000 - 300 && !(700..=EVERY * 1_000 - 300).contains(&into)
        };
        let (mut longest, mut lasts) = (0, 0);
        for n in (0..self.bins.len()).filter(near) {
            lasts = if self.bins[n] == 0 { lasts + BIN } else { 0 };
            longest = longest.max(lasts);
        }
        longest
    }
}

/// Who moves, and over what.
struct Plan<'a> {
    /// The rates of the stations in turn, kbit/s; the first one begins.
    kbps: &'a [u64],
    /// Round trip between the boxes, ms.
    between: u64,
    moves: bool,
    /// The old station does not forward what it holds.
    loses: bool,
}

fn run(plan: &Plan<'_>) -> Seen {
    let count = plan.kbps.len() as u64;
    let steps = plan.kbps.iter().map(|kbps| (Duration::from_secs(EVERY), Rate::from_kbps(*kbps)));
    let steps = RateSteps::new(&steps.collect::<Vec<_>>(), false).unwrap();
    let fastest = plan.kbps.iter().max().copied().unwrap_or(0);
    let queue = Bytes::new(QUEUE_MIN.max(fastest * 40 / 8));
    let mut down = PathConfig::constant(Rate::from_mbps(1), ms(20), queue);
    down.link.capacity = Capacity::Steps(steps);
    let mut up = PathConfig::constant(Rate::from_mbps(50), ms(20), queue);
    let times = (1..count).map(|n| Duration::from_secs(EVERY) * n);
    if plan.moves {
        let gap = |from: Duration, before| Span { from: from - ms(before), length: ms(GAP + before) };
        if plan.loses {
            // What waits at the old station, about.
            down.faults.blackouts = times.clone().map(|at| gap(at, 60)).collect();
            up.faults.blackouts = times.clone().map(|at| gap(at, 0)).collect();
        } else {
            for way in [&mut down, &mut up] {
                way.faults.stalls = times.clone().map(|at| gap(at, 0)).collect();
            }
        }
    }
    let limit = Instant::ZERO + Duration::from_secs(EVERY) * count;
    let checks = CheckConfig { ends_by: limit + ms(1), ..CheckConfig::default() };
    let line_up = LineUp::server(Application::bulk(u64::MAX / 4))
        .wan(Rate::from_mbps(500), ms(10))
        .client(Application::sink())
        .with(|network| {
            network.radios = vec![RadioConfig { down: down.clone(), up: up.clone() }];
            network.log = LogMode::Hash;
            network.checks = checks;
            network.checks.tolerance = Tolerance::Nothing;
        });
    let client = line_up.config().flows[0].client.local.ip();
    let moves: Vec<Move> = times
        .enumerate()
        .map(|(n, at)| {
            // The boxes are told so early that the subscriber leaves when it has the other one's word.
            let at = Instant::ZERO + at - ms(plan.between * 5 / 2);
            Move { at, routed_at: at + ms(plan.between * 5 / 2), client, to: (n + 1) % 2 }
        })
        .filter(|_| plan.moves)
        .collect();
    let between = Between { delay: ms(plan.between / 2), ..Between::default() };
    let boxes =
        TwoBoxes::new(&EngineConfig::default(), handover::Config::default(), between, &moves, Vec::new(), 1)
            .unwrap();
    let mut network = Network::new(line_up.config(), boxes).unwrap();
    let (mut bins, mut before) = (Vec::new(), 0);
    for n in 1..=EVERY * count * 1_000 / BIN {
        network.run_until(Instant::from_millis(n * BIN)).unwrap();
        let read = network.clients()[0].bytes_read();
        bins.push(read - before);
        before = read;
    }
    let gone = network.middlebox().ended().iter().filter(|ended| ended.is_going).count();
    assert_eq!(gone, moves.len(), "every move came about");
    Seen { bins, twice: network.clients()[0].stats().duplicate_segments }
}

/// What a download of a client that moves gets of one that does not, in thousandths from the first move on, its longest
/// gap in ms, and the segments that came twice.
fn compare(kbps: &[u64], between: u64, loses: bool) -> (u64, u64, u64) {
    let plan = |moves| Plan { kbps, between, moves, loses };
    let (stays, moves) = (run(&plan(false)), run(&plan(true)));
    let all = EVERY * 1_000..EVERY * 1_000 * kbps.len() as u64;
    let share = moves.bytes(all.clone()) * 1_000 / stays.bytes(all.clone());
    for begin in all.step_by(EVERY as usize * 1_000) {
        let of = |n: u64| begin + n * 1_000..begin + (n + 1) * 1_000;
        let shares = (0..EVERY).map(|n| moves.bytes(of(n)) * 1_000 / stays.bytes(of(n)));
        println!("{begin} ms: {:?}", shares.collect::<Vec<_>>());
    }
    println!("{kbps:?}, {between} ms: {share}, gap {} ms, {} twice", moves.gap(), moves.twice);
    (share, moves.gap(), moves.twice)
}

#[test]
fn who_moves_gets_nearly_what_who_stays_gets_and_nothing_twice() {
    for (between, least, gap_max) in [(20, 980, GAP + 30), (100, 960, GAP + 150)] {
        let (share, gap, twice) = compare(&[2_000; 8], between, false);
        assert!(share >= least && gap <= gap_max && twice == 0, "{share}, {gap} ms, {twice} twice");
    }
}

#[test]
fn what_the_old_station_loses_is_sent_again_once() {
    let (share, gap, twice) = compare(&[2_000; 8], 20, true);
    assert!(share >= 940 && gap <= 400 && twice == 0, "{share}, {gap} ms, {twice} twice");
}

#[test]
fn a_radio_ten_times_faster_or_slower_is_used_all_the_same() {
    for kbps in [[500, 5_000, 500, 5_000], [5_000, 500, 5_000, 500], [2_000, 100_000, 2_000, 100_000]] {
        let (share, _, twice) = compare(&kbps, 20, false);
        // What filled a radio fifty times as fast takes longer than any time-out. It asks once a move.
        assert!(share >= 900 && twice < kbps.len() as u64, "{kbps:?}: {share}, {twice} twice");
    }
}
