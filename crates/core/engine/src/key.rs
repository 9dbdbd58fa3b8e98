//! [`FlowKey`], [`SharingKey`]: what a flow and a subscriber are known by.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::{Ip, Tcp, protocol};

use crate::direction::{Direction, End};

/// Bytes of a [`FlowKey`]: two addresses, two ports, the version.
const KEY_LEN: usize = 16 + 16 + 2 + 2 + 1;

/// A flow: its sink and its source.
///
/// Packed, because every packet compares one that lies somewhere in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, stored::Stored)]
pub(crate) struct FlowKey([u8; KEY_LEN]);

impl FlowKey {
    pub(crate) fn new(sink: SocketAddr, source: SocketAddr) -> Self {
        let mut key = [0; KEY_LEN];
        for (at, host) in [(0, sink), (16, source)] {
            match host.ip() {
                IpAddr::V4(ip) => key[at..at + 4].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => key[at..at + 16].copy_from_slice(&ip.octets()),
            }
        }
        key[32..34].copy_from_slice(&sink.port().to_be_bytes());
        key[34..36].copy_from_slice(&source.port().to_be_bytes());
        key[36] = u8::from(sink.is_ipv6());
        Self(key)
    }

    /// The flow that a segment which came from `from` belongs to.
    pub(crate) fn of(ip: &Ip, tcp: &Tcp, from: End) -> Self {
        let sender = SocketAddr::new(ip.src, tcp.src_port);
        let receiver = SocketAddr::new(ip.dst, tcp.dst_port);
        match from {
            End::Sink => Self::new(sender, receiver),
            End::Source => Self::new(receiver, sender),
        }
    }

    /// The flow a packet seems to belong to: a glance at a plain TCP packet, nothing of it is checked.
    #[inline]
    pub(crate) fn glance(packet: &[u8], from: End) -> Option<Self> {
        let (hosts, ports) = match packet.first()? {
            0x45 if packet.get(9) == Some(&protocol::TCP) => (packet.get(12..20)?, packet.get(20..24)?),
            first if first >> 4 == 6 && packet.get(6) == Some(&protocol::TCP) => {
                (packet.get(8..40)?, packet.get(40..44)?)
            }
            _ => return None,
        };
        let (sender, receiver) = hosts.split_at(hosts.len() / 2);
        let (sink, source, sink_port, source_port) = match from {
            End::Sink => (sender, receiver, &ports[..2], &ports[2..]),
            End::Source => (receiver, sender, &ports[2..], &ports[..2]),
        };
        let mut key = [0; KEY_LEN];
        key[..sink.len()].copy_from_slice(sink);
        key[16..16 + source.len()].copy_from_slice(source);
        key[32..34].copy_from_slice(sink_port);
        key[34..36].copy_from_slice(source_port);
        key[36] = u8::from(hosts.len() > 8);
        Some(Self(key))
    }

    pub(crate) fn is_ipv4(&self) -> bool {
        self.0[36] == 0
    }

    pub(crate) fn sink(&self) -> SocketAddr {
        self.host(0, 32)
    }

    pub(crate) fn source(&self) -> SocketAddr {
        self.host(16, 34)
    }

    /// Client and server, where data goes as `direction` says.
    pub(crate) fn client_and_server(&self, direction: Direction) -> (SocketAddr, SocketAddr) {
        match direction {
            Direction::Downlink => (self.sink(), self.source()),
            Direction::Uplink => (self.source(), self.sink()),
        }
    }

    /// The client, where data goes as `direction` says, as far as it makes a subscriber.
    pub(crate) fn client(&self, direction: Direction, ipv6_prefix_len: u8) -> IpAddr {
        subscriber_key(self.client_and_server(direction).0.ip(), ipv6_prefix_len)
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
        write!(f, "{} <- {}", self.sink(), self.source())
    }
}

/// Key of the flows that share a controller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, stored::Stored)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_back_what_it_was_made_of() {
        for (sink, source) in [
            ("10.0.0.7:40000", "192.0.2.1:443"),
            ("[2001:db8::7]:1", "[2001:db8:1:2:3:4:5:6]:65535"),
            ("[::ffff:10.0.0.7]:40000", "[::ffff:192.0.2.1]:443"),
        ] {
            let (sink, source): (SocketAddr, SocketAddr) = (sink.parse().unwrap(), source.parse().unwrap());
            let key = FlowKey::new(sink, source);
            assert_eq!((key.sink(), key.source(), key.is_ipv4()), (sink, source, sink.is_ipv4()));
            assert_eq!(key.client_and_server(Direction::Downlink), (sink, source));
            assert_eq!(key.client_and_server(Direction::Uplink), (source, sink));
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
            for from in [End::Source, End::Sink] {
                let looked = FlowKey::of(&parsed.ip, parsed.tcp().unwrap(), from);
                assert_eq!(FlowKey::glance(&buf[..len], from), Some(looked));
            }
            (0..20).for_each(|short| assert_eq!(FlowKey::glance(&buf[..short], End::Source), None));
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
