//! [`PacketSocket`]: packets of an interface with the time at which the kernel received them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use units::Instant;

use crate::af_packet::{self, Control};
use crate::netlink::InterfaceIndex;
use crate::{Clock, IoError};

/// A copy of every IP packet that enters or leaves an interface, from its IP header on.
///
/// Receive timestamps (`SO_TIMESTAMPNS`) are taken by the kernel when the packet comes in, so they do
/// not contain our own waiting time. A TUN has none: time its packets with [`Clock::now`].
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

/// Room for packets that wait, bytes: of full packets thousands, while a thread waits for a processor.
const BUFFER_LEN: libc::c_int = 8 << 20;

/// One packet's circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedPacket {
    /// Bytes written to the buffer.
    pub len: usize,
    /// Bytes the packet had; more than `len` when the buffer was too short.
    pub original_len: usize,
    /// Time when the kernel received it, on [`Clock`]'s scale.
    pub at: Instant,
    /// True for a packet that leaves through the interface.
    pub is_outgoing: bool,
}

impl PacketSocket {
    /// Opens the interface numbered `index` in the calling thread's namespace, non-blocking.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or when there is no such interface.
    pub fn open(index: InterfaceIndex) -> Result<Self, IoError> {
        let fd = af_packet::open(libc::SOCK_DGRAM)?;
        let on: libc::c_int = 1;
        af_packet::set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)?;
        // More than `net.core.rmem_max` takes CAP_NET_ADMIN; without it that is what there is.
        af_packet::set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER_LEN)
            .or_else(|_| af_packet::set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &BUFFER_LEN))?;
        af_packet::bind(&fd, index)?;
        Ok(Self { fd })
    }

    /// A packet socket that is bound.
    pub(crate) fn of_descriptor(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Receives one packet; `None` when there is none now.
    ///
    /// # Errors
    /// When the interface is gone or down.
    pub fn recv(&self, buffer: &mut [u8]) -> Result<Option<ReceivedPacket>, IoError> {
        let mut from = af_packet::address(0);
        let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut control = Control([0; 64]);
        // SAFETY: msghdr is integers and pointers, for which all zero bytes are a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: every pointer in `message` points to live memory of the length given beside it.
        let len = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
        let Some(original_len) = af_packet::received(len, || "receive from a packet socket".to_owned())?
        else {
            return Ok(None);
        };
        Ok(Some(ReceivedPacket {
            len: original_len.min(buffer.len()),
            original_len,
            at: timestamp(&message).map_or_else(Clock::now, Clock::from_wall_nanos),
            is_outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
        }))
    }
}

/// The wall-clock nanoseconds of a received message's SCM_TIMESTAMPNS, if it has one.
fn timestamp(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the only caller has just filled `message`, whose control buffer it holds; the kernel
    // sends a timespec.
    let ts: libc::timespec =
        unsafe { af_packet::control_message(message, libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) }?;
    let secs = u64::try_from(ts.tv_sec).ok()?;
    Some(secs.saturating_mul(1_000_000_000).saturating_add(u64::try_from(ts.tv_nsec).ok()?))
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::test_host;
    use crate::{Interest, Waiter};
    use std::net::UdpSocket;
    use units::Duration;

    #[test]
    fn packets_carry_the_time_of_their_arrival() {
        let ns = test_host("packet");
        let netlink = ns.netlink().unwrap();
        let lo = netlink.index_of("lo").unwrap();
        netlink.set_up(lo).unwrap();
        let socket = ns.run(|| PacketSocket::open(lo)).unwrap().unwrap();
        let udp = ns.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
        // The kernel begins to take times of arrival a moment after the first socket asks for them
        // (`netstamp_work`); what comes earlier has the time at which it is read.
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.wait(Some(Clock::now() + Duration::from_millis(500))).unwrap();
        let before = Clock::now();
        udp.send_to(b"hello", "127.0.0.1:9").unwrap();
        let after = Clock::now();
        // Looked at late, by twice what a busy machine may need to deliver it: the timestamp must
        // still be that of the arrival.
        let slack = Duration::from_millis(150);
        waiter.wait(Some(after + slack + slack)).unwrap();
        waiter.add(&socket, Interest::Read, 1).unwrap();
        assert_eq!(waiter.wait(None).unwrap().len(), 1);
        let mut buffer = [0; 30];
        let packet = socket.recv(&mut buffer).unwrap().unwrap();
        assert_eq!((packet.len, packet.original_len), (30, 33));
        assert_eq!(&buffer[28..], b"he");
        assert!(
            packet.at + slack >= before && packet.at <= after + slack,
            "{before:?} {:?} {after:?}",
            packet.at
        );
        while socket.recv(&mut buffer).unwrap().is_some() {}
    }
}
