//! Single behaviours by hand, then a sender and a receiver over a channel that loses, doubles and reorders.

use super::*;
use crate::{Receiver, SegmentIn, StreamBuffer};
use proptest::prelude::*;
use units::Bytes;
use wire::SackBlock;

const MSS: u32 = 1_000;
const ISN: u32 = 0xffff_f000; // wraps after four segments

fn at(n: u32) -> SeqNum {
    SeqNum::new(ISN) + n
}
fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}
fn config() -> SenderConfig {
    SenderConfig {
        start: at(0),
        mss: MSS,
        sack: true,
        window: 1_000_000,
        policy: WindowPolicy::Honour,
        rto_max: Duration::from_secs(60),
        timeout_segments: 1,
    }
}
const LIMITS: SendLimits = SendLimits { quantum: MSS, window_room: u32::MAX };

/// A sender with its sampler, driven by hand.
struct Hand {
    sender: Sender,
    sampler: RateSampler,
}

impl Hand {
    fn new(config: SenderConfig, available: u32) -> Self {
        let mut sender = Sender::new(config);
        sender.set_available(at(available), false);
        Self { sender, sampler: RateSampler::new() }
    }
    fn send(&mut self, t: u64) -> Option<Transmission> {
        let idle = self.sender.is_idle();
        self.sender.poll(LIMITS, &mut self.sampler, idle, ms(t))
    }
    /// Sends all it may, one segment a millisecond from `t`.
    fn send_all(&mut self, t: u64) -> Vec<Transmission> {
        (0..).map_while(|i| self.send(t + i)).collect()
    }
    fn ack(&mut self, t: u64, ack: u32, window: u32, blocks: &[(u32, u32)]) -> AckOutcome {
        let sack = blocks.iter().map(|&(a, b)| SackBlock { start: at(a), end: at(b) }).collect();
        self.sender.on_ack(&AckIn { ack: at(ack), window, sack: &sack, has_payload: false }, ms(t))
    }
}

fn starts(transmissions: &[Transmission]) -> Vec<u32> {
    transmissions.iter().map(|t| t.seq.since(at(0))).collect()
}

#[test]
fn honour_stops_at_the_right_edge() {
    let mut hand = Hand::new(SenderConfig { window: 3_500, ..config() }, 10_000);
    assert_eq!(starts(&hand.send_all(0)), [0, 1_000, 2_000]);
    hand.ack(50, 1_000, 3_500, &[]);
    assert_eq!(starts(&hand.send_all(50)), [3_000]);
}

#[test]
fn what_the_peer_has_of_elsewhere_is_not_sent() {
    let mut hand = Hand::new(SenderConfig { window: 2_000, ..config() }, 10_000);
    hand.send_all(0);
    hand.sender.skip_to(at(5_000));
    assert_eq!(hand.sender.una(), at(0), "something is under way");
    hand.ack(50, 2_000, 2_000, &[]);
    hand.sender.skip_to(at(11_000));
    assert_eq!(hand.sender.nxt(), at(2_000), "there is not so much");
    hand.sender.skip_to(at(5_000));
    assert_eq!((hand.sender.una(), hand.sender.nxt()), (at(5_000), at(5_000)));
    hand.ack(60, 5_000, 2_000, &[]);
    assert_eq!(starts(&hand.send_all(60)), [5_000, 6_000]);
}

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
    let limits = SendLimits { quantum: MSS, window_room: 0 };
    let sent = hand.sender.poll(limits, &mut hand.sampler, false, probe).expect("a probe");
    assert_eq!((sent.seq, sent.is_retransmission), (at(2_000), false));
    let next = hand.sender.next_deadline().expect("a timer");
    assert!(hand.sender.on_timeout(next).is_timeout, "RFC 8985 §7.3: one probe, then the time-out");
}

