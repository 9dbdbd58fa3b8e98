//! Single behaviours by hand. [`transfer`] has a sender and a receiver over a channel that loses, doubles and
//! reorders.

mod opportunism;
mod recovery;
mod resumed;
mod transfer;

use super::*;
use crate::interface::{SendContext, Transmission};
use control::RateSampler;
use units::Duration;
use wire::{SackBlock, SackBlocks};

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
        peer_seq: SeqNum::new(0),
        start: at(0),
        mss: MSS,
        sack: true,
        window: 1_000_000,
        policy: WindowPolicy::Honour,
        rto_max: Duration::from_secs(60),
        timeout_segments: 1,
    }
}

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
        self.send_within(u32::MAX, self.sender.is_idle(), ms(t))
    }
    /// Sends what the room allows, at most a segment.
    fn send_within(&mut self, window_room: u32, is_path_idle: bool, now: Instant) -> Option<Transmission> {
        let sampler = &mut self.sampler;
        self.sender.poll(SendContext { now, quantum: MSS, window_room, is_path_idle, sampler })
    }
    /// Sends all it may, one segment a millisecond from `t`.
    fn send_all(&mut self, t: u64) -> Vec<Transmission> {
        (0..).map_while(|i| self.send(t + i)).collect()
    }
    fn ack(&mut self, t: u64, ack: u32, window: u32, blocks: &[(u32, u32)]) -> AckOutcome {
        let sack = blocks.iter().map(|&(a, b)| SackBlock { start: at(a), end: at(b) }).collect();
        self.sender.on_ack(
            &AckIn { seq: SeqNum::new(0), ack: at(ack), window, sack: &sack, has_payload: false },
            ms(t),
        )
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
fn a_window_below_one_segment_lets_one_segment_go() {
    let mut hand = Hand::new(config(), 3_000);
    let mut poll = |is_idle| hand.send_within(500, is_idle, ms(0)).map(|t| t.len);
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

#[test]
fn what_a_flow_costs_is_known() {
    // Millions of idle flows have these: a change that needs more says why. A receiver's intervals
    // and entries lie elsewhere.
    assert!(size_of::<Sender>() <= 312, "{}", size_of::<Sender>());
    assert!(size_of::<crate::Receiver>() <= 104, "{}", size_of::<crate::Receiver>());
    assert!(size_of::<crate::StreamBuffer>() <= 48, "{}", size_of::<crate::StreamBuffer>());
}

#[test]
fn a_repeated_acknowledgement_is_a_duplicate_only_without_any_news() {
    let mut hand = Hand::new(config(), 4_000);
    assert!(!hand.ack(1, 0, 1_000_000, &[]).is_duplicate, "nothing is under way");
    hand.send_all(0);
    assert!(hand.ack(40, 0, 1_000_000, &[]).is_duplicate);
    assert!(!hand.ack(41, 0, 900_000, &[]).is_duplicate, "a window update");
    assert!(!hand.ack(42, 0, 900_000, &[(2_000, 3_000)]).is_duplicate, "a SACK");
    assert!(!hand.ack(43, 1_000, 900_000, &[]).is_duplicate, "an advance");
    let repeated = AckIn {
        seq: SeqNum::new(0),
        ack: at(1_000),
        window: 900_000,
        sack: &SackBlocks::default(),
        has_payload: true,
    };
    assert!(!hand.sender.on_ack(&repeated, ms(44)).is_duplicate, "the peer's own data");
}

#[test]
fn a_policy_may_change_while_a_flow_runs() {
    let mut hand = Hand::new(SenderConfig { window: 3_500, ..config() }, 10_000);
    assert_eq!(hand.send_all(0).len(), 3);
    hand.sender.set_window_policy(WindowPolicy::Opportunistic);
    assert_eq!(hand.send_all(10).len(), 7);
}

#[test]
fn what_a_sender_says_of_itself() {
    let mut hand = Hand::new(SenderConfig { window: 3_500, ..config() }, 2_000);
    assert_eq!((hand.sender.window(), hand.sender.mss()), (3_500, MSS));
    hand.send_all(0);
    assert!(!hand.sender.is_data_acked());
    hand.ack(40, 2_000, 3_500, &[]);
    assert!(hand.sender.is_data_acked());
}

#[test]
fn only_the_first_time_out_in_a_row_is_a_new_loss() {
    let mut hand = Hand::new(SenderConfig { sack: false, ..config() }, 1_000);
    hand.send(0);
    let mut time_outs = Vec::new();
    while time_outs.len() < 3 {
        let deadline = hand.sender.next_deadline().expect("a timer");
        let out = hand.sender.on_timeout(deadline);
        if out.is_timeout {
            time_outs.push(out.is_new_loss);
        }
        hand.send_all(deadline.as_millis());
    }
    assert_eq!(time_outs, [true, false, false]);
}

#[test]
fn an_acknowledgement_without_news_does_not_put_off_the_retransmission_timer() {
    let mut hand = Hand::new(config(), 4_000);
    hand.send_all(0);
    hand.ack(40, 1_000, 1_000_000, &[]);
    let before = hand.sender.next_deadline();
    hand.ack(45, 1_000, 900_000, &[]);
    assert_eq!(hand.sender.next_deadline(), before);
    hand.ack(50, 2_000, 900_000, &[]);
    assert!(hand.sender.next_deadline() > before);
}
