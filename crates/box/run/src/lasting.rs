//! [`Lasting`]: what of an attachment stays at work when its process dies.

use std::os::fd::BorrowedFd;

/// Resources that lead packets into queues, whoever reads from those.
#[derive(Debug)]
pub(crate) struct Lasting<'a> {
    /// The devices: wired, mobile. None of a bridge, whose queues are sockets at its interfaces.
    pub tuns: Option<[String; 2]>,
    /// Programs, where they steer or keep frames from the bridge that stands by.
    pub programs: Option<LastingPrograms<'a>>,
    /// As long as somebody has it, the nft table is there.
    pub table_owner: Option<BorrowedFd<'a>>,
}

/// Programs at work.
#[derive(Debug)]
pub(crate) struct LastingPrograms<'a> {
    /// At the wired interface, at the mobile one.
    pub links: Vec<BorrowedFd<'a>>,
    /// The flows that they leave to the kernel, where they know any.
    pub passed: Option<BorrowedFd<'a>>,
    /// The array with the heartbeat, and its length in words.
    pub shared: (BorrowedFd<'a>, usize),
}
