//! [`Reopenings`]: SYNs with the addresses and ports of a flow in the table.
//!
//! Its client may have used its port again; or somebody has sent the SYN in its name, to whom the server
//! answers with no more than an acknowledgement (RFC 5961 §4). So the flow stays until the server accepts the
//! new connection or refuses it, with the number of that SYN.

use std::collections::VecDeque;

use units::{Instant, SeqNum};
use wire::TcpFlags;

use super::Half;
use super::handshakes::Opening;
use crate::direction::End;
use crate::flow::Flow;
use crate::handshake::Handshake;
use crate::key::FlowKey;
use crate::pass::PassReason;
use crate::relay::Relay;
use crate::segment::Segment;

/// SYNs remembered; beyond it the oldest is forgotten.
const REMEMBERED: usize = 256;

/// A SYN that nobody has answered.
#[derive(Clone, Copy, Debug)]
struct Reopening {
    key: FlowKey,
    from: End,
    isn: SeqNum,
    /// The handshake that it begins, or what makes that one to pass.
    begun: Result<Handshake, PassReason>,
}

/// SYNs that nobody has answered, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Reopenings(VecDeque<Reopening>);

impl Reopenings {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn note(&mut self, reopening: Reopening) {
        self.0.retain(|other| other.key != reopening.key);
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(reopening);
    }

    /// Takes the SYN that a segment of a flow answers.
    fn take(&mut self, key: &FlowKey, segment: &Segment<'_>) -> Option<Result<Handshake, PassReason>> {
        let answers =
            |one: &Reopening| one.key == *key && one.from != segment.from && segment.tcp.ack == one.isn + 1;
        let place = self.0.iter().position(answers)?;
        self.0.remove(place).map(|reopening| reopening.begun)
    }
}

impl Half {
    /// A SYN may open a flow's ports anew.
    pub(super) fn reopen(&mut self, id: u32, syn: &Segment<'_>, now: Instant) {
        let Some(key) = self.flows.get(id).map(|flow| flow.key) else { return };
        let begun = Handshake::begin(syn.tcp, syn.from, now);
        self.conflicts.reopenings.note(Reopening { key, from: syn.from, isn: syn.tcp.seq, begun });
    }

    /// A segment of a flow may accept or refuse the connection that was to take its place: its key when the flow
    /// has left, and the segment belongs to that connection.
    pub(super) fn answer_reopening(
        &mut self,
        id: u32,
        segment: &Segment<'_>,
        now: Instant,
    ) -> Option<FlowKey> {
        let answers =
            segment.has(TcpFlags::ACK) && (segment.has(TcpFlags::SYN) || segment.has(TcpFlags::RST));
        if !answers {
            return None;
        }
        let may_give_way = |flow: &&Flow| !flow.phase.relay().is_some_and(Relay::owes);
        let key = self.flows.get(id).filter(may_give_way)?.key;
        let begun = self.conflicts.reopenings.take(&key, segment)?;
        self.leave(id, None);
        match self.reason_to_pass(&key).map_or(begun, Err) {
            Ok(handshake) => self.watch(key, Opening::new(handshake), now),
            Err(reason) => self.pass(key, reason),
        }
        Some(key)
    }
}
