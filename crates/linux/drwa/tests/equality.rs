//! The BPF programs and the algorithm in Rust handle the same segments; every number is equal after each. As root.

use crate::frames::{Host, OFFER_MSS};
use control::receiver::{AckOut, Agreed, DataIn, Peer, ReceiverDrwa, ReceiverParams, SharedPath, Slot};
use drwa::layout::{Connection, octets};
use drwa::{DrwaPrograms, Setup};
use io::bpf::TcDirection;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::{Bytes, Duration, Instant, SeqNum, WindowScale};

use crate::frames;

fn setup(params: ReceiverParams) -> Setup {
    Setup { params, link_header_len: 14, selections: Vec::new(), is_test: true }
}

/// A connection of both.
struct Pair {
    host: Host,
    theirs: Option<ReceiverDrwa>,
    next: SeqNum,
    window: u16,
}

struct Run {
    program: DrwaPrograms,
    path: SharedPath,
    params: ReceiverParams,
    now_us: u64,
    pairs: Vec<Pair>,
    timestamps: bool,
    /// Added to TSvals, ms.
    ahead_ms: u32,
}

const REMOTE_ISN: u32 = 0xfffe_0000;

impl Run {
    /// The program works with `loaded`, the algorithm in Rust with `params`.
    fn new(loaded: ReceiverParams, params: ReceiverParams, timestamps: bool) -> Self {
        let program = DrwaPrograms::load(&setup(loaded)).expect("as root, on Linux 5.12 or later");
        Self {
            program,
            path: SharedPath::default(),
            params,
            now_us: 5_000_000_000,
            pairs: Vec::new(),
            timestamps,
            ahead_ms: 0,
        }
    }

