//! Tests of which data is found lost, and when it is sent again.

use super::*;

#[test]
fn rack_marks_what_was_sent_before_a_delivery() {
    let mut hand = Hand::new(config(), 10_000);
    hand.send_all(0);
    assert_eq!(hand.ack(40, 1_000, 1_000_000, &[]).lost, 0);
    // Three segments behind the hole: no reordering seen, so the hole is lost at once.
    let out = hand.ack(44, 1_000, 1_000_000, &[(2_000, 5_000)]);
    assert_eq!((out.lost, out.is_new_loss, out.delivered), (1_000, true, 3_000));
    let again = hand.send(44).expect("a repair");
    assert!(again.is_retransmission && again.seq == at(1_000));
}

#[test]
fn what_was_sent_at_the_same_time_is_lost_only_if_it_left_before() {
    let mut hand = Hand::new(config(), 8_000);
    (0..8).for_each(|_| assert!(hand.send(0).is_some()));
    hand.ack(40, 1_000, 1_000_000, &[(2_000, 5_000)]);
    // All at one point of time: two new segments, and behind them the repair.
    hand.sender.set_available(at(10_000), false);
    let lost = hand.sender.board.lost_bytes();
    hand.sender.board.unmark_all_lost();
    assert_eq!(starts(&[hand.send(40).expect("new"), hand.send(40).expect("new")]), [8_000, 9_000]);
    hand.sender.board.mark_lost(0);
    assert_eq!((lost, starts(&[hand.send(40).expect("a repair")])), (1_000, vec![1_000]));
    // The new ones arrive. The repair, with a lower number, is still under way: nothing says that it is lost.
    let out = hand.ack(80, 1_000, 1_000_000, &[(2_000, 10_000)]);
    assert_eq!(out.lost, 0);
}

