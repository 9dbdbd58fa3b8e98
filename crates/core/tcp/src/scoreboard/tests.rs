//! Sums and order under any operations, and memory that is passed on.

use super::*;
use control::RateSampler;
use proptest::prelude::*;

#[test]
fn memory_of_few_entries_is_passed_on_when_it_is_empty() {
    let (mut board, mut other) =
        (Scoreboard::new(SeqNum::new(0), 1_000), Scoreboard::new(SeqNum::new(9), 1_000));
    let stamp = RateSampler::new().on_send(true, Instant::ZERO);
    assert!(board.take_memory().is_none(), "it has none");
    board.push(10, stamp);
    assert!(board.take_memory().is_none(), "it is in use");
    board.acknowledge(SeqNum::new(10), |_| ());
    let memory = board.take_memory().unwrap();
    assert!(board.lacks_memory());
    other.adopt_memory(memory);
    other.push(5, stamp);
    other.check();
    assert_eq!((other.una().get(), other.nxt().get()), (9, 14));
    (0..=SPARE_MAX).for_each(|_| board.push(1, stamp));
    board.acknowledge(board.nxt(), |_| ());
    assert!(board.take_memory().is_none(), "it is a fast flow's");
}

#[derive(Clone, Debug)]
enum Op {
    Push(u32),
    Ack(u32),
    Sack(u32, u32),
    Lose(usize),
    Resend,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1u32..5_000).prop_map(Op::Push),
        (0u32..8_000).prop_map(Op::Ack),
        (0u32..8_000, 1u32..3_000).prop_map(|(a, b)| Op::Sack(a, b)),
        (0usize..20).prop_map(Op::Lose),
        Just(Op::Resend),
    ]
}

proptest! {
    #[test]
    fn sums_and_order_hold_under_any_operations(isn: u32, entries_max in 0usize..100, ops in proptest::collection::vec(op(), 1..120)) {
        let mut board = Scoreboard::new(SeqNum::new(isn), 1_000);
        let stamp = RateSampler::new().on_send(true, Instant::ZERO);
        let mut delivered = 0u64;
        let mut sent = 0u64;
        for op in ops {
            match op {
                Op::Push(len) => { board.push(len, stamp); sent += u64::from(len); }
                Op::Ack(ahead) => {
                    let ack = (board.una() + ahead).earlier_of(board.nxt());
                    board.acknowledge(ack, |e| if !e.is_sacked { delivered += u64::from(e.len()) });
                }
                Op::Sack(ahead, len) => {
                    let start = (board.una() + ahead).earlier_of(board.nxt());
                    let end = (start + len).earlier_of(board.nxt());
                    if start.is_before(end) {
                        board.sack(start, end, entries_max, |e| delivered += u64::from(e.len()));
                    }
                }
                Op::Lose(index) => { board.mark_lost(index); }
                Op::Resend => if let Some(i) = board.first_lost() { board.on_retransmission(i, stamp); },
            }
            board.check();
        }
        let held = u64::from(board.nxt().since(board.una()) - board.sacked_bytes());
        prop_assert_eq!(delivered + held, sent);
    }
}

/// A board with segments of `lens` under way.
fn board_of(lens: &[u32]) -> Scoreboard {
    let mut board = Scoreboard::new(SeqNum::new(0), 1_000);
    let stamp = RateSampler::new().on_send(true, Instant::ZERO);
    lens.iter().for_each(|&len| board.push(len, stamp));
    board
}

#[test]
fn the_head_is_lost_when_it_is_marked() {
    let mut board = board_of(&[1_500, 1_000]);
    assert!(!board.is_head_lost());
    assert_eq!(board.lose_head(), 1_000);
    assert!(board.is_head_lost());
}

#[test]
fn a_smaller_mss_loses_what_is_longer() {
    let mut board = board_of(&[1_000, 700, 1_000]);
    assert_eq!(board.lower_mss(700), 2_000);
    assert_eq!((board.mss(), board.in_flight()), (700, 700));
}

#[test]
fn an_order_knows_its_end() {
    let board = board_of(&[1_000, 700]);
    assert_eq!(board.last_order().end(), SeqNum::new(1_700));
}

#[test]
fn entries_are_bounded_by_twice_the_segments_under_way() {
    let lens = vec![1_000; 2 * ENTRIES_MIN];
    assert_eq!(board_of(&lens).entries_max(), 4 * ENTRIES_MIN);
    assert_eq!(board_of(&[1]).entries_max(), ENTRIES_MIN);
}
