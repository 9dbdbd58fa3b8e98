//! Queues that mark: on the radio link behind the accelerator, where data to clients is ECN-capable on request, and on
//! the wired segment, where an accelerator dies.

use control::{ControllerConfig, CubicParams, NewRenoParams};
use engine::{ClientEcn, Engine, EngineConfig};
use link::Preset;
use sim::{Application, Crash, EndpointConfig, LineUp, LogMode, MarkResponse, Network, Restarting, Span};
use study::{Figures, Hosts, Link, Run, Way, codel, dual_pi2, figures};
use units::{Duration, Instant, Rate};

#[allow(dead_code, reason = "names of lines, which the example writes")]
#[path = "../examples/marking_queues/study.rs"]
mod study;

const NOT_ECT: Way = Way::Accelerated(ClientEcn::NotEct);
const ECT_0: Way = Way::Accelerated(ClientEcn::Ect0);

/// Several seeds of a download.
fn mean(run: &Run) -> Figures {
    let all: Vec<Figures> = (1..=2).map(|seed| figures(&Run { seed, ..run.clone() })).collect();
    let of = |of: fn(&Figures) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    Figures {
        goodput: vec![of(|f| f.goodput[0])],
        queue_mean: of(|f| f.queue_mean),
        queue_p95: of(|f| f.queue_p95),
        utilisation: of(|f| f.utilisation),
        marked: all.iter().map(|f| f.marked).sum(),
        dropped: all.iter().map(|f| f.dropped).sum(),
        marks_per_round_trip: of(|f| f.marks_per_round_trip),
    }
}

#[test]
fn h25_behind_a_queue_that_marks_a_download_is_as_fast_as_direct() {
    for aqm in [codel(), dual_pi2()] {
        for link in [Link::Steady(5), Link::Steady(20), Link::Trace(Preset::Lte4g)] {
            let [direct, not_ect, ect_0] =
                [Way::Direct, NOT_ECT, ECT_0].map(|way| mean(&Run::new(link, aqm, way, 1)));
            let all = format!("{aqm:?}, {}:\n{direct:?}\n{not_ect:?}\n{ect_0:?}", link.name());
            // The figures are worth something: the queue marks where it can, and drops elsewhere.
            assert!(direct.marked > 0 && ect_0.marked > 0 && not_ect.marked == 0, "{all}");
            assert!(ect_0.dropped * 10 <= not_ect.dropped, "{all}");
            for accelerated in [&not_ect, &ect_0] {
                assert!(accelerated.goodput[0] >= 0.98 * direct.goodput[0], "{all}");
            }
            // What varies has to be filled: there direct leaves a third of the link, and more, to nobody.
            let more_ms = if matches!(link, Link::Steady(_)) { 2.0 } else { 6.0 };
            assert!(ect_0.queue_mean <= direct.queue_mean + more_ms, "{all}");
            assert!(ect_0.queue_mean <= not_ect.queue_mean * 1.2, "{all}");
        }
    }
}

#[test]
fn h25_marks_of_the_radio_link_reach_no_server() {
    for hosts in [Hosts::Classic, Hosts::Accurate, Hosts::Scalable] {
        let reductions = |network: &mut Network<_>| {
            network.run_until(Instant::from_millis(5_000)).unwrap();
            assert!(network.clients()[0].bytes_received() > 1_000_000, "{hosts:?}");
            network.servers()[0].mark_reductions()
        };
        let config = EngineConfig { client_ecn: ClientEcn::Ect0, ..EngineConfig::default() };
        let restarting = |config: &EngineConfig| Restarting::new(config, Vec::new()).unwrap();
        let network = wired_marks(hosts, 0);
        assert_eq!(reductions(&mut Network::new(&network, restarting(&config)).unwrap()), 0, "{hosts:?}");
        // It hears of them where nobody is in between.
        let passes = EngineConfig { accelerate: false, ..config };
        assert!(reductions(&mut Network::new(&network, restarting(&passes)).unwrap()) > 10, "{hosts:?}");
    }
}

/// A download through an accelerator for some seconds. Until 0.6 s so many of a million packets are marked on the wired
/// segment, and always a hundredth on the radio link.
fn wired_marks(hosts: Hosts, ppm: u32) -> sim::NetworkConfig {
    let line_up = LineUp::server(Application::bulk(500_000_000))
        .wan(Rate::from_mbps(200), Duration::from_millis(10))
        .radio(Rate::from_mbps(30), Duration::from_millis(20))
        .client(Application::sink())
        .with(|config| {
            config.log = LogMode::Hash;
            config.wan_down.faults.mark_ppm = ppm;
            config.wan_down.faults.marks_in = Some(Span { from: Duration::ZERO, length: MARKED_UNTIL });
            config.radios[0].down.faults.mark_ppm = 10_000;
            let flow = &mut config.flows[0];
            for host in [&mut flow.server, &mut flow.client] {
                agree(host, hosts);
            }
        });
    line_up.config().clone()
}

