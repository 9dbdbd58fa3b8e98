//! [`Rights`]: which subscribers a box may take from here, and give to here.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Addresses that have their first bits in common: `10.45.0.0/16`, `2001:db8::/32`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// True for an address with these first bits.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let is_same_family = self.address.is_ipv4() == address.is_ipv4();
        is_same_family && masked(address, self.len) == self.address
    }

    /// The first address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Length in bits, 0 to 32 or to 128.
    #[must_use]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// True where all addresses of the family are meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("'{text}' is no prefix of addresses, such as 10.45.0.0/16 or 2001:db8::/32");
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse::<u8>().map_err(|_| form())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let len = len.unwrap_or(bits);
        if len > bits {
            return Err(format!("'{text}': a prefix of this family has {bits} bits at most"));
        }
        let first = masked(address, len);
        if first != address {
            return Err(format!("'{text}' has bits behind its prefix: '{first}/{len}' is meant?"));
        }
        Ok(Self { address, len })
    }
}

/// The first `len` bits of an address, the others 0.
fn masked(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let bits = 32 - u32::from(len.min(32));
            IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(bits).unwrap_or(0)).into())
        }
        IpAddr::V6(v6) => {
            let bits = 128 - u32::from(len.min(128));
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(bits).unwrap_or(0)))
        }
    }
}

/// The subscriber that an address belongs to: an IPv4 address, or the first `ipv6_prefix_len` bits of an IPv6 address.
pub(crate) fn subscriber_of(address: IpAddr, ipv6_prefix_len: u8) -> IpAddr {
    if address.is_ipv4() { address } else { masked(address, ipv6_prefix_len) }
}

/// Rights of a box to move subscribers. Without prefixes: every subscriber.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rights {
    /// Subscribers that it may take from here; none means all.
    pub takes: Option<Vec<Prefix>>,
    /// Subscribers that it may give to here; none means all.
    pub gives: Option<Vec<Prefix>>,
}

impl Rights {
    /// True when it may take this subscriber from here.
    #[must_use]
    pub fn may_take(&self, subscriber: IpAddr) -> bool {
        may(self.takes.as_deref(), subscriber)
    }

    /// True when it may give this subscriber to here.
    #[must_use]
    pub fn may_give(&self, subscriber: IpAddr) -> bool {
        may(self.gives.as_deref(), subscriber)
    }
}

fn may(prefixes: Option<&[Prefix]>, subscriber: IpAddr) -> bool {
    let is_host = !subscriber.is_unspecified() && !subscriber.is_multicast() && !subscriber.is_loopback();
    is_host && prefixes.is_none_or(|all| all.iter().any(|prefix| prefix.contains(subscriber)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_compared_by_their_bits() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        let has = |text: &str, address: &str| prefix(text).contains(address.parse().unwrap());
        assert!(has("10.45.0.0/16", "10.45.255.255") && !has("10.45.0.0/16", "10.46.0.0"));
        assert!(
            has("10.45.0.2", "10.45.0.2") && !has("10.45.0.2", "10.45.0.3"),
            "without a length: one address"
        );
        assert!(has("0.0.0.0/0", "192.0.2.1") && !has("0.0.0.0/0", "::1"), "of one family");
        assert!(has("2001:db8::/32", "2001:db8:ffff::1") && !has("2001:db8::/32", "2001:db9::"));
        assert!(!has("::/0", "10.0.0.1") && has("::/0", "fd00::1"));
        assert_eq!(prefix("2001:db8::/32").to_string(), "2001:db8::/32");
        for (text, part) in [
            ("10.45.0.0/33", "32 bits at most"),
            ("10.45.0.1/16", "'10.45.0.0/16' is meant"),
            ("2001:db8::/129", "128 bits at most"),
            ("10.45/16", "is no prefix"),
            ("north", "is no prefix"),
            ("10.45.0.0/", "is no prefix"),
            ("", "is no prefix"),
        ] {
            let problem = text.parse::<Prefix>().unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn without_prefixes_every_host_may_move_and_with_them_those() {
        let who: IpAddr = "10.45.0.2".parse().unwrap();
        assert!(Rights::default().may_give(who) && Rights::default().may_take(who));
        for none in ["0.0.0.0", "224.0.0.1", "127.0.0.1", "::", "ff02::1"] {
            assert!(!Rights::default().may_give(none.parse().unwrap()), "{none}");
        }
        let rights = Rights { takes: Some(Vec::new()), gives: Some(vec!["10.45.0.0/24".parse().unwrap()]) };
        assert!(rights.may_give(who) && !rights.may_take(who));
        assert!(!rights.may_give("10.45.1.2".parse().unwrap()));
    }
}
