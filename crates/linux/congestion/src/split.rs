//! [`Split`]: which of two congestion controls a connection uses. `group_of` of `bpf/compare.bpf.c` is the same; the
//! program decides, and tests compare both.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use units::{GOLDEN_GAMMA, mix64};

/// Input of the hash, and unit that counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// An IPv4 address, or the first 64 bits of an IPv6 one: all connections of a client are in one group.
    Client,
    /// Each connection for itself.
    Connection,
}

impl Unit {
    /// Several of them, in words.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Client => "clients",
            Self::Connection => "connections",
        }
    }

    /// One of them.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Connection => "connection",
        }
    }
}

/// The group of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Group {
    /// It uses the other congestion control.
    Other,
    /// It uses `adaptive`.
    Adaptive,
}

impl Group {
    /// Both, in the order of the program's numbers.
    pub const ALL: [Self; 2] = [Self::Other, Self::Adaptive];
}

/// Two halves of all clients or connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Another seed makes other halves; the same one always the same.
    pub seed: u64,
    /// Input of the hash.
    pub by: Unit,
}

impl Split {
    /// The group of a connection between two ends.
    #[must_use]
    pub fn group(&self, remote: SocketAddr, own: SocketAddr) -> Group {
        self.of(&Ends::between(remote, own))
    }

    pub(crate) fn of(&self, ends: &Ends) -> Group {
        let mut hash = mix(mix(mix(self.seed) ^ ends.network) ^ ends.is_ipv6);
        if self.by == Unit::Connection {
            hash = mix(mix(hash ^ ends.host) ^ ends.ports);
            hash = mix(mix(hash ^ ends.own_network) ^ ends.own_host);
        }
        if hash >> 63 == 1 { Group::Adaptive } else { Group::Other }
    }
}

/// `struct ends`: the ends of a connection, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub network: u64,
    pub host: u64,
    pub is_ipv6: u64,
    pub ports: u64,
    pub own_network: u64,
    pub own_host: u64,
}

/// Bytes of `struct ends`.
#[cfg(test)]
pub(crate) const ENDS_LEN: usize = 6 * 8;

#[cfg(test)]
impl Ends {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let words = [self.network, self.host, self.is_ipv6, self.ports, self.own_network, self.own_host];
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }
}

impl Ends {
    fn between(remote: SocketAddr, own: SocketAddr) -> Self {
        let ports = u64::from(own.port()) << 32 | u64::from(remote.port());
        let halves = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(address) => (u64::from(address.to_bits()), 0, 0),
            IpAddr::V6(address) => ((address.to_bits() >> 64) as u64, address.to_bits() as u64, 1),
        };
        let (network, host, is_ipv6) = halves(remote.ip());
        let (own_network, own_host, _) = halves(own.ip());
        Self { network, host, is_ipv6, ports, own_network, own_host }
    }
}

/// SplitMix64's output function: every bit of the result depends on every bit of the argument.
const fn mix(x: u64) -> u64 {
    mix64(x.wrapping_add(GOLDEN_GAMMA))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "192.0.2.1:443";

    fn adaptive(split: Split, remotes: impl Iterator<Item = String>) -> usize {
        let of = |remote: String| split.group(remote.parse().unwrap(), OWN.parse().unwrap());
        remotes.filter(|remote| of(remote.clone()) == Group::Adaptive).count()
    }

    /// Of 4,096 a half differs by more than 192, six times the deviation, once in 500 million seeds.
    fn is_half(count: usize) -> bool {
        (2_048 - 192..=2_048 + 192).contains(&count)
    }

    #[test]
    fn about_half_of_neighbouring_clients_and_of_one_clients_connections() {
        for seed in [0, 1, 2, u64::MAX] {
            let clients = Split { seed, by: Unit::Client };
            let ipv4 = (0..4_096).map(|n| format!("10.7.{}.{}:50000", n >> 8, n & 255));
            let ipv6 = (0..4_096).map(|n| format!("[2001:db8:0:{n:x}::7]:50000"));
            let ports = || (0..4_096).map(|n| format!("10.7.0.9:{}", 40_000 + n));
            let counts = [
                adaptive(clients, ipv4),
                adaptive(clients, ipv6),
                adaptive(Split { seed, by: Unit::Connection }, ports()),
            ];
            assert!(counts.into_iter().all(is_half), "seed {seed}: {counts:?}");
            let one = adaptive(clients, ports());
            assert!(one == 0 || one == 4_096, "all connections of a client are in one group: {one}");
        }
    }

    #[test]
    fn the_same_seed_is_the_same_half_and_another_one_another() {
        let groups = |seed| {
            let split = Split { seed, by: Unit::Client };
            let of = |n: u8| split.group(SocketAddr::from(([10, 7, 0, n], 1)), OWN.parse().unwrap());
            (0..=255).map(of).collect::<Vec<_>>()
        };
        assert_eq!(groups(5), groups(5));
        let changed = groups(5).iter().zip(groups(6)).filter(|(a, b)| **a != *b).count();
        assert!((64..=192).contains(&changed), "of 256 clients {changed} changed");
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_a_64_however_it_comes() {
        for seed in 0..64 {
            let split = Split { seed, by: Unit::Client };
            let of = |remote: &str, own: &str| split.group(remote.parse().unwrap(), own.parse().unwrap());
            let plain = of("10.7.0.9:1", OWN);
            assert_eq!(plain, of("[::ffff:10.7.0.9]:2", "[::ffff:192.0.2.1]:443"), "a socket of IPv6");
            assert_eq!(of("[2001:db8::1]:1", OWN), of("[2001:db8::abcd:0:0:9]:2", OWN), "seed {seed}");
        }
        let split = |seed| Split { seed, by: Unit::Client };
        let differ = |seed| {
            let of = |n: u8| {
                split(seed).group(format!("[::ffff:10.7.0.{n}]:1").parse().unwrap(), OWN.parse().unwrap())
            };
            of(1) != of(2)
        };
        assert!((0..64).any(differ), "IPv4 clients of a socket of IPv6 are told apart");
    }
}
