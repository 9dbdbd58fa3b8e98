//! A subscriber that comes: the part of the box that takes it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use engine::{FlowEnds, HandoverFlow, HeldPiece, RECORD_VERSION};
use units::{Duration, Instant, SeqNum};

use crate::allowance::{may_have, weight_of};
use crate::{
    Again, Claim, Ended, Flows, Gone, Handover, HandoverOutcome, Lack, Loaded, Message, Name, Note, Past,
    Peer, Refusal, Rights, Terms, VERSION, subscriber_of,
};

/// Flows of one subscriber at most.
const FLOWS_MAX: usize = 16_384;

/// Pieces of data of one flow at most: of what may be held in pieces as they are sent it is a multiple.
const PIECES_MAX: usize = 8_192;

/// Cost of a piece beside its bytes.
const PIECE_COST: u64 = 96;

/// Epochs have wall clocks in them, which are far below that.
const EPOCH_MAX: u64 = u64::MAX / 2;

/// Contents of [`Message::Prepare`], and the box that sends it.
#[derive(Debug)]
pub(crate) struct Asked {
    pub from: Peer,
    pub name: Name,
    pub versions: (u16, u32),
    pub held: u64,
    pub flows: Vec<FlowEnds>,
    pub terms: Terms,
}

/// One that comes.
#[derive(Debug)]
pub(crate) struct Coming {
    from: Peer,
    name: Name,
    /// Flows that the other box has named.
    flows: Vec<FlowEnds>,
    stage: Stage,
    /// Time by which it is forgotten, or given up.
    until: Instant,
}

#[derive(Debug)]
enum Stage {
    /// Data comes ahead.
    Holding { copies: BTreeMap<FlowEnds, Copied>, promised: u64, held: u64 },
    /// It is here, and the other box may not know.
    Owning { again: Again, bytes: u64 },
}

/// Data of a flow: pieces, in whatever order they come.
#[derive(Debug)]
struct Copied {
    /// Places are counted from here.
    base: SeqNum,
    pieces: BTreeMap<i32, Vec<u8>>,
    /// Memory that all pieces take, bytes.
    len: u64,
}

impl Copied {
    fn new(base: SeqNum) -> Self {
        Self { base, pieces: BTreeMap::new(), len: 0 }
    }

    /// Adds a piece, and forgets what lies before the first byte that is needed.
    fn add(&mut self, piece: &HeldPiece) {
        let una = piece.una.distance_from(self.base);
        let is_over = |at: i32, bytes: &[u8]| at.saturating_add_unsigned(bytes.len() as u32) <= una;
        while let Some(first) = self.pieces.first_entry().filter(|one| is_over(*one.key(), one.get())) {
            self.len -= cost_of(&first.remove());
        }
        let at = piece.start.distance_from(self.base);
        let old = self.pieces.get(&at);
        let is_no_room = old.is_none() && self.pieces.len() >= PIECES_MAX;
        if is_no_room || old.map_or(0, Vec::len) >= piece.bytes.len() {
            return;
        }
        self.len += cost_of(&piece.bytes);
        let old = self.pieces.insert(at, piece.bytes.clone());
        self.len -= old.map_or(0, |old| cost_of(&old));
    }

    /// The bytes from a number on, as far as there is no hole.
    fn from(&self, una: SeqNum) -> impl Iterator<Item = &[u8]> {
        let mut end = una.distance_from(self.base);
        self.pieces.iter().map_while(move |(&at, bytes)| {
            let known = end.checked_sub(at).filter(|known| *known >= 0)?;
            let new = bytes.get(known as usize..).unwrap_or_default();
            end = end.saturating_add_unsigned(new.len() as u32);
            Some(new)
        })
    }

    /// The number behind the last byte from `una` on without a hole.
    fn through(&self, una: SeqNum) -> SeqNum {
        una + self.from(una).map(<[u8]>::len).sum::<usize>() as u32
    }

