//! [`LinkHeaders`]: which Ethernet header the packets of each flow have, either way (H13).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::Port;
use foldhash::fast::FixedState;

/// Flows in each of two generations: more than the engine's table has.
const GENERATION_MAX: usize = 200_000;

/// What stands in front of an IP packet, but for its Ethernet type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkHeader {
    /// Destination and source address.
    pub addresses: [u8; 12],
    /// The VLAN tag as it stands in a frame.
    pub tag: Option<[u8; 4]>,
}

impl LinkHeader {
    fn destination(&mut self) -> &mut [u8] {
        &mut self.addresses[..ADDRESS_LEN]
    }

    fn source(&mut self) -> &mut [u8] {
        &mut self.addresses[ADDRESS_LEN..]
    }

    /// Follows a machine that has got another address, by what packets in the other direction have
    /// in front: where they come from is where those go that came from there before. A router that
    /// is addressed by another address than its own, as by VRRP, is left alone.
    fn follow(&mut self, before: &Self, after: &Self) {
        let (mut before, mut after) = (*before, *after);
        if *self.destination() == *before.source() {
            self.destination().copy_from_slice(after.source());
        }
        if *self.source() == *before.destination() {
            self.source().copy_from_slice(after.destination());
        }
    }
}

const ADDRESS_LEN: usize = 6;

/// A flow: the client's address and port, and the server's.
pub(crate) type Key = (SocketAddr, SocketAddr);

type Generation = HashMap<Key, [Option<LinkHeader>; 2], FixedState>;

/// The headers seen last, by flow and by the side they go to.
///
/// There are two generations: when one is full, it takes the place of the older one, and what is
/// used moves to the younger. So a flow is forgotten only after as many others were seen without
/// it.
#[derive(Debug)]
pub(crate) struct LinkHeaders {
    young: Generation,
    old: Generation,
    changes: u32,
}

impl LinkHeaders {
    pub fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        let [young, old] = [hasher.clone(), hasher].map(Generation::with_hasher);
        // A journal that another process began has that one's counts: two shall not be alike by chance.
        Self { young, old, changes: (seed >> 33) as u32 }
    }

    /// How often a header that was known has changed: as long as this stays, all do.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Notes what a packet of a flow that goes to `to` has in front. False for a flow that is known
    /// with another VLAN tag: the same addresses in another network are another flow.
    pub fn learn(&mut self, key: Key, to: Port, header: LinkHeader) -> bool {
        let Some(known) = self.find(key) else {
            let mut headers = [None; 2];
            headers[to.index()] = Some(header);
            self.insert(key, headers);
            return true;
        };
        if known.iter().flatten().any(|other| other.tag != header.tag) {
            return false;
        }
        let before = known[to.index()].replace(header);
        let Some(before) = before.filter(|before| *before != header) else { return true };
        if let Some(back) = known[to.opposite().index()].as_mut() {
            back.follow(&before, &header);
        }
        self.changes = self.changes.wrapping_add(1);
        true
    }

    /// Notes what packets of a flow have in front by the side they go to, as another process has learnt it.
    pub fn recall(&mut self, key: Key, headers: [Option<LinkHeader>; 2]) {
        if headers != [None; 2] {
            self.insert(key, headers);
        }
    }

    /// What packets of a flow that go to `to` have in front.
    pub fn get(&mut self, key: Key, to: Port) -> Option<LinkHeader> {
        self.find(key)?[to.index()]
    }

    fn find(&mut self, key: Key) -> Option<&mut [Option<LinkHeader>; 2]> {
        if !self.young.contains_key(&key) {
            let headers = self.old.remove(&key)?;
            self.insert(key, headers);
        }
        self.young.get_mut(&key)
    }

    fn insert(&mut self, key: Key, headers: [Option<LinkHeader>; 2]) {
        if self.young.len() >= GENERATION_MAX {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert(key, headers);
    }
}

/// The headers where the path learns them and the journal, in the same thread, looks them up.
#[derive(Clone, Debug)]
pub(crate) struct SharedHeaders(Arc<Mutex<LinkHeaders>>);

