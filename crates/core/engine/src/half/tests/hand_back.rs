//! Flows of which both directions were taken over, while the engine drains. The server here is the
//! sender of the half at hand.

use super::*;
use crate::{Action, Policy};

/// A flow of which 500 bytes have come from the server and are at the client, whose window is
/// smaller than what the server was allowed.
fn caught_up(direction: Direction, action: Action) -> Bench {
    let policy = Policy { default: action, ..Policy::default() };
    let mut bench = Bench::of(direction, EngineConfig { policy, ..EngineConfig::default() });
    bench.establish(1);
    bench.client_window = 1_000;
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(10));
    bench.client_sends(1, 1, 501, TcpFlags::ACK);
    bench.run_to(ms(20));
    bench
}

/// The same while the uplink half of a flow of both directions drains.
fn drained() -> Bench {
    let mut bench = caught_up(Direction::Uplink, Action::Both);
    bench.engine.drain(ms(20));
    bench
}

fn flows(bench: &Bench) -> u64 {
    bench.engine.stats.flows_now
}

#[test]
fn h02_a_flow_of_one_direction_and_the_downlink_of_both_are_handed_back_as_soon_as_nothing_is_owed() {
    let halves = [
        (Direction::Downlink, Action::Downlink),
        (Direction::Uplink, Action::Uplink),
        (Direction::Downlink, Action::Both),
    ];
    for (direction, action) in halves {
        let mut bench = caught_up(direction, action);
        bench.engine.drain(ms(20));
        assert_eq!(flows(&bench), 0, "{direction:?} of {action:?}");
    }
}

#[test]
fn h02_a_window_that_holds_all_that_was_allowed_lets_the_flow_go_at_once() {
    let mut bench = drained();
    assert_eq!(flows(&bench), 1);
    bench.client_window = 65_535;
    bench.server_sends(1, 501, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(30));
    bench.client_sends(1, 1, 1_001, TcpFlags::ACK);
    assert_eq!(flows(&bench), 0);
}

#[test]
fn h02_what_was_allowed_is_taken_and_delivered_while_the_flow_drains() {
    let mut bench = drained();
    let edge = bench.flow().receiver().right_edge().get();
    bench.client_window = 60_000;
    let mut seq = 501;
    while seq < edge {
        let len = (edge - seq).min(500);
        assert_eq!(bench.server_sends(1, seq, 0, TcpFlags::ACK, len as usize), Verdict::Consumed);
        let at = bench.now + Duration::from_millis(20);
        assert_eq!(bench.run_to(at), len as usize);
        seq += len;
        assert_eq!(flows(&bench), 1, "{seq} is owed");
        bench.client_sends(1, 1, seq, TcpFlags::ACK);
        if flows(&bench) == 0 {
            break;
        }
        assert_eq!(bench.flow().receiver().right_edge().get(), edge, "nothing more is allowed");
    }
    assert!(
        seq < edge && seq + 60_000 > edge,
        "gone at {seq} of {edge}: the rest is within the client's window"
    );
}

#[test]
fn h02_a_sender_with_nothing_under_way_is_known_by_its_number_or_its_silence() {
    for number in [501, 500] {
        let mut bench = drained();
        bench.server_sends(1, number, 0, TcpFlags::ACK, 0);
        bench.run_to(ms(30));
        assert_eq!(flows(&bench), 0, "{number}");
    }
    let mut bench = drained();
    bench.run_to(ms(2_900));
    assert_eq!(flows(&bench), 1);
    bench.run_to(ms(3_100));
    assert_eq!(flows(&bench), 0);
    let mut bench = caught_up(Direction::Uplink, Action::Both);
    bench.run_to(ms(10_000));
    bench.engine.drain(ms(10_000));
    assert_eq!(flows(&bench), 0, "it was silent before");
}

#[test]
fn h02_what_is_known_to_be_missing_is_waited_for() {
    let mut bench = drained();
    bench.server_sends(1, 1_001, 0, TcpFlags::ACK, 0);
    bench.run_to(ms(10_000));
    assert_eq!(flows(&bench), 1, "500 bytes are under way");
    bench.server_sends(1, 501, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(10_010));
    bench.client_sends(1, 1, 1_001, TcpFlags::ACK);
    assert_eq!(flows(&bench), 1, "there may be more");
    bench.run_to(ms(13_100));
    assert_eq!(flows(&bench), 0);

    let mut bench = drained();
    bench.server_sends(1, 1_001, 0, TcpFlags::ACK, 0);
    bench.run_to(ms(61_000));
    assert_eq!(flows(&bench), 0, "not for ever");
}
