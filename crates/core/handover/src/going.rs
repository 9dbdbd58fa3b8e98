//! A subscriber that goes: the part of the box that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use engine::{FlowEnds, HeldPiece, RECORD_VERSION};
use units::{Instant, SeqNum};

use crate::copies::PIECE;
use crate::{
    Again, Copies, Ended, FlowMoved, Flows, Freeze, Gone, Handover, HandoverOutcome, Lack, Loaded, Message,
    Name, Past, Peer, Refusal, Survey, Terms, Urgency, VERSION, subscriber_of,
};

/// One that goes.
#[derive(Debug)]
pub(crate) struct Going {
    to: Peer,
    name: Name,
    stage: Stage,
    again: Again,
    /// Flows that the other box was told of: it may send packets of them on.
    named: BTreeSet<FlowEnds>,
    /// Number of them that it has said to know.
    known: usize,
    /// Numbers up to which each flow's data was sent, and up to which it is known to have come.
    sent: BTreeMap<FlowEnds, [SeqNum; 2]>,
    /// Data that may be under way, bytes; less after something was lost.
    window: u32,
    /// Data whose round trip is measured: of which flow, the number behind it, and when it was sent.
    timed: Option<(FlowEnds, SeqNum, Instant)>,
    bytes: u64,
    /// Times at which it began to ask, to copy, and to wait.
    began: [Instant; 3],
}

#[derive(Debug)]
enum Stage {
    /// The other box is asked, until then.
    Asking { until: Instant },
    /// Data goes ahead, until then at the latest. At `broken_at` the other box can have it no more. `is_late`: it is
    /// only waited for until the other box knows all flows, or the subscriber stays.
    Copying { until: Instant, broken_at: Instant, round: Round, is_late: bool },
    /// It is nobody's here any more.
    Frozen { broken_at: Instant, flows: Vec<Loaded> },
}

/// Data goes ahead in rounds: all that has not gone yet; then what was new by the time at which that had come. So
/// nothing is in front of the commit on its way.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Bytes.
    sent: u64,
    /// Nothing more is sent until all of it has come.
    is_sent: bool,
}

impl Round {
    /// Nothing has gone ahead.
    const NONE: Self = Self { sent: u64::MAX, is_sent: true };

    /// True when so much that is new is as well sent after the freeze: another round would not make it much less.
    fn is_last(self, new: &Copies) -> bool {
        (new.is_all && new.len() <= PIECE as u64) || new.len() >= self.sent / 2
    }
}

impl Going {
    /// One that a process before this one has frozen: the other box is asked at once.
    pub(crate) fn frozen_before(
        name: Name,
        to: Peer,
        broken_at: Instant,
        flows: Vec<Loaded>,
        again: Again,
    ) -> Self {
        let (stage, now) = (Stage::Frozen { broken_at, flows }, again.at);
        let (named, known, sent, window) = (BTreeSet::new(), 0, BTreeMap::new(), 0);
        Self { to, name, stage, again, named, known, sent, window, timed: None, bytes: 0, began: [now; 3] }
    }

    pub(crate) fn is_frozen(&self) -> bool {
        matches!(self.stage, Stage::Frozen { .. })
    }

    /// True when its flows are here, and a box was told of them.
    pub(crate) fn is_offered_to(&self, peer: Peer) -> bool {
        self.to == peer && !self.is_frozen()
    }

    /// Flows that stay here after all, or come back, and the box that was told of them.
    fn shared(&self) -> Option<Gone> {
        let back = match &self.stage {
            Stage::Frozen { flows, .. } => ends_of(flows),
            Stage::Asking { .. } | Stage::Copying { .. } => Vec::new(),
        };
        let flows: BTreeSet<FlowEnds> = self.named.iter().copied().chain(back).collect();
        (!flows.is_empty()).then(|| Gone { to: self.to, flows: flows.into_iter().collect() })
    }

    pub(crate) fn due(&self) -> Instant {
        match self.stage {
            Stage::Asking { until } | Stage::Copying { until, .. } => self.again.at.min(until),
            Stage::Frozen { broken_at, .. } => self.again.at.min(broken_at),
        }
    }

