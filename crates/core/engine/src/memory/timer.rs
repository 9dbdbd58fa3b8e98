//! Deadlines of flows and subscribers: exact, in order, and at the same cost for a thousand as for a million.
//!
//! ```text
//!   soon    binary heap, exact order
//!     ▲     poured when its time comes
//!   near    1,024 slots of a millisecond: the second under way
//!     ▲     spread out when its time comes
//!   far     1,024 slots of a second
//!     ▲
//!   beyond  what is later than that
//! ```
//!
//! (A millisecond is 2²⁰ ns here, a second 2³⁰ ns.) A deadline that was moved or whose owner is
//! gone stays where it is and is left out when it comes up: its owner knows when it is really due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stored::{Reader, Stored, StoredError, Writer};
use units::Instant;

/// Owner of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, stored::Stored)]
pub(crate) enum TimerKey {
    Flow(u32),
    Subscriber(u32),
}

type Entry = (Instant, TimerKey);

/// An [`Instant`], or none, as eight bytes where it is stored: flows have several of them. An `Option` has one more there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(crate) struct Moment(Instant);

impl Moment {
    /// None.
    pub(crate) const NEVER: Self = Self(Instant::FAR_FUTURE);

    pub(crate) const fn at(instant: Instant) -> Self {
        Self(instant)
    }

    pub(crate) fn get(self) -> Option<Instant> {
        (self != Self::NEVER).then_some(self.0)
    }
}

const NEAR_SHIFT: u32 = 20;
const FAR_SHIFT: u32 = NEAR_SHIFT + SLOT_BITS;
const SLOT_BITS: u32 = 10;
const SLOTS: u64 = 1 << SLOT_BITS;

/// Entries for which a wheel keeps room that it does not use now.
const SPARE_MAX: usize = 1 << 16;

/// Unordered slots of one length; slot `n` lies at `n` modulo their number.
#[derive(Clone, Debug)]
struct Wheel {
    slots: Vec<Vec<Entry>>,
    /// One bit per slot: something is in it.
    occupied: [u64; (SLOTS / 64) as usize],
    /// The memory of slots that were poured, for those to come: time goes on to slots that never
    /// held anything.
    free: Vec<Vec<Entry>>,
    /// Entries that `free` has room for.
    spare_capacity: usize,
}

impl Wheel {
    fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; (SLOTS / 64) as usize],
            free: Vec::new(),
            spare_capacity: 0,
        }
    }

    fn push(&mut self, slot: u64, entry: Entry) {
        let place = slot % SLOTS;
        self.occupied[(place / 64) as usize] |= 1 << (place % 64);
        let entries = &mut self.slots[place as usize];
        if entries.capacity() == 0 {
            *entries = self.free.pop().unwrap_or_default();
            self.spare_capacity -= entries.capacity();
        }
        entries.push(entry);
    }

    /// The first slot from `from` on, within one turn, that holds anything.
    fn first(&self, from: u64) -> Option<u64> {
        let words = SLOTS / 64;
        let start = from % SLOTS;
        // The word of the start counts twice: its upper part first, its lower part as the end of the turn.
        (0..=words).find_map(|nth| {
            let word = (start / 64 + nth) % words;
            let bits = self.occupied[word as usize];
            let bits = match nth {
                0 => bits & (u64::MAX << (start % 64)),
                _ if nth == words => bits & !(u64::MAX << (start % 64)),
                _ => bits,
            };
            let place = word * 64 + u64::from(bits.trailing_zeros());
            (bits != 0).then(|| from + (place + SLOTS - start) % SLOTS)
        })
    }

    /// Empties a slot.
    fn take(&mut self, slot: u64) -> Vec<Entry> {
        let place = slot % SLOTS;
        self.occupied[(place / 64) as usize] &= !(1 << (place % 64));
        std::mem::take(&mut self.slots[place as usize])
    }

    /// Keeps the memory of a slot that was poured.
    fn put_back(&mut self, mut entries: Vec<Entry>) {
        if self.spare_capacity + entries.capacity() <= SPARE_MAX {
            entries.clear();
            self.spare_capacity += entries.capacity();
            self.free.push(entries);
        }
    }
}

