//! [`InlinePath`]: packets by way of whole frames between two interfaces.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use engine::{Port, Transmit};
use io::{
    Clock, FrameSocket, Interest, IoError, PACKET_LEN_MAX, ReceivedFrame, VNET_HEADER_LEN, VnetHeader, Waiter,
};
use wire::{Packet, TcpHeaderSpec, Transport, protocol};

use super::frame::{self, ADDRESSES_LEN, ETHERNET_LEN, moved};
use super::link_headers::{Key, LinkHeader, Seen, SharedHeaders};
use super::neighbors::announcement;
use crate::packet_loop::LAST_TURNS;
use crate::packet_path::{Batch, PacketPath, Received};

const TAG_LEN: usize = 4;

/// Frames that are none of ours and are bridged before packets get their turn again.
const BRIDGED_MAX: usize = 64;

/// A socket at either interface, and room for one frame.
#[derive(Debug)]
pub(crate) struct InlinePath {
    sockets: [FrameSocket; 2],
    virtio: VnetHeader,
    frame: Vec<u8>,
    /// Side on which the frame came in, its length, and its tag.
    received: (Port, usize, Option<[u8; 4]>),
    /// Position at which the packet in it ends.
    packet_end: usize,
    /// Header that the frame would teach, if it is surely its host's.
    lesson: Option<(Key, LinkHeader)>,
    headers: SharedHeaders,
}

impl InlinePath {
    /// A path between the wired and the mobile interface.
    pub fn new(sockets: [FrameSocket; 2], headers: SharedHeaders) -> Self {
        Self {
            sockets,
            virtio: [0; VNET_HEADER_LEN],
            frame: vec![0; ETHERNET_LEN + TAG_LEN + PACKET_LEN_MAX],
            received: (Port::Wired, 0, None),
            packet_end: 0,
            lesson: None,
            headers,
        }
    }

    /// Throws away what has come in: it is too old, or went another way too. Where frames come
    /// faster than that, some are left.
    pub fn discard(&mut self) -> Result<(), IoError> {
        let end = Clock::now() + LAST_TURNS;
        for socket in &self.sockets {
            while Clock::now() < end && receive(socket, &mut self.virtio, &mut self.frame)?.is_some() {}
        }
        Ok(())
    }

    /// Takes another socket for a side, whose interface was made anew, and has `waiter` report what
    /// comes in there by `token`.
    pub fn replace(
        &mut self,
        side: Port,
        socket: FrameSocket,
        waiter: &Waiter,
        token: u64,
    ) -> Result<(), IoError> {
        waiter.add(&socket, Interest::Read, token)?;
        let before = std::mem::replace(&mut self.sockets[side.index()], socket);
        // The watchdog has it too: closed here alone it would go on being reported.
        waiter.remove(&before)
    }

    /// Frames lost because nobody read them in time.
    pub fn drops(&self) -> [u64; 2] {
        self.sockets.each_ref().map(FrameSocket::drops)
    }

    /// Position at which the IP packet in the frame ends, if its flow may be the processor's. Notes what
    /// hosts announce in it.
    fn packet_end(&mut self) -> Option<usize> {
        self.lesson = None;
        let (from, len, tag) = self.received;
        let frame = self.frame.get(..len)?;
        if let Some(announced) = announcement(frame) {
            self.headers.lock().announce(from, tag, announced, Clock::now());
        }
        let (header, packet) = frame::split(frame, tag)?;
        let ip_len = match packet.first()? >> 4 {
            4 => usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?])),
            _ => 40 + usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?])),
        };
        // Short frames are padded; of super-packets the length may not fit its field.
        let packet = if ip_len == 0 { packet } else { packet.get(..ip_len)? };
        let end = ETHERNET_LEN + packet.len();
        let parsed = wire::parse_prefix(packet).ok()?;
        let Some(key) = key_of(&parsed, from) else {
            let is_icmp = [protocol::ICMP, protocol::ICMPV6].contains(&parsed.ip.protocol);
            return is_icmp.then_some(end);
        };
        let seen = self.headers.lock().see(key, from.opposite(), header);
        self.lesson = (seen == Seen::New).then_some((key, header));
        (seen != Seen::Elsewhere).then_some(end)
    }

    /// Sends the frame as it stands out of the other side.
    fn bridge(&mut self, virtio: VnetHeader) -> Result<bool, IoError> {
        let (from, len, tag) = self.received;
        let frame = self.frame.get(..len).unwrap_or_default();
        let Some((addresses, rest)) = frame.split_at_checked(ADDRESSES_LEN) else { return Ok(false) };
        frame::write(&self.sockets[from.opposite().index()], virtio, tag, [addresses, rest, &[], &[]])
    }
}