#[test]
fn one_segment_behind_a_hole_waits_for_the_reordering_window() {
    let mut hand = Hand::new(config(), 3_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    assert_eq!(hand.ack(42, 1_000, 1_000_000, &[(2_000, 3_000)]).lost, 0);
    let deadline = hand.sender.next_deadline().expect("a reordering timer");
    assert!(deadline > ms(42) && deadline <= ms(52), "{deadline}");
    assert_eq!(hand.sender.on_timeout(deadline).lost, 1_000);
}

#[test]
fn tail_loss_is_probed_before_the_time_out() {
    let mut hand = Hand::new(config(), 4_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    hand.ack(41, 2_000, 1_000_000, &[]);
    let deadline = hand.sender.next_deadline().expect("a tail probe timer");
    assert_eq!(deadline, ms(41 + 80), "two round trips");
    let out = hand.sender.on_timeout(deadline);
    assert!(out.sent_probe && !out.is_timeout);
    assert_eq!(starts(&hand.send_all(121)), [3_000]);
    // Its SACK shows the hole before it.
    assert_eq!(hand.ack(161, 2_000, 1_000_000, &[(3_000, 4_000)]).lost, 1_000);
}

#[test]
fn a_tail_probe_of_new_data_is_the_only_one_before_the_time_out() {
    let mut hand = Hand::new(config(), 2_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    hand.sender.set_available(at(9_000), false);
    let probe = hand.sender.next_deadline().expect("a tail probe timer");
    assert!(hand.sender.on_timeout(probe).sent_probe);
    let sent = hand.send_within(0, false, probe).expect("a probe");
    assert_eq!((sent.seq, sent.is_retransmission), (at(2_000), false));
    let next = hand.sender.next_deadline().expect("a timer");
    assert!(hand.sender.on_timeout(next).is_timeout, "RFC 8985 §7.3: one probe, then the time-out");
}

/// A sender of four segments, of which one is acknowledged and the last repeated by a tail loss
/// probe; and when that was.
fn probed() -> (Hand, u64) {
    let mut hand = Hand::new(config(), 4_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    let t = probe(&mut hand, 3_000);
    (hand, t)
}

/// Lets the tail loss probe leave, which repeats the segment at `seq`; when that was.
fn probe(hand: &mut Hand, seq: u32) -> u64 {
    let deadline = hand.sender.next_deadline().expect("a tail probe timer");
    let out = hand.sender.on_timeout(deadline);
    assert!(out.sent_probe && !out.is_timeout);
    assert_eq!(starts(&hand.send_all(deadline.as_millis())), [seq]);
    deadline.as_millis()
}

#[test]
fn a_loss_that_a_tail_probe_repaired_is_told_once() {
    let (mut hand, t) = probed();
    assert_eq!(hand.ack(t + 40, 4_000, 1_000_000, &[]).lost, 0, "both copies may have arrived");
    hand.sender.set_available(at(7_000), false);
    hand.send_all(t + 40);
    let out = hand.ack(t + 80, 5_000, 1_000_000, &[]);
    assert_eq!((out.lost, out.is_new_loss, out.is_recovering), (1_000, true, false), "RFC 8985 §7.4.2");
    let out = hand.ack(t + 81, 6_000, 1_000_000, &[]);
    assert_eq!((out.lost, out.is_new_loss), (0, false));
}

#[test]
fn a_tail_probe_that_came_twice_repaired_nothing() {
    // By a D-SACK, or by a duplicate of a peer that knows none.
    for blocks in [&[(3_000, 4_000)][..], &[]] {
        let (mut hand, t) = probed();
        hand.ack(t + 40, 4_000, 1_000_000, &[]);
        hand.ack(t + 41, 4_000, 1_000_000, blocks);
        hand.sender.set_available(at(7_000), false);
        hand.send_all(t + 41);
        assert_eq!(hand.ack(t + 80, 5_000, 1_000_000, &[]).lost, 0, "{blocks:?}");
    }
    // What is repeated otherwise says nothing of the probe: another block, another window, data.
    let others: [fn(&mut Hand, u64); 3] = [
        |hand, t| _ = hand.ack(t, 4_000, 1_000_000, &[(2_000, 3_000)]),
        |hand, t| _ = hand.ack(t, 4_000, 900_000, &[]),
        |hand, t| {
            let sack = SackBlocks::new();
            let ack = AckIn {
                seq: SeqNum::new(0),
                ack: at(4_000),
                window: 1_000_000,
                sack: &sack,
                has_payload: true,
            };
            hand.sender.on_ack(&ack, ms(t));
        },
    ];
    for other in others {
        let (mut hand, t) = probed();
        hand.ack(t + 40, 4_000, 1_000_000, &[]);
        other(&mut hand, t + 41);
        hand.sender.set_available(at(7_000), false);
        hand.send_all(t + 41);
        assert_eq!(hand.ack(t + 80, 5_000, 1_000_000, &[]).lost, 1_000);
    }
}

#[test]
fn a_tail_probe_of_new_data_repaired_nothing() {
    let mut hand = Hand::new(config(), 2_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    hand.sender.set_available(at(3_000), false);
    let deadline = hand.sender.next_deadline().expect("a tail probe timer");
    assert!(hand.sender.on_timeout(deadline).sent_probe);
    let t = deadline.as_millis();
    assert_eq!(starts(&hand.send_all(t)), [2_000]);
    hand.sender.set_available(at(5_000), false);
    hand.send_all(t + 1);
    assert_eq!(hand.ack(t + 40, 5_000, 1_000_000, &[]).lost, 0);
}

#[test]
fn a_loss_that_recovery_told_of_is_not_told_again_for_the_tail_probe() {
    let (mut hand, t) = probed();
    // The probe shows the hole before it.
    let out = hand.ack(t + 40, 1_000, 1_000_000, &[(3_000, 4_000)]);
    assert_eq!((out.lost, out.is_new_loss), (2_000, true));
    hand.sender.set_available(at(7_000), false);
    hand.send_all(t + 40);
    let out = hand.ack(t + 90, 7_000, 1_000_000, &[]);
    assert_eq!((out.lost, out.is_new_loss), (0, false));
    // Nor where the time-out told of it.
    let (mut hand, _) = probed();
    let deadline = hand.sender.next_deadline().expect("a timer");
    assert!(hand.sender.on_timeout(deadline).is_timeout);
    let t = deadline.as_millis();
    hand.send_all(t);
    hand.ack(t + 40, 4_000, 1_000_000, &[]);
    hand.sender.set_available(at(7_000), false);
    hand.send_all(t + 40);
    assert_eq!(hand.ack(t + 90, 7_000, 1_000_000, &[]).lost, 0);
}

#[test]
fn a_second_tail_is_probed_while_the_first_probe_is_open() {
    let (mut hand, t) = probed();
    hand.ack(t + 40, 4_000, 1_000_000, &[]);
    hand.sender.set_available(at(6_000), false);
    hand.send_all(t + 40);
    let t = probe(&mut hand, 5_000);
    // The second one was needless; of the first one nothing was heard.
    let out = hand.ack(t + 40, 6_000, 1_000_000, &[(5_000, 6_000)]);
    assert_eq!((out.lost, out.is_new_loss), (1_000, true));
}

#[test]
fn acknowledgements_that_deliver_nothing_do_not_put_off_the_time_out() {
    let mut hand = Hand::new(config(), 5_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    hand.sender.recovery.arm_rto(ms(40));
    let first = hand.sender.next_deadline().expect("a timer");
    assert!(hand.sender.on_timeout(first).is_timeout);
    assert!(hand.send(first.as_millis()).is_some());
    let second = hand.sender.next_deadline().expect("a timer");
    // The peer uploads: each of its segments repeats the number.
    for t in first.as_millis() + 1..second.as_millis() {
        let sack = SackBlocks::new();
        let ack =
            AckIn { seq: SeqNum::new(0), ack: at(1_000), window: 1_000_000, sack: &sack, has_payload: true };
        hand.sender.on_ack(&ack, ms(t));
    }
    assert_eq!(hand.sender.next_deadline(), Some(second));
}

#[test]
fn without_sack_a_time_out_sends_nothing_twice() {
    let mut hand = Hand::new(SenderConfig { sack: false, ..config() }, 6_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    let deadline = hand.sender.next_deadline().expect("a timer");
    assert!(hand.sender.on_timeout(deadline).is_timeout);
    let t = deadline.as_millis();
    assert_eq!(starts(&hand.send_all(t)), [1_000]);
    hand.ack(t + 40, 2_000, 1_000_000, &[]);
    assert_eq!(starts(&hand.send_all(t + 40)), [2_000, 3_000, 4_000, 5_000]);
    assert_eq!(hand.ack(t + 80, 3_000, 1_000_000, &[]).lost, 0, "the rest is under way again");
    assert_eq!(hand.send(t + 80), None);
}

#[test]
fn blocks_of_one_acknowledgement_are_not_reordering() {
    let mut hand = Hand::new(config(), 12_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    // Acknowledgements before it were lost; the newest block comes first (RFC 2018 §4).
    let out = hand.ack(52, 1_000, 1_000_000, &[(9_000, 10_000), (5_000, 6_000), (2_000, 3_000)]);
    assert_eq!(out.delivered, 3_000);
    assert!(out.lost > 0, "three segments behind a hole, all in order");
}

#[test]
fn a_time_out_sends_one_segment_and_a_real_loss_sends_the_rest() {
    let mut hand = Hand::new(SenderConfig { sack: false, ..config() }, 5_000);
    hand.send_all(0);
    let deadline = hand.sender.next_deadline().expect("a time-out");
    assert_eq!(deadline, ms(1_000));
    assert!(hand.sender.on_timeout(deadline).is_timeout);
    assert_eq!(starts(&hand.send_all(1_000)), [0]);
    hand.ack(1_050, 1_000, 1_000_000, &[]);
    assert_eq!(starts(&hand.send_all(1_050)), [1_000, 2_000, 3_000, 4_000]);
}

#[test]
fn a_needless_time_out_is_taken_back() {
    let mut hand = Hand::new(config(), 5_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    while !hand.sender.on_timeout(hand.sender.next_deadline().expect("a timer")).is_timeout {
        hand.send_all(300);
    }
    assert_eq!(starts(&hand.send_all(500)), [1_000]);
    // The originals arrive after all: 2 is acknowledged without having been sent twice.
    let out = hand.ack(900, 3_000, 1_000_000, &[]);
    assert!(out.undid_timeout);
    assert_eq!(hand.send(901), None);
    assert_eq!(hand.sender.in_flight(), 2_000);
}

/// A sender whose time-out fires at once, with the oldest segment sent again; and when that was.
fn timed_out(mut hand: Hand, now: u64) -> (Hand, u64) {
    hand.sender.recovery.arm_rto(ms(now));
    let deadline = hand.sender.next_deadline().expect("a time-out");
    assert!(hand.sender.on_timeout(deadline).is_timeout);
    assert_eq!(hand.send_all(deadline.as_millis()).len(), 1);
    (hand, deadline.as_millis())
}

#[test]
fn a_loss_behind_a_time_out_taken_back_is_a_new_event() {
    let mut hand = Hand::new(config(), 8_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    let (mut hand, t) = timed_out(hand, 40);
    // The original of the oldest one, and the next.
    let out = hand.ack(t + 5, 3_000, 1_000_000, &[]);
    assert!(out.undid_timeout && !out.is_recovering);
    // One of those sent before the time-out was lost.
    let out = hand.ack(t + 6, 3_000, 1_000_000, &[(4_000, 7_000)]);
    assert_eq!((out.lost, out.is_new_loss, out.is_recovering), (1_000, true, true), "RFC 4015 §3.2");
}

#[test]
fn a_tail_is_probed_behind_a_time_out_taken_back() {
    let mut hand = Hand::new(config(), 8_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    let (mut hand, t) = timed_out(hand, 40);
    assert!(hand.ack(t + 5, 7_000, 1_000_000, &[]).undid_timeout);
    let deadline = hand.sender.next_deadline().expect("a timer");
    let out = hand.sender.on_timeout(deadline);
    assert!(out.sent_probe && !out.is_timeout, "RFC 8985 §7.2");
}

#[test]
fn a_recovery_goes_on_behind_time_outs_taken_back() {
    let mut hand = Hand::new(config(), 8_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    assert!(hand.ack(41, 1_000, 1_000_000, &[(2_000, 5_000)]).is_new_loss);
    assert_eq!(starts(&hand.send_all(41)), [1_000]);
    hand.sender.set_available(at(12_000), false);
    assert_eq!(hand.send_all(42).len(), 4);
    // Two time-outs in a row, and then what was sent before them arrives.
    let (hand, t) = timed_out(hand, 50);
    let (mut hand, t) = timed_out(hand, t);
    let out = hand.ack(t + 5, 1_000, 1_000_000, &[(2_000, 6_000)]);
    assert!(out.undid_timeout && out.is_recovering);
    let out = hand.ack(t + 6, 7_000, 1_000_000, &[]);
    assert!(out.is_recovering && !out.is_new_loss);
    // The loss found first was one among eight segments.
    assert!(!hand.ack(t + 7, 8_000, 1_000_000, &[]).is_recovering);
}

#[test]
fn time_outs_back_off_up_to_the_cap() {
    let mut hand = Hand::new(SenderConfig { rto_max: Duration::from_secs(5), ..config() }, 1_000);
    hand.send_all(0);
    let mut last = Instant::ZERO;
    let mut gaps = Vec::new();
    for _ in 0..8 {
        let at = hand.sender.next_deadline().expect("a timer");
        gaps.push(at.saturating_since(last).as_millis());
        last = at;
        hand.sender.on_timeout(at);
        hand.send(at.as_millis());
    }
    assert_eq!(gaps, [1_000, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000, 5_000]);
}

#[test]
fn time_outs_in_a_row_send_more_within_the_room() {
    let config = SenderConfig { timeout_segments: 4, rto_max: Duration::from_secs(5), ..config() };
    for (room, expected) in [(u32::MAX, [1, 2, 4, 4]), (3_000, [1, 2, 3, 3]), (0, [1, 1, 1, 1])] {
        let mut hand = Hand::new(config, 6_000);
        hand.send_all(0);
        let mut counts = Vec::new();
        for _ in expected {
            let mut at = hand.sender.next_deadline().expect("a timer");
            if !hand.sender.on_timeout(at).is_timeout {
                // The tail loss probe comes first.
                hand.send(at.as_millis());
                at = hand.sender.next_deadline().expect("the time-out");
                assert!(hand.sender.on_timeout(at).is_timeout);
            }
            let mut sent = Vec::new();
            loop {
                let window_room = room.saturating_sub(hand.sender.in_flight());
                match hand.send_within(window_room, false, at) {
                    Some(transmission) => sent.push(transmission.seq),
                    None => break,
                }
            }
            // From the oldest on, one segment each.
            assert_eq!(sent.first(), Some(&super::at(0)));
            counts.push(sent.len());
        }
        assert_eq!(counts, expected, "room for {room} bytes");
    }
}

#[test]
fn an_answer_to_the_second_of_them_lets_the_rest_follow() {
    let mut hand = Hand::new(SenderConfig { timeout_segments: 4, ..config() }, 6_000);
    hand.send_all(0);
    // A tail loss probe and two time-outs.
    for _ in 0..3 {
        let at = hand.sender.next_deadline().expect("a timer");
        hand.sender.on_timeout(at);
        hand.send_all(at.as_millis());
    }
    // Both of the second time-out arrived: the other four were lost.
    hand.ack(5_000, 2_000, 50_000, &[]);
    assert_eq!(starts(&hand.send_all(5_000)), [2_000, 3_000, 4_000, 5_000]);
}

#[test]
fn without_sack_three_duplicates_and_partial_acks_repair() {
    let mut hand = Hand::new(SenderConfig { sack: false, ..config() }, 8_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    assert_eq!(hand.ack(41, 1_000, 1_000_000, &[]).lost, 0);
    assert_eq!(hand.ack(42, 1_000, 1_000_000, &[]).lost, 0);
    let out = hand.ack(43, 1_000, 1_000_000, &[]);
    assert_eq!((out.lost, out.is_new_loss), (1_000, true));
    assert_eq!(starts(&hand.send_all(43)), [1_000]);
    assert_eq!(hand.ack(83, 4_000, 1_000_000, &[]).lost, 1_000, "a partial ACK shows the next hole");
    assert_eq!(starts(&hand.send_all(83)), [4_000]);
}

#[test]
fn d_sack_widens_the_reordering_window() {
    let mut hand = Hand::new(config(), 3_000);
    hand.send_all(0);
    assert!(hand.ack(40, 2_000, 1_000_000, &[(0, 1_000)]).has_d_sack);
}

#[test]
fn the_acknowledgement_of_a_repair_is_no_round_trip() {
    let mut hand = Hand::new(SenderConfig { sack: false, ..config() }, 5_000);
    hand.send_all(0);
    for t in 50..53 {
        hand.ack(t, 0, 1_000_000, &[]);
    }
    assert_eq!(hand.send(60).map(|t| (t.seq, t.is_retransmission)), Some((at(0), true)));
    // The others have waited behind the hole: their time says nothing of the path.
    let out = hand.ack(5_000, 5_000, 1_000_000, &[]);
    assert_eq!((out.acked, out.rtt), (5_000, None));
}

#[test]
fn no_new_data_is_sent_while_a_time_out_is_judged() {
    let mut hand = Hand::new(config(), 3_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    hand.sender.recovery.arm_rto(ms(40));
    let deadline = hand.sender.next_deadline().expect("a time-out");
    assert!(hand.sender.on_timeout(deadline).is_timeout);
    hand.sender.set_available(at(9_000), false);
    let t = deadline.as_millis();
    assert_eq!(starts(&hand.send_all(t)), [1_000], "RFC 5682 would send new data");
    // The original of the other one arrives: the time-out was needless, and new data may go.
    assert!(hand.ack(t + 5, 1_000, 1_000_000, &[(2_000, 3_000)]).undid_timeout);
    assert_eq!(starts(&hand.send_all(t + 5)).first(), Some(&3_000));
}

#[test]
fn a_lone_segment_is_probed_later_for_its_acknowledgement_may_be_delayed() {
    let mut hand = Hand::new(config(), 1_000);
    hand.send(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    hand.sender.set_available(at(2_000), false);
    hand.send(50);
    // RFC 8985 §7.2: two round trips and the longest delay are more than the time-out, 40 + 200 ms.
    assert_eq!(hand.sender.next_deadline(), Some(ms(50 + 240)));
}

#[test]
fn without_sack_one_segment_of_many_sent_at_once_is_lost() {
    let mut hand = Hand::new(SenderConfig { sack: false, ..config() }, 5_000);
    let sampler = &mut hand.sampler;
    let context =
        SendContext { now: ms(0), quantum: 5 * MSS, window_room: u32::MAX, is_path_idle: true, sampler };
    assert_eq!(hand.sender.poll(context).map(|sent| sent.len), Some(5_000));
    hand.ack(40, 1_000, 1_000_000, &[]);
    let lost: u32 = (41..44).map(|t| hand.ack(t, 1_000, 1_000_000, &[]).lost).sum();
    assert_eq!((lost, starts(&hand.send_all(44))), (MSS, vec![1_000]));
    // What repeats the number with data in it is no partial acknowledgement.
    let sack = SackBlocks::new();
    let ack =
        AckIn { seq: SeqNum::new(0), ack: at(1_000), window: 1_000_000, sack: &sack, has_payload: true };
    assert_eq!(hand.sender.on_ack(&ack, ms(45)).lost, 0);
}

#[test]
fn the_end_behind_a_whole_segment_goes_out_again_with_it() {
    let mut hand = Hand::new(config(), 1_000);
    hand.sender.set_available(at(1_000), true);
    hand.send(0);
    hand.sender.recovery.arm_rto(ms(0));
    let deadline = hand.sender.next_deadline().expect("a time-out");
    assert!(hand.sender.on_timeout(deadline).is_timeout);
    let again = hand.send(deadline.as_millis()).expect("a repair");
    assert_eq!((again.seq, again.len, again.fin), (at(0), 1_000, true));
}
