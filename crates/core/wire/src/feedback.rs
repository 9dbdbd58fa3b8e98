//! [`FeedbackDatagram`]: a base station's report in a UDP datagram. `docs/feedback.md`.
//!
//! ```text
//!    0               2        3        4                               8
//!   +---------------+--------+--------+-------------------------------+
//!   | magic 0xCE11  | version| flags  | sender                        |
//!   +---------------+--------+--------+-------------------------------+  8
//!   | sequence                                                        |
//!   +-----------------------------------------------------------------+ 16
//!   | timestamp, µs                                                   |
//!   +-----------------------------------------------------------------+ 24
//!   | bandwidth, bit/s                                                |
//!   +-------------------------------+---------------------------------+ 32
//!   | queue, bytes                  | validity, ms                    |
//!   +-------------------------------+---------------------------------+ 40
//!   | subscriber: IPv6 address, or IPv4 in its first four bytes       |
//!   |                                                                 |
//!   +-----------------------------------------------------------------+ 56
//!   | first 16 bytes of HMAC-SHA-256 over all before, if flagged      |
//!   |                                                                 |
//!   +-----------------------------------------------------------------+ 72
//! ```
//!
//! All numbers are big-endian. A datagram is exactly as long as its flags say.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use units::{Bytes, Duration, Rate};

use crate::octets::{put, u16_at, u32_at};

const MAGIC: u16 = 0xce11;
const VERSION: u8 = 1;
/// Length without a tag, bytes.
const LEN: usize = 56;
/// Length of a tag, bytes: RFC 2104 §5 asks for at least half of the hash.
const TAG_LEN: usize = 16;

const HAS_BANDWIDTH: u8 = 1 << 0;
const HAS_QUEUE: u8 = 1 << 1;
const IS_THROUGHPUT: u8 = 1 << 2;
const IS_IPV4: u8 = 1 << 3;
const IS_SYNCHRONISED: u8 = 1 << 4;
const IS_SIGNED: u8 = 1 << 7;
const KNOWN_FLAGS: u8 = HAS_BANDWIDTH | HAS_QUEUE | IS_THROUGHPUT | IS_IPV4 | IS_SYNCHRONISED | IS_SIGNED;

/// A report about one subscriber's downlink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeedbackDatagram {
    /// A number the sender draws at its start: sequence numbers count within it.
    pub sender: u32,
    /// Number that grows by one with every datagram of the sender, no matter whom it is about.
    pub sequence: u64,
    /// Time of the measurement, µs by the sender's clock; since the UNIX epoch if `is_synchronised`.
    pub timestamp_us: u64,
    /// The sender's clock agrees with others' to far less than the path's delay (NTP, PTP).
    pub is_synchronised: bool,
    /// Address of the subscriber that it is about.
    pub subscriber: IpAddr,
    /// Rate that the link could carry for it, IP packets with their headers; none if not known.
    pub bandwidth: Option<Rate>,
    /// The bandwidth is what was carried, a lower bound while the queue is empty.
    pub is_throughput: bool,
    /// Bytes that wait for the link, IP packets with their headers, at most 4 GiB; none if not known.
    pub queue: Option<Bytes>,
    /// Time after the measurement for which it may be used, whole ms; zero if it does not say.
    pub validity: Duration,
}

/// Reason why bytes are no report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FeedbackError {
    /// Not one of these datagrams, or cut.
    #[error("no feedback datagram, or not of the length its flags say")]
    Malformed,
    /// A version or a flag that this program does not know.
    #[error("a feedback datagram of a version that is not known here")]
    Unknown,
    /// A key is set, and the tag is missing or made with another one.
    #[error("its tag is missing or made with another key")]
    WrongKey,
}

/// A key shared by sender and receiver, 1 byte or more; 16 random bytes are enough.
#[derive(Clone)]
pub struct FeedbackKey(Hmac<Sha256>);

impl core::fmt::Debug for FeedbackKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("FeedbackKey")
    }
}

impl FeedbackKey {
    /// A key of these bytes; none if there are none.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return None;
        }
        Hmac::new_from_slice(bytes).ok().map(Self)
    }

    pub(crate) fn tag(&self, bytes: &[u8]) -> [u8; TAG_LEN] {
        let mut mac = self.0.clone();
        mac.update(bytes);
        let whole = mac.finalize().into_bytes();
        let mut tag = [0; TAG_LEN];
        tag.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        tag
    }

    /// True for the tag of `bytes`; takes the same time for every wrong one.
    pub(crate) fn is_tag(&self, bytes: &[u8], tag: &[u8]) -> bool {
        let mut mac = self.0.clone();
        mac.update(bytes);
        tag.len() == TAG_LEN && mac.verify_truncated_left(tag).is_ok()
    }
}

