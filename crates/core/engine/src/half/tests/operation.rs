//! The journal, other settings while running, and what is shown of flows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::{FlowState, Journal, JournalEntry, MemoryAdvice, Middlebox};

/// Keeps entries where the test can see them.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<BTreeMap<u32, JournalEntry>>>);

impl Journal for Notes {
    fn note(&mut self, slot: u32, entry: &JournalEntry, is_new: bool) {
        let before = self.0.lock().unwrap().insert(slot, *entry);
        assert_eq!(before.is_none(), is_new);
    }

    fn forget(&mut self, slot: u32) {
        assert!(self.0.lock().unwrap().remove(&slot).is_some(), "settled what was not owed");
    }
}

impl Notes {
    fn of(&self, slot: u32) -> Option<JournalEntry> {
        self.0.lock().unwrap().get(&slot).copied()
    }
}

fn journaled() -> (Bench, Notes) {
    let mut bench = Bench::established(EngineConfig::default());
    let notes = Notes::default();
    bench.engine.observed.journal = Some(Box::new(notes.clone()));
    (bench, notes)
}

#[test]
fn h02_the_journal_says_how_a_flow_stands_and_what_it_is_owed() {
    let (mut bench, notes) = journaled();
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    assert!(!notes.of(0).unwrap().owes(), "nothing is acknowledged yet");
    bench.run_to(ms(10));
    let entry = notes.of(0).unwrap();
    assert_eq!((entry.sink, entry.source), (client(1), SERVER));
    let numbers = [entry.delivered, entry.told, entry.sink_next, entry.source_ack];
    assert_eq!(numbers.map(SeqNum::get), [1, 501, 1, 1]);
    bench.client_sends(1, 1, 301, TcpFlags::ACK);
    assert_eq!(notes.of(0).unwrap().delivered.get(), 301);
    assert!(notes.of(0).unwrap().record.owes());
    bench.client_sends(1, 1, 501, TcpFlags::ACK);
    assert!(!notes.of(0).unwrap().owes());
}

#[test]
fn h02_a_flow_that_leaves_with_debt_leaves_the_journal_too() {
    let (mut bench, notes) = journaled();
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(10));
    assert!(notes.of(0).is_some());
    bench.client_sends(1, 1, 1, TcpFlags::RST.with(TcpFlags::ACK));
    assert_eq!((bench.engine.stats.flows_now, notes.of(0)), (0, None));
}

#[test]
fn other_settings_hold_for_new_flows_and_end_none() {
    let mut bench = Bench::established(EngineConfig { hash_seed: 7, ..EngineConfig::default() });
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    assert_eq!(bench.run_to(ms(50)), 500);
    let fixed = ControllerConfig::Fixed(FixedParams::default());
    let config = EngineConfig { controller: fixed, flows_max: 1, hash_seed: 8, ..EngineConfig::default() };
    bench.engine.reconfigure(config.clone());
    assert_eq!(bench.engine.config(), &EngineConfig { hash_seed: 7, ..config.clone() });
    assert_eq!(bench.engine.path_of(0).unwrap().controller.name(), "adaptive", "its flow is under way");
    bench.server_sends(1, 501, 0, TcpFlags::ACK, 500);
    assert_eq!(bench.run_to(ms(100)), 500);
    bench.shake_hands(2);
    assert_eq!(bench.engine.stats.passed_for(PassReason::TableFull), 1);

    bench.engine.reconfigure(EngineConfig { flows_max: 10, ..config });
    bench.establish(1 + PER_PORT);
    assert_eq!(bench.engine.path_of(0).unwrap().controller.name(), "fixed", "with its next flow");
}

#[test]
fn flows_and_those_passed_last_can_be_seen() {
    let mut bench = Bench::established(EngineConfig::default());
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(10));
    bench.client_sends(2, 0, 0, TcpFlags::SYN);
    let reports: Vec<_> = bench.engine.flow_reports().collect();
    let states: Vec<_> = reports.iter().map(|report| (report.client, report.state)).collect();
    assert_eq!(states, [(client(1), FlowState::Accelerated), (client(2), FlowState::Observing)]);
    assert_eq!((reports[0].debt, reports[0].in_flight), (Bytes::new(500), Bytes::new(500)));
    assert_eq!((reports[0].client_window, reports[1].debt), (Bytes::new(60_000), Bytes::ZERO));
    assert_eq!(bench.engine.flow_reports().skip(1).count(), 1);

    for n in 10..310 {
        bench.server_sends(n, 0, 0, TcpFlags::SYN, 1);
    }
    let passed: Vec<_> = bench.engine.passed_recently().collect();
    assert_eq!((passed.len(), passed[0].client), (256, client(309)));
    assert!(passed.iter().all(|flow| flow.reason == PassReason::SynData));
}

#[test]
fn looking_ahead_asks_for_memory_and_changes_nothing() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let run = |looks: bool| {
        let mut bench = Bench::new(EngineConfig::default());
        if looks {
            bench.engine.set_memory_advice(MemoryAdvice {
                on_piece: |_, _| (),
                populate: |_, _| (),
                prefetch: |_, len| _ = ASKED.fetch_add(len, Ordering::Relaxed),
            });
        }
        (0..1_500).for_each(|n| bench.establish(n));
        let packet = |n| {
            let mut buf = [0; TcpHeaderSpec::MAX_LEN];
            let spec = TcpHeaderSpec::new(SERVER, client(n), SeqNum::new(1), SeqNum::new(1), TcpFlags::ACK);
            let header = spec.emit(&mut buf, &[&[7; 500]]).unwrap();
            buf[..header.len].to_vec()
        };
        let packets: Vec<Vec<u8>> = (0..40).map(packet).collect();
        bench.engine.look_ahead(packets.iter().map(|packet| (End::Source, &packet[..])));
        (0..40).for_each(|n| _ = bench.server_sends(n, 1, 0, TcpFlags::ACK, 500));
        (bench.run_to(ms(50)), format!("{:?}", bench.engine.stats))
    };
    let with = run(true);
    assert!(ASKED.load(Ordering::Relaxed) >= 32 * size_of::<Flow>());
    assert_eq!((with.0, with), (40 * 500, run(false)));
}

#[test]
fn a_deadline_hours_away_does_not_pile_up_with_every_pause() {
    let mut bench = Bench::established(EngineConfig::default());
    let mut seq = 1;
    for second in 1..600 {
        bench.server_sends(1, seq, 0, TcpFlags::ACK, 500);
        seq += 500;
        bench.run_to(ms(1_000 * second - 900));
        bench.client_sends(1, 1, seq, TcpFlags::ACK);
        bench.run_to(ms(1_000 * second));
    }
    let entries = bench.engine.timers.len();
    assert!(entries < 10, "{entries} deadlines of one flow");
}

#[test]
fn an_uplink_that_begins_while_the_engine_drains_takes_nothing_on() {
    let mut engine = crate::Engine::new(EngineConfig::default()).unwrap();
    engine.drain(ms(0));
    let policy = crate::Policy { default: crate::Action::Both, ..crate::Policy::default() };
    engine.reconfigure(&EngineConfig { policy, ..EngineConfig::default() }).unwrap();
    let spec = TcpHeaderSpec::new(client(1), SERVER, SeqNum::new(0), SeqNum::new(0), TcpFlags::SYN);
    let mut packet = [0; TcpHeaderSpec::MAX_LEN];
    let len = spec.emit(&mut packet, &[]).unwrap().len;
    engine.handle_packet(Port::Mobile, &VirtioNetHeader::default(), &mut packet[..len], ms(1));
    assert!(engine.is_empty(), "{:?}", engine.uplink_stats());
}
