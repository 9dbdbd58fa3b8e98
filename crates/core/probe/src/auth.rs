//! [`Key`] and [`CookieJar`]: who may be measured, and from which address.

use core::net::{IpAddr, SocketAddr};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use units::Instant;

/// Length of a tag, bytes: RFC 2104 §5 asks for at least half of the hash.
pub(crate) const TAG_LEN: usize = 16;

/// A cookie is good for between one and two of these.
const EPOCH_NS: u64 = 16_000_000_000;

/// A secret that client and server share; without one, anyone may use a server.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A key of any length; none for no bytes at all.
    #[must_use]
    pub fn new(secret: &[u8]) -> Option<Self> {
        (!secret.is_empty()).then(|| Hmac::new_from_slice(secret).ok().map(Self)).flatten()
    }

    /// The first 16 bytes of HMAC-SHA-256 (RFC 2104) over `parts`.
    #[must_use]
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_LEN] {
        let mac = parts.iter().fold(self.0.clone(), |mac, part| mac.chain_update(part));
        let whole = mac.finalize().into_bytes();
        core::array::from_fn(|i| whole.get(i).copied().unwrap_or(0))
    }

    /// True when `tag` is that of `parts`; takes the same time for every wrong one.
    #[must_use]
    pub fn is_tag(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        let mac = parts.iter().fold(self.0.clone(), |mac, part| mac.chain_update(part));
        tag.len() == TAG_LEN && mac.verify_truncated_left(tag).is_ok()
    }
}

/// Bytes that only the owner of an address can send back from it.
pub type Cookie = [u8; TAG_LEN];

/// Makes cookies and knows its own again, without keeping any (RFC 9293 §3.10 knows the idea as SYN
/// cookies).
#[derive(Clone, Debug)]
pub struct CookieJar {
    secret: Key,
}

impl CookieJar {
    /// A jar with this secret, which is to be random; none for no bytes.
    #[must_use]
    pub fn new(secret: &[u8]) -> Option<Self> {
        Key::new(secret).map(|secret| Self { secret })
    }

    /// The cookie of an address for `purpose`, a number that the other side chose or a session.
    #[must_use]
    pub fn cookie(&self, address: SocketAddr, purpose: u64, now: Instant) -> Cookie {
        self.of_epoch(address, purpose, now.as_nanos() / EPOCH_NS)
    }

    /// True for a cookie that was made at most two epochs (32 s) ago.
    #[must_use]
    pub fn is_mine(&self, cookie: &Cookie, address: SocketAddr, purpose: u64, now: Instant) -> bool {
        let epoch = now.as_nanos() / EPOCH_NS;
        let parts = |epoch| Self::parts(address, purpose, epoch);
        self.secret.is_tag(&[&parts(epoch)], cookie)
            || epoch > 0 && self.secret.is_tag(&[&parts(epoch - 1)], cookie)
    }

    /// A number that nobody can guess, from numbers that are never the same twice.
    pub(crate) fn unguessable(&self, address: SocketAddr, nonce: u64, count: u64) -> u64 {
        let tag = self.secret.tag(&[b"session", &Self::parts(address, nonce, count)]);
        tag.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    fn of_epoch(&self, address: SocketAddr, purpose: u64, epoch: u64) -> Cookie {
        self.secret.tag(&[&Self::parts(address, purpose, epoch)])
    }

    fn parts(address: SocketAddr, purpose: u64, epoch: u64) -> [u8; 34] {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut parts = [0; 34];
        for (to, from) in parts.iter_mut().zip(
            ip.octets()
                .into_iter()
                .chain(address.port().to_be_bytes())
                .chain(purpose.to_be_bytes())
                .chain(epoch.to_be_bytes()),
        ) {
            *to = from;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    #[test]
    fn a_cookie_is_of_one_address_one_purpose_and_half_a_minute() {
        let jar = CookieJar::new(b"secret").unwrap();
        let address: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let now = Instant::from_nanos(1_000_000_000_000);
        let cookie = jar.cookie(address, 7, now);
        assert!(jar.is_mine(&cookie, address, 7, now + Duration::from_secs(16)));
        assert!(!jar.is_mine(&cookie, address, 7, now + Duration::from_secs(33)), "too old");
        assert!(!jar.is_mine(&cookie, address, 8, now), "another purpose");
        assert!(!jar.is_mine(&cookie, "192.0.2.1:4001".parse().unwrap(), 7, now), "another port");
        assert!(!jar.is_mine(&cookie, "192.0.2.2:4000".parse().unwrap(), 7, now), "another host");
        assert!(!CookieJar::new(b"other").unwrap().is_mine(&cookie, address, 7, now), "another server");
        assert!(CookieJar::new(b"").is_none());
    }

    #[test]
    fn tags_are_those_of_rfc_4231() {
        // Test case 2, truncated to 128 bits.
        let key = Key::new(b"Jefe").unwrap();
        let tag = key.tag(&[b"what do ya want ", b"for nothing?"]);
        assert_eq!(
            tag,
            [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7]
        );
        assert!(key.is_tag(&[b"what do ya want for nothing?"], &tag));
        assert!(!key.is_tag(&[b"what do ya want for nothing?"], &tag[..8]), "cut");
    }
}
