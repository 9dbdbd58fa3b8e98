//! [`Disputes`]: what the hosts of flows say that does not fit what is known of them.
//!
//! Somebody on the path may send a whole handshake again whose connection has been going on past us for long.
//! Then a flow begins here with numbers that its hosts have left behind, and nothing that they say is acceptable.
//! What both of them confirm is believed: a segment of each that says of the other one just what that one says of
//! itself, and neither of which fits. The flow is handed back then. Where a host sends the same thing again both are
//! asked: an acknowledgement with a number of the past has each say where it is (RFC 9293 §3.10.7.4).
//!
//! A flow is young until one of its hosts has acknowledged something that went through here. Of one that owes something
//! nobody is believed: its hosts acknowledge that, or not.
//!
//! A flow that is young no longer may have gone on elsewhere for a while, as when routing led it past this machine.
//! Where only one direction moved, the number of the other one is exact, and its half says so (`relay/from_sink.rs`).
//! Where both did, each host acknowledges what never passed here, and neither has an exact number. Once one of them
//! says so again, both are asked: who forges the packets of both cannot keep them from being heard. Where both say so
//! a second later, of numbers close to each other, and nothing came of either meanwhile that fits, the flow is in
//! doubt ([`Departure::doubt`]).
//!
//! Of a flow that owes nothing they need not be ahead: somebody may have sent the handshake, and data with its
//! acknowledgement, in the names of two hosts whose connection goes on past us. It costs nothing to hand that back.
//!
//! A host whose segment begins behind more than has come of it has lost that before us, or sent it elsewhere; and one
//! sends again what it has sent where nobody acknowledged it. Such a segment goes its way: it speaks for neither.

use std::collections::VecDeque;

use units::{Instant, SeqNum};

use super::Half;
use crate::boundary::Verdict;
use crate::direction::End;
use crate::effect::Answer;
use crate::key::FlowKey;
use crate::pass::PassReason;
use crate::relay::Relay;
use crate::relay::departure::Departure;
use crate::segment::Segment;

/// Flows remembered; beyond it the oldest is forgotten.
const REMEMBERED: usize = 256;

/// Distance that the numbers of two hosts that are elsewhere may have: what may be under way, bytes.
const REACH: u32 = 1 << 26;

/// A segment of a flow that does not fit what is known of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(crate) struct Misfit {
    key: FlowKey,
    from: End,
    seq: SeqNum,
    /// One past the last number that it takes up.
    next: SeqNum,
    ack: SeqNum,
    tsval: Option<u32>,
}

impl Misfit {
    fn of(key: FlowKey, segment: &Segment<'_>) -> Self {
        let tcp = segment.tcp;
        let tsval = tcp.options.timestamps.map(|timestamps| timestamps.value);
        Self { key, from: segment.from, seq: tcp.seq, next: tcp.seq_end(), ack: tcp.ack, tsval }
    }

    /// The same, as a half knows it whose data goes the other way.
    pub(crate) fn reversed(self) -> Self {
        Self { key: FlowKey::new(self.key.source(), self.key.sink()), from: self.from.opposite(), ..self }
    }

    /// True when its host is where `other`, an earlier one of the peer, says, and has or lacks what that one
    /// carried.
    fn confirms(&self, other: &Self) -> bool {
        self.seq == other.ack && (self.ack == other.next || self.ack == other.seq)
    }

    /// True when its host says with `other`, an earlier one of its own, just the same.
    fn repeats(&self, other: &Self) -> bool {
        (self.seq, self.next, self.ack) == (other.seq, other.next, other.ack)
    }

    /// True when its host is about where `other`, of the peer, says, and takes that one to be about where it is.
    fn agrees_with(&self, other: &Self) -> bool {
        let is_close = |a: SeqNum, b: SeqNum| a.distance_from(b).unsigned_abs() < REACH;
        is_close(self.seq, other.ack) && is_close(self.ack, other.next)
    }
}

/// Finding about a segment that does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finding {
    /// Nothing yet.
    Open,
    /// Its host says it once more: the other one is to be asked.
    Repeated,
    /// Both hosts are about where the other one says.
    Agreed,
    /// Both hosts say the same.
    Confirmed,
}

