//! The window offered to servers finds itself: no path is slower than with one that has no bound, and memory
//! stays bounded and fair.
//!
//! ```text
//!   server ── 2 Gbit/s, half the wired round trip ── accelerator ── radio, half of its own ── client
//! ```

// Helpers of a test are test code too, which the lint cannot know.

use control::{ControllerConfig, CubicParams};
use engine::{Engine, EngineConfig};
use link::{Capacity, LinkConfig, QueueLimit, RateSteps};
use sim::{Application, EndpointConfig, LineUp, LogMode, Network, ReceiveWindow};
use units::{Bytes, Duration, Instant, Rate, WindowScale};

const HOST_BUFFER: Bytes = Bytes::from_mib(128);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Hosts that no buffer of theirs holds back.
fn unbounded_hosts(flow: &mut sim::FlowConfig) {
    let wide = |host: &mut EndpointConfig| {
        host.window = ReceiveWindow::Fixed(HOST_BUFFER);
        host.window_scale = Some(WindowScale::new(14));
        host.send_buffer = HOST_BUFFER.get() as u32;
        host.controller = ControllerConfig::Cubic(CubicParams::default());
    };
    wide(&mut flow.server);
    wide(&mut flow.client);
}

fn line_up(capacity: Capacity, wired: Duration, radio: Duration) -> LineUp {
    LineUp::server(Application::bulk(40_000_000_000))
        .wan(Rate::from_mbps(2_000), wired.mul_ratio(1, 2))
        .radio(Rate::from_mbps(100), radio.mul_ratio(1, 2))
        .client(Application::sink())
        .with(|config| {
            config.log = LogMode::Hash;
            config.checks.debt_max = Bytes::MAX;
            config.wan_down.link.queue = QueueLimit::Unlimited;
            config.radios[0].down.link =
                LinkConfig { capacity, queue: QueueLimit::Unlimited, ..config.radios[0].down.link.clone() };
            config.flows.iter_mut().for_each(unbounded_hosts);
        })
}

/// Megabytes that the client has after `seconds`, and the most memory that was held.
fn run(line_up: &LineUp, config: EngineConfig, seconds: u64) -> (f64, u64) {
    let mut network: Network<Engine> = line_up.around(Engine::new(config).unwrap()).unwrap();
    let mut held = 0;
    for tenth in 1..=10 * seconds {
        network.run_until(Instant::from_millis(100 * tenth)).unwrap();
        held = held.max(network.middlebox().stats().buffer_bytes_now);
    }
    assert!(network.is_accelerated(0));
    (network.clients()[0].bytes_received() as f64 / 1e6, held)
}

/// A window that is all the header can say, from the first acknowledgement on.
fn boundless() -> EngineConfig {
    EngineConfig {
        window_floor: Bytes::from_mib(1_024),
        buffer_max: Bytes::from_mib(8_192),
        subscriber_buffer_max: Bytes::from_mib(4_096),
        flow_buffer_max: Bytes::from_mib(2_048),
        ..EngineConfig::default()
    }
}

#[test]
fn no_path_is_slower_than_with_a_window_without_bound() {
    let constant = |mbps| Capacity::Constant(Rate::from_mbps(mbps));
    // Tenfold more and less within a round trip or two.
    let swings: Vec<_> = [60, 600, 20, 400, 800].map(|mbps| (ms(700), Rate::from_mbps(mbps))).into();
    let swings = Capacity::Steps(RateSteps::new(&swings, true).unwrap());
    let mut slower = Vec::new();
    for (what, capacity, wired, radio, seconds) in [
        ("1 Gbit/s over 80 + 20 ms", constant(1_000), ms(80), ms(20), 2),
        ("1 Gbit/s over 20 + 80 ms", constant(1_000), ms(20), ms(80), 2),
        ("100 Mbit/s over 600 + 20 ms", constant(100), ms(600), ms(20), 8),
        ("20 to 800 Mbit/s over 20 + 20 ms", swings, ms(20), ms(20), 4),
        ("100 kbit/s over 20 + 20 ms", Capacity::Constant(Rate::from_kbps(100)), ms(20), ms(20), 20),
    ] {
        let line_up = line_up(capacity, wired, radio);
        let (found, held) = run(&line_up, EngineConfig::default(), seconds);
        let (most, held_by_most) = run(&line_up, boundless(), seconds);
        println!("{what}: {found:.1} MB of {most:.1} MB, {held} B held instead of {held_by_most} B");
        if found < most * 0.995 {
            slower.push(what);
        }
    }
    assert!(slower.is_empty(), "{slower:?}");
}

