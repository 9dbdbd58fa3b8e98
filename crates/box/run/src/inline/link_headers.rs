//! [`LinkHeaders`]: which Ethernet header the packets of each flow have, either way (H13).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::Port;
use foldhash::fast::FixedState;
use units::Instant;

use super::neighbors::{Mac, Neighbors, Segment};

/// Flows in each of two generations: more than the engine's table has.
const GENERATION_MAX: usize = 200_000;

/// Header in front of an IP packet, but for its Ethernet type.
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

    fn destination_mac(&mut self) -> Mac {
        let mut mac = Mac::default();
        mac.copy_from_slice(self.destination());
        mac
    }

    fn source_mac(&mut self) -> Mac {
        let mut mac = Mac::default();
        mac.copy_from_slice(self.source());
        mac
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

/// The host of a flow on a side.
fn host_on(key: &Key, side: Port) -> IpAddr {
    match side {
        Port::Mobile => key.0.ip(),
        Port::Wired => key.1.ip(),
    }
}

/// A header, and how it was learnt.
#[derive(Clone, Copy, Debug)]
struct Learnt {
    header: LinkHeader,
    /// By a segment that was surely its host's.
    is_sure: bool,
    /// [`Neighbors::order`] then.
    order: u64,
}

type Generation = HashMap<Key, [Option<Learnt>; 2], FixedState>;

/// Kind of the frame around a flow's packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// As all before it.
    Known,
    /// It would teach something, if its packet is surely its host's ([`LinkHeaders::learn`]).
    New,
    /// Of another VLAN: the same addresses in another network are another flow.
    Elsewhere,
}

/// The headers seen last, by flow and by the side they go to.
///
/// Anybody can send a frame. So what a frame says counts only until one comes whose packet is surely its
/// host's; from then on those alone count, and what hosts announce ([`Neighbors`]).
///
/// There are two generations: when one is full, it takes the place of the older one, and what is
/// used moves to the younger. So a flow is forgotten only after as many others were seen without
/// it.
#[derive(Debug)]
pub(crate) struct LinkHeaders {
    young: Generation,
    old: Generation,
    neighbors: Neighbors,
    changes: u32,
}

