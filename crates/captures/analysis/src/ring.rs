//! [`Ring`]: a queue in one piece of memory, of which the place that the next element goes to can be fetched
//! early.

/// A queue. Its memory is a power of two of elements and grows when it is full.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    slots: Box<[T]>,
    head: u32,
    len: u32,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { slots: Box::default(), head: 0, len: 0 }
    }
}

impl<T: Copy + Default> Ring<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Elements that memory is held for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    fn place(&self, at: usize) -> usize {
        (self.head as usize).wrapping_add(at) & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        if at < self.len() { self.slots.get(self.place(at)) } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let place = self.place(at);
        if at < self.len() { self.slots.get_mut(place) } else { None }
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.get(0)
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<&T> {
        self.get(self.len().wrapping_sub(1))
    }

    /// Slot where the next element goes, whatever is there.
    #[inline]
    pub(crate) fn next_slot(&self) -> Option<&T> {
        self.slots.get(self.place(self.len()))
    }

    pub(crate) fn iter_from(&self, from: usize) -> impl Iterator<Item = &T> {
        (from..self.len()).map_while(|at| self.get(at))
    }

    #[inline]
    pub(crate) fn push_back(&mut self, value: T) {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let place = self.place(self.len());
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = value;
            self.len += 1;
        }
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let front = *self.front()?;
        self.head = self.place(1) as u32;
        self.len -= 1;
        Some(front)
    }

    /// Puts `value` before the element `at`.
    pub(crate) fn insert(&mut self, at: usize, value: T) {
        self.push_back(value);
        for to in (at + 1..self.len()).rev() {
            let (from, to) = (self.place(to - 1), self.place(to));
            self.slots.swap(from, to);
        }
    }

    /// The first element of which `is_before` does not hold, when it holds of all before it and of none
    /// after.
    pub(crate) fn partition_point(&self, is_before: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle).is_some_and(&is_before) { low = middle + 1 } else { high = middle }
        }
        low
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = Vec::with_capacity((self.slots.len() * 2).max(4));
        slots.extend(self.iter_from(0).copied());
        slots.resize(slots.capacity(), T::default());
        (self.slots, self.head) = (slots.into_boxed_slice(), 0);
    }

    /// An empty one with this one's memory, if that is for no more than `kept_max` elements.
    pub(crate) fn renewed(&mut self, kept_max: usize) -> Self {
        let slots = std::mem::take(&mut self.slots);
        Self { slots: if slots.len() <= kept_max { slots } else { Box::default() }, head: 0, len: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn does_what_a_queue_does(steps in prop::collection::vec((0_u8..4, 0_usize..40, 0_u32..100), 1..300)) {
            let (mut ring, mut queue) = (Ring::default(), VecDeque::new());
            for (step, at, value) in steps {
                match step {
                    0 | 1 => {
                        ring.push_back(value);
                        queue.push_back(value);
                    }
                    2 => prop_assert_eq!(ring.pop_front(), queue.pop_front()),
                    _ => {
                        let at = at.min(queue.len());
                        ring.insert(at, value);
                        queue.insert(at, value);
                    }
                }
                prop_assert!(ring.iter_from(0).eq(queue.iter()));
                prop_assert_eq!((ring.front(), ring.back()), (queue.front(), queue.back()));
                prop_assert_eq!(ring.len(), queue.len());
                prop_assert!(ring.capacity() == 0 || ring.capacity().is_power_of_two());
            }
            prop_assert_eq!(ring.renewed(64).len(), 0);
        }
    }
}
