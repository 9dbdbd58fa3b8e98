//! Random line-ups through the engine, under every rule the simulator knows.
//!
//! `CELLERATOR_SIM_SEEDS=n` sets how many seeds run, `CELLERATOR_SIM_SEED=n` runs one and prints its packets.

// Helpers of a test are test code too, which the lint cannot know.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};

use control::{ControllerConfig, FixedParams, RateParams};
use engine::{Action, Engine, EngineConfig, PassReason, Sharing, WindowPolicy};
use link::{Capacity, DelayModel, Harq, LinkConfig, LossModel, OutageModel, QueueLimit, SlotConfig};
use sim::{
    Application, CheckConfig, Ending, EndpointConfig, FaultConfig, FlowConfig, LogMode, Network,
    NetworkConfig, PathConfig, Pattern, Random, ReceiveWindow, Role, Turn,
};
use units::{Bytes, Duration, Instant, Rate, SeqNum, WindowScale};

/// Seeds run unless told otherwise.
const SEEDS: u64 = 1_000;

/// A line-up drawn from a seed.
struct Draw {
    network: NetworkConfig,
    engine: EngineConfig,
    /// Faults that change the order or number of packets.
    reorders: bool,
    /// One side aborts or refuses.
    breaks: bool,
}

fn main_rate(random: &mut Random) -> Rate {
    Rate::from_kbps(random.spread(300, 50_000))
}

fn loss(random: &mut Random, max_ppm: u64) -> LossModel {
    match random.below(6) {
        0..=2 => LossModel::None,
        3 | 4 => LossModel::Bernoulli { ppm: random.spread(100, max_ppm) as u32 },
        _ => LossModel::GilbertElliott {
            to_bad_ppm: random.spread(100, 5_000) as u32,
            to_good_ppm: random.spread(100_000, 500_000) as u32,
            good_loss_ppm: 0,
            bad_loss_ppm: 700_000,
        },
    }
}

fn path(random: &mut Random, rate: Rate, delay: Duration, max_loss_ppm: u64) -> PathConfig {
    let link = LinkConfig {
        capacity: if random.one_in(8) { Capacity::Unlimited } else { Capacity::Constant(rate) },
        // At most four seconds: a handshake that waits for longer than a minute is given up.
        queue: QueueLimit::Bytes(Bytes::new(
            random.spread(20_000, 1_000_000).min(rate.bytes_in(Duration::from_secs(4)).get().max(20_000)),
        )),
        delay: match random.below(4) {
            0 => DelayModel::Uniform { min: delay / 2, max: delay * 2 },
            _ => DelayModel::Fixed(delay),
        },
        loss_before: loss(random, max_loss_ppm),
        loss_after: loss(random, max_loss_ppm),
        seed: random.word(),
        keeps_log: false,
        ..LinkConfig::default()
    };
    PathConfig { link, faults: FaultConfig { seed: random.word(), ..FaultConfig::default() } }
}

fn add_radio_events(random: &mut Random, path: &mut PathConfig) {
    if random.one_in(4) {
        path.link.harq = Some(Harq::default());
    }
    if random.one_in(6) {
        path.link.outages = OutageModel::Periodic {
            first: Duration::from_millis(random.within(100, 2_000)),
            period: Duration::from_millis(random.within(3_000, 8_000)),
            length: Duration::from_millis(random.within(100, 2_500)),
        };
    }
}

fn add_faults(random: &mut Random, path: &mut PathConfig) -> bool {
    if random.one_in(3) {
        path.faults.corrupt_ppm = random.spread(100, 10_000) as u32;
    }
    if !random.one_in(5) {
        return false;
    }
    path.faults.hold_back_ppm = random.spread(1_000, 100_000) as u32;
    path.faults.duplicate_ppm = random.spread(1_000, 50_000) as u32;
    path.faults.hold_back_max = Duration::from_millis(random.spread(1, 200));
    true
}

