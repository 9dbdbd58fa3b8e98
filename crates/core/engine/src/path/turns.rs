//! The flows of a subscriber that may send, in turn: lists that run through the flows themselves,
//! so that joining and leaving cost the same however many there are.

use units::{Duration, Instant};

use crate::memory::slab::Slab;
use crate::memory::timer::Moment;

/// No flow.
const NONE: u32 = u32::MAX;

/// A flow that had nothing to send for this long begins anew.
const PAUSE: Duration = Duration::from_millis(50);

/// Segments of a short answer (RFC 6928).
const INITIAL_WINDOW: u64 = 10;

/// A flow's place in one of the lists.
#[derive(Clone, Copy, Debug, stored::Stored)]
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

/// Member of a list.
pub(crate) trait Linked {
    /// Its place.
    fn link(&mut self) -> &mut Link;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Which {
    Fresh,
    Round,
}

#[derive(Clone, Copy, Debug, stored::Stored)]
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

/// Lists of the flows whose turn comes: first flows that have just got something to send, as in
/// fq_codel's list of new flows, then the others (deficit round robin).
#[derive(Clone, Copy, Debug, stored::Stored)]
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
    pub(crate) fn push_fresh(&mut self, id: u32, flows: &mut Slab<impl Linked>) {
        self.push(id, Which::Fresh, flows);
    }

    /// Puts a flow that is in no list behind all others.
    pub(crate) fn push_round(&mut self, id: u32, flows: &mut Slab<impl Linked>) {
        self.push(id, Which::Round, flows);
    }

    /// Puts the flow whose turn it is behind all others.
    pub(crate) fn rotate(&mut self, flows: &mut Slab<impl Linked>) {
        if let Some(id) = self.front() {
            self.remove(id, flows);
            self.push_round(id, flows);
        }
    }

    /// Takes a flow out; true when it was among the new ones.
    pub(crate) fn remove(&mut self, id: u32, flows: &mut Slab<impl Linked>) -> bool {
        let Some(flow) = flows.get_mut(id) else { return false };
        let Link { before, after, list } = std::mem::take(flow.link());
        let Some(which) = list else { return false };
        let list = self.list(which);
        list.len -= 1;
        match flows.get_mut(before) {
            Some(flow) => flow.link().after = after,
            None => list.first = after,
        }
        match flows.get_mut(after) {
            Some(flow) => flow.link().before = before,
            None => list.last = before,
        }
        which == Which::Fresh
    }

    fn push(&mut self, id: u32, which: Which, flows: &mut Slab<impl Linked>) {
        let list = self.list(which);
        let last = list.last;
        let Some(link) = flows.get_mut(id).map(Linked::link).filter(|link| link.list.is_none()) else {
            return;
        };
        *link = Link { before: last, after: NONE, list: Some(which) };
        list.last = id;
        list.len += 1;
        match flows.get_mut(last) {
            Some(flow) => flow.link().after = id,
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

/// Bytes that a flow may still send in its turn (deficit round robin).
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct Turn {
    deficit: i32,
    /// It is in one of the lists.
    is_in_line: bool,
    /// Time at which it last had nothing to send.
    left: Moment,
}

impl Default for Turn {
    fn default() -> Self {
        Self { deficit: 0, is_in_line: false, left: Moment::NEVER }
    }
}

impl Turn {
    /// True when it stands in line, since it had something to send.
    pub(crate) const fn is_in_line(&self) -> bool {
        self.is_in_line
    }

    /// It has something to send: after a pause it may send a short answer at once, so that short
    /// flows and answers go first (RFC 8290 §4.2), otherwise a segment. `quantum` is the least.
    pub(crate) fn join(&mut self, quantum: u64, mss: u32, now: Instant) {
        let has_paused = self.left.get().is_none_or(|at| now.saturating_since(at) >= PAUSE);
        let short = if has_paused { INITIAL_WINDOW * u64::from(mss) } else { u64::from(mss) };
        self.is_in_line = true;
        self.deficit = quantum.max(short) as i32;
    }

    /// It has nothing to send and leaves.
    pub(crate) fn leave(&mut self, now: Instant) {
        *self = Self { deficit: 0, is_in_line: false, left: Moment::at(now) };
    }

    /// True when its turn is over.
    pub(crate) const fn is_over(&self) -> bool {
        self.deficit <= 0
    }

    /// Gives it another turn of `quantum` bytes: at least a segment, and what a larger turn of the
    /// past has left is forgiven. A turn that does not suffice would be waited for without a timer.
    pub(crate) fn renew(&mut self, quantum: u32, mss: u32) {
        self.deficit = (self.deficit + quantum.max(mss) as i32).max(1);
    }

    /// `len` bytes leave.
    pub(crate) fn spend(&mut self, len: u32) {
        self.deficit -= len.max(1) as i32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Linked for Link {
        fn link(&mut self) -> &mut Link {
            self
        }
    }

    fn flows(n: u32) -> Slab<Link> {
        let mut flows = Slab::default();
        (0..n).for_each(|_| _ = flows.insert(Link::default()));
        flows
    }

    /// The lists taken apart from the front.
    fn order(mut turns: Turns, flows: &mut Slab<Link>) -> Vec<(u32, bool)> {
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

    #[test]
    fn a_turn_always_suffices() {
        // The rate has fallen: what was sent in the last turn is many turns of today.
        let mut turn = Turn::default();
        turn.spend(60_000);
        assert!(turn.is_over());
        turn.renew(100, 500);
        assert!(!turn.is_over());
    }

    #[test]
    fn a_short_answer_goes_first_after_a_pause_only() {
        let mut turn = Turn::default();
        let mut credit = |now| {
            turn.join(1_000, 500, Instant::from_millis(now));
            let credit = turn.deficit;
            turn.leave(Instant::from_millis(now));
            credit
        };
        assert_eq!([credit(0), credit(49), credit(98), credit(148)], [5_000, 1_000, 1_000, 5_000]);
    }
}
