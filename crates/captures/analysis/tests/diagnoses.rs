//! What held a flow back: each finding from packets that show it, and none from packets that nearly do.

use crate::made::{MSS, Tape, With};
use analysis::Direction::{FromFirst, FromSecond};
use analysis::{Diagnosis, DiagnosisKind, FlowReport};
use wire::TcpFlags;

/// The finding of this kind, and nothing of the kind in the other direction.
fn found(flow: &FlowReport, kind: DiagnosisKind) -> Option<&Diagnosis> {
    let mut all = flow.diagnoses.iter().filter(|diagnosis| diagnosis.kind == kind);
    let first = all.next();
    assert!(all.next().is_none(), "{:?}", flow.diagnoses);
    first
}

/// 200 segments, one every `gap_us`, each acknowledged after `answer_us(n)`.
fn transfer(gap_us: u64, answer_us: impl Fn(u32) -> u64) -> Tape {
    let mut tape = Tape::opened();
    let mut packets = Vec::new();
    for n in 0..200 {
        let sent = 50_000 + u64::from(n) * gap_us;
        packets.push((sent, n, false));
        packets.push((sent + answer_us(n), n, true));
    }
    packets.sort_unstable();
    for (us, n, is_ack) in packets {
        if is_ack { tape.ack(us, n + 1, &[]) } else { tape.data(us, n) }
    }
    tape
}

#[test]
fn round_trips_that_grow_to_a_multiple_are_bufferbloat_and_less_is_not() {
    let grows = transfer(10_000, |n| 40_000 + u64::from(n) * 1_000).flow();
    let finding = found(&grows, DiagnosisKind::Bufferbloat).unwrap();
    assert_eq!(finding.direction, FromFirst);
    // The exact percentile is 229 ms; what is stored is right within 0.8 %.
    assert_eq!(finding.evidence, "RTT 40 -> 230 ms (95 %) at 0.80 Mbit/s");

    // The handshake took 40 ms: less than twice as long is no queue.
    let longer = transfer(10_000, |_| 75_000).flow();
    assert_eq!(found(&longer, DiagnosisKind::Bufferbloat), None);
    // Twice as long, but less than 50 ms more.
    let little = transfer(10_000, |n| 40_000 + u64::from(n) * 240).flow();
    assert_eq!(found(&little, DiagnosisKind::Bufferbloat), None);
}

#[test]
fn a_sender_that_waits_for_its_application_is_application_limited() {
    // 20 ms for each round trip, then nothing for 60 ms.
    let idle = transfer(80_000, |_| 20_000).flow();
    let finding = found(&idle, DiagnosisKind::ApplicationLimited).unwrap();
    assert!(finding.evidence.starts_with("nothing outstanding 75 %"), "{}", finding.evidence);
    let busy = transfer(10_000, |_| 20_000).flow();
    assert_eq!(found(&busy, DiagnosisKind::ApplicationLimited), None);
}

#[test]
fn a_pause_before_the_end_and_a_shut_window_are_no_lack_of_data() {
    let mut pause = transfer(1_000, |_| 20_000);
    let fin = With { flags: TcpFlags::FIN, ..With::default() };
    pause.send(20_000_000, 0, 1 + 200 * MSS, 1, 0, &fin);
    assert_eq!(found(&pause.flow(), DiagnosisKind::ApplicationLimited), None);
    // The receiver shuts its window for 20 s, then takes another segment.
    let mut shut = transfer(1_000, |_| 20_000);
    shut.send(280_000, 1, 1, 1 + 200 * MSS, 0, &With { window: Some(0), ..With::default() });
    shut.send(20_000_000, 1, 1, 1 + 200 * MSS, 0, &With { window: Some(50_000), ..With::default() });
    shut.data(20_000_100, 200);
    shut.ack(20_020_100, 201, &[]);
    assert_eq!(found(&shut.flow(), DiagnosisKind::ApplicationLimited), None);
    assert!(found(&shut.flow(), DiagnosisKind::ZeroWindow).is_some());
}

#[test]
fn one_stall_is_no_bufferbloat() {
    // What is sent from 1 s to 1.45 s after the start is acknowledged at its end; all else in 40 ms.
    let stalled = transfer(10_000, |n| match n {
        100.. => 40_000.max(1_500_000_u64.saturating_sub(u64::from(n) * 10_000)),
        _ => 40_000,
    });
    let flow = stalled.flow();
    let rtt = flow.directions[FromFirst].rtt.karn.unwrap();
    assert!(rtt.p95_ms > 300.0 && rtt.p50_ms < 45.0, "{rtt:?}");
    assert_eq!(found(&flow, DiagnosisKind::Bufferbloat), None);
}

#[test]
fn time_outs_are_told_with_the_longest_pause() {
    let mut tape = Tape::opened();
    tape.data(50_000, 0);
    tape.data(1_250_000, 0);
    tape.ack(1_290_000, 1, &[]);
    let flow = tape.flow();
    let finding = found(&flow, DiagnosisKind::TimeOuts).unwrap();
    assert_eq!(finding.evidence, "1 retransmission time-outs, 1240 ms without progress at most");
    assert_eq!(finding.direction, FromFirst);
}

