//! Hosts over a plain router: they must be right before anything between them can be judged.

use std::collections::BTreeMap;

use link::LossModel;
use units::{Duration, Rate, SeqNum, WindowScale};

use super::*;
use crate::{Application, Ending, Fault, FaultConfig, PassThrough, Pattern, ReceiveWindow, Role, Turn};

fn hosts(server: Application, client: Application) -> FlowConfig {
    let (s, c) = ("10.9.0.1:80".parse().unwrap(), "10.0.0.2:4000".parse().unwrap());
    let mut server = EndpointConfig::new(s, c, Role::Listens, server);
    server.isn = SeqNum::new(0xffff_ff00);
    let mut client = EndpointConfig::new(c, s, Role::Connects(Instant::ZERO), client);
    (client.writes, client.expects) = (Pattern::new(2), Pattern::new(1));
    FlowConfig { server, client }
}

fn line_up(flow: FlowConfig) -> NetworkConfig {
    let path = |mbps, ms| {
        PathConfig::constant(Rate::from_mbps(mbps), Duration::from_millis(ms), Bytes::from_kib(256))
    };
    NetworkConfig {
        wan_down: path(100, 5),
        wan_up: path(100, 5),
        radio_down: path(10, 20),
        radio_up: path(5, 20),
        flows: vec![flow],
        checks: CheckConfig { ends_by: Instant::ZERO + Duration::from_secs(300), ..CheckConfig::default() },
        log: LogMode::Text,
        merges_arrivals: false,
    }
}

fn run(config: &NetworkConfig) -> (Network<PassThrough>, Outcome) {
    let mut network = Network::new(config, PassThrough).unwrap();
    match network.run() {
        Ok(outcome) => (network, outcome),
        Err(error) => panic!("{error}\n{}", network.log().tail(60)),
    }
}

#[test]
fn a_download_fills_the_link_and_both_sides_close() {
    let (network, outcome) = run(&line_up(hosts(Application::bulk(5_000_000), Application::sink())));
    assert_eq!(network.clients()[0].bytes_read(), 5_000_000);
    // 5 MB at 10 Mbit/s are 4 s of payload and 0.2 s of headers.
    assert!((4_150..4_800).contains(&outcome.ended_at.as_millis()), "{}", outcome.ended_at);
    assert_eq!(network.clients()[0].stats().paws_rejected, 0);
}

#[test]
fn the_handshake_is_that_of_rfc_9293() {
    let (network, _) = run(&line_up(hosts(Application::bulk(10), Application::sink())));
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
    // After the first sixteen, three segments of 1448 bytes are a pair and one alone; the client's answer comes long
    // after.
    let server = Application { closing: crate::Closing::AfterPeer, ..Application::bulk(19 * 1_448) };
    let answer = Turn { after_reading: 19 * 1_448, pause: Duration::from_millis(200), send: 1 };
    let client = Application { turns: vec![answer], ..Application::bulk(0) };
    let (network, _) = run(&line_up(hosts(server, client)));
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
            let mut config = line_up(hosts(Application::bulk(10_000), Application::client(300)));
            let faults = FaultConfig::once(nth, Fault::Drop);
            if down {
                config.radio_down.faults = faults.clone();
            }
            if up {
                config.radio_up.faults = faults;
            }
            run(&config);
        }
    }
}

#[test]
fn options_can_be_left_out_one_by_one() {
    for bits in 0..16u32 {
        let mut flow = hosts(Application::server(400, 300_000), Application::client(400));
        if bits & 1 == 0 {
            flow.client.window_scale = None;
        }
        flow.client.sack = bits & 2 != 0;
        flow.client.timestamps = (bits & 4 != 0).then_some(0xffff_ff00);
        flow.client.syn_options = if bits & 8 != 0 { vec![222, 4, 1, 2] } else { Vec::new() };
        let mut config = line_up(flow);
        config.radio_down.link.loss_after = LossModel::Bernoulli { ppm: 20_000 };
        let (network, _) = run(&config);
        assert!(!network.log().text().contains("unknown") || bits & 8 != 0);
    }
}

#[test]
fn a_fixed_window_is_never_exceeded_and_limits_the_rate() {
    let mut flow = hosts(Application::bulk(500_000), Application::sink());
    flow.client.window = ReceiveWindow::Fixed(Bytes::new(17_664));
    let (network, outcome) = run(&line_up(flow));
    assert_eq!(network.clients()[0].stats().out_of_window_segments, 0);
    // 17.6 KB per round trip of at least 50 ms: 500 KB take at least 1.4 s.
    assert!(outcome.ended_at.as_millis() > 1_400, "{}", outcome.ended_at);
}

