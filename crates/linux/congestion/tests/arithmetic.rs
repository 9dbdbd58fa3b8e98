//! The BPF program's arithmetic and the reference in Rust handle the same events. As root.

use std::cell::Cell;

use congestion::layout::{EventKind, Shown, Trial, TrialKind};
use congestion::{ControlProgram, Setup};
use control::server::{AckEvent, Bound, Law, Member, SharedPath};
use proptest::prelude::*;

/// None, with a line that says why, where the kernel does not take such programs.
pub(crate) fn load() -> Option<ControlProgram> {
    if let Err(error) = io::bpf::congestion_controls(None) {
        eprintln!("left out: {error}");
        return None;
    }
    let setup = Setup { is_test: true, ..Setup::private() };
    let loaded = ControlProgram::load(&setup);
    Some(loaded.unwrap_or_else(|error| panic!("as root: {error}\n{}", error.log().unwrap_or_default())))
}

#[test]
fn both_lay_their_structures_out_alike() {
    let Some(program) = load() else { return };
    assert_eq!(program.value_lens().unwrap(), [Shown::LEN as u32, Trial::LEN as u32]);
    let mut trial = Trial::begin(1_448, AckEvent::default());
    trial.law = Law::new(9_000);
    assert_eq!(trial.bytes().len(), Trial::LEN);
    program.attempt(&mut trial).unwrap();
    assert_eq!(trial, Trial::begin(1_448, AckEvent::default()));
}

/// A stretch of events that follow each other at even distances: a link of one rate and one queue.
#[derive(Clone, Debug)]
struct Stretch {
    kind: EventKind,
    count: u64,
    gap_us: u64,
    delivered: u64,
    lost_every: u64,
    rtt_us: u64,
    /// Queues grow within a stretch, by so much from one to the next.
    rise_us: u64,
    in_flight: u64,
    is_limited: bool,
}

fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
    let kind =
        prop_oneof![8 => Just(EventKind::Ack), 1 => Just(EventKind::Idle), 1 => Just(EventKind::Timeout)];
    let gap = prop_oneof![3 => 20..3_000_u64, 2 => 3_000..60_000_u64, 1 => 0..120_000_000_u64];
    let delivered = prop_oneof![4 => 500..6_000_u64, 1 => 0..200_000_u64, 1 => Just(u64::from(u32::MAX))];
    let lost = prop_oneof![2 => Just(0_u64), 2 => 1..40_u64, 1 => 40..60_u64];
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
            rise_us: 100,
            in_flight,
            is_limited,
        },
    );
    // Much is lost in a path without a queue: a policer.
    let policed = (20_000..60_000_u64, 2..4_u64).prop_map(|(delivered, lost_every)| Stretch {
        kind: EventKind::Ack,
        count: 300,
        gap_us: 5_000,
        delivered,
        lost_every,
        rtt_us: 5_000,
        rise_us: 0,
        in_flight: 4_000_000,
        is_limited: true,
    });
    prop::collection::vec(prop_oneof![9 => one, 1 => policed], 1..20)
}

/// Has both handle an event; the whole state is the same after it.
fn compare(program: &ControlProgram, trial: &mut Trial) {
    let mut expected = *trial;
    expected.handle();
    program.attempt(trial).unwrap();
    assert!(*trial == expected, "{:?}: {:#?}\n{:#?}", trial.ack, trial.law, expected.law);
}

/// After every event the whole state is the same.
#[test]
fn the_program_counts_as_the_reference() {
    let Some(program) = load() else { return };
    // How often each bound was the one in force: a term that no event reaches would be compared in vain.
    let bounds = Cell::new([0_u32; Bound::ALL.len()]);
    let beside_others = Cell::new(0_u32);
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(mss in 1..9_000_u64, handshake_us in 0..300_000_u64, begin_us in 1..1_u64 << 50, stretches in stretches())| {
        let mut now_us = begin_us;
        let ack = AckEvent { now_us, rtt_us: handshake_us, ..AckEvent::default() };
        let mut trial = Trial::begin(mss, ack);
        compare(&program, &mut trial);
        for stretch in &stretches {
            for nth in 1..=if stretch.kind == EventKind::Ack { stretch.count } else { 1 } {
                now_us += stretch.gap_us;
                let is_lost = nth.checked_rem(stretch.lost_every) == Some(0);
                trial.kind = TrialKind::Event(stretch.kind);
                trial.ack = AckEvent {
                    now_us,
                    delivered: stretch.delivered,
                    lost: if is_lost { mss * (1 + nth % 5) } else { 0 },
                    rtt_us: if stretch.rtt_us == 0 { 0 } else { stretch.rtt_us + nth * stretch.rise_us },
                    in_flight_before: stretch.in_flight,
                    is_limited: stretch.is_limited,
                };
                compare(&program, &mut trial);
                let mut counts = bounds.get();
                counts[trial.law.bound as usize] += 1;
                bounds.set(counts);
                let is_beside_others = trial.law.others_queue > 0 && trial.law.size > 0 && is_lost;
                beside_others.set(beside_others.get() + u32::from(is_beside_others));
            }
        }
    });
    assert!(beside_others.get() > 20, "{beside_others:?}");
    assert!(bounds.get().iter().all(|times| *times > 20), "{bounds:?}");
}