    #[cfg(test)]
    pub(crate) fn freeze_until(&mut self, at: Instant) {
        if let Stage::Frozen { broken_at, .. } = &mut self.stage {
            *broken_at = at;
        }
    }

    fn under_way(&self) -> u32 {
        self.sent.values().map(|[sent, come]| sent.distance_from(*come).max(0).unsigned_abs()).sum()
    }

    /// Notes that a piece is sent.
    fn note_sent(&mut self, piece: &HeldPiece, now: Instant) {
        let end = piece.start + piece.bytes.len() as u32;
        let [sent, come] = self.sent.entry(piece.flow).or_insert([piece.start; 2]);
        self.timed = self.timed.or(Some((piece.flow, end, now)));
        (*sent, *come) = (end, if come.is_after(piece.start) { piece.start } else { *come });
        self.bytes += piece.bytes.len() as u64;
    }

    /// Nothing was heard of what is under way: it goes again, a little at a time until something is heard.
    fn send_again(&mut self) {
        self.sent.values_mut().for_each(|[sent, come]| *sent = *come);
        (self.window, self.timed) = (PIECE as u32, None);
    }

    fn ended(&self, outcome: HandoverOutcome, flows: usize, now: Instant) -> Ended {
        let [asked, copied, frozen] = self.began;
        let phases = [(asked, copied), (copied, frozen), (frozen, now)];
        let phases = phases.map(|(from, to)| to.min(now).saturating_since(from));
        Ended {
            subscriber: self.name.subscriber,
            peer: self.to,
            is_going: true,
            outcome,
            flows,
            bytes: self.bytes,
            each: match &self.stage {
                Stage::Frozen { flows, .. } if outcome == HandoverOutcome::Gone => {
                    flows.iter().map(FlowMoved::of).collect()
                }
                _ => Vec::new(),
            },
            phases,
        }
    }
}

impl Handover {
    /// Begins to hand the subscriber of an address over to another box; gives its name in what follows
    /// ([`Ended::subscriber`]): the address, or the first one of its prefix.
    ///
    /// # Errors
    /// Why not: the settings do not let it go there, another hand-over of it is under way, there are too many, or this
    /// box ends.
    pub fn begin(
        &mut self,
        subscriber: IpAddr,
        to: Peer,
        flows: &mut impl Flows,
        now: Instant,
    ) -> Result<IpAddr, Refusal> {
        let subscriber = subscriber_of(subscriber, self.ipv6_prefix_len);
        if self.is_ending {
            return Err(Refusal::Ending);
        }
        if self.rights.get(&to).is_some_and(|rights| !rights.may_take(subscriber)) {
            return Err(Refusal::Forbidden);
        }
        if self.going.contains_key(&subscriber) || self.coming.contains_key(&subscriber) {
            return Err(Refusal::Busy);
        }
        if self.under_way() >= self.config.transfers_max {
            return Err(Refusal::Memory);
        }
        let survey = flows.survey(subscriber);
        if survey.flows.is_empty() {
            return Err(Refusal::Flows);
        }
        let name = Name { subscriber, epoch: self.next_epoch(subscriber, now), nonce: 0 };
        let going = Going {
            to,
            name,
            stage: Stage::Asking { until: now + self.config.asking_max },
            again: self.again(to, now),
            named: BTreeSet::new(),
            known: 0,
            sent: BTreeMap::new(),
            window: self.config.window,
            timed: None,
            bytes: 0,
            began: [now, Instant::FAR_FUTURE, Instant::FAR_FUTURE],
        };
        self.going.insert(subscriber, going);
        self.ask(subscriber, survey, flows, now);
        Ok(subscriber)
    }

