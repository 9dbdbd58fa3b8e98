//! Keys and the tables behind them.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use wire::{Packet, Tcp, protocol};

use crate::Port;
use crate::flow::Flow;
use crate::slab::Slab;
use crate::subscriber::Subscriber;

/// Bytes of a [`FlowKey`]: two addresses, two ports, the version.
const KEY_LEN: usize = 16 + 16 + 2 + 2 + 1;

/// A flow: the client behind the mobile port and the server behind the wired one.
///
/// Packed, because every packet compares one that lies somewhere in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FlowKey([u8; KEY_LEN]);

impl FlowKey {
    pub(crate) fn new(client: SocketAddr, server: SocketAddr) -> Self {
        let mut key = [0; KEY_LEN];
        for (at, host) in [(0, client), (16, server)] {
            match host.ip() {
                IpAddr::V4(ip) => key[at..at + 4].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => key[at..at + 16].copy_from_slice(&ip.octets()),
            }
        }
        key[32..34].copy_from_slice(&client.port().to_be_bytes());
        key[34..36].copy_from_slice(&server.port().to_be_bytes());
        key[36] = u8::from(client.is_ipv6());
        Self(key)
    }

    /// The flow a segment belongs to, given the port it came in at.
    pub(crate) fn of(packet: &Packet, tcp: &Tcp, from: Port) -> Self {
        let source = SocketAddr::new(packet.ip.src, tcp.src_port);
        let destination = SocketAddr::new(packet.ip.dst, tcp.dst_port);
        match from {
            Port::Mobile => Self::new(source, destination),
            Port::Wired => Self::new(destination, source),
        }
    }

    /// The flow a packet seems to belong to: a glance at a plain TCP packet, nothing of it is checked.
    #[inline]
    pub(crate) fn glance(packet: &[u8], from: Port) -> Option<Self> {
        let (hosts, ports) = match packet.first()? {
            0x45 if packet.get(9) == Some(&protocol::TCP) => (packet.get(12..20)?, packet.get(20..24)?),
            first if first >> 4 == 6 && packet.get(6) == Some(&protocol::TCP) => {
                (packet.get(8..40)?, packet.get(40..44)?)
            }
            _ => return None,
        };
        let (source, destination) = hosts.split_at(hosts.len() / 2);
        let (client, server, client_port, server_port) = match from {
            Port::Mobile => (source, destination, &ports[..2], &ports[2..]),
            Port::Wired => (destination, source, &ports[2..], &ports[..2]),
        };
        let mut key = [0; KEY_LEN];
        key[..client.len()].copy_from_slice(client);
        key[16..16 + server.len()].copy_from_slice(server);
        key[32..34].copy_from_slice(client_port);
        key[34..36].copy_from_slice(server_port);
        key[36] = u8::from(hosts.len() > 8);
        Some(Self(key))
    }

    pub(crate) fn is_ipv4(&self) -> bool {
        self.0[36] == 0
    }

    pub(crate) fn client(&self) -> SocketAddr {
        self.host(0, 32)
    }

    pub(crate) fn server(&self) -> SocketAddr {
        self.host(16, 34)
    }

    fn host(&self, at: usize, port: usize) -> SocketAddr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.0[at..at + 16]);
        let [a, b, c, d, ..] = octets;
        let ip =
            if self.is_ipv4() { Ipv4Addr::new(a, b, c, d).into() } else { Ipv6Addr::from(octets).into() };
        SocketAddr::new(ip, u16::from_be_bytes([self.0[port], self.0[port + 1]]))
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <- {}", self.client(), self.server())
    }
}

/// What shares a controller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SharingKey {
    /// A subscriber: an address or the start of a prefix.
    Address(IpAddr),
    Flow(FlowKey),
}

