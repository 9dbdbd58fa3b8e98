//! One subscriber's flows share its radio link fairly, new and short ones first; subscribers do not
//! disturb each other.
//!
//! ```text
//!   server ── 100 Mbit/s, 10 ms ── accelerator ── 20 Mbit/s, 25 ms, 4 MB queue ── clients
//! ```

use control::{ControllerConfig, FixedParams, RateParams};
use engine::{Engine, EngineConfig, PassThrough};
use sim::{
    Application, EndpointConfig, FlowConfig, LogMode, MiddleboxUnderTest, Network, NetworkConfig, PathConfig,
    Pattern, PlannedWrite, RadioConfig, ReceiveWindow, Role,
};
use units::{Bytes, Duration, Instant, Rate};

const REQUESTS: u64 = 12;
const ANSWER: u64 = 4_000;
const LINK: Rate = Rate::from_mbps(20);

fn hosts(client: &str, number: u16, server: Application, app: Application) -> FlowConfig {
    let (s, c) = (format!("10.9.0.1:{}", 8_000 + number), format!("{client}:{}", 4_000 + number));
    let (s, c) = (s.parse().unwrap(), c.parse().unwrap());
    let begins = Instant::from_millis(u64::from(number) * 3);
    let mut server = EndpointConfig::new(s, c, Role::Listens, server);
    let mut client = EndpointConfig::new(c, s, Role::Connects(begins), app);
    client.window = ReceiveWindow::Growing { initial: Bytes::from_kib(128), max: Bytes::from_mib(6) };
    (server.writes, server.expects) = (Pattern::new(1), Pattern::new(2));
    (client.writes, client.expects) = (Pattern::new(2), Pattern::new(1));
    FlowConfig { server, client, radio: 0 }
}

fn bulk(client: &str, number: u16, bytes: u64) -> FlowConfig {
    hosts(client, number, Application::bulk(bytes), Application::sink())
}

/// 200 bytes asked and 4,000 answered, again and again, with half a second between.
fn requests(client: &str) -> FlowConfig {
    let write = |n: u64, after: u64, pause: u64, send: u64| PlannedWrite {
        after_reading: n * after,
        pause: Duration::from_millis(pause),
        send,
    };
    let asks = (0..REQUESTS).map(|n| write(n, ANSWER, 500, 200)).collect();
    let answers = (1..=REQUESTS).map(|n| write(n, 200, 0, ANSWER)).collect();
    let server = Application { writes: answers, ..Application::bulk(0) };
    let client_app = Application { writes: asks, ..Application::client(0) };
    hosts(client, 999, server, client_app)
}

fn line_up(flows: Vec<FlowConfig>) -> NetworkConfig {
    let path = |rate, ms, queue| PathConfig::constant(rate, Duration::from_millis(ms), queue);
    NetworkConfig {
        wan_down: path(Rate::from_mbps(100), 10, Bytes::from_mib(1)),
        wan_up: path(Rate::from_mbps(100), 10, Bytes::from_mib(1)),
        radios: vec![RadioConfig {
            down: path(LINK, 25, Bytes::from_mib(4)),
            up: path(Rate::from_mbps(5), 25, Bytes::from_mib(1)),
        }],
        flows,
        log: LogMode::Text,
        ..NetworkConfig::default()
    }
}

/// `rate` with half of its usual cap: these links do not vary, so nothing is gained by a longer queue.
fn accelerator() -> Engine {
    let in_flight_cap = Some(Duration::from_millis(60));
    let params = RateParams { r_cap: Rate::from_mbps(100), in_flight_cap, ..RateParams::default() };
    Engine::new(EngineConfig { controller: ControllerConfig::Rate(params), ..EngineConfig::default() })
        .unwrap()
}

fn run<M: MiddleboxUnderTest>(flows: Vec<FlowConfig>, middlebox: M) -> Vec<(Instant, String)> {
    let mut network = Network::new(&line_up(flows), middlebox).unwrap();
    if let Err(error) = network.run() {
        panic!("{error}\n{}", network.log().tail(40));
    }
    let text = network.log().text();
    text.lines()
        .filter_map(|line| {
            let (seconds, rest) = line.split_once('s')?;
            let seconds: f64 = seconds.trim().parse().ok()?;
            Some((Instant::from_nanos((seconds * 1e9) as u64), rest.to_owned()))
        })
        .collect()
}

