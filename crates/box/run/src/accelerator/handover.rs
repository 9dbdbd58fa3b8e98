//! Work of a shard for hand-overs: flows leave its engine and enter it, each written down in time.

use std::collections::VecDeque;
use std::net::IpAddr;

use ::handover::{Claim, Copies, ForwardingTable, Freeze, Loaded, Note, Peer, Survey};
use engine::FlowEnds;
use engine::{HandoverFlow, JournalEntry, Port};
use io::Clock;
use units::Instant;
use wire::VirtioNetHeader;

use super::Accelerator;
use crate::handover::Relayed;
use crate::journal::Left;
use crate::{HandoverRequest, Ledger};

/// Packets of subscribers that are promised to this box at most: what has no room is lost, as on any link.
const EARLY_MAX: usize = 1_024;

/// Packets that another box has sent on although their subscriber is still its own here. It has frozen the flows
/// then, and they follow its commit so closely that the flows are not in the engine yet.
#[derive(Debug, Default)]
pub(super) struct Early(VecDeque<(IpAddr, Peer, Relayed)>);

impl Early {
    fn add(&mut self, client: IpAddr, by: Peer, relayed: Relayed) {
        if self.0.len() < EARLY_MAX {
            self.0.push_back((client, by, relayed));
        }
    }

    /// The first one whose subscriber is here.
    pub fn take(&mut self, forwarding: &ForwardingTable) -> Option<(Peer, Relayed)> {
        let at = self.0.iter().position(|(client, ..)| !forwarding.is_led(*client))?;
        self.0.remove(at).map(|(_, by, relayed)| (by, relayed))
    }

    /// Forgets those whose subscribers do not come.
    fn keep_led(&mut self, forwarding: &ForwardingTable) {
        self.0.retain(|(client, ..)| forwarding.is_led(*client));
    }
}

impl Accelerator {
    /// Keeps a packet that another box has sent on until its flow is here.
    pub(super) fn wait_for_flows(
        &mut self,
        client: IpAddr,
        by: Peer,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &[u8],
    ) {
        self.ledger.iter().for_each(Ledger::note_early);
        self.early.add(client, by, Relayed { from, virtio: *virtio, packet: packet.to_vec() });
    }

    /// Has flows of a subscriber handed back whose packets come by way of a box; true while one is here.
    fn hand_back(&mut self, client: IpAddr, relay: Peer, now: Instant) -> bool {
        let relayed = self.forwarding.relayed_by(client, relay);
        let relies = |flow: &FlowEnds| relayed.contains(&flow.client_and_server());
        for flow in self.engine.delivering(client).iter().filter(|flow| relies(flow)) {
            self.engine.doubt(flow, now);
        }
        self.engine.delivering(client).iter().any(relies)
    }

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

    /// As [`crate::SubscriberHandover::handle_handover_request`].
    pub(super) fn do_handover_request(&mut self, request: HandoverRequest, now: Instant) {
        let began = Clock::now();
        self.do_step(request, now);
        if let Some(ledger) = &self.ledger {
            ledger.note_kept(Clock::now().saturating_since(began));
        }
    }

    /// Gives a subscriber's flows away, written down; none when that failed: they stay.
    fn freeze(&mut self, freeze: Freeze, now: Instant) -> Option<Vec<Loaded>> {
        let client = freeze.name.subscriber;
        let loaded = self.engine.moved(client, now);
        // First: if this process dies, another one goes on with what is written.
        let note = freeze.note(loaded);
        if !self.write_down(&note) {
            return None;
        }
        self.engine.release(client);
        note.lead(&mut self.forwarding);
        if let Note::Frozen { flows, .. } = note { Some(flows) } else { None }
    }

    /// Takes another box's flows in, written down; true when they are this one's.
    fn take_in(&mut self, claim: Claim, flows: &[Loaded], now: Instant) -> bool {
        let is_taken = self.write_down(&Note::Taking(claim.clone())) && self.engine.take_in_all(flows, now);
        self.start_uplink_journal();
        if !is_taken {
            return false;
        }
        let note = Note::Taken(claim);
        let is_written = self.write_down(&note);
        if is_written {
            self.forwarding.take_in(note.name().subscriber);
            note.lead(&mut self.forwarding);
        } else {
            // A process after this one would not go on with them.
            flows.iter().for_each(|(flow, _)| self.engine.let_go(&flow.ends));
        }
        is_written
    }