    /// The bytes from `una` to `end`, if they are all here.
    fn between(&self, una: SeqNum, end: SeqNum) -> Option<Vec<u8>> {
        let len = end.since(una) as usize;
        let mut bytes = Vec::with_capacity(len.min(1 << 20));
        for piece in self.from(una) {
            bytes.extend_from_slice(&piece[..piece.len().min(len - bytes.len())]);
        }
        (bytes.len() == len).then_some(bytes)
    }
}

/// Memory that a piece takes, bytes.
fn cost_of(piece: &[u8]) -> u64 {
    piece.len() as u64 + PIECE_COST
}

impl Coming {
    /// One that a process before this one has promised to take: no data of it is here.
    pub(crate) fn promised_before(claim: Claim) -> Self {
        let Claim { name, from, until, flows, bytes, .. } = claim;
        let stage = Stage::Holding { copies: BTreeMap::new(), promised: bytes, held: 0 };
        Self { from, name, flows, stage, until }
    }

    /// One that a process before this one has taken: the other box is told at once.
    pub(crate) fn taken_before(claim: Claim, again: Again) -> Self {
        let Claim { name, from, until, flows, bytes, .. } = claim;
        let stage = Stage::Owning { again, bytes };
        Self { from, name, flows, stage, until }
    }

    pub(crate) fn name(&self) -> Name {
        self.name
    }

    pub(crate) fn from(&self) -> Peer {
        self.from
    }

    pub(crate) fn is_owning(&self) -> bool {
        matches!(self.stage, Stage::Owning { .. })
    }

    /// True when its flows are here, and a box may still send packets of them on.
    pub(crate) fn is_owned_from(&self, peer: Peer) -> bool {
        self.from == peer && self.is_owning()
    }

    pub(crate) fn due(&self) -> Instant {
        match &self.stage {
            Stage::Holding { .. } => self.until,
            Stage::Owning { again, .. } => self.until.min(again.at),
        }
    }

    /// Memory that it takes, or was promised.
    pub(crate) fn memory(&self) -> u64 {
        match &self.stage {
            Stage::Holding { promised, held, .. } => *promised.max(held),
            Stage::Owning { .. } => 0,
        }
    }

    pub(crate) fn ready(&self) -> Message {
        Message::Ready { name: self.name, flows: u32::try_from(self.flows.len()).unwrap_or(u32::MAX) }
    }

    /// Its flows and the other box: they stay there if it does not come, and are known there if it does.
    fn theirs(&self) -> Gone {
        Gone { to: self.from, flows: self.flows.clone() }
    }

    fn ended(&self, outcome: HandoverOutcome, bytes: u64) -> Ended {
        Ended {
            subscriber: self.name.subscriber,
            peer: self.from,
            is_going: false,
            outcome,
            flows: self.flows.len(),
            bytes,
            each: Vec::new(),
            phases: [Duration::ZERO; 3],
        }
    }
}

impl Handover {
    fn coming_by(&mut self, from: Peer, name: &Name) -> Option<&mut Coming> {
        self.coming.get_mut(&name.subscriber).filter(|coming| coming.from == from && coming.name == *name)
    }

    /// Reason why the box that asks may not ask for this, if so: then nothing of it is remembered.
    fn objection_to(&mut self, asked: &Asked, now: Instant) -> Option<Refusal> {
        let Asked { from, name, versions, flows, .. } = asked;
        let any = Rights::default();
        if !self.rights.get(from).unwrap_or(&any).may_give(name.subscriber) {
            return Some(Refusal::Forbidden);
        }
        if *versions != (VERSION, RECORD_VERSION) {
            return Some(Refusal::Version);
        }
        if name.epoch > EPOCH_MAX {
            return Some(Refusal::Epoch);
        }
        if flows.is_empty() || !self.are_of(name.subscriber, flows.iter()) {
            return Some(Refusal::Subscriber);
        }
        let coming = self.coming.values().filter(|coming| coming.from == *from);
        let under_way = coming.map(|coming| weight_of(coming.flows.len())).sum();
        let weight = weight_of(flows.len());
        let allowance = self.allowances.entry(*from).or_default();
        let has_room = allowance.has_room(under_way, weight) && flows.len() <= FLOWS_MAX;
        (!allowance.take(weight, now) || !has_room).then_some(Refusal::Memory)
    }