/// Result of weighing a segment that does not fit.
struct Weighed {
    finding: Finding,
    /// Statements that source and sink made last.
    said: [Option<Misfit>; 2],
    /// Both hosts are to be asked.
    is_open: bool,
    /// They have agreed for long enough that they are elsewhere.
    is_settled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
struct Dispute {
    key: FlowKey,
    /// The last one of the source, and of the sink.
    said: [Option<Misfit>; 2],
}

/// Flows of which something did not fit, the oldest first.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(super) struct Disputes(VecDeque<Dispute>);

impl Disputes {
    /// Takes in what a host says; what comes of it, what both have said last, and whether it said something before.
    fn note(&mut self, misfit: Misfit) -> (Finding, [Option<Misfit>; 2], bool) {
        let known = self.forget(&misfit.key);
        let mut dispute = known.unwrap_or(Dispute { key: misfit.key, said: [None; 2] });
        let own = usize::from(misfit.from == End::Sink);
        let before = dispute.said[own].replace(misfit);
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(dispute);
        let finding = match dispute.said[1 - own] {
            Some(other) if misfit.confirms(&other) => Finding::Confirmed,
            Some(other) if misfit.agrees_with(&other) => Finding::Agreed,
            _ if before.is_some_and(|before| misfit.repeats(&before)) => Finding::Repeated,
            _ => Finding::Open,
        };
        (finding, dispute.said, before.is_some())
    }

    fn forget(&mut self, key: &FlowKey) -> Option<Dispute> {
        let place = self.0.iter().position(|one| one.key == *key)?;
        self.0.remove(place)
    }
}

impl Half {
    /// A segment does not fit what is known of its flow. It goes the way of `verdict`, unless the flow is handed back.
    pub(super) fn dispute(
        &mut self,
        id: u32,
        segment: &Segment<'_>,
        (verdict, answer): (Verdict, Answer),
        now: Instant,
    ) -> Verdict {
        let Some(flow) = self.flows.get(id) else { return Verdict::Forward };
        let misfit = Misfit::of(flow.key, segment);
        let Weighed { finding, said, is_open, is_settled } = self.weigh(id, misfit, now);
        self.last.misfit = Some((misfit, is_settled));
        if finding == Finding::Confirmed && self.hand_back_disputed(id) {
            return Verdict::Forward;
        }
        let relay = self.flows.get_mut(id).and_then(|flow| flow.phase.relay_mut());
        if let Some(relay) = relay.filter(|_| !is_settled)
            && relay.answer_misfit(misfit.from, answer, is_open && answer.lets_ask_both(), now)
        {
            relay.begin_dispute(now);
            for host in [End::Source, End::Sink] {
                let of_peer = said[usize::from(host == End::Source)];
                let tsval = of_peer.and_then(|misfit| misfit.tsval);
                if self.outgoing.questions.len() < REMEMBERED {
                    self.outgoing.questions.push_back((host, relay.question(&misfit.key, host, tsval)));
                }
            }
        }
        self.settle(id, now);
        verdict
    }

    /// Weighs a segment that does not fit.
    fn weigh(&mut self, id: u32, misfit: Misfit, now: Instant) -> Weighed {
        let (finding, said, is_again) = self.conflicts.disputes.note(misfit);
        let relay = self.flows.get(id).and_then(|flow| flow.phase.relay());
        let Some(relay) = relay.filter(|relay| !relay.is_young()) else {
            return Weighed { finding, said, is_open: finding == Finding::Repeated, is_settled: false };
        };
        let is_beyond = |said: Misfit| {
            !relay.owes() || relay.is_beyond(said.from, said.ack) || relay.is_ahead(said.from, said.seq)
        };
        // The other host may have nothing to say: all that it has sent was acknowledged.
        let is_open = (finding != Finding::Open || is_again) && is_beyond(misfit);
        let agrees = matches!(finding, Finding::Agreed | Finding::Confirmed);
        let is_settled =
            agrees && said.into_iter().flatten().all(is_beyond) && is_open && relay.is_elsewhere(now);
        Weighed { finding, said, is_open, is_settled }
    }

