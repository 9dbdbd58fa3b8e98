//! What IPv4 identifications say: they count what holes show, and nothing alone.

use crate::made::{MSS, Tape, With};
use analysis::Direction::{FromFirst, FromSecond};
use analysis::{DiagnosisKind, FlowReport};

/// Losses of both directions: of data, of acknowledgements, and the time in which losses were repaired.
fn losses(flow: &FlowReport) -> (Vec<u64>, u64) {
    let of = |loss: &analysis::LossReport| [loss.before_capture, loss.acks_before_capture.unwrap_or(0)];
    (flow.directions.iter().flat_map(|d| of(&d.loss)).collect(), flow.budget.loss_recovery_ns)
}

/// Requests of 20 bytes `gap_us` apart, each answered by 30, where others have used the client's counter `others`
/// times before each request, and `before_acks` times before each acknowledgement.
fn requests(count: u32, gap_us: u64, others: u16, before_acks: u16, tape: Tape) -> Tape {
    let mut tape = tape;
    for n in 0..count {
        let us = 100_000 + u64::from(n) * (gap_us + 100_000);
        let (asked, answered) = (1 + n * 20, 1 + n * 30);
        let with = |missing| With { missing, ..With::default() };
        tape.send(us, 0, asked, answered, 20, &with(if n > 0 { others } else { 0 }));
        tape.send(us + 40_000, 1, answered, asked + 20, 30, &With::default());
        tape.send(us + 80_000, 0, asked + 20, answered + 30, 0, &with(before_acks));
    }
    tape
}

#[test]
fn a_counter_that_a_host_uses_for_all_its_connections_is_no_loss() {
    for gap_us in [0, 50_000, 100_000, 10_000_000] {
        for (others, before_acks) in [(1, 0), (3, 0), (10, 0), (17, 0), (1_000, 0), (0, 1), (2, 1), (10, 10)]
        {
            for count in [4, 12, 200] {
                for beside_client in [true, false] {
                    let tape = if beside_client { Tape::opened() } else { Tape::at_receiver(false) };
                    let flow = requests(count, gap_us, others, before_acks, tape).flow();
                    let case = format!("{gap_us} {others} {before_acks} {count} {beside_client}");
                    assert_eq!(losses(&flow), (vec![0; 4], 0), "{case}");
                    assert!(!flow.diagnoses.iter().any(|d| d.kind == DiagnosisKind::Loss), "{case}");
                }
            }
        }
    }
}

#[test]
fn keep_alives_are_answered_with_any_number() {
    // A download, then a keep-alive each 45 s, whose answers come from a counter that others use.
    let mut tape = Tape::opened();
    for n in 0..40 {
        tape.data(100_000 + u64::from(n) * 1_000, n);
        tape.ack(100_500 + u64::from(n) * 1_000, n + 1, &[]);
    }
    for n in 1..10_u32 {
        let us = u64::from(n) * 45_000_000;
        tape.send(us, 0, 40 * MSS, 1, 1, &With::default());
        tape.send(us + 40_000, 1, 1, 1 + 40 * MSS, 0, &With { missing: 100, ..With::default() });
    }
    assert_eq!(losses(&tape.flow()).0, [0; 4]);
}

#[test]
fn at_a_hole_they_count_no_more_than_the_hole_shows() {
    let seen = |missing: u16| {
        let mut tape = Tape::at_receiver(true);
        (0..60).for_each(|n| tape.data(50_000 + u64::from(n) * 1_000, n));
        // Segment 60 is lost, and sent again.
        tape.send(111_000, 0, 1 + 61 * MSS, 1, MSS, &With { missing, ..With::default() });
        (62..70).for_each(|n| tape.data(112_000 + u64::from(n) * 1_000, n));
        tape.data(230_000, 60);
        tape.flow().directions[FromFirst].loss
    };
    let plain = seen(1);
    assert_eq!((plain.before_capture, plain.before_capture_by_ids), (1, Some(1)));
    for missing in [2, 10, 300] {
        assert_eq!(seen(missing).before_capture, 1, "{missing}");
    }
}

#[test]
fn repairs_that_were_lost_are_counted_and_tails_that_leave_no_hole_are_not() {
    let mut tape = Tape::at_receiver(true);
    (0..60).for_each(|n| tape.data(50_000 + u64::from(n) * 1_000, n));
    // Segment 60 is lost, its repair too: two identifications are missing in the end.
    tape.send(111_000, 0, 1 + 61 * MSS, 1, MSS, &With { missing: 1, ..With::default() });
    tape.data(112_000, 62);
    tape.send(190_000, 0, 1 + 60 * MSS, 1, MSS, &With { missing: 1, ..With::default() });
    // A lost tail, or packets of other connections: the capture does not show which.
    tape.send(490_000, 0, 1 + 63 * MSS, 1, MSS, &With { missing: 1, ..With::default() });
    let loss = tape.flow().directions[FromFirst].loss;
    assert_eq!(
        (loss.before_capture_by_holes, loss.before_capture_by_ids, loss.before_capture),
        (1, Some(2), 2)
    );
}

#[test]
fn what_the_capture_missed_was_not_lost_however_small() {
    // Each tenth packet of 100 bytes is missing, and acknowledged.
    let mut tape = Tape::at_receiver(false);
    tape.send(45_000, 0, 1, 1, MSS, &With::default());
    for n in 0..200_u32 {
        let us = 50_000 + u64::from(n) * 1_000;
        if n % 10 == 5 {
            continue;
        }
        let missing = u16::from(n % 10 == 6);
        tape.send(us, 0, 1 + MSS + n * 100, 1, 100, &With { missing, ..With::default() });
        // Half of the acknowledgements are captured before the data that follows the gap.
        if n % 20 != 4 && n % 20 != 6 {
            tape.send(us + 10, 1, 1, 1 + MSS + (n + 1) * 100, 0, &With::default());
        }
    }
    let flow = tape.flow();
    let data = &flow.directions[FromFirst];
    assert_eq!((data.not_captured_bytes, data.loss.before_capture), (2_000, 0), "{:?}", data.loss);
    assert_eq!(flow.directions[FromSecond].loss.before_capture, 0);
}
