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
fn line_up(others: &[ControllerConfig]) -> LineUp {
    LineUp::server(Application::bulk(200_000_000))
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
        })
}

/// One that passes what servers send from port 443.
fn engine(schedule_passed: bool) -> Engine {
    let mut config = EngineConfig { schedule_passed, ..EngineConfig::default() };
    let pass = Rule { action: Action::Pass, client: None, server: None, port: Some(443..=443) };
    config.policy.rules.push(pass);
    Engine::new(config).unwrap()
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
        let (got, wait) = run(&mut line_up(others).around(engine(true)).unwrap(), 8, 28);
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
    let (_, wait) = run(&mut line_up(&[cubic]).around(engine(false)).unwrap(), 8, 28);
    assert!(wait > 300, "{wait} ms");
}

/// Datagrams at a rate from a server to the client of a download, for `seconds`; what the download has read from 5 s on,
/// how many datagrams arrived, and the 95th percentile of how long they took, ms.
fn beside_datagrams(rate: Rate, others: &[ControllerConfig], is_through: bool) -> (u64, u64, u64) {
    let payload = Bytes::new(1_200);
    let line_up = line_up(others).with(|config| {
        config.datagrams = Some(sim::DatagramConfig {
            server: "10.9.0.1:5004".parse().unwrap(),
            client: "10.0.0.2:5004".parse().unwrap(),
            begins: Duration::ZERO,
            rate,
            payload,
            count: rate.bytes_in(Duration::from_secs(20)).get() / payload.get(),
            answer: sim::DatagramConfig::ACK,
        });
    });
    let figures = |clients: &[sim::Endpoint], log: &sim::DatagramLog, before: u64| {
        let mut delays = log.delays.clone();
        delays.sort_unstable();
        let p95 = delays.get(delays.len() * 95 / 100).map_or(u64::MAX, |delay| delay.as_millis());
        (clients[0].bytes_received() - before, log.received, p95)
    };
    if is_through {
        let mut network = line_up.around(engine::PassThrough).unwrap();
        network.run_until(at(5)).unwrap();
        let before = network.clients()[0].bytes_received();
        network.run_until(at(20)).unwrap();
        return figures(network.clients(), network.datagrams().unwrap(), before);
    }
    let mut network = line_up.around(engine(true)).unwrap();
    network.run_until(at(5)).unwrap();
    let before = network.clients()[0].bytes_received();
    network.run_until(at(20)).unwrap();
    figures(network.clients(), network.datagrams().unwrap(), before)
}

#[test]
fn a_flood_takes_no_more_than_its_share() {
    let half = LINK.bytes_in(Duration::from_secs(15)).get() / 2;
    let (flood, own) =
        (Rate::from_mbps(40), |is_through| beside_datagrams(Rate::from_mbps(40), &[], is_through).0);
    let (with, without) = (own(false), own(true));
    println!("beside {flood}: {with} of {half}, {without} without");
    assert!(with * 10 > half * 9, "{with} of {half}");
    assert!(without * 4 < half, "the test can fail: {without}");
}

#[test]
fn a_call_waits_for_nobody() {
    let cubic = ControllerConfig::Cubic(CubicParams::default());
    let rate = Rate::from_kbps(1_500);
    let sent = rate.bytes_in(Duration::from_secs(20)).get() / 1_200;
    let (_, arrived, p95) = beside_datagrams(rate, &[cubic], false);
    let (.., without) = beside_datagrams(rate, &[cubic], true);
    println!("p95 {p95} ms, {without} ms without; {arrived} of {sent}");
    assert!(p95 * 3 <= without, "{p95} ms, {without} ms without");
    assert!(arrived * 1_000 >= sent * 995, "{arrived} of {sent}");
}

#[test]
fn what_passed_while_nothing_answered_does_not_slow_what_follows() {
    let answers = |schedule_passed: bool| {
        let client = Application::requests_every(Duration::from_millis(1_500), 8, 200, 100_000);
        let line_up = line_up(&[]).with(|config| {
            config.flows[0].server.app = Application::responses(8, 200, 100_000);
            config.flows[0].client.app = client;
            config.datagrams = Some(sim::DatagramConfig {
                server: "10.9.0.1:5004".parse().unwrap(),
                client: "10.0.0.2:5004".parse().unwrap(),
                begins: Duration::ZERO,
                rate: Rate::from_mbps(8),
                payload: Bytes::new(1_200),
                count: 12_000,
                answer: sim::DatagramConfig::ACK,
            });
        });
        let mut network = line_up.around(engine(schedule_passed)).unwrap();
        network.run_until(at(13)).unwrap();
        let mut times = network.clients()[0].response_times().to_vec();
        times.sort_unstable();
        (times.len(), times[times.len() / 2])
    };
    let (scheduled, not) = (answers(true), answers(false));
    println!("{scheduled:?}, {not:?}");
    assert_eq!(scheduled.0, not.0);
    assert!(scheduled.1 < not.1.mul_ratio(12, 10), "{scheduled:?}, {not:?}");
}

