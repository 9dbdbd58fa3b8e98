//! The BPF program's arithmetic and the reference in Rust handle the same events. As root.

use std::cell::Cell;

use congestion::layout::{Kind, Shown, Trial, handle};
use congestion::{Program, Setup};
use control::server::{AckEvent, Bound, Law};
use proptest::prelude::*;

/// None, with a line that says why, where the kernel does not take such programs.
fn load() -> Option<Program> {
    if let Err(error) = io::bpf::congestion_controls(None) {
        eprintln!("left out: {error}");
        return None;
    }
    let setup = Setup { is_test: true, ..Setup::private() };
    let loaded = Program::load(&setup);
    Some(loaded.unwrap_or_else(|error| panic!("as root: {error}\n{}", error.log().unwrap_or_default())))
}

#[test]
fn both_lay_their_structures_out_alike() {
    let Some(program) = load() else { return };
    assert_eq!(program.value_lens().unwrap(), [Shown::LEN as u32, Trial::LEN as u32]);
    let mut trial = Trial { kind: Kind::Begin, mss: 1_448, ack: AckEvent::default(), law: Law::new(9_000) };
    assert_eq!(trial.bytes().len(), Trial::LEN);
    program.attempt(&mut trial).unwrap();
    assert_eq!(trial.law, Law::new(1_448));
}

/// A stretch of events that follow each other at even distances: a link of one rate and one queue.
#[derive(Clone, Debug)]
struct Stretch {
    kind: Kind,
    count: u64,
    gap_us: u64,
    delivered: u64,
    lost_every: u64,
    rtt_us: u64,
    in_flight: u64,
    is_limited: bool,
}

fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
    let kind = prop_oneof![8 => Just(Kind::Ack), 1 => Just(Kind::Idle), 1 => Just(Kind::Timeout)];
    let gap = prop_oneof![3 => 20..3_000_u64, 2 => 3_000..60_000_u64, 1 => 0..120_000_000_u64];
    let delivered = prop_oneof![4 => 500..6_000_u64, 1 => 0..200_000_u64, 1 => Just(u64::from(u32::MAX))];
    let lost = prop_oneof![2 => Just(0_u64), 2 => 1..40_u64];
    let rtt = prop_oneof![1 => Just(0_u64), 6 => 5_000..400_000_u64, 1 => 1..90_000_000_u64];
    let in_flight = prop_oneof![4 => 0..400_000_u64, 1 => 0..u64::from(u32::MAX)];
    let one = (kind, 1..60_u64, gap, delivered, lost, rtt, in_flight, any::<bool>()).prop_map(
        |(kind, count, gap_us, delivered, lost_every, rtt_us, in_flight, is_limited)| Stretch {
            kind,
            count,
            gap_us,
            delivered,
            lost_every,
            rtt_us,
            in_flight,
            is_limited,
        },
    );
    prop::collection::vec(one, 1..20)
}

/// After every event the whole state is the same.
#[test]
fn the_program_counts_as_the_reference() {
    let Some(program) = load() else { return };
    // How often each bound was the one in force: a term that no event reaches would be compared in vain.
    let bounds = Cell::new([0_u32; Bound::ALL.len()]);
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(mss in 1..9_000_u64, handshake_us in 0..300_000_u64, begin_us in 1..1_u64 << 50, stretches in stretches())| {
        let mut now_us = begin_us;
        let mut expected = Law::new(mss);
        let ack = AckEvent { now_us, rtt_us: handshake_us, ..AckEvent::default() };
        let mut trial = Trial { kind: Kind::Begin, mss, ack, law: expected };
        handle(&mut expected, Kind::Begin, mss, &ack);
        program.attempt(&mut trial).unwrap();
        prop_assert_eq!(trial.law, expected);
        for stretch in &stretches {
            for nth in 1..=if stretch.kind == Kind::Ack { stretch.count } else { 1 } {
                now_us += stretch.gap_us;
                let is_lost = nth.checked_rem(stretch.lost_every) == Some(0);
                trial.kind = stretch.kind;
                trial.ack = AckEvent {
                    now_us,
                    delivered: stretch.delivered,
                    lost: if is_lost { mss * (1 + nth % 5) } else { 0 },
                    // Queues grow within a stretch.
                    rtt_us: if stretch.rtt_us == 0 { 0 } else { stretch.rtt_us + nth * 100 },
                    in_flight_before: stretch.in_flight,
                    is_limited: stretch.is_limited,
                };
                handle(&mut expected, trial.kind, mss, &trial.ack);
                program.attempt(&mut trial).unwrap();
                prop_assert_eq!(trial.law, expected, "after {:?}", trial.ack);
                let mut counts = bounds.get();
                counts[expected.bound as usize] += 1;
                bounds.set(counts);
            }
        }
    });
    assert!(bounds.get().iter().all(|times| *times > 20), "{bounds:?}");
}