/// A datagram's bytes.
#[derive(Clone, Copy, Debug)]
pub struct EncodedFeedback {
    bytes: [u8; LEN + TAG_LEN],
    len: usize,
}

impl AsRef<[u8]> for EncodedFeedback {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl FeedbackDatagram {
    /// Bytes of the longest datagram.
    pub const LEN_MAX: usize = LEN + TAG_LEN;

    /// Writes it, signed if there is a key.
    #[must_use]
    pub fn encode(&self, key: Option<&FeedbackKey>) -> EncodedFeedback {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.bandwidth.is_some(), HAS_BANDWIDTH)
            | flag(self.queue.is_some(), HAS_QUEUE)
            | flag(self.is_throughput, IS_THROUGHPUT)
            | flag(self.subscriber.is_ipv4(), IS_IPV4)
            | flag(self.is_synchronised, IS_SYNCHRONISED)
            | flag(key.is_some(), IS_SIGNED);
        let mut bytes = [0; LEN + TAG_LEN];
        put(&mut bytes, 0, &MAGIC.to_be_bytes());
        put(&mut bytes, 2, &[VERSION, flags]);
        put(&mut bytes, 4, &self.sender.to_be_bytes());
        put(&mut bytes, 8, &self.sequence.to_be_bytes());
        put(&mut bytes, 16, &self.timestamp_us.to_be_bytes());
        put(&mut bytes, 24, &self.bandwidth.unwrap_or(Rate::ZERO).as_bps().to_be_bytes());
        put(&mut bytes, 32, &to_u32(self.queue.unwrap_or(Bytes::ZERO).get()).to_be_bytes());
        put(&mut bytes, 36, &to_u32(self.validity.as_millis()).to_be_bytes());
        match self.subscriber {
            IpAddr::V4(address) => put(&mut bytes, 40, &address.octets()),
            IpAddr::V6(address) => put(&mut bytes, 40, &address.octets()),
        };
        let Some(key) = key else { return EncodedFeedback { bytes, len: LEN } };
        let tag = key.tag(&bytes[..LEN]);
        put(&mut bytes, LEN, &tag);
        EncodedFeedback { bytes, len: LEN + TAG_LEN }
    }

    /// Reads one. With a key, only what was signed with it; without one the tag is not looked at.
    ///
    /// # Errors
    /// Why it is none.
    pub fn decode(bytes: &[u8], key: Option<&FeedbackKey>) -> Result<Self, FeedbackError> {
        if bytes.len() < LEN || u16_at(bytes, 0) != MAGIC {
            return Err(FeedbackError::Malformed);
        }
        let &[version, flags] = bytes.get(2..4).and_then(<[u8]>::first_chunk).unwrap_or(&[0, 0]);
        let has = |flag: u8| flags & flag != 0;
        if version != VERSION || flags & !KNOWN_FLAGS != 0 {
            return Err(FeedbackError::Unknown);
        }
        let (signed, tag) = bytes.split_at(LEN);
        if tag.len() != if has(IS_SIGNED) { TAG_LEN } else { 0 } {
            return Err(FeedbackError::Malformed);
        }
        if key.is_some_and(|key| !key.is_tag(signed, tag)) {
            return Err(FeedbackError::WrongKey);
        }
        let subscriber = if has(IS_IPV4) {
            IpAddr::V4(Ipv4Addr::from_bits(u32_at(bytes, 40)))
        } else {
            let high = u128::from(u64_at(bytes, 40));
            IpAddr::V6(Ipv6Addr::from_bits(high << 64 | u128::from(u64_at(bytes, 48))))
        };
        Ok(Self {
            sender: u32_at(bytes, 4),
            sequence: u64_at(bytes, 8),
            timestamp_us: u64_at(bytes, 16),
            is_synchronised: has(IS_SYNCHRONISED),
            subscriber,
            bandwidth: has(HAS_BANDWIDTH).then(|| Rate::from_bps(u64_at(bytes, 24))),
            is_throughput: has(IS_THROUGHPUT),
            queue: has(HAS_QUEUE).then(|| Bytes::from(u32_at(bytes, 32))),
            validity: Duration::from_millis(u64::from(u32_at(bytes, 36))),
        })
    }
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

fn to_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report() -> FeedbackDatagram {
        FeedbackDatagram {
            sender: 7,
            sequence: 3,
            timestamp_us: 1_700_000_000_000_000,
            is_synchronised: true,
            subscriber: "10.45.0.2".parse().unwrap(),
            bandwidth: Some(Rate::from_mbps(20)),
            is_throughput: false,
            queue: Some(Bytes::new(22_500)),
            validity: Duration::from_millis(100),
        }
    }