/// What both applications do; true when the flow ends by RST.
fn applications(random: &mut Random, budget: u64) -> (Application, Application, bool, bool) {
    let size = random.spread(1, budget.max(2));
    let request = random.spread(1, 3_000);
    let slow = |random: &mut Random, app: Application| {
        let bytes = (size / random.within(3, 40)).max(500);
        app.reading_slowly(bytes, Duration::from_millis(random.spread(10, 700)))
    };
    match random.below(11) {
        0 | 1 => (Application::bulk(size), Application::sink(), false, false),
        2 => (Application::server(request, size), Application::client(request), false, false),
        3 => (Application::server(request, size), Application::client(request).half_closing(), false, false),
        4 => (Application::bulk(size), slow(random, Application::sink()), false, false),
        5 => (
            Application::server(request, size),
            slow(random, Application::client(request).half_closing()),
            false,
            false,
        ),
        6 => {
            // Both directions at once, the client closing when it likes.
            (Application::bulk(size), Application::bulk(random.spread(1, budget)), false, false)
        }
        7 => {
            let rounds = random.within(2, 8);
            let answer = (size / rounds).max(1);
            let turn =
                |after, pause, send| Turn { after_reading: after, pause: Duration::from_millis(pause), send };
            let pause = random.within(0, 900);
            let server = (1..=rounds).map(|i| turn(i * request, 5, answer)).collect();
            let client =
                (0..rounds).map(|i| turn(i * answer, if i == 0 { 0 } else { pause }, request)).collect();
            let server = Application { turns: server, ..Application::sink() };
            let client = Application { turns: client, ..Application::bulk(0) };
            (server, client, false, false)
        }
        8 => (
            Application::bulk(size),
            Application::sink().aborting_after(size / random.within(1, 5)),
            true,
            false,
        ),
        9 => {
            // The server aborts when it hears from the client, in the middle of its answer.
            let hello = Turn { after_reading: size / random.within(2, 5), pause: Duration::ZERO, send: 100 };
            let client = Application { turns: vec![hello], ..Application::client(0) };
            (Application::bulk(size).aborting_after(100), client, true, false)
        }
        _ if random.one_in(4) => (Application::bulk(size), Application::sink(), true, true),
        _ => (Application::sink(), Application::bulk(size), false, false),
    }
}

fn window(random: &mut Random) -> (ReceiveWindow, Option<WindowScale>) {
    let most = if random.one_in(4) { 14 } else { 9 };
    let scale = (!random.one_in(6)).then(|| WindowScale::new(random.within(0, most) as u8));
    let most = scale.unwrap_or_default().window(65_535);
    // A host picks a scale whose units its buffer holds several of.
    let least = (4u64 << scale.unwrap_or_default().shift()).max(2_048);
    let window = if random.one_in(3) {
        ReceiveWindow::Growing { initial: Bytes::from_kib(64), max: Bytes::new(u64::from(most).min(6 << 20)) }
    } else {
        ReceiveWindow::Fixed(Bytes::new(random.spread(least, u64::from(most).min(1_000_000).max(least))))
    };
    (window, scale)
}

fn host(random: &mut Random, mut config: EndpointConfig) -> EndpointConfig {
    let header = if config.local.is_ipv4() { 40 } else { 60 };
    config.isn = SeqNum::new(if random.one_in(2) {
        random.word() as u32
    } else {
        0u32.wrapping_sub(random.spread(1, 200_000) as u32)
    });
    let mtu = random.pick(&[1_500, 1_500, 1_500, 1_400, 1_280, 700]).unwrap_or(1_500);
    config.mss = mtu - header;
    (config.window, config.window_scale) = window(random);
    config.sack = !random.one_in(6);
    config.timestamps = (!random.one_in(5))
        .then(|| if random.one_in(2) { random.word() as u32 } else { 0u32.wrapping_sub(2_000) });
    if random.one_in(10) {
        config.syn_options = vec![222, 4, 7, 7];
    }
    config
}

fn flow(random: &mut Random, number: u16, budget: u64, is_v4: bool) -> (FlowConfig, bool) {
    let (server_ip, client_ip) = if is_v4 { ("10.9.0.1", "10.0.0.2") } else { ("fd00:9::1", "fd00::2") };
    let s = core::net::SocketAddr::new(server_ip.parse().unwrap(), 80);
    let c = core::net::SocketAddr::new(client_ip.parse().unwrap(), 40_000 + number);
    let (server_app, client_app, breaks, refuses) = applications(random, budget);
    let begins = Instant::from_millis(if number == 0 { 0 } else { random.within(0, 500) });
    let role = if refuses { Role::Refuses } else { Role::Listens };
    let mut server = host(random, EndpointConfig::new(s, c, role, server_app));
    let mut client = host(random, EndpointConfig::new(c, s, Role::Connects(begins), client_app));
    let (down, up) = (Pattern::new(random.word()), Pattern::new(random.word()));
    (server.writes, server.expects, client.writes, client.expects) = (down, up, up, down);
    (FlowConfig { server, client }, breaks)
}