#[test]
fn a_slow_reader_closes_its_window_and_loses_nothing() {
    let mut flow = hosts(
        Application::bulk(300_000),
        Application::sink().reading_slowly(20_000, Duration::from_millis(700)),
    );
    flow.client.window = ReceiveWindow::Fixed(Bytes::new(40_000));
    let (network, _) = run(&line_up(flow));
    assert!(network.log().text().contains("win 0,"));
    assert_eq!(network.clients()[0].bytes_read(), 300_000);
}

#[test]
fn half_close_leaves_the_other_direction_open() {
    let flow = hosts(
        Application {
            turns: vec![Turn { after_reading: 50_000, pause: Duration::from_millis(500), send: 200_000 }],
            ..Application::bulk(0)
        },
        Application::bulk(50_000).half_closing(),
    );
    let (network, _) = run(&line_up(flow));
    assert_eq!((network.servers()[0].bytes_read(), network.clients()[0].bytes_read()), (50_000, 200_000));
}

#[test]
fn an_abort_resets_the_peer_and_a_closed_port_refuses() {
    let flow = hosts(Application::bulk(3_000_000), Application::sink().aborting_after(500_000));
    let (network, _) = run(&line_up(flow));
    assert_eq!(network.clients()[0].ending(), Some(Ending::Aborted));
    assert_eq!(network.servers()[0].ending(), Some(Ending::Reset));

    let mut flow = hosts(Application::bulk(10), Application::sink());
    flow.server.role = Role::Refuses;
    let (network, _) = run(&line_up(flow));
    assert_eq!(network.clients()[0].ending(), Some(Ending::Refused));
}

#[test]
fn a_corrupted_segment_is_not_taken() {
    let mut config = line_up(hosts(Application::bulk(100_000), Application::sink()));
    config.radio_down.faults = FaultConfig {
        scheduled: BTreeMap::from([(9, Fault::Corrupt), (20, Fault::Corrupt)]),
        ..FaultConfig::default()
    };
    let (network, _) = run(&config);
    assert_eq!(network.clients()[0].stats().bad_checksums, 2);
}

#[test]
fn held_back_and_doubled_packets_change_nothing_in_the_stream() {
    let mut config = line_up(hosts(Application::bulk(400_000), Application::client(40_000)));
    for path in [&mut config.wan_down, &mut config.radio_up] {
        path.faults = FaultConfig {
            hold_back_ppm: 30_000,
            hold_back_max: Duration::from_millis(30),
            duplicate_ppm: 20_000,
            seed: 3,
            ..FaultConfig::default()
        };
    }
    run(&config);
}

#[test]
fn ipv6_and_merged_arrivals_work_alike() {
    let mut flow = hosts(Application::bulk(400_000), Application::client(2_000));
    let (s, c) = ("[fd00:9::1]:80".parse().unwrap(), "[fd00::2]:4000".parse().unwrap());
    (flow.server.local, flow.server.remote, flow.client.local, flow.client.remote) = (s, c, c, s);
    flow.server.mss = 1_440;
    flow.client.window_scale = Some(WindowScale::new(2));
    let mut config = line_up(flow);
    config.wan_down.link.capacity = link::Capacity::Unlimited;
    config.merges_arrivals = true;
    run(&config);
}

#[test]
fn the_same_run_twice_gives_the_same_log() {
    let mut config = line_up(hosts(Application::bulk(300_000), Application::client(3_000)));
    config.radio_down.link.loss_after = LossModel::Bernoulli { ppm: 10_000 };
    config.radio_up.link.loss_before = LossModel::Bernoulli { ppm: 10_000 };
    let (a, b) = (run(&config), run(&config));
    assert_eq!(a.1, b.1);
    assert_eq!(a.0.log().text(), b.0.log().text());
    config.radio_down.link.seed = 2;
    assert_ne!(run(&config).1.log_hash, a.1.log_hash);
}

#[test]
fn a_flow_that_cannot_end_is_reported_with_its_state() {
    let mut config = line_up(hosts(Application::bulk(300_000), Application::sink()));
    config.radio_down.link.outages =
        link::OutageModel::Scheduled(vec![(Duration::from_millis(300), Duration::from_secs(3_600))]);
    let mut network = Network::new(&config, PassThrough).unwrap();
    let error = network.run().unwrap_err().to_string();
    assert!(error.contains("flow 0 does not end: server: under way"), "{error}");
}
