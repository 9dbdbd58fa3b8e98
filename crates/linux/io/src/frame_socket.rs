//! [`FrameSocket`]: whole frames of an interface, in and out, with their VLAN tags and what the
//! kernel left undone.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::af_packet::{self, Control, set};
use crate::bpf::Program;
use crate::netlink::InterfaceIndex;
use crate::{IoError, PIECES_MAX, VNET_HEADER_LEN, VnetHeader};

/// `PACKET_IGNORE_OUTGOING` (Linux 4.20 and later).
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// `PACKET_VNET_HDR`.
const PACKET_VNET_HDR: libc::c_int = 15;
/// Memory for frames that wait, either way, in bytes.
const BUFFER_LEN: libc::c_int = 8 << 20;

/// Frames that come in through an interface, whoever they are for, and a way to send frames out of
/// it. Frames sent by others do not come in.
///
/// In front of each frame stands a virtio header; a VLAN tag that the kernel has taken out of a
/// frame comes beside it.
#[derive(Debug)]
pub struct FrameSocket {
    fd: OwnedFd,
    name: String,
    /// Frames lost, most because nobody read them in time: reading the kernel's counter sets it to zero.
    drops: AtomicU64,
}

/// A frame's circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// Bytes of the frame, Ethernet header included, VLAN tag not.
    pub len: usize,
    /// The outer VLAN tag as it stands in a frame: protocol and control information.
    pub tag: Option<[u8; 4]>,
}

