//! [`Slab`]: the memory that flows and subscribers live in, in few large pieces.
//!
//! With many flows most of the time goes into fetching their state. In large pieces the processor
//! needs few entries to translate its addresses, huge pages can serve it, and growing moves
//! nothing. Places of what has gone are used again, the one left last first.

use stored::{Layouts, Reader, Stored, StoredError, Writer};

/// Things in the first piece, as a power of two; each further piece has twice as many as the one before.
const FIRST: u32 = 6;

/// No place.
const NONE: u32 = u32::MAX;

/// Takes address and length of a piece of memory.
pub(crate) type Advice = fn(usize, usize);

/// Functions by which the engine's caller can act on its memory, of which it says address and
/// length; the engine itself, which makes no system call and has no unsafe code, cannot.
#[derive(Clone, Copy, Debug)]
pub struct MemoryAdvice {
    /// Told of every piece of memory for flows before it is used: for huge pages. Pieces double in size.
    pub on_piece: fn(usize, usize),
    /// Told of memory that will all be used, and soon: the kernel is to have it there.
    pub populate: fn(usize, usize),
    /// Asks for memory that will be used soon, without waiting for it.
    pub prefetch: fn(usize, usize),
}

#[derive(Debug)]
enum Slot<T> {
    Full(T),
    Free { next: u32 },
}

impl<T> Slot<T> {
    fn full(&self) -> Option<&T> {
        match self {
            Self::Full(thing) => Some(thing),
            Self::Free { .. } => None,
        }
    }

    fn full_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Full(thing) => Some(thing),
            Self::Free { .. } => None,
        }
    }
}

/// Things of one kind, by their places, which are small numbers.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pieces: Vec<Vec<Slot<T>>>,
    /// The place left last, which names the one left before it.
    free: u32,
    /// Places that have been used.
    used: u32,
    len: usize,
    on_piece: Option<Advice>,
    populate: Option<Advice>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), free: NONE, used: 0, len: 0, on_piece: None, populate: None }
    }
}

/// Piece, and place in it.
#[inline]
fn split(place: u32) -> (usize, usize) {
    let shifted = u64::from(place) + (1 << FIRST);
    let piece = shifted.ilog2();
    ((piece - FIRST) as usize, (shifted - (1 << piece)) as usize)
}

impl<T> Slab<T> {
    /// Asks for memory by `advice` from here on.
    pub(crate) fn set_advice(&mut self, advice: MemoryAdvice) {
        (self.on_piece, self.populate) = (Some(advice.on_piece), Some(advice.populate));
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All places lie below this number.
    pub(crate) fn places(&self) -> u32 {
        self.used
    }

    #[inline]
    fn slot(&self, place: u32) -> Option<&Slot<T>> {
        let (piece, at) = split(place);
        self.pieces.get(piece)?.get(at)
    }

    #[inline]
    fn slot_mut(&mut self, place: u32) -> Option<&mut Slot<T>> {
        let (piece, at) = split(place);
        self.pieces.get_mut(piece)?.get_mut(at)
    }

    /// Address in memory of `place`, without a look at it.
    #[inline]
    pub(crate) fn address(&self, place: u32) -> Option<usize> {
        self.slot(place).map(|slot| std::ptr::from_ref(slot).addr())
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.slot(place)?.full()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.slot_mut(place)?.full_mut()
    }

    /// Finds a place for `thing`.
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        self.len += 1;
        let place = self.free;
        if let Some(slot) = self.slot_mut(place) {
            let Slot::Free { next } = std::mem::replace(slot, Slot::Full(thing)) else { return place };
            self.free = next;
            return place;
        }
        self.push(Slot::Full(thing))
    }

    /// Puts `slot` at the next place that was never used.
    fn push(&mut self, slot: Slot<T>) -> u32 {
        let place = self.used;
        let (piece, _) = split(place);
        if piece == self.pieces.len() {
            self.add_piece();
        }
        if let Some(slots) = self.pieces.get_mut(piece) {
            slots.push(slot);
            self.used += 1;
        }
        place
    }

    fn add_piece(&mut self) {
        let slots: Vec<Slot<T>> = Vec::with_capacity(1 << (FIRST + self.pieces.len() as u32));
        if let Some(on_piece) = self.on_piece {
            on_piece(slots.as_ptr().expose_provenance(), slots.capacity() * size_of::<Slot<T>>());
        }
        self.pieces.push(slots);
    }

