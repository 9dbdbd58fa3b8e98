//! Where a flow's time went: the parts sum to the whole, and are the same from either end of the path.

use crate::made::{MSS, Tape, With};
use analysis::{FlowReport, TimeBudget, TimeCause};
use proptest::prelude::*;
use wire::TcpFlags;

/// One way of the path, microseconds.
const WAY: u64 = 20_000;

/// A segment: when it is sent, its number, whether it is lost, whether it ends what there is to send.
#[derive(Clone, Copy)]
struct Sent {
    us: u64,
    n: u32,
    is_lost: bool,
    is_last: bool,
}

fn sent(us: u64, n: u32) -> Sent {
    Sent { us, n, is_lost: false, is_last: false }
}

/// The same connection captured beside the sender, who opens it, and beside the receiver, who takes `window`
/// segments.
fn both_ends(segments: &[Sent], window: u32, fin_us: Option<u64>) -> [Tape; 2] {
    // When, by whom, sequence, acknowledgement, length, flags: as each end has it when it is there.
    let mut packets = vec![
        (0, 0, 0, 0, 0, TcpFlags::SYN),
        (WAY, 1, 0, 1, 0, TcpFlags::SYN),
        (2 * WAY + 10, 0, 1, 1, 0, TcpFlags::default()),
    ];
    let mut arrivals: Vec<Sent> = segments.iter().filter(|s| !s.is_lost).copied().collect();
    arrivals.sort_by_key(|s| s.us);
    for s in segments {
        let flags = if s.is_last { TcpFlags::PSH } else { TcpFlags::default() };
        // A lost one has no place at the receiver.
        packets.push((s.us, if s.is_lost { 2 } else { 0 }, 1 + s.n * MSS, 1, MSS, flags));
    }
    let (mut have, mut edge) = (std::collections::BTreeSet::new(), 0);
    for s in &arrivals {
        have.insert(s.n);
        while have.contains(&edge) {
            edge += 1;
        }
        packets.push((s.us + WAY, 1, 1, 1 + edge * MSS, 0, TcpFlags::default()));
    }
    if let Some(us) = fin_us {
        packets.push((us, 0, 1 + edge * MSS, 1, 0, TcpFlags::FIN));
        packets.push((us + WAY, 1, 1, 2 + edge * MSS, 0, TcpFlags::FIN));
        packets.push((us + 2 * WAY + 10, 0, 2 + edge * MSS, 2, 0, TcpFlags::default()));
    }
    [0, 1].map(|end| {
        let mut seen: Vec<_> = packets
            .iter()
            .filter(|packet| packet.1 < 2 || end == 0)
            .map(|packet| (if packet.1 % 2 == end { packet.0 } else { packet.0 + WAY }, *packet))
            .collect();
        seen.sort_by_key(|(us, _)| *us);
        let mut tape = Tape::new();
        for (us, (_, from, seq, ack, len, flags)) in seen {
            let with = With { flags, window: Some((window * MSS / 4) as u16), ..With::default() };
            tape.send(us, from % 2, seq, ack, len, &with);
        }
        tape
    })
}

fn share(budget: &TimeBudget, cause: TimeCause) -> u64 {
    budget.per_mille(cause) / 10
}

fn sums(flow: &FlowReport) -> bool {
    let budget = &flow.budget;
    let sum: u64 = TimeCause::ALL.iter().map(|cause| budget.of(*cause)).sum();
    sum == budget.total_ns && budget.total_ns as f64 / 1e9 == flow.duration_s
}

#[test]
fn a_full_window_is_seen_from_either_end() {
    // A window of ten segments each round trip.
    let segments: Vec<Sent> =
        (0..500).map(|n| sent(50_000 + u64::from(n / 10) * (2 * WAY) + u64::from(n % 10) * 100, n)).collect();
    for tape in both_ends(&segments, 10, None) {
        let budget = tape.flow().budget;
        assert!(share(&budget, TimeCause::ReceiveWindow) >= 85, "{budget:?}");
        assert!(budget.slow_because().is_some_and(|text| text.contains("window was full")));
    }
    // The same with a window that has room for four times as much.
    for tape in both_ends(&segments, 40, None) {
        let budget = tape.flow().budget;
        assert_eq!(budget.receive_window_ns, 0, "{budget:?}");
    }
}

