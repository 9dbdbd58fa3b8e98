//! The formulas by hand, a server over one queue for what follows from them, and the right edge.

use proptest::prelude::*;

use super::*;

const MSS: u64 = 1_448;

fn drwa(params: DrwaParams) -> Drwa {
    Drwa::new(params, Bytes::new(MSS))
}

/// One round of `data` bytes in exactly one round trip.
struct Rounds {
    drwa: Drwa,
    now: Instant,
    total: u64,
}

impl Rounds {
    fn new(params: DrwaParams) -> Self {
        let mut rounds = Self { drwa: drwa(params), now: Instant::ZERO, total: 0 };
        rounds.drwa.on_delivered(Bytes::ZERO, rounds.now);
        rounds
    }

    fn round(&mut self, data: u64, rtt_ms: u64) -> u64 {
        let rtt = Duration::from_millis(rtt_ms);
        self.now += rtt;
        self.total += data;
        self.drwa.on_rtt(rtt);
        assert!(self.drwa.on_delivered(Bytes::new(self.total), self.now), "a round ends");
        self.drwa.window().get()
    }
}

#[test]
fn the_first_round_is_the_estimate() {
    let mut rounds = Rounds::new(DrwaParams::paper());
    assert_eq!(rounds.drwa.window(), Bytes::from_kib(64));
    // RTT_min = RTT_est: λ·data.
    assert_eq!(rounds.round(20_000, 100), 60_000);
    assert_eq!(rounds.drwa.rtt(), Some(Duration::from_millis(100)));
}

#[test]
fn alpha_weighs_old_against_new() {
    let mut rounds = Rounds::new(DrwaParams::paper());
    rounds.round(16_000, 100);
    assert_eq!(rounds.round(8_000, 100), 3 * (16_000 * 7 + 8_000) / 8);
    assert_eq!(rounds.round(0, 100), 3 * 15_000 * 7 / 8);
}

#[test]
fn a_longer_round_trip_takes_its_share_of_the_window() {
    let mut rounds = Rounds::new(DrwaParams::paper());
    rounds.round(16_000, 100);
    // The same data in three times the time: λ · 1/3.
    assert_eq!(rounds.round(16_000, 300), 16_000);
    assert_eq!(rounds.round(16_000, 50), 48_000);
    // 50 ms is RTT_min from here on.
    assert_eq!(rounds.round(16_000, 100), 24_000);
}

#[test]
fn the_handshake_knows_the_path_without_a_queue() {
    let mut rounds = Rounds::new(DrwaParams::paper());
    rounds.drwa.on_handshake(Duration::from_millis(50));
    assert_eq!(rounds.round(20_000, 100), 30_000);
    // A longer one, of a slow host, spoils nothing.
    let mut rounds = Rounds::new(DrwaParams::paper());
    rounds.drwa.on_handshake(Duration::from_millis(400));
    assert_eq!(rounds.round(20_000, 100), 60_000);
}

#[test]
fn two_segments_are_always_allowed() {
    let mut rounds = Rounds::new(DrwaParams::paper());
    assert_eq!(rounds.round(0, 10), 2 * MSS);
    for _ in 0..50 {
        assert_eq!(rounds.round(100, 10_000), 2 * MSS);
    }
}

#[test]
fn a_round_trip_is_the_mean_of_its_round() {
    let mut drwa = drwa(DrwaParams::paper());
    drwa.on_delivered(Bytes::ZERO, Instant::ZERO);
    for ms in [40, 60, 110] {
        drwa.on_rtt(Duration::from_millis(ms));
    }
    assert!(!drwa.on_delivered(Bytes::new(7_000), Instant::from_millis(69)));
    assert!(drwa.on_delivered(Bytes::new(7_000), Instant::from_millis(70)));
    assert_eq!(drwa.rtt(), Some(Duration::from_millis(70)));
    assert_eq!(drwa.window(), Bytes::new(21_000));
}

#[test]
fn without_a_round_trip_there_is_no_round() {
    let mut drwa = drwa(DrwaParams::default());
    for ms in 0..1_000 {
        assert!(!drwa.on_delivered(Bytes::new(ms * MSS), Instant::from_millis(ms)));
    }
    assert_eq!(drwa.window(), Bytes::from_kib(64));
}

#[test]
fn bunched_acknowledgements_count_for_one_round_trip() {
    let mut drwa = drwa(DrwaParams::paper());
    drwa.on_delivered(Bytes::ZERO, Instant::ZERO);
    drwa.on_rtt(Duration::from_millis(50));
    // Four round trips' worth of data in one bunch: a quarter of it is one round trip's.
    assert!(drwa.on_delivered(Bytes::new(40_000), Instant::from_millis(200)));
    assert_eq!(drwa.window(), Bytes::new(30_000));
}

