//! [`LinkEvents`]: tells when an interface has changed.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};

use crate::IoError;
use crate::error::Context;

/// `RTMGRP_LINK`: interfaces that come, go, or change.
const LINKS: u32 = libc::RTMGRP_LINK as u32;

/// `RTMGRP_IPV4_IFADDR` and its like: addresses and routes that come, go, or change.
const ADDRESSES_AND_ROUTES: u32 =
    (libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_IFADDR | libc::RTMGRP_IPV6_ROUTE)
        as u32;

/// Readable when an interface of the namespace it was opened in has come, gone or changed: which
/// one and how is to be asked.
#[derive(Debug)]
pub struct LinkEvents {
    socket: Socket,
}

/// `NFNLGRP_NFTABLES`.
const FILTERS: u32 = 1 << (7 - 1);

impl LinkEvents {
    /// Hears of every change from here on, in the calling thread's namespace.
    ///
    /// # Errors
    /// When the system has no netlink socket left to give.
    pub fn open() -> Result<Self, IoError> {
        Self::of(NETLINK_ROUTE, LINKS, "interfaces")
    }

    /// The same for addresses and routes too.
    ///
    /// # Errors
    /// As [`LinkEvents::open`].
    pub fn open_with_routes() -> Result<Self, IoError> {
        Self::of(NETLINK_ROUTE, LINKS | ADDRESSES_AND_ROUTES, "interfaces")
    }

    /// The same for chains and rules of nft, and for nothing else; those of the older iptables tell nobody.
    ///
    /// # Errors
    /// As [`LinkEvents::open`], and without the privilege (`CAP_NET_ADMIN`).
    pub fn open_for_filters() -> Result<Self, IoError> {
        Self::of(NETLINK_NETFILTER, FILTERS, "packet filters")
    }

    fn of(protocol: isize, groups: u32, of_what: &str) -> Result<Self, IoError> {
        let connect = || -> std::io::Result<Socket> {
            let mut socket = Socket::new(protocol)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, groups))?;
            Ok(socket)
        };
        Ok(Self { socket: connect().doing(|| format!("listen for changes of {of_what}"))? })
    }

    /// True when something has changed since the last call.
    #[must_use]
    pub fn take(&self) -> bool {
        let mut has_changed = false;
        let mut buffer = Vec::with_capacity(32 * 1024);
        loop {
            buffer.clear();
            match self.socket.recv(&mut buffer, 0) {
                // News that were lost for want of room (`ENOBUFS`) are news.
                Ok(_) => has_changed = true,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => has_changed = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return has_changed,
            }
        }
    }
}

impl AsFd for LinkEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
