//! Whole connections: what is counted, why it was sent again, and what it says about the path.

use crate::made::{MSS, Packet, Tape, With, analyze};
use analysis::Direction::{FromFirst, FromSecond};
use analysis::{Cause, DiagnosisKind, End, EventKind, SpuriousBy, Vantage};
use proptest::prelude::*;
use units::SeqNum;
use wire::TcpFlags;

/// Segments 0 to 9 sent 1 ms apart from 50 ms on; `lost` of them are not SACKed 40 ms later.
fn burst(tape: &mut Tape, lost: &[u32]) {
    (0..10).for_each(|n| tape.data(50_000 + u64::from(n) * 1_000, n));
    let mut edge = 0;
    for n in 0..10 {
        if lost.contains(&n) {
            continue;
        }
        if n == edge {
            edge = n + 1;
        }
        let sack: Vec<(u32, u32)> = if n >= edge { vec![(n.max(1), n + 1)] } else { Vec::new() };
        tape.ack(90_000 + u64::from(n) * 1_000, edge, &sack);
    }
}

#[test]
fn a_clean_connection() {
    let mut tape = Tape::opened();
    burst(&mut tape, &[]);
    let fin = With { flags: TcpFlags::FIN, ..With::default() };
    tape.send(100_000, 0, 1 + 10 * MSS, 1, 0, &fin);
    tape.send(140_000, 1, 1, 2 + 10 * MSS, 0, &fin);
    tape.send(140_010, 0, 2 + 10 * MSS, 2, 0, &With::default());
    let flow = tape.flow();
    assert_eq!((flow.end, flow.client, flow.vantage), (End::Closed, Some(FromFirst), Some(Vantage::First)));
    assert_eq!((flow.handshake.to_server_ms, flow.handshake.to_client_ms), (Some(40.0), Some(0.01)));
    let data = &flow.directions[FromFirst];
    assert_eq!((data.volume.packets, data.volume.data_packets, data.volume.unique_bytes), (14, 10, 10_000));
    assert_eq!((data.retransmissions.data_packets, data.loss.rate), (0, Some(0.0)));
    // The SYN, ten segments and the FIN.
    let rtt = data.rtt.karn.unwrap();
    assert_eq!((rtt.n, rtt.min_ms, rtt.max_ms), (12, 40.0, 40.0));
    assert_eq!(flow.directions[FromSecond].window.max, Some(200_000), "scaled");
    assert!(flow.diagnoses.is_empty(), "{:?}", flow.diagnoses);
}

/// A merged packet for a host with a large MTU, from one with an ordinary one, stands for segments of the sender's.
#[test]
fn what_is_merged_is_cut_by_the_smaller_of_both_offers() {
    let mut tape = Tape::opened();
    tape.packets[0].1.mss = Some(8_961);
    tape.send(50_000, 1, 1, 1, 44 * 1_460, &With::default());
    tape.send(50_010, 0, 1, 1 + 44 * 1_460, 0, &With::default());
    tape.send(51_000, 1, 1 + 44 * 1_460, 1, 3 * 1_460, &With::default());
    let flow = tape.flow();
    assert_eq!(flow.directions[FromSecond].volume.data_segments, 47);
    // One whose SYN-ACK is not there may send as much as the other takes.
    let mut tape = Tape::new();
    tape.send(0, 0, 0, 0, 0, &With { flags: TcpFlags::SYN, ..With::default() });
    tape.packets[0].1.mss = Some(8_961);
    tape.send(50_000, 1, 1, 1, 8_961, &With::default());
    assert_eq!(tape.flow().directions[FromSecond].volume.data_segments, 1);
}

#[test]
fn fast_retransmission_and_what_karn_leaves_out() {
    let mut tape = Tape::opened();
    burst(&mut tape, &[3]);
    tape.data(97_000, 3);
    tape.ack(137_000, 10, &[]);
    let kept = tape.analyze();
    let data = &kept.flows[0].directions[FromFirst];
    let r = data.retransmissions;
    assert_eq!((r.data_packets, r.data_bytes, r.fast, r.rto, r.tlp), (1, 1_000, Some(1), Some(0), Some(0)));
    assert_eq!(data.loss.rate, Some(1.0 / 11.0));
    // SYN and segments 0 to 2; what was behind the hole tells nothing.
    assert_eq!(data.rtt.karn.unwrap().n, 4);
    assert_eq!(kept.flows[0].directions[FromSecond].acks.duplicate_acks, 6);
    assert_eq!(kept.flows[0].directions[FromSecond].acks.triple_duplicate_acks, 1);
    let event =
        kept.events.iter().find(|e| e.kind == EventKind::Retransmission { cause: Cause::Fast }).unwrap();
    assert_eq!(
        (event.direction, event.offset, event.len, event.time_ns),
        (FromFirst, 3_001, 1_000, 97_000_000)
    );
}