    fn do_step(&mut self, request: HandoverRequest, now: Instant) {
        match request {
            // Who asked and has gone misses nothing.
            HandoverRequest::Survey(client, answer) => drop(answer.send(Survey::of(&self.engine, client))),
            HandoverRequest::Copies(client, sent, len_max, answer) => {
                drop(answer.send(Copies::of(&self.engine, client, &sent, len_max)));
            }
            HandoverRequest::Mtu(answer) => drop(answer.send(self.mtus.iter().min().copied())),
            HandoverRequest::GiveAway(freeze, work, answer) => {
                if work.begin() {
                    // Who asked waits for it.
                    drop(answer.send(self.freeze(freeze, now)));
                }
            }
            HandoverRequest::TakeIn(claim, flows, work, answer) => {
                if work.begin() {
                    let is_taken = self.take_in(claim, &flows, now);
                    // Who asked waits for it.
                    drop(answer.send((is_taken, flows)));
                }
            }
            HandoverRequest::TakeBack(flows, note, answer) => {
                let are_here = self.take_each(&flows, now);
                self.forwarding.take_in(note.name().subscriber);
                self.settle(&note);
                // Who asked may have lost patience: that changes nothing.
                let _ = answer.send(are_here);
            }
            HandoverRequest::Lead(client, to, flows) => {
                self.forwarding.lead(client, to, &flows);
                self.early.keep_led(&self.forwarding);
            }
            HandoverRequest::Announce(client, to, flows) => self.forwarding.announce(client, to, &flows),
            HandoverRequest::HandBack(client, relay, answer) => {
                let is_here = self.hand_back(client, relay, now);
                // Who asked and has gone asks again.
                let _ = answer.send(is_here);
            }
            HandoverRequest::Doubt(flows) => flows.iter().for_each(|flow| self.engine.doubt(flow, now)),
            HandoverRequest::LetStay(client, stay) => {
                self.forwarding.let_stay(client, stay.as_ref());
                self.early.keep_led(&self.forwarding);
            }
            HandoverRequest::Forget(client) => self.forwarding.forget(client),
            HandoverRequest::BreakOff(flows, note) => {
                flows.iter().for_each(|flow| self.engine.break_off(flow, now));
                self.settle(&note);
            }
            HandoverRequest::BreakFrozen(flows, note) => {
                self.take_each(&flows, now);
                self.forwarding.take_in(note.name().subscriber);
                flows.iter().for_each(|(flow, _)| self.engine.break_off(&flow.ends, now));
                self.settle(&note);
            }
        }
    }
}

/// A flow that this box had and cannot go on with, as a dead process would have left it.
fn left_of(flow: &HandoverFlow) -> Left {
    Left { entry: JournalEntry::of_moved(flow), receiver: flow.ends.receiver(), links: [None; 2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_before_their_flows_wait_for_them_in_order_or_are_forgotten() {
        let [coming, staying]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let relayed =
            |number| Relayed { from: Port::Mobile, virtio: VirtioNetHeader::default(), packet: vec![number] };
        let (mut forwarding, mut early) = (ForwardingTable::new(64), Early::default());
        forwarding.lead(coming, 0, &[]);
        forwarding.lead(staying, 0, &[]);
        for (client, number) in [(coming, 1), (staying, 2), (coming, 3), (staying, 4)] {
            early.add(client, 0, relayed(number));
        }
        assert!(early.take(&forwarding).is_none(), "neither is here");
        forwarding.take_in(coming);
        let taken = std::iter::from_fn(|| early.take(&forwarding)).map(|(_, one)| one.packet[0]);
        assert_eq!(taken.collect::<Vec<_>>(), [1, 3]);
        forwarding.let_stay(staying, None);
        early.keep_led(&forwarding);
        assert!(early.take(&forwarding).is_none(), "what is not taken does not pass");
        forwarding.lead(coming, 1, &[]);
        (0..=EARLY_MAX).for_each(|_| early.add(coming, 1, relayed(5)));
        assert_eq!(early.0.len(), EARLY_MAX);
    }
}
