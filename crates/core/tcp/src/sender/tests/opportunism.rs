//! Sending beyond the window, and a peer that discards (H18).

use super::*;

#[test]
fn opportunistic_sends_beyond_the_edge_but_not_into_a_zero_window() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 3_500, policy, ..config() }, 10_000);
    assert_eq!(hand.send_all(0).len(), 10);
    let mut hand = Hand::new(SenderConfig { window: 3_500, policy, ..config() }, 10_000);
    hand.send(0);
    hand.ack(50, 1_000, 0, &[]);
    assert_eq!(hand.send(51), None);
}

#[test]
fn a_zero_window_suspends_repairs_of_what_the_peer_discards() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 5_000, policy, ..config() }, 20_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 4_000, &[]);
    hand.ack(44, 5_000, 0, &[]);
    // What lies beyond is discarded, each segment answered with the same acknowledgement.
    for t in 0..15 {
        hand.ack(100 + t, 5_000, 0, &[]);
    }
    assert_eq!(hand.send(120), None, "nothing goes into a zero window");
    let deadline = hand.sender.next_deadline().expect("a timer that probes the window");
    hand.sender.on_timeout(deadline);
    let t = deadline.as_millis();
    assert_eq!(hand.send_all(t).len(), 1, "one segment probes");
    hand.ack(t + 40, 5_000, 0, &[]);
    // It opens: what was discarded goes out, without another time-out.
    hand.ack(t + 50, 5_000, 9_000, &[]);
    assert_eq!(starts(&hand.send_all(t + 50)).first(), Some(&5_000));
}

#[test]
fn a_hole_under_opportunistic_loses_all_beyond_the_window() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 4_000, policy, ..config() }, 10_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 4_000, &[]);
    // 1..5 fit the window behind the hole at 1; 5..10 do not and were discarded.
    let out = hand.ack(44, 1_000, 4_000, &[(2_000, 5_000)]);
    assert_eq!((out.lost, out.discarded), (1_000, 0), "of these five the link lost none");
    assert_eq!(starts(&hand.send_all(44)), [1_000, 5_000, 6_000, 7_000, 8_000, 9_000]);
}

#[test]
fn what_the_peer_will_discard_is_in_flight_until_it_has_arrived() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 4_000, policy, ..config() }, 10_000);
    hand.send_all(0);
    let out = hand.ack(50, 0, 4_000, &[(1_000, 4_000)]);
    assert_eq!(out.lost, 1_000, "the hole");
    assert_eq!(hand.sender.in_flight(), 6_000, "six beyond the window");
    assert_eq!(starts(&[hand.send(51).expect("the repair")]), [0]);
    // Two of them arrive and are discarded: the link has carried them.
    assert_eq!(hand.ack(54, 0, 4_000, &[(1_000, 4_000)]).discarded, MSS);
    assert_eq!(hand.ack(55, 0, 4_000, &[(1_000, 4_000)]).discarded, MSS);
    assert_eq!(hand.sender.in_flight(), 1_000 + 4_000);
    // The repair left behind all of them.
    assert_eq!(hand.ack(100, 4_000, 4_000, &[]).discarded, 4_000);
    assert_eq!(hand.sender.in_flight(), 0);
}

#[test]
fn a_hole_found_by_the_timer_loses_all_beyond_the_window() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 2_000, policy, ..config() }, 10_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 2_000, &[]);
    assert_eq!(hand.ack(42, 1_000, 2_000, &[(2_000, 3_000)]).lost, 0);
    let deadline = hand.sender.next_deadline().expect("a reordering timer");
    assert_eq!(hand.sender.on_timeout(deadline).lost, 1_000);
    assert_eq!(starts(&hand.send_all(60)), [1_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000]);
}

#[test]
fn a_hole_of_several_segments_is_repaired_before_what_lies_beyond_the_window() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 6_000, policy, ..config() }, 12_000);
    (0..12).for_each(|t| _ = hand.send(t));
    hand.ack(40, 1_000, 6_000, &[]);
    // 1 to 4 are missing; time has shown it of the first alone when it is found.
    hand.ack(44, 1_000, 6_000, &[(4_000, 5_000)]);
    let deadline = hand.sender.next_deadline().expect("a reordering timer");
    assert_eq!(hand.sender.on_timeout(deadline).lost, 3_000);
    let t = deadline.as_millis();
    assert_eq!(starts(&hand.send_all(t)), [1_000, 2_000, 3_000, 7_000, 8_000, 9_000, 10_000, 11_000]);
}