    #[test]
    fn its_bytes_are_those_of_the_document() {
        let encoded = report().encode(None);
        let expected = concat!(
            "ce11011b00000007",
            "0000000000000003",
            "00060a24181e4000",
            "0000000001312d00",
            "000057e400000064",
            "0a2d0002000000000000000000000000",
        );
        let hex: String = encoded.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn what_is_signed_with_another_key_or_changed_is_refused() {
        let (key, other) = (FeedbackKey::new(b"one").unwrap(), FeedbackKey::new(b"two").unwrap());
        let encoded = report().encode(Some(&key));
        let bytes = encoded.as_ref();
        assert_eq!(bytes.len(), FeedbackDatagram::LEN_MAX);
        assert_eq!(FeedbackDatagram::decode(bytes, Some(&key)), Ok(report()));
        assert_eq!(FeedbackDatagram::decode(bytes, None), Ok(report()));
        assert_eq!(FeedbackDatagram::decode(bytes, Some(&other)), Err(FeedbackError::WrongKey));
        let plain = report().encode(None);
        assert_eq!(FeedbackDatagram::decode(plain.as_ref(), Some(&key)), Err(FeedbackError::WrongKey));
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            assert!(FeedbackDatagram::decode(&changed, Some(&key)).is_err(), "byte {at}");
        }
        assert!(FeedbackKey::new(b"").is_none());
    }

    /// RFC 4231 §4.3 (test case 2), cut to 16 bytes.
    #[test]
    fn tags_are_hmac_sha_256() {
        let tag = FeedbackKey::new(b"Jefe").unwrap().tag(b"what do ya want for nothing?");
        let hex: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c7");
    }

    #[test]
    fn unknown_versions_and_flags_are_told_from_garbage() {
        let encoded = report().encode(None);
        let with = |at: usize, value: u8| {
            let mut bytes = encoded.as_ref().to_vec();
            bytes[at] = value;
            FeedbackDatagram::decode(&bytes, None)
        };
        assert_eq!(with(0, 0), Err(FeedbackError::Malformed));
        assert_eq!(with(2, 2), Err(FeedbackError::Unknown));
        assert_eq!(with(3, 0x40), Err(FeedbackError::Unknown));
        assert_eq!(with(3, 0x80), Err(FeedbackError::Malformed), "said to be signed, and no tag");
        assert_eq!(FeedbackDatagram::decode(&encoded.as_ref()[..55], None), Err(FeedbackError::Malformed));
    }

    fn any_report() -> impl Strategy<Value = FeedbackDatagram> {
        let address = prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_map(|octets| IpAddr::from(Ipv6Addr::from(octets))),
        ];
        let numbers = any::<(u32, u64, u64, u32)>();
        (numbers, address, any::<(Option<u64>, Option<u32>, bool, bool)>()).prop_map(
            |(
                (sender, sequence, timestamp_us, ms),
                subscriber,
                (rate, queue, is_throughput, is_synchronised),
            )| {
                FeedbackDatagram {
                    sender,
                    sequence,
                    timestamp_us,
                    is_synchronised,
                    subscriber,
                    bandwidth: rate.map(Rate::from_bps),
                    is_throughput,
                    queue: queue.map(Bytes::from),
                    validity: Duration::from_millis(u64::from(ms)),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(report in any_report(), key in any::<Option<[u8; 16]>>()) {
            let key = key.and_then(|bytes| FeedbackKey::new(&bytes));
            let encoded = report.encode(key.as_ref());
            prop_assert_eq!(FeedbackDatagram::decode(encoded.as_ref(), key.as_ref()), Ok(report));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            if let Ok(report) = FeedbackDatagram::decode(&bytes, None) {
                prop_assert!(report.encode(None).as_ref().len() <= bytes.len());
            }
        }
    }
}
