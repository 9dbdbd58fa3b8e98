//! Directions of which one is captured later than the other: acknowledgements stand before their data.

use crate::made::{MSS, Tape, With};
use analysis::Direction::FromFirst;
use analysis::{End, FlowReport, Vantage};
use proptest::prelude::*;
use wire::TcpFlags;

const SEGMENTS: u32 = 40;

/// A request, a download of 40 segments with an acknowledgement of each second one, and the end, seen beside the
/// client.
fn download(timestamps: bool) -> Tape {
    let mut tape = Tape::new();
    tape.timestamps = timestamps;
    let mut tape = tape.open();
    tape.send(41_000, 0, 1, 1, 100, &With::default());
    tape.send(81_000, 1, 1, 101, 0, &With::default());
    let mut us = 81_000;
    for n in 0..SEGMENTS {
        us += if n % 10 == 0 { 40_000 } else { 200 };
        tape.send(us, 1, 1 + n * MSS, 101, MSS, &With::default());
        if n % 2 == 1 {
            tape.send(us + 50, 0, 101, 1 + (n + 1) * MSS, 0, &With::default());
        }
    }
    let fin = With { flags: TcpFlags::FIN, ..With::default() };
    tape.send(us + 10_000, 0, 101, 1 + SEGMENTS * MSS, 0, &fin);
    tape.send(us + 50_000, 1, 1 + SEGMENTS * MSS, 102, 0, &fin);
    tape.send(us + 50_100, 0, 102, 2 + SEGMENTS * MSS, 0, &With::default());
    tape
}

/// Reordered, filled, lost, sent again, not captured, and unique bytes of the server's data.
fn found(flow: &FlowReport) -> [u64; 6] {
    // A SYN that is captured last makes the server the first to send.
    let data = &flow.directions[flow.client.unwrap().reverse()];
    let loss = data.loss;
    [
        loss.reordered,
        loss.hole_fills,
        loss.before_capture,
        data.retransmissions.data_packets,
        data.not_captured_bytes,
        data.volume.unique_bytes,
    ]
}

#[test]
fn data_after_its_acknowledgement_is_in_order_and_there() {
    for timestamps in [false, true] {
        let tape = download(timestamps);
        for late_us in [0, 100, 500, 5_000, 50_000] {
            for end in [0, 1] {
                let flow = tape.lagging(end, late_us).flow();
                let case = format!("{timestamps} {late_us} {end}");
                assert_eq!((found(&flow), flow.end), ([0, 0, 0, 0, 0, 40_000], End::Closed), "{case}");
                let client = &flow.directions[flow.client.unwrap()];
                assert_eq!((client.not_captured_bytes, client.loss.reordered), (0, 0), "{case}");
                // No round trip is shorter than the way, less what the clocks differ.
                let rtt = client.rtt.karn.map_or(40.0, |rtt| rtt.min_ms);
                assert!(rtt >= 40.0 - late_us as f64 / 1e3 - 0.1, "{case}: {rtt}");
            }
        }
        // So little is less than the clocks of two queues differ.
        assert_eq!(tape.lagging(1, 500).flow().vantage, Some(Vantage::First));
    }
}

#[test]
fn what_is_missing_or_late_among_such_data_is_told_all_the_same() {
    let without = |left_out: u32| {
        let mut tape = download(false);
        tape.packets.retain(|(_, spec, len)| {
            *len != MSS || spec.seq.get() != tape.isn[1].wrapping_add(1 + left_out * MSS)
        });
        found(&tape.lagging(1, 5_000).flow())
    };
    for left_out in [0, 7, SEGMENTS - 1] {
        assert_eq!(without(left_out), [0, 0, 0, 0, 1_000, 39_000], "{left_out}");
    }
    // Two segments have changed places on their way.
    let mut tape = download(false);
    let data: Vec<usize> = (0..tape.packets.len()).filter(|at| tape.packets[*at].2 == MSS).collect();
    let (a, b) = (data[12], data[13]);
    let (first, second) = (tape.packets[a].0, tape.packets[b].0);
    (tape.packets[a].0, tape.packets[b].0) = (second, first);
    tape.packets.sort_by_key(|(us, _, _)| *us);
    let flow = tape.lagging(1, 5_000).flow();
    assert_eq!(found(&flow), [1, 1, 0, 0, 0, 40_000]);
}

#[test]
fn a_keep_alive_below_what_the_capture_missed_is_one() {
    let mut tape = Tape::opened();
    tape.data(50_000, 0);
    tape.ack(90_000, 3, &[]);
    for us in [45_000_000, 90_000_000] {
        tape.send(us, 0, 3 * MSS, 1, 1, &With::default());
        tape.ack(us + 40_000, 3, &[]);
    }
    let data = &tape.flow().directions[FromFirst];
    assert_eq!((data.retransmissions.keep_alives, data.not_captured_bytes), (2, 2_000));
    assert_eq!((data.volume.unique_bytes, data.loss.hole_fills), (1_000, 0));
}

proptest! {
    #[test]
    fn however_late_one_direction_is_nothing_is_missing(late_us in 0_u64..100_000, end in 0_usize..2, timestamps: bool) {
        prop_assert_eq!(found(&download(timestamps).lagging(end, late_us).flow()), [0, 0, 0, 0, 0, 40_000]);
    }
}