#[test]
fn another_hop_limit_in_data_than_in_the_syn_is_another_machine() {
    let mut tape = transfer(10_000, |_| 40_000);
    assert_eq!(found(&tape.flow(), DiagnosisKind::SplitConnection), None);
    for (_, spec, len) in &mut tape.packets {
        spec.hop_limit = if *len > 0 { 61 } else { 64 };
    }
    let flow = tape.flow();
    assert_eq!(
        (flow.directions[FromFirst].hop_limits.syn, flow.directions[FromFirst].hop_limits.data),
        (Some(64), Some(61))
    );
    assert_eq!(flow.directions[FromSecond].hop_limits.data, None, "it sent no data");
    let finding = found(&flow, DiagnosisKind::SplitConnection).unwrap();
    assert_eq!(finding.evidence, "hop limit 64 in the SYN, 61 in data: two machines send");
}

#[test]
fn data_that_is_answered_sooner_than_the_handshake_was_is_a_split_connection() {
    // The handshake took 40 ms to the server; data is answered in 2 ms.
    let sooner = transfer(10_000, |_| 2_000).flow();
    let finding = found(&sooner, DiagnosisKind::SplitConnection).unwrap();
    assert!(finding.evidence.starts_with("handshake answered in 40.0 ms"), "{}", finding.evidence);
    // A third of it may be chance.
    let near = transfer(10_000, |_| 15_000).flow();
    assert_eq!(found(&near, DiagnosisKind::SplitConnection), None);
}

#[test]
fn packets_that_come_late_are_reordering_and_not_loss() {
    let mut tape = Tape::opened();
    for n in [0, 1, 3, 2, 4, 5] {
        tape.data(50_000 + u64::from(n) * 100, n);
        let (us, spec, len) = tape.packets.pop().unwrap();
        // As seen beside the receiver, 0.1 ms apart whatever their number.
        let before = tape.packets.last().unwrap().0;
        tape.packets.push((us.max(before + 100), spec, len));
    }
    let flow = tape.flow();
    let finding = found(&flow, DiagnosisKind::Reordering).unwrap();
    assert_eq!(finding.evidence, "1 packets late, 16.67 % of data packets");
    assert_eq!(found(&flow, DiagnosisKind::Loss), None);
}

#[test]
fn bytes_acknowledged_that_the_capture_does_not_have_are_its_gaps() {
    let mut tape = Tape::opened();
    tape.data(50_000, 0);
    tape.data(50_100, 3);
    tape.ack(90_100, 4, &[]);
    let flow = tape.flow();
    assert_eq!(flow.directions[FromFirst].not_captured_bytes, 2 * u64::from(MSS));
    let finding = found(&flow, DiagnosisKind::CaptureGaps).unwrap();
    assert_eq!(finding.evidence, "2000 B acknowledged that the capture does not have");
}

#[test]
fn loss_at_which_throughput_stays_the_same_is_not_from_a_full_queue() {
    // One segment every 10 ms. In each of ten seconds one is lost and sent again by fast retransmission.
    let lossy = |is_halved: bool| {
        let mut tape = Tape::opened();
        let (mut us, mut n) = (50_000, 0);
        for _ in 0..10 {
            for place in 0..100 {
                tape.data(us, n);
                if place == 50 {
                    // It is lost: three later ones are SACKed, and it is sent again and acknowledged.
                    let lost = n;
                    for later in 1..=3 {
                        tape.data(us + later * 1_000, lost + later as u32);
                        tape.ack(us + later * 1_000 + 500, lost, &[(lost + 1, lost + 1 + later as u32)]);
                    }
                    tape.data(us + 4_000, lost);
                    tape.ack(us + 8_000, lost + 4, &[]);
                    n += 3;
                } else {
                    tape.ack(us + 500, n + 1, &[]);
                }
                let is_after = (50..80).contains(&place);
                us += if is_halved && is_after { 20_000 } else { 10_000 };
                n += 1;
            }
        }
        tape.flow()
    };
    let steady = lossy(false);
    let reductions = steady.directions[FromFirst].sender.window_reductions.unwrap();
    assert_eq!((reductions.fast, reductions.time_outs), (10, 0));
    let finding = found(&steady, DiagnosisKind::LossWithoutRateChange);
    // Bins with a loss have three segments more than those before them.
    assert!(reductions.throughput_loss.is_some_and(|loss| loss < 0.0), "{reductions:?}");
    assert_eq!(finding.is_some(), reductions.throughput_loss.unwrap().abs() < 0.1);
    let halved = lossy(true).directions[FromFirst].sender.window_reductions.unwrap();
    assert!(halved.throughput_loss > reductions.throughput_loss, "{halved:?} {reductions:?}");
}

#[test]
fn a_reset_that_answers_the_syn_is_a_refusal_and_silence_is_not() {
    let mut tape = Tape::new();
    let syn = With { flags: TcpFlags::SYN, ..With::default() };
    tape.send(0, 0, 0, 0, 0, &syn);
    let silent = tape.flow();
    assert_eq!(silent.diagnoses[0].kind, DiagnosisKind::NoAnswer);
    tape.send(40_000, 1, 0, 1, 0, &With { flags: TcpFlags::RST, ..With::default() });
    let refused = tape.flow();
    assert_eq!(
        (refused.diagnoses[0].kind, refused.diagnoses[0].direction),
        (DiagnosisKind::Refused, FromFirst)
    );
    assert_eq!(refused.diagnoses.len(), 1);
}