fn engine_config(random: &mut Random, radio: Rate) -> EngineConfig {
    let mut config = EngineConfig::default();
    let near = radio.mul_ratio(random.within(5, 20), 10);
    config.controller = if random.one_in(2) {
        ControllerConfig::Fixed(FixedParams { rate: near, ..FixedParams::default() })
    } else {
        let cap = if random.one_in(3) { None } else { RateParams::default().in_flight_cap };
        ControllerConfig::Rate(RateParams { r_cap: near, in_flight_cap: cap, ..RateParams::default() })
    };
    if random.one_in(2) {
        config.window_policy = WindowPolicy::Opportunistic;
    }
    if random.one_in(3) {
        config.window_floor = Bytes::new(random.spread(8_000, 500_000));
        config.window_max = Bytes::new(config.window_floor.get() * random.within(1, 4));
    }
    config
}

/// Directions, limits and sharing: from a number of its own, so that older seeds keep their line-ups.
///
/// Where a host aborts, the uplink stays end to end: a client whose data was acknowledged has no reason to send again,
/// and would never learn of a reset that got lost, as with any reset that meets an idle host.
fn vary(config: &mut EngineConfig, seed: u64, breaks: bool) {
    let random = &mut Random::new(seed ^ 0x5eed_0f0f_a11d);
    config.policy.default = match random.below(6) {
        0 if !breaks => Action::Uplink,
        1 | 2 if !breaks => Action::Both,
        _ => Action::Downlink,
    };
    if random.one_in(4) {
        config.uplink.window_floor = Bytes::new(random.spread(8_000, 500_000));
        config.uplink.window_max = Bytes::new(config.uplink.window_floor.get() * random.within(1, 4));
    }
    if random.one_in(4) {
        config.sharing = Sharing::Flow;
    }
    if random.one_in(4) {
        config.buffer_max = Bytes::new(random.spread(20_000, 500_000));
    }
    if random.one_in(4) {
        config.subscriber_buffer_max = Bytes::new(random.spread(20_000, 500_000));
    }
}

fn draw(seed: u64, log: LogMode) -> Draw {
    let mut random = Random::new(seed);
    let random = &mut random;
    let radio = main_rate(random);
    let wan = Rate::from_mbps(random.spread(2, 200));
    let (near, far) =
        (Duration::from_millis(random.within(1, 60)), Duration::from_millis(random.within(3, 150)));
    let mut network = NetworkConfig {
        wan_down: path(random, wan, near, 10_000),
        wan_up: path(random, wan, near, 10_000),
        radio_down: path(random, radio, far, 30_000),
        radio_up: path(random, radio.mul_ratio(1, 3), far, 30_000),
        flows: Vec::new(),
        checks: CheckConfig::default(),
        log,
        merges_arrivals: random.one_in(2),
    };
    add_radio_events(random, &mut network.radio_down);
    add_radio_events(random, &mut network.radio_up);
    if random.one_in(4) {
        let period = Duration::from_millis(random.within(5, 40));
        network.radio_up.link.uplink_slots = Some(SlotConfig { period, offset: Duration::ZERO });
    }
    let mut reorders = false;
    for path in [&mut network.wan_down, &mut network.wan_up, &mut network.radio_down, &mut network.radio_up] {
        reorders |= add_faults(random, path);
    }
    let mut engine = engine_config(random, radio);
    // Small enough for a run to be short: at most two seconds of the link and 600 KB.
    let budget = radio.bytes_in(Duration::from_secs(2)).get().min(600_000);
    let (is_v4, mut breaks) = (!random.one_in(3), false);
    for number in 0..if random.one_in(4) { random.within(2, 4) as u16 } else { 1 } {
        let (flow, breaks_flow) = flow(random, number, budget, is_v4);
        breaks |= breaks_flow;
        network.flows.push(flow);
    }
    vary(&mut engine, seed, breaks);
    // The window told in the handshake is the client's own, and one unit of the scale is rounded up.
    let scales = network.flows.iter().flat_map(|f| [f.client.window_scale, f.server.window_scale]);
    let unit = scales.flatten().map(|s| 1 << s.shift()).max();
    let window_max = engine.window_max.max(engine.uplink.window_max).get();
    let debt = window_max.max(65_535) + unit.unwrap_or(1);
    network.checks = CheckConfig {
        debt_max: Bytes::new(debt),
        ends_by: Instant::ZERO + Duration::from_secs(1_800),
        ..CheckConfig::default()
    };
    Draw { network, engine, reorders, breaks }
}