#[test]
fn pauses_of_the_application_are_seen_from_either_end() {
    // Ten segments each 200 ms: a round trip of 40 ms, then nothing.
    let segments: Vec<Sent> = (0..200)
        .map(|n| Sent {
            is_last: n % 10 == 9,
            ..sent(50_000 + u64::from(n / 10) * 200_000 + u64::from(n % 10) * 100, n)
        })
        .collect();
    for tape in both_ends(&segments, 60, None) {
        let budget = tape.flow().budget;
        assert!((74..=82).contains(&share(&budget, TimeCause::Application)), "{budget:?}");
    }
}

#[test]
fn an_outage_is_as_long_as_nothing_got_through() {
    // Ten segments a round trip. All from 1 s on are lost, and sent again after 0.2, 0.6, 1.4, 3.0 and 4.4 s.
    let mut segments: Vec<Sent> =
        (0..250).map(|n| sent(50_000 + u64::from(n / 10) * 40_000 + u64::from(n % 10) * 100, n)).collect();
    let (lost_at, first) = (1_050_000, 250);
    segments.extend((0..10).map(|n| Sent { is_lost: true, ..sent(lost_at + u64::from(n) * 100, first + n) }));
    for after in [240_000, 640_000, 1_440_000, 3_040_000] {
        segments.push(Sent { is_lost: true, ..sent(lost_at + after, first) });
    }
    segments.push(sent(lost_at + 4_400_000, first));
    segments.extend((1..10).map(|n| sent(lost_at + 4_440_000 + u64::from(n) * 100, first + n)));
    segments.extend(
        (0..250).map(|n| sent(5_600_000 + u64::from(n / 10) * 40_000 + u64::from(n % 10) * 100, 260 + n)),
    );
    for tape in both_ends(&segments, 60, None) {
        let budget = tape.flow().budget;
        assert!((4_350..=4_500).contains(&(budget.outage_ns / 1_000_000)), "{budget:?}");
        assert!(budget.slow_because().is_some_and(|text| text.contains("nothing got through")));
    }
}

#[test]
fn what_was_held_on_its_way_is_no_pause_of_the_application() {
    // Beside the receiver: a segment each 5 ms. One of the fifty is the end of a write; then nothing comes
    // for 900 ms, and the sender's clock says whether the next one left before them or after.
    let seen = |held: bool| {
        let mut tape = both_ends(&[], 60, None)[1].clone();
        for n in 0..100 {
            let sent_ms = 100 + n * 5 + if n >= 50 && !held { 900 } else { 0 };
            let us = u64::from(100 + n * 5 + if n >= 50 { 900 } else { 0 }) * 1_000;
            let flags = if n == 49 { TcpFlags::PSH } else { TcpFlags::default() };
            let with = With { flags, stamps: Some((sent_ms, 0)), ..With::default() };
            tape.send(us, 0, 1 + n * MSS, 1, MSS, &with);
            tape.ack(us + 10, n + 1, &[]);
        }
        tape.flow().budget
    };
    let held = seen(true);
    assert_eq!(held.application_ns / 50_000_000, 0, "{held:?}");
    assert!(held.loss_recovery_ns >= 850_000_000, "{held:?}");
    let paused = seen(false);
    assert!((820..=880).contains(&(paused.application_ns / 1_000_000)), "{paused:?}");
}

#[test]
fn identifications_alone_do_not_make_a_pause_a_loss() {
    // A segment each 5 ms, and a pause of 300 ms after the end of a write. Meanwhile others may use the counter.
    let seen = |missing: u16| {
        let mut tape = both_ends(&[], 60, None)[1].clone();
        for n in 0..40 {
            let us = u64::from(100 + n * 5 + if n >= 20 { 300 } else { 0 }) * 1_000;
            let flags = if n == 19 { TcpFlags::PSH } else { TcpFlags::default() };
            let with = With { flags, missing: if n == 20 { missing } else { 0 }, ..With::default() };
            tape.send(us, 0, 1 + n * MSS, 1, MSS, &with);
            tape.ack(us + 10, n + 1, &[]);
        }
        let budget = tape.flow().budget;
        [budget.loss_recovery_ns, budget.application_ns].map(|ns| ns / 1_000_000)
    };
    let [lost, paused] = seen(0);
    assert!(lost == 0 && paused >= 260, "{lost} {paused}");
    for missing in [1, 3, 16, 300] {
        assert_eq!(seen(missing), [lost, paused], "{missing}");
    }
}

