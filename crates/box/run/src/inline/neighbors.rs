//! [`Neighbors`]: the Ethernet addresses that hosts of either side have had, and have.
//!
//! A bridge sends frames in the place of a host whose own neighbour cache hears of a new address. What such a
//! cache would believe is believed here: ARP (RFC 826), Neighbor Discovery (RFC 4861), and segments that are
//! surely the host's. A flow that waits for its client sends nothing, so nobody else would tell.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use engine::Port;
use foldhash::fast::FixedState;
use units::{Duration, Instant};

/// An Ethernet address.
pub(super) type Mac = [u8; 6];

/// Hosts in each of two generations.
const GENERATION_MAX: usize = 8_192;

/// Addresses remembered that stood for others than their own host, as a router's.
const MOVED_MAX: usize = 1_024;

/// Longest time that frames to a host's old address are under way at most after it has said that it has
/// another one. Behind that, whoever still sends there knows better.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// Scope of an address: a side of the bridge, and a VLAN on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Segment {
    side: Port,
    vlan: Option<u16>,
}

impl Segment {
    /// `tag` is that of a frame: its priority does not matter.
    pub(super) fn new(side: Port, tag: Option<[u8; 4]>) -> Self {
        Self { side, vlan: tag.map(|[.., high, low]| u16::from_be_bytes([high, low]) & 0xfff) }
    }
}

/// Addresses of a host, past and current.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    current: Mac,
    past: [Option<Mac>; 3],
    /// The change of this number was its last one.
    order: u64,
    changed: Instant,
}

/// The hosts of both sides.
#[derive(Debug)]
pub(super) struct Neighbors {
    young: HashMap<(Segment, IpAddr), Addresses, FixedState>,
    old: HashMap<(Segment, IpAddr), Addresses, FixedState>,
    /// Addresses of hosts that have another one by now: hosts behind a router have none of their own here.
    moved: HashMap<(Segment, Mac), Addresses, FixedState>,
    order: u64,
}

impl Neighbors {
    pub(super) fn new(hasher: &FixedState) -> Self {
        let [young, old] = [hasher.clone(), hasher.clone()].map(HashMap::with_hasher);
        Self { young, old, moved: HashMap::with_hasher(hasher.clone()), order: 0 }
    }

    /// Number of changes: what was learnt at one number holds as long as it stays.
    pub(super) fn order(&self) -> u64 {
        self.order
    }

    /// A host has said that `mac` is its address; true when it had another one.
    pub(super) fn announce(&mut self, segment: Segment, ip: IpAddr, mac: Mac, now: Instant) -> bool {
        let Some(known) = self.find(segment, ip) else {
            self.order += 1;
            let addresses = Addresses { current: mac, past: [None; 3], order: self.order, changed: now };
            self.insert(segment, ip, addresses);
            return false;
        };
        let before = known.current;
        if before == mac {
            return false;
        }
        self.order += 1;
        let order = self.order;
        if let Some(known) = self.find(segment, ip) {
            known.move_to(mac, order, now);
        }
        if self.moved.len() >= MOVED_MAX {
            self.moved.clear();
        }
        let addresses = Addresses { current: mac, past: [None; 3], order, changed: now };
        self.moved.insert((segment, before), addresses);
        true
    }

    /// A segment that is surely a host's has come from `mac`, where those before came from `before`.
    pub(super) fn note_source(
        &mut self,
        segment: Segment,
        ip: IpAddr,
        [before, mac]: [Mac; 2],
        now: Instant,
    ) {
        self.order += 1;
        let order = self.order;
        let addresses = self
            .find(segment, ip)
            .map_or(Addresses { current: before, past: [None; 3], order, changed: now }, |known| *known);
        self.insert(segment, ip, addresses);
        if let Some(known) = self.find(segment, ip).filter(|known| known.current != mac) {
            known.move_to(mac, order, now);
        }
    }

    /// The address that a host has in place of `mac`, which was right at `since`. `is_its_own`: its segments
    /// came from there, too.
    pub(super) fn replaced(
        &mut self,
        segment: Segment,
        ip: IpAddr,
        mac: Mac,
        since: u64,
        is_its_own: bool,
    ) -> Option<Mac> {
        if since >= self.order {
            return None;
        }
        let known = match self.find(segment, ip) {
            Some(known) => {
                let known = *known;
                (is_its_own || known.past.contains(&Some(mac))).then_some(known)
            }
            None => self.moved.get(&(segment, mac)).copied(),
        };
        known.filter(|known| known.order > since && known.current != mac).map(|known| known.current)
    }

