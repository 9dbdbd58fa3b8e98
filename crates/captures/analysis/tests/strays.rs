//! Segments between the same ends that are of another connection, and further answers to a SYN.

use crate::made::{Kept, MSS, Tape, With};
use analysis::Direction::{FromFirst, FromSecond};
use analysis::{End, FlowReport};
use wire::TcpFlags;

const SYN: With<'static> = With { flags: TcpFlags::SYN, ..PLAIN };
const PLAIN: With<'static> =
    With { flags: TcpFlags::NONE, sack: &[], window: None, stamps: None, missing: 0 };

/// A request and ten segments of answer from `us` on, each second one acknowledged; what `before` adds comes in
/// front of each segment.
fn transfer(tape: &mut Tape, us: u64, mut before: impl FnMut(&mut Tape, u64, u32)) {
    tape.send(us, 0, 1, 1, 200, &PLAIN);
    tape.send(us + 40_000, 1, 1, 201, 0, &PLAIN);
    for n in 0..10 {
        let us = us + 40_500 + u64::from(n) * 500;
        before(tape, us, n);
        tape.send(us, 1, 1 + n * MSS, 201, MSS, &PLAIN);
        if n % 2 == 1 {
            tape.send(us + 100, 0, 201, 1 + (n + 1) * MSS, 0, &PLAIN);
        }
    }
    let fin = With { flags: TcpFlags::FIN, ..PLAIN };
    tape.send(us + 60_000, 0, 201, 1 + 10 * MSS, 0, &fin);
    tape.send(us + 100_000, 1, 1 + 10 * MSS, 202, 0, &fin);
    tape.send(us + 100_100, 0, 202, 2 + 10 * MSS, 0, &PLAIN);
}

/// One connection in which all is there once and in order.
fn assert_clean(kept: &Kept, case: &str) {
    let flows: Vec<&FlowReport> = kept.flows.iter().collect();
    assert_eq!(flows.len(), 1, "{case}");
    assert_eq!(flows[0].end, End::Closed, "{case}");
    for (direction, bytes) in [(FromFirst, 200), (FromSecond, 10_000)] {
        let data = &flows[0].directions[direction];
        let r = data.retransmissions;
        assert_eq!((data.not_captured_bytes, data.volume.unique_bytes), (0, bytes), "{case}");
        assert_eq!(
            (data.loss.before_capture, data.loss.reordered, data.loss.hole_fills),
            (0, 0, 0),
            "{case}"
        );
        assert_eq!((r.data_packets, r.fin, r.spurious), (0, 0, 0), "{case}");
    }
    assert_eq!(flows[0].directions[FromSecond].retransmissions.syn, 0, "{case}");
}

/// The number that another host has for the server's SYN.
const OTHER: u32 = 3_000_000_000;

/// Adds a SYN-ACK with another number.
fn other_syn_ack(tape: &mut Tape, us: u64) {
    let own = std::mem::replace(&mut tape.isn[1], OTHER);
    tape.send(us, 1, 0, 1, 0, &SYN);
    tape.isn[1] = own;
}

#[test]
fn the_answer_that_the_client_acknowledges_is_the_one() {
    for other_first in [true, false] {
        for syns in [1, 2] {
            let mut tape = Tape::new();
            (0..syns).for_each(|n| tape.send(n * 1_000_000, 0, 0, 0, 0, &SYN));
            let us = 1_000_000 * (syns - 1);
            if other_first {
                other_syn_ack(&mut tape, us + 40_000);
            }
            tape.send(us + 45_000, 1, 0, 1, 0, &SYN);
            if !other_first {
                other_syn_ack(&mut tape, us + 50_000);
            }
            tape.send(us + 50_100, 0, 1, 1, 0, &PLAIN);
            // The other host goes on asking.
            transfer(&mut tape, us + 60_000, |tape, us, n| {
                if n == 3 || n == 7 {
                    other_syn_ack(tape, us - 100);
                }
            });
            let kept = tape.analyze();
            assert_clean(&kept, &format!("{other_first} {syns}"));
            assert_eq!(kept.flows[0].handshake.syn_acks, 4);
        }
    }
}

#[test]
fn a_second_answer_after_the_first_was_taken_changes_nothing() {
    for at in [0, 6] {
        let mut tape = Tape::opened();
        transfer(&mut tape, 50_000, |tape, us, n| {
            if n == at {
                other_syn_ack(tape, us - 100);
                tape.send(us - 90, 0, 201, 1 + n * MSS, 0, &PLAIN);
            }
        });
        assert_clean(&tape.analyze(), &format!("{at}"));
    }
}

