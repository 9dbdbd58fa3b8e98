//! Tests of who makes room in a table that is full (H20).

use super::*;

fn limits(flows_max: usize, half_open_max: usize) -> EngineConfig {
    EngineConfig { flows_max, half_open_max, ..EngineConfig::default() }
}

fn s(n: u64) -> Instant {
    ms(1_000 * n)
}

#[test]
fn h20_spoofed_syns_end_acceleration_for_nobody() {
    let mut bench = Bench::new(limits(100, 40));
    bench.establish(1);
    // From many addresses, and then in the name of one subscriber, whose own handshakes are under way.
    bench.client_sends(2, 0, 0, TcpFlags::SYN);
    for n in 10..30 {
        bench.client_sends(n, 0, 0, TcpFlags::SYN);
    }
    bench.server_sends(2, 0, 0, TcpFlags::SYN.with(TcpFlags::ACK), 0);
    bench.client_sends(2, 1, 1, TcpFlags::ACK);
    assert_eq!(bench.engine.stats.flows_accelerated, 2);
    for n in 100..700 {
        bench.client_sends(n, 0, 0, TcpFlags::SYN);
    }
    assert_eq!(bench.engine.stats.half_open_now, 40);
    bench.establish(3);
    for n in 1..600 {
        bench.client_sends(50 + n * PER_PORT, 0, 0, TcpFlags::SYN);
    }
    assert_eq!(bench.engine.half_open.of_subscriber(client(1).ip()).0, 0);
    // A quarter of the place is one subscriber's.
    assert_eq!(bench.engine.half_open.of_subscriber(client(50).ip()).0, 10);
    assert_eq!(bench.engine.stats.half_open_now, 40);
    bench.establish(4);
    bench.establish(50);
    assert_eq!(bench.engine.stats.flows_accelerated, 5);
    assert!(bench.engine.stats.passed_for(PassReason::HalfOpenFull) > 1_000);
    // Nothing of it stays.
    bench.run_to(s(70));
    assert_eq!((bench.engine.stats.half_open_now, bench.engine.half_open.len()), (0, 0));
    assert_eq!(bench.engine.stats.flows_now, 5);
}

#[test]
fn h20_a_subscriber_whose_syns_are_spoofed_keeps_its_share_of_flows() {
    let config = EngineConfig { subscriber_flows_max: 5, ..limits(100, 40) };
    let mut bench = Bench::new(config);
    for n in 0..30 {
        bench.client_sends(1 + n * PER_PORT, 0, 0, TcpFlags::SYN);
    }
    for n in 40..45 {
        bench.establish(1 + n * PER_PORT);
    }
    bench.shake_hands(1 + 50 * PER_PORT);
    assert_eq!(bench.engine.stats.flows_accelerated, 5);
    assert!(bench.engine.stats.passed_for(PassReason::SubscriberFull) > 0);
}

#[test]
fn h20_a_full_table_makes_room_by_the_longest_unused_flow_that_owes_nothing() {
    let mut bench = Bench::new(limits(4, 100));
    for n in 1..=4 {
        bench.now = s(u64::from(n));
        bench.establish(n);
    }
    // The first one owes; the second is used.
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(s(20));
    bench.client_sends(2, 1, 1, TcpFlags::ACK);
    bench.run_to(s(22));
    bench.establish(5);
    let clients = |bench: &Bench| -> Vec<SocketAddr> {
        let mut clients: Vec<_> = bench.engine.flow_reports().map(|report| report.client).collect();
        clients.sort_unstable();
        clients
    };
    assert_eq!(clients(&bench), [1, 2, 4, 5].map(client), "the third was unused for longest");
    assert_eq!(bench.engine.stats.passed_for(PassReason::TableFull), 1);
    bench.establish(6);
    assert_eq!(clients(&bench), [1, 2, 5, 6].map(client));
    // The others are in use, or owe.
    bench.shake_hands(7);
    assert_eq!(clients(&bench), [1, 2, 5, 6].map(client));
    assert_eq!(bench.engine.stats.passed_for(PassReason::TableFull), 3);
    // A SYN alone takes nobody's place.
    bench.run_to(s(40));
    for n in 10..90 {
        bench.client_sends(n, 0, 0, TcpFlags::SYN);
    }
    assert_eq!(bench.engine.stats.passed_for(PassReason::TableFull), 3);
    assert!(bench.engine.levels_add_up());
}

#[test]
fn h20_a_handshake_is_a_small_record_until_it_is_complete() {
    let mut bench = Bench::new(limits(100, 10_000));
    let spoofed = |bench: &mut Bench| {
        for n in 0..12_000 {
            bench.client_sends(n, 0, 0, TcpFlags::SYN);
            bench.server_sends(n, 0, 0, TcpFlags::SYN.with(TcpFlags::ACK), 0);
        }
    };
    spoofed(&mut bench);
    assert_eq!(bench.engine.stats.half_open_now, 10_000);
    assert_eq!(
        (bench.engine.flows.places(), bench.engine.subscribers.places(), bench.engine.timers.len()),
        (0, 0, 0),
        "nothing of a flow is there"
    );
    let most = bench.engine.half_open.places();
    spoofed(&mut bench);
    assert_eq!((bench.engine.half_open.places(), most), (10_000, 10_000), "places are used again");
    bench.client_sends(11_999, 1, 1, TcpFlags::ACK);
    assert_eq!((bench.engine.flows.len(), bench.engine.stats.half_open_now), (1, 9_999));
    assert!(bench.engine.levels_add_up());
}