#[test]
fn a_lost_request_is_loss_and_not_the_application() {
    // Beside the client: the request is sent again after 240 ms, or just late.
    let seen = |is_lost: bool| {
        let mut tape = Tape::opened();
        let request = With { flags: TcpFlags::PSH, ..With::default() };
        if is_lost {
            tape.send(60_000, 0, 1, 1, 100, &request);
        }
        tape.send(300_000, 0, 1, 1, 100, &request);
        tape.send(340_000, 1, 1, 101, 0, &With::default());
        for n in 0..20 {
            tape.send(345_000 + u64::from(n) * 1_000, 1, 1 + n * MSS, 101, MSS, &With::default());
            tape.send(345_010 + u64::from(n) * 1_000, 0, 101, 1 + (n + 1) * MSS, 0, &With::default());
        }
        let budget = tape.flow().budget;
        [budget.loss_recovery_ns, budget.application_ns].map(|ns| ns / 1_000_000)
    };
    let ([lost, paused], [none, of_application]) = (seen(true), seen(false));
    assert!((275..=285).contains(&lost) && paused < 30, "{lost} {paused}");
    assert!(none == 0 && (260..=270).contains(&of_application), "{none} {of_application}");
}

#[test]
fn a_pause_before_the_end_is_closing_and_not_the_application() {
    let segments: Vec<Sent> = (0..100).map(|n| sent(50_000 + u64::from(n) * 4_000, n)).collect();
    for tape in both_ends(&segments, 60, Some(5_000_000)) {
        let budget = tape.flow().budget;
        assert!(share(&budget, TimeCause::Closing) >= 85, "{budget:?}");
        assert!(share(&budget, TimeCause::Application) <= 2, "{budget:?}");
    }
}

#[test]
fn a_shut_window_is_the_receivers_and_not_the_application() {
    let mut tape = Tape::opened();
    for n in 0..20 {
        tape.data(50_000 + u64::from(n) * 1_000, n);
        let window = if n == 19 { 0 } else { 5_000 };
        let with = With { window: Some(window), ..With::default() };
        tape.send(50_500 + u64::from(n) * 1_000, 1, 1, 1 + (n + 1) * MSS, 0, &with);
    }
    let open = With { window: Some(5_000), ..With::default() };
    tape.send(2_070_000, 1, 1, 1 + 20 * MSS, 0, &open);
    tape.data(2_070_100, 20);
    let budget = tape.flow().budget;
    assert!(share(&budget, TimeCause::ReceiveWindow) >= 94, "{budget:?}");
    assert_eq!(share(&budget, TimeCause::Application), 0, "{budget:?}");
}

/// A packet of either end: pause before it, number of its segment, what it is.
fn any_packet() -> impl Strategy<Value = (u64, u32, u8, u8)> {
    (prop_oneof![0_u64..2_000, 0_u64..3_000_000], 0_u32..30, 0_u8..8, 0_u8..4)
}

proptest! {
    #[test]
    fn parts_sum_to_the_whole_for_any_packets(
        packets in prop::collection::vec(any_packet(), 1..120),
        beside in 0_u8..3,
        back in 0_u64..500,
    ) {
        let mut tape = match beside {
            0 => Tape::opened(),
            1 => both_ends(&[], 10, None)[1].clone(),
            _ => Tape::new(),
        };
        let mut us = 60_000;
        for (pause, n, kind, window) in packets {
            us += pause;
            let window = Some([0, 300, 5_000, 50_000][usize::from(window)]);
            let with = With { window, ..With::default() };
            let sack: &[(u32, u32)] = &[(1 + (n + 1) * MSS, 1 + (n + 2) * MSS)];
            match kind {
                0..=2 => tape.send(us, 0, 1 + n * MSS, 1, MSS, &with),
                // Out of order in time, and shorter.
                3 => tape.send(us - back, 0, 1 + n * MSS, 1, MSS / 2, &With { flags: TcpFlags::PSH, ..with }),
                4 | 5 => tape.send(us, 1, 1, 1 + n * MSS, 0, &with),
                6 => tape.send(us, 1, 1, 1 + n * MSS, 0, &With { sack, ..with }),
                _ if n == 0 => tape.send(us, 0, 1 + 30 * MSS, 1, 0, &With { flags: TcpFlags::FIN, ..with }),
                _ => tape.send(us, 1, 1 + n * MSS, 1 + n * MSS, MSS, &with),
            }
        }
        for flow in tape.analyze().flows {
            prop_assert!(sums(&flow), "{:?} {}", flow.budget, flow.duration_s);
        }
    }
}