    /// A host has had `mac`, too: so the segments of one of its flows say.
    pub(super) fn note_past(&mut self, segment: Segment, ip: IpAddr, mac: Mac) {
        if let Some(known) = self.find(segment, ip).filter(|known| !known.past.contains(&Some(mac))) {
            let [first, second, _] = known.past;
            known.past = [Some(mac), first, second];
        }
    }

    /// As [`Neighbors::replaced`], where frames to `mac` may have been under way when its host took another
    /// one.
    pub(super) fn replaced_lately(
        &mut self,
        segment: Segment,
        ip: IpAddr,
        mac: Mac,
        (is_its_own, now): (bool, Instant),
    ) -> Option<Mac> {
        let known = match self.find(segment, ip) {
            Some(known) => Some(*known).filter(|known| is_its_own || known.past.contains(&Some(mac))),
            None => self.moved.get(&(segment, mac)).copied(),
        };
        known
            .filter(|known| known.current != mac && now.saturating_since(known.changed) < UNDER_WAY)
            .map(|known| known.current)
    }

    fn find(&mut self, segment: Segment, ip: IpAddr) -> Option<&mut Addresses> {
        if !self.young.contains_key(&(segment, ip)) {
            let addresses = self.old.remove(&(segment, ip))?;
            self.insert(segment, ip, addresses);
        }
        self.young.get_mut(&(segment, ip))
    }

    fn insert(&mut self, segment: Segment, ip: IpAddr, addresses: Addresses) {
        if self.young.len() >= GENERATION_MAX && !self.young.contains_key(&(segment, ip)) {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert((segment, ip), addresses);
    }
}

impl Addresses {
    fn move_to(&mut self, mac: Mac, order: u64, now: Instant) {
        let [first, second, _] = self.past;
        self.past = [Some(self.current), first, second];
        (self.current, self.order, self.changed) = (mac, order, now);
    }
}

/// Bytes in front of the packet.
const ETHERNET_LEN: usize = 14;
const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Hardware Ethernet, protocol IPv4, with their lengths of addresses (RFC 826).
const ARP_OF_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// "Override" of an advertisement: it changes what is known (RFC 4861 §7.2.5).
const OVERRIDES: u8 = 0x20;

/// The host that a frame without its tag says to be at an Ethernet address, by ARP or Neighbor Discovery.
pub(super) fn announcement(frame: &[u8]) -> Option<(IpAddr, Mac)> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET_LEN)?;
    let kind = ethernet.get(12..14)?;
    let (ip, mac) = if kind == ARP {
        of_arp(packet)?
    } else if kind == IPV6 {
        of_neighbor_discovery(packet)?
    } else {
        return None;
    };
    let is_a_hosts = mac[0] & 1 == 0 && mac != [0; 6] && !ip.is_unspecified() && !ip.is_multicast();
    is_a_hosts.then_some((ip, mac))
}

/// Addresses that the sender of a request or a reply states of itself (RFC 826).
fn of_arp(packet: &[u8]) -> Option<(IpAddr, Mac)> {
    let is_of_ipv4 = packet.get(..6)? == ARP_OF_IPV4 && matches!(packet.get(6..8)?, [0, 1 | 2]);
    let ip: [u8; 4] = packet.get(14..18)?.try_into().ok()?;
    let mac = packet.get(8..14)?.try_into().ok()?;
    is_of_ipv4.then_some((Ipv4Addr::from(ip).into(), mac))
}

/// Of a solicitation its source, of an advertisement its target, with the link-layer address beside it (RFC
/// 4861 §7.1, §7.2).
fn of_neighbor_discovery(packet: &[u8]) -> Option<(IpAddr, Mac)> {
    let [hop_limit, next] = [*packet.get(7)?, *packet.get(6)?];
    let message = packet.get(40..)?;
    let [kind, code] = [*message.first()?, *message.get(1)?];
    if next != ICMPV6 || hop_limit != 255 || code != 0 {
        return None;
    }
    let (ip, option) = match kind {
        SOLICITATION => (packet.get(8..24)?, 1),
        ADVERTISEMENT if message.get(4)? & OVERRIDES != 0 => (message.get(8..24)?, 2),
        _ => return None,
    };
    let len = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
    let message = message.get(..len)?;
    if !has_right_checksum(packet, message) {
        return None;
    }
    let ip: [u8; 16] = ip.try_into().ok()?;
    let mut options = message.get(24..)?;
    while let [number, eights, ..] = *options {
        let (this, rest) = options.split_at_checked(8 * usize::from(eights))?;
        if number == option {
            return Some((Ipv6Addr::from(ip).into(), this.get(2..8)?.try_into().ok()?));
        }
        // One of no length would be there for ever.
        options = (eights > 0).then_some(rest)?;
    }
    None
}