/// The address whose flows share one radio queue: an IPv4 address, or an IPv6 prefix (H14).
pub(crate) fn subscriber_key(client: IpAddr, ipv6_prefix_len: u8) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => {
            let host_bits = 128 - u32::from(ipv6_prefix_len.min(128));
            let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

/// What is found by a key of its own.
pub(crate) trait Keyed {
    type Key: Eq + Hash;
    fn key(&self) -> &Self::Key;
}

impl Keyed for Flow {
    type Key = FlowKey;
    fn key(&self) -> &FlowKey {
        &self.key
    }
}

impl Keyed for Subscriber {
    type Key = SharingKey;
    fn key(&self) -> &SharingKey {
        &self.key
    }
}

/// Where a thing lies, with a part of its key's hash: most look-ups end here, and a larger table needs no look at the
/// things.
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

/// Where in a slab things lie, by their keys. The keys stay with the things; never iterated: its order depends on the
/// seed.
#[derive(Debug)]
pub(crate) struct Index {
    places: HashTable<Place>,
    hasher: FixedState,
}

impl Index {
    pub(crate) fn new(seed: u64) -> Self {
        Self { places: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    /// The part of a key's hash that is kept.
    #[inline]
    pub(crate) fn hash<K: Hash>(&self, key: &K) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    /// Where the key with this hash most likely lies: found without a look at it.
    #[inline]
    pub(crate) fn likely(&self, hash: u32) -> Option<u32> {
        self.places.find(Place::spread(hash), |place| place.hash == hash).map(|place| place.id)
    }

    /// Where `key` lies in `slab`.
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
    use super::*;

    #[test]
    fn a_key_gives_back_what_it_was_made_of() {
        for (client, server) in [
            ("10.0.0.7:40000", "192.0.2.1:443"),
            ("[2001:db8::7]:1", "[2001:db8:1:2:3:4:5:6]:65535"),
            ("[::ffff:10.0.0.7]:40000", "[::ffff:192.0.2.1]:443"),
        ] {
            let (client, server): (SocketAddr, SocketAddr) =
                (client.parse().unwrap(), server.parse().unwrap());
            let key = FlowKey::new(client, server);
            assert_eq!((key.client(), key.server(), key.is_ipv4()), (client, server, client.is_ipv4()));
        }
        let [v4, v6] = ["10.0.0.7:1", "[a00:7::]:1"].map(|host| host.parse().unwrap());
        assert_ne!(FlowKey::new(v4, v4), FlowKey::new(v6, v6), "the same octets");
    }

    #[test]
    fn a_glance_finds_the_same_flow_as_a_look() {
        let mut buf = [0; wire::TcpHeaderSpec::MAX_LEN];
        for (a, b) in
            [("10.0.0.7:40000", "192.0.2.1:443"), ("[2001:db8::7]:1", "[2001:db8:1:2:3:4:5:6]:65535")]
        {
            let (a, b): (SocketAddr, SocketAddr) = (a.parse().unwrap(), b.parse().unwrap());
            let number = units::SeqNum::new(1);
            let spec = wire::TcpHeaderSpec::new(a, b, number, number, wire::TcpFlags::ACK);
            let len = spec.emit(&mut buf, &[]).unwrap().len;
            let parsed = wire::parse(&buf[..len]).unwrap();
            for from in [Port::Wired, Port::Mobile] {
                let looked = FlowKey::of(&parsed, parsed.tcp().unwrap(), from);
                assert_eq!(FlowKey::glance(&buf[..len], from), Some(looked));
            }
            (0..20).for_each(|short| assert_eq!(FlowKey::glance(&buf[..short], Port::Wired), None));
        }
    }

    #[test]
    fn subscribers_are_v4_addresses_and_v6_prefixes() {
        let v4: IpAddr = "10.0.0.7".parse().unwrap();
        assert_eq!(subscriber_key(v4, 64), v4);
        let a: IpAddr = "2001:db8:1:2:3:4:5:6".parse().unwrap();
        let b: IpAddr = "2001:db8:1:2:ffff::1".parse().unwrap();
        let c: IpAddr = "2001:db8:1:3::1".parse().unwrap();
        assert_eq!(subscriber_key(a, 64), subscriber_key(b, 64));
        assert_ne!(subscriber_key(a, 64), subscriber_key(c, 64));
        assert_eq!(subscriber_key(a, 128), a);
    }
}