#[test]
fn silence_is_a_timer_and_the_tail_is_probed() {
    let mut tape = Tape::opened();
    burst(&mut tape, &[8, 9]);
    tape.data(190_000, 9);
    tape.ack(230_000, 8, &[(9, 10)]);
    tape.data(230_500, 8);
    tape.ack(270_000, 10, &[]);
    tape.data(300_000, 10);
    tape.data(300_100, 11);
    tape.data(600_000, 10);
    tape.data(1_200_000, 10);
    tape.ack(1_240_000, 11, &[]);
    tape.data(1_240_100, 11);
    let r = tape.flow().directions[FromFirst].retransmissions;
    assert_eq!(
        (r.tlp, r.fast, r.rto, r.rto_recovery, r.unclear),
        (Some(1), Some(1), Some(2), Some(1), Some(0))
    );
}

#[test]
fn needless_repetitions_are_known_by_dsack_or_timestamps() {
    let mut tape = Tape::opened();
    burst(&mut tape, &[3]);
    tape.data(97_000, 3);
    tape.ack(100_000, 10, &[]);
    tape.ack(137_000, 10, &[(3, 4)]);
    let kept = tape.analyze();
    let r = kept.flows[0].directions[FromFirst].retransmissions;
    assert_eq!((r.spurious, r.spurious_dsack), (1, 1));
    assert_eq!(
        (
            kept.flows[0].directions[FromSecond].acks.dsacks,
            kept.flows[0].directions[FromSecond].acks.dsacks_unexplained
        ),
        (1, 0)
    );
    assert_eq!(kept.flows[0].directions[FromFirst].loss.rate_needed, Some(0.0));
    let found = kept.events.iter().find(|e| matches!(e.kind, EventKind::Spurious { .. })).unwrap();
    let (cause, by) = (Cause::Fast, SpuriousBy::Dsack);
    assert_eq!(found.kind, EventKind::Spurious { cause, by, sent_ns: 97_000_000 });

    let mut tape = Tape::new();
    tape.timestamps = true;
    let mut tape = tape.open();
    tape.data(50_000, 0);
    tape.data(350_000, 0);
    // The echo is of the first one: only late.
    tape.send(360_000, 1, 1, 1 + MSS, 0, &With { stamps: Some((360, 50)), ..With::default() });
    let flow = tape.flow();
    let r = flow.directions[FromFirst].retransmissions;
    assert_eq!((r.rto.unwrap() + r.tlp.unwrap(), r.spurious_timestamp), (1, 1));
    assert_eq!(flow.directions[FromFirst].rtt.timestamps.unwrap().max_ms, 310.0, "what Karn cannot see");
    assert_eq!(flow.diagnoses[0].kind, DiagnosisKind::NeedlessRetransmissions);
}

#[test]
fn beside_the_receiver_loss_is_told_from_reordering() {
    for timestamps in [true, false] {
        let mut tape = Tape::at_receiver(timestamps);
        let late = With { stamps: timestamps.then_some((52, 0)), ..With::default() };
        for n in [0_u32, 1, 3, 4, 2, 5, 7, 8, 9, 10] {
            let us = 50_000 + u64::from(n) * 1_000 + u64::from(n == 2) * 3_000;
            let with = if n == 2 { late } else { With::default() };
            tape.send(us, 0, 1 + n * MSS, 1, MSS, &with);
        }
        tape.data(98_000, 6);
        let flow = tape.flow();
        let loss = flow.directions[FromFirst].loss;
        assert_eq!(flow.vantage, Some(Vantage::Second));
        assert_eq!(
            (loss.reordered, loss.before_capture_by_holes, loss.hole_fills),
            (1, 1, 2),
            "{timestamps}"
        );
        // What the sender repeated cannot be seen from here.
        assert_eq!((loss.rate, flow.directions[FromFirst].retransmissions.fast), (None, None));
        assert_eq!(
            (flow.directions[FromFirst].sender.idle_ms, flow.directions[FromFirst].sender.in_flight_max),
            (None, None)
        );
    }
}

#[test]
fn zero_window_probes_and_keep_alives_are_no_retransmissions() {
    let mut tape = Tape::opened();
    tape.data(50_000, 0);
    tape.send(90_000, 1, 1, 1 + MSS, 0, &With { window: Some(0), ..With::default() });
    // The byte is refused twice, then taken.
    for us in [300_000, 700_000] {
        tape.send(us, 0, 1 + MSS, 1, 1, &With::default());
        tape.send(us + 40_000, 1, 1, 1 + MSS, 0, &With { window: Some(0), ..With::default() });
    }
    tape.send(1_000_000, 1, 1, 1 + MSS, 0, &With::default());
    tape.data(1_000_100, 1);
    tape.ack(1_040_000, 2, &[]);
    tape.send(60_000_000, 0, 2 * MSS, 1, 0, &With::default());
    tape.send(90_000_000, 0, 2 * MSS, 1, 1, &With::default());
    let flow = tape.flow();
    let data = &flow.directions[FromFirst];
    assert_eq!((data.retransmissions.window_probes, data.retransmissions.keep_alives), (2, 2));
    assert_eq!((data.retransmissions.data_packets, data.volume.unique_bytes), (0, 2_000));
    let window = flow.directions[FromSecond].window;
    assert_eq!((window.zero, window.zero_ms, window.updates), (3, 910.0, 1));
    assert_eq!(flow.diagnoses[0].kind, DiagnosisKind::ZeroWindow);
}