impl LinkHeaders {
    pub fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        let neighbors = Neighbors::new(&hasher);
        let [young, old] = [hasher.clone(), hasher].map(Generation::with_hasher);
        // A journal that another process began has that one's counts: two shall not be alike by chance.
        Self { young, old, neighbors, changes: (seed >> 33) as u32 }
    }

    /// Number of times that a header that was known has changed: as long as this stays, all do.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Notes what a packet of a flow that goes to `to` has in front, where nothing is sure yet.
    pub fn see(&mut self, key: Key, to: Port, header: LinkHeader) -> Seen {
        let learnt = Some(Learnt { header, is_sure: false, order: self.neighbors.order() });
        let Some(known) = self.find(key) else {
            let mut headers = [None; 2];
            headers[to.index()] = learnt;
            self.insert(key, headers);
            return Seen::New;
        };
        if known.iter().flatten().any(|other| other.is_sure && other.header.tag != header.tag) {
            return Seen::Elsewhere;
        }
        match &mut known[to.index()] {
            Some(sure) if sure.is_sure && sure.header == header => Seen::Known,
            Some(sure) if sure.is_sure => Seen::New,
            unsure => {
                *unsure = learnt;
                Seen::New
            }
        }
    }

    /// Learns what a packet of a flow that goes to `to` has in front, which is surely its host's.
    pub fn learn(&mut self, key: Key, to: Port, mut header: LinkHeader, now: Instant) {
        let there = Segment::new(to, header.tag);
        let mut known = self.find(key).copied().unwrap_or_default();
        // Whoever sent it may not have heard yet what we have.
        let mac = header.destination_mac();
        let is_its_own = known[to.opposite().index()].is_some_and(|mut back| back.header.source_mac() == mac);
        let lately = self.neighbors.replaced_lately(there, host_on(&key, to), mac, (is_its_own, now));
        if let Some(mac) = lately {
            header.destination().copy_from_slice(&mac);
        }
        let learnt = Learnt { header, is_sure: true, order: self.neighbors.order() };
        let before = known[to.index()].replace(learnt).filter(|before| before.is_sure);
        let back = &mut known[to.opposite().index()];
        *back = back.filter(|back| back.header.tag == header.tag);
        let changed = before.map(|before| before.header).filter(|before| *before != header);
        if let Some((back, before)) = back.as_mut().zip(changed) {
            back.header.follow(&before, &header);
        }
        self.insert(key, known);
        let Some(mut before) = changed else { return };
        self.changes = self.changes.wrapping_add(1);
        // Its other flows are there as well.
        let (before, after) = (before.source_mac(), header.source_mac());
        if before != after {
            let here = Segment::new(to.opposite(), header.tag);
            self.neighbors.note_source(here, host_on(&key, to.opposite()), [before, after], now);
        }
    }

    /// A host on a side has said by a frame with `tag` that it is at an Ethernet address.
    pub fn announce(&mut self, side: Port, tag: Option<[u8; 4]>, (ip, mac): (IpAddr, Mac), now: Instant) {
        let order = self.neighbors.order();
        self.neighbors.announce(Segment::new(side, tag), ip, mac, now);
        // Which flows that is about, each finds out when it is asked for.
        self.changes = self.changes.wrapping_add(u32::from(self.neighbors.order() != order));
    }

    /// Notes what packets of a flow have in front by the side they go to, as another process has learnt it.
    pub fn recall(&mut self, key: Key, headers: [Option<LinkHeader>; 2]) {
        if headers != [None; 2] {
            let order = self.neighbors.order();
            let learnt = |header| Learnt { header, is_sure: true, order };
            self.insert(key, headers.map(|header| header.map(learnt)));
        }
    }

    /// Header in front of packets of a flow that go to `to`.
    pub fn get(&mut self, key: Key, to: Port) -> Option<LinkHeader> {
        let order = self.neighbors.order();
        let known = *self.find(key)?;
        let learnt = known[to.index()]?;
        if learnt.order < order {
            self.follow_neighbors(key, known, to);
        }
        Some(self.find(key)?[to.index()]?.header)
    }

    /// Follows the host of a flow on the side `to`, if it has another address since that was learnt.
    fn follow_neighbors(&mut self, key: Key, mut known: [Option<Learnt>; 2], to: Port) {
        let order = self.neighbors.order();
        let (Some(mut learnt), back) = (known[to.index()], known[to.opposite().index()]) else { return };
        let mac = learnt.header.destination_mac();
        let is_its_own = back.is_some_and(|mut back| back.header.source_mac() == mac);
        let there = Segment::new(to, learnt.header.tag);
        let replaced = self.neighbors.replaced(there, host_on(&key, to), mac, learnt.order, is_its_own);
        learnt.order = order;
        if let Some(new) = replaced {
            self.neighbors.note_past(there, host_on(&key, to), mac);
            learnt.header.destination().copy_from_slice(&new);
            if let Some(back) = known[to.opposite().index()].as_mut().filter(|_| is_its_own) {
                back.header.source().copy_from_slice(&new);
            }
        }
        known[to.index()] = Some(learnt);
        self.insert(key, known);
    }

    fn find(&mut self, key: Key) -> Option<&mut [Option<Learnt>; 2]> {
        if !self.young.contains_key(&key) {
            let headers = self.old.remove(&key)?;
            self.insert(key, headers);
        }
        self.young.get_mut(&key)
    }

    fn insert(&mut self, key: Key, headers: [Option<Learnt>; 2]) {
        if self.young.len() >= GENERATION_MAX && !self.young.contains_key(&key) {
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

    fn between(to: u8, from: u8) -> LinkHeader {
        LinkHeader { addresses: [[to; 6], [from; 6]].concat().try_into().unwrap(), tag: None }
    }

    fn s(seconds: u64) -> Instant {
        Instant::from_millis(1_000 * seconds)
    }

    /// A frame whose packet is surely its host's; false for one of another VLAN.
    fn teach(headers: &mut LinkHeaders, key: Key, to: Port, header: LinkHeader) -> bool {
        match headers.see(key, to, header) {
            Seen::Known => true,
            Seen::New => {
                headers.learn(key, to, header, s(1));
                true
            }
            Seen::Elsewhere => false,
        }
    }

    #[test]
    fn h13_each_direction_of_a_flow_has_its_header() {
        let mut headers = LinkHeaders::new(1);
        assert!(teach(&mut headers, key(1), Port::Mobile, header(1, None)));
        assert!(teach(&mut headers, key(1), Port::Wired, header(2, None)));
        assert!(teach(&mut headers, key(1), Port::Wired, header(3, None)), "another router has taken over");
        assert_eq!(headers.get(key(1), Port::Mobile), Some(header(1, None)));
        assert_eq!(headers.get(key(1), Port::Wired), Some(header(3, None)));
        assert_eq!(headers.changes(), 1);
        assert!(teach(&mut headers, key(1), Port::Wired, header(3, None)));
        assert_eq!(headers.changes(), 1, "as before");
        assert_eq!(headers.get(key(2), Port::Wired), None);
    }

    #[test]
    fn h13_a_machine_with_a_new_address_is_followed_both_ways_and_one_with_two_is_not() {
        let mut headers = LinkHeaders::new(1);
        teach(&mut headers, key(1), Port::Wired, between(20, 10));
        teach(&mut headers, key(1), Port::Mobile, between(10, 20));
        // The server's interface is another one: what it sends says so first.
        teach(&mut headers, key(1), Port::Mobile, between(10, 21));
        assert_eq!(headers.get(key(1), Port::Wired), Some(between(21, 10)));
        // The client's, as the server has heard.
        teach(&mut headers, key(1), Port::Mobile, between(11, 21));
        assert_eq!(headers.get(key(1), Port::Wired), Some(between(21, 11)));
        // Routers that share address 30 to be reached by, and answer with 31 or 32.
        teach(&mut headers, key(2), Port::Wired, between(30, 10));
        teach(&mut headers, key(2), Port::Mobile, between(10, 31));
        teach(&mut headers, key(2), Port::Mobile, between(10, 32));
        assert_eq!(headers.get(key(2), Port::Wired), Some(between(30, 10)));
    }

    #[test]
    fn h13_a_strangers_frame_teaches_nothing() {
        let mut headers = LinkHeaders::new(1);
        teach(&mut headers, key(1), Port::Wired, between(20, 10));
        teach(&mut headers, key(1), Port::Mobile, between(10, 20));
        // With a wrong checksum, say, or a number from nowhere: nobody learns from it.
        assert_eq!(headers.see(key(1), Port::Wired, between(20, 66)), Seen::New);
        assert_eq!(headers.see(key(1), Port::Mobile, between(66, 20)), Seen::New);
        assert_eq!(headers.get(key(1), Port::Mobile), Some(between(10, 20)));
        assert_eq!(headers.get(key(1), Port::Wired), Some(between(20, 10)));
        assert_eq!(headers.see(key(1), Port::Wired, between(20, 10)), Seen::Known);
        // Before anything is sure it counts, and gives way to what is, its VLAN too.
        let elsewhere = LinkHeader { tag: Some([0x81, 0, 0, 7]), ..between(20, 66) };
        assert_eq!(headers.see(key(2), Port::Wired, elsewhere), Seen::New);
        assert_eq!(headers.get(key(2), Port::Wired), Some(elsewhere));
        assert!(teach(&mut headers, key(2), Port::Mobile, between(10, 20)));
        assert_eq!(headers.get(key(2), Port::Wired), None);
        assert!(teach(&mut headers, key(2), Port::Wired, between(20, 10)));
    }

    #[test]
    fn h13_all_flows_of_a_host_follow_what_it_announces() {
        let mut headers = LinkHeaders::new(1);
        for port in [1, 2] {
            teach(&mut headers, key(port), Port::Wired, between(20, 10));
            teach(&mut headers, key(port), Port::Mobile, between(10, 20));
        }
        let changes = headers.changes();
        headers.announce(Port::Mobile, None, (key(1).0.ip(), [12; 6]), s(5));
        assert_ne!(headers.changes(), changes, "the journal has to hear of it");
        for port in [1, 2] {
            assert_eq!(headers.get(key(port), Port::Mobile), Some(between(12, 20)));
            assert_eq!(headers.get(key(port), Port::Wired), Some(between(20, 12)));
        }
        // A frame to the old address was under way.
        headers.learn(key(1), Port::Mobile, between(10, 20), s(6));
        assert_eq!(headers.get(key(1), Port::Mobile), Some(between(12, 20)));
        // Whoever sends there later knows better.
        headers.learn(key(1), Port::Mobile, between(10, 20), s(8));
        assert_eq!(headers.get(key(1), Port::Mobile), Some(between(10, 20)));
        assert_eq!(headers.get(key(2), Port::Mobile), Some(between(12, 20)));
    }

    #[test]
    fn h13_a_segment_of_one_flow_moves_its_hosts_other_flows() {
        let mut headers = LinkHeaders::new(1);
        for port in [1, 2] {
            teach(&mut headers, key(port), Port::Wired, between(20, 10));
            teach(&mut headers, key(port), Port::Mobile, between(10, 20));
        }
        teach(&mut headers, key(1), Port::Wired, between(20, 13));
        assert_eq!(headers.get(key(1), Port::Mobile), Some(between(13, 20)));
        assert_eq!(headers.get(key(2), Port::Mobile), Some(between(13, 20)));
        // Not those of a host on the other side with that address.
        assert_eq!(headers.get(key(2), Port::Wired), Some(between(20, 13)));
    }

    #[test]
    fn h13_the_same_addresses_in_another_vlan_are_another_flow() {
        let mut headers = LinkHeaders::new(1);
        let tag = |id| Some([0x81, 0, 0, id]);
        assert!(teach(&mut headers, key(1), Port::Mobile, header(1, tag(7))));
        assert!(!teach(&mut headers, key(1), Port::Mobile, header(1, tag(8))));
        assert!(!teach(&mut headers, key(1), Port::Wired, header(1, None)));
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
            teach(&mut headers, key(2), Port::Wired, header(1, Some([0x81, 0, 0, 7]))),
            "nothing is known of it"
        );
    }

    #[test]
    fn what_is_used_is_not_forgotten_and_memory_is_bounded() {
        let mut headers = LinkHeaders::new(1);
        teach(&mut headers, key(1), Port::Mobile, header(1, None));
        for n in 0..GENERATION_MAX as u32 + 10 {
            let other = (SocketAddr::from((n.to_be_bytes(), 1)), key(1).1);
            teach(&mut headers, other, Port::Mobile, header(2, None));
        }
        assert_eq!(headers.get(key(1), Port::Mobile), Some(header(1, None)), "it is in the older one");
        assert!(headers.young.len() + headers.old.len() <= 2 * GENERATION_MAX);
    }
}