    /// Asks the other box, or says which flows are new. Who comes after this process knows of what it was told.
    fn ask(&mut self, subscriber: IpAddr, survey: Survey, all: &mut impl Flows, now: Instant) {
        let until = now + self.config.linger;
        let past = self.past.get(&subscriber).cloned();
        let Some(going) = self.going.get_mut(&subscriber) else { return };
        let (to, name, known) = (going.to, going.name, going.named.len());
        let Survey { flows, held, packet } = survey;
        going.named.extend(&flows);
        if going.named.len() > known {
            let past = past.unwrap_or(Past::new(name, until));
            let note = Past { name, shared: going.shared(), forgotten_at: until, ..past }.note();
            all.note(&note);
            all.announce(subscriber, to, &flows);
        }
        let Some(flows) = self.going.get(&subscriber).map(|going| going.named.iter().copied().collect())
        else {
            return;
        };
        let terms = Terms { packet, encapsulation: self.encapsulation.clone() };
        self.say(to, Message::Prepare { name, versions: (VERSION, RECORD_VERSION), held, flows, terms });
    }

    /// The hand-over that a message of `from` is about.
    fn going_by(&mut self, from: Peer, name: &Name) -> Option<&mut Going> {
        self.going.get_mut(&name.subscriber).filter(|going| going.to == from && going.name == *name)
    }

    pub(crate) fn on_ready(
        &mut self,
        from: Peer,
        name: Name,
        known: u32,
        flows: &mut impl Flows,
        now: Instant,
    ) {
        let config = self.config;
        let asked = Name { nonce: 0, ..name };
        let Some(going) = self.going_by(from, &asked) else {
            let Some(going) = self.going_by(from, &name) else {
                // Of one that is over.
                return self.say(from, Message::Abort(name));
            };
            going.known = going.known.max(known as usize);
            return self.copy_on(name.subscriber, flows, now);
        };
        going.known = known as usize;
        going.name = name;
        going.began[1] = now;
        let lease = config.copying_max + config.lease;
        let broken_at = now + lease + lease / 4;
        going.stage =
            Stage::Copying { until: now + config.copying_max, broken_at, round: Round::NONE, is_late: false };
        // If it was asked more than once, this may be an answer to a later question: the trip was not longer than that,
        // which is better than to know nothing.
        let (trip, is_first) = (now.saturating_since(going.began[0]), going.again.is_first());
        if is_first || !self.trips.contains_key(&from) {
            self.note_trip(from, trip);
        }
        let again = self.again(from, now);
        self.going.values_mut().filter(|going| going.name == name).for_each(|going| going.again = again);
        self.copy_on(name.subscriber, flows, now);
    }

    /// Bytes of one hand-over that may be under way to a box: all that go there have equal parts.
    fn part_of_window(&self, to: Peer) -> u32 {
        let is_copying = |going: &&Going| going.to == to && matches!(going.stage, Stage::Copying { .. });
        let copying = self.going.values().filter(is_copying).count().max(1);
        (self.config.window / copying as u32).max(PIECE as u32)
    }

    /// Sends data ahead, as much as may be under way; freezes when another round is not worth it.
    fn copy_on(&mut self, subscriber: IpAddr, flows: &mut impl Flows, now: Instant) {
        let Some(to) = self.going.get(&subscriber).map(|going| going.to) else { return };
        let part = self.part_of_window(to);
        let Some(going) = self.going.get_mut(&subscriber) else { return };
        let (window, under_way) = (part.min(going.window), going.under_way());
        let Stage::Copying { round, is_late, .. } = &mut going.stage else { return };
        if under_way >= window || (round.is_sent && under_way > 0) {
            return;
        }
        let sent = going.sent.iter().map(|(flow, [sent, _])| (*flow, *sent)).collect();
        let copies = flows.copies(subscriber, sent, u64::from(window - under_way));
        let is_new_round = round.is_sent;
        if round.is_sent {
            if *is_late || round.is_last(&copies) {
                if self.are_all_known(subscriber, flows, now) {
                    self.freeze(subscriber, flows, now);
                }
                return;
            }
            *round = Round { sent: 0, is_sent: false };
        }
        round.sent += copies.len();
        round.is_sent = copies.is_all;
        for piece in copies.pieces {
            going.note_sent(&piece, now);
            self.outbox.push_back((going.to, Message::Copy(going.name, piece), Urgency::Ahead));
        }
        if is_new_round {
            // If they are known by the time of the next one, nothing waits for that.
            self.are_all_known(subscriber, flows, now);
        }
    }

