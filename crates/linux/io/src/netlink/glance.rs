//! [`Glance`]: what can be told of an interface without waiting for who changes the network's configuration.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::PoisonError;

use super::{InterfaceIndex, Netlink};

/// Facts that the kernel tells of an interface at once (netdevice(7)).
///
/// A netlink request for an interface waits for the one lock that all changes of links take, in whatever namespace:
/// for seconds, where whoever has it waits for a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Switched on by the administrator.
    pub is_up: bool,
    /// In bytes.
    pub mtu: u32,
}

impl Netlink {
    /// Looks at the interface called `name` that is numbered `index`; none when there is no such one any more, or the
    /// kernel does not tell.
    #[must_use]
    pub fn glance(&self, name: &str, index: InterfaceIndex) -> Option<Glance> {
        let guard = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = guard.0.as_raw_fd();
        // By its number first: to look for a name that is not there would have the kernel load a module.
        let mut request = named("");
        request.ifr_ifru.ifru_ifindex = index.get().cast_signed();
        ask(socket, libc::SIOCGIFNAME as _, &mut request)?;
        if name.len() >= libc::IFNAMSIZ || request.ifr_name != named(name).ifr_name {
            return None;
        }
        ask(socket, libc::SIOCGIFFLAGS as _, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has filled it in.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        ask(socket, libc::SIOCGIFMTU as _, &mut request)?;
        // SAFETY: SIOCGIFMTU has filled it in.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Some(Glance { is_up: c_int::from(flags) & libc::IFF_UP != 0, mtu: mtu.try_into().ok()? })
    }
}

/// A request about the interface called `name`; of a longer name than there are, its beginning.
fn named(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is integers, pointers and arrays, for which all zero bytes are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        // Signed on x86-64, unsigned on arm64.
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request
}

/// Has the kernel fill `request` in as `what` says: one of the requests that read and write one `ifreq`.
fn ask(socket: RawFd, what: libc::Ioctl, request: &mut libc::ifreq) -> Option<()> {
    // SAFETY: the socket is open, its lock being held, and `request` is a valid ifreq, as large as the kernel's, which
    // it reads and writes.
    let done = unsafe { libc::ioctl(socket, what, std::ptr::from_mut(request)) };
    (done >= 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{LinkChange, VethEnd};
    use crate::netns::test_host;

    #[test]
    fn a_glance_tells_what_a_request_does() {
        let namespace = test_host("glance");
        let netlink = namespace.netlink().unwrap();
        let ends = ["w0", "a-name-of-15-ch"].map(|name| VethEnd { name, namespace: None });
        netlink.create_veth(ends[0], ends[1]).unwrap();
        let [index, other] = ["w0", "a-name-of-15-ch"].map(|name| netlink.index_of(name).unwrap());
        assert_eq!(netlink.glance("w0", index), Some(Glance { is_up: false, mtu: 1_500 }));
        let change = LinkChange { up: Some(true), mtu: Some(2_000), ..LinkChange::default() };
        netlink.change_link(index, &change).unwrap();
        assert_eq!(netlink.glance("w0", index), Some(Glance { is_up: true, mtu: 2_000 }));
        assert!(netlink.glance("a-name-of-15-ch", other).is_some());
        for (name, index) in [("w0", other), ("w", index), ("w00", index), ("a-name-of-15-chars", other)] {
            assert_eq!(netlink.glance(name, index), None, "{name}");
        }
        netlink.delete_link(index).unwrap();
        assert_eq!(netlink.glance("w0", index), None);
    }
}