#[test]
fn a_round_without_samples_keeps_the_round_trip_before_it() {
    let mut rounds = Rounds::new(DrwaParams::paper());
    rounds.round(16_000, 100);
    rounds.total += 16_000;
    assert!(rounds.drwa.on_delivered(Bytes::new(rounds.total), rounds.now + Duration::from_millis(100)));
    assert_eq!(rounds.drwa.rtt(), Some(Duration::from_millis(100)));
}

#[test]
fn slow_start_is_not_held_back() {
    let grow = |params| {
        let mut rounds = Rounds::new(params);
        let mut cwnd = 14_480;
        for _ in 0..6 {
            // The server doubles, as far as the window lets it.
            let window = rounds.round(cwnd, 50);
            cwnd = (2 * cwnd).min(window);
        }
        cwnd
    };
    assert_eq!(grow(DrwaParams::default()), 14_480 << 6);
    assert!(grow(DrwaParams::paper()) < 14_480 << 4);
}

#[test]
fn a_quiet_server_keeps_its_window() {
    let after_whispers = |params| {
        let mut rounds = Rounds::new(params);
        rounds.round(60_000, 50);
        (0..40).map(|_| rounds.round(300, 50)).last().unwrap_or(0)
    };
    assert_eq!(after_whispers(DrwaParams::default()), 180_000);
    assert!(after_whispers(DrwaParams::paper()) < 4 * MSS);
}

#[test]
fn a_pause_belongs_to_no_round() {
    let mut rounds = Rounds::new(DrwaParams::paper());
    rounds.round(20_000, 50);
    rounds.drwa.on_pause();
    rounds.now += Duration::from_secs(30);
    assert!(!rounds.drwa.on_delivered(Bytes::new(rounds.total + MSS), rounds.now));
    assert_eq!(rounds.drwa.window(), Bytes::new(60_000));
}

/// A server that always fills the window, over a link of `rate` with a queue without end.
fn settle(params: DrwaParams, rate_bytes_per_ms: u64, base_ms: u64, rounds_max: u64) -> (u64, u64) {
    let mut rounds = Rounds::new(params);
    let pipe = rate_bytes_per_ms * base_ms;
    let (mut window, mut rtt_ms) = (pipe / 2, base_ms);
    for _ in 0..rounds_max {
        rtt_ms = base_ms.max(window / rate_bytes_per_ms);
        window = rounds.round(window.min(rate_bytes_per_ms * rtt_ms), rtt_ms);
    }
    (window, rtt_ms)
}

#[test]
fn a_full_window_settles_at_lambda_round_trips() {
    for params in [DrwaParams::paper(), DrwaParams::default()] {
        let (window, rtt_ms) = settle(params, 1_000, 60, 400);
        assert!((165..=185).contains(&rtt_ms), "{rtt_ms} ms");
        assert!((165_000..=185_000).contains(&window), "{window}");
    }
    let tight = DrwaParams { lambda_permille: 2_000, ..DrwaParams::default() };
    let (_, rtt_ms) = settle(tight, 1_000, 60, 400);
    assert!((110..=125).contains(&rtt_ms), "{rtt_ms} ms");
}

#[test]
fn a_longer_path_is_noticed() {
    let moved = |params| {
        let mut rounds = Rounds::new(params);
        for _ in 0..20 {
            rounds.round(40_000, 40);
        }
        // A hand-over to a path five times as long: RTT_min is stale.
        let mut window = 40_000;
        for _ in 0..200 {
            window = rounds.round(window, 200);
        }
        window
    };
    // The share λ·40/200 of what was delivered, again and again: nothing is left.
    assert_eq!(moved(DrwaParams::paper()), 2 * MSS);
    assert!(moved(DrwaParams::default()) > 40_000);
}

#[test]
fn its_own_queue_is_never_taken_for_a_longer_path() {
    let (_, rtt_ms) = settle(DrwaParams::default(), 1_000, 60, 20_000);
    assert!(rtt_ms < 190, "{rtt_ms} ms");
}

#[test]
fn a_hand_over_that_ends_in_time_teaches_nothing() {
    let mut rounds = Rounds::new(DrwaParams::default());
    rounds.round(40_000, 40);
    // 9 s of long round trips, one short one, and again.
    for _ in 0..5 {
        for _ in 0..9 {
            rounds.round(40_000, 1_000);
        }
        rounds.round(40_000, 100);
    }
    assert_eq!(rounds.drwa.rtt_min, Duration::from_millis(40));
}