    /// True when the other box knows all flows. Tells it of those that have begun meanwhile: it would let their packets
    /// past, should routing lead them there.
    fn are_all_known(&mut self, subscriber: IpAddr, flows: &mut impl Flows, now: Instant) -> bool {
        let survey = flows.survey(subscriber);
        let Some(going) = self.going.get(&subscriber) else { return false };
        if survey.flows.iter().any(|flow| !going.named.contains(flow)) {
            self.ask(subscriber, survey, flows, now);
            return false;
        }
        going.known >= going.named.len()
    }

    /// Freezes it: from here on nobody has it, until the other box takes it.
    fn freeze(&mut self, subscriber: IpAddr, flows: &mut impl Flows, now: Instant) {
        let Some(going) = self.going.get_mut(&subscriber) else { return };
        let Stage::Copying { broken_at, .. } = going.stage else { return };
        let freeze = Freeze { name: going.name, to: going.to, broken_at };
        let Some(loaded) = flows.give_away(&freeze, now) else {
            return self.keep(subscriber, HandoverOutcome::Unfrozen, flows, now);
        };
        going.began[2] = now;
        going.stage = Stage::Frozen { broken_at, flows: loaded };
        // What is still on its way must not be overtaken.
        let urgency = if going.under_way() == 0 { Urgency::Now } else { Urgency::Ahead };
        let to = going.to;
        let again = self.again(to, now);
        self.going.values_mut().filter(|going| going.name == freeze.name).for_each(|one| one.again = again);
        self.send_rest(subscriber, urgency, now);
        self.commit(subscriber, urgency);
    }

    /// Sends what the other box was not sent, or lacks.
    fn send_rest(&mut self, subscriber: IpAddr, urgency: Urgency, now: Instant) {
        let Some(going) = self.going.get_mut(&subscriber) else { return };
        let Stage::Frozen { flows, .. } = &going.stage else { return };
        let mut pieces = Vec::new();
        for (flow, held) in flows {
            let (una, end) = flow.held();
            let sent = going.sent.get(&flow.ends).map_or(una, |[sent, _]| *sent);
            let mut from = if sent.is_after(una) && !sent.is_after(end) { sent } else { una };
            while from.is_before(end) {
                let at = from.since(una) as usize;
                let bytes = held[at..held.len().min(at + PIECE)].to_vec();
                let len = bytes.len() as u32;
                pieces.push(HeldPiece { flow: flow.ends, una, start: from, bytes });
                from += len;
            }
        }
        for piece in pieces {
            going.note_sent(&piece, now);
            self.outbox.push_back((going.to, Message::Copy(going.name, piece), urgency));
        }
    }

    fn commit(&mut self, subscriber: IpAddr, urgency: Urgency) {
        let Some(going) = self.going.get(&subscriber) else { return };
        let Stage::Frozen { flows, .. } = &going.stage else { return };
        let moved = flows.iter().map(|(flow, _)| flow.clone()).collect();
        self.outbox.push_back((going.to, Message::Commit(going.name, moved), urgency));
    }

    pub(crate) fn on_copied(
        &mut self,
        from: Peer,
        name: Name,
        (flow, through): (FlowEnds, SeqNum),
        flows: &mut impl Flows,
        now: Instant,
    ) {
        let (again, window_max) = (self.again(from, now), self.config.window);
        let Some(going) = self.going_by(from, &name) else { return };
        let Some([sent, come]) = going.sent.get_mut(&flow).filter(|[_, come]| through.is_after(*come)) else {
            return;
        };
        *come = through;
        *sent = if through.is_after(*sent) { through } else { *sent };
        going.again = again;
        going.window = going.window.saturating_mul(2).min(window_max);
        let is_timed =
            |(timed, end, _): &(FlowEnds, SeqNum, Instant)| *timed == flow && !end.is_after(through);
        if let Some((.., sent_at)) = going.timed.take_if(|timed| is_timed(timed)) {
            self.note_trip(from, now.saturating_since(sent_at));
        }
        self.copy_on(name.subscriber, flows, now);
    }

