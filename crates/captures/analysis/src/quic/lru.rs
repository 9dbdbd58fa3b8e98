//! [`Lru`]: conversations by their ends, a bounded number; the one that was silent longest goes first.

use std::net::SocketAddr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use units::Instant;

/// Key of a conversation: capture point and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    point: u16,
    low: SocketAddr,
    high: SocketAddr,
}

impl Key {
    /// The same for both directions.
    pub(crate) fn new(point: u16, source: SocketAddr, destination: SocketAddr) -> Self {
        Self { point, low: source.min(destination), high: source.max(destination) }
    }

    /// The lower of the two port numbers: most often the service's.
    pub(crate) fn low_port(&self) -> u16 {
        self.low.port().min(self.high.port())
    }
}

/// No place.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node<T> {
    key: Key,
    value: T,
    last: Instant,
    older: u32,
    newer: u32,
}

/// Values by their keys, in the order in which they were touched last.
#[derive(Clone, Debug)]
pub(crate) struct Lru<T> {
    places: HashMap<Key, u32, FixedState>,
    nodes: Vec<Option<Node<T>>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    max: usize,
}

impl<T> Lru<T> {
    /// An empty one for `max` values, at least one.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            places: HashMap::with_hasher(FixedState::with_seed(0)),
            nodes: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            max: max.clamp(1, NONE as usize),
        }
    }

    pub(crate) fn place(&self, key: &Key) -> Option<u32> {
        self.places.get(key).copied()
    }

    fn node(&mut self, place: u32) -> Option<&mut Node<T>> {
        self.nodes.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.node(place).map(|node| &mut node.value)
    }

    /// Makes it the newest.
    pub(crate) fn touch(&mut self, place: u32, now: Instant) {
        self.unlink(place);
        self.link(place);
        if let Some(node) = self.node(place) {
            node.last = now;
        }
    }

    /// Puts a value where none is, as the newest. The oldest has to make room first: see [`Self::is_full`].
    pub(crate) fn insert(&mut self, key: Key, value: T, now: Instant) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.nodes.len() as u32 - 1
        });
        if let Some(slot) = self.nodes.get_mut(place as usize) {
            *slot = Some(Node { key, value, last: now, older: NONE, newer: NONE });
        }
        self.places.insert(key, place);
        self.link(place);
        place
    }

    pub(crate) fn is_full(&self) -> bool {
        self.places.len() >= self.max
    }

    /// Gives a value other ends, which must be free; the ones it had.
    pub(crate) fn rename(&mut self, place: u32, key: Key) -> Option<Key> {
        let old = std::mem::replace(&mut self.node(place)?.key, key);
        self.places.remove(&old);
        self.places.insert(key, place);
        Some(old)
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<(Key, T)> {
        self.unlink(place);
        let node = self.nodes.get_mut(place as usize)?.take()?;
        self.places.remove(&node.key);
        self.free.push(place);
        Some((node.key, node.value))
    }

    /// The one that was silent longest, and since when.
    pub(crate) fn oldest(&self) -> Option<(u32, Instant)> {
        let node = self.nodes.get(self.oldest as usize)?.as_ref()?;
        Some((self.oldest, node.last))
    }

    fn link(&mut self, place: u32) {
        let newest = self.newest;
        if let Some(node) = self.node(place) {
            (node.older, node.newer) = (newest, NONE);
        }
        match self.node(newest) {
            Some(node) => node.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Some((older, newer)) = self.node(place).map(|node| (node.older, node.newer)) else { return };
        match self.node(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match self.node(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(port: u16) -> Key {
        Key::new(0, SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], 443)))
    }

    #[test]
    fn a_key_is_the_same_both_ways() {
        let ends = [SocketAddr::from(([10, 0, 0, 9], 443)), SocketAddr::from(([10, 0, 0, 2], 50_000))];
        assert_eq!(Key::new(3, ends[0], ends[1]), Key::new(3, ends[1], ends[0]));
        assert_ne!(Key::new(3, ends[0], ends[1]), Key::new(4, ends[0], ends[1]));
        assert_eq!(Key::new(3, ends[0], ends[1]).low_port(), 443);
    }

    proptest! {
        /// Against a list with the oldest first.
        #[test]
        fn does_what_a_list_does(steps in prop::collection::vec((0_u8..5, 0_u16..12), 1..200)) {
            let mut lru = Lru::new(6);
            let mut list: Vec<(u16, u64)> = Vec::new();
            for (now, (step, port)) in steps.into_iter().enumerate() {
                let at = Instant::from_millis(now as u64);
                let found = list.iter().position(|one| one.0 == port);
                let place = lru.place(&key(port));
                prop_assert_eq!(found.is_some(), place.is_some());
                match (step, found, place) {
                    (0 | 1, None, None) => {
                        if lru.is_full() {
                            let oldest = lru.oldest().unwrap().0;
                            let removed = lru.remove(oldest).unwrap();
                            prop_assert_eq!(removed, (key(list[0].0), list.remove(0).0));
                        }
                        lru.insert(key(port), port, at);
                        list.push((port, now as u64));
                    }
                    (0 | 1, Some(index), Some(place)) => {
                        lru.touch(place, at);
                        let one = list.remove(index);
                        list.push((one.0, now as u64));
                    }
                    (2, Some(index), Some(place)) => {
                        prop_assert_eq!(lru.remove(place).unwrap().1, list.remove(index).0);
                    }
                    (3, Some(index), Some(place)) if !list.iter().any(|one| one.0 == port + 20) => {
                        prop_assert_eq!(lru.rename(place, key(port + 20)), Some(key(port)));
                        *lru.get_mut(place).unwrap() = port + 20;
                        list[index].0 = port + 20;
                    }
                    _ => {}
                }
                prop_assert_eq!(lru.places.len(), list.len());
                prop_assert!(lru.places.len() <= 6 && lru.nodes.len() <= 6);
                let oldest = lru.oldest().map(|(place, last)| (*lru.get_mut(place).unwrap(), last));
                prop_assert_eq!(oldest, list.first().map(|one| (one.0, Instant::from_millis(one.1))));
            }
        }
    }
}