const MARKED_UNTIL: Duration = Duration::from_millis(600);

fn agree(host: &mut EndpointConfig, hosts: Hosts) {
    let is_scalable = hosts == Hosts::Scalable;
    host.classic_ecn = hosts == Hosts::Classic;
    host.accurate_ecn = (!host.classic_ecn).then_some(true);
    host.mark_response = if is_scalable { MarkResponse::Scalable } else { MarkResponse::Classic };
    host.controller = if is_scalable {
        ControllerConfig::NewReno(NewRenoParams::default())
    } else {
        ControllerConfig::Cubic(CubicParams::default())
    };
}

/// An accelerator dies about when the last marks are told of: what its successor and the client say of them differs by
/// those of a round trip at most.
#[test]
fn h25_after_a_crash_a_source_reduces_at_most_once_in_vain() {
    for hosts in [Hosts::Classic, Hosts::Accurate, Hosts::Scalable] {
        for client_ecn in [ClientEcn::NotEct, ClientEcn::Ect0] {
            let network = wired_marks(hosts, 300_000);
            let config = EngineConfig { client_ecn, ..EngineConfig::default() };
            let mut reduced = 0;
            for after_ms in [0, 3, 11, 24, 40, 75] {
                let at = Instant::ZERO + MARKED_UNTIL + Duration::from_millis(after_ms);
                let mut before =
                    Network::new(&network, Restarting::new(&config, Vec::new()).unwrap()).unwrap();
                before.run_until(at).unwrap();
                let step = before.middlebox().steps();
                reduced += before.servers()[0].mark_reductions();
                let crash = Crash { step, records: 1, absent: Duration::from_millis(after_ms) };
                let dies = Restarting::new(&config, Vec::new()).unwrap().crashing(vec![crash]);
                let mut after = Network::new(&network, dies).unwrap();
                after.run_until(at).unwrap();
                let told = after.servers()[0].mark_reductions();
                after.run_until(at + Duration::from_secs(4)).unwrap();
                assert_eq!(after.middlebox().recovered(), [1, 0], "{hosts:?}");
                let more = after.servers()[0].mark_reductions() - told;
                assert!(more <= 1, "{hosts:?}, {client_ecn:?}: {more} after {after_ms} ms");
            }
            assert!(reduced > 6, "{hosts:?}: marks were told of before");
        }
    }
}

/// A scalable sender that passes takes turns with an accelerated download, and is marked here by a step.
#[test]
fn h25_a_scalable_flow_that_passes_is_marked_in_the_schedule_and_not_dropped() {
    let mut network = wired_marks(Hosts::Classic, 0);
    network.radios[0].down.faults.mark_ppm = 0;
    let mut other = LineUp::flow(Application::bulk(500_000_000), Application::sink());
    other.server.local.set_port(443);
    other.client.remote.set_port(443);
    other.client.local.set_port(40_001);
    other.server.remote.set_port(40_001);
    for host in [&mut other.server, &mut other.client] {
        agree(host, Hosts::Scalable);
    }
    network.flows.push(other);
    let mut config = EngineConfig::default();
    config.policy.rules.push("pass port 443".parse().unwrap());
    let mut network = Network::new(&network, Engine::new(config).unwrap()).unwrap();
    network.run_until(Instant::from_millis(3_000)).unwrap();
    let before: Vec<u64> = network.clients().iter().map(|client| client.bytes_received()).collect();
    network.run_until(Instant::from_millis(13_000)).unwrap();
    let got: Vec<u64> = network
        .clients()
        .iter()
        .zip(before)
        .map(|(client, before)| client.bytes_received() - before)
        .collect();
    let stats = network.middlebox().stats();
    assert!(stats.opaque_marked > 10 && stats.opaque_dropped == 0, "{stats:?}");
    assert!(network.servers()[1].mark_reductions() > 10);
    // 10 s of 30 Mbit/s are 37 MB: the link is in use, and nobody starves.
    assert!(got.iter().sum::<u64>() > 32_000_000, "{got:?}");
    assert!(got.iter().all(|got| *got > 10_000_000), "{got:?}");
}
