//! [`CaptureRing`]: whole frames of an interface, through memory shared with the kernel.
//!
//! `TPACKET_V3`: the kernel fills blocks of frames and hands each over when it is full or 50 ms
//! old. While all blocks are full, frames are dropped and counted. Source: the kernel's
//! `packet_mmap.rst`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use crate::IoError;
use crate::af_packet::{self, last};
use crate::error::Context;
use crate::netlink::InterfaceIndex;

const BLOCK_LEN: usize = 1 << 20;
const BLOCKS: usize = 32;
const FRAME_LEN: usize = 2_048;
const RETIRE_MS: u32 = 50;

/// A ring that receives every frame that enters or leaves an interface.
#[derive(Debug)]
pub struct CaptureRing {
    fd: OwnedFd,
    memory: NonNull<u8>,
    next: usize,
    has_link_header: bool,
    is_loopback: bool,
    counts: (u64, u64),
}

// SAFETY: the mapping belongs to this ring alone and is bound to no thread.
unsafe impl Send for CaptureRing {}

/// A frame, lent by [`CaptureRing::take`].
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Nanoseconds since 1970-01-01 UTC, when the kernel saw it.
    pub wall_ns: u64,
    /// Length on the wire, bytes.
    pub wire_len: u32,
    /// From its link header on, if the interface has one.
    pub bytes: &'a [u8],
}

impl CaptureRing {
    /// Opens the interface numbered `index` in the calling thread's namespace.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, without 32 MB of memory, or when there is no such interface.
    pub fn open(index: InterfaceIndex) -> Result<Self, IoError> {
        let fd = af_packet::open(libc::SOCK_RAW)?;
        af_packet::set(
            &fd,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V3 as libc::c_int),
        )?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_LEN as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME_LEN as u32,
            tp_frame_nr: (BLOCK_LEN / FRAME_LEN * BLOCKS) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        af_packet::set(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let len = BLOCK_LEN * BLOCKS;
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked before use.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(last("map a capture ring"));
        }
        let memory = NonNull::new(memory.cast()).ok_or_else(|| last("map a capture ring"))?;
        let mut ring =
            Self { fd, memory, next: 0, has_link_header: true, is_loopback: false, counts: (0, 0) };
        let hardware = ring.bind(index)?;
        ring.is_loopback = hardware == libc::ARPHRD_LOOPBACK;
        ring.has_link_header = matches!(hardware, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK);
        Ok(ring)
    }

    /// Binds to the interface; gives its kind of hardware.
    fn bind(&self, index: InterfaceIndex) -> Result<u16, IoError> {
        let mut address = af_packet::address(index.get().cast_signed());
        let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let place = (&raw mut address).cast::<libc::sockaddr>();
        // SAFETY: `place` points to a sockaddr_ll of the length given, which lives through both calls.
        let done = unsafe {
            libc::bind(self.fd.as_raw_fd(), place, len)
                | libc::getsockname(self.fd.as_raw_fd(), place, &raw mut len)
        };
        if done < 0 {
            return Err(last(&format!("capture on interface number {}", index.get())));
        }
        Ok(address.sll_hatype)
    }

    /// True when frames start with an Ethernet header; false when they start with IP.
    #[must_use]
    pub fn has_link_header(&self) -> bool {
        self.has_link_header
    }

    /// Gives every frame of the next block to `each`, until that says false; false if no block is ready.
    pub fn take(&mut self, each: &mut dyn FnMut(Frame<'_>) -> bool) -> bool {
        // SAFETY: `next` is below BLOCKS, so the block lies within the mapping, which lives as long
        // as `self`.
        let block = unsafe { self.memory.add(self.next * BLOCK_LEN) };
        // SAFETY: a block starts with a block descriptor, and the mapping is aligned to pages; all
        // its bit patterns are valid. The kernel changes it, so the status is read as volatile.
        let mut header = unsafe { block.cast::<libc::tpacket_block_desc>().read_volatile() };
        // SAFETY: the union has one member.
        let status = unsafe { header.hdr.bh1.block_status };
        if status & libc::TP_STATUS_USER == 0 {
            return false;
        }
        fence(Ordering::Acquire);
        // SAFETY: as above; read again behind the fence, because the kernel wrote the rest before the status.
        header = unsafe { block.cast::<libc::tpacket_block_desc>().read_volatile() };
        // SAFETY: the union has one member.
        let (packets, first) = unsafe { (header.hdr.bh1.num_pkts, header.hdr.bh1.offset_to_first_pkt) };
        // SAFETY: the block is ours until its status is given back below, and lies within the mapping.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr().cast_const(), BLOCK_LEN) };
        self.frames(bytes, first as usize, packets, each);
        fence(Ordering::Release);
        let status_at = std::mem::offset_of!(libc::tpacket_block_desc, hdr);
        // SAFETY: the status is the first field of the union; it lies within the block. `bytes` is
        // not used any more.
        unsafe { block.add(status_at).cast::<u32>().write_volatile(0) };
        self.next = (self.next + 1) % BLOCKS;
        true
    }

    /// Walks the frames of a block; lengths and offsets are checked although the kernel wrote them.
    fn frames(&self, block: &[u8], mut at: usize, packets: u32, each: &mut dyn FnMut(Frame<'_>) -> bool) {
        let aligned = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
        for _ in 0..packets {
            let word = |offset: usize| {
                let field = block.get(at + offset..)?.first_chunk::<4>()?;
                Some(u32::from_ne_bytes(*field))
            };
            let fields = [0, 4, 8, 12, 16, 24].map(word);
            let [Some(next), Some(sec), Some(nsec), Some(captured), Some(wire_len), Some(places)] = fields
            else {
                return;
            };
            // The link address behind the header tells the way: the loopback interface shows each
            // packet twice.
            let way = block.get(at + aligned + std::mem::offset_of!(libc::sockaddr_ll, sll_pkttype));
            let is_second_sight = self.is_loopback && way == Some(&libc::PACKET_OUTGOING);
            let mac = usize::from(
                places.to_ne_bytes().first_chunk::<2>().map_or(0, |two| u16::from_ne_bytes(*two)),
            );
            let bytes = block.get(at + mac..at + mac + captured as usize).unwrap_or_default();
            let wall_ns = u64::from(sec) * 1_000_000_000 + u64::from(nsec);
            if !is_second_sight && !each(Frame { wall_ns, wire_len, bytes }) {
                return;
            }
            if next == 0 {
                return;
            }
            at += next as usize;
        }
    }

    /// Takes note of what made the descriptor report an error, which it does until then; true while
    /// there is an interface to capture from. One that is down may come back, and the ring goes on
    /// with it; one that was deleted does not.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn take_error(&self) -> Result<bool, IoError> {
        // Whatever it is: what matters is whether the interface is there.
        _ = af_packet::take_error(&self.fd);
        // The kernel sets -1 when the device is unregistered.
        Ok(af_packet::bound_to(&self.fd)? > 0)
    }

    /// Frames that the kernel had for this ring so far, and those of them that found no room.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn counts(&mut self) -> Result<(u64, u64), IoError> {
        let mut found = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        af_packet::get(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut found)
            .doing(|| "read the counts of a capture".to_owned())?;
        // Reading sets the kernel's counts to zero.
        self.counts.0 += u64::from(found.tp_packets);
        self.counts.1 += u64::from(found.tp_drops);
        Ok(self.counts)
    }
}

