//! [`Disputes`]: what the hosts of young flows say that does not fit what is known of them.
//!
//! Somebody on the path may send a whole handshake again whose connection has been going on past us for long.
//! Then a flow begins here with numbers that its hosts have left behind, and nothing that they say is acceptable.
//! What both of them confirm is believed: a segment of each that says of the other one just what that one says of
//! itself, and neither of which fits. The flow is handed back then. Who sends the same thing again is answered, and
//! so is the other host asked: an acknowledgement with numbers of the past has each say where it is (RFC 9293
//! §3.10.7.4).
//!
//! A flow is young until one of its hosts has acknowledged something that went through here. So a flow that works is
//! not looked at, and of one that owes something nobody is believed: its hosts acknowledge that, or not.

use std::collections::VecDeque;

use units::{Instant, SeqNum};

use super::Half;
use crate::boundary::Verdict;
use crate::direction::End;
use crate::effect::Answer;
use crate::key::FlowKey;
use crate::pass::PassReason;
use crate::relay::Relay;
use crate::segment::Segment;

/// Flows remembered; beyond it the oldest is forgotten.
const REMEMBERED: usize = 256;

/// A segment of a flow that does not fit what is known of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Misfit {
    key: FlowKey,
    from: End,
    seq: SeqNum,
    /// One past the last number that it takes up.
    next: SeqNum,
    ack: SeqNum,
}
stored::fields!(Misfit { key, from, seq, next, ack });

impl Misfit {
    fn of(key: FlowKey, segment: &Segment<'_>) -> Self {
        let tcp = segment.tcp;
        Self { key, from: segment.from, seq: tcp.seq, next: tcp.seq_end(), ack: tcp.ack }
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
}

/// What a segment that does not fit comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finding {
    /// Nothing yet.
    Open,
    /// Its host says it once more: the other one is to be asked.
    Repeated,
    /// Both hosts say the same.
    Confirmed,
}

#[derive(Clone, Copy, Debug)]
struct Dispute {
    key: FlowKey,
    /// The last one of the source, and of the sink.
    said: [Option<Misfit>; 2],
}
stored::fields!(Dispute { key, said });

/// Flows of which something did not fit, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Disputes(VecDeque<Dispute>);
stored::fields!(Disputes(inner));

impl Disputes {
    fn note(&mut self, misfit: Misfit) -> Finding {
        let place = self.0.iter().position(|one| one.key == misfit.key);
        let known = place.and_then(|place| self.0.remove(place));
        let mut dispute = known.unwrap_or(Dispute { key: misfit.key, said: [None; 2] });
        let own = usize::from(misfit.from == End::Sink);
        let before = dispute.said[own].replace(misfit);
        if dispute.said[1 - own].is_some_and(|other| misfit.confirms(&other)) {
            return Finding::Confirmed;
        }
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(dispute);
        if before == Some(misfit) { Finding::Repeated } else { Finding::Open }
    }
}

impl Half {
    /// A segment of a young flow does not fit what is known of it. It is dropped, unless the flow is handed back.
    pub(super) fn dispute(
        &mut self,
        id: u32,
        segment: &Segment<'_>,
        answer: Answer,
        now: Instant,
    ) -> Verdict {
        let Some(flow) = self.flows.get(id) else { return Verdict::Forward };
        let misfit = Misfit::of(flow.key, segment);
        self.misfit = Some(misfit);
        let finding = self.disputes.note(misfit);
        if finding == Finding::Confirmed && self.hand_back_disputed(id) {
            return Verdict::Forward;
        }
        if let Some(relay) = self.flows.get_mut(id).and_then(|flow| flow.phase.relay_mut()) {
            let asks_both = finding == Finding::Repeated && answer != Answer::ChallengeAlone;
            relay.answer_misfit(misfit.from, answer, asks_both, now);
        }
        self.settle(id, now);
        Verdict::Consumed
    }

    /// The segment handled last, if it did not fit; told once.
    pub(crate) fn take_misfit(&mut self) -> Option<Misfit> {
        self.misfit.take()
    }

    /// The other half, which stands in front, has met a segment that does not fit, and that does not come here.
    pub(crate) fn hear_misfit(&mut self, misfit: Misfit) {
        let Some(id) = self.flow_index.get(&misfit.key, &self.flows) else { return };
        let relay = self.flows.get(id).and_then(|flow| flow.phase.relay());
        if relay.is_some_and(Relay::is_young) && self.disputes.note(misfit) == Finding::Confirmed {
            self.hand_back_disputed(id);
        }
    }

    /// Hands a flow back, unless something is owed to it.
    fn hand_back_disputed(&mut self, id: u32) -> bool {
        let relay = self.flows.get(id).and_then(|flow| flow.phase.relay());
        let may_leave = relay.is_some_and(|relay| !relay.owes());
        if may_leave {
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
        Misfit { key: FlowKey::new(sink, source), from, seq, next, ack }
    }

    #[test]
    fn what_both_hosts_say_of_each_other_is_confirmed() {
        let request = misfit(End::Sink, [900, 1_000, 77], 1);
        for (answer, finding) in [
            ([77, 177, 1_000], Finding::Confirmed),
            ([77, 77, 900], Finding::Confirmed),
            ([77, 77, 950], Finding::Open),
            ([78, 78, 1_000], Finding::Open),
        ] {
            let mut disputes = Disputes::default();
            assert_eq!(disputes.note(request), Finding::Open);
            assert_eq!(disputes.note(misfit(End::Source, [77, 77, 1_000], 2)), Finding::Open, "another flow");
            assert_eq!(disputes.note(misfit(End::Sink, answer, 1)), Finding::Open, "of the same host");
            disputes.note(request);
            assert_eq!(disputes.note(misfit(End::Source, answer, 1)), finding, "{answer:?}");
        }
    }

    #[test]
    fn who_repeats_himself_is_asked_about_and_few_are_remembered() {
        let mut disputes = Disputes::default();
        let request = misfit(End::Sink, [900, 1_000, 77], 1);
        let found =
            [request, request, misfit(End::Sink, [900, 900, 77], 1), request].map(|one| disputes.note(one));
        assert_eq!(found, [Finding::Open, Finding::Repeated, Finding::Open, Finding::Open]);
        for port in 2..1_000 {
            disputes.note(misfit(End::Sink, [900, 1_000, 77], port));
        }
        assert_eq!(disputes.0.len(), REMEMBERED);
    }
}