/// Deadlines, earliest first; equal ones in the order of their keys.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// Its first is the earliest of all; all deadlines in slots before `next_near` are here.
    soon: BinaryHeap<Reverse<Entry>>,
    near: Wheel,
    /// The first slot of `near` that was not poured yet.
    next_near: u64,
    far: Wheel,
    /// The slot of `far` that `near` holds.
    this_far: u64,
    beyond: Vec<Entry>,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            soon: BinaryHeap::new(),
            near: Wheel::new(),
            next_near: 0,
            far: Wheel::new(),
            this_far: 0,
            beyond: Vec::new(),
        }
    }
}

impl Timers {
    /// Moves the deadline of `key` from `armed` to `wanted` if that is earlier; keeps the earlier one
    /// otherwise: waking up early and arming again costs less than moving a deadline with every packet.
    pub(crate) fn arm(&mut self, key: TimerKey, armed: &mut Moment, wanted: Instant) {
        if wanted < armed.0 {
            *armed = Moment::at(wanted);
            self.insert((wanted, key));
        }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.soon.peek().map(|Reverse((at, _))| *at)
    }

    /// Deadlines in here, those included that were moved since.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let wheels = self.near.slots.iter().chain(&self.far.slots).map(Vec::len).sum::<usize>();
        self.soon.len() + wheels + self.beyond.len()
    }

    /// Flows whose deadlines are among the next ones: about those of the next `count`.
    pub(crate) fn soonest(&self, count: usize) -> impl Iterator<Item = u32> {
        self.soon.as_slice().iter().take(count).filter_map(|Reverse((_, key))| match key {
            TimerKey::Flow(id) => Some(*id),
            TimerKey::Subscriber(_) => None,
        })
    }

    /// Removes and returns the earliest deadline that is due. Its owner may have moved it
    /// meanwhile: then it is armed for another time, or not at all.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, TimerKey)> {
        if self.next()? > now {
            return None;
        }
        let Reverse(entry) = self.soon.pop()?;
        self.refill();
        Some(entry)
    }

    fn insert(&mut self, entry: Entry) {
        if self.soon.peek().is_none_or(|Reverse(first)| entry < *first) {
            self.soon.push(Reverse(entry));
        } else {
            self.put(entry);
        }
    }

    /// Puts an entry where its time says.
    fn put(&mut self, entry: Entry) {
        let near = entry.0.as_nanos() >> NEAR_SHIFT;
        let far = entry.0.as_nanos() >> FAR_SHIFT;
        if near < self.next_near {
            self.soon.push(Reverse(entry));
        } else if far == self.this_far {
            self.near.push(near, entry);
        } else if far < self.this_far + SLOTS {
            self.far.push(far, entry);
        } else {
            self.beyond.push(entry);
        }
    }

    /// Pours slots into the heap until its first entry is the earliest of all.
    fn refill(&mut self) {
        loop {
            let first = self.soon.peek().map_or(u64::MAX, |Reverse((at, _))| at.as_nanos());
            if first >> NEAR_SHIFT < self.next_near {
                return;
            }
            if let Some(slot) = self.near.first(self.next_near) {
                if first >> NEAR_SHIFT < slot {
                    return;
                }
                let mut entries = self.near.take(slot);
                self.soon.extend(entries.drain(..).map(Reverse));
                self.near.put_back(entries);
                self.next_near = slot + 1;
            } else {
                let beyond = || self.beyond.iter().map(|(at, _)| at.as_nanos() >> FAR_SHIFT).min();
                let Some(slot) = self.far.first(self.this_far + 1).or_else(beyond) else { return };
                if first >> FAR_SHIFT < slot {
                    return;
                }
                self.begin_far(slot);
            }
        }
    }

    /// Spreads a slot of `far` out over `near`, which is empty, and takes in what is no longer beyond.
    fn begin_far(&mut self, slot: u64) {
        self.this_far = slot;
        self.next_near = slot << SLOT_BITS;
        let mut entries = self.far.take(slot);
        entries.drain(..).for_each(|entry| self.put(entry));
        self.far.put_back(entries);
        let is_within = |&mut (at, _): &mut Entry| at.as_nanos() >> FAR_SHIFT < slot + SLOTS;
        let within: Vec<Entry> = self.beyond.extract_if(.., is_within).collect();
        within.into_iter().for_each(|entry| self.put(entry));
    }
}

