//! A subscriber that comes: the part of the box that takes it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::{FlowEnds, HeldPiece, MovedFlow, RECORD_VERSION};
use units::{Duration, Instant, SeqNum};

use crate::{Again, Ended, Flows, Handover, Loaded, Message, Name, Outcome, Peer, Refusal, VERSION};

/// Flows of one subscriber at most.
const FLOWS_MAX: usize = 16_384;

/// One that comes.
#[derive(Debug)]
pub(crate) struct Coming {
    from: Peer,
    name: Name,
    /// Those that the other box has named.
    flows: Vec<FlowEnds>,
    stage: Stage,
    /// By then it is forgotten, or given up.
    until: Instant,
}

#[derive(Debug)]
enum Stage {
    /// Data comes ahead.
    Holding { copies: BTreeMap<FlowEnds, Copied>, promised: u64, held: u64 },
    /// It is here, and the other box may not know.
    Owning { again: Again, bytes: u64 },
}

/// Data of a flow, in order.
#[derive(Debug)]
struct Copied {
    start: SeqNum,
    bytes: Vec<u8>,
}

impl Copied {
    fn end(&self) -> SeqNum {
        self.start + self.bytes.len() as u32
    }

    /// Adds a piece, and forgets what lies before the first byte that is needed. A piece behind a gap is left out,
    /// to come again.
    fn add(&mut self, piece: &HeldPiece) {
        if piece.start == piece.una && piece.una.is_after(self.end()) {
            // What lay between has been acknowledged.
            (self.start, self.bytes) = (piece.start, Vec::new());
        }
        let known = self.end().distance_from(piece.start);
        let new = usize::try_from(known).ok().and_then(|known| piece.bytes.get(known..));
        self.bytes.extend_from_slice(new.unwrap_or_default());
        let old = piece.una.distance_from(self.start).max(0).unsigned_abs();
        let old = old.min(self.bytes.len() as u32);
        self.bytes.drain(..old as usize);
        self.start = self.start + old;
    }

    /// The bytes from `una` to `end`, if they are all here.
    fn between(&self, una: SeqNum, end: SeqNum) -> Option<Vec<u8>> {
        let at = usize::try_from(una.distance_from(self.start)).ok()?;
        self.bytes.get(at..at + end.since(una) as usize).map(<[u8]>::to_vec)
    }
}

impl Coming {
    pub(crate) fn name(&self) -> Name {
        self.name
    }

    pub(crate) fn is_owning(&self) -> bool {
        matches!(self.stage, Stage::Owning { .. })
    }

    pub(crate) fn due(&self) -> Instant {
        match &self.stage {
            Stage::Holding { .. } => self.until,
            Stage::Owning { again, .. } => self.until.min(again.at),
        }
    }

    /// Memory that it takes, or was promised.
    fn memory(&self) -> u64 {
        match &self.stage {
            Stage::Holding { promised, held, .. } => *promised.max(held),
            Stage::Owning { .. } => 0,
        }
    }

    fn ended(&self, outcome: Outcome, bytes: u64) -> Ended {
        Ended {
            subscriber: self.name.subscriber,
            peer: self.from,
            is_going: false,
            outcome,
            flows: self.flows.len(),
            bytes,
            phases: [Duration::ZERO; 3],
        }
    }
}

impl Handover {
    fn coming_by(&mut self, from: Peer, name: &Name) -> Option<&mut Coming> {
        self.coming.get_mut(&name.subscriber).filter(|coming| coming.from == from && coming.name == *name)
    }

    pub(crate) fn on_prepare(
        &mut self,
        from: Peer,
        name: Name,
        (versions, held): ((u16, u32), u64),
        theirs: Vec<FlowEnds>,
        flows: &mut impl Flows,
        now: Instant,
    ) {
        let subscriber = name.subscriber;
        let known = self.coming.get(&subscriber);
        let is_same = |coming: &&Coming| coming.from == from && coming.name.epoch == name.epoch;
        if let Some(name) = known.filter(is_same).map(|coming| coming.name) {
            // It is asked again: the same answer.
            return self.say(from, Message::Ready(name));
        }
        let memory: u64 = self.coming.values().map(Coming::memory).sum();
        let refusals = [
            (versions != (VERSION, RECORD_VERSION), Refusal::Version),
            (self.is_ending, Refusal::Ending),
            (self.going.contains_key(&subscriber), Refusal::Busy),
            (known.is_some_and(Coming::is_owning), Refusal::Busy),
            (name.epoch <= self.epoch_of(subscriber), Refusal::Epoch),
            (memory.saturating_add(held) > self.config.memory_max, Refusal::Memory),
            (self.under_way() >= self.config.transfers_max || theirs.len() > FLOWS_MAX, Refusal::Memory),
        ];
        if let Some((_, why)) = refusals.into_iter().find(|(holds, _)| *holds) {
            self.counters.refused[why as usize] += 1;
            // The next time the other box takes a higher number.
            return self.say(from, Message::Refused(name, why));
        }
        if let Some(older) = self.coming.remove(&subscriber) {
            flows.lead(&older.flows, None);
        }
        if let Some(past) = self.past.remove(&subscriber) {
            flows.lead(&past.flows, None);
        }
        let name = Name { nonce: self.draw(), ..name };
        flows.lead(&theirs, Some(from));
        let stage = Stage::Holding { copies: BTreeMap::new(), promised: held, held: 0 };
        let until = now + self.config.copying_max + self.config.lease;
        self.coming.insert(subscriber, Coming { from, name, flows: theirs, stage, until });
        self.say(from, Message::Ready(name));
    }

