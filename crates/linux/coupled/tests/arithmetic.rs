//! The BPF program's arithmetic and the reference in Rust handle the same events, for any windows and round trips.
//! As root.

use control::coupled::{Coupled, SUBFLOWS_MAX, Scheme};
use coupled::layout::{Connection, EventKind, Subflow, Trial};
use coupled::{SchemeProgram, Setup};
use proptest::prelude::*;

/// None, with a line that says why, where the kernel does not take such programs.
fn load(scheme: Scheme) -> Option<SchemeProgram> {
    if let Err(error) = io::bpf::require_congestion_control(None) {
        eprintln!("left out: {error}");
        return None;
    }
    let setup = Setup { is_test: true, ..Setup::private(scheme) };
    let loaded = SchemeProgram::load(&setup);
    Some(loaded.unwrap_or_else(|error| panic!("as root: {error}\n{}", error.log().unwrap_or_default())))
}

#[test]
fn both_lay_their_structures_out_alike() {
    let Some(program) = load(Scheme::Lia) else { return };
    let lens = program.value_lens().unwrap();
    assert_eq!(lens, [Connection::LEN as u32, Trial::LEN as u32]);
}

/// Any window, round trip, threshold and credit; a third of the places is free.
fn subflow() -> impl Strategy<Value = Subflow> {
    let window = prop_oneof![2..200_u32, 2..100_000_u32];
    let srtt_us = prop_oneof![1 => Just(0_u32), 9 => 1..3_000_000_u32];
    let threshold = prop_oneof![2..300_u32, Just(0x7fff_ffff_u32)];
    (0..3_u64, window, srtt_us, threshold, 0..500_u32).prop_map(
        |(number, window, srtt_us, ssthresh, credit)| Subflow { number, window, srtt_us, ssthresh, credit },
    )
}

/// One event for both; what the reference makes of it.
fn reference(scheme: Scheme, trial: &Trial) -> [Subflow; SUBFLOWS_MAX] {
    let mut made = Coupled::new(scheme);
    // All places are taken first, so that places are the same.
    let ids: Vec<_> = trial.subflows.iter().map(|_| made.add(1, 1).unwrap()).collect();
    for (one, id) in trial.subflows.iter().zip(&ids) {
        if one.number == 0 {
            made.remove(*id);
        }
        made.resume(*id, one.window.into(), one.ssthresh.into(), one.credit.into());
        made.on_round_trip(*id, one.srtt_us.into());
    }
    let id = ids[trial.place as usize];
    match trial.kind {
        EventKind::Ack => made.on_ack(id, trial.acked.into(), true),
        _ => made.on_loss(id),
    }
    let mut after = trial.subflows;
    for (one, id) in after.iter_mut().zip(&ids) {
        if let Some(own) = made.subflow(*id) {
            one.window = own.window as u32;
            one.ssthresh = own.ssthresh as u32;
            one.credit = own.credit as u32;
        }
    }
    after
}

fn compare(scheme: Scheme) {
    let Some(program) = load(scheme) else { return };
    let subflows = prop::array::uniform16(subflow());
    let events = (subflows, 0..SUBFLOWS_MAX as u32, prop_oneof![1 => Just(0_u32), 4 => 1..2_000_u32]);
    let config = ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |((mut subflows, place, acked) in events)| {
        let own = &mut subflows[place as usize];
        own.number = own.number.max(1);
        let kind = if acked == 0 { EventKind::Loss } else { EventKind::Ack };
        let mut trial = Trial { kind, place, acked, subflows };
        let expected = reference(scheme, &trial);
        program.attempt(&mut trial).unwrap();
        prop_assert_eq!(trial.subflows, expected);
    });
}

#[test]
fn lia_counts_as_the_reference() {
    compare(Scheme::Lia);
}

#[test]
fn coupled_increase_counts_as_the_reference() {
    compare(Scheme::CoupledIncrease);
}

#[test]
fn fully_coupled_counts_as_the_reference() {
    compare(Scheme::FullyCoupled);
}

#[test]
fn coupled_decrease_counts_as_the_reference() {
    compare(Scheme::CoupledDecrease);
}

#[test]
fn balia_counts_as_the_reference() {
    compare(Scheme::Balia);
}
