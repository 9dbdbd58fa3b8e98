//! Little memory and many flows: what is held stays within the limit, and no flow is left without.
//!
//! ```text
//!   servers ── 2 Gbit/s, 40 ms ── accelerator with 64 MB ── radio links ── clients
//! ```

// Helpers of a test are test code too, which the lint cannot know.

use engine::{Engine, EngineConfig};
use link::QueueLimit;
use sim::{Application, LineUp, LogMode, Network, ReceiveWindow};
use units::{Bytes, Duration, Instant, Rate};

const LIMIT: Bytes = Bytes::new(64_000_000);
/// The limit is looked at before a ring is taken: it may be passed by one.
const FIRST_RING: u64 = 16 * 1024;
const FLOWS_PER_CLIENT: usize = 10;

/// `flows` connections, ten of a client each, each client behind a radio link of its own.
fn line_up(flows: usize, rate: Rate, server: &Application, client: &Application) -> LineUp {
    LineUp::server(server.clone())
        .wan(Rate::from_mbps(2_000), Duration::from_millis(20))
        .radio(rate, Duration::from_millis(20))
        .client(client.clone())
        .with(|config| {
            config.log = LogMode::Hash;
            config.checks.debt_max = Bytes::MAX;
            // All begin at the same time: what they send first is not lost before the accelerator.
            for path in [&mut config.wan_down, &mut config.wan_up] {
                path.link.queue = QueueLimit::Bytes(Bytes::from_mib(256));
            }
            let (radio, flow) = (config.radios[0].clone(), config.flows[0].clone());
            config.radios = vec![radio; flows / FLOWS_PER_CLIENT];
            config.flows.clear();
            for number in 0..flows {
                let client = number / FLOWS_PER_CLIENT;
                let mut flow = flow.clone();
                flow.radio = client;
                let [_, _, high, low] = (client as u32).to_be_bytes();
                for address in [&mut flow.client.local, &mut flow.server.remote] {
                    address.set_ip([10, 1, high, low].into());
                    address.set_port(40_000 + number as u16 % 20_000);
                }
                config.flows.push(flow);
            }
        })
}

/// Runs for `seconds` and gives the most that was held at the end of a tenth of a second.
fn most_held(network: &mut Network<Engine>, seconds: u64) -> u64 {
    let mut held = 0;
    for tenth in 1..=10 * seconds {
        network.run_until(Instant::from_millis(100 * tenth)).unwrap();
        held = held.max(network.middlebox().stats().buffer_bytes_now);
    }
    held
}

/// So many readers of 2 kB/s out of buffers of 8 KB, while their servers would send as fast as they are let.
fn slow_readers_go_on(readers: usize, limit: Bytes) {
    const READ: u64 = 1_000;
    let slow = Application::sink().reading_slowly(READ, Duration::from_millis(500));
    let line_up =
        line_up(readers, Rate::from_mbps(20), &Application::bulk(10_000_000), &slow).with(|config| {
            for flow in &mut config.flows {
                flow.client.window = ReceiveWindow::Fixed(Bytes::from_kib(8));
                (flow.client.mss, flow.server.mss) = (536, 536);
                flow.server.send_buffer = 64 * 1024;
            }
        });
    let config = EngineConfig { buffer_max: limit, ..EngineConfig::default() };
    let mut network = line_up.around(Engine::new(config).unwrap()).unwrap();
    let held = most_held(&mut network, 10);
    let accelerated = (0..readers).filter(|&flow| network.is_accelerated(flow)).count();
    let got = || network.clients().iter().map(sim::Endpoint::bytes_read);
    let (least, most) = (got().min().unwrap(), got().max().unwrap());
    println!(
        "{readers} readers, {accelerated} accelerated: held at most {held} B; each has read {least} to \
         {most} B"
    );
    assert!(held <= limit.get() + FIRST_RING, "{held} B held");
    assert_eq!(accelerated, readers);
    // Three quarters of what the time lets them read: with 4 KiB at the box a server may wait for its persist
    // timer.
    assert!(least >= 15 * READ, "one of them has read {least} B only");
}

#[test]
fn h20_slow_readers_stay_within_the_memory_and_each_goes_on() {
    slow_readers_go_on(60, Bytes::new(384_000));
}

#[test]
#[ignore = "a minute of one processor, the same with fewer is run always: make long-test"]
fn h20_ten_thousand_slow_readers_stay_within_64_megabytes() {
    slow_readers_go_on(10_000, LIMIT);
}

/// So many flows that are idle, and then all ask for 300 KB at the same time, three times.
fn bursts_are_served(flows: usize, limit: Bytes) {
    const BURST: u64 = 300_000;
    let client = Application::requests_every(Duration::from_secs(8), 3, 200, BURST);
    let line_up = line_up(flows, Rate::from_mbps(50), &Application::responses(3, 200, BURST), &client);
    let of = |buffer_max| {
        let config = EngineConfig { buffer_max, ..EngineConfig::default() };
        let mut network = line_up.around(Engine::new(config).unwrap()).unwrap();
        let held = most_held(&mut network, 24);
        let mut times: Vec<_> =
            network.clients().iter().flat_map(sim::Endpoint::response_times).copied().collect();
        times.sort_unstable();
        (held, times)
    };
    let (held, times) = of(limit);
    let (held_freely, freely) = of(Bytes::from_mib(8_192));
    let [last, last_freely] = [&times, &freely].map(|times| *times.last().unwrap());
    println!(
        "{flows} flows: {held} B held, the last answer after {last}; {held_freely} B and {last_freely} \
         without limit"
    );
    assert_eq!(times.len(), 3 * flows);
    assert!(held <= limit.get() + FIRST_RING, "{held} B held");
    // What memory cannot take is dropped unacknowledged; a server that loses the end of what it sent waits
    // for its retransmission timer, a second in the beginning (RFC 6298 §2).
    let bound = last_freely.mul_ratio(2, 1) + Duration::from_secs(1);
    assert!(last <= bound, "{last} instead of {last_freely}");
}

#[test]
fn h20_flows_that_are_idle_and_then_burst_are_served_within_the_memory() {
    bursts_are_served(30, Bytes::new(1_920_000));
}

#[test]
#[ignore = "a minute of one processor, the same with fewer is run always: make long-test"]
fn h20_a_thousand_flows_that_are_idle_and_then_burst_are_served_within_64_megabytes() {
    bursts_are_served(1_000, LIMIT);
}
