//! Keys and the tables behind them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use foldhash::fast::FixedState;
use wire::{Packet, Tcp};

use crate::Port;

/// A flow: the client behind the mobile port and the server behind the wired one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FlowKey {
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

impl FlowKey {
    /// The flow a segment belongs to, given the port it came in at.
    pub(crate) fn of(packet: &Packet, tcp: &Tcp, from: Port) -> Self {
        let source = SocketAddr::new(packet.ip.src, tcp.src_port);
        let destination = SocketAddr::new(packet.ip.dst, tcp.dst_port);
        match from {
            Port::Mobile => Self { client: source, server: destination },
            Port::Wired => Self { client: destination, server: source },
        }
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

/// A hash map that is only looked up, never iterated: its order depends on the seed.
pub(crate) type Index<K> = HashMap<K, u32, FixedState>;

#[cfg(test)]
mod tests {
    use super::*;

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
