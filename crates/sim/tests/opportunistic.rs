//! H18: what is sent beyond a client's window is discarded while something before it is missing, or when the client reads slowly.
//!
//! ```text
//!   server ── 1 Gbit/s, 5 ms ── accelerator ── radio ── client with a window of 16 or 17 KB
//! ```

#![allow(clippy::unwrap_used, clippy::panic)]

use control::{ControllerConfig, RateParams};
use engine::{Engine, EngineConfig, WindowPolicy};
use link::{Fades, LossModel, QueueLimit};
use sim::{Application, LineUp, LogMode, Network, NetworkConfig, ReceiveWindow, Role};
use units::{Bytes, Duration, Instant, Rate};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A client that reads like `app`, from 100 Mbit/s.
fn network(
    controller: ControllerConfig,
    (size, app): (u64, Application),
    change: impl FnOnce(&mut NetworkConfig),
) -> Network<Engine> {
    let window_policy = WindowPolicy::Opportunistic;
    let engine = EngineConfig { controller, window_policy, ..EngineConfig::default() };
    LineUp::server(Application::bulk(size))
        .wan(Rate::from_mbps(1_000), MS(5))
        .radio(Rate::from_mbps(100), MS(5))
        .client(app)
        .with(|config| {
            config.log = LogMode::Hash;
            config.merges_arrivals = true;
            config.wan_down.link.queue = QueueLimit::Unlimited;
            config.radios[0].down.link.queue = QueueLimit::Bytes(Bytes::new(2_000_000));
        })
        .with(change)
        .around(Engine::new(engine).unwrap())
        .unwrap()
}

fn controllers() -> [ControllerConfig; 2] {
    let rate = RateParams { r_cap: Rate::from_mbps(100), ..RateParams::default() };
    [ControllerConfig::named("adaptive").unwrap(), ControllerConfig::Rate(rate)]
}

fn seconds(network: &mut Network<Engine>) -> f64 {
    network.run().unwrap().ended_at.saturating_since(Instant::ZERO).as_secs_f64()
}

#[test]
fn h18_a_hole_costs_little_more_than_a_round_trip() {
    for controller in controllers() {
        for (fades, loss) in [
            (Some(Fades::random(MS(800), MS(4), 1_000_000)), LossModel::None),
            (
                None,
                LossModel::GilbertElliott {
                    to_bad_ppm: 280,
                    to_good_ppm: 300_000,
                    good_loss_ppm: 0,
                    bad_loss_ppm: 1_000_000,
                },
            ),
        ] {
            let [small, large] = [17_000, 1_000_000].map(|window| {
                let mut network = network(controller, (40_000_000, Application::sink()), |config| {
                    config.flows[0].client.window = ReceiveWindow::Fixed(Bytes::new(window));
                    let radio = &mut config.radios[0].down.link;
                    (radio.fades, radio.loss_after) = (fades.clone(), loss);
                });
                seconds(&mut network)
            });
            assert!(small < large * 1.12, "{}: {small} s, without discards {large} s", controller.name());
        }
    }
}

#[test]
fn h18_slow_readers_have_little_sent_again() {
    const READERS: u16 = 30;
    const CONTENT: u64 = 600_000;
    for controller in controllers() {
        for every in [1, 3, 20] {
            let reader = Application::sink().reading_slowly(8_192, MS(every));
            let mut network = network(controller, (CONTENT, reader), |config| {
                let flow = |n| {
                    let mut flow = config.flows[0].clone();
                    flow.client.local.set_port(40_000 + n);
                    flow.server.remote.set_port(40_000 + n);
                    flow.client.window = ReceiveWindow::Fixed(Bytes::new(16_384));
                    let begins = Duration::from_micros(u64::from(n) * 700);
                    flow.client.role = Role::Connects(Instant::ZERO + begins);
                    flow
                };
                config.flows = (0..READERS).map(flow).collect();
            });
            seconds(&mut network);
            let again = |stats: &sim::EndpointStats| stats.out_of_window_segments + stats.duplicate_segments;
            let again: u64 = network.clients().iter().map(|client| again(client.stats()) * 1_448).sum();
            let delivered = u64::from(READERS) * CONTENT;
            assert!(again < delivered / 6, "{}, {every} ms: {again} of {delivered} again", controller.name());
        }
    }
}
