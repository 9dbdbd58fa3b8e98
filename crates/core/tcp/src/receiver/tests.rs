//! The rules one by one, then any order of any cut of a stream.

use super::*;
use proptest::prelude::*;

const ISN: u32 = 0xffff_ff00; // wraps after 256 bytes

fn at(n: u32) -> SeqNum {
    SeqNum::new(ISN) + n
}

fn setup(window: u32) -> (Receiver, StreamBuffer) {
    (Receiver::new(at(0), window, true, Some(10)), StreamBuffer::new(at(0)))
}

fn data<'a>(n: u32, payload: &'a [u8]) -> SegmentIn<'a> {
    SegmentIn { seq: at(n), payload, fin: false, timestamp: Some(10), moves_time: true }
}

fn blocks(receiver: &mut Receiver) -> Vec<(u32, u32)> {
    receiver.sack_blocks(3).iter().map(|b| (b.start.since(at(0)), b.end.since(at(0)))).collect()
}

#[test]
fn in_order_data_moves_the_left_edge() {
    let (mut r, mut b) = setup(1_000);
    assert_eq!(r.on_segment(&data(0, b"hello"), &mut b), Arrival::InOrder { advanced: 5 });
    assert_eq!(r.ack(), at(5));
    assert_eq!(b.slices(at(0), 5).0, b"hello");
}

#[test]
fn a_hole_is_sacked_newest_first_and_then_filled() {
    let (mut r, mut b) = setup(1_000);
    assert_eq!(r.on_segment(&data(10, b"b"), &mut b), Arrival::OutOfOrder);
    assert_eq!(r.on_segment(&data(30, b"d"), &mut b), Arrival::OutOfOrder);
    assert_eq!(r.on_segment(&data(20, b"c"), &mut b), Arrival::OutOfOrder);
    assert_eq!(blocks(&mut r), [(20, 21), (30, 31), (10, 11)]);
    assert_eq!(r.on_segment(&data(0, b"0123456789"), &mut b), Arrival::InOrder { advanced: 11 });
    assert_eq!(blocks(&mut r), [(20, 21), (30, 31)]);
}

#[test]
fn a_block_that_grows_does_not_push_out_the_others() {
    let (mut r, mut b) = setup(1_000);
    for n in [10, 20, 30, 31, 32, 33, 34] {
        r.on_segment(&data(n, b"x"), &mut b);
    }
    // RFC 2018 §4: the newest first, then those reported most recently, not those with the lowest numbers.
    r.on_segment(&data(5, b"y"), &mut b);
    for n in [35, 36, 37] {
        r.on_segment(&data(n, b"x"), &mut b);
    }
    assert_eq!(blocks(&mut r), [(30, 38), (5, 6), (20, 21)]);
}

#[test]
fn what_lies_near_the_newest_blocks_is_known() {
    let (mut r, mut b) = setup(1_000);
    r.on_segment(&data(10, b"x"), &mut b);
    assert!(r.is_near_newest(at(50), at(51), 2), "the second block");
    r.on_segment(&data(20, b"x"), &mut b);
    r.on_segment(&data(30, b"x"), &mut b);
    let near = [9, 10, 19, 21, 29, 31, 50].map(|n| r.is_near_newest(at(n), at(n + 1), 2));
    assert_eq!(near, [false, false, true, true, true, true, false]);
}

#[test]
fn d_sack_reports_what_came_twice_once() {
    let (mut r, mut b) = setup(1_000);
    r.on_segment(&data(0, b"0123456789"), &mut b);
    assert_eq!(r.on_segment(&data(2, b"234"), &mut b), Arrival::Duplicate);
    assert_eq!(blocks(&mut r), [(2, 5)]);
    assert_eq!(blocks(&mut r), []);
    r.on_segment(&data(20, b"xxxx"), &mut b);
    assert_eq!(r.on_segment(&data(21, b"xx"), &mut b), Arrival::Duplicate);
    assert_eq!(blocks(&mut r), [(21, 23), (20, 24)]);
}

#[test]
fn the_first_copy_of_a_byte_wins() {
    let (mut r, mut b) = setup(1_000);
    r.on_segment(&data(2, b"CD"), &mut b);
    r.on_segment(&data(0, b"abcdef"), &mut b);
    assert_eq!(b.slices(at(0), 6).0, b"abCDef");
}

#[test]
fn beyond_the_window_is_cut_or_refused() {
    let (mut r, mut b) = setup(4);
    assert_eq!(r.on_segment(&data(0, b"0123456"), &mut b), Arrival::InOrder { advanced: 4 });
    assert_eq!(r.on_segment(&data(4, b"456"), &mut b), Arrival::OutOfWindow);
    assert_eq!(r.on_segment(&data(4_000, b"x"), &mut b), Arrival::OutOfWindow);
    assert_eq!(r.ack(), at(4));
}