/// Downloads that pass, without an accelerated flow: what all of them get from 3 s to 18 s, and the 95th percentile of the
/// time that echo requests of somebody else take, ms. `answers` says whether the client answers the box's.
fn alone(controllers: &[ControllerConfig], is_quic: bool, middlebox: Middlebox) -> (u64, u64) {
    alone_over(|_| {}, controllers, is_quic, middlebox)
}

/// The same over a path that is changed.
fn alone_over(
    change: impl FnOnce(&mut sim::NetworkConfig),
    controllers: &[ControllerConfig],
    is_quic: bool,
    middlebox: Middlebox,
) -> (u64, u64) {
    let line_up = line_up(controllers).with(|config| {
        change(config);
        config.radios[0].down.link.queue = link::QueueLimit::Bytes(Bytes::from_mib(4));
        config.flows.remove(0);
        config.ping = None;
        for flow in &mut config.flows {
            flow.client.role = sim::Role::Connects(Instant::ZERO);
            if is_quic {
                (flow.server, flow.client) =
                    (flow.server.clone().over_quic(), flow.client.clone().over_quic());
            }
        }
        // A call of few packets: it shows how long others wait.
        let rate = Rate::from_kbps(100);
        config.datagrams = Some(sim::DatagramConfig {
            server: "10.9.0.1:5004".parse().unwrap(),
            client: "10.0.0.2:5004".parse().unwrap(),
            begins: Duration::ZERO,
            rate,
            payload: Bytes::new(250),
            count: rate.bytes_in(Duration::from_secs(18)).get() / 250,
            answer: sim::DatagramConfig::ACK,
        });
        config.ignores_echo = matches!(middlebox, Middlebox::Unanswered);
    });
    let figures = |clients: &[sim::Endpoint], log: &sim::DatagramLog, before: u64| {
        let mut delays = log.delays.clone();
        delays.sort_unstable();
        let p95 = delays.get(delays.len() * 95 / 100).map_or(u64::MAX, |delay| delay.as_millis());
        (sum(clients) - before, p95)
    };
    if matches!(middlebox, Middlebox::None) {
        let mut network = line_up.around(engine::PassThrough).unwrap();
        network.run_until(at(3)).unwrap();
        let before = sum(network.clients());
        network.run_until(at(18)).unwrap();
        return figures(network.clients(), network.datagrams().unwrap(), before);
    }
    let mut config = engine(true).config().clone();
    config.echo_markers = !matches!(middlebox, Middlebox::WithoutMarkers);
    let mut network = line_up.around(Engine::new(config).unwrap()).unwrap();
    network.run_until(at(3)).unwrap();
    let before = sum(network.clients());
    network.run_until(at(18)).unwrap();
    let stats = network.middlebox().stats();
    assert_eq!(stats.markers_answered > 0, matches!(middlebox, Middlebox::Asks) && is_quic, "{stats:?}");
    figures(network.clients(), network.datagrams().unwrap(), before)
}

fn sum(clients: &[sim::Endpoint]) -> u64 {
    clients.iter().map(sim::Endpoint::bytes_received).sum()
}

/// What is in the middle.
#[derive(Clone, Copy)]
enum Middlebox {
    None,
    WithoutMarkers,
    Asks,
    /// It asks, and the client does not answer.
    Unanswered,
}

#[test]
fn tcp_that_passes_alone_has_a_short_queue() {
    let cubic = ControllerConfig::Cubic(CubicParams::default());
    let bbr = ControllerConfig::Bbr(BbrParams::default());
    for controllers in [&[cubic][..], &[cubic, cubic], &[cubic, bbr]] {
        let (without, with) = (
            alone(controllers, false, Middlebox::None),
            alone(controllers, false, Middlebox::WithoutMarkers),
        );
        println!("{with:?}, {without:?} without");
        assert!(with.0 * 100 >= without.0 * 97, "{with:?}, {without:?} without");
        assert!(with.1 * 3 <= without.1, "{with:?}, {without:?} without");
    }
}