#[test]
fn the_receivers_window_as_the_limit() {
    let mut tape = Tape::opened();
    let small = With { window: Some(25_000 / 4), ..With::default() };
    for round in 0..10_u32 {
        let us = 50_000 + u64::from(round) * 40_000;
        (0..25).for_each(|n| tape.data(us, round * 25 + n));
        tape.send(us + 39_900, 1, 1, 1 + (round + 1) * 25 * MSS, 0, &small);
    }
    let flow = tape.flow();
    let finding = flow.diagnoses.iter().find(|d| d.kind == DiagnosisKind::ReceiveWindowLimited).unwrap();
    assert_eq!(finding.direction, FromFirst);
    assert!(flow.directions[FromFirst].sender.window_limited_ms.unwrap() > 300.0);
}

#[test]
fn marks_of_congestion_and_answers_are_events() {
    use TcpFlags as F;
    let with = |flags| With { flags, ..With::default() };
    // Offer, answer, and then a segment with CWR whose successor arrives marked.
    let answers = |offer: F, accepted: F| {
        let mut tape = Tape::new();
        tape.send(0, 0, 0, 0, 0, &with(F::SYN | offer));
        tape.send(40_000, 1, 0, 1, 0, &with(F::SYN | accepted));
        tape.send(40_010, 0, 1, 1, 0, &with(F::NONE));
        tape.send(50_000, 0, 1, 1, MSS, &with(F::CWR));
        tape.data(50_100, 1);
        tape.packets.last_mut().unwrap().1.traffic_class = 3;
        let kept = tape.analyze();
        let found: Vec<_> = kept.events.iter().map(|e| (e.kind, e.direction, e.offset, e.len)).collect();
        let data = &kept.flows[0].directions[FromFirst];
        (found, data.flags.ce, data.sender.window_reductions.unwrap().ecn)
    };
    let (mss, mark) = (u64::from(MSS), EventKind::CongestionMark);
    let classic =
        [(EventKind::CongestionAnswer, FromFirst, 1, mss), (mark, FromFirst, 1 + i64::from(MSS), mss)];
    assert_eq!(answers(F::ECE | F::CWR, F::ECE), (classic.to_vec(), 1, 1));
    // Accurate ECN counts marks with the same bits (RFC 9768).
    assert_eq!(answers(F::ECE | F::CWR | F::AE, F::CWR), (classic[1..].to_vec(), 1, 0));
    assert_eq!(answers(F::ECE | F::CWR | F::AE, F::ECE), (classic.to_vec(), 1, 1), "it was refused");
}

#[test]
fn ends_and_reuse() {
    let syn = With { flags: TcpFlags::SYN, ..With::default() };
    let mut refused = Tape::new();
    refused.send(0, 0, 0, 0, 0, &syn);
    refused.send(40_000, 1, 0, 1, 0, &With { flags: TcpFlags::RST, ..With::default() });
    let flow = refused.flow();
    assert_eq!((flow.end, flow.resets.by_second), (End::ResetBySecond, 1));
    assert_eq!(flow.diagnoses[0].kind, DiagnosisKind::Refused);

    let mut silent = Tape::new();
    [0, 1_000_000, 3_000_000].iter().for_each(|us| silent.send(*us, 0, 0, 0, 0, &syn));
    let flow = silent.flow();
    assert_eq!((flow.handshake.syns, flow.directions[FromFirst].retransmissions.syn), (3, 2));
    assert_eq!(flow.diagnoses[0].kind, DiagnosisKind::NoAnswer);

    // The same ports again with another number: another flow.
    let mut tape = Tape::opened();
    tape.data(50_000, 0);
    let mut again = Tape::new();
    again.isn = [900_000, 800_000];
    let again = again.open();
    let late: Vec<Packet> = again.packets.iter().map(|(us, spec, len)| (us + 60_000, *spec, *len)).collect();
    tape.packets.extend(late);
    assert_eq!(tape.analyze().flows.len(), 2);

    // Long silence: another flow, of which the start is not known.
    let mut tape = Tape::opened();
    tape.data(50_000, 0);
    tape.data(2_000_000_000, 1);
    let flows = tape.analyze().flows;
    assert_eq!((flows.len(), flows[1].client), (2, None));
}