#[test]
fn a_field_lowered_by_hand() {
    let scale = WindowScale::new(7);
    // The handshake allowed 1,000 bytes from 5,000 on.
    let mut field = WindowField::new(SeqNum::new(6_000), scale);
    assert_eq!(field.lower(SeqNum::new(5_000), 500, Bytes::new(12_800)), 100);
    assert_eq!(field.edge(), SeqNum::new(17_800));
    // A smaller limit: the edge stays until as much has been acknowledged.
    assert_eq!(field.lower(SeqNum::new(5_000), 500, Bytes::new(1_280)), 100);
    assert_eq!(field.lower(SeqNum::new(11_400), 500, Bytes::new(1_280)), 50);
    assert_eq!(field.lower(SeqNum::new(17_800), 500, Bytes::new(1_280)), 10);
    // Never beyond the receiver's own window, and zero stays zero.
    assert_eq!(field.lower(SeqNum::new(17_800), 7, Bytes::new(12_800)), 7);
    assert_eq!(field.lower(SeqNum::new(17_800), 0, Bytes::new(12_800)), 0);
    // Without a limit it is the receiver's.
    assert_eq!(field.lower(SeqNum::new(17_800), 500, Bytes::MAX), 500);
}

#[test]
fn a_limit_between_two_units_is_rounded_up() {
    let mut field = WindowField::new(SeqNum::new(0), WindowScale::new(10));
    assert_eq!(field.lower(SeqNum::new(0), 60, Bytes::new(1_025)), 2);
    assert_eq!(field.lower(SeqNum::new(1), 60, Bytes::new(1)), 2);
    let mut wide = WindowField::new(SeqNum::new(0), WindowScale::NONE);
    assert_eq!(wide.lower(SeqNum::new(0), u16::MAX, Bytes::new(1 << 40)), u16::MAX);
}

proptest! {
    /// Whatever is measured in whatever order: no window below two segments, no panic, the same answer twice.
    #[test]
    fn any_measurements_give_a_window(
        steps in proptest::collection::vec((0u64..20_000_000_000, 0u64..u64::MAX / 1_000, 0u64..u64::MAX), 1..60),
        lambda_permille in 0u32..1_000_000,
        alpha_permille in 0u32..2_000,
    ) {
        let params = DrwaParams { lambda_permille, alpha_permille, ..DrwaParams::default() };
        let run = || {
            let (mut drwa, mut now, mut total) = (drwa(params), Instant::ZERO, 0u64);
            steps.iter().map(|&(gap, data, rtt)| {
                now += Duration::from_nanos(gap);
                total = total.saturating_add(data);
                drwa.on_rtt(Duration::from_nanos(rtt));
                drwa.on_delivered(Bytes::new(total), now);
                if data % 7 == 0 { drwa.on_pause(); }
                drwa.window()
            }).collect::<Vec<_>>()
        };
        let windows = run();
        prop_assert!(windows.iter().all(|w| w.get() >= 2 * MSS));
        prop_assert_eq!(windows, run());
    }

    /// Over any acknowledgements: the edge told never moves back, unless the receiver's own does,
    /// and the window is never larger than the receiver's, nor smaller than the limit where the
    /// receiver allows that.
    #[test]
    fn the_right_edge_never_moves_back(
        start: u32,
        shift in 0u8..=14,
        steps in proptest::collection::vec((0u32..40_000, 0u16.., 0u64..3_000_000), 1..80),
    ) {
        let scale = WindowScale::new(shift);
        let mut ack = SeqNum::new(start);
        let mut field = WindowField::new(ack + 1_000, scale);
        let mut told = ack + 1_000;
        for (advance, own, limit) in steps {
            ack = ack + advance.min(told.distance_from(ack).max(0).unsigned_abs());
            let limit = Bytes::new(limit);
            let stated = field.lower(ack, own, limit);
            prop_assert!(stated <= own);
            let (edge, own_edge) = (ack + scale.window(stated), ack + scale.window(own));
            prop_assert!(edge.is_at_or_after(told.earlier_of(own_edge)), "{edge:?} after {told:?}");
            let least = limit.get().min(scale.window(own).into());
            prop_assert!(u64::from(scale.window(stated)) >= least);
            told = told.later_of(edge);
            prop_assert_eq!(told, field.edge());
        }
    }
}