    /// True when these are flows of a subscriber, as this box counts subscribers.
    fn are_of<'a>(&self, subscriber: IpAddr, mut flows: impl Iterator<Item = &'a FlowEnds>) -> bool {
        let bits = self.ipv6_prefix_len;
        let is_one = subscriber_of(subscriber, bits) == subscriber;
        is_one && flows.all(|flow| subscriber_of(flow.client_and_server().0.ip(), bits) == subscriber)
    }

    /// True when `from` may have `more` of the memory for subscribers that come.
    fn has_memory(&self, from: Peer, more: u64) -> bool {
        let memory = |is_meant: &dyn Fn(&Coming) -> bool| -> u64 {
            self.coming.values().filter(|coming| is_meant(coming)).map(Coming::memory).sum()
        };
        let (own, total) = (memory(&|coming| coming.from == from), memory(&|_| true));
        may_have(more, own, total, self.config.memory_max, self.is_only_peer())
    }

    /// True when `from` may begin one more hand-over to here.
    fn has_turn(&self, from: Peer) -> bool {
        let own = self.coming.values().filter(|coming| coming.from == from).count() as u64;
        let max = self.config.transfers_max as u64;
        may_have(1, own, self.under_way() as u64, max, self.is_only_peer())
    }

    fn is_only_peer(&self) -> bool {
        self.rights.len() < 2
    }

    pub(crate) fn on_prepare(&mut self, asked: Asked, flows: &mut impl Flows, now: Instant) {
        let Asked { from, name, .. } = asked;
        let subscriber = name.subscriber;
        if let Some(why) = self.objection_to(&asked, now) {
            return self.refuse(from, name, why);
        }
        let known = self.coming.get(&subscriber);
        let is_same = known.is_some_and(|coming| coming.from == from && coming.name.epoch == name.epoch);
        if is_same {
            return self.on_asked_again(&asked, flows, now);
        }
        // What another box has promised, or one of these has taken, is decided first.
        let is_busy = self.going.contains_key(&subscriber)
            || known.is_some_and(|coming| coming.is_owning() || coming.from != from);
        if is_busy {
            return self.refuse(from, name, Refusal::Busy);
        }
        if name.epoch <= self.epoch_of(subscriber) {
            return self.refuse(from, name, Refusal::Epoch);
        }
        if has_any(flows, subscriber, &asked.flows) {
            return self.refuse(from, name, Refusal::Owned);
        }
        // One of an earlier number is over with it.
        let was_promised = self.coming.remove(&subscriber).is_some();
        let Asked { held, flows: theirs, terms, .. } = asked;
        let refusals = [
            (self.is_ending, Refusal::Ending),
            (!self.has_memory(from, held) || !self.has_turn(from), Refusal::Memory),
            (terms.encapsulation != self.encapsulation, Refusal::Encapsulation),
        ];
        let refusal = refusals.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why);
        let mtu = if refusal.is_none() { flows.mtu(subscriber) } else { None };
        let is_too_long = mtu.is_some_and(|mtu| mtu < terms.packet);
        if let Some(why) = refusal.or(is_too_long.then_some(Refusal::Mtu)) {
            self.refuse(from, name, why);
            // Asked once more, the answer may be another one: the next time the other box takes a higher number.
            let earlier = Name { epoch: name.epoch.saturating_sub(1), ..name };
            let is_reachable = !matches!(why, Refusal::Ending | Refusal::Encapsulation);
            if is_reachable || was_promised {
                let theirs = if is_reachable { theirs } else { Vec::new() };
                self.let_be(earlier, why, Gone { to: from, flows: theirs }, flows, now);
            }
            return;
        }
        let name = Name { nonce: self.draw_nonce(), ..name };
        let until = now + self.config.copying_max + self.config.lease;
        let gone = self.gone(subscriber);
        let claim = Claim { name, from, until, flows: theirs, bytes: held, gone };
        flows.note(&Note::Holding(claim.clone()));
        flows.lead(subscriber, from, &claim.flows);
        let coming = Coming::promised_before(claim);
        self.say(from, coming.ready());
        self.coming.insert(subscriber, coming);
    }

    /// The same answer; flows that are new come along.
    fn on_asked_again(&mut self, asked: &Asked, flows: &mut impl Flows, now: Instant) {
        let subscriber = asked.name.subscriber;
        let gone = self.gone(subscriber);
        let Some(coming) = self.coming.get_mut(&subscriber) else { return };
        let known: BTreeSet<FlowEnds> = coming.flows.iter().copied().collect();
        let new: Vec<FlowEnds> = asked.flows.iter().filter(|flow| !known.contains(flow)).copied().collect();
        if let Stage::Holding { promised, .. } = coming.stage
            && !new.is_empty()
        {
            if known.len() + new.len() > FLOWS_MAX {
                return self.decline(subscriber, Refusal::Memory, flows, now);
            }
            if has_any(flows, subscriber, &new) {
                return self.decline(subscriber, Refusal::Owned, flows, now);
            }
            coming.flows.extend(new);
            let (until, flows_now) = (coming.until, coming.flows.clone());
            let claim =
                Claim { name: coming.name, from: asked.from, until, flows: flows_now, bytes: promised, gone };
            flows.note(&Note::Holding(claim.clone()));
            flows.lead(subscriber, asked.from, &claim.flows);
        }
        if let Some(ready) = self.coming.get(&subscriber).map(Coming::ready) {
            self.say(asked.from, ready);
        }
    }

    /// Says that it is not taken, and counts that.
    fn refuse(&mut self, to: Peer, name: Name, why: Refusal) {
        self.counters.refused[why as usize] += 1;
        self.say(to, Message::Refused(name, why));
    }

    pub(crate) fn on_copy(
        &mut self,
        from: Peer,
        name: Name,
        piece: &HeldPiece,
        flows: &mut impl Flows,
        now: Instant,
    ) {
        if !self.are_of(name.subscriber, std::iter::once(&piece.flow)) {
            return;
        }
        let is_past = self.past.get(&name.subscriber).is_some_and(|past| past.name == name);
        let Some(coming) = self.coming_by(from, &name) else {
            if !is_past {
                // One that this process has not promised to take: the other box need not go on to send.
                self.say_unknown(from, name);
            }
            return;
        };
        let Stage::Holding { copies, held, .. } = &mut coming.stage else { return };
        if copies.len() >= FLOWS_MAX && !copies.contains_key(&piece.flow) {
            return;
        }
        let copied = copies.entry(piece.flow).or_insert_with(|| Copied::new(piece.start));
        let before = copied.len;
        copied.add(piece);
        *held = (*held + copied.len).saturating_sub(before);
        let (through, flow) = (copied.through(piece.una), piece.flow);
        if !self.has_memory(from, 0) {
            return self.decline(name.subscriber, Refusal::Memory, flows, now);
        }
        self.say(from, Message::Copied { name, flow, through });
    }

    pub(crate) fn on_commit(
        &mut self,
        from: Peer,
        name: Name,
        moved: Vec<HandoverFlow>,
        flows: &mut impl Flows,
        now: Instant,
    ) {
        let again = self.again(from, now);
        let gone = self.gone(name.subscriber);
        let are_theirs =
            moved.len() <= FLOWS_MAX && self.are_of(name.subscriber, moved.iter().map(|flow| &flow.ends));
        let Some(coming) = self.coming_by(from, &name) else {
            // One that came and was confirmed: the confirmation has overtaken a copy of the commit.
            let past = self.past.get(&name.subscriber).filter(|past| past.name == name);
            return match past.map(|past| past.refused) {
                Some(None) => self.say(from, Message::Committed(name)),
                Some(Some(why)) => self.say(from, Message::Refused(name, why)),
                None => self.say_unknown(from, name),
            };
        };
        let Stage::Holding { copies, .. } = &coming.stage else {
            return self.say(from, Message::Committed(name));
        };
        if !are_theirs {
            return self.decline(name.subscriber, Refusal::Subscriber, flows, now);
        }
        let mut loaded: Vec<Loaded> = Vec::new();
        let mut lacking = Vec::new();
        for flow in moved {
            let (una, end) = flow.held();
            let held = match copies.get(&flow.ends) {
                _ if una == end => Some(Vec::new()),
                Some(copied) => copied.between(una, end),
                None => None,
            };
            match held {
                Some(held) => loaded.push((flow, held)),
                None => {
                    let through = copies.get(&flow.ends).map(|copied| copied.through(una));
                    lacking.push(Lack { flow: flow.ends, through });
                }
            }
        }
        if !lacking.is_empty() {
            return self.say(from, Message::Lacking(name, lacking));
        }
        let bytes = loaded.iter().map(|(_, held)| held.len() as u64).sum();
        let ends: Vec<FlowEnds> = loaded.iter().map(|(flow, _)| flow.ends).collect();
        let named: BTreeSet<FlowEnds> = coming.flows.iter().copied().collect();
        let unnamed: Vec<FlowEnds> = ends.iter().filter(|flow| !named.contains(flow)).copied().collect();
        let claim = Claim { name, from, until: coming.until, flows: ends, bytes, gone };
        if !flows.take_in(&claim, loaded, now) {
            return self.decline(name.subscriber, Refusal::Flows, flows, now);
        }
        if !unnamed.is_empty() {
            // Nobody has kept their packets from going past this box.
            flows.doubt(name.subscriber, &unnamed, now);
        }
        coming.flows = claim.flows;
        coming.stage = Stage::Owning { again, bytes };
        self.say(from, Message::Committed(name));
    }

    /// Says of a hand-over that is not known here what that means.
    fn say_unknown(&mut self, to: Peer, name: Name) {
        // All that processes of this line have taken is known.
        let why = if self.is_of_line(&name) { Refusal::Never } else { Refusal::Unknown };
        self.say(to, Message::Refused(name, why));
    }

    pub(crate) fn on_confirm(&mut self, from: Peer, name: Name, flows: &mut impl Flows, now: Instant) {
        if !self.coming_by(from, &name).is_some_and(|coming| coming.is_owning()) {
            return;
        }
        let Some(coming) = self.coming.remove(&name.subscriber) else { return };
        let Stage::Owning { bytes, .. } = coming.stage else { return };
        self.counters.come += 1;
        self.counters.flows[1] += coming.flows.len() as u64;
        self.counters.bytes[1] += bytes;
        self.ended.push_back(coming.ended(HandoverOutcome::Come, bytes));
        let past = self.past_of(name, now).begun_by(from, coming.flows.len());
        let note = self.over(Past { shared: Some(coming.theirs()), ..past });
        flows.note(&note);
    }

    pub(crate) fn on_abort(&mut self, from: Peer, name: Name, flows: &mut impl Flows, now: Instant) {
        // A box that was not told the nonce yet may change its mind, too.
        let is_meant = |coming: &&Coming| {
            let Name { epoch, nonce, .. } = coming.name;
            coming.from == from && epoch == name.epoch && [0, nonce].contains(&name.nonce)
        };
        let is_held = self.coming.get(&name.subscriber).filter(is_meant).is_some_and(|one| !one.is_owning());
        if let Some(coming) = is_held.then(|| self.coming.remove(&name.subscriber)).flatten() {
            self.let_be(coming.name, Refusal::Never, coming.theirs(), flows, now);
        }
    }

    /// It does not come: its flows stay where they are, as far as is known.
    fn let_be(&mut self, name: Name, why: Refusal, stay: Gone, flows: &mut impl Flows, now: Instant) {
        let past = self.past_of(name, now).begun_by(stay.to, stay.flows.len());
        let gone = if stay.flows.is_empty() { self.gone(name.subscriber) } else { Some(stay) };
        flows.let_stay(name.subscriber, gone.as_ref());
        let note = self.over(Past { refused: Some(why), gone, ..past });
        flows.note(&note);
    }

    /// Does not take it: it has not yet.
    pub(crate) fn decline(&mut self, subscriber: IpAddr, why: Refusal, flows: &mut impl Flows, now: Instant) {
        if self.coming.get(&subscriber).is_none_or(Coming::is_owning) {
            return;
        }
        let Some(coming) = self.coming.remove(&subscriber) else { return };
        self.counters.refused[why as usize] += 1;
        self.say(coming.from, Message::Refused(coming.name, why));
        self.let_be(coming.name, why, coming.theirs(), flows, now);
    }

    pub(crate) fn on_coming_due(&mut self, subscriber: IpAddr, flows: &mut impl Flows, now: Instant) {
        let Some(coming) = self.coming.get_mut(&subscriber) else { return };
        let is_over = coming.until <= now;
        match &mut coming.stage {
            Stage::Holding { .. } => {
                let (name, stay) = (coming.name, coming.theirs());
                self.coming.remove(&subscriber);
                self.let_be(name, Refusal::Never, stay, flows, now);
            }
            Stage::Owning { bytes, .. } if is_over => {
                // The other box has not said that it knows, and may give them up itself soon.
                let bytes = *bytes;
                let Some(coming) = self.coming.remove(&subscriber) else { return };
                // It had them: the other one must not go on as if they had never come. Who was to come back and did
                // not is where it was.
                let gone = self.gone(subscriber);
                let past = self.past_of(coming.name, now).begun_by(coming.from, coming.flows.len());
                let note = self.over(Past { refused: Some(Refusal::Unknown), gone, ..past });
                flows.break_off(&coming.flows, &note, now);
                self.counters.broken += 1;
                self.ended.push_back(coming.ended(HandoverOutcome::Broken, bytes));
            }
            Stage::Owning { again, .. } => {
                again.once_more(now);
                let (from, name) = (coming.from, coming.name);
                self.say(from, Message::Committed(name));
            }
        }
    }
}

