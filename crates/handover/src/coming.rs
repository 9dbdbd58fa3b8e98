//! A subscriber that comes: the part of the box that takes it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::{FlowEnds, HeldPiece, MovedFlow, RECORD_VERSION};
use units::{Duration, Instant, SeqNum};

use crate::{
    Again, Claim, Ended, Flows, Gone, Handover, Lack, Loaded, Message, Name, Note, Outcome, Peer, Refusal,
    Terms, VERSION,
};

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

/// Data of a flow: pieces, in whatever order they come.
#[derive(Debug)]
struct Copied {
    /// Places are counted from here.
    base: SeqNum,
    pieces: BTreeMap<i32, Vec<u8>>,
    /// Bytes of all pieces.
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
            self.len -= first.remove().len() as u64;
        }
        let at = piece.start.distance_from(self.base);
        if piece.bytes.is_empty() || self.pieces.get(&at).is_some_and(|old| old.len() >= piece.bytes.len()) {
            return;
        }
        self.len += piece.bytes.len() as u64;
        let old = self.pieces.insert(at, piece.bytes.clone());
        self.len -= old.map_or(0, |old| old.len() as u64);
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

    /// What stays where it is if it does not come.
    fn stay(&self) -> Gone {
        Gone { to: self.from, flows: self.flows.clone() }
    }

    fn ended(&self, outcome: Outcome, bytes: u64) -> Ended {
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

    pub(crate) fn on_prepare(
        &mut self,
        from: Peer,
        name: Name,
        (versions, terms): ((u16, u32), Terms),
        (theirs, held): (Vec<FlowEnds>, u64),
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
        let is_busy = self.going.contains_key(&subscriber) || known.is_some_and(Coming::is_owning);
        let is_old = name.epoch <= self.epoch_of(subscriber);
        let refusals = [
            (versions != (VERSION, RECORD_VERSION), Refusal::Version),
            (self.is_ending, Refusal::Ending),
            (is_busy, Refusal::Busy),
            (is_old, Refusal::Epoch),
            (memory.saturating_add(held) > self.config.memory_max, Refusal::Memory),
            (self.under_way() >= self.config.transfers_max || theirs.len() > FLOWS_MAX, Refusal::Memory),
            (terms.encapsulation != self.encapsulation, Refusal::Encapsulation),
        ];
        let refusal = refusals.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why);
        let mtu = if refusal.is_none() { flows.mtu(subscriber) } else { None };
        let is_too_long = mtu.is_some_and(|mtu| mtu < terms.packet);
        if let Some(why) = refusal.or(is_too_long.then_some(Refusal::Mtu)) {
            self.counters.refused[why as usize] += 1;
            // The next time the other box takes a higher number.
            self.say(from, Message::Refused(name, why));
            let is_reachable = !matches!(why, Refusal::Ending | Refusal::Encapsulation);
            // Whatever it was refused for: what is written down of a hand-over under way stays.
            if !is_busy && !is_old && is_reachable && theirs.len() <= FLOWS_MAX {
                // One of an earlier number is over with it; asked once more, the answer may be another one.
                self.coming.remove(&subscriber);
                let earlier = Name { epoch: name.epoch.saturating_sub(1), ..name };
                self.let_be(earlier, why, Gone { to: from, flows: theirs }, flows, now);
            }
            return;
        }
        self.coming.remove(&subscriber);
        let name = Name { nonce: self.draw_nonce(), ..name };
        let until = now + self.config.copying_max + self.config.lease;
        let gone = self.gone(subscriber);
        let claim = Claim { name, from, until, flows: theirs, bytes: held, gone };
        flows.note(&Note::Holding(claim.clone()));
        flows.lead(subscriber, from, &claim.flows);
        self.coming.insert(subscriber, Coming::promised_before(claim));
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
        let is_full = others + *held > memory_max;
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
        let again = self.again(from, now);
        let gone = self.gone(name.subscriber);
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
        let ends = loaded.iter().map(|(flow, _)| flow.ends).collect();
        let claim = Claim { name, from, until: coming.until, flows: ends, bytes, gone };
        if !flows.take_in(&claim, loaded, now) {
            return self.decline(name.subscriber, Refusal::Flows, flows, now);
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
        self.ended.push_back(coming.ended(Outcome::Come, bytes));
        let note = self.over(name, None, now);
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
            self.let_be(coming.name, Refusal::Never, coming.stay(), flows, now);
        }
    }

    /// It does not come: its flows stay where they are, as far as is known.
    fn let_be(&mut self, name: Name, why: Refusal, stay: Gone, flows: &mut impl Flows, now: Instant) {
        let stay = if stay.flows.is_empty() { self.gone(name.subscriber) } else { Some(stay) };
        flows.let_stay(name.subscriber, stay.as_ref());
        let note = self.over_with(name, Some(why), stay, now);
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
        self.let_be(coming.name, why, coming.stay(), flows, now);
    }

    pub(crate) fn on_coming_due(&mut self, subscriber: IpAddr, flows: &mut impl Flows, now: Instant) {
        let Some(coming) = self.coming.get_mut(&subscriber) else { return };
        let is_over = coming.until <= now;
        match &mut coming.stage {
            Stage::Holding { .. } => {
                let (name, stay) = (coming.name, coming.stay());
                self.coming.remove(&subscriber);
                self.let_be(name, Refusal::Never, stay, flows, now);
            }
            Stage::Owning { bytes, .. } if is_over => {
                // The other box has not said that it knows, and may give them up itself soon.
                let bytes = *bytes;
                let Some(coming) = self.coming.remove(&subscriber) else { return };
                // It had them: the other one must not go on as if they had never come.
                let note = self.over(coming.name, Some(Refusal::Unknown), now);
                flows.break_off(&coming.flows, &note, now);
                self.counters.broken += 1;
                self.ended.push_back(coming.ended(Outcome::Broken, bytes));
            }
            Stage::Owning { again, .. } => {
                again.once_more(now);
                let (from, name) = (coming.from, coming.name);
                self.say(from, Message::Committed(name));
            }
        }
    }
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
        assert_eq!((copied.through(number(0)), copied.len), (number(0), 10), "a hole");
        copied.add(&piece(0, 0, 12));
        assert_eq!(copied.between(number(0), number(20)).as_deref(), Some(&data[..20]));
        copied.add(&piece(0, 0, 4));
        copied.add(&piece(0, 30, 40));
        assert_eq!(copied.between(number(3), number(21)), None);
        copied.add(&piece(13, 18, 31));
        assert_eq!(copied.len, 10 + 10 + 13, "what the sink has acknowledged is forgotten");
        assert_eq!(copied.between(number(13), number(40)).as_deref(), Some(&data[13..]));
        assert_eq!(copied.through(number(13)), number(40));
    }
}
