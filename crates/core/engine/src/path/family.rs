//! The flows of one client, whatever shares a controller: lists that run through the flows themselves, so that a
//! client's flows are found without a look at anybody else's.

use std::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use stored::{Reader, Stored, StoredError, Writer};

use crate::memory::slab::Slab;

/// No flow.
const NONE: u32 = u32::MAX;

/// The place of another flow of the same client, or none. It is not stored: who restores flows joins them anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kin(u32);

impl Kin {
    pub(crate) const NONE: Self = Self(NONE);

    fn place(self) -> Option<u32> {
        (self != Self::NONE).then_some(self.0)
    }
}

impl Stored for Kin {
    fn store(&self, _: &mut Writer) {}

    fn restore(_: &mut Reader<'_>) -> Result<Self, StoredError> {
        Ok(Self::NONE)
    }
}

/// Member of such a list.
pub(crate) trait Related {
    /// The flow before it and the one behind it.
    fn kin(&mut self) -> [&mut Kin; 2];

    /// The one behind it.
    fn next_kin(&self) -> Kin;
}

/// The first flow of each client that has one.
#[derive(Debug)]
pub(crate) struct Families {
    first: HashMap<IpAddr, Kin, FixedState>,
}

impl Families {
    pub(crate) fn new(seed: u64) -> Self {
        Self { first: HashMap::with_hasher(FixedState::with_seed(seed)) }
    }

    /// Forgets all; members still name each other.
    pub(crate) fn clear(&mut self) {
        self.first.clear();
    }

    /// Has room for those of `count` clients, those of now included.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.first.reserve(count.saturating_sub(self.first.len()));
    }

    /// Puts a flow that is in no list in front of the others of `client`.
    pub(crate) fn join(&mut self, client: IpAddr, id: u32, flows: &mut Slab<impl Related>) {
        let next = self.first.insert(client, Kin(id)).unwrap_or(Kin::NONE);
        if let Some(flow) = flows.get_mut(id) {
            let [before, after] = flow.kin();
            (*before, *after) = (Kin::NONE, next);
        }
        if let Some(flow) = next.place().and_then(|place| flows.get_mut(place)) {
            *flow.kin()[0] = Kin(id);
        }
    }

    /// Takes a flow of `client` out that is in its list.
    pub(crate) fn part(&mut self, client: IpAddr, id: u32, flows: &mut Slab<impl Related>) {
        let Some(flow) = flows.get_mut(id) else { return };
        let [before, after] = flow.kin().map(|kin| std::mem::replace(kin, Kin::NONE));
        if let Some(flow) = after.place().and_then(|place| flows.get_mut(place)) {
            *flow.kin()[0] = before;
        }
        match before.place().and_then(|place| flows.get_mut(place)) {
            Some(flow) => *flow.kin()[1] = after,
            None if after == Kin::NONE => drop(self.first.remove(&client)),
            None => drop(self.first.insert(client, after)),
        }
    }

    /// The flows of `client`, the newest first.
    pub(crate) fn of<T: Related>(&self, client: IpAddr, flows: &Slab<T>) -> impl Iterator<Item = u32> {
        let first = self.first.get(&client).and_then(|kin| kin.place());
        std::iter::successors(first, |&id| flows.get(id)?.next_kin().place())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    struct One([Kin; 2]);

    impl Related for One {
        fn kin(&mut self) -> [&mut Kin; 2] {
            let [before, after] = &mut self.0;
            [before, after]
        }
        fn next_kin(&self) -> Kin {
            self.0[1]
        }
    }

    proptest! {
        /// Compares with plain lists.
        #[test]
        fn each_client_has_its_own(steps in proptest::collection::vec((0u8..3, any::<bool>(), 0usize..8), 1..200)) {
            let (mut families, mut flows) = (Families::new(1), Slab::default());
            let mut model: [Vec<u32>; 3] = Default::default();
            for (client, joins, at) in steps {
                let (address, own) = (IpAddr::from([10, 0, 0, client]), &mut model[usize::from(client)]);
                if joins {
                    let id = flows.insert(One([Kin::NONE; 2]));
                    families.join(address, id, &mut flows);
                    own.insert(0, id);
                } else if at < own.len() {
                    let id = own.remove(at);
                    families.part(address, id, &mut flows);
                    prop_assert!(flows.remove(id).is_some());
                }
                for (client, own) in (0..).zip(&model) {
                    let found: Vec<u32> = families.of(IpAddr::from([10, 0, 0, client]), &flows).collect();
                    prop_assert_eq!(&found, own);
                }
            }
            prop_assert_eq!(families.first.len(), model.iter().filter(|own| !own.is_empty()).count());
        }
    }
}
