//! [`Place`]: a box without the protocol: its engine, and what it writes down.

use core::net::IpAddr;

use engine::{ConfigError, Engine, EngineConfig, FlowEnds, Port};
use handover::{
    Claim, Copies, Flows, ForwardingTable, Freeze, Gone, Loaded, Note, Ownership, Peer, Survey, ownership_of,
};
use units::{Instant, SeqNum};

use crate::restart::keep;
use crate::vault::Vault;

/// Place of flows that the protocol moves: an engine and what it knows of flows elsewhere.
#[derive(Debug)]
pub(super) struct Place {
    pub engine: Engine,
    pub forwarding: ForwardingTable,
    /// Memory that outlives it.
    pub vault: Vault,
    /// The longest packet that its devices take, if they have such a bound.
    pub mtu: Option<u32>,
}

impl Place {
    pub fn new(config: &EngineConfig) -> Result<Self, ConfigError> {
        let mut engine = Engine::new(config.clone())?;
        let vault = Vault::default();
        keep(&mut engine, &vault);
        Ok(Self { engine, forwarding: ForwardingTable::new(config.ipv6_prefix_len), vault, mtu: None })
    }

    /// Goes on with what its vault has of a process before; the notes of the protocol.
    pub fn recover(&mut self, now: Instant) -> Vec<Note> {
        let notes: Vec<Note> =
            self.vault.papers().iter().filter_map(|bytes| Note::decode(bytes).ok()).collect();
        let entries = self.vault.begin_anew();
        keep(&mut self.engine, &self.vault);
        let mut lost = Vec::new();
        for (receiver, entry) in entries {
            let is_downlink = receiver == Port::Mobile;
            let flow = FlowEnds { is_downlink, sink: entry.sink, source: entry.source };
            let ownership = ownership_of(&notes, &flow, now);
            if ownership != Ownership::Leave
                && self.engine.recover(receiver, &entry, now).is_ok()
                && ownership == Ownership::GiveUp
            {
                lost.push(flow);
            }
        }
        self.vault.clear();
        lost.iter().for_each(|flow| self.engine.break_off(flow, now));
        notes.iter().for_each(|note| note.lead(&mut self.forwarding));
        notes
    }

    fn take_each(&mut self, flows: &[Loaded], now: Instant) -> bool {
        let missing = flows.iter().filter(|(flow, held)| self.engine.take_in(flow, held, now).is_err());
        missing.count() == 0
    }
}

impl Flows for Place {
    fn survey(&mut self, subscriber: IpAddr) -> Survey {
        Survey::of(&self.engine, subscriber)
    }

    fn copies(&mut self, subscriber: IpAddr, sent: Vec<(FlowEnds, SeqNum)>, len_max: u64) -> Copies {
        Copies::of(&self.engine, subscriber, &sent, len_max)
    }

    fn mtu(&mut self, _: IpAddr) -> Option<u32> {
        self.mtu
    }

    fn give_away(&mut self, freeze: &Freeze, now: Instant) -> Option<Vec<Loaded>> {
        let subscriber = freeze.name.subscriber;
        let loaded = self.engine.moved(subscriber, now);
        self.note(&freeze.note(loaded.clone()));
        self.engine.release(subscriber);
        self.forwarding.give_away(subscriber, loaded.iter().map(|(flow, _)| flow.ends), freeze.to);
        Some(loaded)
    }

    fn take_in(&mut self, claim: &Claim, flows: Vec<Loaded>, now: Instant) -> bool {
        self.note(&Note::Taking(claim.clone()));
        let is_whole = self.engine.take_in_all(&flows, now);
        if is_whole {
            self.forwarding.take_in(claim.name.subscriber);
            self.forwarding.announce(claim.name.subscriber, claim.from, &claim.flows);
            self.note(&Note::Taken(claim.clone()));
        }
        is_whole
    }

    fn take_back(&mut self, flows: &[Loaded], note: &Note, now: Instant) -> bool {
        let is_whole = self.take_each(flows, now);
        self.forwarding.take_in(note.name().subscriber);
        self.note(note);
        is_whole
    }

    fn lead(&mut self, subscriber: IpAddr, to: Peer, flows: &[FlowEnds]) {
        self.forwarding.lead(subscriber, to, flows);
    }

    fn announce(&mut self, subscriber: IpAddr, to: Peer, flows: &[FlowEnds]) {
        self.forwarding.announce(subscriber, to, flows);
    }

    fn hand_back(&mut self, subscriber: IpAddr, relay: Peer, now: Instant) -> bool {
        let relayed = self.forwarding.relayed_by(subscriber, relay);
        let relies = |flow: &FlowEnds| relayed.contains(&flow.client_and_server());
        for flow in self.engine.delivering(subscriber).iter().filter(|flow| relies(flow)) {
            self.engine.doubt(flow, now);
        }
        self.engine.delivering(subscriber).iter().any(relies)
    }

    fn doubt(&mut self, _: IpAddr, flows: &[FlowEnds], now: Instant) {
        flows.iter().for_each(|flow| self.engine.doubt(flow, now));
    }

    fn let_stay(&mut self, subscriber: IpAddr, stay: Option<&Gone>) {
        self.forwarding.let_stay(subscriber, stay);
    }

    fn forget(&mut self, subscriber: IpAddr) {
        self.forwarding.forget(subscriber);
        self.vault.write_down(subscriber, None);
    }

    fn break_off(&mut self, flows: &[FlowEnds], note: &Note, now: Instant) {
        flows.iter().for_each(|flow| self.engine.break_off(flow, now));
        self.note(note);
    }

    fn break_frozen(&mut self, flows: &[Loaded], note: &Note, now: Instant) {
        self.take_each(flows, now);
        self.forwarding.take_in(note.name().subscriber);
        flows.iter().for_each(|(flow, _)| self.engine.break_off(&flow.ends, now));
        self.note(note);
    }

    fn note(&mut self, note: &Note) {
        self.vault.write_down(note.name().subscriber, Some(note.encode()));
    }
}
