//! Clients and a server over virtual paths that lose, repeat, delay and reorder packets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod network;
mod strangers;

use network::{Network, Path, spec};
use probe::{Direction, Ending, Failure, Key, Pattern, Refusal, RunFigures, RunSpec};
use proptest::prelude::*;
use units::{Bytes, Duration, Instant, Rate};

const UP: Direction = Direction::Up;
const DOWN: Direction = Direction::Down;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the path does to control messages, each run ends, and its losses are those of the path.
    #[test]
    fn runs_end_and_their_losses_are_the_paths(
        seed: u64,
        loss_ppm in 0u32..300_000,
        repeat_ppm in 0u32..50_000,
        jitter_ms in 0u64..30,
        direction in prop_oneof![Just(UP), Just(DOWN)],
        has_key: bool,
    ) {
        let path = Path { loss_ppm, repeat_ppm, jitter: Duration::from_millis(jitter_ms), ..Path::default() };
        let mut net = Network::new(seed, path, has_key);
        // In ten seconds eight tries in a row can be lost, at three losses in ten.
        net.patience = Duration::from_secs(120);
        let client = net.client(has_key.then_some("key"));
        let spec = spec(direction, 2_000, 600);
        net.begin(client, spec);
        net.run();
        let log = net.log(client, 0);
        prop_assert_eq!(log.ending, Ending::Whole);
        let figures = RunFigures::of(log, &[], None);
        let truth = net.truth(direction);
        prop_assert_eq!(u64::from(figures.sent), spec.packets());
        prop_assert_eq!(u64::from(figures.lost.unwrap()), truth.lost);
        prop_assert_eq!(u64::from(figures.bursts.iter().map(|burst| burst.packets).sum::<u32>()), truth.lost);
        let arrivals: Vec<u32> = log.arrivals.iter().map(|arrival| arrival.number).collect();
        prop_assert_eq!(arrivals, truth.order);
    }

    /// What a server sends to addresses that prove nothing is never more than what came from them.
    #[test]
    fn nothing_is_reflected(
        seed: u64,
        datagrams in prop::collection::vec((0u16..4, prop::collection::vec(any::<u8>(), 0..120), 0u8..64), 1..60),
    ) {
        for has_key in [false, true] {
            let mut net = Network::new(seed, Path::default(), has_key);
            // A session that is there, for those who would use it.
            let client = net.client(has_key.then_some("key"));
            net.begin(client, spec(UP, 500, 50));
            net.run_for(Duration::from_millis(300));
            for (from, bytes, kind) in &datagrams {
                let mut forged = vec![0xce, 0x12, 1, *kind];
                forged.extend(bytes);
                net.forge(*from, &forged);
                net.forge(*from, bytes);
            }
            for from in 0..4 {
                let (came, went) = net.traffic_of(from);
                prop_assert!(went <= came, "{went} bytes for {came}");
            }
        }
    }
}

#[test]
fn round_trips_and_clocks_are_the_paths() {
    let path = Path {
        delay_up: Duration::from_millis(35),
        delay_down: Duration::from_millis(15),
        ..Path::default()
    };
    let mut net = Network::new(1, path, false);
    net.server_clock(Duration::from_secs(86_400), 150);
    let client = net.client(None);
    let run = RunSpec { is_echoed: true, payload: 44, ..spec(UP, 50, 10_000) };
    net.begin(client, run);
    net.run();
    let log = net.log(client, 0);
    let clock = probe::ClockEstimate::of(&log.echoes).unwrap();
    let figures = RunFigures::of(log, &[], Some(&clock));
    let rtt = figures.rtt.unwrap();
    assert!((rtt.min_ms - 50.0).abs() < 0.001 && (rtt.max_ms - 50.0).abs() < 0.001, "{rtt:?}");
    // Half the round trip is 25 ms; the truth, 35 ms, is inside the interval and not in its middle.
    let truth = net.server_ahead_ms(log.echoes[log.echoes.len() / 2].sent);
    assert!(clock.offset_low_ms <= truth && truth <= clock.offset_high_ms, "{clock:?} {truth}");
    assert!((clock.offset_high_ms - clock.offset_low_ms - 50.0).abs() < 0.1, "{clock:?}");
    assert!((clock.drift_ppm - 150.0).abs() < 1.0, "{clock:?}");
    // 150 ppm over 10 s are 1.5 ms, which are not the path's.
    assert!(figures.delay_variation.unwrap().max_ms < 0.1, "{:?}", figures.delay_variation);
    let blind = RunFigures::of(log, &[], None);
    assert!(blind.delay_variation.unwrap().max_ms > 1.4);
}