    pub(crate) fn on_lacking(&mut self, from: Peer, name: Name, lacks: &[Lack], now: Instant) {
        let Some(going) = self.going_by(from, &name).filter(|going| going.is_frozen()) else { return };
        for lack in lacks {
            match lack.through {
                Some(through) => drop(going.sent.insert(lack.flow, [through; 2])),
                None => drop(going.sent.remove(&lack.flow)),
            }
        }
        self.send_rest(name.subscriber, Urgency::Now, now);
        self.commit(name.subscriber, Urgency::Now);
    }

    pub(crate) fn on_committed(&mut self, from: Peer, name: Name, flows: &mut impl Flows, now: Instant) {
        // Who has started anew since, or was told already, has no part in it any more either way.
        self.say(from, Message::Confirm(name));
        let is_frozen = self.going_by(from, &name).is_some_and(|going| going.is_frozen());
        let Some(going) = is_frozen.then(|| self.going.remove(&name.subscriber)).flatten() else { return };
        let Stage::Frozen { flows: loaded, .. } = &going.stage else { return };
        if going.again.is_first() && going.timed.is_none() {
            self.note_trip(from, now.saturating_since(going.began[2]));
        }
        let ends = ends_of(loaded);
        let until = now + self.config.linger;
        let gone = Some(Gone { to: from, flows: ends.clone() });
        let note = self.over(Past { gone, ..Past::new(name, until) });
        flows.note(&note);
        if self.is_ending {
            self.leave(name.subscriber, from, now);
            self.repeat_leaving(from);
        }
        self.counters.gone += 1;
        self.counters.flows[0] += ends.len() as u64;
        self.counters.bytes[0] += going.bytes;
        self.ended.push_back(going.ended(HandoverOutcome::Gone, ends.len(), now));
    }

    pub(crate) fn on_refused(
        &mut self,
        from: Peer,
        name: Name,
        why: Refusal,
        flows: &mut impl Flows,
        now: Instant,
    ) {
        let Some(going) = self.going_by(from, &name) else { return };
        if !going.is_frozen() {
            return self.keep(name.subscriber, HandoverOutcome::Stayed(why), flows, now);
        }
        if why == Refusal::Unknown {
            // It has started anew. Nobody knows whether it had taken the commit before.
            return self.break_off(name.subscriber, flows, now);
        }
        // It has not taken it, and never will by this name.
        let Some(going) = self.going.remove(&name.subscriber) else { return };
        let Stage::Frozen { flows: loaded, .. } = &going.stage else { return };
        // Nothing of this name is to come alive again.
        let past = self.past_of(name, now);
        let note = self.over(Past { shared: going.shared(), ..past });
        let is_back = flows.take_back(loaded, &note, now);
        self.counters.stayed += u64::from(is_back);
        self.counters.broken += u64::from(!is_back);
        let outcome = if is_back { HandoverOutcome::Stayed(why) } else { HandoverOutcome::Broken };
        self.ended.push_back(going.ended(outcome, loaded.len(), now));
    }

    /// It stays here: it was not frozen yet.
    pub(crate) fn keep(
        &mut self,
        subscriber: IpAddr,
        outcome: HandoverOutcome,
        flows: &mut impl Flows,
        now: Instant,
    ) {
        if self.going.get(&subscriber).is_none_or(Going::is_frozen) {
            return;
        }
        let Some(going) = self.going.remove(&subscriber) else { return };
        self.counters.stayed += 1;
        self.ended.push_back(going.ended(outcome, 0, now));
        self.say(going.to, Message::Abort(going.name));
        let past = self.past_of(going.name, now);
        let note = self.over(Past { shared: going.shared(), ..past });
        flows.note(&note);
    }