/// Receives a frame; nothing comes from an interface that is down or gone, which the socket says once.
fn receive(
    socket: &FrameSocket,
    virtio: &mut VnetHeader,
    frame: &mut [u8],
) -> Result<Option<ReceivedFrame>, IoError> {
    match socket.recv(virtio, frame) {
        Err(error) if error.is_device_gone() => Ok(None),
        result => result,
    }
}

/// The flow of a segment that came in on `from`.
fn key_of(packet: &Packet, from: Port) -> Option<Key> {
    let Transport::Tcp(tcp) = &packet.transport else { return None };
    let source = SocketAddr::new(packet.ip.src, tcp.src_port);
    let destination = SocketAddr::new(packet.ip.dst, tcp.dst_port);
    Some(match from {
        Port::Mobile => (source, destination),
        Port::Wired => (destination, source),
    })
}

impl PacketPath for InlinePath {
    /// One packet at a time: what is only bridged must not overtake those before it.
    fn receive(&mut self, from: Port) -> Result<Batch, IoError> {
        for _ in 0..BRIDGED_MAX {
            let socket = &self.sockets[from.index()];
            let Some(received) = receive(socket, &mut self.virtio, &mut self.frame)? else {
                return Ok(Batch { len: 0, is_last: true });
            };
            self.received = (from, received.len, received.tag);
            if let Some(end) = self.packet_end() {
                self.virtio = moved(self.virtio, -(ETHERNET_LEN as i16));
                self.packet_end = end;
                return Ok(Batch { len: 1, is_last: false });
            }
            self.bridge(self.virtio)?;
        }
        Ok(Batch { len: 0, is_last: true })
    }

    fn batch(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.frame.get(ETHERNET_LEN..self.packet_end).into_iter()
    }

    fn packet(&mut self, _index: usize) -> Option<Received<'_>> {
        let packet = self.frame.get_mut(ETHERNET_LEN..self.packet_end)?;
        Some(Received { virtio: &self.virtio, packet })
    }

    fn trust(&mut self, _index: usize) {
        if let Some((key, header)) = self.lesson.take() {
            self.headers.lock().learn(key, self.received.0.opposite(), header, Clock::now());
        }
    }

    fn forward(&mut self, _index: usize) -> Result<bool, IoError> {
        self.bridge(moved(self.virtio, ETHERNET_LEN as i16))
    }

    fn send(&mut self, packet: &Transmit<'_>) -> Result<bool, IoError> {
        let mut start = [0; TcpHeaderSpec::MAX_LEN + ETHERNET_LEN];
        let Ok(parsed) = wire::parse_prefix(packet.header) else { return Ok(false) };
        let key = key_of(&parsed, packet.to.opposite());
        let Some(link) = key.and_then(|key| self.headers.lock().get(key, packet.to)) else {
            return Ok(false);
        };
        let len = 2 + packet.header.len();
        let Some(rest) = start.get_mut(..len) else { return Ok(false) };
        rest[..2].copy_from_slice(&frame::kind_of(parsed.ip.src.is_ipv4()));
        rest[2..].copy_from_slice(packet.header);
        let virtio = moved(packet.virtio.to_bytes(), ETHERNET_LEN as i16);
        let pieces = [&link.addresses[..], &start[..len], packet.payload.0, packet.payload.1];
        frame::write(&self.sockets[packet.to.index()], virtio, link.tag, pieces)
    }

    fn share(&self) -> Result<Option<[OwnedFd; 2]>, IoError> {
        let share = |socket: &FrameSocket| {
            let shared = socket.as_fd().try_clone_to_owned();
            shared.map_err(|error| IoError::system(format!("share the socket at '{}'", socket.name()), error))
        };
        let [wired, mobile] = &self.sockets;
        Ok(Some([share(wired)?, share(mobile)?]))
    }

    fn watch(&self, waiter: &Waiter, tokens: [u64; 2]) -> Result<(), IoError> {
        let mut all = self.sockets.iter().zip(tokens);
        all.try_for_each(|(socket, token)| waiter.add(socket, Interest::Read, token))
    }
}