#[test]
fn a_fin_is_acknowledged_only_when_allowed() {
    let (mut r, mut b) = setup(1_000);
    let fin = SegmentIn { seq: at(3), payload: b"de", fin: true, timestamp: Some(10), moves_time: true };
    assert_eq!(r.on_segment(&fin, &mut b), Arrival::OutOfOrder);
    assert!(!r.is_finished());
    r.on_segment(&data(0, b"abc"), &mut b);
    assert!(r.is_finished());
    assert_eq!(r.ack(), at(5));
    r.allow_fin_ack();
    assert_eq!(r.ack(), at(6));
    // Its retransmission changes nothing.
    assert_eq!(r.on_segment(&fin, &mut b), Arrival::Duplicate);
    assert_eq!(r.ack(), at(6));
}

#[test]
fn a_fin_alone_closes_the_stream() {
    let (mut r, mut b) = setup(1_000);
    r.on_segment(&data(0, b"abc"), &mut b);
    let fin = SegmentIn { seq: at(3), payload: b"", fin: true, timestamp: Some(10), moves_time: true };
    assert_eq!(r.on_segment(&fin, &mut b), Arrival::InOrder { advanced: 0 });
    assert!(r.is_finished());
    assert_eq!(r.on_segment(&data(3, b"more"), &mut b), Arrival::OutOfWindow);
}

#[test]
fn paws_refuses_an_older_timestamp() {
    let (mut r, mut b) = setup(1_000);
    r.on_segment(&SegmentIn { timestamp: Some(20), ..data(0, b"a") }, &mut b);
    assert_eq!(r.on_segment(&SegmentIn { timestamp: Some(19), ..data(1, b"b") }, &mut b), Arrival::TooOld);
    assert_eq!(r.ts_recent(), Some(20));
    assert_eq!(r.ack(), at(1));
}

#[test]
fn ts_recent_follows_the_left_edge_only() {
    let (mut r, mut b) = setup(1_000);
    r.on_segment(&SegmentIn { timestamp: Some(30), ..data(5, b"x") }, &mut b);
    assert_eq!(r.ts_recent(), Some(10), "a segment behind a hole is not echoed");
    r.on_segment(&SegmentIn { timestamp: Some(31), ..data(0, b"a") }, &mut b);
    assert_eq!(r.ts_recent(), Some(31));
}

#[test]
fn the_right_edge_never_moves_back() {
    let (mut r, mut b) = setup(1_000);
    let scale = WindowScale::new(7);
    let field = r.window_field(100_000, scale);
    assert_eq!(field, (100_000 >> 7) as u16);
    let edge = r.right_edge();
    for n in 0..50 {
        r.on_segment(&data(n * 10, b"0123456789"), &mut b);
        let field = r.window_field(if n % 2 == 0 { 0 } else { 100_001 - n * 10 }, scale);
        let told = r.ack() + scale.window(field);
        assert!(told.is_at_or_after(edge), "told {told}, before {edge}");
    }
    assert_eq!(r.window_growth(0), 0);
    assert!(r.window_growth(200_000) > 99_000);
}

