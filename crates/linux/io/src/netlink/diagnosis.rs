//! [`subflows`]: the TCP sockets of MPTCP connections, as `ss -tiM` shows them (`linux/inet_diag.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use units::{Duration, Rate};

use super::attributes::{Requests, attributes, find, u32_of};
use crate::IoError;
use crate::error::Context;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_ULP_INFO: u16 = 19;
const ULP_MPTCP: u16 = 3;
const TOKEN_LOCAL: u16 = 2;
const FLAGS: u16 = 8;
const ID_REMOTE: u16 = 9;
const ID_LOCAL: u16 = 10;
const ANSWER_LEN: usize = 72;
/// `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;
/// `TCP_SYN_SENT`.
const SYN_SENT: u8 = 2;
/// `TCP_FIN_WAIT1`, `TCP_FIN_WAIT2`, `TCP_LAST_ACK` and `TCP_CLOSING`.
const CLOSING: [u8; 4] = [4, 5, 9, 11];
/// Place of `struct inet_diag_sockid` in an answer, and in a request.
const IDENTITY: std::ops::Range<usize> = 4..52;
const IDENTITY_ASKED: std::ops::Range<usize> = 8..56;
/// `MPTCP_SUBFLOW_FLAG_BKUP_REM` and `_LOC`.
const BACKUP_FLAGS: u32 = 0x04 | 0x08;

/// A TCP socket of an MPTCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subflow {
    /// The connection, by this host's token.
    pub token: u32,
    /// This host's end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// The interface it is bound to; zero for none.
    pub interface: u32,
    /// Data can flow.
    pub is_established: bool,
    /// Its SYN is on its way.
    pub is_opening: bool,
    /// This host has ended its half, and the peer has not ended the other.
    pub is_closing: bool,
    /// One side asked to use it as backup only.
    pub is_backup: bool,
    /// Number of this host's address; zero for the first subflow's.
    pub local_id: u8,
    /// Number of the peer's.
    pub remote_id: u8,
    /// Doublings of the retransmission time-out.
    pub backoff: u8,
    /// Segments that are not acknowledged.
    pub unacked: u32,
    /// Bytes of data that wait in the socket and were never sent.
    pub unsent_bytes: u32,
    /// Segments that came.
    pub segments_in: u32,
    /// Bytes of data that came.
    pub bytes_received: u64,
    /// Bytes of data that were acknowledged.
    pub bytes_acked: u64,
    /// Since data or an acknowledgement last came. The kernel does not count data that came out of order.
    pub quiet: Duration,
    /// Segments sent again.
    pub retransmitted: u32,
    /// Smoothed round trip.
    pub srtt: Duration,
    /// Least round trip; zero before there is one.
    pub rtt_min: Duration,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Latest delivery rate.
    pub delivery_rate: Rate,
    /// Identity of the socket.
    pub identity: SocketIdentity,
}

/// Identity of a socket, with the kernel's own number of it, so that no other is ever taken for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketIdentity {
    family: u8,
    id: [u8; IDENTITY.end - IDENTITY.start],
}

/// Asks the kernel for its TCP sockets.
#[derive(Debug)]
pub struct SocketDiagnosis {
    requests: Requests,
}

impl SocketDiagnosis {
    /// Connects, in the calling thread's namespace.
    ///
    /// # Errors
    /// When the system has no netlink socket left to give.
    pub fn open() -> Result<Self, IoError> {
        let requests = Requests::open(NETLINK_SOCK_DIAG).doing(|| "open a netlink socket".to_owned())?;
        Ok(Self { requests })
    }