impl SharedHeaders {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(LinkHeaders::new(seed))))
    }

    /// Nobody else ever holds them for longer than a look.
    pub fn lock(&self) -> MutexGuard<'_, LinkHeaders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> Key {
        (SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], 80)))
    }

    fn header(n: u8, tag: Option<[u8; 4]>) -> LinkHeader {
        LinkHeader { addresses: [n; 12], tag }
    }

    #[test]
    fn h13_each_direction_of_a_flow_has_its_header() {
        let mut headers = LinkHeaders::new(1);
        assert!(headers.learn(key(1), Port::Mobile, header(1, None)));
        assert!(headers.learn(key(1), Port::Wired, header(2, None)));
        assert!(headers.learn(key(1), Port::Wired, header(3, None)), "another router has taken over");
        assert_eq!(headers.get(key(1), Port::Mobile), Some(header(1, None)));
        assert_eq!(headers.get(key(1), Port::Wired), Some(header(3, None)));
        assert_eq!(headers.changes(), 1);
        assert!(headers.learn(key(1), Port::Wired, header(3, None)));
        assert_eq!(headers.changes(), 1, "as before");
        assert_eq!(headers.get(key(2), Port::Wired), None);
    }

    #[test]
    fn h13_a_machine_with_a_new_address_is_followed_both_ways_and_one_with_two_is_not() {
        let between = |to: u8, from: u8| LinkHeader {
            addresses: [[to; 6], [from; 6]].concat().try_into().unwrap(),
            tag: None,
        };
        let mut headers = LinkHeaders::new(1);
        headers.learn(key(1), Port::Wired, between(20, 10));
        headers.learn(key(1), Port::Mobile, between(10, 20));
        // The server's interface is another one: what it sends says so first.
        headers.learn(key(1), Port::Mobile, between(10, 21));
        assert_eq!(headers.get(key(1), Port::Wired), Some(between(21, 10)));
        // The client's, as the server has heard.
        headers.learn(key(1), Port::Mobile, between(11, 21));
        assert_eq!(headers.get(key(1), Port::Wired), Some(between(21, 11)));
        // Routers that share address 30 to be reached by, and answer with 31 or 32.
        headers.learn(key(2), Port::Wired, between(30, 10));
        headers.learn(key(2), Port::Mobile, between(10, 31));
        headers.learn(key(2), Port::Mobile, between(10, 32));
        assert_eq!(headers.get(key(2), Port::Wired), Some(between(30, 10)));
    }

    #[test]
    fn h13_the_same_addresses_in_another_vlan_are_another_flow() {
        let mut headers = LinkHeaders::new(1);
        let tag = |id| Some([0x81, 0, 0, id]);
        assert!(headers.learn(key(1), Port::Mobile, header(1, tag(7))));
        assert!(!headers.learn(key(1), Port::Mobile, header(1, tag(8))));
        assert!(!headers.learn(key(1), Port::Wired, header(1, None)));
        assert_eq!(headers.get(key(1), Port::Mobile), Some(header(1, tag(7))));
    }

    #[test]
    fn what_another_process_has_learnt_is_known() {
        let mut headers = LinkHeaders::new(1);
        let both = [Some(header(1, None)), Some(header(2, None))];
        headers.recall(key(1), both);
        headers.recall(key(2), [None; 2]);
        assert_eq!(Port::BOTH.map(|to| headers.get(key(1), to)), both);
        assert!(
            headers.learn(key(2), Port::Wired, header(1, Some([0x81, 0, 0, 7]))),
            "nothing is known of it"
        );
    }

    #[test]
    fn what_is_used_is_not_forgotten_and_memory_is_bounded() {
        let mut headers = LinkHeaders::new(1);
        headers.learn(key(1), Port::Mobile, header(1, None));
        for n in 0..GENERATION_MAX as u32 + 10 {
            let other = (SocketAddr::from((n.to_be_bytes(), 1)), key(1).1);
            headers.learn(other, Port::Mobile, header(2, None));
        }
        assert_eq!(headers.get(key(1), Port::Mobile), Some(header(1, None)), "it is in the older one");
        assert!(headers.young.len() + headers.old.len() <= 2 * GENERATION_MAX);
    }
}