    /// The segment handled last, if it did not fit, and whether its hosts have agreed for long enough that they are
    /// elsewhere; told once.
    pub(crate) fn take_misfit(&mut self) -> Option<(Misfit, bool)> {
        self.last.misfit.take()
    }

    /// The other half, which stands in front, has met a segment that does not fit, and that does not come here; true
    /// where nothing is known here that speaks against its hosts being elsewhere.
    pub(crate) fn hear_misfit(&mut self, misfit: Misfit, now: Instant) -> bool {
        let Some(id) = self.flow_index.get(&misfit.key, &self.flows) else { return true };
        let Weighed { finding, is_open, is_settled, .. } = self.weigh(id, misfit, now);
        let relay = self.flows.get_mut(id).and_then(|flow| flow.phase.relay_mut());
        if let Some(relay) = relay.filter(|_| is_open) {
            relay.begin_dispute(now);
        }
        let relay = self.flows.get(id).and_then(|flow| flow.phase.relay());
        let is_young = relay.is_some_and(Relay::is_young);
        if is_young && finding == Finding::Confirmed {
            self.hand_back_disputed(id);
        }
        is_settled || is_young
    }

    /// The hosts of a flow of which something did not fit are elsewhere: what they say of each other is believed.
    pub(crate) fn doubt_disputed(&mut self, misfit: &Misfit, now: Instant) {
        self.conflicts.disputes.forget(&misfit.key);
        if let Some(id) = self.flow_index.get(&misfit.key, &self.flows) {
            self.send_one_away(id, PassReason::Desynchronised, Departure::doubt, now);
        }
    }

    /// Hands a flow back, unless something is owed to it.
    fn hand_back_disputed(&mut self, id: u32) -> bool {
        let relay = self.flows.get(id).and_then(|flow| flow.phase.relay());
        let may_leave = relay.is_some_and(|relay| relay.is_young() && !relay.owes());
        if may_leave {
            if let Some(flow) = self.flows.get(id) {
                self.conflicts.disputes.forget(&flow.key);
            }
            self.leave(id, Some(PassReason::Desynchronised));
        }
        may_leave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misfit(from: End, [seq, next, ack]: [u32; 3], port: u16) -> Misfit {
        let (sink, source) = (([10, 0, 0, 1], port).into(), ([192, 0, 2, 1], 443).into());
        let [seq, next, ack] = [seq, next, ack].map(SeqNum::new);
        Misfit { key: FlowKey::new(sink, source), from, seq, next, ack, tsval: None }
    }

    #[test]
    fn what_both_hosts_say_of_each_other_is_confirmed() {
        let request = misfit(End::Sink, [900, 1_000, 77], 1);
        for (answer, finding) in [
            ([77, 177, 1_000], Finding::Confirmed),
            ([77, 77, 900], Finding::Confirmed),
            ([77, 77, 950], Finding::Agreed),
            ([78, 78, 1_000], Finding::Agreed),
            ([77 + REACH, 77 + REACH, 1_000], Finding::Open),
        ] {
            let mut disputes = Disputes::default();
            assert_eq!(disputes.note(request).0, Finding::Open);
            assert_eq!(
                disputes.note(misfit(End::Source, [77, 77, 1_000], 2)).0,
                Finding::Open,
                "another flow"
            );
            assert_eq!(disputes.note(misfit(End::Sink, answer, 1)).0, Finding::Open, "of the same host");
            disputes.note(request);
            assert_eq!(disputes.note(misfit(End::Source, answer, 1)).0, finding, "{answer:?}");
        }
    }

    #[test]
    fn who_repeats_himself_is_asked_about_and_few_are_remembered() {
        let mut disputes = Disputes::default();
        let request = misfit(End::Sink, [900, 1_000, 77], 1);
        let found =
            [request, request, misfit(End::Sink, [900, 900, 77], 1), request].map(|one| disputes.note(one).0);
        assert_eq!(found, [Finding::Open, Finding::Repeated, Finding::Open, Finding::Open]);
        for port in 2..1_000 {
            disputes.note(misfit(End::Sink, [900, 1_000, 77], port));
        }
        assert_eq!(disputes.0.len(), REMEMBERED);
    }
}