#[test]
fn acknowledgements_that_deliver_nothing_do_not_put_off_the_time_out() {
    let mut hand = Hand::new(config(), 5_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    hand.sender.timers.arm_rto(&hand.sender.rtt, ms(40));
    let first = hand.sender.next_deadline().expect("a timer");
    assert!(hand.sender.on_timeout(first).is_timeout);
    assert!(hand.send(first.as_millis()).is_some());
    let second = hand.sender.next_deadline().expect("a timer");
    // The peer uploads: each of its segments repeats the number.
    for t in first.as_millis() + 1..second.as_millis() {
        let sack = SackBlocks::new();
        let ack = AckIn { ack: at(1_000), window: 1_000_000, sack: &sack, has_payload: true };
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
                let limits = SendLimits { quantum: 1_000, window_room };
                match hand.sender.poll(limits, &mut hand.sampler, false, at) {
                    Some(transmission) => sent.push(transmission.seq),
                    None => break,
                }
            }
            // From the oldest on, one segment each.
            assert_eq!(sent.first(), Some(&super::tests::at(0)));
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
fn a_zero_window_is_probed_without_data() {
    let mut hand = Hand::new(config(), 3_000);
    hand.send(0);
    hand.ack(40, 1_000, 0, &[]);
    assert_eq!(hand.send(41), None);
    let deadline = hand.sender.next_deadline().expect("the persist timer");
    hand.sender.on_timeout(deadline);
    let probe = hand.send(deadline.as_millis()).expect("a probe");
    assert_eq!((probe.seq, probe.len, probe.is_probe), (at(999), 0, true));
    hand.ack(deadline.as_millis() + 40, 1_000, 5_000, &[]);
    assert_eq!(starts(&hand.send_all(600)), [1_000, 2_000]);
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
fn a_second_hole_dooms_what_lies_a_window_behind_it() {
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
    // It was late only: all of it arrives, and then all of it again, which a peer without D-SACK answers like this.
    hand.ack(70, 20_000, 3_000, &[]);
    let lost: u32 = (200..219).map(|t| hand.ack(t, 20_000, 3_000, &[]).lost).sum();
    assert_eq!(lost, MSS);
}

#[test]
fn a_client_without_room_is_bet_less_on() {
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
fn a_window_below_one_segment_lets_one_segment_go() {
    let mut hand = Hand::new(config(), 3_000);
    let limits = SendLimits { quantum: MSS, window_room: 500 };
    let mut poll = |idle| hand.sender.poll(limits, &mut hand.sampler, idle, ms(0)).map(|t| t.len);
    assert_eq!((poll(false), poll(true)), (None, Some(MSS)));
}

#[test]
fn nonsense_is_refused() {
    let mut hand = Hand::new(config(), 3_000);
    hand.send_all(0);
    assert!(hand.ack(40, 9_000, 1_000_000, &[]).is_unacceptable);
    assert_eq!(hand.ack(40, 0, 1_000_000, &[(50_000, 60_000)]).invalid_sack_blocks, 1);
    assert_eq!(hand.sender.in_flight(), 3_000);
}

#[test]
fn d_sack_widens_the_reordering_window() {
    let mut hand = Hand::new(config(), 3_000);
    hand.send_all(0);
    assert!(hand.ack(40, 2_000, 1_000_000, &[(0, 1_000)]).has_d_sack);
}

#[test]
fn the_end_is_sent_with_the_last_data_and_again_when_lost() {
    let mut hand = Hand::new(config(), 1_500);
    hand.sender.set_available(at(1_500), true);
    let sent = hand.send_all(0);
    assert_eq!(sent.iter().map(|t| (t.len, t.fin)).collect::<Vec<_>>(), [(1_000, false), (500, true)]);
    hand.ack(40, 1_000, 1_000_000, &[]);
    let deadline = hand.sender.next_deadline().expect("a timer");
    hand.sender.on_timeout(deadline);
    let again = hand.send(deadline.as_millis()).expect("a probe");
    assert_eq!((again.seq, again.len, again.fin), (at(1_000), 500, true));
    hand.ack(600, 1_501, 1_000_000, &[]);
    assert!(hand.sender.is_fin_acked());
}

/// What the channel does to each packet in turn.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Deliver,
    Lose,
    Double,
    Delay(u64),
}

/// Draws fates at random: a fixed pattern could fall in step with the sender and lose one segment for ever.
struct Channel {
    state: u64,
    lose_permille: u64,
    disturb_permille: u64,
}

impl Channel {
    fn next(&mut self) -> Fate {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = self.state >> 40;
        match draw % 1_000 {
            p if p < self.lose_permille => Fate::Lose,
            p if p < self.lose_permille + self.disturb_permille => match draw >> 16 & 1 {
                0 => Fate::Double,
                _ => Fate::Delay((draw >> 10) % 300),
            },
            _ => Fate::Deliver,
        }
    }
}

#[derive(Clone, Debug)]
struct Ack {
    ack: SeqNum,
    window: u32,
    sack: SackBlocks,
}

/// Runs a transfer of `total` bytes; returns what the receiver's application read and when it ended.
fn transfer(
    config: SenderConfig,
    total: u32,
    channel: &mut Channel,
    window: u32,
    read_ms: u64,
) -> (Vec<u8>, Instant) {
    let stream: Vec<u8> = (0..total).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut sender = Sender::new(SenderConfig { window, ..config });
    sender.set_available(at(total), true);
    let mut sampler = RateSampler::new();
    let mut receiver = Receiver::new(at(0), window, config.sack, None);
    receiver.allow_fin_ack();
    let mut buffer = StreamBuffer::new(at(0));
    let mut forward: Vec<(u64, Transmission)> = Vec::new();
    let mut back: Vec<(u64, Ack)> = Vec::new();
    let mut read = Vec::new();
    let one_way = 20;
    let mut t = 0;
    while !sender.is_fin_acked() && t < 3_000_000 {
        let now = ms(t);
        sender.on_timeout(now);
        let limits =
            SendLimits { quantum: 3 * MSS, window_room: 20_000u32.saturating_sub(sender.in_flight()) };
        while let Some(sent) = sender.poll(limits, &mut sampler, sender.in_flight() == 0, now) {
            match channel.next() {
                Fate::Lose => {}
                Fate::Deliver => forward.push((t + one_way, sent)),
                Fate::Double => forward.extend([(t + one_way, sent), (t + one_way + 1, sent)]),
                Fate::Delay(more) => forward.push((t + one_way + more, sent)),
            }
            if sender.in_flight() >= 20_000 {
                break;
            }
        }
        let arrived: Vec<_> = forward.extract_if(.., |(at, _)| *at <= t).collect();
        let is_read_time = t % read_ms == 0;
        let mut must_ack = !arrived.is_empty();
        for (_, sent) in arrived {
            let start = sent.seq.distance_from(at(0)).max(0) as usize;
            let payload = &stream[start.min(stream.len())..(start + sent.len as usize).min(stream.len())];
            let segment = SegmentIn { seq: sent.seq, payload, fin: sent.fin, timestamp: None };
            receiver.on_segment(&segment, &mut buffer);
        }
        if is_read_time {
            let ready = receiver.next().since(buffer.start()) as usize;
            let (a, b) = buffer.slices(buffer.start(), ready);
            read.extend_from_slice(a);
            read.extend_from_slice(b);
            buffer.advance_to(receiver.next());
            let free = window;
            must_ack |= receiver.window_growth(free) >= MSS.min(window / 2);
        }
        if must_ack {
            let held = receiver.next().since(buffer.start());
            let free = window.saturating_sub(held);
            let field = receiver.window_field(free, units::WindowScale::NONE);
            let ack = Ack { ack: receiver.ack(), window: u32::from(field), sack: receiver.sack_blocks(3) };
            match channel.next() {
                Fate::Lose => {}
                Fate::Deliver => back.push((t + one_way, ack)),
                Fate::Double => back.extend([(t + one_way, ack.clone()), (t + one_way, ack)]),
                Fate::Delay(more) => back.push((t + one_way + more, ack)),
            }
        }
        let acks: Vec<_> = back.extract_if(.., |(at, _)| *at <= t).collect();
        for (_, ack) in acks {
            let before = sender.una();
            let out = sender.on_ack(
                &AckIn { ack: ack.ack, window: ack.window, sack: &ack.sack, has_payload: false },
                now,
            );
            assert!(!out.is_unacceptable);
            assert!(sender.una().is_at_or_after(before));
            sampler.on_delivered(Bytes::from(out.delivered), out.newest.as_ref(), None, now);
        }
        sender.board.check();
        t += 1;
    }
    assert_eq!(read.len() + buffer.len(), total as usize, "stuck at {t} ms: {sender:?}");
    let (a, b) = buffer.slices(buffer.start(), buffer.len());
    read.extend_from_slice(a);
    read.extend_from_slice(b);
    assert!(read == stream, "the stream differs");
    (read, ms(t))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn delivers_exactly_the_stream(
        total in 0u32..120_000,
        state: u64,
        lose_permille in 0u64..250,
        disturb_permille in 0u64..200,
        sack: bool,
        opportunistic: bool,
        window in 3_000u32..60_000,
        read_ms in 1u64..200,
    ) {
        let mut channel = Channel { state, lose_permille, disturb_permille };
        let policy = if opportunistic { WindowPolicy::Opportunistic } else { WindowPolicy::Honour };
        let config = SenderConfig { sack, policy, rto_max: Duration::from_secs(2), ..config() };
        transfer(config, total, &mut channel, window, read_ms);
    }
}

#[test]
fn a_clean_channel_needs_no_retransmission_and_no_timer() {
    let (_, end) = transfer(
        config(),
        100_000,
        &mut Channel { state: 0, lose_permille: 0, disturb_permille: 0 },
        60_000,
        1,
    );
    assert!(end <= ms(300), "{end}");
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
fn h20_single_bytes_in_sack_blocks_do_not_fill_the_scoreboard() {
    let segments = 500;
    let mut hand = Hand::new(config(), segments * MSS);
    let sent = hand.send_all(0).len() as u32;
    assert_eq!(sent, segments);
    for byte in (1..segments * MSS).step_by(12) {
        hand.ack(600, 0, 1_000_000, &[0, 4, 8].map(|i| (byte + i, byte + i + 1)));
        hand.sender.board.check();
    }
    let entries = hand.sender.board.len() as u32;
    assert!(entries <= 2 * segments + 2, "{entries}");
    let out = hand.ack(700, segments * MSS, 1_000_000, &[]);
    assert_eq!((out.acked, hand.sender.in_flight(), hand.sender.is_idle()), (segments * MSS, 0, true));
}

#[test]
fn blocks_that_end_within_segments_count_while_they_are_few() {
    let mut hand = Hand::new(config(), 3_000);
    hand.send_all(0);
    assert_eq!(hand.ack(40, 0, 1_000_000, &[(1_500, 2_500)]).delivered, 1_000);
}