#[test]
fn a_client_whose_address_changes_goes_on() {
    for direction in [UP, DOWN] {
        let mut net = Network::new(3, Path::default(), true);
        let client = net.client(Some("key"));
        let spec = spec(direction, 1_000, 3_000);
        net.begin(client, spec);
        net.run_for(Duration::from_millis(1_000));
        net.move_client(client);
        net.run();
        let log = net.log(client, 0);
        assert_eq!((log.ending, log.summary.moves), (Ending::Whole, 1));
        let figures = RunFigures::of(log, &[], None);
        assert_eq!(u64::from(figures.sent), spec.packets());
        // Up nothing is lost; down what was sent to the old address until the new one was heard of.
        let most = if direction == UP { 0 } else { 300 };
        assert!(figures.lost.unwrap() <= most, "{direction:?}: {:?}", figures.lost);
    }
}

#[test]
fn a_stranger_cannot_draw_data_to_another_address() {
    let mut net = Network::new(4, Path::default(), false);
    let client = net.client(None);
    net.begin(client, spec(DOWN, 1_000, 1_000));
    net.run_for(Duration::from_millis(300));
    // Somebody who knows the session, but not the way back from the address he names.
    let stolen = net.last_from_client(client);
    net.forge(2, &stolen);
    net.run();
    let (came, went) = net.traffic_of(2);
    assert!(went <= came, "{went} for {came}");
    assert_eq!(net.log(client, 0).summary.moves, 0);
    assert_eq!(RunFigures::of(net.log(client, 0), &[], None).lost, Some(0));
}

#[test]
fn keys_and_versions_that_differ_are_named() {
    let refused = |server_has_key: bool, key: Option<&str>| {
        let mut net = Network::new(5, Path::default(), server_has_key);
        let client = net.client(key);
        net.run();
        net.failure(client)
    };
    let wrong = Some(Failure::Refused { reason: Refusal::WrongKey, detail: 0, version: 1 });
    assert_eq!(refused(true, None), wrong);
    assert_eq!(refused(true, Some("another")), wrong);
    assert_eq!(refused(false, Some("key")), wrong);
    assert_eq!(refused(true, Some("key")), None);
    let mut net = Network::new(5, Path::default(), false);
    net.server_version(7);
    let client = net.client(None);
    net.run();
    assert_eq!(
        net.failure(client),
        Some(Failure::Refused { reason: Refusal::Version, detail: 7, version: 7 })
    );
}

#[test]
fn a_server_that_is_not_there_or_disappears_leaves_what_was_measured() {
    let mut net = Network::new(6, Path::default(), false);
    net.stop_server();
    let client = net.client(None);
    net.run();
    assert_eq!(net.failure(client), Some(Failure::Unanswered));

    for direction in [UP, DOWN] {
        let mut net = Network::new(6, Path::default(), false);
        let client = net.client(None);
        net.begin(client, spec(direction, 1_000, 3_000));
        net.run_for(Duration::from_millis(1_500));
        net.stop_server();
        net.run();
        assert_eq!(net.failure(client), Some(Failure::Gone));
        let log = net.log(client, 0);
        assert_eq!(log.ending, Ending::ServerGone);
        let figures = RunFigures::of(log, &[], None);
        assert!(!figures.is_valid);
        let known = if direction == UP { Some(figures.sent) } else { figures.received };
        assert!(known.unwrap() > 1_000, "{figures:?}");
        // What is asked for after the end of the session ends too.
        net.begin(client, spec(direction, 1_000, 100));
        net.run();
        assert_eq!(net.log(client, 1).ending, Ending::ServerGone);
    }
}

#[test]
fn a_user_who_stops_gets_what_there_is() {
    for direction in [UP, DOWN] {
        let mut net = Network::new(7, Path::default(), false);
        let client = net.client(None);
        net.begin(client, spec(direction, 1_000, 9_000));
        net.run_for(Duration::from_millis(2_000));
        net.stop_client(client);
        net.run_for(Duration::from_millis(4_000));
        let log = net.log(client, 0);
        assert_eq!(log.ending, Ending::Stopped);
        let figures = RunFigures::of(log, &[], None);
        assert!(figures.received.unwrap() > 1_500 && figures.sent < 2_100, "{figures:?}");
    }
}

#[test]
fn what_is_under_way_when_a_user_stops_is_not_lost() {
    for direction in [UP, DOWN] {
        for (loss_ppm, jitter_ms) in [(0, 0), (0, 30), (100_000, 0), (100_000, 30)] {
            let jitter = Duration::from_millis(jitter_ms);
            let delay = Duration::from_millis(50);
            let path = Path { loss_ppm, jitter, delay_up: delay, delay_down: delay, ..Path::default() };
            let mut net = Network::new(17, path, false);
            let client = net.client(None);
            net.begin(client, spec(direction, 1_000, 9_000));
            net.run_for(Duration::from_millis(2_000));
            net.stop_client(client);
            net.run_for(Duration::from_millis(8_000));
            let log = net.log(client, 0);
            assert_eq!(log.ending, Ending::Stopped);
            let lost = RunFigures::of(log, &[], None).lost.unwrap();
            assert_eq!(u64::from(lost), net.truth(direction).lost, "{direction:?} {loss_ppm} {jitter_ms}");
        }
    }
}