#[test]
fn what_is_answered_late_is_known_all_the_same() {
    // The first answer comes after three times as long as what was not answered counts.
    let cubic = ControllerConfig::Cubic(CubicParams::default());
    let far = |config: &mut sim::NetworkConfig| {
        let radio = &mut config.radios[0];
        for path in [&mut radio.down, &mut radio.up] {
            path.link.delay = link::DelayModel::Fixed(Duration::from_millis(150));
        }
    };
    let (without, with) = (
        alone_over(far, &[cubic], false, Middlebox::None),
        alone_over(far, &[cubic], false, Middlebox::WithoutMarkers),
    );
    println!("{with:?}, {without:?} without");
    assert!(with.0 * 100 >= without.0 * 90, "{with:?}, {without:?} without");
    // The way itself takes 150 ms.
    assert!((with.1 - 150) * 3 <= without.1 - 150, "{with:?}, {without:?} without");
}

#[test]
fn quic_alone_has_a_short_queue_where_its_client_answers_echo_requests() {
    let cubic = ControllerConfig::Cubic(CubicParams::default());
    let bbr = ControllerConfig::Bbr(BbrParams::default());
    for controllers in [&[cubic][..], &[cubic, cubic], &[bbr]] {
        let of = |middlebox| alone(controllers, true, middlebox);
        let (without, with) = (of(Middlebox::None), of(Middlebox::Asks));
        println!("{with:?}, {without:?} without");
        assert!(with.0 * 100 >= without.0 * 97, "{with:?}, {without:?} without");
        // BBR has a short queue of its own on a link that is always the same.
        assert!(with.1 * 3 <= without.1.max(150), "{with:?}, {without:?} without");
        // Nobody asked, nobody answers: nothing waits.
        for middlebox in [Middlebox::WithoutMarkers, Middlebox::Unanswered] {
            let passed = of(middlebox);
            assert!(passed.0 * 100 >= without.0 * 99, "{passed:?}, {without:?} without");
        }
    }
}

/// A client with two addresses of one prefix, each behind a radio of its own: what was sent later by one arrives before
/// what was sent earlier by the other.
fn two_bearers(middlebox: Option<bool>) -> Vec<u64> {
    let line_up = LineUp::server(Application::bulk(200_000_000))
        .wan(Rate::from_mbps(1_000), Duration::from_millis(10))
        .radio(LINK, Duration::from_millis(10))
        .client(Application::sink())
        .with(|config| {
            config.log = LogMode::Hash;
            let mut slow = config.radios[0].clone();
            slow.down =
                sim::PathConfig::constant(Rate::from_mbps(4), Duration::from_millis(10), Bytes::new(500_000));
            config.radios.push(slow);
            let mut other = LineUp::flow(Application::bulk(200_000_000), Application::sink());
            let hosts = |number: u16, port: u16| {
                let client = format!("[fd00::{number}]:{}", 40_000 + number).parse().unwrap();
                let server: core::net::SocketAddr = format!("[fd09::1]:{port}").parse().unwrap();
                (client, server)
            };
            for (flow, (client, server)) in
                [(&mut config.flows[0], hosts(2, 80)), (&mut other, hosts(3, 443))]
            {
                (flow.client.local, flow.client.remote) = (client, server);
                (flow.server.local, flow.server.remote) = (server, client);
                (flow.client.mss, flow.server.mss) = (1_440, 1_440);
            }
            other.radio = 1;
            other.server.controller = ControllerConfig::Cubic(CubicParams::default());
            config.flows.push(other);
        });
    let read = |clients: &[sim::Endpoint]| clients.iter().map(sim::Endpoint::bytes_received).collect();
    let Some(schedule_passed) = middlebox else {
        let mut network = line_up.around(engine::PassThrough).unwrap();
        network.run_until(at(20)).unwrap();
        return read(network.clients());
    };
    let mut network = line_up.around(engine(schedule_passed)).unwrap();
    network.run_until(at(20)).unwrap();
    read(network.clients())
}

#[test]
fn where_the_queue_is_not_one_nobody_has_less_than_without() {
    let without = two_bearers(None);
    let (scheduled, not) = (two_bearers(Some(true)), two_bearers(Some(false)));
    println!("without {without:?}, scheduled {scheduled:?}, not scheduled {not:?}");
    for (flow, got) in scheduled.iter().enumerate() {
        assert!(got * 20 > without[flow] * 19, "flow {flow}: {got} of {}", without[flow]);
        assert!(got * 20 > not[flow] * 19, "flow {flow}: {got} of {}", not[flow]);
    }
}

