//! What a shard does for hand-overs: flows leave its engine and enter it, each written down in time.

use engine::{JournalEntry, MovedFlow};
use handover::{Copies, Loaded, Note, Survey};
use io::Clock;
use units::Instant;

use super::Accelerator;
use crate::Roam;
use crate::journal::Left;

impl Accelerator {
    /// Writes a note; false when that cannot be.
    fn write_down(&self, note: &Note) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| ledger.write(note).is_ok())
    }

    /// Goes on with those of these flows that can go on; false if one cannot that is owed something: its hosts are
    /// reset. Others pass.
    fn take_each(&mut self, flows: &[Loaded], now: Instant) -> bool {
        let missing = flows.iter().filter(|(flow, held)| self.engine.take_in(flow, held, now).is_err());
        let lost: Vec<Left> =
            missing.filter(|(flow, _)| flow.owes()).map(|(flow, _)| left_of(flow)).collect();
        self.start_uplink_journal();
        let is_whole = lost.is_empty();
        if let Some(ledger) = self.ledger.as_ref().filter(|_| !is_whole) {
            ledger.give_up(lost);
        }
        is_whole
    }

    /// Writes what is so from here on. Where that cannot be, what was written before is crossed out: it is not so any
    /// more.
    fn settle(&self, note: &Note) {
        if let Some(ledger) = self.ledger.as_ref().filter(|ledger| ledger.write(note).is_err()) {
            ledger.erase(note.name().subscriber);
        }
    }

    /// As [`crate::Processor::roam`].
    pub(super) fn do_roam(&mut self, request: Roam, now: Instant) {
        let began = Clock::now();
        self.do_step(request, now);
        if let Some(ledger) = &self.ledger {
            ledger.note_kept(Clock::now().saturating_since(began));
        }
    }

    fn do_step(&mut self, request: Roam, now: Instant) {
        match request {
            // Who asked and has gone misses nothing.
            Roam::Survey(client, answer) => drop(answer.send(Survey::of(&self.engine, client))),
            Roam::Copies(client, sent, len_max, answer) => {
                drop(answer.send(Copies::of(&self.engine, client, &sent, len_max)));
            }
            Roam::Mtu(answer) => drop(answer.send(self.mtus.iter().min().copied())),
            Roam::GiveAway(freeze, turn, answer) => {
                if !turn.begin() {
                    return;
                }
                let client = freeze.name.subscriber;
                let loaded = self.engine.moved(client, now);
                // First: if this process dies, another one goes on with what is written.
                let note = freeze.note(loaded);
                let is_written = self.write_down(&note);
                if is_written {
                    self.engine.release(client);
                    note.lead(&mut self.elsewhere);
                }
                let Note::Frozen { flows, .. } = note else { return };
                // Who asked waits for it.
                drop(answer.send(is_written.then_some(flows)));
            }
            Roam::TakeIn(claim, flows, turn, answer) => {
                if !turn.begin() {
                    return;
                }
                let mut is_taken =
                    self.write_down(&Note::Taking(claim.clone())) && self.engine.take_in_all(&flows, now);
                self.start_uplink_journal();
                if is_taken {
                    let subscriber = claim.name.subscriber;
                    is_taken = self.write_down(&Note::Taken(claim));
                    if is_taken {
                        self.elsewhere.take_in(subscriber);
                    } else {
                        // A process after this one would not go on with them.
                        flows.iter().for_each(|(flow, _)| self.engine.let_go(&flow.ends));
                    }
                }
                let _ = answer.send(is_taken);
            }
            Roam::TakeBack(flows, note, answer) => {
                let are_here = self.take_each(&flows, now);
                self.elsewhere.take_in(note.name().subscriber);
                self.settle(&note);
                // Who asked may have lost patience: that changes nothing.
                let _ = answer.send(are_here);
            }
            Roam::Lead(client, to, _) => self.elsewhere.lead(client, to),
            Roam::Forget(client) => self.elsewhere.forget(client),
            Roam::BreakOff(flows, note) => {
                flows.iter().for_each(|flow| self.engine.break_off(flow, now));
                self.settle(&note);
            }
            Roam::BreakFrozen(flows, note) => {
                self.take_each(&flows, now);
                self.elsewhere.take_in(note.name().subscriber);
                flows.iter().for_each(|(flow, _)| self.engine.break_off(&flow.ends, now));
                self.settle(&note);
            }
        }
    }
}

/// A flow that this box had and cannot go on with, as a dead process would have left it.
fn left_of(flow: &MovedFlow) -> Left {
    Left { entry: JournalEntry::of_moved(flow), receiver: flow.ends.receiver(), links: [None; 2] }
}