    /// Has the memory for the first `count` places ready, while nothing is there.
    pub(crate) fn reserve(&mut self, count: usize) {
        let mut left = count;
        while self.used == 0 && left > 0 {
            self.add_piece();
            let Some(slots) = self.pieces.last() else { return };
            let used = left.min(slots.capacity());
            if let Some(populate) = self.populate {
                populate(slots.as_ptr().expose_provenance(), used * size_of::<Slot<T>>());
            }
            left -= used;
        }
    }

    /// Takes out what lies at `place`.
    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let next = self.free;
        let slot = self.slot_mut(place).filter(|slot| slot.full().is_some())?;
        let Slot::Full(thing) = std::mem::replace(slot, Slot::Free { next }) else { return None };
        self.free = place;
        self.len -= 1;
        Some(thing)
    }

    /// Makes what lies at `place` into something else.
    pub(crate) fn change(&mut self, place: u32, change: impl FnOnce(T) -> T) {
        let Some(slot) = self.slot_mut(place) else { return };
        let free = Slot::Free { next: NONE };
        *slot = match std::mem::replace(slot, free) {
            Slot::Full(thing) => Slot::Full(change(thing)),
            free @ Slot::Free { .. } => free,
        };
    }

    /// All of them in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.pieces.iter().flatten();
        (0..).zip(slots).filter_map(|(place, slot)| Some((place, slot.full()?)))
    }

    /// The same, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let slots = self.pieces.iter_mut().flatten();
        (0..).zip(slots).filter_map(|(place, slot)| Some((place, slot.full_mut()?)))
    }
}

impl<T: Stored> Stored for Slab<T> {
    /// Everything at its place, and the free places in the order in which they will be used.
    fn store(&self, out: &mut Writer) {
        self.store_places(out);
        self.iter().for_each(|(_, thing)| thing.store(out));
    }

    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let mut slab = Self::default();
        slab.fill(from)?;
        Ok(slab)
    }

    fn layout(layouts: &mut Layouts) {
        T::layout(layouts);
    }
}

impl<T> Slab<T> {
    fn store_places(&self, out: &mut Writer) {
        let is_place = |place: u32| (place != NONE).then_some(place);
        let after = |&place: &u32| match self.slot(place)? {
            Slot::Free { next } => is_place(*next),
            Slot::Full(_) => None,
        };
        let free: Vec<u32> = std::iter::successors(is_place(self.free), after).collect();
        self.used.store(out);
        free.store(out);
    }
}

impl<T: Stored> Slab<T> {
    /// The same as [`Stored::store`], handing on to `take` what is written; `before` is told of each place first.
    pub(crate) fn store_to(
        &self,
        out: &mut Writer,
        take: &mut dyn FnMut(&[u8]),
        mut before: impl FnMut(u32),
    ) {
        self.store_places(out);
        for (place, thing) in self.iter() {
            before(place);
            thing.store(out);
            out.hand_on(take);
        }
    }

    /// Fills an empty one with what was stored.
    ///
    /// # Errors
    /// As [`Stored::restore`]; then it holds a part of it.
    pub(crate) fn fill(&mut self, from: &mut Reader<'_>) -> Result<(), StoredError> {
        self.fill_each(from, |_, _| {})
    }