/// Bytes that each client has read by then.
fn read_by_4_and_9_s<M: sim::MiddleboxUnderTest>(mut network: Network<M>) -> [Vec<u64>; 2] {
    [4, 9].map(|time| {
        network.run_until(at(time)).unwrap();
        network.clients().iter().map(sim::Endpoint::bytes_received).collect()
    })
}

/// A hundred phones with a radio of their own and an accelerated download each; beside it QUIC or TCP that passes, by
/// CUBIC or BBR: what each phone's two get from 4 s to 9 s, as shares of what its radio carries.
fn a_hundred_phones(is_through: bool) -> Vec<[f64; 2]> {
    const PHONES: u16 = 100;
    let controllers =
        [ControllerConfig::Cubic(CubicParams::default()), ControllerConfig::Bbr(BbrParams::default())];
    let rate = |phone: u16| Rate::from_kbps(1_000 + 20 * u64::from(phone));
    let line_up = LineUp::server(Application::bulk(200_000_000))
        .wan(Rate::from_mbps(1_000), Duration::from_millis(10))
        .radio(LINK, Duration::from_millis(10))
        .client(Application::sink())
        .with(|config| {
            config.log = LogMode::Hash;
            let (radio, own) = (config.radios[0].clone(), config.flows[0].clone());
            config.radios.clear();
            config.flows.clear();
            for phone in 0..PHONES {
                let mut radio = radio.clone();
                radio.down =
                    sim::PathConfig::constant(rate(phone), Duration::from_millis(10), Bytes::new(500_000));
                config.radios.push(radio);
                let host = |port| core::net::SocketAddr::from(([10, 0, 1, phone as u8], port));
                let server = |port| core::net::SocketAddr::from(([10, 9, 0, 1], port));
                for (number, port) in [(0, 80), (1, 443)] {
                    let mut flow = own.clone();
                    let (client, server) = (host(40_000 + number), server(port));
                    (flow.client.local, flow.client.remote) = (client, server);
                    (flow.server.local, flow.server.remote) = (server, client);
                    flow.radio = usize::from(phone);
                    if port == 443 {
                        flow.server.controller = controllers[usize::from(phone / 2 % 2)];
                        if phone % 2 == 0 {
                            (flow.server, flow.client) = (flow.server.over_quic(), flow.client.over_quic());
                        }
                    }
                    config.flows.push(flow);
                }
            }
        });
    let [before, after] = if is_through {
        read_by_4_and_9_s(line_up.around(engine::PassThrough).unwrap())
    } else {
        read_by_4_and_9_s(line_up.around(engine(true)).unwrap())
    };
    let got: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let share =
        |phone: u16, bytes: u64| bytes as f64 / rate(phone).bytes_in(Duration::from_secs(5)).get() as f64;
    let of = |(phone, got): (u16, &[u64])| [share(phone, got[0]), share(phone, got[1])];
    (0..PHONES).zip(got.chunks_exact(2)).map(of).collect()
}

#[test]
fn a_hundred_phones_have_their_own_links_each_and_both_of_a_phone_their_halves() {
    let [without, with] = [true, false].map(a_hundred_phones);
    for (kind, name) in ["QUIC, CUBIC", "CUBIC", "QUIC, BBR", "BBR"].into_iter().enumerate() {
        let of = |all: &[[f64; 2]]| -> Vec<[f64; 2]> { all.iter().skip(kind).step_by(4).copied().collect() };
        let least = |all: &[[f64; 2]], which: usize| all.iter().map(|one| one[which]).fold(1.0, f64::min);
        let sum =
            |all: &[[f64; 2]]| all.iter().map(|[own, other]| own + other).sum::<f64>() / all.len() as f64;
        let [without, with] = [of(&without), of(&with)];
        println!(
            "{name}: sum {:.3} ({:.3} without), least own {:.3} ({:.3}), least other {:.3} ({:.3})",
            sum(&with),
            sum(&without),
            least(&with, 0),
            least(&without, 0),
            least(&with, 1),
            least(&without, 1)
        );
        assert!(sum(&with) >= sum(&without) - 0.04, "{name}");
        assert!(least(&with, 0) > 0.35 && least(&with, 1) > 0.35, "{name}: {with:.2?}");
    }
}
