//! [`OwnedTable`]: an nft table that lives as long as somebody has the socket by which it was made.
//!
//! The kernel removes a table with `flags owner` when its owner's netlink socket is closed, and lets nobody else delete
//! it. So the socket of the `nft` that has made it is taken from that process, which may end then, and goes from
//! process to process like any descriptor.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use units::Duration;

use crate::error::Context;
use crate::{Clock, Interest, IoError, PidFd, Waiter};

/// `NETLINK_NETFILTER`, as `/proc/net/netlink` has it.
const NETFILTER: &str = "12";

/// `NFNL_SUBSYS_NFTABLES`; what begins and ends a batch; `NFT_MSG_DELTABLE`; `NFTA_TABLE_NAME`; `NFPROTO_INET`.
const NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const DELETE_TABLE: u16 = NFTABLES << 8 | 2;
const TABLE_NAME: u16 = 1;
const INET: u8 = 1;

/// `NLM_F_REQUEST`, `NLM_F_ACK`, `NLMSG_ERROR`.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const ANSWER: u16 = 2;

/// The numbers of the messages of a deletion.
const SEQUENCE: u32 = 1;

/// How long the kernel may take to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// A table of family `inet`, by its owner's socket.
#[derive(Debug)]
pub struct OwnedTable {
    socket: OwnedFd,
    name: String,
}

impl OwnedTable {
    /// The table that `nft`, which runs as `process`, has made and owns. It may end from here on.
    ///
    /// # Errors
    /// When its socket cannot be had: Linux 5.6 and the right to trace that process are needed.
    pub fn take_from(process: u32, name: &str) -> Result<Self, IoError> {
        let number =
            netfilter_socket(process).doing(|| format!("find the netlink socket of process {process}"))?;
        let socket = PidFd::open(process)?.descriptor(number)?;
        Ok(Self { socket, name: name.to_owned() })
    }

    /// The table `name` by a socket that came from another process.
    #[must_use]
    pub fn adopt(socket: OwnedFd, name: &str) -> Self {
        Self { socket, name: name.to_owned() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deletes it, whoever else has the socket.
    ///
    /// # Errors
    /// When the kernel refuses; one that is not there any more is none.
    pub fn delete(&self) -> Result<(), IoError> {
        let doing = || format!("delete the nft table {}", self.name);
        // What was answered to others who had this socket.
        while receive(&self.socket).is_some() {}
        let mut name = self.name.clone().into_bytes();
        name.push(0);
        let mut attribute = [(4 + name.len()) as u16, TABLE_NAME].map(u16::to_ne_bytes).concat();
        attribute.append(&mut name);
        attribute.resize(attribute.len().next_multiple_of(4), 0);
        let batch = [
            message(BATCH_BEGIN, REQUEST, 0, NFTABLES, &[]),
            message(DELETE_TABLE, REQUEST | ACKNOWLEDGE, INET, 0, &attribute),
            message(BATCH_END, REQUEST, 0, NFTABLES, &[]),
        ]
        .concat();
        // SAFETY: the bytes are live for the duration of the call, which only reads them.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), batch.as_ptr().cast(), batch.len(), 0) };
        if sent < 0 {
            return Err(IoError::last(doing()));
        }
        let mut waiter = Waiter::new(Duration::ZERO)?;
        waiter.add(&self.socket, Interest::Read, 0)?;
        waiter.wait(Some(Clock::now() + ANSWER_TIME_MAX))?;
        let error = receive(&self.socket).and_then(|answer| error_in(&answer));
        match error.unwrap_or(libc::ETIMEDOUT) {
            0 | libc::ENOENT => Ok(()),
            number => Err(std::io::Error::from_raw_os_error(number)).doing(doing),
        }
    }
}

impl AsFd for OwnedTable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A netlink message with netfilter's header.
fn message(kind: u16, flags: u16, family: u8, subsystem: u16, attributes: &[u8]) -> Vec<u8> {
    let len = 20 + attributes.len() as u32;
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend([kind, flags].map(u16::to_ne_bytes).concat());
    bytes.extend([SEQUENCE, 0].map(u32::to_ne_bytes).concat());
    bytes.extend([family, 0]);
    bytes.extend(subsystem.to_be_bytes());
    bytes.extend(attributes);
    bytes
}

/// The error number of an answer, 0 for none.
fn error_in(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let error = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (kind == ANSWER).then_some(-error)
}

/// What has come, if anything.
fn receive(socket: &OwnedFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 8_192];
    // SAFETY: the kernel writes at most as many bytes as there are.
    let len =
        unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
    bytes.truncate(usize::try_from(len).ok().filter(|len| *len > 0)?);
    Some(bytes)
}

/// The number of the only netfilter socket of a process.
fn netfilter_socket(process: u32) -> std::io::Result<i32> {
    let all = fs::read_to_string(format!("/proc/{process}/net/netlink"))?;
    let row = |line: &str| -> Option<String> {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        (fields.get(1) == Some(&NETFILTER))
            .then(|| format!("socket:[{}]", fields.last().copied().unwrap_or("")))
    };
    let sockets: Vec<String> = all.lines().skip(1).filter_map(row).collect();
    for entry in fs::read_dir(format!("/proc/{process}/fd"))?.flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(number) =
            number.filter(|_| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
        {
            return Ok(number);
        }
    }
    Err(std::io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_each_thing_at_its_place() {
        let bytes = message(DELETE_TABLE, REQUEST, INET, 0, &[5, 0, 1, 0]);
        assert_eq!((bytes.len(), &bytes[16..20], &bytes[20..]), (24, &[1, 0, 0, 0][..], &[5, 0, 1, 0][..]));
        assert_eq!(u16::from_ne_bytes([bytes[4], bytes[5]]), 0x0a02);
        assert_eq!(message(BATCH_BEGIN, REQUEST, 0, NFTABLES, &[])[16..], [0, 0, 0, 10]);
        let mut answer = message(ANSWER, 0, 0, 0, &[]);
        answer[16..20].copy_from_slice(&(-2i32).to_ne_bytes());
        assert_eq!((error_in(&answer), error_in(&bytes), error_in(&[])), (Some(libc::ENOENT), None, None));
    }

    #[test]
    fn a_process_without_such_a_socket_has_none_to_take() {
        assert!(OwnedTable::take_from(std::process::id(), "none").is_err());
    }
}