#[test]
fn what_the_capture_does_not_have_is_not_zero() {
    let mut tape = Tape::new();
    (0..5).for_each(|n| tape.data(u64::from(n) * 1_000, n));
    let flow = tape.flow();
    assert_eq!((flow.vantage, flow.client, flow.handshake.total_ms), (None, None, None));
    assert!(flow.directions[FromFirst].rtt.karn.is_none() && flow.directions[FromFirst].window.max.is_none());
    assert!(flow.directions[FromFirst].sender.window_limited_ms.is_none());

    // The capture missed a segment: acknowledged, so not lost.
    let mut tape = Tape::opened();
    tape.data(50_000, 0);
    tape.data(52_000, 2);
    tape.ack(92_000, 3, &[]);
    let flow = tape.flow();
    assert_eq!(
        (flow.directions[FromFirst].not_captured_bytes, flow.directions[FromFirst].volume.unique_bytes),
        (1_000, 2_000)
    );
    assert_eq!(flow.directions[FromFirst].loss.before_capture, 0);
}

/// A transfer with everything in it, for changes that must not matter.
fn rich() -> Tape {
    let mut tape = Tape::opened();
    burst(&mut tape, &[3, 8]);
    tape.data(97_000, 3);
    tape.data(97_100, 8);
    tape.ack(137_000, 8, &[(9, 10)]);
    tape.ack(137_100, 10, &[]);
    tape.ack(138_000, 10, &[(8, 9)]);
    tape.data(400_000, 10);
    tape.data(900_000, 10);
    tape.ack(940_000, 11, &[]);
    tape
}

/// All figures of all flows and events, as text.
fn figures(packets: &[Packet]) -> String {
    let kept = analyze(packets);
    format!(
        "{:?} {:?}",
        kept.flows.iter().map(|f| (&f.directions, &f.diagnoses)).collect::<Vec<_>>(),
        kept.events
    )
}

proptest! {
    #[test]
    fn sequence_numbers_may_start_anywhere(a: u32, b: u32) {
        let mut moved = rich();
        for (_, spec, _) in &mut moved.packets {
            let (own, other) = if spec.src == moved.ends[0] { (a, b) } else { (b, a) };
            spec.seq += own;
            spec.ack += other;
            let blocks = spec.sack;
            spec.sack = blocks.iter().map(|s| wire::SackBlock { start: s.start + other, end: s.end + other }).collect();
        }
        prop_assert_eq!(figures(&moved.packets), figures(&rich().packets));
    }

    #[test]
    fn any_order_and_damage_is_survived(
        order in prop::collection::vec((0_usize..40, 0_u64..3_000_000, any::<u32>(), 0_u16..512, 0_u32..5_000), 1..120),
    ) {
        let base = rich().packets;
        let mut packets = Vec::new();
        for (index, us, number, flags, len) in order {
            let (_, mut spec, usual) = base[index % base.len()];
            if number % 3 == 0 {
                spec.seq = SeqNum::new(number);
                spec.flags = TcpFlags::from_bits(flags);
            }
            if number % 5 == 0 {
                spec.ack = SeqNum::new(number.rotate_left(7));
                spec.sack.push(wire::SackBlock { start: spec.seq, end: spec.ack });
            }
            packets.push((us, spec, if number % 2 == 0 { usual } else { len }));
        }
        let kept = analyze(&packets);
        let seen: u64 = kept.flows.iter().flat_map(|f| &f.directions).map(|d| d.volume.packets + d.volume.duplicates).sum();
        prop_assert_eq!(seen, packets.len() as u64);
        for direction in kept.flows.iter().flat_map(|f| &f.directions) {
            prop_assert!(direction.volume.unique_bytes <= direction.volume.payload_bytes);
            prop_assert!(direction.retransmissions.data_packets <= direction.volume.data_packets);
        }
        prop_assert_eq!(figures(&packets), figures(&packets));
    }
}

#[test]
fn ends_may_change_places() {
    let usual = rich();
    let mut swapped = rich();
    for (_, spec, _) in &mut swapped.packets {
        for end in [&mut spec.src, &mut spec.dst] {
            *end = if *end == usual.ends[0] {
                "[2001:db8::9]:9".parse().unwrap()
            } else {
                "[2001:db8::1]:1".parse().unwrap()
            };
        }
        spec.id = 0;
    }
    let (a, b) = (usual.flow(), swapped.flow());
    assert_eq!(
        a.directions[FromFirst].retransmissions.data_packets,
        b.directions[FromFirst].retransmissions.data_packets
    );
    assert_eq!(format!("{:?}", a.directions[FromFirst].rtt), format!("{:?}", b.directions[FromFirst].rtt));
}
