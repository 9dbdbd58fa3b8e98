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
/// `NFT_MSG_NEWRULE` and `NFT_MSG_DELRULE`; `NFTA_RULE_CHAIN` and `NFTA_RULE_EXPRESSIONS`.
const NEW_RULE: u16 = NFTABLES << 8 | 6;
const DELETE_RULES: u16 = NFTABLES << 8 | 8;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
/// `NFTA_LIST_ELEM`, `NFTA_EXPR_NAME`, `NFTA_EXPR_DATA`.
const LIST_ELEMENT: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
/// `NFTA_IMMEDIATE_DREG` and `_DATA`, `NFTA_DATA_VERDICT`, `NFTA_VERDICT_CODE`.
const IMMEDIATE_REGISTER: u16 = 1;
const IMMEDIATE_DATA: u16 = 2;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const INET: u8 = 1;

/// `NLM_F_REQUEST`, `NLM_F_ACK`, `NLMSG_ERROR`.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// `NLM_F_CREATE` and `NLM_F_APPEND`.
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;
const ANSWER: u16 = 2;

/// The numbers of the messages of a deletion.
const SEQUENCE: u32 = 1;

/// Longest time that the kernel may take to answer.
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
        let what = || format!("delete the nft table {}", self.name);
        self.do_at_once(&[(DELETE_TABLE, 0, text(TABLE_NAME, &self.name))], what)
    }

    /// Has a chain of it drop whatever comes to its end.
    ///
    /// # Errors
    /// When the kernel refuses; where the table is not there any more that is none.
    pub fn add_drop(&self, chain: &str) -> Result<(), IoError> {
        // The verdict register and NF_DROP are both 0.
        let verdict = attribute(DATA_VERDICT, &attribute(VERDICT_CODE, &[0; 4]));
        let data = [attribute(IMMEDIATE_REGISTER, &[0; 4]), attribute(IMMEDIATE_DATA, &verdict)].concat();
        let drop = [text(EXPRESSION_NAME, "immediate"), attribute(EXPRESSION_DATA, &data)].concat();
        let list = attribute(RULE_EXPRESSIONS, &attribute(LIST_ELEMENT, &drop));
        let rule = [self.chain(chain), list].concat();
        let what = || format!("add a rule to chain {chain} of the nft table {}", self.name);
        self.do_at_once(&[(NEW_RULE, CREATE | APPEND, rule)], what)
    }

    /// Takes all rules out of chains of it, at the same moment.
    ///
    /// # Errors
    /// When the kernel refuses; where the table is not there any more that is none.
    pub fn empty(&self, chains: &[&str]) -> Result<(), IoError> {
        let all: Vec<_> = chains.iter().map(|chain| (DELETE_RULES, 0, self.chain(chain))).collect();
        self.do_at_once(&all, || format!("take rules out of the nft table {}", self.name))
    }

    /// The attributes that name a chain.
    fn chain(&self, chain: &str) -> Vec<u8> {
        [text(TABLE_NAME, &self.name), text(RULE_CHAIN, chain)].concat()
    }

    /// Has the kernel do all of it or nothing: what, flags, attributes.
    fn do_at_once(&self, all: &[(u16, u16, Vec<u8>)], what: impl Fn() -> String) -> Result<(), IoError> {
        // What was answered to others who had this socket.
        while receive(&self.socket).is_some() {}
        let mut batch = message(BATCH_BEGIN, REQUEST, 0, NFTABLES, &[]);
        for (at, (kind, flags, attributes)) in all.iter().enumerate() {
            // The last one is answered in any case, the others where they fail.
            let acknowledge = if at + 1 == all.len() { ACKNOWLEDGE } else { 0 };
            batch.extend(message(*kind, REQUEST | flags | acknowledge, INET, 0, attributes));
        }
        batch.extend(message(BATCH_END, REQUEST, 0, NFTABLES, &[]));
        // SAFETY: the bytes are live for the duration of the call, which only reads them.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), batch.as_ptr().cast(), batch.len(), 0) };
        if sent < 0 {
            return Err(IoError::last(what()));
        }
        let mut waiter = Waiter::new(Duration::ZERO)?;
        waiter.add(&self.socket, Interest::Read, 0)?;
        waiter.wait(Some(Clock::now() + ANSWER_TIME_MAX))?;
        let error = receive(&self.socket).and_then(|answer| error_in(&answer));
        match error.unwrap_or(libc::ETIMEDOUT) {
            0 | libc::ENOENT => Ok(()),
            number => Err(std::io::Error::from_raw_os_error(number)).doing(what),
        }
    }
}

/// An attribute with its padding.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [(4 + value.len()) as u16, kind].map(u16::to_ne_bytes).concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
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

/// Message that has come, if anything.
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
