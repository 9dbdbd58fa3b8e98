//! Captures beside a box that acknowledges by itself, as an accelerator does.

use crate::made::{Tape, With};
use analysis::Direction::FromFirst;
use analysis::{DiagnosisKind, FlowReport, PairFinder};
use wire::TcpFlags;

const SEGMENTS: u32 = 20;

/// An upload seen at a point that the server answers after `answer_us`, and where data is acknowledged after
/// `acknowledged_us`.
fn seen(answer_us: u64, acknowledged_us: u64) -> FlowReport {
    let mut tape = Tape::new();
    let syn = With { flags: TcpFlags::SYN, ..With::default() };
    tape.send(0, 0, 0, 0, 0, &syn);
    tape.send(answer_us, 1, 0, 1, 0, &syn);
    tape.send(answer_us + 100, 0, 1, 1, 0, &With::default());
    for n in 0..SEGMENTS {
        let at = 100_000 + 100_000 * u64::from(n);
        tape.data(at, n);
        tape.ack(at + acknowledged_us, n + 1, &[]);
    }
    tape.flow()
}

/// The two as captures of one connection, the first nearer to the client.
fn pair(client: FlowReport, server: FlowReport) -> analysis::Pair {
    let mut finder = PairFinder::default();
    finder.push(&FlowReport { point: 0, ..client });
    finder.push(&FlowReport { point: 1, ..server });
    finder.finish().remove(0)
}

#[test]
fn what_a_box_acknowledges_between_two_points_is_no_loss() {
    // Nothing between but 2 ms of way.
    let plain = pair(seen(42_000, 42_500), seen(40_000, 40_500));
    assert_eq!((plain.is_divided, plain.lost_to_server, plain.lost_to_client), (false, Some(0), Some(0)));
    // On the client's side data is acknowledged after 1 ms, on the server's after 40.
    let divided = pair(seen(42_000, 1_000), seen(40_000, 40_500));
    assert_eq!((divided.is_divided, divided.lost_to_server, divided.lost_to_client), (true, None, None));
    let json = serde_json::to_value(&divided).unwrap();
    assert!(json.get("lost_to_server").is_none() && json["is_divided"] == true, "{json}");
    // A handshake that had to wait for a radio is no box: the windows are the same, and no data comes back
    // too soon.
    assert!(!pair(seen(2_042_000, 42_500), seen(40_000, 40_500)).is_divided);
}

/// A download of which each segment passes once, is acknowledged after `acknowledged_us`, and passes again
/// after a millisecond.
fn twice(acknowledged_us: u64) -> FlowReport {
    let mut tape = Tape::opened();
    for n in 0..SEGMENTS {
        let at = 100_000 + 10_000 * u64::from(n);
        tape.data(at, n);
        if acknowledged_us < 1_000 {
            tape.ack(at + acknowledged_us, n + 1, &[]);
            tape.data(at + 1_000, n);
        } else {
            tape.data(at + 1_000, n);
            tape.ack(at + acknowledged_us, n + 1, &[]);
        }
    }
    tape.flow()
}

#[test]
fn both_sides_of_a_box_in_one_capture_are_no_losses() {
    let kinds = |flow: &FlowReport| flow.diagnoses.iter().map(|found| found.kind).collect::<Vec<_>>();
    let both = twice(100);
    assert_eq!(kinds(&both), [DiagnosisKind::BothSides], "{:?}", both.diagnoses);
    assert_eq!(
        (both.directions[FromFirst].loss.rate, both.directions[FromFirst].loss.rate_needed),
        (None, None)
    );
    // Repeated before it is acknowledged: that is a sender's doing.
    let sender = twice(5_000);
    assert!(kinds(&sender).contains(&DiagnosisKind::Loss), "{:?}", sender.diagnoses);
    assert!(sender.directions[FromFirst].loss.rate.is_some());
}
