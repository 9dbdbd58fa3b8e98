//! A download beside others of the same client that pass, in one schedule with them.
//!
//! ```text
//!   server ── 10 ms ── accelerator ── 20 Mbit/s, 20 ms, 1 MB queue ── client
//!   another server, passed ──────▲
//! ```

use control::{BbrParams, ControllerConfig, CubicParams};
use engine::{Action, Engine, EngineConfig, Rule};
use sim::{Application, LineUp, LogMode, Network};
use units::{Bytes, Duration, Instant, Rate};

const LINK: Rate = Rate::from_mbps(20);
const OTHERS_BEGIN: Instant = Instant::from_millis(3_000);

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1_000)
}

/// Downloads without end: one that is accelerated, and others that pass.
fn network(others: &[ControllerConfig], schedules: bool) -> Network<Engine> {
    let line_up = LineUp::server(Application::bulk(200_000_000))
        .wan(Rate::from_mbps(1_000), Duration::from_millis(10))
        .radio(LINK, Duration::from_millis(10))
        .client(Application::sink())
        .with(|config| {
            config.log = LogMode::Hash;
            config.radios[0].down.link.queue = link::QueueLimit::Bytes(Bytes::new(1_000_000));
            config.radios[0].down.link.keeps_log = true;
            for (number, controller) in (1..).zip(others) {
                let mut other = LineUp::flow(Application::bulk(200_000_000), Application::sink());
                other.server.local.set_port(443);
                other.client.remote.set_port(443);
                other.client.local.set_port(40_000 + number);
                other.server.remote.set_port(40_000 + number);
                other.server.controller = *controller;
                other.client.role = sim::Role::Connects(OTHERS_BEGIN);
                config.flows.push(other);
            }
        });
    let mut config = EngineConfig { schedule_passed: schedules, ..EngineConfig::default() };
    config.policy.rules.push(Rule {
        action: Action::Pass,
        client: None,
        server: None,
        port: Some(443..=443),
    });
    line_up.around(Engine::new(config).unwrap()).unwrap()
}

/// Bytes that each client reads between two times, and the longest wait in the radio queue, ms.
fn run(network: &mut Network<Engine>, from: u64, until: u64) -> (Vec<u64>, u64) {
    let read = |network: &Network<Engine>| -> Vec<u64> {
        network.clients().iter().map(sim::Endpoint::bytes_received).collect()
    };
    network.run_until(at(from)).unwrap();
    let before = read(network);
    network.run_until(at(until)).unwrap();
    let got = read(network).iter().zip(before).map(|(now, then)| now - then).collect();
    let records = network.radio_down(0).map(|path| path.link_mut().take_log()).unwrap();
    let waits = records.iter().filter(|packet| packet.arrival >= at(from));
    let longest = waits.filter_map(link::PacketRecord::queueing_delay).map(Duration::as_millis).max();
    (got, longest.unwrap_or(0))
}

#[test]
fn each_has_its_share_in_a_short_queue() {
    let cubic = ControllerConfig::Cubic(CubicParams::default());
    let bbr = ControllerConfig::Bbr(BbrParams::default());
    for others in [&[cubic][..], &[bbr], &[cubic, bbr, cubic]] {
        let (got, wait) = run(&mut network(others, true), 8, 28);
        let all: u64 = got.iter().sum();
        let link = LINK.bytes_in(Duration::from_secs(20)).get();
        println!("{got:?} of {link}, {wait} ms");
        assert!(all * 100 > link * 90, "{all} of {link}");
        for bytes in &got {
            assert!(bytes * got.len() as u64 * 10 > all * 8, "{got:?} with {others:?}");
        }
        assert!(wait < 150, "{wait} ms with {others:?}");
    }
    // Without the schedule the queue is as long as that of the others: the test can fail.
    let (_, wait) = run(&mut network(&[cubic], false), 8, 28);
    assert!(wait > 300, "{wait} ms");
}
