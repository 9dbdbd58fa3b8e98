//! Tests of what is noted for those outside, and when.

use super::*;
use crate::notice::{EndedFlow, FlowName, Notice, Traffic, Wants};

const ALL: Wants = Wants { events: true, ended: true };

fn taken(bench: &mut Bench) -> Vec<Notice> {
    std::iter::from_fn(|| bench.engine.take_notice()).collect()
}

fn name(n: u32) -> FlowName {
    FlowName { client: client(n), server: SERVER, direction: Direction::Downlink }
}

#[test]
fn a_flow_is_told_of_from_its_beginning_to_its_end() {
    let mut bench = Bench::new(EngineConfig::default());
    bench.engine.set_wants(ALL);
    bench.now = ms(5);
    bench.establish(1);
    assert_eq!(taken(&mut bench), [Notice::Accelerated(name(1))]);
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(50));
    bench.client_sends(1, 1, 501, TcpFlags::ACK);
    bench.run_to(ms(60));
    bench.client_sends(1, 1, 501, TcpFlags::RST.with(TcpFlags::ACK));
    let ended = EndedFlow {
        flow: name(1),
        is_both: false,
        reason: Some(PassReason::Reset),
        began: Some(ms(5)),
        ended: ms(60),
        // Three packets after the SYN, two of the server's, without options.
        sides: [Traffic { packets: 3, bytes: 120 }, Traffic { packets: 2, bytes: 540 + 40 }],
        taken_bytes: 500,
        delivered_bytes: 500,
        retransmitted_bytes: 0,
        timeouts: 0,
        rtt_min: Some(Duration::from_millis(45)),
        srtt: Some(Duration::from_millis(45)),
    };
    assert_eq!(taken(&mut bench), [Notice::Ended(ended)]);
}

#[test]
fn a_flow_in_the_place_of_another_one_has_its_own_times_and_packets() {
    let mut bench = Bench::new(EngineConfig::default());
    bench.engine.set_wants(Wants { events: false, ended: true });
    let reset = TcpFlags::RST.with(TcpFlags::ACK);
    let mut told = Vec::new();
    // Each takes the place that the one before has left.
    for n in 1..=3 {
        bench.now = ms(u64::from(n) * 15_000);
        bench.establish(n);
        bench.now = ms(u64::from(n) * 15_000 + 20);
        bench.client_sends(n, 1, 1, reset);
        told.extend(taken(&mut bench));
    }
    // The same ports again 12 s after a flow has closed, and before it is forgotten: the SYN is the new flow's.
    bench.now = ms(60_000);
    bench.establish(4);
    bench.now = ms(60_300);
    let both = TcpFlags::FIN.with(TcpFlags::ACK);
    bench.server_sends(4, 1, 0, both, 0);
    bench.run_to(ms(60_300));
    bench.client_sends(4, 1, 2, both);
    bench.server_sends(4, 2, 1, TcpFlags::ACK, 0);
    bench.now = ms(72_000);
    bench.client_sends(4, 1_000_000, 0, TcpFlags::SYN);
    bench.server_sends(4, 0, 1_000_000, TcpFlags::SYN.with(TcpFlags::ACK), 0);
    told.extend(taken(&mut bench));
    let seen = told.iter().map(|notice| match notice {
        Notice::Ended(ended) => (ended.began.unwrap(), ended.ended, ended.sides.map(|side| side.packets)),
        other => panic!("{other:?}"),
    });
    let seen: Vec<_> = seen.collect();
    let short = |n: u64| (ms(n * 15_000), ms(n * 15_000 + 20), [2, 1]);
    assert_eq!(seen, [short(1), short(2), short(3), (ms(60_000), ms(60_300), [2, 3])]);
}

#[test]
fn a_flow_that_has_ended_was_not_reset_by_what_a_host_says_afterwards() {
    let mut bench = Bench::established(EngineConfig::default());
    bench.engine.set_wants(Wants { events: false, ended: true });
    let both = TcpFlags::FIN.with(TcpFlags::ACK);
    bench.server_sends(1, 1, 0, both, 0);
    bench.run_to(ms(10));
    bench.client_sends(1, 1, 2, both);
    bench.server_sends(1, 2, 1, TcpFlags::ACK, 0);
    bench.client_sends(1, 2, 2, TcpFlags::RST.with(TcpFlags::ACK));
    let told = taken(&mut bench);
    let [Notice::Ended(ended)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(ended.reason, Some(PassReason::Closed));
    let stats = bench.engine.stats();
    assert_eq!((stats.passed_for(PassReason::Closed), stats.passed_for(PassReason::Reset)), (1, 0));
}

#[test]
fn a_flow_that_is_passed_is_told_of_with_the_reason() {
    let mut bench = Bench::new(EngineConfig { flows_max: 1, ..EngineConfig::default() });
    bench.engine.set_wants(Wants { events: true, ended: false });
    bench.establish(1);
    bench.shake_hands(2);
    let passed = Notice::Passed(name(2), PassReason::TableFull);
    assert_eq!(taken(&mut bench), [Notice::Accelerated(name(1)), passed]);
    bench.client_sends(1, 1, 1, TcpFlags::RST.with(TcpFlags::ACK));
    assert_eq!(taken(&mut bench), [], "records were not asked for");
    bench.client_sends(3, 0, 0, TcpFlags::SYN);
    bench.run_to(ms(120_000));
    assert_eq!(taken(&mut bench), [Notice::Passed(name(3), PassReason::HandshakeTimeout)]);
}

#[test]
fn a_subscriber_that_is_silent_over_two_time_outs_has_an_outage() {
    let mut bench = Bench::established(EngineConfig::default());
    bench.engine.set_wants(Wants { events: true, ended: false });
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(20_000));
    let told = taken(&mut bench);
    let [Notice::OutageBegan { subscriber, since }] = told[..] else { panic!("{told:?}") };
    assert_eq!(subscriber, client(1).ip());
    bench.client_sends(1, 1, 501, TcpFlags::ACK);
    let told = taken(&mut bench);
    let lasted = ms(20_000).saturating_since(since);
    assert!(told.contains(&Notice::OutageEnded { subscriber, lasted }), "{told:?}");
}
