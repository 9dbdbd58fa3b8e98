//! Hosts over a plain router: they must be right before anything between them can be judged.

use std::collections::BTreeMap;

use engine::PassThrough;
use link::LossModel;
use units::{Duration, Rate, SeqNum, WindowScale};

use super::*;
use crate::{Application, Ending, Fault, FaultConfig, LineUp, PlannedWrite, ReceiveWindow, Role};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn line_up(server: Application, client: Application) -> LineUp {
    LineUp::server(server).wan(Rate::from_mbps(100), MS(5)).radio(Rate::from_mbps(10), MS(20)).client(client)
}

fn run(line_up: &LineUp) -> (Network<PassThrough>, Outcome) {
    let mut network = line_up.around(PassThrough).unwrap();
    match network.run() {
        Ok(outcome) => (network, outcome),
        Err(error) => panic!("{error}\n{}", network.log().tail(60)),
    }
}

#[test]
fn a_download_fills_the_link_and_both_sides_close() {
    let (network, outcome) = run(&line_up(Application::bulk(5_000_000), Application::sink()));
    assert_eq!(network.clients()[0].bytes_read(), 5_000_000);
    // 5 MB at 10 Mbit/s are 4 s of payload and 0.2 s of headers.
    assert!((4_150..4_800).contains(&outcome.ended_at.as_millis()), "{}", outcome.ended_at);
    assert_eq!(network.clients()[0].stats().paws_rejected, 0);
}

#[test]
fn the_handshake_is_that_of_rfc_9293() {
    let (network, _) = run(&line_up(Application::bulk(10), Application::sink()));
    let sent = |point: &str| {
        let text = network.log().text();
        text.lines().filter(|l| l.contains(point)).map(str::to_owned).collect::<Vec<_>>()
    };
    let syn = &sent("client>")[0];
    assert!(
        syn.contains("Flags [S], seq 1000, win 65535, options [mss 1460,sackOK,TS val 1000 ecr 0,wscale 7]"),
        "{syn}"
    );
    let syn_ack = &sent("server>")[0];
    assert!(syn_ack.contains("Flags [S.], seq 4294967040, ack 1001"), "{syn_ack}");
    assert!(syn_ack.contains("TS val 1025 ecr 1000"), "{syn_ack}");
    let third = &sent("client>")[1];
    assert!(third.contains("Flags [.], seq 1001, ack 4294967041") && third.contains("ecr 1025"), "{third}");
}

#[test]
fn acknowledgements_come_at_once_at_first_then_for_every_second_segment_or_after_40_ms() {
    // After the first sixteen, three segments of 1448 bytes are a pair and one alone; the client's
    // answer comes long after.
    let server = Application { closing: crate::Closing::AfterPeer, ..Application::bulk(19 * 1_448) };
    let answer = PlannedWrite { after_reading: 19 * 1_448, pause: Duration::from_millis(200), send: 1 };
    let client = Application { writes: vec![answer], ..Application::bulk(0) };
    let (network, _) = run(&line_up(server, client));
    let at = |point: &str, what: &str| {
        let text = network.log().text();
        let line =
            text.lines().find(|l| l.contains(point) && l.contains(what)).unwrap_or_else(|| panic!("{what}"));
        let seconds: f64 = line.split('s').next().unwrap().parse().unwrap();
        (seconds * 1e6).round() as u64
    };
    let start = SeqNum::new(0xffff_ff01);
    let first = start + 1_448;
    assert_eq!(at("client>", &format!("ack {first},")), at(">client", &format!("seq {start}:")));
    let (second, third) = (start + 17 * 1_448, start + 18 * 1_448);
    assert_eq!(at("client>", &format!("ack {third},")), at(">client", &format!("seq {second}:")));
    let end = third + 1_448;
    assert_eq!(at("client>", &format!("ack {end},")), at(">client", &format!("seq {third}:")) + 40_000);
}

#[test]
fn every_loss_pattern_of_a_short_download_is_repaired() {
    for nth in 0..12 {
        for (down, up) in [(true, false), (false, true)] {
            let faults = FaultConfig::once(nth, Fault::Drop);
            run(&line_up(Application::bulk(10_000), Application::client(300)).with(|config| {
                let radio = &mut config.radios[0];
                if down {
                    radio.down.faults = faults.clone();
                }
                if up {
                    radio.up.faults = faults;
                }
            }));
        }
    }
}

#[test]
fn options_can_be_left_out_one_by_one() {
    for bits in 0..16u32 {
        let line_up = line_up(Application::server(400, 300_000), Application::client(400)).with(|config| {
            let client = &mut config.flows[0].client;
            if bits & 1 == 0 {
                client.window_scale = None;
            }
            client.sack = bits & 2 != 0;
            client.timestamps = (bits & 4 != 0).then_some(0xffff_ff00);
            client.syn_options = if bits & 8 != 0 { vec![222, 4, 1, 2] } else { Vec::new() };
            config.radios[0].down.link.loss_after = LossModel::Bernoulli { ppm: 20_000 };
        });
        let (network, _) = run(&line_up);
        assert!(!network.log().text().contains("unknown") || bits & 8 != 0);
    }
}