/// How the delays of two connections go together for a while.
#[derive(Clone, Debug)]
struct Together {
    /// Acknowledgements of each, and the time from one to the next.
    count: u64,
    gap_us: u64,
    /// The queue of the first, which rises and falls by so much; the other's is the same or goes its own way.
    swing_us: u64,
    is_common: bool,
    /// What stands in the queue all the time.
    standing_us: u64,
    /// The second connection is silent.
    is_alone: bool,
    leaves: bool,
    has_timeout: bool,
}

fn together() -> impl Strategy<Value = Vec<Together>> {
    let standing = prop_oneof![Just(0_u64), 20_000..900_000_u64];
    let one = (
        20..400_u64,
        2_000..60_000_u64,
        0..200_000_u64,
        any::<bool>(),
        standing,
        0..8_u8,
        0..16_u8,
        0..12_u8,
    );
    let one =
        one.prop_map(|(count, gap_us, swing_us, is_common, standing_us, alone, leaves, timeout)| Together {
            count,
            gap_us,
            swing_us,
            is_common,
            standing_us,
            is_alone: alone == 0,
            leaves: leaves == 0,
            has_timeout: timeout == 0,
        });
    prop::collection::vec(one, 1..12)
}

/// Two connections of one path: after every exchange the path and what both keep are the same.
#[test]
fn the_program_shares_as_the_reference() {
    let Some(program) = load() else { return };
    // Members that were joined, that were told of a floor and of a drain, that lost what was proved, and hints.
    let seen = Cell::new([0_u32; 5]);
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(mss in 100..9_000_u64, begin_us in 1..1_u64 << 50, stretches in together())| {
        let mut counts = seen.get();
        let mut now_us = begin_us;
        let mut path = SharedPath::default();
        let mut connections = [1, 2].map(|number| {
            let ack = AckEvent { now_us, rtt_us: 30_000 + number * 3_000, ..AckEvent::default() };
            let mut one = Trial::begin(mss, ack);
            compare(&program, &mut one);
            one.member = Member::new(number);
            one
        });
        for stretch in &stretches {
            for nth in 0..stretch.count {
                for (number, one) in connections.iter_mut().enumerate() {
                    now_us += stretch.gap_us / 2;
                    if number == 1 && stretch.is_alone {
                        continue;
                    }
                    let turn = if number == 1 && !stretch.is_common { nth / 7 } else { nth / 13 };
                    let queue_us = stretch.swing_us * (turn % 5) / 4;
                    one.ack = AckEvent {
                        now_us,
                        delivered: mss * 40,
                        lost: 0,
                        rtt_us: 35_000 + stretch.standing_us + queue_us + nth % 3 * 100,
                        in_flight_before: one.law.window,
                        is_limited: nth % 50 != 49,
                    };
                    one.member.is_drained = u64::from(nth % 97 == 96);
                    one.kind = TrialKind::Event(EventKind::Ack);
                    compare(&program, one);
                    one.path = path;
                    one.kind = TrialKind::Exchange;
                    let was_joined = one.member.is_joined > 0;
                    compare(&program, one);
                    path = one.path;
                    counts[0] += u32::from(one.member.is_joined > 0 && one.member.leader != one.member.number);
                    counts[1] += u32::from(one.peers.floor_us > 0);
                    counts[2] += u32::from(one.peers.drain_from_us > 0);
                    counts[3] += u32::from(was_joined && one.member.is_joined == 0);
                }
            }
            let one = &mut connections[stretch.count as usize % 2];
            if stretch.has_timeout {
                one.kind = TrialKind::Event(EventKind::Timeout);
                compare(&program, one);
            }
            if stretch.leaves {
                (one.kind, one.path) = (TrialKind::Leave, path);
                compare(&program, one);
                path = one.path;
            }
            let mut next = Trial::begin(mss, AckEvent { now_us, rtt_us: 30_000, ..AckEvent::default() });
            compare(&program, &mut next);
            (next.kind, next.path) = (TrialKind::Hint, path);
            compare(&program, &mut next);
            counts[4] += u32::from(next.ack.delivered > mss * 10);
        }
        let given: u64 = connections.iter().map(|one| one.member.given.forecast).sum();
        prop_assert_eq!(path.members.forecast, given, "what is given is the sum");
        seen.set(counts);
    });
    assert!(seen.get().iter().all(|times| *times > 20), "{:?}", seen.get());
}