    fn instant(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.now_us * 1_000)
    }

    fn clock(&self) -> u32 {
        (self.now_us / 1_000) as u32 + self.ahead_ms
    }

    fn pass(&mut self, direction: TcDirection, frame: &[u8]) -> Vec<u8> {
        self.program.set_time(self.now_us).unwrap();
        self.program.test(direction, frame).unwrap()
    }

    /// A handshake. In it, the data of another connection comes so many µs before the end.
    fn open(&mut self, host: Host, rtt_us: u64, syns: u32, behind: Option<(usize, u64)>) {
        let ts = self.timestamps.then(|| (self.clock(), 0));
        for _ in 0..syns {
            let frame = host.syn(77, ts);
            assert_eq!(self.pass(TcDirection::Out, &frame), frame);
        }
        let ts = self.timestamps.then(|| (1, self.clock()));
        let gap_us = behind.map_or(0, |(_, gap)| gap.min(rtt_us));
        self.now_us += rtt_us - gap_us;
        if let Some((pair, _)) = behind {
            self.data(pair, 0, 1_000, 0);
        }
        self.now_us += gap_us;
        let frame = host.syn_ack(REMOTE_ISN, 77, ts);
        assert_eq!(self.pass(TcDirection::In, &frame), frame);
        let agreed = Agreed {
            remote_isn: SeqNum::new(REMOTE_ISN),
            syn_window: 64_240,
            scale: WindowScale::new(7),
            mss: OFFER_MSS,
            timestamps: self.timestamps,
            remote: octets(host.remote.ip()),
        };
        let handshake = (syns == 1).then(|| Duration::from_nanos(rtt_us * 1_000));
        let now = self.instant();
        let theirs = ReceiverDrwa::new(self.params, agreed, handshake, now, &mut self.path);
        let next = SeqNum::new(REMOTE_ISN) + 1;
        self.pairs.push(Pair { host, theirs: Some(theirs), next, window: 64_240 });
        let pair = self.pairs.len() - 1;
        self.ack(pair, 0, 502, false);
    }

    fn data(&mut self, pair: usize, ahead: u32, len: u32, echo: u32) {
        let seq = self.pairs[pair].next + ahead;
        let ts = self.timestamps.then_some((9, echo));
        let frame = self.pairs[pair].host.data(seq.get(), 78, len as usize, ts);
        assert_eq!(self.pass(TcDirection::In, &frame), frame);
        let now = self.instant();
        let echo = self.timestamps.then_some(echo);
        if let Some(theirs) = &mut self.pairs[pair].theirs {
            theirs.on_data(&DataIn { seq, len, echo }, now, &mut self.path);
        }
        self.compare(pair);
    }

    fn ack(&mut self, pair: usize, bytes: u32, window: u16, has_payload: bool) {
        let ts = self.timestamps.then(|| (self.clock(), 9));
        self.pairs[pair].next += bytes;
        let ack = self.pairs[pair].next;
        let frame = self.pairs[pair].host.ack(78, ack.get(), window, if has_payload { 50 } else { 0 }, ts);
        let out = self.pass(TcDirection::Out, &frame);
        let now = self.instant();
        let timestamp = ts.map(|(value, _)| value);
        let ours = AckOut { ack, window, timestamp, has_payload };
        let field = self.pairs[pair].theirs.as_mut().unwrap().on_ack(&ours, now, &mut self.path);
        let segment = frames::parse(&out);
        assert_eq!(segment.window, field, "at {} us", self.now_us);
        // Everything else is as it was.
        assert_eq!(frames::with_window(&frame, field), out);
        assert!(frames::is_checksum_right(&out));
        self.pairs[pair].window = window;
        self.compare(pair);
    }

    /// Every number of a connection, and what all share.
    fn compare(&self, pair: usize) {
        let Pair { host, theirs, .. } = &self.pairs[pair];
        let theirs = theirs.as_ref().unwrap();
        let found = self.program.view().unwrap().connections();
        let kernel: &Connection = &found[&host.ends()];
        let mark = theirs.mark.map_or(0, |mark| u64::from(mark.told) << 32 | u64::from(mark.at_us));
        let unexplained = theirs.unexplained_us.unwrap_or(0);
        assert_eq!(unexplained, kernel.unexplained_us, "at {} us", self.now_us);
        let explained = theirs.explained.map(|last| (last.rtt_us, last.cwnd_est));
        let in_kernel = (kernel.explained_rtt_us, kernel.explained_cwnd);
        assert_eq!(explained, Some(in_kernel).filter(|last| last.0 > 0), "at {} us", self.now_us);
        let above = theirs.above.map(|first| (first.rtt_us, first.cwnd_est, first.all_bytes));
        let in_kernel = (kernel.above_rtt_us, kernel.above_cwnd, kernel.above_bytes);
        assert_eq!(above, Some(in_kernel).filter(|first| first.0 > 0), "at {} us", self.now_us);
        let probe = theirs.probe.map(|probe| (probe.rtt_us, probe.least_us, probe.rounds));
        let in_kernel = (kernel.probe_rtt_us, kernel.probe_least_us, kernel.probe_rounds);
        assert_eq!(probe, Some(in_kernel).filter(|probe| probe.0 > 0), "at {} us", self.now_us);
        let tick = if theirs.is_tick_known { theirs.tick_us.unwrap_or(u32::MAX) } else { 0 };
        let ours = [
            theirs.delivered,
            theirs.cwnd_est.unwrap_or(0),
            theirs.rtt_est_us.unwrap_or(0),
            theirs.rtt_min_us.unwrap_or(0),
            theirs.window.unwrap_or(0),
            theirs.before_us.unwrap_or(0),
            theirs.samples,
            theirs.round.into(),
            mark,
            theirs.edge().get().into(),
            theirs.retry_us.unwrap_or(0),
            theirs.slot.into(),
            tick.into(),
        ];
        let theirs = [
            kernel.delivered,
            kernel.cwnd_est,
            kernel.rtt_est_us,
            kernel.rtt_min_us,
            kernel.window,
            kernel.before_us,
            kernel.samples,
            kernel.round.into(),
            kernel.mark,
            kernel.edge.into(),
            kernel.retry_us,
            kernel.slot.into(),
            kernel.tick_us.into(),
        ];
        assert_eq!(ours, theirs, "at {} us, {kernel:?}", self.now_us);
        let (shared, peers) = self.program.shared().unwrap();
        let now = Slot {
            number: shared.now_number,
            connections: shared.now_connections,
            bytes: shared.now_bytes,
            queue_us: shared.now_queue_us,
        };
        assert_eq!(self.path.now, now);
        let before = Slot {
            number: shared.before_number,
            connections: shared.before_connections,
            bytes: shared.before_bytes,
            queue_us: shared.before_queue_us,
        };
        assert_eq!(self.path.before, before);
        let since = [self.path.queue_until_us, self.path.data_us];
        assert_eq!(since, [shared.queue_until_us, shared.data_us], "at {} us", self.now_us);
        let peers = peers.into_iter().map(|(address, peer)| {
            (address, Peer { rtt_min_us: peer.rtt_min_us, confirmed_us: peer.confirmed_us })
        });
        assert_eq!(self.path.peers, peers.collect());
    }
}

/// `steps` of data, acknowledgements and time on three connections, of which two have one server.
fn random_run(seed: u64, params: ReceiverParams, timestamps: bool, steps: u32) -> (u64, u64) {
    let run = Run::new(params, params, timestamps);
    go(seed, run, steps)
}

