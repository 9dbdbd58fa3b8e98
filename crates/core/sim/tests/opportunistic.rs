//! H18: what is sent beyond a client's window is discarded while something before it is missing, or
//! when the client reads slowly.
//!
//! ```text
//!   server ── 1 Gbit/s, 5 ms ── accelerator ── radio ── client with a window of 16 or 17 KB
//! ```

use control::{ControllerConfig, RateParams};
use engine::{Engine, EngineConfig, WindowPolicy};
use link::{Fades, Harq, LossModel, QueueLimit};
use sim::{
    Application, BeyondWindow, Endpoint, EndpointConfig, LineUp, LogMode, Network, NetworkConfig,
    ReceiveWindow, Role, build_packet,
};
use units::{Bytes, Duration, Instant, Rate, SeqNum};
use wire::{TcpFlags, TcpHeaderSpec};

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
            println!("{}, {every} ms: {again} of {delivered}", controller.name());
            assert!(again < delivered, "{}, {every} ms: {again} of {delivered} again", controller.name());
        }
    }
}

/// Behind repairs in order more than a window arrives at once, and nobody is awake to read it.
fn behind_repairs(controller: ControllerConfig, policy: WindowPolicy) -> Network<Engine> {
    let engine = EngineConfig { controller, window_policy: policy, ..EngineConfig::default() };
    let reader = Application::sink().reading_after(Duration::from_micros(50));
    LineUp::server(Application::bulk(8_000_000))
        .wan(Rate::from_mbps(1_000), MS(2))
        .radio(Rate::from_mbps(80), MS(9))
        .client(reader)
        .with(|config| {
            config.log = LogMode::Hash;
            config.merges_arrivals = true;
            config.flows[0].client.window = ReceiveWindow::Fixed(Bytes::new(17_000));
            let radio = &mut config.radios[0].down.link;
            radio.queue = QueueLimit::Bytes(Bytes::new(2_000_000));
            radio.harq = Some(Harq::default());
        })
        .around(Engine::new(engine).unwrap())
        .unwrap()
}

#[test]
fn h18_a_client_that_wakes_up_late_is_not_served_slower_than_by_its_window() {
    for controller in controllers() {
        let honoured = seconds(&mut behind_repairs(controller, WindowPolicy::Honour));
        let mut network = behind_repairs(controller, WindowPolicy::Opportunistic);
        let taken = seconds(&mut network);
        let stats = network.clients()[0].stats();
        let again = (stats.out_of_window_segments + stats.duplicate_segments) * 1_448;
        println!("{}: {honoured} s honoured, {taken} s, {again} bytes for nothing", controller.name());
        assert!(taken < honoured * 0.85, "{}: {taken} s, honoured {honoured} s", controller.name());
        assert!(again < 8_000_000 / 3, "{}: {again} bytes for nothing", controller.name());
    }
}

#[test]
fn h18_a_rare_overflow_does_not_send_a_flow_back_to_its_window() {
    // Now and then what a repair of 4 ms has held back arrives at once.
    for controller in controllers() {
        let [never, sometimes] = [Duration::ZERO, MS(4)].map(|stall| {
            let mut network = network(controller, (20_000_000, Application::sink()), |config| {
                config.flows[0].client.window = ReceiveWindow::Fixed(Bytes::new(17_000));
                config.flows[0].client.app =
                    config.flows[0].client.app.clone().reading_after(Duration::from_micros(50));
                if !stall.is_zero() {
                    config.radios[0].down.link.harq =
                        Some(Harq { block_error_ppm: 300, retry_time: stall, ..Harq::default() });
                }
            });
            seconds(&mut network)
        });
        println!("{}: {never} s, with overflows {sometimes} s", controller.name());
        assert!(sometimes < never * 1.6, "{}: {never} s, with overflows {sometimes} s", controller.name());
    }
}

/// A client that has opened a connection with a window of 3,000 bytes, and reads what arrives 10 ms later.
fn opened(beyond_window: BeyondWindow) -> (Endpoint, impl Fn(u32, u32) -> Vec<u8>) {
    let [local, remote] = ["10.2.0.2:40000", "10.1.0.2:80"].map(|address| address.parse().unwrap());
    let role = Role::Connects(Instant::ZERO);
    let app = Application::sink().reading_after(MS(10));
    let mut client = Endpoint::new(EndpointConfig {
        window: ReceiveWindow::Fixed(Bytes::new(3_000)),
        window_scale: None,
        timestamps: None,
        beyond_window,
        ..EndpointConfig::new(local, remote, role, app)
    });
    let isn = client.config().isn + 1;
    client.poll_transmit(Instant::ZERO).unwrap();
    let segment = move |offset: u32, len: u32| {
        let (seq, flags) = if len == 0 { (0, TcpFlags::SYN) } else { (1 + offset, TcpFlags::PSH) };
        let mut spec = TcpHeaderSpec::new(remote, local, SeqNum::new(seq), isn, flags | TcpFlags::ACK);
        spec.window = 60_000;
        build_packet(&spec, &[], &[&vec![0; len as usize]]).unwrap()
    };
    client.handle_packet(&segment(0, 0), Instant::ZERO);
    while client.poll_transmit(Instant::ZERO).is_some() {}
    (client, segment)
}

#[test]
fn a_segment_that_ends_beyond_the_window_is_taken_while_nothing_waits_to_be_read() {
    for (policy, kept, kept_of_second) in
        [(BeyondWindow::WhenEmpty, 4_000, 2_500), (BeyondWindow::Always, 4_000, 4_000)]
    {
        let (mut client, segment) = opened(policy);
        client.handle_packet(&segment(0, 4_000), Instant::ZERO);
        assert_eq!(client.bytes_received(), kept, "{policy:?}: nothing waited");

        let (mut client, segment) = opened(policy);
        client.handle_packet(&segment(0, 2_500), Instant::ZERO);
        client.handle_packet(&segment(2_500, 1_500), Instant::ZERO);
        assert_eq!(client.bytes_received(), kept_of_second, "{policy:?}: 2,500 bytes waited");
        // One that begins at its end is not taken by anybody.
        client.handle_packet(&segment(4_000, 100), Instant::ZERO);
        assert_eq!(client.bytes_received(), kept_of_second, "{policy:?}");
        // What was discarded comes again, and by then all has been read.
        client.handle_timeout(Instant::ZERO + MS(10));
        while client.poll_transmit(Instant::ZERO + MS(10)).is_some() {}
        client.handle_packet(&segment(2_500, 1_500), Instant::ZERO + MS(11));
        assert_eq!(client.bytes_received(), 4_000, "{policy:?}");
    }
}