proptest! {
    /// Any order of any overlapping cut of a stream gives the stream.
    #[test]
    fn reassembles_anything(
        cuts in proptest::collection::vec((0u32..2_000, 1u32..300), 1..80),
        seed: u64,
    ) {
        let stream: Vec<u8> = (0..2_300u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let (mut r, mut b) = setup(10_000);
        let mut pieces = cuts;
        pieces.extend((0..23).map(|i| (i * 100, 100)));
        let mut state = seed;
        for i in (1..pieces.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            pieces.swap(i, (state >> 33) as usize % (i + 1));
        }
        for (start, len) in pieces {
            let end = (start + len).min(2_300);
            let fin = end == 2_300;
            let payload = &stream[start as usize..end as usize];
            r.on_segment(&SegmentIn { seq: at(start), payload, fin, timestamp: Some(10), moves_time: true }, &mut b);
            let ack = r.ack();
            for block in r.sack_blocks(4).iter() {
                prop_assert!(block.start.is_before(block.end));
                prop_assert!(block.end.is_at_or_before(at(2_301)));
            }
            prop_assert!(ack.is_at_or_before(at(2_300)));
        }
        prop_assert!(r.is_finished() && !r.has_holes());
        let (x, y) = b.slices(at(0), 2_300);
        prop_assert_eq!([x, y].concat(), stream);
    }
}

#[test]
fn a_little_more_room_than_offered_does_not_retract_the_edge() {
    let scale = WindowScale::new(7);
    for free in 1_000..1_500 {
        let mut r = Receiver::new(at(0), 1_000, true, None);
        let field = r.window_field(free, scale);
        let told = r.ack() + scale.window(field);
        assert!(told.is_at_or_after(at(1_000)) && told == r.right_edge(), "{free} bytes free, told {told}");
    }
}

#[test]
fn the_edge_does_not_creep_whatever_the_unit() {
    for shift in 0..=14 {
        let scale = WindowScale::new(shift);
        let (mut r, mut b) = setup(60_000);
        let granted = r.right_edge();
        for n in 0..40 {
            r.on_segment(&data(n * 1_448, &[7; 1_448]), &mut b);
            let field = r.window_field(0, scale);
            let told = r.ack() + scale.window(field);
            assert!(told.is_at_or_after(granted), "scale {shift}: took back {told} of {granted}");
            assert!(told.is_before(granted + (1 << shift)), "scale {shift}: crept to {told} from {granted}");
        }
    }
}

#[test]
fn acknowledgements_of_a_part_grant_no_more() {
    for shift in [0, 10, 13, 14] {
        let scale = WindowScale::new(shift);
        let (mut r, mut b) = setup(60_000);
        let granted = r.right_edge();
        for n in 0..60 {
            r.on_segment(&data(n * 1_448, &[7; 1_448]), &mut b);
            for ack in [r.ack_number() - 1_448, r.ack_number()] {
                let told = ack + scale.window(r.window_field_from(ack, 0, scale));
                assert!(
                    told.is_before(granted + (1 << shift)),
                    "scale {shift}: crept to {told} from {granted}"
                );
            }
        }
    }
}

#[test]
fn a_doubled_end_of_stream_is_not_reported_before_it_is_acknowledged() {
    let (mut r, mut b) = setup(1_000);
    let last = SegmentIn { fin: true, ..data(0, b"abc") };
    r.on_segment(&last, &mut b);
    assert_eq!(r.on_segment(&last, &mut b), Arrival::Duplicate);
    assert_eq!(blocks(&mut r), [(0, 3)]);
    r.allow_fin_ack();
    r.on_segment(&last, &mut b);
    assert_eq!(blocks(&mut r), [(0, 4)]);
}

/// Lends rings of 4 KiB only.
#[derive(Debug)]
struct Small;

impl crate::RingProvider for Small {
    fn allocate(&self, len: usize) -> Option<&'static mut [u8]> {
        (len <= 4_096).then(|| vec![0; len].leak())
    }
    fn give_back(&self, _: &'static mut [u8]) {}
}

#[test]
fn what_there_is_no_memory_for_is_neither_taken_nor_acknowledged() {
    let start = SeqNum::new(1_000);
    let mut receiver = Receiver::new(start, 60_000, true, Some(5));
    let mut buffer = StreamBuffer::with_ring(start, crate::Ring::of_provider(std::sync::Arc::new(Small)));
    let mut take = |at: u32, len: usize, fin: bool, timestamp: u32| {
        let payload = vec![at as u8; len];
        let segment = SegmentIn {
            seq: start + at,
            payload: &payload,
            fin,
            timestamp: Some(timestamp),
            moves_time: true,
        };
        let arrival = receiver.on_segment(&segment, &mut buffer);
        (arrival, receiver.ack(), receiver.highest(), receiver.fin(), receiver.ts_recent())
    };
    let before = (start, start, None, Some(5));
    let with = |arrival, (a, b, c, d)| (arrival, a, b, c, d);
    assert_eq!(take(0, 5_000, true, 6), with(Arrival::NoMemory, before));
    assert_eq!(take(4_000, 500, false, 7), with(Arrival::NoMemory, before));
    let advanced = start + 4_096;
    assert_eq!(
        take(0, 4_096, false, 8),
        (Arrival::InOrder { advanced: 4_096 }, advanced, advanced, None, Some(8))
    );
}

#[test]
fn an_end_behind_a_hole_is_out_of_order() {
    let (mut r, mut b) = setup(1_000);
    r.on_segment(&data(10, b"b"), &mut b);
    let end = SegmentIn { fin: true, ..data(11, b"") };
    assert_eq!(r.on_segment(&end, &mut b), Arrival::OutOfOrder);
    assert_eq!(r.on_segment(&data(0, b"0123456789"), &mut b), Arrival::InOrder { advanced: 11 });
}

#[test]
fn without_sack_nothing_that_came_twice_is_reported() {
    for sack in [true, false] {
        let mut r = Receiver::new(at(0), 1_000, sack, Some(10));
        let mut b = StreamBuffer::new(at(0));
        r.on_segment(&data(0, b"0123456789"), &mut b);
        assert!(!r.has_d_sack());
        r.on_segment(&data(2, b"234"), &mut b);
        assert_eq!(r.has_d_sack(), sack);
    }
}