    /// The subflows of all MPTCP connections. Without CAP_NET_ADMIN the kernel tells of none.
    ///
    /// # Errors
    /// When the kernel does not answer (`CONFIG_INET_DIAG`).
    pub fn subflows(&self) -> Result<Vec<Subflow>, IoError> {
        let mut all = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut request = [0_u8; 56];
            request[0] = u8::try_from(family).unwrap_or(0);
            request[1] = u8::try_from(libc::IPPROTO_TCP).unwrap_or(6);
            request[2] = 1 << (INET_DIAG_INFO - 1);
            // All but LISTEN, TIME_WAIT and CLOSE.
            let states: u32 = 0xfff & !(1 << 10) & !(1 << 6) & !(1 << 7);
            request[4..8].copy_from_slice(&states.to_ne_bytes());
            let answers = self.requests.dump(SOCK_DIAG_BY_FAMILY, &request);
            let answers = answers.doing(|| "list TCP sockets".to_owned())?;
            all.extend(answers.iter().filter_map(|answer| parse(answer)));
        }
        Ok(all)
    }

    /// Ends a TCP socket at once. The peer is sent a RST, where the socket's state allows one.
    ///
    /// # Errors
    /// The kernel cannot (`CONFIG_INET_DIAG_DESTROY`), or may not. A socket that is gone is no error.
    pub fn destroy(&self, socket: &SocketIdentity) -> Result<(), IoError> {
        let mut request = [0_u8; 56];
        request[0] = socket.family;
        request[1] = u8::try_from(libc::IPPROTO_TCP).unwrap_or(6);
        request[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        request[IDENTITY_ASKED].copy_from_slice(&socket.id);
        match self.requests.change(SOCK_DESTROY, &request) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                Err(error).doing(|| "end a TCP socket".to_owned())
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn parse(answer: &[u8]) -> Option<Subflow> {
    let all = attributes(answer.get(ANSWER_LEN..)?);
    let ulp = attributes(find(&all, INET_DIAG_ULP_INFO)?);
    let mptcp = attributes(find(&ulp, ULP_MPTCP)?);
    let info = find(&all, INET_DIAG_INFO)?;
    let at32 = |at: usize| info.get(at..).and_then(u32_of).unwrap_or(0);
    let at64 = |at: usize| info.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes);
    let state = *answer.get(1)?;
    let port = |at: usize| Some(u16::from_be_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    let is_v6 = i32::from(*answer.first()?) == libc::AF_INET6;
    let ip = |at: usize| -> Option<IpAddr> {
        if is_v6 {
            let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(answer.get(at..at + 16)?).ok()?);
            // A socket for both families with an IPv4 peer.
            return Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4));
        }
        Some(Ipv4Addr::from(<[u8; 4]>::try_from(answer.get(at..at + 4)?).ok()?).into())
    };
    let byte = |kind| find(&mptcp, kind).and_then(|v| v.first().copied()).unwrap_or(0);
    let rtt_min = at32(148);
    Some(Subflow {
        token: find(&mptcp, TOKEN_LOCAL).and_then(u32_of)?,
        local: SocketAddr::new(ip(8)?, port(4)?),
        remote: SocketAddr::new(ip(24)?, port(6)?),
        interface: answer.get(40..).and_then(u32_of)?,
        is_established: state == ESTABLISHED,
        is_opening: state == SYN_SENT,
        is_closing: CLOSING.contains(&state),
        is_backup: find(&mptcp, FLAGS).and_then(u32_of).unwrap_or(0) & BACKUP_FLAGS != 0,
        local_id: byte(ID_LOCAL),
        remote_id: byte(ID_REMOTE),
        backoff: *info.get(4)?,
        unacked: at32(24),
        unsent_bytes: at32(144),
        segments_in: at32(140),
        bytes_received: at64(128),
        bytes_acked: at64(120),
        // `tcpi_last_data_recv` and `tcpi_last_ack_recv`.
        quiet: Duration::from_millis(at32(52).min(at32(56)).into()),
        retransmitted: at32(100),
        srtt: Duration::from_micros(at32(68).into()),
        // The kernel says ~0 before the first sample.
        rtt_min: Duration::from_micros(if rtt_min == u32::MAX { 0 } else { rtt_min.into() }),
        cwnd: at32(80),
        delivery_rate: Rate::from_bps(at64(160).saturating_mul(8)),
        identity: SocketIdentity { family: *answer.first()?, id: answer.get(IDENTITY)?.try_into().ok()? },
    })
}
