//! [`Index`]: where in a [`Slab`] things lie, by their keys.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::slab::Slab;

/// Item that is found by a key of its own.
pub(crate) trait Keyed {
    type Key: Eq + Hash;
    fn key(&self) -> &Self::Key;
}

/// Place of an item, with a part of its key's hash: most look-ups end here, and a larger table
/// needs no look at the items.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    id: u32,
}

impl Place {
    /// Bits of all parts of the hash in all places.
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Places of items in a slab, by their keys. The keys stay with the things; never iterated: its
/// order depends on the seed.
#[derive(Debug)]
pub(crate) struct Index {
    places: HashTable<Place>,
    hasher: FixedState,
}

impl Index {
    pub(crate) fn new(seed: u64) -> Self {
        Self { places: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    /// Has room for `count` things, those of now included.
    pub(crate) fn reserve(&mut self, count: usize) {
        let more = count.saturating_sub(self.places.len());
        self.places.reserve(more, |place| Place::spread(place.hash));
    }

    /// The part of a key's hash that is kept.
    #[inline]
    pub(crate) fn hash<K: Hash>(&self, key: &K) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    /// Place that the key with this hash most likely has: found without a look at it.
    #[inline]
    pub(crate) fn likely(&self, hash: u32) -> Option<u32> {
        self.places.find(Place::spread(hash), |place| place.hash == hash).map(|place| place.id)
    }

    /// Place of `key` in `slab`.
    #[inline]
    pub(crate) fn get<T: Keyed>(&self, key: &T::Key, slab: &Slab<T>) -> Option<u32> {
        let hash = self.hash(key);
        let is_meant =
            |place: &Place| place.hash == hash && slab.get(place.id).is_some_and(|thing| thing.key() == key);
        self.places.find(Place::spread(hash), is_meant).map(|place| place.id)
    }

    /// Notes that `key`, which is not known yet, lies at `id`.
    pub(crate) fn insert<K: Hash>(&mut self, key: &K, id: u32) {
        let hash = self.hash(key);
        self.places.insert_unique(Place::spread(hash), Place { hash, id }, |place| Place::spread(place.hash));
    }

    /// Forgets `key`, which was noted with `id`.
    pub(crate) fn remove<K: Hash>(&mut self, key: &K, id: u32) {
        let hash = Place::spread(self.hash(key));
        if let Ok(found) = self.places.find_entry(hash, |place| place.id == id) {
            found.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    struct Thing(u16);

    impl Keyed for Thing {
        type Key = u16;
        fn key(&self) -> &u16 {
            &self.0
        }
    }

    proptest! {
        /// It finds what was noted and not forgotten, and keeps nothing of what was.
        #[test]
        fn it_knows_what_lies_in_the_slab(steps in prop::collection::vec((any::<bool>(), 0_u16..40), 1..200)) {
            let (mut index, mut slab) = (Index::new(7), Slab::<Thing>::default());
            let mut known = std::collections::BTreeMap::new();
            for (is_new, key) in steps {
                match (is_new, known.get(&key).copied()) {
                    (true, None) => {
                        let id = slab.insert(Thing(key));
                        index.insert(&key, id);
                        known.insert(key, id);
                    }
                    (false, Some(id)) => {
                        index.remove(&key, id);
                        slab.remove(id);
                        known.remove(&key);
                    }
                    _ => {}
                }
                prop_assert_eq!(index.places.len(), known.len());
                for key in 0..40 {
                    prop_assert_eq!(index.get(&key, &slab), known.get(&key).copied());
                    prop_assert!(!known.contains_key(&key) || index.likely(index.hash(&key)).is_some());
                }
            }
        }
    }
}