    /// The same; `each` is called for what has come to a place, while the processor's caches have it.
    ///
    /// # Errors
    /// As [`Slab::fill`].
    pub(crate) fn fill_each(
        &mut self,
        from: &mut Reader<'_>,
        mut each: impl FnMut(u32, &mut Self),
    ) -> Result<(), StoredError> {
        let at = from.at();
        let senseless = || Reader::senseless(at, "a table's places");
        let (used, free) = from.value::<(u32, Vec<u32>)>()?;
        let mut places = free.clone();
        places.sort_unstable();
        if places.windows(2).any(|two| two[0] == two[1]) || places.last().is_some_and(|&last| last >= used) {
            return Err(senseless());
        }
        let mut places = places.into_iter().peekable();
        for place in 0..used {
            let thing = if places.next_if_eq(&place).is_some() { None } else { Some(from.value()?) };
            let is_there = thing.is_some();
            self.len += usize::from(is_there);
            self.push(thing.map_or(Slot::Free { next: NONE }, Slot::Full));
            if is_there {
                each(place, self);
            }
        }
        for &place in free.iter().rev() {
            let next = std::mem::replace(&mut self.free, place);
            *self.slot_mut(place).ok_or_else(senseless)? = Slot::Free { next };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_follow_each_other_through_all_pieces() {
        let mut next = (0, 0);
        for place in 0..10_000 {
            assert_eq!(split(place), next);
            let is_last = next.1 + 1 == 1 << (FIRST + next.0 as u32);
            next = if is_last { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
    }

    proptest! {
        /// Compares with a plain list: what was put in is found at its place until it is taken out.
        #[test]
        fn it_keeps_what_it_was_given(steps in proptest::collection::vec((any::<bool>(), 0u32..200), 1..600)) {
            let mut slab = Slab::default();
            let mut model: Vec<Option<u32>> = Vec::new();
            for (step, (inserts, at)) in steps.into_iter().enumerate() {
                if inserts {
                    let place = slab.insert(step as u32) as usize;
                    prop_assert!(model.get(place).is_none_or(|old| old.is_none()));
                    model.resize(model.len().max(place + 1), None);
                    model[place] = Some(step as u32);
                } else {
                    let expected = model.get_mut(at as usize).and_then(Option::take);
                    prop_assert_eq!(slab.remove(at), expected);
                }
                let held: Vec<_> = model.iter().enumerate().filter_map(|(i, v)| Some((i as u32, (*v)?))).collect();
                prop_assert_eq!(slab.len(), held.len());
                prop_assert_eq!(slab.places() as usize, model.len());
                prop_assert_eq!(slab.iter().map(|(place, value)| (place, *value)).collect::<Vec<_>>(), held);
            }
        }
    }

    proptest! {
        /// Stored at any moment and restored, it gives the same places from then on.
        #[test]
        fn it_goes_on_as_it_was_stored(
            before in proptest::collection::vec((any::<bool>(), 0u32..100), 0..200),
            after in proptest::collection::vec((any::<bool>(), 0u32..100), 0..200),
        ) {
            let step = |slab: &mut Slab<u32>, (inserts, at)| {
                if inserts { Some(slab.insert(at)) } else { slab.remove(at) }
            };
            let mut slab = Slab::default();
            before.into_iter().for_each(|one| _ = step(&mut slab, one));
            let bytes = stored::to_bytes(&slab);
            let mut other: Slab<u32> = stored::from_bytes(1, &bytes).expect("just stored");
            prop_assert_eq!(stored::to_bytes(&other), bytes);
            for one in after {
                prop_assert_eq!(step(&mut slab, one), step(&mut other, one));
            }
            prop_assert_eq!(slab.len(), other.len());
            prop_assert!(slab.iter().eq(other.iter()));
        }

        #[test]
        fn what_nobody_stored_is_refused(bytes in proptest::collection::vec(0u8..4, 0..80)) {
            if let Ok(slab) = stored::from_bytes::<Slab<u8>>(1, &bytes) {
                prop_assert_eq!(stored::to_bytes(&slab), bytes);
            }
        }
    }

    #[test]
    fn memory_is_told_of_piece_by_piece() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        static POPULATED: AtomicUsize = AtomicUsize::new(0);
        let mut slab = Slab::default();
        slab.set_advice(MemoryAdvice {
            on_piece: |_, len| _ = TOLD.fetch_add(len, Ordering::Relaxed),
            populate: |_, len| _ = POPULATED.fetch_add(len, Ordering::Relaxed),
            prefetch: |_, _| (),
        });
        slab.reserve(100);
        assert_eq!(TOLD.load(Ordering::Relaxed), (64 + 128) * size_of::<Slot<u32>>());
        (0..200u32).for_each(|n| _ = slab.insert(n));
        assert_eq!(TOLD.load(Ordering::Relaxed), (64 + 128 + 256) * size_of::<Slot<u32>>());
        assert_eq!(POPULATED.load(Ordering::Relaxed), 100 * size_of::<Slot<u32>>());
        assert!((0..200).all(|n| slab.get(n) == Some(&n)), "what was ready is used first");
    }
}