impl FrameSocket {
    /// Opens the interface called `name` in the calling thread's namespace, non-blocking, in
    /// promiscuous mode for as long as the socket is open.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or when there is no such interface.
    pub fn open(index: InterfaceIndex, name: &str) -> Result<Self, IoError> {
        let fd = af_packet::open(libc::SOCK_RAW)?;
        let on: libc::c_int = 1;
        for (level, option) in [
            (libc::SOL_PACKET, PACKET_VNET_HDR),
            (libc::SOL_PACKET, libc::PACKET_AUXDATA),
            (libc::SOL_PACKET, PACKET_IGNORE_OUTGOING),
        ] {
            set(&fd, level, option, &on)?;
        }
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER_LEN)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &BUFFER_LEN)?;
        let everything = libc::packet_mreq {
            mr_ifindex: index.get().cast_signed(),
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &everything)?;
        af_packet::bind(&fd, index)?;
        Ok(Self { fd, name: name.to_owned(), drops: AtomicU64::new(0) })
    }

    /// Has only those frames come in from here on for which `program` gives a length other than 0
    /// ([`Program::load_filter`]). The filter stays with the socket, whoever has it.
    ///
    /// # Errors
    /// When it is another kind of program.
    pub fn set_filter(&self, program: &Program) -> Result<(), IoError> {
        set(&self.fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &program.as_fd().as_raw_fd())
    }

    /// A socket that another process has opened at the interface called `name`: frames that wait in it are
    /// received here.
    #[must_use]
    pub fn adopt(socket: OwnedFd, name: &str) -> Self {
        Self { fd: socket, name: name.to_owned(), drops: AtomicU64::new(0) }
    }

    /// True when it is open at the interface with this number; false when that was made anew since.
    ///
    /// # Errors
    /// When it is no packet socket.
    pub fn is_at(&self, index: InterfaceIndex) -> Result<bool, IoError> {
        Ok(af_packet::bound_to(&self.fd)? == index.get().cast_signed())
    }

    /// The interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Receives one frame and its virtio header; `None` when there is none now. What does not fit
    /// into `frame` is cut off.
    ///
    /// A super-packet of a kind that no virtio header can name, such as SCTP's, is lost, and
    /// counted among the drops.
    ///
    /// # Errors
    /// When the interface is gone or down.
    pub fn recv(&self, virtio: &mut VnetHeader, frame: &mut [u8]) -> Result<Option<ReceivedFrame>, IoError> {
        let mut pieces = [
            libc::iovec { iov_base: virtio.as_mut_ptr().cast(), iov_len: VNET_HEADER_LEN },
            libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() },
        ];
        let mut control = Control([0; 64]);
        // SAFETY: msghdr is integers and pointers, for which all zero bytes are a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = pieces.as_mut_ptr();
        message.msg_iovlen = pieces.len() as _;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: every pointer in `message` points to live memory of the length given beside it.
        let len = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, 0) };
        let len = match af_packet::received(len, || format!("receive from '{}'", self.name)) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.drops.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
            }
            result => result?,
        };
        let Some(len) = len else { return Ok(None) };
        Ok(Some(ReceivedFrame { len: len.saturating_sub(VNET_HEADER_LEN), tag: tag(&message) }))
    }

    /// Sends one frame in one system call, without joining its pieces first; at most [`PIECES_MAX`].
    ///
    /// # Errors
    /// When the interface is gone or down ([`IoError::is_device_gone`]), its queue is full, or the
    /// frame does not fit.
    pub fn send(&self, virtio: &VnetHeader, pieces: &[IoSlice<'_>]) -> Result<(), IoError> {
        let mut all = [IoSlice::new(&[]); PIECES_MAX + 1];
        all[0] = IoSlice::new(virtio);
        let count = pieces.len().min(PIECES_MAX);
        all[1..=count].copy_from_slice(&pieces[..count]);
        // SAFETY: as in `recv`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // An IoSlice is an iovec, by its documentation.
        message.msg_iov = all.as_mut_ptr().cast();
        message.msg_iovlen = (count + 1) as _;
        // SAFETY: the pieces are live for the duration of the call, which only reads them.
        let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &raw const message, 0) };
        if sent < 0 { Err(IoError::last(format!("send on '{}'", self.name))) } else { Ok(()) }
    }

    /// Frames lost so far, because nobody read them in time or no header can name what they are.
    #[must_use]
    pub fn drops(&self) -> u64 {
        let new = af_packet::drops(&self.fd);
        self.drops.fetch_add(new, Ordering::Relaxed) + new
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The VLAN tag in a received message's auxiliary data, if it has one.
fn tag(message: &libc::msghdr) -> Option<[u8; 4]> {
    // SAFETY: the only caller has just filled `message`, whose control buffer it holds; the kernel
    // sends auxiliary data.
    let aux: libc::tpacket_auxdata =
        unsafe { af_packet::control_message(message, libc::SOL_PACKET, libc::PACKET_AUXDATA) }?;
    if aux.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let has_protocol = aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let protocol = if has_protocol { aux.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
    let ([p0, p1], [t0, t1]) = (protocol.to_be_bytes(), aux.tp_vlan_tci.to_be_bytes());
    Some([p0, p1, t0, t1])
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;
    use crate::netlink::VethEnd;
    use crate::netns::test_host;
    use crate::{Clock, Tun, TunConfig};

    #[test]
    fn frames_come_whole_and_tags_beside_them() {
        let ns = test_host("frames");
        let netlink = ns.netlink().unwrap();
        let ends = ["fa", "fb"].map(|name| VethEnd { name, namespace: None });
        netlink.create_veth(ends[0], ends[1]).unwrap();
        let [a, b] = ["fa", "fb"].map(|name| {
            let index = netlink.index_of(name).unwrap();
            netlink.set_up(index).unwrap();
            ns.run(|| FrameSocket::open(index, name)).unwrap().unwrap()
        });
        let give_up = Clock::now() + Duration::from_secs(5);
        while ["fa", "fb"].iter().any(|name| !netlink.link(name).unwrap().is_running) {
            assert!(Clock::now() < give_up, "the cable is not in operation");
            std::thread::yield_now();
        }
        // A kind of frame that nothing else sends here.
        let plain = [&[2; 6][..], &[4; 6], &[0x88, 0xb5], &[7; 50]].concat();
        let tagged = [&plain[..12], &[0x81, 0x00, 0x20, 0x07], &plain[12..]].concat();
        a.send(&[0; VNET_HEADER_LEN], &[IoSlice::new(&plain[..20]), IoSlice::new(&plain[20..])]).unwrap();
        a.send(&[0; VNET_HEADER_LEN], &[IoSlice::new(&tagged)]).unwrap();
        let (mut virtio, mut frame) = ([0; VNET_HEADER_LEN], [0; 2_000]);
        let mut got = Vec::new();
        while got.len() < 2 && Clock::now() < give_up {
            let Some(received) = b.recv(&mut virtio, &mut frame).unwrap() else { continue };
            if frame[12..14] == [0x88, 0xb5] {
                got.push((frame[..received.len].to_vec(), received.tag));
            }
        }
        assert_eq!(got, [(plain.clone(), None), (plain, Some([0x81, 0x00, 0x20, 0x07]))]);
        assert_eq!(b.drops(), 0);
        let (mut virtio, mut frame) = ([0; VNET_HEADER_LEN], [0; 2_000]);
        while let Some(received) = a.recv(&mut virtio, &mut frame).unwrap() {
            assert_ne!(&frame[12..14], [0x88, 0xb5], "our own frame of {} B came back", received.len);
        }
        netlink.delete_link(netlink.index_of("fa").unwrap()).unwrap();
        assert!(a.send(&[0; VNET_HEADER_LEN], &[IoSlice::new(&[0; 60])]).unwrap_err().is_device_gone());
    }

    #[test]
    fn frames_wait_for_who_has_the_socket() {
        let ns = test_host("frames-wait");
        let netlink = ns.netlink().unwrap();
        let ends = ["fc", "fd"].map(|name| VethEnd { name, namespace: None });
        netlink.create_veth(ends[0], ends[1]).unwrap();
        let [(_, a), (index, b)] = ["fc", "fd"].map(|name| {
            let index = netlink.index_of(name).unwrap();
            netlink.set_up(index).unwrap();
            (index, ns.run(|| FrameSocket::open(index, name)).unwrap().unwrap())
        });
        let give_up = Clock::now() + Duration::from_secs(5);
        while ["fc", "fd"].iter().any(|name| !netlink.link(name).unwrap().is_running) {
            assert!(Clock::now() < give_up, "the cable is not in operation");
            std::thread::yield_now();
        }
        let frame_of = |n: u8| [&[2; 6][..], &[4; 6], &[0x88, 0xb5], &[n; 50]].concat();
        a.send(&[0; VNET_HEADER_LEN], &[IoSlice::new(&frame_of(1))]).unwrap();
        let kept = b.as_fd().try_clone_to_owned().unwrap();
        drop(b);
        a.send(&[0; VNET_HEADER_LEN], &[IoSlice::new(&frame_of(2))]).unwrap();
        let successor = FrameSocket::adopt(kept, "fd");
        assert!(successor.is_at(index).unwrap());
        let (mut virtio, mut frame, mut got) = ([0; VNET_HEADER_LEN], [0; 2_000], Vec::new());
        while got.len() < 2 && Clock::now() < give_up {
            let Some(received) = successor.recv(&mut virtio, &mut frame).unwrap() else { continue };
            if frame[12..14] == [0x88, 0xb5] {
                got.push(frame[..received.len].to_vec());
            }
        }
        assert_eq!(got, [frame_of(1), frame_of(2)]);
        netlink.delete_link(index).unwrap();
        assert!(!successor.is_at(index).unwrap(), "it is gone");
        let file = FrameSocket::adopt(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()), "fd");
        assert!(file.is_at(index).is_err());
    }

    #[test]
    fn a_super_packet_of_a_kind_without_a_name_is_lost_and_what_follows_is_not() {
        let ns = test_host("frames-kind");
        let config = TunConfig { name: "fk%d".to_owned(), ..TunConfig::default() };
        let tun = ns.run(|| Tun::create(&config)).unwrap().unwrap();
        tun.set_up().unwrap();
        let socket = ns.run(|| FrameSocket::open(tun.index(), tun.name())).unwrap().unwrap();
        let udp = |len: u16| {
            let mut packet = vec![0; usize::from(len)];
            packet[..2].copy_from_slice(&[0x45, 0]);
            packet[2..4].copy_from_slice(&len.to_be_bytes());
            packet[8..20].copy_from_slice(&[64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
            packet[24..26].copy_from_slice(&(len - 20).to_be_bytes());
            packet
        };
        // UDP to be cut into fragments: a guest's network card may send it, and no socket can say it.
        let mut fragments = [0; VNET_HEADER_LEN];
        fragments[..2].copy_from_slice(&[1, 3]);
        for (at, value) in [(2, 28u16), (4, 1_472), (6, 20), (8, 6)] {
            fragments[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        tun.send_vectored(&fragments, &[IoSlice::new(&udp(3_000))]).unwrap();
        tun.send_vectored(&[0; VNET_HEADER_LEN], &[IoSlice::new(&udp(300))]).unwrap();
        let (mut virtio, mut frame) = ([0; VNET_HEADER_LEN], [0; 4_000]);
        let give_up = Clock::now() + Duration::from_secs(5);
        loop {
            assert!(Clock::now() < give_up, "nothing follows");
            let received = socket.recv(&mut virtio, &mut frame).unwrap();
            if received.is_some_and(|received| frame[..received.len] == udp(300)) {
                break;
            }
        }
        assert_eq!(socket.drops(), 1);
    }
}