#[test]
fn a_fixed_window_is_never_exceeded_and_limits_the_rate() {
    let line_up = line_up(Application::bulk(500_000), Application::sink())
        .with(|config| config.flows[0].client.window = ReceiveWindow::Fixed(Bytes::new(17_664)));
    let (network, outcome) = run(&line_up);
    assert_eq!(network.clients()[0].stats().out_of_window_segments, 0);
    // 17.6 KB per round trip of at least 50 ms: 500 KB take at least 1.4 s.
    assert!(outcome.ended_at.as_millis() > 1_400, "{}", outcome.ended_at);
}

#[test]
fn a_slow_reader_closes_its_window_and_loses_nothing() {
    let line_up = line_up(Application::bulk(300_000), Application::sink().reading_slowly(20_000, MS(700)))
        .with(|config| config.flows[0].client.window = ReceiveWindow::Fixed(Bytes::new(40_000)));
    let (network, _) = run(&line_up);
    assert!(network.log().text().contains("win 0,"));
    assert_eq!(network.clients()[0].bytes_read(), 300_000);
}

#[test]
fn half_close_leaves_the_other_direction_open() {
    let server = Application {
        writes: vec![PlannedWrite { after_reading: 50_000, pause: MS(500), send: 200_000 }],
        ..Application::bulk(0)
    };
    let (network, _) = run(&line_up(server, Application::bulk(50_000).half_closing()));
    assert_eq!((network.servers()[0].bytes_read(), network.clients()[0].bytes_read()), (50_000, 200_000));
}

#[test]
fn an_abort_resets_the_peer_and_a_closed_port_refuses() {
    let (network, _) =
        run(&line_up(Application::bulk(3_000_000), Application::sink().aborting_after(500_000)));
    assert_eq!(network.clients()[0].ending(), Some(Ending::Aborted));
    assert_eq!(network.servers()[0].ending(), Some(Ending::Reset));

    let line_up = line_up(Application::bulk(10), Application::sink())
        .with(|config| config.flows[0].server.role = Role::Refuses);
    let (network, _) = run(&line_up);
    assert_eq!(network.clients()[0].ending(), Some(Ending::Refused));
}

#[test]
fn a_corrupted_segment_is_not_taken() {
    let line_up = line_up(Application::bulk(100_000), Application::sink()).with(|config| {
        config.radios[0].down.faults = FaultConfig {
            scheduled: BTreeMap::from([(9, Fault::Corrupt), (20, Fault::Corrupt)]),
            ..FaultConfig::default()
        };
    });
    let (network, _) = run(&line_up);
    assert_eq!(network.clients()[0].stats().bad_checksums, 2);
}

#[test]
fn held_back_and_doubled_packets_change_nothing_in_the_stream() {
    let faults = FaultConfig {
        hold_back_ppm: 30_000,
        hold_back_max: MS(30),
        duplicate_ppm: 20_000,
        seed: 3,
        ..FaultConfig::default()
    };
    run(&line_up(Application::bulk(400_000), Application::client(40_000)).with(|config| {
        config.wan_down.faults = faults.clone();
        config.radios[0].up.faults = faults;
    }));
}

#[test]
fn ipv6_and_merged_arrivals_work_alike() {
    run(&line_up(Application::bulk(400_000), Application::client(2_000)).with(|config| {
        let FlowConfig { server, client, .. } = &mut config.flows[0];
        let (s, c) = ("[fd00:9::1]:80".parse().unwrap(), "[fd00::2]:4000".parse().unwrap());
        (server.local, server.remote, client.local, client.remote) = (s, c, c, s);
        server.mss = 1_440;
        client.window_scale = Some(WindowScale::new(2));
        config.wan_down.link.capacity = link::Capacity::Unlimited;
        config.merges_arrivals = true;
    }));
}

#[test]
fn the_same_run_twice_gives_the_same_log() {
    let line_up = line_up(Application::bulk(300_000), Application::client(3_000)).with(|config| {
        let radio = &mut config.radios[0];
        radio.down.link.loss_after = LossModel::Bernoulli { ppm: 10_000 };
        radio.up.link.loss_before = LossModel::Bernoulli { ppm: 10_000 };
    });
    let (a, b) = (run(&line_up), run(&line_up));
    assert_eq!(a.1, b.1);
    assert_eq!(a.0.log().text(), b.0.log().text());
    let other = line_up.with(|config| config.radios[0].down.link.seed = 2);
    assert_ne!(run(&other).1.log_hash, a.1.log_hash);
}

#[test]
fn a_flow_that_cannot_end_is_reported_with_its_state() {
    let outage = link::OutageModel::Scheduled(vec![(MS(300), Duration::from_secs(3_600))]);
    let mut network = line_up(Application::bulk(300_000), Application::sink())
        .with(|config| config.radios[0].down.link.outages = outage)
        .around(PassThrough)
        .unwrap();
    let error = network.run().unwrap_err().to_string();
    assert!(error.contains("flow 0 does not end: server: under way"), "{error}");
}