/// Times from each request to the last byte of its answer. The first comes when the others have
/// been under way for three seconds.
fn latencies(log: &[(Instant, String)]) -> Vec<Duration> {
    let has_data = |line: &str| !line.contains("length 0") && !line.contains("[S");
    // A request that had to be sent again counts from its first time.
    let mut asked: Vec<(&str, Instant)> = Vec::new();
    for (at, line) in log.iter().filter(|(_, l)| l.trim_start().starts_with("client>") && has_data(l)) {
        let Some((_, rest)) = line.split_once(".4999 > ") else { continue };
        let seq = rest.split_once("seq ").and_then(|(_, rest)| rest.split_once(',')).unwrap().0;
        if asked.iter().all(|&(known, _)| known != seq) {
            asked.push((seq, *at));
        }
    }
    assert_eq!(asked.len() as u64, REQUESTS);
    let mut out = Vec::new();
    for (n, &(_, at)) in asked.iter().enumerate() {
        let until = asked.get(n + 1).map_or(Instant::FAR_FUTURE, |&(_, at)| at);
        let answered = log
            .iter()
            .filter(|(t, l)| {
                *t > at && *t < until && l.contains(">client") && l.contains(".4999:") && has_data(l)
            })
            .map(|(t, _)| *t)
            .max()
            .unwrap();
        out.push(answered.saturating_since(at));
    }
    out
}

fn mean(times: &[Duration]) -> Duration {
    Duration::from_nanos(times.iter().map(|t| t.as_nanos()).sum::<u64>() / times.len() as u64)
}

#[test]
fn h14_a_request_takes_at_most_half_as_long_again_beside_bulk_flows_of_the_same_client() {
    let alone = mean(&latencies(&run(vec![requests("10.0.0.2")], accelerator())));
    for bulks in [1, 4, 16] {
        let mut flows = vec![requests("10.0.0.2")];
        flows.extend((0..bulks).map(|n| bulk("10.0.0.2", n, 20_000_000 / u64::from(bulks))));
        let accelerated = mean(&latencies(&run(flows.clone(), accelerator())));
        let direct = mean(&latencies(&run(flows, PassThrough)));
        println!("{bulks:2} bulk flows: {accelerated} of {alone} alone; without accelerator {direct}");
        assert!(accelerated * 2 <= alone * 3, "{bulks} bulk flows: {accelerated} against {alone} alone");
    }
}

#[test]
fn h14_eight_bulk_flows_share_within_a_twentieth() {
    let flows = (0..8).map(|n| bulk("10.0.0.2", n, 3_000_000)).collect();
    let log = run(flows, accelerator());
    // From the time all are under way to the time the first one ends.
    let ends = |n: u16| {
        let port = format!(".{}:", 4_000 + n);
        log.iter().filter(|(_, l)| l.contains(">client") && l.contains(&port)).map(|(t, _)| *t).max().unwrap()
    };
    let first_end = (0..8).map(ends).min().unwrap();
    let bytes = |n: u16| -> u64 {
        let port = format!(".{}:", 4_000 + n);
        log.iter()
            .filter(|(t, _)| *t > Instant::from_millis(1_000) && *t < first_end)
            .filter(|(_, l)| l.contains(">client") && l.contains(&port))
            .filter_map(|(_, l)| l.rsplit_once("length ")?.1.trim().parse::<u64>().ok())
            .sum()
    };
    let shares: Vec<u64> = (0..8).map(bytes).collect();
    let (least, most) = (*shares.iter().min().unwrap(), *shares.iter().max().unwrap());
    println!("bytes of eight flows: {shares:?}");
    assert!(most * 100 <= least * 105, "{shares:?}");
}

#[test]
fn h14_a_subscriber_with_many_flows_does_not_slow_another_one_down() {
    // Each at its own rate, as each has its own radio queue behind a base station; the link here
    // carries both.
    let fixed = FixedParams { rate: Rate::from_mbps(8), ..FixedParams::default() };
    let config = EngineConfig { controller: ControllerConfig::Fixed(fixed), ..EngineConfig::default() };
    let mut flows: Vec<_> = (0..16).map(|n| bulk("10.0.0.2", n, 500_000)).collect();
    flows.push(bulk("10.0.0.3", 20, 8_000_000));
    let log = run(flows, Engine::new(config).unwrap());
    let bytes = |address: &str| -> u64 {
        log.iter()
            .filter(|(t, _)| (1_000..6_000).contains(&t.saturating_since(Instant::ZERO).as_millis()))
            .filter(|(_, l)| l.contains(">client") && l.contains(address))
            .filter_map(|(_, l)| l.rsplit_once("length ")?.1.trim().parse::<u64>().ok())
            .sum()
    };
    let (many, one) = (bytes("> 10.0.0.2."), bytes("> 10.0.0.3."));
    println!("16 flows of one subscriber {many} bytes, one flow of another {one}");
    assert!(one.abs_diff(many) * 50 < many, "one flow got {one}, the sixteen of the other subscriber {many}");
}
