//! Netlink messages of families that have no crate: headers, nested attributes, requests.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use netlink_sys::{Socket, SocketAddr};

use super::uninterrupted;

const HEADER_LEN: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLM_F_CAPPED: u16 = 0x100;
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Bits of an attribute's kind that are no part of its number.
const KIND_MASK: u16 = 0x3fff;
const NESTED: u16 = 0x8000;

/// Attributes to be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes(pub Vec<u8>);

impl Attributes {
    pub fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let len = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub fn u8(self, kind: u16, value: u8) -> Self {
        self.bytes(kind, &[value])
    }

    pub fn u16(self, kind: u16, value: u16) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub fn u32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub fn nested(self, kind: u16, inside: &Self) -> Self {
        self.bytes(kind | NESTED, &inside.0)
    }
}

/// Attributes that came: kind and value, in order; what is cut is left out.
pub(crate) fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let [l0, l1, k0, k1, ..] = *bytes {
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let Some(value) = bytes.get(4..len) else { break };
        all.push((u16::from_ne_bytes([k0, k1]) & KIND_MASK, value));
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// The first attribute of a kind.
pub(crate) fn find<'a>(all: &[(u16, &'a [u8])], kind: u16) -> Option<&'a [u8]> {
    all.iter().find(|(k, _)| *k == kind).map(|(_, value)| *value)
}

pub(crate) fn u16_of(value: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(value.get(..2)?.try_into().ok()?))
}

pub(crate) fn u32_of(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?))
}

pub(crate) fn ip_of(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).into()),
        _ => None,
    }
}

/// The bytes of an address.
pub(crate) fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// Messages of one datagram: type, sequence number, body.
pub(crate) fn messages(mut bytes: &[u8]) -> Vec<(u16, u32, u16, &[u8])> {
    let mut all = Vec::new();
    while bytes.len() >= HEADER_LEN {
        let Some(len) = u32_of(bytes).and_then(|len| usize::try_from(len).ok()) else { break };
        let (Some(kind), Some(flags)) = (u16_of(&bytes[4..]), u16_of(&bytes[6..])) else { break };
        let Some(sequence) = u32_of(&bytes[8..]) else { break };
        let Some(body) = bytes.get(HEADER_LEN..len) else { break };
        all.push((kind, sequence, flags, body));
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// A socket for requests and their answers.
#[derive(Debug)]
pub(crate) struct Requests(Mutex<(Socket, u32)>);

impl Requests {
    /// Opens one in the calling thread's namespace.
    pub fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // Errors then come with words.
        let _ = socket.set_ext_ack(true);
        Ok(Self(Mutex::new((socket, 0))))
    }

    /// Has the kernel do something.
    pub fn change(&self, kind: u16, body: &[u8]) -> io::Result<()> {
        self.exchange(kind, NLM_F_REQUEST | NLM_F_ACK, body).map(drop)
    }

    /// Asks for one thing.
    pub fn get(&self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.exchange(kind, NLM_F_REQUEST | NLM_F_ACK, body)
    }

    /// Asks for all things.
    pub fn dump(&self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.exchange(kind, NLM_F_REQUEST | NLM_F_DUMP, body)
    }

    fn exchange(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (socket, number) = &mut *guard;
        *number = number.wrapping_add(1);
        let len = u32::try_from(HEADER_LEN + body.len()).unwrap_or(u32::MAX);
        let mut request = Vec::with_capacity(HEADER_LEN + body.len());
        request.extend(len.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend(number.to_ne_bytes());
        request.extend(0_u32.to_ne_bytes());
        request.extend(body);
        uninterrupted(|| socket.send(&request, 0))?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = uninterrupted(|| socket.recv_from_full())?;
            for (kind, sequence, flags, body) in messages(&datagram) {
                if sequence != *number {
                    continue;
                }
                match kind {
                    NLMSG_DONE => return Ok(answers),
                    NLMSG_ERROR => {
                        verdict(body, flags)?;
                        return Ok(answers);
                    }
                    _ => answers.push(body.to_vec()),
                }
            }
        }
    }
}

/// Verdict of the kernel on a request, with its words if it has some.
pub(super) fn verdict(body: &[u8], flags: u16) -> io::Result<()> {
    let code = u32_of(body).unwrap_or(0).cast_signed();
    if code == 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(code.saturating_neg());
    // Behind the code stands the request's header, and unless capped its body.
    let quoted = if flags & NLM_F_CAPPED != 0 {
        HEADER_LEN
    } else {
        body.get(4..).and_then(u32_of).map_or(HEADER_LEN, |len| len as usize)
    };
    let rest = body.get((4 + quoted).next_multiple_of(4)..).filter(|_| flags & NLM_F_ACK_TLVS != 0);
    let words = rest.and_then(|rest| find(&attributes(rest), NLMSGERR_ATTR_MSG).map(<[u8]>::to_vec));
    let Some(words) = words else { return Err(error) };
    let words = String::from_utf8_lossy(&words).trim_end_matches('\0').to_owned();
    // The number must stay readable: callers tell what is missing from what is refused.
    if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EEXIST | libc::ENOENT | libc::ENODEV)) {
        return Err(error);
    }
    Err(io::Error::new(error.kind(), format!("{words} ({error})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_written_as_the_kernel_reads_them_and_read_back() {
        let inside = Attributes::default().u16(1, 2).u8(2, 7).bytes(3, &[10, 0, 0, 1]);
        let out = Attributes::default().nested(1, &inside).u32(4, 0xdead_beef);
        assert_eq!(out.0.len(), 4 + 8 * 3 + 8);
        assert_eq!(&out.0[..4], &[28, 0, 1, 0x80], "little-endian machines; nested");
        let all = attributes(&out.0);
        assert_eq!(find(&all, 4).and_then(u32_of), Some(0xdead_beef));
        let inner = attributes(find(&all, 1).unwrap());
        assert_eq!(find(&inner, 3).and_then(ip_of), Some([10, 0, 0, 1].into()));
        assert_eq!(inner.len(), 3);
    }

    #[test]
    fn a_refusal_has_a_number_whatever_the_kernel_says() {
        for code in [i32::MIN, -1, 7] {
            assert!(verdict(&code.to_ne_bytes(), 0).is_err(), "{code}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(0_u8..=255, 0..80)) {
            drop(attributes(&bytes));
            drop(messages(&bytes));
            drop(verdict(&bytes, 0x200));
        }
    }
}
