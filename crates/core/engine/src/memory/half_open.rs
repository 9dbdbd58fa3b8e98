//! [`HalfOpen`]: the handshakes under way, as small records, oldest first, of all and of each subscriber.
//!
//! Anybody can send a SYN in anybody's name. So there are so many handshakes at most, and a new one takes the
//! place of the oldest: whoever floods loses his own first, and a handshake of a host has the time in which
//! the whole place is filled once. Subscribers are told apart by a hash of their address: a flood in the name
//! of one harms the few that have the same one, and nothing is kept of addresses that send a SYN and no more.

use std::net::IpAddr;

use units::Instant;

use super::index::{Index, Keyed};
use super::slab::Slab;
use crate::key::FlowKey;

/// Groups of subscribers, by a hash of their addresses.
const GROUPS: u32 = 1_024;

/// No record.
const NONE: u32 = u32::MAX;

/// A handshake under way.
#[derive(Debug)]
pub(crate) struct Record<T> {
    pub(crate) key: FlowKey,
    group: u16,
    in_all: Neighbours,
    in_group: Neighbours,
    /// Time of its first packet.
    pub(crate) began: Instant,
    /// State of the handshake.
    pub(crate) known: T,
}

impl<T> Keyed for Record<T> {
    type Key = FlowKey;
    fn key(&self) -> &FlowKey {
        &self.key
    }
}

/// The records before and behind one in a list.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    older: u32,
    younger: u32,
}

/// Access to the neighbours that a list has in a record.
type Links<T> = fn(&mut Record<T>) -> &mut Neighbours;

/// A list of records that runs through them.
#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    youngest: u32,
    len: u32,
}

impl List {
    const EMPTY: Self = Self { oldest: NONE, youngest: NONE, len: 0 };

    fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    fn push<T>(&mut self, place: u32, records: &mut Slab<Record<T>>, links: Links<T>) {
        let older = std::mem::replace(&mut self.youngest, place);
        if let Some(record) = records.get_mut(place) {
            *links(record) = Neighbours { older, younger: NONE };
        }
        match records.get_mut(older) {
            Some(record) => links(record).younger = place,
            None => self.oldest = place,
        }
        self.len += 1;
    }

    /// Takes out the one that stood between `gone`.
    fn close<T>(&mut self, gone: Neighbours, records: &mut Slab<Record<T>>, links: Links<T>) {
        match records.get_mut(gone.older) {
            Some(record) => links(record).younger = gone.younger,
            None => self.oldest = gone.younger,
        }
        match records.get_mut(gone.younger) {
            Some(record) => links(record).older = gone.older,
            None => self.youngest = gone.older,
        }
        self.len -= 1;
    }
}

/// Handshakes under way.
#[derive(Debug)]
pub(crate) struct HalfOpen<T> {
    records: Slab<Record<T>>,
    index: Index,
    all: List,
    groups: Vec<List>,
}

impl<T> HalfOpen<T> {
    /// None; places in memory are found with the hash of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let groups = vec![List::EMPTY; GROUPS as usize];
        Self { records: Slab::default(), index: Index::new(seed), all: List::EMPTY, groups }
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Places that records may have, all below this number.
    pub(crate) fn places(&self) -> u32 {
        self.records.places()
    }

    /// The place of the handshake of a flow, if there is one.
    #[inline]
    pub(crate) fn find(&self, key: &FlowKey) -> Option<u32> {
        if self.records.len() == 0 { None } else { self.index.get(key, &self.records) }
    }

