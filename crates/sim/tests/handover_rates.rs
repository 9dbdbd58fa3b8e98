//! What a download gets whose client moves between two boxes: beside one that stays, whatever the radio does.

// Helpers of a test are test code too, which the lint cannot know.
#![allow(clippy::unwrap_used, clippy::panic)]

use engine::EngineConfig;
use link::{Capacity, RateSteps};
use sim::{
    Application, Between, CheckConfig, LineUp, LogMode, Move, Network, PathConfig, RadioConfig, Span, Tolerance,
    TwoBoxes,
};
use units::{Bytes, Duration, Instant, Rate};

const ms: fn(u64) -> Duration = Duration::from_millis;
const QUEUE: Bytes = Bytes::new(50_000);

/// From one move to the next, s.
const EVERY: u64 = 5;
/// How long nothing is delivered at a move.
const GAP: u64 = 50;

/// What one download saw.
struct Seen {
    /// Delivered in each 100 ms, bytes.
    bins: Vec<u64>,
    /// Segments that came twice.
    twice: u64,
}

impl Seen {
    /// Bytes from one second to another.
    fn bytes(&self, seconds: std::ops::Range<u64>) -> u64 {
        self.bins[seconds.start as usize * 10..seconds.end as usize * 10].iter().sum()
    }
}

/// The rates of the stations in turn, Mbit/s; the first one begins.
struct Plan {
    kbps: Vec<u64>,
    between: u64,
    moves: bool,
    is_lossy: bool,
}

fn run(plan: &Plan) -> Seen {
    let count = plan.kbps.len() as u64;
    let steps = plan.kbps.iter().map(|kbps| (Duration::from_secs(EVERY), Rate::from_kbps(*kbps)));
    let steps = RateSteps::new(&steps.collect::<Vec<_>>(), false).unwrap();
    let mut down = PathConfig::constant(Rate::from_mbps(1), ms(20), QUEUE);
    down.link.capacity = Capacity::Steps(steps);
    let mut up = PathConfig::constant(Rate::from_mbps(50), ms(20), QUEUE);
    let times = (1..count).map(|n| Duration::from_secs(EVERY) * n);
    if plan.moves {
        let gap = |from: Duration, before| Span { from: from - ms(before), length: ms(GAP + before) };
        if plan.is_lossy {
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
    let boxes = TwoBoxes::new(
        &EngineConfig::default(),
        handover::Config::default(),
        between,
        &moves,
        Vec::new(),
        1,
    )
    .unwrap();
    let mut network = Network::new(line_up.config(), boxes).unwrap();
    let (mut bins, mut before) = (Vec::new(), 0);
    for n in 1..=EVERY * count * 10 {
        network.run_until(Instant::from_millis(n * 100)).unwrap();
        let read = network.clients()[0].bytes_read();
        bins.push(read - before);
        before = read;
    }
    let gone = network.middlebox().ended().iter().filter(|ended| ended.is_going).count();
    assert_eq!(gone, moves.len(), "every move came about");
    Seen { bins, twice: network.clients()[0].stats().duplicate_segments }
}

#[test]
fn explore() {
    for (kbps, between, lossy) in [
        (vec![2_000; 6], 20, false),
        (vec![2_000; 6], 100, false),
        (vec![2_000; 6], 20, true),
        (vec![5_000, 500, 5_000, 500], 20, false),
        (vec![100_000, 500, 100_000, 500], 20, false),
        (vec![100_000; 4], 20, false),
    ] {
        let plan = |moves| Plan { kbps: kbps.clone(), between, moves, is_lossy: lossy };
        let (stays, moves) = (run(&plan(false)), run(&plan(true)));
        println!("{kbps:?} between {between} lossy {lossy}: twice {} / {}", moves.twice, stays.twice);
        for s in 0..kbps.len() as u64 * EVERY {
            let (a, b) = (moves.bytes(s..s + 1), stays.bytes(s..s + 1));
            print!("{:.3} ", a as f64 / b as f64);
            if s % EVERY == EVERY - 1 {
                println!();
            }
        }
    }
}