#[test]
fn packets_that_the_path_doubles_come_back_once() {
    let path = Path { repeat_ppm: 300_000, loss_ppm: 50_000, ..Path::default() };
    let mut net = Network::new(18, path, false);
    let client = net.client(None);
    net.begin(client, RunSpec { is_echoed: true, payload: 44, ..spec(UP, 50, 20_000) });
    net.run();
    let log = net.log(client, 0);
    let numbers: std::collections::BTreeSet<u32> = log.echoes.iter().map(|echo| echo.number).collect();
    assert_eq!(numbers.len(), log.echoes.len(), "each once");
    // Each way loses one in twenty, and doubles three in ten.
    let (sent, came) = (log.departures.len() as f64, log.echoes.len() as f64);
    assert!((0.85..0.95).contains(&(came / sent)), "{came} of {sent}");
    assert!(log.repeated_echoes > 300, "{}", log.repeated_echoes);
}

#[test]
fn runs_of_several_clients_wait_for_each_other() {
    let mut net = Network::new(8, Path::default(), false);
    let clients: Vec<usize> = (0..3).map(|_| net.client(None)).collect();
    for client in &clients {
        net.begin(*client, spec(UP, 200, 2_000));
    }
    net.run();
    let mut spans: Vec<(Instant, Instant)> = clients
        .iter()
        .map(|client| {
            let departures = &net.log(*client, 0).departures;
            (departures.first().unwrap().unwrap(), departures.last().unwrap().unwrap())
        })
        .collect();
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0), "they overlap: {spans:?}");
    assert!(net.waited(clients[1]) + net.waited(clients[2]) >= 2);
}

#[test]
fn limits_hold_per_client_and_in_all() {
    let mut net = Network::new(9, Path::default(), false);
    let clients: Vec<usize> = (0..4).map(|_| net.client(None)).collect();
    net.run_for(Duration::from_secs(1));
    let failed: Vec<Failure> = clients.iter().filter_map(|client| net.failure(*client)).collect();
    // Three in all are let in.
    assert_eq!(failed, [Failure::Refused { reason: Refusal::Overloaded, detail: 3, version: 1 }]);

    let mut net = Network::new(9, Path::default(), false);
    let clients: Vec<usize> = (0..3).map(|_| net.client_of_one_host(None)).collect();
    net.run_for(Duration::from_secs(1));
    let failed: Vec<Failure> = clients.iter().filter_map(|client| net.failure(*client)).collect();
    assert_eq!(failed, [Failure::Refused { reason: Refusal::TooMany, detail: 2, version: 1 }]);

    let mut net = Network::new(9, Path::default(), false);
    let client = net.client(None);
    for run in [
        spec(UP, 100_000, 100),
        spec(UP, 10, 100_000),
        RunSpec { payload: 10, ..spec(UP, 10, 1_000) },
        // Twice 6 MB are more than 10 MB.
        spec(DOWN, 12_000, 500),
        spec(DOWN, 12_000, 500),
    ] {
        net.begin(client, run);
        net.run();
    }
    let denied = net.denied(client);
    assert_eq!(
        denied.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(),
        [Refusal::Rate, Refusal::Time, Refusal::Senseless, Refusal::Volume]
    );
    assert_eq!(denied[1].1, 60_000);
}

#[test]
fn a_search_finds_the_capacity_of_a_queue() {
    for direction in [UP, DOWN] {
        let bottleneck = Some((Rate::from_mbps(40), Bytes::new(600_000)));
        let mut net = Network::new(10, Path { bottleneck, ..Path::default() }, false);
        let client = net.client(None);
        net.begin(
            client,
            RunSpec {
                pattern: Pattern::Search,
                rate: Rate::from_mbps(90),
                payload: 1_222,
                ..spec(direction, 1, 10_000)
            },
        );
        net.run();
        let figures = RunFigures::of(net.log(client, 0), &[], None);
        let best = figures.best_second_mbps.unwrap();
        assert!((39.5..=40.5).contains(&best), "{direction:?}: {best}");
    }
}

#[test]
fn the_key_of_a_client_is_not_shown() {
    assert_eq!(format!("{:?}", Key::new(b"secret").unwrap()), "Key");
}

#[test]
fn silent_flows_hear_the_server_at_their_end_unless_the_path_forgot_them() {
    for has_key in [false, true] {
        let mut net = Network::new(11, Path { loss_ppm: 150_000, ..Path::default() }, has_key);
        // The path forgets who is silent for 70 s.
        net.forget_after(Duration::from_secs(70));
        let client = net.client(has_key.then_some("key"));
        net.run_for(Duration::from_secs(5));
        let ends = net.idle(client, has_key.then_some("key"), &[10, 60, 69, 71, 300]);
        use probe::IdleEnd::{Died, Lived};
        assert_eq!(ends, [Lived, Lived, Lived, Died, Died], "{has_key}");
    }
}
