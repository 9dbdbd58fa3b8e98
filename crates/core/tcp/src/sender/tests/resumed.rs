//! Senders that go on where another one ended.

use super::*;

/// One that goes on with ten segments, of which another one has sent the first five, at 1 s.
fn resumed(flight: FlightBefore) -> Hand {
    let before = SentBefore {
        nxt: at(5_000),
        end: at(10_000),
        fin: false,
        srtt: Some(Duration::from_millis(60)),
        min_rtt: Some(Duration::from_millis(40)),
        flight,
    };
    let mut sampler = RateSampler::new();
    let sender = Sender::resumed(config(), before, sampler.on_send(true, ms(1_000)));
    Hand { sender, sampler }
}

#[test]
fn what_arrives_is_in_flight_and_is_not_sent_again() {
    let mut hand = resumed(FlightBefore::Arrives);
    assert_eq!((hand.sender.in_flight(), hand.sender.is_urgent()), (5_000, false));
    let sent = hand.send_all(1_000);
    assert_eq!(starts(&sent), [5_000, 6_000, 7_000, 8_000, 9_000]);
    assert!(!sent[0].is_retransmission);
    let smallest = hand.sender.rtt().min();
    assert_eq!(smallest, Some(Duration::from_millis(40)));
    // Its acknowledgements come whenever they do: nobody here knows when it was sent.
    for (t, ack) in [(1_001, 1_000), (1_030, 3_000), (1_040, 5_000)] {
        let out = hand.ack(t, ack, 1_000_000, &[]);
        assert_eq!((out.rtt, out.lost, out.delivered > 0), (None, 0, true), "at {t}");
    }
    assert_eq!(hand.sender.rtt().min(), smallest);
    let out = hand.ack(1_050, 6_000, 1_000_000, &[]);
    assert_eq!(out.rtt, Some(Duration::from_millis(50)));
    assert!(starts(&hand.send_all(1_050)).is_empty() && hand.sender.retransmitted_bytes() == 0);
}

#[test]
fn what_follows_shows_what_was_lost_of_it() {
    let mut hand = resumed(FlightBefore::Arrives);
    hand.send_all(1_000);
    let out = hand.ack(1_020, 2_000, 1_000_000, &[]);
    assert_eq!((out.lost, out.lost_before), (0, 0));
    let out = hand.ack(1_060, 2_000, 1_000_000, &[(5_000, 8_000)]);
    assert_eq!((out.lost, out.lost_before, out.is_new_loss), (3_000, 3_000, true));
    assert_eq!(starts(&hand.send_all(1_060)), [2_000, 3_000, 4_000]);
    // One of its own is its own.
    let out = hand.ack(1_110, 5_000, 1_000_000, &[(6_000, 10_000)]);
    assert_eq!(out.lost, 0, "it was acknowledged before");
}

#[test]
fn a_loss_of_ones_own_is_told_apart() {
    let mut hand = resumed(FlightBefore::Arrives);
    hand.send_all(1_000);
    hand.ack(1_020, 5_000, 1_000_000, &[]);
    let out = hand.ack(1_060, 5_000, 1_000_000, &[(6_000, 10_000)]);
    assert_eq!((out.lost, out.lost_before), (1_000, 0));
}

#[test]
fn nothing_is_probed_before_the_time_out_which_is_taken_back_when_it_arrives() {
    let mut hand = resumed(FlightBefore::Arrives);
    hand.send_all(1_000);
    // 60 ms, and four times half of that in the place of a variation, but not less than 200 ms.
    let deadline = hand.sender.next_deadline().expect("the time-out");
    assert_eq!(deadline, ms(1_260));
    assert!(hand.sender.on_timeout(deadline).is_timeout);
    assert_eq!(starts(&hand.send_all(1_260)), [0], "one segment");
    let out = hand.ack(1_262, 2_000, 1_000_000, &[]);
    assert!(out.undid_timeout, "it arrives: late, and all the same");
    assert!(starts(&hand.send_all(1_263)).is_empty());
}

#[test]
fn what_is_suspect_is_asked_after_with_the_oldest_segment() {
    let mut hand = resumed(FlightBefore::Suspect);
    let sent = hand.send_all(1_000);
    assert_eq!((starts(&sent), sent[0].is_retransmission), (vec![0], true));
    // It has all: the answer to the copy.
    hand.ack(1_050, 5_000, 1_000_000, &[]);
    assert_eq!(starts(&hand.send_all(1_050)), [5_000, 6_000, 7_000, 8_000, 9_000]);
}