/// Runs one seed; the number of its packets, or what went wrong.
fn run(seed: u64, log: LogMode) -> Result<(u64, u64, String), (String, String)> {
    let draw = draw(seed, log);
    let engine = Engine::new(draw.engine.clone()).unwrap();
    let mut network = Network::new(&draw.network, engine).unwrap();
    let outcome = network.run().map_err(|e| (e.to_string(), network.log().text().to_owned()))?;
    let text = network.log().text().to_owned();
    judge(&draw, &network).map_err(|e| (e, text.clone()))?;
    Ok((outcome.packets, outcome.log_hash, text))
}

fn judge(draw: &Draw, network: &Network<Engine>) -> Result<(), String> {
    for (flow, (server, client)) in network.servers().iter().zip(network.clients()).enumerate() {
        for (name, host) in [("server", server), ("client", client)] {
            let stats = host.stats();
            let expect = |is_right: bool, what: &str| {
                if is_right { Ok(()) } else { Err(format!("flow {flow}: the {name} saw {what}: {stats:?}")) }
            };
            expect(stats.unacceptable_acks == 0, "acknowledgements of what it never sent")?;
            expect(stats.invalid_sack_blocks == 0, "senseless SACK blocks")?;
            if !draw.reorders {
                expect(stats.paws_rejected == 0, "timestamps that went back")?;
                let opportunistic = draw.engine.window_policy == WindowPolicy::Opportunistic;
                expect(
                    stats.out_of_window_segments == 0 || (opportunistic && name == "client"),
                    "data outside its window",
                )?;
            }
        }
        // A lost third packet leaves a client that writes first unaccelerated: the handshake was not seen whole.
        let server_is_first = draw.engine.policy.default != Action::Uplink
            && client.config().app.turns.iter().all(|turn| turn.send == 0 || turn.after_reading > 0);
        let is_late = network.middlebox().stats().passed_for(PassReason::HandshakeTimeout) > 0;
        let should_be = !draw.breaks && server_is_first && !is_late && server.config().app.total() > 0;
        if should_be && !network.is_accelerated(flow) {
            return Err(format!("flow {flow} was not accelerated"));
        }
        if client.ending() == Some(Ending::TimedOut) {
            return Err(format!("flow {flow} never got through its handshake"));
        }
    }
    let engine = network.middlebox();
    for stats in [Some(engine.stats()), engine.uplink_stats()].into_iter().flatten() {
        if !draw.breaks && (engine.debt() > Bytes::ZERO || stats.bytes_acked_but_lost > 0) {
            return Err(format!("debt is left: {} now, {stats:?}", engine.debt()));
        }
    }
    Ok(())
}

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs seeds on all processors and gives what failed, in order.
fn run_all(seeds: std::ops::Range<u64>) -> Vec<(u64, String)> {
    let next = AtomicU64::new(seeds.start);
    let mut failures = std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let work = || {
            let mut failed = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return failed;
                }
                if let Err((error, _)) = run(seed, LogMode::Hash) {
                    failed.push((seed, error));
                }
            }
        };
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect::<Vec<_>>()
    });
    failures.sort();
    failures
}

#[test]
fn random_line_ups_keep_every_rule() {
    if let Some(seed) = env("CELLERATOR_SIM_SEED") {
        match run(seed, LogMode::Text) {
            Ok((.., text)) => println!("{text}"),
            Err((error, text)) => panic!("{text}\nseed {seed}: {error}"),
        }
        return;
    }
    let first = env("CELLERATOR_SIM_FIRST").unwrap_or(1);
    let failures = run_all(first..first + env("CELLERATOR_SIM_SEEDS").unwrap_or(SEEDS));
    if let Some((seed, _)) = failures.first() {
        let list: Vec<String> =
            failures.iter().map(|(seed, error)| format!("seed {seed}: {error}")).collect();
        let again = run(*seed, LogMode::Text).err().map_or_else(String::new, |(_, text)| text);
        let lines: Vec<&str> = again.lines().collect();
        let tail = lines[lines.len().saturating_sub(40)..].join("\n");
        panic!(
            "{} runs failed; replay one with CELLERATOR_SIM_SEED=n\n{}\nlast packets of seed {seed}:\n{tail}",
            failures.len(),
            list.join("\n"),
        );
    }
}

#[test]
fn a_seed_gives_the_same_packets_twice() {
    for seed in 1..=8 {
        let (a, b) = (run(seed, LogMode::Hash), run(seed, LogMode::Hash));
        assert_eq!(
            a.map(|(packets, hash, _)| (packets, hash)),
            b.map(|(packets, hash, _)| (packets, hash)),
            "seed {seed}"
        );
    }
}
