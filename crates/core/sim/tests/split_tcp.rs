//! Conventional split TCP (I-TCP) as an engine mode: a window of CUBIC's or BBR's per flow on the
//! mobile segment.

// Helpers of a test are test code too, which the lint cannot know.

use control::ControllerConfig;
use engine::{Engine, EngineConfig, PassThrough, Sharing};
use link::{LossModel, QueueLimit};
use sim::{Application, LineUp, LogMode, Network};
use units::{Bytes, Duration, Instant, Rate};

const SIZE: u64 = 2_000_000;

/// Two downloads of one client over a far server, a small radio queue and random loss on the radio link.
fn line_up() -> LineUp {
    let ms = Duration::from_millis;
    LineUp::server(Application::bulk(SIZE))
        .wan(Rate::from_mbps(1_000), ms(40))
        .radio(Rate::from_mbps(20), ms(10))
        .client(Application::sink())
        .with(|config| {
            let mut second = config.flows[0].clone();
            second.client.local.set_port(40_001);
            second.server.remote.set_port(40_001);
            config.flows.push(second);
            config.log = LogMode::Hash;
            // What is lost is lost on the radio link.
            config.wan_down.link.queue = QueueLimit::Unlimited;
            let radio = &mut config.radios[0].down.link;
            radio.queue = QueueLimit::Bytes(Bytes::new(100_000));
            radio.loss_after = LossModel::Bernoulli { ppm: 5_000 };
        })
}

fn split(controller: &str) -> Network<Engine> {
    let controller = ControllerConfig::named(controller).unwrap();
    let config = EngineConfig { controller, sharing: Sharing::Flow, ..EngineConfig::default() };
    line_up().around(Engine::new(config).unwrap()).unwrap()
}

fn seconds<M: sim::MiddleboxUnderTest>(network: &mut Network<M>) -> f64 {
    network.run().unwrap().ended_at.saturating_since(Instant::ZERO).as_secs_f64()
}

#[test]
fn the_mobile_segment_is_repaired_where_it_loses() {
    let cubic = ControllerConfig::named("cubic").unwrap();
    let direct = line_up().with(|c| c.flows.iter_mut().for_each(|flow| flow.server.controller = cubic));
    let mut direct = direct.around(PassThrough).unwrap();
    let took = seconds(&mut direct);
    let resent: u64 = direct.servers().iter().map(|s| s.stats().retransmitted_segments).sum();
    assert!(resent > 5, "{resent}");
    for controller in ["cubic", "bbr", "new-reno"] {
        let mut network = split(controller);
        let split_took = seconds(&mut network);
        // The servers learn nothing of it, but that their ends of stream are acknowledged late.
        let by_servers: u64 = network.servers().iter().map(|s| s.stats().retransmitted_segments).sum();
        assert!(by_servers <= 4 && by_servers < resent, "{controller}: {by_servers} of {resent}");
        // The shorter way round is the faster repair.
        assert_eq!(network.middlebox().stats().flows_accelerated, 2);
        assert!(split_took < took, "{controller}: {split_took} s after {took} s");
    }
}

#[test]
fn each_flow_has_a_window_of_its_own() {
    let mut network = split("cubic");
    network.run_until(Instant::from_millis(700)).unwrap();
    let flows: Vec<_> = network.middlebox().flow_reports(0).collect();
    assert_eq!(flows.len(), 2);
    assert!(flows.iter().all(|f| Some(f.in_flight) <= f.subscriber_window.map(|w| w + Bytes::new(1_448))));
    let windows: Vec<_> = flows.iter().map(|f| f.subscriber_window).collect();
    assert_ne!(windows[0], windows[1], "random loss has met them at different times");
}
