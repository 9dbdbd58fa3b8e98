//! An engine that is killed, stopped or drained, and what is known of it afterwards.

use super::*;
use crate::build_packet;
use units::SeqNum;
use wire::{TcpFlags, TcpHeaderSpec};

const ABSENT: Duration = Duration::from_millis(500);

const fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn restarting(how: Stop) -> Restarting {
    let plan = vec![Restart { at: at(1_000), how, absent: ABSENT }];
    Restarting::new(&EngineConfig::default(), plan).unwrap()
}

/// A client's SYN, which every engine forwards and counts.
fn pass_syn(engine: &mut Restarting, port: u16, now: Instant) {
    let ends = [([10, 0, 0, 1], port).into(), ([192, 0, 2, 1], 80).into()];
    let mut spec = TcpHeaderSpec::new(ends[0], ends[1], SeqNum::new(7), SeqNum::new(0), TcpFlags::SYN);
    spec.mss = Some(1_460);
    let mut packet = build_packet(&spec, &[], &[]).unwrap();
    let verdict = engine.handle_packet(Port::Mobile, &VirtioNetHeader::default(), &mut packet, now);
    assert_eq!(verdict, Verdict::Forward);
}

fn half_open(engine: &Restarting) -> u64 {
    engine.engine.as_ref().map_or(0, |engine| engine.stats().half_open_now)
}

#[test]
fn a_killed_engine_has_lost_what_it_knew_and_counters_go_on() {
    let mut engine = restarting(Stop::Kill);
    pass_syn(&mut engine, 1_000, at(10));
    assert_eq!((half_open(&engine), engine.take_crash(), engine.is_leaving()), (1, false, false));
    assert!(engine.next_deadline().is_some_and(|due| due <= at(1_000)));

    engine.handle_timeout(at(1_000));
    assert!(engine.take_crash() && !engine.take_crash(), "told once");
    assert!(engine.is_leaving() && engine.memory() == Bytes::ZERO);
    assert_eq!(engine.next_deadline(), Some(at(1_500)));
    pass_syn(&mut engine, 1_001, at(1_200));
    assert_eq!(engine.total(|stats| stats.packets_in), 1, "nobody saw the second");

    engine.handle_timeout(at(1_500));
    assert_eq!(half_open(&engine), 0, "a new engine");
    pass_syn(&mut engine, 1_002, at(1_600));
    assert_eq!(engine.total(|stats| stats.packets_in), 2, "over both engines");
}

#[test]
fn a_stopped_engine_goes_on_with_what_it_knew() {
    let mut engine = restarting(Stop::Hang);
    pass_syn(&mut engine, 1_000, at(10));
    engine.handle_timeout(at(1_000));
    assert!(!engine.take_crash() && engine.is_leaving());
    pass_syn(&mut engine, 1_001, at(1_200));
    assert_eq!(engine.total(|stats| stats.packets_in), 1, "counted although it is stopped");
    engine.handle_timeout(at(1_500));
    let counted = engine.engine.as_ref().map(|engine| engine.stats().packets_in);
    assert_eq!(counted, Some(1), "the same engine");
    assert!(engine.retired.is_empty());
}

#[test]
fn a_drain_with_nothing_to_hand_back_ends_at_once_and_cleanly() {
    let mut engine = restarting(Stop::Drain(Duration::from_secs(10)));
    engine.handle_timeout(at(1_000));
    assert!(!engine.take_crash());
    assert_eq!(engine.next_deadline(), Some(at(1_500)), "it has ended and is back after its absence");
    engine.handle_timeout(at(1_500));
    pass_syn(&mut engine, 1_002, at(1_600));
    assert_eq!(half_open(&engine), 1);
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_runs() {
    let config = EngineConfig { rto_max: Duration::ZERO, ..EngineConfig::default() };
    assert!(Restarting::new(&config, Vec::new()).is_err());
}