#[test]
fn a_whole_window_is_missing_when_all_behind_it_is_discarded() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 3_500, policy, ..config() }, 10_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 3_500, &[]);
    // 1 to 4.5 are lost: what follows is discarded, and nothing is there to be reported by SACK.
    let lost: u32 = (60..63).map(|t| hand.ack(t, 1_000, 3_500, &[]).lost).sum();
    assert_eq!(lost, 3_500);
    assert_eq!(
        starts(&hand.send_all(63)),
        [1_000, 2_000, 3_000, 4_000, 4_500, 5_000, 6_000, 7_000, 8_000, 9_000]
    );
}

#[test]
fn what_lies_a_window_behind_a_second_hole_is_discarded() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 4_000, policy, ..config() }, 12_000);
    (0..12).for_each(|t| _ = hand.send(t));
    // 0 is missing, 1 arrived, 2 is missing too, but nothing says so yet.
    assert_eq!(hand.ack(45, 0, 4_000, &[(1_000, 2_000)]).lost, 0);
    let deadline = hand.sender.next_deadline().expect("a reordering timer");
    assert_eq!(hand.sender.on_timeout(deadline).lost, 1_000);
    let t = deadline.as_millis();
    assert_eq!(starts(&hand.send_all(t))[..2], [0, 4_000]);
    // With 3 it does: what was sent again beyond 6 is for nothing, once more.
    assert_eq!(hand.ack(t + 9, 0, 4_000, &[(3_000, 4_000), (1_000, 2_000)]).lost, 1_000);
    assert_eq!(starts(&hand.send_all(t + 9))[..3], [2_000, 6_000, 7_000]);
}

#[test]
fn answers_to_needless_copies_have_the_oldest_segment_sent_again_and_no_more() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 3_000, policy, ..config() }, 60_000);
    (0..20).for_each(|_| _ = hand.send(0));
    hand.ack(40, 1_000, 3_000, &[]);
    hand.ack(44, 1_000, 3_000, &[(2_000, 4_000)]);
    let deadline = hand.sender.next_deadline().expect("a reordering timer");
    assert!(hand.sender.on_timeout(deadline).lost > 0);
    (0..40).for_each(|_| _ = hand.send(60));
    // It was late only: all of it arrives, and then all of it again, which a peer without D-SACK answers like
    // this.
    hand.ack(70, 20_000, 3_000, &[]);
    let lost: u32 = (200..219).map(|t| hand.ack(t, 20_000, 3_000, &[]).lost).sum();
    assert_eq!(lost, MSS);
}

#[test]
fn a_client_without_room_gets_less_beyond_its_window() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 6_000, policy, ..config() }, 60_000);
    (0..12).for_each(|t| _ = hand.send(t));
    // It takes its window, reads little of it, and discards the rest.
    hand.ack(40, 6_000, 1_000, &[]);
    let acks: Vec<_> = (60..63).map(|t| hand.ack(t, 6_000, 1_000, &[])).collect();
    let lost: u32 = acks.iter().map(|out| out.lost).sum();
    assert_eq!((lost, acks.iter().any(|out| out.discarded > 0)), (6_000, false), "lost, for the controller");
    assert!(!hand.ack(63, 6_000, 1_000, &[]).fell_back);
    // 5 had been sent beyond the window: 3.75 may be.
    let again = hand.send_all(64);
    assert_eq!(starts(&again), [6_000, 7_000, 8_000, 9_000, 10_000]);
}

#[test]
fn a_window_that_shuts_on_little_has_the_window_honoured() {
    let policy = WindowPolicy::Opportunistic;
    let mut hand = Hand::new(SenderConfig { window: 6_000, policy, ..config() }, 8_000);
    hand.send_all(0);
    // It takes its window and reads nothing: three quarters of the 2,000 beyond are less than half a window.
    assert!(hand.ack(40, 6_000, 0, &[]).fell_back);
    hand.sender.set_available(at(60_000), false);
    hand.ack(200, 8_000, 6_000, &[]);
    assert_eq!(starts(&hand.send_all(200)).last(), Some(&13_000), "up to the right edge");
    let mut hand = Hand::new(SenderConfig { window: 6_000, ..config() }, 6_000);
    hand.send_all(0);
    assert!(!hand.ack(40, 5_000, 0, &[]).fell_back, "who honours it has nothing to give up");
}