    pub(crate) fn get(&self, place: u32) -> Option<&Record<T>> {
        self.records.get(place)
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut Record<T>> {
        self.records.get_mut(place)
    }

    fn group_of(&self, subscriber: IpAddr) -> u16 {
        (self.index.hash(&subscriber) % GROUPS) as u16
    }

    /// A handshake begins of a flow that has none.
    pub(crate) fn add(&mut self, key: FlowKey, subscriber: IpAddr, began: Instant, known: T) {
        let group = self.group_of(subscriber);
        let alone = Neighbours { older: NONE, younger: NONE };
        let record = Record { key, group, in_all: alone, in_group: alone, began, known };
        let place = self.records.insert(record);
        self.index.insert(&key, place);
        self.all.push(place, &mut self.records, |record| &mut record.in_all);
        if let Some(group) = self.groups.get_mut(usize::from(group)) {
            group.push(place, &mut self.records, |record| &mut record.in_group);
        }
    }

    /// It is over.
    pub(crate) fn remove(&mut self, place: u32) -> Option<Record<T>> {
        let record = self.records.remove(place)?;
        self.index.remove(&record.key, place);
        self.all.close(record.in_all, &mut self.records, |record| &mut record.in_all);
        if let Some(group) = self.groups.get_mut(usize::from(record.group)) {
            group.close(record.in_group, &mut self.records, |record| &mut record.in_group);
        }
        Some(record)
    }

    /// The oldest one.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.all.oldest()
    }

    /// Number of records that a subscriber has at most, and the oldest of those.
    pub(crate) fn of_subscriber(&self, subscriber: IpAddr) -> (u32, Option<u32>) {
        let group = self.groups.get(usize::from(self.group_of(subscriber)));
        group.map_or((0, None), |group| (group.len, group.oldest()))
    }

    /// All of them, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Record<T>> {
        let first = self.all.oldest().and_then(|place| self.records.get(place));
        std::iter::successors(first, |record| self.records.get(record.in_all.younger))
    }

    /// Places of those that may be a subscriber's, the oldest first.
    pub(crate) fn places_of(&self, subscriber: IpAddr) -> impl Iterator<Item = u32> {
        let (_, oldest) = self.of_subscriber(subscriber);
        let younger = |&place: &u32| Some(self.records.get(place)?.in_group.younger);
        std::iter::successors(oldest, move |place| younger(place).filter(|&place| place != NONE))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn key(subscriber: u8, port: u16) -> FlowKey {
        FlowKey::new((address(subscriber), port).into(), ([192, 0, 2, 1], 443).into())
    }

    #[test]
    fn a_record_is_small() {
        // Tens of thousands are there in a flood: a change that needs more says why.
        assert!(size_of::<Record<[u64; 12]>>() - 96 <= 64, "{}", size_of::<Record<[u64; 12]>>());
    }

    proptest! {
        /// Compares with plain lists: each is found until it is over, and the oldest comes first, of all and
        /// of each subscriber.
        #[test]
        fn the_oldest_comes_first(steps in prop::collection::vec((any::<bool>(), 0_u8..3, 0_u16..9), 1..200)) {
            let mut half_open = HalfOpen::new(5);
            let mut model: Vec<(u8, u16, u64)> = Vec::new();
            for (now, (begins, subscriber, port)) in (0..).zip(steps) {
                let found = half_open.find(&key(subscriber, port));
                let at = model.iter().position(|one| (one.0, one.1) == (subscriber, port));
                prop_assert_eq!(found.is_some(), at.is_some());
                if let (false, Some(place), Some(at)) = (begins, found, at) {
                    prop_assert_eq!(half_open.remove(place).map(|record| record.known), Some(model.remove(at).2));
                } else if begins && found.is_none() {
                    half_open.add(key(subscriber, port), address(subscriber), Instant::from_millis(now), now);
                    model.push((subscriber, port, now));
                }
                let all: Vec<u64> = half_open.iter().map(|record| record.known).collect();
                prop_assert_eq!(&all, &model.iter().map(|one| one.2).collect::<Vec<_>>());
                prop_assert_eq!(half_open.len(), model.len());
                let known = |place: Option<u32>| Some(half_open.get(place?)?.known);
                prop_assert_eq!(known(half_open.oldest()), model.first().map(|one| one.2));
                for subscriber in 0..3 {
                    let own: Vec<u64> = model.iter().filter(|one| one.0 == subscriber).map(|one| one.2).collect();
                    let places = half_open.places_of(address(subscriber));
                    prop_assert_eq!(&places.filter_map(|place| known(Some(place))).collect::<Vec<_>>(), &own);
                    let (len, oldest) = half_open.of_subscriber(address(subscriber));
                    prop_assert_eq!((len as usize, known(oldest)), (own.len(), own.first().copied()));
                }
            }
        }
    }
}