fn go(seed: u64, mut run: Run, steps: u32) -> (u64, u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut base_us = 60_000;
    for n in 0..3 {
        run.open(
            Host::new(n, n / 2, seed % 2 == 1),
            60_000 + random.random_range(0..40_000),
            1 + u32::from(n == 1),
            None,
        );
    }
    let mut echoes = [0u32; 3];
    for _ in 0..steps {
        let pair = random.random_range(0..3usize);
        run.now_us += random.random_range(0..base_us / 2);
        match random.random_range(0..1_000) {
            // The server has nothing to say, or the radio is gone.
            0..6 => run.now_us += random.random_range(0..5_000_000),
            // A longer or a shorter path.
            6..10 => base_us = [10_000, 60_000, 400_000][random.random_range(0..3usize)],
            10..500 => {
                // Echoes what was told a while ago, or an older or newer one.
                let echo = match random.random_range(0..4) {
                    0 => run.clock(),
                    1 => echoes[pair],
                    _ => run.pairs[pair].theirs.as_ref().and_then(|d| d.mark).map_or(0, |mark| mark.told),
                };
                let ahead = if random.random_range(0..5) == 0 { random.next_u32() % 100_000 } else { 0 };
                run.data(pair, ahead, random.random_range(1..1_400), echo);
            }
            _ => {
                echoes[pair] = run.clock();
                let bytes = if random.random_range(0..4) == 0 { 0 } else { random.random_range(0..400_000) };
                let window = [65_535, 4_000, 502, 0, random.random::<u16>()][random.random_range(0..5usize)];
                run.ack(pair, bytes, window, random.random_range(0..10) == 0);
            }
        }
    }
    let counters = run.program.view().unwrap().counters().unwrap();
    (counters.rounds, counters.windows_lowered)
}

#[test]
fn program_and_algorithm_are_equal_after_every_segment() {
    let additions = ReceiverParams::default();
    let cases = [
        (1, additions, true),
        (2, additions, true),
        (3, additions, false),
        (4, ReceiverParams::paper(), true),
        (5, ReceiverParams::paper(), false),
        (6, ReceiverParams { without_timestamps: true, lambda_permille: 1_700, ..additions }, true),
        (7, ReceiverParams { alpha_permille: 500, initial_window: Bytes::new(3_000), ..additions }, true),
    ];
    for (seed, params, timestamps) in cases {
        let (rounds, lowered) = random_run(seed, params, timestamps, 1_500);
        println!("seed {seed}: {rounds} rounds, {lowered} windows lowered");
        assert!(rounds > 100 && lowered > 100, "seed {seed} shows nothing: {rounds}, {lowered}");
    }
}

/// A connection sees a queue of 80 ms; then another begins behind its data, or after it.
#[test]
fn handshakes_behind_a_queue_are_equal() {
    // The server (0 is known), the handshake, the time from the last round to its end, that from the last data, and
    // what becomes of the handshake, all in µs.
    for (server, rtt_us, after_us, gap_us, rtt_min_us) in [
        (1, 160_000, 190_000, 2_000, 80_000),
        (1, 160_000, 190_000, 20_000, 80_000),
        (1, 160_000, 190_000, 20_001, 160_000),
        (1, 160_000, 200_000, 1, 80_000),
        (1, 160_000, 200_001, 1, 160_000),
        (1, 90_000, 190_000, 0, 30_000),
        (1, 80_000, 190_000, 0, 80_000),
        (1, 80_001, 190_000, 0, 26_667),
        (0, 160_000, 190_000, 160_000, 40_000),
        (0, 160_000, 190_000, 160_001, 160_000),
        (0, 30_000, 190_000, 0, 30_000),
    ] {
        for timestamps in [true, false] {
            let params = ReceiverParams::default();
            let mut run = Run::new(params, params, timestamps);
            run.open(Host::new(0, 0, false), 40_000, 1, None);
            for _ in 0..20 {
                let told = run.clock();
                run.now_us += 120_000;
                run.data(0, 0, 1_448, told);
                run.ack(0, 100_000, 65_535, false);
            }
            let first = run.pairs[0].theirs.as_ref().unwrap();
            if timestamps {
                assert_eq!((first.rtt_est_us, first.rtt_min_us), (Some(120_000), Some(40_000)));
            }
            let end_us = run.now_us + after_us;
            run.now_us = end_us - gap_us.max(rtt_us);
            let behind = if gap_us <= rtt_us {
                Some((0, gap_us))
            } else {
                run.data(0, 0, 1_000, 0);
                None
            };
            run.now_us = end_us - rtt_us;
            run.open(Host::new(1, server, false), rtt_us, 1, behind);
            let late = run.pairs[1].theirs.as_ref().unwrap();
            if timestamps {
                assert_eq!(late.rtt_min_us, Some(rtt_min_us), "{server} {rtt_us} {after_us} {gap_us}");
            }
        }
    }
}

