//! A download beside another one of the same client that the engine passes, in one radio queue.
//!
//! ```text
//!   server ── 10 ms ── accelerator ── 20 Mbit/s, 20 ms, 1 MB queue ── client
//!   another server, CUBIC, passed ──────────────▲
//! ```

use control::{AdaptiveParams, ControllerConfig, CubicParams, Term, Terms};
use engine::{Action, Engine, EngineConfig, Rule};
use sim::{Application, LineUp, LogMode, Network};
use units::{Bytes, Duration, Instant, Rate};

const LINK: Rate = Rate::from_mbps(20);
/// The other download begins here, and has 20 MB: alone it would take 8 s.
const OTHER_BEGINS: Instant = Instant::from_millis(3_000);
const OTHER_BYTES: u64 = 20_000_000;
const OWN_BYTES: u64 = 90_000_000;

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1_000)
}

/// A download of the control without some terms, and maybe another one beside it.
fn network(without: Terms, has_other: bool) -> Network<Engine> {
    let line_up = LineUp::server(Application::bulk(OWN_BYTES))
        .wan(Rate::from_mbps(1_000), Duration::from_millis(10))
        .radio(LINK, Duration::from_millis(10))
        .client(Application::sink())
        .with(|config| {
            config.log = LogMode::Hash;
            config.radios[0].down.link.queue = link::QueueLimit::Bytes(Bytes::new(1_000_000));
            config.radios[0].down.link.keeps_log = true;
            if has_other {
                let mut other = LineUp::flow(Application::bulk(OTHER_BYTES), Application::sink());
                other.server.local.set_port(443);
                other.client.remote.set_port(443);
                other.client.local.set_port(40_001);
                other.server.remote.set_port(40_001);
                other.server.controller = ControllerConfig::Cubic(CubicParams::default());
                other.client.role = sim::Role::Connects(OTHER_BEGINS);
                config.flows.push(other);
            }
        });
    let params = AdaptiveParams { without, ..AdaptiveParams::default() };
    let mut config =
        // What passes is not in one schedule with it, as where nothing steers it to the accelerator.
        EngineConfig {
            controller: ControllerConfig::Adaptive(params),
            schedule_passed: false,
            ..EngineConfig::default()
        };
    config.policy.rules.push(Rule {
        action: Action::Pass,
        client: None,
        server: None,
        port: Some(443..=443),
    });
    line_up.around(Engine::new(config).unwrap()).unwrap()
}

fn read(network: &Network<Engine>, flow: usize) -> u64 {
    network.clients()[flow].bytes_received()
}

/// Longest wait in the radio queue from `from` on, of what left until `until`.
fn longest_wait_ms(network: &mut Network<Engine>, from: Instant, until: Instant) -> u64 {
    let records = network.radio_down(0).map(|path| path.link_mut().take_log()).unwrap();
    let waits = records.iter().filter(|packet| packet.arrival >= from && packet.arrival < until);
    waits.filter_map(link::PacketRecord::queueing_delay).map(Duration::as_millis).max().unwrap_or(0)
}

#[test]
fn it_does_not_starve_beside_one_that_fills_the_queue_and_goes_back_when_that_ends() {
    // Without the term it gets next to nothing: the test can fail.
    let mut shares = [0.0; 2];
    for (share, without) in shares.iter_mut().zip([Terms::NONE, Terms::NONE.with(Term::Competition)]) {
        let mut network = network(without, true);
        network.run_until(at(5)).unwrap();
        let before = [read(&network, 0), read(&network, 1)];
        network.run_until(at(11)).unwrap();
        let got = [read(&network, 0) - before[0], read(&network, 1) - before[1]];
        *share = got[0] as f64 / (got[0] + got[1]) as f64;
        assert!(got[1] > 0, "both had data all the time: {got:?}");
        if without == Terms::NONE {
            let mut until = 12;
            while read(&network, 1) < OTHER_BYTES {
                until += 1;
                assert!(until < 40, "the other one never ends");
                network.run_until(at(until)).unwrap();
            }
            // The full queue was of 400 ms. Two looks find nobody, and what is in flight has to leave.
            for (after, most_ms) in [(6, 70), (14, 70)] {
                network.run_until(at(until + after)).unwrap();
                let wait = longest_wait_ms(&mut network, at(until + after - 2), at(until + after));
                assert!(wait < most_ms, "{after} s after: {wait} ms");
            }
        }
    }
    assert!(shares[0] > 0.3, "{shares:?}");
    assert!(shares[1] < 0.15, "{shares:?}");
}

#[test]
fn alone_it_never_competes() {
    let got = [Terms::NONE, Terms::NONE.with(Term::Competition)].map(|without| {
        let mut network = network(without, false);
        network.run_until(at(20)).unwrap();
        (read(&network, 0), longest_wait_ms(&mut network, at(0), at(20)))
    });
    assert_eq!(got[0], got[1]);
}