#[test]
fn a_syn_that_the_server_does_not_take_changes_nothing() {
    // Somebody's SYN with another number; the server answers with where it stands (RFC 5961 §4.2).
    for seq in [5_000_000, 0_u32.wrapping_sub(70_000)] {
        let mut tape = Tape::opened();
        transfer(&mut tape, 50_000, |tape, us, n| {
            if n == 6 {
                tape.send(us - 300, 0, seq, 0, 0, &SYN);
                tape.send(us - 200, 1, 1 + n * MSS, 201, 0, &PLAIN);
            }
        });
        let kept = tape.analyze();
        assert_clean(&kept, &format!("{seq}"));
        assert_eq!(kept.flows[0].directions[FromFirst].flags.syn, 2);
    }
}

#[test]
fn a_port_used_again_while_the_server_holds_the_old_connection_is_one_connection() {
    let old = |tape: &mut Tape, us: u64, with: &With<'_>, len: u32| {
        let isn = std::mem::replace(&mut tape.isn, [976_000_000, 3_863_000_000]);
        tape.send(us, 1, 0, 0, len, with);
        tape.isn = isn;
    };
    let reset = |tape: &mut Tape, us: u64| {
        let isn = std::mem::replace(&mut tape.isn[0], 976_000_000);
        tape.send(us, 0, 0, 0, 0, &With { flags: TcpFlags::RST, ..PLAIN });
        tape.isn[0] = isn;
    };
    for again in [1_000_000, 3_000_000] {
        for old_data in [0, 1_000] {
            let mut tape = Tape::new();
            tape.send(0, 0, 0, 0, 0, &SYN);
            old(&mut tape, 40_000, &PLAIN, old_data);
            reset(&mut tape, 40_100);
            tape.send(again, 0, 0, 0, 0, &SYN);
            tape.send(again + 40_000, 1, 0, 1, 0, &SYN);
            tape.send(again + 40_100, 0, 1, 1, 0, &PLAIN);
            transfer(&mut tape, again + 50_000, |_, _, _| {});
            let kept = tape.analyze();
            assert_clean(&kept, &format!("{again} {old_data}"));
            assert_eq!((kept.flows[0].handshake.syns, kept.flows[0].resets.by_first), (2, 1));
        }
    }
}

#[test]
fn ports_used_again_are_another_connection_once_the_server_takes_it() {
    let mut tape = Tape::opened();
    tape.data(50_000, 0);
    tape.ack(90_000, 1, &[]);
    let first = tape.clone();
    // The client has forgotten the connection; the server has not, until it is reset.
    tape.isn[0] = 900_000;
    tape.send(1_000_000, 0, 0, 0, 0, &SYN);
    tape.isn[0] = first.isn[0];
    tape.ack(1_040_000, 1, &[]);
    tape.send(1_040_100, 0, 1 + MSS, 0, 0, &With { flags: TcpFlags::RST, ..PLAIN });
    tape.isn = [900_000, 800_000];
    tape.send(2_000_000, 0, 0, 0, 0, &SYN);
    tape.send(2_040_000, 1, 0, 1, 0, &SYN);
    tape.send(2_040_100, 0, 1, 1, 0, &PLAIN);
    transfer(&mut tape, 2_050_000, |_, _, _| {});
    let mut kept = tape.analyze();
    assert_eq!(kept.flows.len(), 2);
    assert_eq!(kept.flows[0].end, End::ResetByFirst);
    assert_eq!(kept.flows[0].directions[FromSecond].not_captured_bytes, 0);
    kept.flows.remove(0);
    assert_clean(&kept, "the second");

    // Nobody answers, and the client asks again: a connection of its own.
    let mut tape = first.clone();
    tape.isn[0] = 900_000;
    (1..4).for_each(|second| tape.send(second * 1_000_000, 0, 0, 0, 0, &SYN));
    let kept = tape.analyze();
    let syns: Vec<_> = kept.flows.iter().map(|flow| flow.handshake.syns).collect();
    assert_eq!(syns, [1, 3]);
    // It is refused.
    let mut tape = first;
    tape.isn[0] = 900_000;
    tape.send(1_000_000, 0, 0, 0, 0, &SYN);
    tape.send(1_040_000, 1, 0, 1, 0, &With { flags: TcpFlags::RST, ..PLAIN });
    let kept = tape.analyze();
    assert_eq!(kept.flows.iter().map(|flow| flow.end).collect::<Vec<_>>(), [End::Open, End::ResetBySecond]);
}