/// Round trips of 400 ms where 120 ms are explained, then those of the probe, and the RTT_min after it, all in ms.
#[test]
fn probes_end_alike() {
    for (probe, rtt_min) in
        [([390, 380], 253), ([380, 390], 253), ([400, 276], 184), ([400, 275], 40), ([275, 400], 40)]
    {
        let params = ReceiverParams::default();
        let mut run = Run::new(params, params, true);
        run.open(Host::new(0, 0, false), 40_000, 1, None);
        let mut round = |rtt_ms: u64| {
            let told = run.clock();
            run.now_us += rtt_ms * 1_000;
            run.data(0, 0, 1_448, told);
            run.ack(0, 100_000, 65_535, false);
            let theirs = run.pairs[0].theirs.as_ref().unwrap();
            (theirs.probe, theirs.rtt_min_us)
        };
        // Not twice as long at once: that would be a pause of the server.
        for rtt_ms in [100, 100, 100, 190, 370] {
            assert_eq!(round(rtt_ms).0, None);
        }
        let rounds = (0..20).position(|_| round(400).0.is_some());
        assert!(
            rounds.is_some_and(|rounds| (3..6).contains(&rounds)),
            "{rounds:?}: two seconds after the first"
        );
        assert!(round(probe[0]).0.is_some());
        let (halved, found_us) = round(probe[1]);
        assert_eq!((halved, found_us.map(|us| us / 1_000)), (None, Some(rtt_min)), "{probe:?}");
    }
}

#[test]
fn what_tsvals_count_is_learned_alike() {
    // What they are ahead of milliseconds after so many µs: 4 ms and a 64th of the time may pass for milliseconds.
    for (after_us, ahead_ms, tick_us) in [
        (99_999, 0, None),
        (100_000, 0, Some(1_000)),
        (100_000, 5, Some(1_000)),
        (100_000, 6, None),
        (640_000, 14, Some(1_000)),
        (640_000, 15, None),
    ] {
        let params = ReceiverParams::default();
        let mut run = Run::new(params, params, true);
        run.open(Host::new(0, 0, false), 40_000, 1, None);
        (run.now_us, run.ahead_ms) = (run.now_us + after_us, ahead_ms);
        run.ack(0, 1_000, 502, false);
        let theirs = run.pairs[0].theirs.as_ref().unwrap();
        assert_eq!((theirs.tick_us, theirs.is_tick_known), (tick_us, after_us >= 100_000));
    }
}

/// Gigabits per round trip: the largest window that TCP has (RFC 7323 §2.2).
#[test]
fn the_largest_window_is_alike() {
    let params = ReceiverParams::default();
    let mut run = Run::new(params, params, true);
    run.open(Host::new(0, 0, false), 40_000, 1, None);
    for _ in 0..5 {
        let told = run.clock();
        run.now_us += 40_000;
        run.data(0, 0, 1_448, told);
        run.ack(0, 500_000_000, 65_535, false);
    }
    assert_eq!(run.pairs[0].theirs.as_ref().unwrap().window, Some(1 << 30));
}

/// What would go unnoticed is not compared at all: each parameter, a little different on one side alone.
#[test]
fn a_difference_in_any_parameter_is_noticed() {
    let like = ReceiverParams::default();
    let others = [
        ("alpha", ReceiverParams { alpha_permille: 874, ..like }),
        ("lambda", ReceiverParams { lambda_permille: 2_999, ..like }),
        ("first window", ReceiverParams { initial_window: Bytes::new(65_000), ..like }),
        ("rise without a queue", ReceiverParams { is_free_without_queue: false, ..like }),
        ("re-baseline", ReceiverParams { re_baseline: Some(Duration::from_millis(2_100)), ..like }),
        ("no re-baseline", ReceiverParams { re_baseline: None, ..like }),
        ("retry", ReceiverParams { retry: Some(Duration::from_millis(20_001)), ..like }),
        ("no retry", ReceiverParams { retry: None, ..like }),
        ("sharing", ReceiverParams { shares: false, ..like }),
        ("timestamps", ReceiverParams { without_timestamps: true, ..like }),
    ];
    for (what, other) in others {
        let is_noticed = std::panic::catch_unwind(|| go(1, Run::new(other, like, true), 3_000)).is_err();
        assert!(is_noticed, "{what}");
    }
}