fn has_right_checksum(packet: &[u8], message: &[u8]) -> bool {
    let addresses = packet.get(8..40).unwrap_or_default();
    let len = (message.len() as u32).to_be_bytes();
    let pseudo = [addresses, &len, &[0, 0, 0, ICMPV6]].concat();
    let words = [&pseudo[..], message].concat();
    wire::checksum::sum(&words) == 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Segment = Segment { side: Port::Mobile, vlan: None };

    fn ip(n: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, n).into()
    }

    fn mac(n: u8) -> Mac {
        [2, 0, 0, 0, 0, n]
    }

    fn neighbors() -> Neighbors {
        Neighbors::new(&FixedState::with_seed(1))
    }

    fn s(seconds: u64) -> Instant {
        Instant::from_millis(1_000 * seconds)
    }

    #[test]
    fn a_host_that_says_that_it_has_another_address_is_followed() {
        let mut neighbors = neighbors();
        assert!(!neighbors.announce(HERE, ip(1), mac(1), s(1)));
        let learnt = neighbors.order();
        assert_eq!(neighbors.replaced(HERE, ip(1), mac(1), learnt, true), None);
        assert!(neighbors.announce(HERE, ip(1), mac(2), s(2)));
        assert_eq!(neighbors.replaced(HERE, ip(1), mac(1), learnt, false), Some(mac(2)));
        assert_eq!(neighbors.replaced(HERE, ip(1), mac(2), learnt, true), None, "it has that");
        assert_eq!(neighbors.replaced(HERE, ip(1), mac(1), neighbors.order(), true), None, "learnt since");
        let elsewhere = Segment { side: Port::Wired, vlan: None };
        assert_eq!(neighbors.replaced(elsewhere, ip(1), mac(1), learnt, true), None);
        // Twice since it was learnt.
        neighbors.announce(HERE, ip(1), mac(3), s(3));
        assert_eq!(neighbors.replaced(HERE, ip(1), mac(1), learnt, false), Some(mac(3)));
    }

    #[test]
    fn who_was_not_heard_before_is_followed_from_where_its_segments_came() {
        let mut neighbors = neighbors();
        let learnt = neighbors.order();
        neighbors.announce(HERE, ip(1), mac(2), s(1));
        assert_eq!(neighbors.replaced(HERE, ip(1), mac(1), learnt, true), Some(mac(2)));
        // A router's address in front of its packets is not its own.
        assert_eq!(neighbors.replaced(HERE, ip(1), mac(9), learnt, false), None);
    }

    #[test]
    fn hosts_behind_a_router_follow_it() {
        let mut neighbors = neighbors();
        neighbors.announce(HERE, ip(254), mac(9), s(1));
        let learnt = neighbors.order();
        neighbors.announce(HERE, ip(254), mac(8), s(2));
        assert_eq!(neighbors.replaced(HERE, ip(1), mac(9), learnt, true), Some(mac(8)));
        // One that is known by itself does not.
        neighbors.announce(HERE, ip(2), mac(9), s(2));
        assert_eq!(neighbors.replaced(HERE, ip(2), mac(9), learnt, true), None);
    }

    #[test]
    fn frames_to_the_old_address_are_under_way_for_a_while() {
        let mut neighbors = neighbors();
        neighbors.announce(HERE, ip(1), mac(1), s(1));
        neighbors.announce(HERE, ip(1), mac(2), s(10));
        assert_eq!(neighbors.replaced_lately(HERE, ip(1), mac(1), (false, s(11))), Some(mac(2)));
        assert_eq!(neighbors.replaced_lately(HERE, ip(1), mac(1), (false, s(12))), None);
        assert_eq!(neighbors.replaced_lately(HERE, ip(1), mac(3), (false, s(11))), None);
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let mut neighbors = neighbors();
        neighbors.announce(HERE, ip(1), mac(1), s(1));
        for n in 0..3 * GENERATION_MAX as u32 {
            let other = Ipv4Addr::from(n).into();
            neighbors.announce(HERE, other, mac(7), s(2));
            neighbors.announce(HERE, other, mac(8), s(2));
            neighbors.announce(HERE, ip(1), mac(1), s(2));
        }
        assert!(neighbors.young.len() + neighbors.old.len() <= 2 * GENERATION_MAX);
        assert!(neighbors.moved.len() <= MOVED_MAX);
        assert!(neighbors.announce(HERE, ip(1), mac(2), s(3)), "it was known");
    }

    fn arp(operation: u8, sender: u8, mac_of_sender: Mac) -> Vec<u8> {
        let body: [&[u8]; 7] = [
            &ARP_OF_IPV4,
            &[0, operation],
            &mac_of_sender,
            &[10, 0, 0, sender],
            &[0; 6],
            &[10, 0, 0, sender],
            &[0; 18],
        ];
        [&[0xff; 6][..], &mac_of_sender, &ARP, &body.concat()].concat()
    }

    #[test]
    fn arp_tells_of_its_sender() {
        assert_eq!(announcement(&arp(1, 7, mac(3))), Some((ip(7), mac(3))));
        assert_eq!(announcement(&arp(2, 7, mac(3))), Some((ip(7), mac(3))));
        assert_eq!(announcement(&arp(3, 7, mac(3))), None, "no request and no reply");
        assert_eq!(announcement(&arp(2, 7, [1; 6])), None, "a group's address");
        let mut probe = arp(1, 0, mac(3));
        probe[28..32].fill(0);
        assert_eq!(announcement(&probe), None, "it asks whether an address is free (RFC 5227)");
        for len in 0..42 {
            assert_eq!(announcement(&arp(1, 7, mac(3))[..len.min(31)]), None, "cut to {len}");
        }
    }

    fn discovery(kind: u8, flags: u8, option: u8, hop_limit: u8) -> Vec<u8> {
        let [source, target]: [Ipv6Addr; 2] = ["fe80::7".parse().unwrap(), "fe80::8".parse().unwrap()];
        let mut message = [&[kind, 0, 0, 0, flags, 0, 0, 0][..], &target.octets()].concat();
        // An option that nobody knows, in front.
        message.extend([[77, 1, 0, 0, 0, 0, 0, 0], [option, 1, 2, 0, 0, 0, 0, 5]].concat());
        let len = message.len() as u8;
        let header =
            [&[0x60, 0, 0, 0, 0, len, ICMPV6, hop_limit][..], &source.octets(), &[0xff; 16]].concat();
        let pseudo = [&header[8..40], &[0, 0, 0, len, 0, 0, 0, ICMPV6], &message].concat();
        let checksum = !wire::checksum::sum(&pseudo);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        [&[0x33; 6][..], &mac(5), &IPV6, &header, &message].concat()
    }

    #[test]
    fn neighbor_discovery_tells_of_its_source_or_its_target() {
        let host = |text: &str| IpAddr::V6(text.parse().unwrap());
        assert_eq!(announcement(&discovery(135, 0, 1, 255)), Some((host("fe80::7"), mac(5))));
        assert_eq!(announcement(&discovery(136, OVERRIDES, 2, 255)), Some((host("fe80::8"), mac(5))));
        assert_eq!(announcement(&discovery(136, 0, 2, 255)), None, "it changes nothing that is known");
        assert_eq!(announcement(&discovery(136, OVERRIDES, 1, 255)), None, "no target's address");
        assert_eq!(announcement(&discovery(135, 0, 1, 254)), None, "from another link (RFC 4861 §7.1.1)");
        let mut damaged = discovery(135, 0, 1, 255);
        damaged[60] ^= 1;
        assert_eq!(announcement(&damaged), None);
        let whole = discovery(135, 0, 1, 255);
        for len in 0..whole.len() {
            assert_eq!(announcement(&whole[..len]), None, "cut to {len}");
        }
        let mut endless = discovery(135, 0, 1, 255);
        endless[14 + 40 + 24 + 1] = 0;
        assert_eq!(announcement(&endless), None);
    }
}
