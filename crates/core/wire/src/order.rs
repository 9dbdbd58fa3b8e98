//! [`HandoverOrder`]: a base station, or who controls the network, has a subscriber handed over. `docs/feedback.md`.
//!
//! ```text
//!    0               2        3        4                               8
//!   +---------------+--------+--------+-------------------------------+
//!   | magic 0xCE12  | version| flags  | sender                        |
//!   +---------------+--------+--------+-------------------------------+  8
//!   | sequence                                                        |
//!   +-----------------------------------------------------------------+ 16
//!   | time, µs since 1970-01-01 UTC                                   |
//!   +-----------------------------------------------------------------+ 24
//!   | subscriber: IPv6 address, or IPv4 in its first four bytes       |
//!   |                                                                 |
//!   +-----------------------------------------------------------------+ 40
//!   | name of the peer that takes it: UTF-8, filled up with zeros     |
//!   | (32 bytes)                                                      |
//!   +-----------------------------------------------------------------+ 72
//!   | first 16 bytes of HMAC-SHA-256 over all before                  |
//!   |                                                                 |
//!   +-----------------------------------------------------------------+ 88
//! ```
//!
//! All numbers are big-endian. An order is always signed.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::feedback::u64_at;
use crate::octets::{put, u16_at, u32_at};
use crate::{FeedbackError, FeedbackKey};

const MAGIC: u16 = 0xce12;
const VERSION: u8 = 1;
const IS_IPV4: u8 = 1;
const SIGNED_LEN: usize = 72;
const TAG_LEN: usize = 16;

/// An order to hand a subscriber over to another box.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandoverOrder {
    /// A number that the sender draws at its start: sequence numbers count within it.
    pub sender: u32,
    /// One more with every order of the sender.
    pub sequence: u64,
    /// Time at which it was made, µs since the UNIX epoch.
    pub time_us: u64,
    /// Address of the subscriber that is to move.
    pub subscriber: IpAddr,
    /// Name of the receiver's peer to move to: 1 to [`HandoverOrder::PEER_LEN_MAX`] bytes.
    pub peer: String,
}

impl HandoverOrder {
    /// Bytes of an order.
    pub const LEN: usize = SIGNED_LEN + TAG_LEN;

    /// Bytes of a peer's name at most.
    pub const PEER_LEN_MAX: usize = 32;

    /// True for bytes that begin as an order does.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.len() >= 2 && u16_at(bytes, 0) == MAGIC
    }

    /// Writes it, signed; none when the peer's name is empty, too long, or has a zero in it.
    #[must_use]
    pub fn encode(&self, key: &FeedbackKey) -> Option<[u8; Self::LEN]> {
        let name = self.peer.as_bytes();
        if name.is_empty() || name.len() > Self::PEER_LEN_MAX || name.contains(&0) {
            return None;
        }
        let mut bytes = [0; Self::LEN];
        put(&mut bytes, 0, &MAGIC.to_be_bytes());
        put(&mut bytes, 2, &[VERSION, if self.subscriber.is_ipv4() { IS_IPV4 } else { 0 }]);
        put(&mut bytes, 4, &self.sender.to_be_bytes());
        put(&mut bytes, 8, &self.sequence.to_be_bytes());
        put(&mut bytes, 16, &self.time_us.to_be_bytes());
        match self.subscriber {
            IpAddr::V4(address) => put(&mut bytes, 24, &address.octets()),
            IpAddr::V6(address) => put(&mut bytes, 24, &address.octets()),
        };
        put(&mut bytes, 40, name);
        let tag = key.tag(bytes.get(..SIGNED_LEN)?);
        put(&mut bytes, SIGNED_LEN, &tag);
        Some(bytes)
    }

    /// Reads one that is signed with `key`.
    ///
    /// # Errors
    /// Why it is none. Without a key there is none.
    pub fn decode(bytes: &[u8], key: Option<&FeedbackKey>) -> Result<Self, FeedbackError> {
        if !Self::is_one(bytes) || bytes.len() < 4 {
            return Err(FeedbackError::Malformed);
        }
        let (version, flags) = (bytes[2], bytes[3]);
        if version != VERSION || flags & !IS_IPV4 != 0 {
            return Err(FeedbackError::Unknown);
        }
        if bytes.len() != Self::LEN {
            return Err(FeedbackError::Malformed);
        }
        let (signed, tag) = bytes.split_at(SIGNED_LEN);
        if !key.is_some_and(|key| key.is_tag(signed, tag)) {
            return Err(FeedbackError::WrongKey);
        }
        let subscriber = if flags & IS_IPV4 != 0 {
            IpAddr::V4(Ipv4Addr::from_bits(u32_at(bytes, 24)))
        } else {
            let high = u128::from(u64_at(bytes, 24));
            IpAddr::V6(Ipv6Addr::from_bits(high << 64 | u128::from(u64_at(bytes, 32))))
        };
        let name = signed.get(40..).unwrap_or_default();
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let (name, rest) = name.split_at(end);
        let peer = core::str::from_utf8(name).map_err(|_| FeedbackError::Malformed)?;
        if peer.is_empty() || rest.iter().any(|byte| *byte != 0) {
            return Err(FeedbackError::Malformed);
        }
        Ok(Self {
            sender: u32_at(bytes, 4),
            sequence: u64_at(bytes, 8),
            time_us: u64_at(bytes, 16),
            subscriber,
            peer: peer.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(subscriber: &str) -> HandoverOrder {
        HandoverOrder {
            sender: 7,
            sequence: 3,
            time_us: 1_700_000_000_000_000,
            subscriber: subscriber.parse().unwrap(),
            peer: "north".to_owned(),
        }
    }

    #[test]
    fn orders_come_back_and_changed_ones_do_not() {
        let key = FeedbackKey::new(b"key").unwrap();
        for subscriber in ["10.45.0.2", "2001:db8::1"] {
            let order = order(subscriber);
            let bytes = order.encode(&key).unwrap();
            assert!(HandoverOrder::is_one(&bytes));
            assert_eq!(HandoverOrder::decode(&bytes, Some(&key)), Ok(order));
            for at in 0..bytes.len() {
                let mut changed = bytes;
                changed[at] ^= 1;
                assert!(HandoverOrder::decode(&changed, Some(&key)).is_err(), "byte {at}");
                assert!(HandoverOrder::decode(&bytes[..at], Some(&key)).is_err(), "{at} bytes");
            }
            assert_eq!(HandoverOrder::decode(&bytes, None), Err(FeedbackError::WrongKey), "without a key");
            let other = FeedbackKey::new(b"another");
            assert_eq!(HandoverOrder::decode(&bytes, other.as_ref()), Err(FeedbackError::WrongKey));
        }
    }

    #[test]
    fn a_peer_has_a_name_of_1_to_32_bytes() {
        let key = FeedbackKey::new(b"key").unwrap();
        let named = |peer: &str| HandoverOrder { peer: peer.to_owned(), ..order("10.45.0.2") }.encode(&key);
        assert!(named("").is_none() && named(&"x".repeat(33)).is_none() && named("a\0b").is_none());
        let longest = named(&"x".repeat(32)).unwrap();
        assert_eq!(HandoverOrder::decode(&longest, Some(&key)).unwrap().peer.len(), 32);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_order_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let key = FeedbackKey::new(b"key");
            prop_assert!(HandoverOrder::decode(&bytes, key.as_ref()).is_err());
        }
    }
}