    /// Nobody has it any more: what it owes its hosts hear by a reset.
    fn break_off(&mut self, subscriber: IpAddr, flows: &mut impl Flows, now: Instant) {
        let Some(going) = self.going.remove(&subscriber) else { return };
        let Stage::Frozen { flows: loaded, .. } = &going.stage else { return };
        let past = self.past_of(going.name, now);
        let note = self.over(past);
        flows.break_frozen(loaded, &note, now);
        self.counters.broken += 1;
        self.ended.push_back(going.ended(HandoverOutcome::Broken, loaded.len(), now));
    }

    pub(crate) fn on_going_due(&mut self, subscriber: IpAddr, flows: &mut impl Flows, now: Instant) {
        let Some(going) = self.going.get_mut(&subscriber) else { return };
        if going.again.at <= now {
            going.again.once_more(now);
            // Of one that is frozen the other box says what it lacks.
            if !going.is_frozen() {
                going.send_again();
            }
            if matches!(going.stage, Stage::Copying { .. }) {
                self.name_again(subscriber, flows, now);
            }
        }
        let Some(going) = self.going.get_mut(&subscriber) else { return };
        match going.stage {
            Stage::Asking { until } if until <= now => {
                self.keep(subscriber, HandoverOutcome::Unanswered, flows, now);
            }
            Stage::Asking { .. } => {
                let survey = flows.survey(subscriber);
                self.ask(subscriber, survey, flows, now);
            }
            Stage::Copying { until, is_late, .. } if until <= now => {
                self.end_copying(subscriber, is_late, flows, now);
            }
            Stage::Copying { .. } => self.copy_on(subscriber, flows, now),
            Stage::Frozen { broken_at, .. } if broken_at <= now => self.break_off(subscriber, flows, now),
            Stage::Frozen { .. } => self.commit(subscriber, Urgency::Now),
        }
    }
}

impl Handover {
    /// Enough is copied: freezes as soon as the other box knows all flows; if it never does, the subscriber stays.
    fn end_copying(&mut self, subscriber: IpAddr, was_late: bool, flows: &mut impl Flows, now: Instant) {
        if self.are_all_known(subscriber, flows, now) {
            return self.freeze(subscriber, flows, now);
        }
        if was_late {
            return self.keep(subscriber, HandoverOutcome::Unanswered, flows, now);
        }
        let later = now + self.config.asking_max;
        let going = self.going.get_mut(&subscriber);
        if let Some(Stage::Copying { until, is_late, .. }) = going.map(|going| &mut going.stage) {
            (*until, *is_late) = (later, true);
        }
        self.name_again(subscriber, flows, now);
    }

    /// Names all flows once more where the other box does not know them all.
    fn name_again(&mut self, subscriber: IpAddr, flows: &mut impl Flows, now: Instant) {
        if self.going.get(&subscriber).is_some_and(|going| going.known < going.named.len()) {
            let survey = flows.survey(subscriber);
            self.ask(subscriber, survey, flows, now);
        }
    }
}

fn ends_of(loaded: &[Loaded]) -> Vec<FlowEnds> {
    loaded.iter().map(|(flow, _)| flow.ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_the_last_where_another_would_not_make_it_much_less() {
        let flow = FlowEnds {
            is_downlink: true,
            sink: "10.0.0.1:1".parse().unwrap(),
            source: "192.0.2.1:443".parse().unwrap(),
        };
        let copies = |pieces: usize, is_all| {
            let start = SeqNum::new(0);
            let piece = HeldPiece { flow, una: start, start, bytes: vec![0; PIECE] };
            Copies { pieces: vec![piece; pieces], is_all }
        };
        let sent = |pieces: u64| Round { sent: pieces * PIECE as u64, is_sent: true };
        assert!(Round::NONE.is_last(&copies(1, true)), "it is as well sent with the commit");
        assert!(!Round::NONE.is_last(&copies(1, false)), "only so much may be under way");
        assert!(!Round::NONE.is_last(&copies(30, true)));
        assert!(!sent(30).is_last(&copies(14, true)));
        assert!(sent(30).is_last(&copies(15, true)), "it does not become less");
        assert!(sent(30).is_last(&copies(15, false)));
    }
}