impl Drop for CaptureRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), BLOCK_LEN * BLOCKS) };
    }
}

impl AsFd for CaptureRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::VethEnd;
    use crate::netns::test_host;
    use crate::{Clock, Interest, Waiter};
    use std::net::UdpSocket;
    use units::Duration;

    #[test]
    fn every_frame_is_seen_once() {
        let ns = test_host("ring");
        let netlink = ns.netlink().unwrap();
        let lo = netlink.index_of("lo").unwrap();
        netlink.set_up(lo).unwrap();
        let mut ring = ns.run(|| CaptureRing::open(lo)).unwrap().unwrap();
        assert!(ring.has_link_header());
        let udp = ns.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
        let start = Clock::wall_nanos();
        for size in 1..=100 {
            udp.send_to(&vec![7; size], "127.0.0.1:9").unwrap();
        }
        let mut lengths = Vec::new();
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&ring, Interest::Read, 1).unwrap();
        while lengths.len() < 100 {
            waiter.wait(Some(Clock::now() + Duration::from_secs(5))).unwrap();
            let mut found = 0;
            while ring.take(&mut |frame| {
                found += 1;
                assert!(
                    frame.wall_ns + 1_000_000_000 > start && frame.bytes.len() == frame.wire_len as usize
                );
                // UDP over IPv4 over Ethernet; the answers (ICMP) are not counted.
                if frame.bytes[23] == 17 {
                    lengths.push(frame.wire_len);
                }
                true
            }) {}
            assert!(found > 0, "frames come within seconds");
        }
        assert_eq!(lengths, (43..=142).collect::<Vec<u32>>());
        assert_eq!(ring.counts().unwrap().1, 0, "none dropped");
    }

    #[test]
    fn an_interface_that_goes_is_reported_once() {
        let ns = test_host("gone");
        let netlink = ns.netlink().unwrap();
        let ends = ["ca", "cb"].map(|name| VethEnd { name, namespace: None });
        netlink.create_veth(ends[0], ends[1]).unwrap();
        let index = netlink.index_of("ca").unwrap();
        netlink.set_up(index).unwrap();
        let ring = ns.run(|| CaptureRing::open(index)).unwrap().unwrap();
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&ring, Interest::Read, 0).unwrap();
        let mut waits_fail =
            |limit| waiter.wait(Some(Clock::now() + limit)).unwrap().iter().any(|ready| ready.failed);
        assert!(ring.take_error().unwrap(), "it is there");
        netlink.delete_link(index).unwrap();
        assert!(waits_fail(Duration::from_secs(5)));
        assert!(!ring.take_error().unwrap(), "it is gone");
        assert!(!waits_fail(Duration::from_millis(20)), "once");
    }
}