#[test]
#[ignore = "needs measured traces: make windows TRACES=FOLDER"]
fn no_measured_link_is_slower_than_with_a_window_without_bound() {
    let folder = std::env::var("CELLERATOR_TRACES").expect("CELLERATOR_TRACES names a folder of traces");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut slower = Vec::new();
    for file in &files {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).unwrap();
        let trace = link::Trace::parse(&text, &name).unwrap();
        for wired in [20, 200] {
            let line_up = line_up(Capacity::Trace(trace.clone().into()), ms(wired), ms(20));
            let (found, held) = run(&line_up, EngineConfig::default(), 60);
            let (most, held_by_most) = run(&line_up, boundless(), 60);
            let share = 100.0 * found / most;
            println!(
                "{name}, {wired} ms: {share:.2} %, {found:.1} of {most:.1} MB, {held} B held instead of \
                 {held_by_most}"
            );
            if share < 99.5 {
                slower.push((name.clone(), wired, share));
            }
        }
    }
    assert!(!files.is_empty() && slower.is_empty(), "{slower:?}");
}

/// Another client whose radio link is of 20 Mbit/s, with one flow.
fn with_neighbour(line_up: LineUp) -> LineUp {
    line_up.with(|config| {
        let neighbour = LineUp::server(Application::bulk(40_000_000_000))
            .radio(Rate::from_mbps(20), ms(20))
            .client(Application::sink());
        config.radios.extend(neighbour.config().radios.iter().cloned());
        let mut flow = neighbour.config().flows[0].clone();
        unbounded_hosts(&mut flow);
        flow.radio = 1;
        flow.client.local.set_ip([10, 0, 1, 2].into());
        flow.server.remote.set_ip([10, 0, 1, 2].into());
        config.flows.push(flow);
    })
}

/// Megabytes the neighbour gets while `greedy` flows of the first client take what they can.
fn neighbour_gets(greedy: u16, config: &EngineConfig) -> f64 {
    let far = line_up(Capacity::Constant(Rate::from_mbps(60)), ms(300), ms(20));
    let line_up = with_neighbour(far).with(|config| {
        for number in 1..greedy {
            let mut flow = config.flows[0].clone();
            flow.client.local.set_port(50_000 + number);
            flow.server.remote.set_port(50_000 + number);
            config.flows.push(flow);
        }
    });
    let mut network: Network<Engine> = line_up.around(Engine::new(config.clone()).unwrap()).unwrap();
    for tenth in 1..=80 {
        network.run_until(Instant::from_millis(100 * tenth)).unwrap();
        let held = network.middlebox().stats().buffer_bytes_now;
        assert!(held <= config.buffer_max.get() + 16 * 1024 * u64::from(greedy), "{held}");
    }
    network.clients()[1].bytes_received() as f64 / 1e6
}

#[test]
fn h20_little_memory_is_shared_so_that_a_greedy_client_takes_no_others_room() {
    let little = EngineConfig { buffer_max: Bytes::from_mib(12), ..EngineConfig::default() };
    for greedy in [1, 12] {
        let with_much = neighbour_gets(greedy, &EngineConfig::default());
        let with_little = neighbour_gets(greedy, &little);
        println!("{with_little:.2} instead of {with_much:.2} MB beside {greedy} greedy flows");
        assert!(with_little >= with_much * 0.98, "{with_little:.2} of {with_much:.2} MB");
    }
}
