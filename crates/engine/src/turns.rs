//! The flows of a subscriber that may send, in turn: lists that run through the flows themselves, so that joining and
//! leaving cost the same however many there are.

use crate::flow::Flow;
use crate::slab::Slab;

/// No flow.
const NONE: u32 = u32::MAX;

/// A flow's place in one of the lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    before: u32,
    after: u32,
    list: Option<Which>,
}

impl Default for Link {
    fn default() -> Self {
        Self { before: NONE, after: NONE, list: None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Fresh,
    Round,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    len: u32,
}

const EMPTY: List = List { first: NONE, last: NONE, len: 0 };

impl List {
    fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

/// Whose turn it is: first flows that have just got something to send, as in fq_codel's list of new flows, then the
/// others (deficit round robin).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    fresh: List,
    round: List,
}

impl Default for Turns {
    fn default() -> Self {
        Self { fresh: EMPTY, round: EMPTY }
    }
}

impl Turns {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        (self.fresh.len + self.round.len) as usize
    }

    /// True when no flow has had its first turn already.
    pub(crate) fn is_round_empty(&self) -> bool {
        self.round.len == 0
    }

    /// The flow whose turn it is.
    pub(crate) fn front(&self) -> Option<u32> {
        self.fresh.first().or(self.round.first())
    }

    /// Puts a flow that is in no list among the new ones.
    pub(crate) fn push_fresh(&mut self, id: u32, flows: &mut Slab<Flow>) {
        self.push(id, Which::Fresh, flows);
    }

    /// Puts a flow that is in no list behind all others.
    pub(crate) fn push_round(&mut self, id: u32, flows: &mut Slab<Flow>) {
        self.push(id, Which::Round, flows);
    }

    /// Puts the flow whose turn it is behind all others.
    pub(crate) fn rotate(&mut self, flows: &mut Slab<Flow>) {
        if let Some(id) = self.front() {
            self.remove(id, flows);
            self.push_round(id, flows);
        }
    }

    /// Takes a flow out; true when it was among the new ones.
    pub(crate) fn remove(&mut self, id: u32, flows: &mut Slab<Flow>) -> bool {
        let Some(flow) = flows.get_mut(id) else { return false };
        let Link { before, after, list } = std::mem::take(&mut flow.turn);
        let Some(which) = list else { return false };
        let list = self.list(which);
        list.len -= 1;
        match flows.get_mut(before) {
            Some(flow) => flow.turn.after = after,
            None => list.first = after,
        }
        match flows.get_mut(after) {
            Some(flow) => flow.turn.before = before,
            None => list.last = before,
        }
        which == Which::Fresh
    }

    fn push(&mut self, id: u32, which: Which, flows: &mut Slab<Flow>) {
        let list = self.list(which);
        let last = list.last;
        let Some(flow) = flows.get_mut(id).filter(|flow| flow.turn.list.is_none()) else { return };
        flow.turn = Link { before: last, after: NONE, list: Some(which) };
        list.last = id;
        list.len += 1;
        match flows.get_mut(last) {
            Some(flow) => flow.turn.after = id,
            None => list.first = id,
        }
    }

    fn list(&mut self, which: Which) -> &mut List {
        match which {
            Which::Fresh => &mut self.fresh,
            Which::Round => &mut self.round,
        }
    }
}

#[cfg(test)]
mod tests {
    use units::{Instant, SeqNum};
    use wire::{TcpFlags, TcpHeaderSpec};

    use super::*;
    use crate::Port;
    use crate::flow::State;
    use crate::handshake::Handshake;
    use crate::table::FlowKey;
    use crate::timer::Moment;

    fn flows(n: u32) -> Slab<Flow> {
        let host = "10.0.0.1:1".parse().unwrap();
        let mut syn = [0; TcpHeaderSpec::MAX_LEN];
        let spec = TcpHeaderSpec::new(host, host, SeqNum::new(0), SeqNum::new(0), TcpFlags::SYN);
        let len = spec.emit(&mut syn, &[]).unwrap().len;
        let parsed = wire::parse(&syn[..len]).unwrap();
        let handshake = || Handshake::begin(parsed.tcp().unwrap(), Port::Mobile, Instant::ZERO).unwrap();
        let flow = |_| Flow {
            key: FlowKey::new(host, host),
            in_outbox: false,
            is_urgent: false,
            is_journaled: false,
            subscriber: 0,
            armed: Moment::NEVER,
            due: Instant::FAR_FUTURE,
            last_activity: Instant::ZERO,
            turn: Link::default(),
            state: State::Observing(handshake()),
        };
        let mut flows = Slab::default();
        (0..n).for_each(|id| _ = flows.insert(flow(id)));
        flows
    }

    /// The lists taken apart from the front.
    fn order(mut turns: Turns, flows: &mut Slab<Flow>) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| turns.front().map(|id| (id, turns.remove(id, flows)))).collect()
    }

    #[test]
    fn new_ones_go_first_and_turns_go_round() {
        let mut flows = flows(4);
        let mut turns = Turns::default();
        turns.push_round(0, &mut flows);
        turns.push_round(1, &mut flows);
        turns.push_fresh(2, &mut flows);
        turns.push_fresh(3, &mut flows);
        turns.push_fresh(3, &mut flows);
        assert_eq!((turns.len(), turns.front()), (4, Some(2)));
        turns.rotate(&mut flows);
        assert_eq!(order(turns, &mut flows), [(3, true), (0, false), (1, false), (2, false)]);
    }

    #[test]
    fn any_may_leave() {
        for leaver in 0..3 {
            let mut flows = flows(3);
            let mut turns = Turns::default();
            (0..3).for_each(|id| turns.push_round(id, &mut flows));
            assert!(!turns.remove(leaver, &mut flows));
            turns.remove(leaver, &mut flows);
            turns.push_fresh(leaver, &mut flows);
            let rest = (0..3).filter(|&id| id != leaver).map(|id| (id, false));
            let expected: Vec<_> = std::iter::once((leaver, true)).chain(rest).collect();
            assert_eq!(order(turns, &mut flows), expected);
        }
    }
}