impl Stored for Timers {
    /// Its entries in order. In which wheel they wait makes no difference to when they come up.
    fn store(&self, out: &mut Writer) {
        let soon = self.soon.iter().map(|Reverse(entry)| entry);
        let later = self.near.slots.iter().chain(&self.far.slots).flatten().chain(&self.beyond);
        let mut entries: Vec<Entry> = soon.chain(later).copied().collect();
        entries.sort_unstable();
        entries.store(out);
    }

    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let mut timers = Self::default();
        from.value::<Vec<Entry>>()?.into_iter().for_each(|entry| timers.insert(entry));
        Ok(timers)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use units::Duration;

    use super::*;

    #[test]
    fn earlier_deadlines_replace_later_ones_only() {
        let mut timers = Timers::default();
        let (mut a, mut b) = (Moment::NEVER, Moment::NEVER);
        let at = Instant::from_millis;
        timers.arm(TimerKey::Flow(1), &mut a, at(50));
        timers.arm(TimerKey::Flow(1), &mut a, at(70));
        assert_eq!(a.get(), Some(at(50)));
        timers.arm(TimerKey::Subscriber(1), &mut b, at(60));
        assert_eq!(timers.next(), Some(at(50)));
        timers.arm(TimerKey::Subscriber(1), &mut b, at(40));
        assert_eq!(timers.pop_due(at(45)), Some((at(40), TimerKey::Subscriber(1))));
        assert_eq!(timers.pop_due(at(45)), None);
        assert_eq!(timers.pop_due(at(60)), Some((at(50), TimerKey::Flow(1))));
        // Where it was before it was moved; its owner is armed for nothing now.
        assert_eq!(timers.pop_due(at(60)), Some((at(60), TimerKey::Subscriber(1))));
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn what_never_comes_is_no_deadline() {
        let mut timers = Timers::default();
        let mut armed = Moment::NEVER;
        timers.arm(TimerKey::Flow(1), &mut armed, Instant::FAR_FUTURE);
        assert_eq!((armed, timers.next()), (Moment::NEVER, None));
    }

    proptest! {
        /// Compares with an ordered set: the same deadlines in the same order, over all levels.
        #[test]
        fn it_is_an_ordered_set(steps in proptest::collection::vec(
            (0u64..4, 0u32..50, 0u32..42), 1..400))
        {
            let mut timers = Timers::default();
            let mut set = BTreeSet::new();
            let mut now = Instant::ZERO;
            for (step, (what, id, magnitude)) in steps.into_iter().enumerate() {
                // From nanoseconds to an hour, and odd enough to differ.
                let wait = Duration::from_nanos((1u64 << magnitude) + 977 * step as u64);
                if what < 3 {
                    let key = if what == 0 { TimerKey::Subscriber(id) } else { TimerKey::Flow(id) };
                    timers.insert((now + wait, key));
                    set.insert((now + wait, key));
                } else {
                    now += wait;
                    loop {
                        let expected = set.first().copied().filter(|(at, _)| *at <= now);
                        prop_assert_eq!(timers.next(), set.first().map(|(at, _)| *at));
                        let popped = timers.pop_due(now);
                        prop_assert_eq!(popped, expected);
                        match popped {
                            // An entry that was put in twice comes up twice.
                            Some(entry) => _ = set.remove(&entry),
                            None => break,
                        }
                    }
                }
                prop_assert_eq!(timers.next(), set.first().map(|(at, _)| *at));
                if step % 7 == 6 {
                    timers = stored::from_bytes(1, &stored::to_bytes(&timers)).expect("just stored");
                }
            }
        }
    }
}