/// True when one of these flows of a subscriber is here.
fn has_any(flows: &mut impl Flows, subscriber: IpAddr, named: &[FlowEnds]) -> bool {
    let own = flows.survey(subscriber).flows;
    let own: BTreeSet<_> = own.iter().map(FlowEnds::client_and_server).collect();
    !own.is_empty() && named.iter().any(|flow| own.contains(&flow.client_and_server()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_any_order_and_lie_one_over_the_other() {
        let flow = FlowEnds {
            is_downlink: true,
            sink: "10.0.0.1:1".parse().unwrap(),
            source: "192.0.2.1:443".parse().unwrap(),
        };
        let number = |at: u32| SeqNum::new(u32::MAX - 4) + at;
        let data: Vec<u8> = (0..40).collect();
        let piece = |una: u32, from: usize, to: usize| HeldPiece {
            flow,
            una: number(una),
            start: number(from as u32),
            bytes: data[from..to].to_vec(),
        };
        let mut copied = Copied::new(number(10));
        copied.add(&piece(0, 10, 20));
        assert_eq!((copied.through(number(0)), copied.len), (number(0), 10 + PIECE_COST), "a hole");
        copied.add(&piece(0, 0, 12));
        assert_eq!(copied.between(number(0), number(20)).as_deref(), Some(&data[..20]));
        copied.add(&piece(0, 0, 4));
        copied.add(&piece(0, 30, 40));
        assert_eq!(copied.between(number(3), number(21)), None);
        copied.add(&piece(13, 18, 31));
        let costs = 10 + 10 + 13 + 3 * PIECE_COST;
        assert_eq!(copied.len, costs, "what the sink has acknowledged is forgotten");
        assert_eq!(copied.between(number(13), number(40)).as_deref(), Some(&data[13..]));
        assert_eq!(copied.through(number(13)), number(40));
    }
}