    pub(crate) fn on_copy(
        &mut self,
        from: Peer,
        name: Name,
        piece: &HeldPiece,
        flows: &mut impl Flows,
        now: Instant,
    ) {
        let memory_max = self.config.memory_max;
        let others: u64 = self.coming.values().filter(|one| one.name != name).map(Coming::memory).sum();
        let Some(coming) = self.coming_by(from, &name) else { return };
        let Stage::Holding { copies, held, .. } = &mut coming.stage else { return };
        if copies.len() >= FLOWS_MAX && !copies.contains_key(&piece.flow) {
            return;
        }
        let first = || Copied { start: piece.start, bytes: Vec::new() };
        let copied = copies.entry(piece.flow).or_insert_with(first);
        let before = copied.bytes.len() as u64;
        copied.add(piece);
        *held = (*held + copied.bytes.len() as u64).saturating_sub(before);
        let (through, flow, is_full) = (copied.end(), piece.flow, others + *held > memory_max);
        if is_full {
            return self.decline(name.subscriber, Refusal::Memory, flows, now);
        }
        self.say(from, Message::Copied { name, flow, through });
    }

    pub(crate) fn on_commit(
        &mut self,
        from: Peer,
        name: Name,
        moved: Vec<MovedFlow>,
        flows: &mut impl Flows,
        now: Instant,
    ) {
        let retry = self.config.retry;
        let Some(coming) = self.coming_by(from, &name) else {
            // One that came and was confirmed: the confirmation has overtaken a copy of the commit.
            let past = self.past.get(&name.subscriber).filter(|past| past.name == name);
            return match past.map(|past| past.refused) {
                Some(None) => self.say(from, Message::Committed(name)),
                Some(Some(why)) => self.say(from, Message::Refused(name, why)),
                None => self.say(from, Message::Refused(name, Refusal::Unknown)),
            };
        };
        let Stage::Holding { copies, .. } = &mut coming.stage else {
            return self.say(from, Message::Committed(name));
        };
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
                None => lacking.push(flow.ends),
            }
        }
        if !lacking.is_empty() {
            lacking.iter().for_each(|flow| _ = copies.remove(flow));
            return self.say(from, Message::Lacking(name, lacking));
        }
        let bytes = loaded.iter().map(|(_, held)| held.len() as u64).sum();
        flows.lead(&coming.flows, None);
        if !flows.take_in(&loaded, now) {
            return self.decline(name.subscriber, Refusal::Flows, flows, now);
        }
        coming.flows = loaded.iter().map(|(flow, _)| flow.ends).collect();
        coming.stage = Stage::Owning { again: Again::after(retry, now), bytes };
        self.say(from, Message::Committed(name));
    }

    pub(crate) fn on_confirm(&mut self, from: Peer, name: Name, now: Instant) {
        if !self.coming_by(from, &name).is_some_and(|coming| coming.is_owning()) {
            return;
        }
        let Some(coming) = self.coming.remove(&name.subscriber) else { return };
        let Stage::Owning { bytes, .. } = coming.stage else { return };
        self.counters.come += 1;
        self.counters.flows[1] += coming.flows.len() as u64;
        self.counters.bytes[1] += bytes;
        self.ended.push_back(coming.ended(Outcome::Come, bytes));
        self.remember(name, None, Vec::new(), now);
    }

    pub(crate) fn on_abort(&mut self, from: Peer, name: Name, flows: &mut impl Flows) {
        // A box that was not told the nonce yet may change its mind, too.
        let is_meant = |coming: &&Coming| {
            let Name { epoch, nonce, .. } = coming.name;
            coming.from == from && epoch == name.epoch && [0, nonce].contains(&name.nonce)
        };
        let is_held = self.coming.get(&name.subscriber).filter(is_meant).is_some_and(|one| !one.is_owning());
        if let Some(coming) = is_held.then(|| self.coming.remove(&name.subscriber)).flatten() {
            flows.lead(&coming.flows, None);
        }
    }

    /// Does not take it: it has not yet.
    pub(crate) fn decline(&mut self, subscriber: IpAddr, why: Refusal, flows: &mut impl Flows, now: Instant) {
        if self.coming.get(&subscriber).is_none_or(Coming::is_owning) {
            return;
        }
        let Some(coming) = self.coming.remove(&subscriber) else { return };
        flows.lead(&coming.flows, None);
        self.counters.refused[why as usize] += 1;
        self.say(coming.from, Message::Refused(coming.name, why));
        self.remember(coming.name, Some(why), Vec::new(), now);
    }

    pub(crate) fn on_coming_due(&mut self, subscriber: IpAddr, flows: &mut impl Flows, now: Instant) {
        let retry = self.config.retry;
        let Some(coming) = self.coming.get_mut(&subscriber) else { return };
        let is_over = coming.until <= now;
        match &mut coming.stage {
            Stage::Holding { .. } => {
                flows.lead(&coming.flows, None);
                self.coming.remove(&subscriber);
            }
            Stage::Owning { bytes, .. } if is_over => {
                // The other box has not said that it knows, and may give them up itself soon.
                let bytes = *bytes;
                flows.break_off(&coming.flows, now);
                self.counters.broken += 1;
                self.ended.push_back(coming.ended(Outcome::Broken, bytes));
                self.coming.remove(&subscriber);
            }
            Stage::Owning { again, .. } => {
                again.once_more(retry, now);
                let (from, name) = (coming.from, coming.name);
                self.say(from, Message::Committed(name));
            }
        }
    }
}
