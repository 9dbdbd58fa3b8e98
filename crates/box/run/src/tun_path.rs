//! [`TunPath`]: packets by way of a queue of each of two TUN devices.

use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use engine::{Port, Transmit};
use io::{Interest, IoError, PACKET_LEN_MAX, TunQueue, VNET_HEADER_LEN, VnetHeader, Waiter};

use crate::packet_path::{Batch, PacketPath, Received};

/// Packets read together at most.
const BATCH_PACKETS: usize = 32;

/// Bytes after which a batch is not added to: it is to stay in the processor's cache until it is
/// handled. Packets of ordinary size are as many as a batch may have, super-packets come one or two
/// at a time.
const BATCH_BYTES: usize = 48 * 1024;

/// A queue on either side, and room for a batch of packets, one behind the other.
#[derive(Debug)]
pub(crate) struct TunPath {
    queues: [TunQueue; 2],
    virtio: [VnetHeader; BATCH_PACKETS],
    /// Position at which each packet of the batch ends; the next one begins there.
    ends: [usize; BATCH_PACKETS],
    len: usize,
    bytes: Vec<u8>,
    /// Side on which the batch came in.
    from: Port,
    /// Packets come through routing and go through it again, and are to have passed one hop.
    gives_back_hop: bool,
}

impl TunPath {
    /// A path over a queue of the wired and one of the mobile device, into which packets were
    /// routed or redirected.
    pub fn new(queues: [TunQueue; 2], are_routed: bool) -> Self {
        Self {
            queues,
            virtio: [[0; VNET_HEADER_LEN]; BATCH_PACKETS],
            ends: [0; BATCH_PACKETS],
            len: 0,
            bytes: vec![0; BATCH_BYTES + PACKET_LEN_MAX],
            from: Port::Wired,
            gives_back_hop: are_routed,
        }
    }

    fn place(&self, index: usize) -> Range<usize> {
        let begin = index.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends[..self.len].get(index);
        begin.copied().unwrap_or(0)..end.copied().unwrap_or(0)
    }
}

impl PacketPath for TunPath {
    fn receive(&mut self, from: Port) -> Result<Batch, IoError> {
        (self.from, self.len) = (from, 0);
        let mut begin = 0;
        while self.len < BATCH_PACKETS && begin < BATCH_BYTES {
            let (virtio, room) = (&mut self.virtio[self.len], &mut self.bytes[begin..]);
            let Some(len) = self.queues[from.index()].recv_split(virtio, room)? else {
                return Ok(Batch { len: self.len, is_last: true });
            };
            if self.gives_back_hop
                && let Some(packet) = room.get_mut(..len)
            {
                give_back_hop(packet);
            }
            begin += len;
            self.ends[self.len] = begin;
            self.len += 1;
        }
        Ok(Batch { len: self.len, is_last: false })
    }

    fn batch(&self) -> impl Iterator<Item = &[u8]> + Clone {
        (0..self.len).filter_map(|index| self.bytes.get(self.place(index)))
    }

    fn packet(&mut self, index: usize) -> Option<Received<'_>> {
        let place = self.place(index);
        Some(Received { virtio: self.virtio.get(index)?, packet: self.bytes.get_mut(place)? })
    }

    fn forward(&mut self, index: usize) -> Result<bool, IoError> {
        let queue = &self.queues[self.from.opposite().index()];
        write(queue, &self.virtio[index], &[self.bytes.get(self.place(index)).unwrap_or_default()])
    }

    fn send(&mut self, packet: &Transmit<'_>) -> Result<bool, IoError> {
        let pieces = [packet.header, packet.payload.0, packet.payload.1];
        let used = pieces.iter().rposition(|piece| !piece.is_empty()).map_or(0, |last| last + 1);
        write(&self.queues[packet.to.index()], &packet.virtio.to_bytes(), &pieces[..used])
    }

    fn share(&self) -> Result<Option<[OwnedFd; 2]>, IoError> {
        let [wired, mobile] = &self.queues;
        let share = |queue: &TunQueue| {
            let shared = queue.as_fd().try_clone_to_owned();
            shared.map_err(|error| IoError::system(format!("share a queue of {}", queue.name()), error))
        };
        Ok(Some([share(wired)?, share(mobile)?]))
    }

    fn watch(&self, waiter: &Waiter, tokens: [u64; 2]) -> Result<(), IoError> {
        self.queues.iter().zip(tokens).try_for_each(|(queue, token)| waiter.add(queue, Interest::Read, token))
    }
}

/// Most pieces of a packet here: header, and payload in two where the ring wraps.
const PIECES: usize = 3;

fn write(queue: &TunQueue, virtio: &VnetHeader, pieces: &[&[u8]]) -> Result<bool, IoError> {
    let mut slices = [IoSlice::new(&[]); PIECES];
    for (slice, piece) in slices.iter_mut().zip(pieces) {
        *slice = IoSlice::new(piece);
    }
    match queue.send_vectored(virtio, &slices[..pieces.len().min(PIECES)]) {
        Ok(()) => Ok(true),
        Err(e) if e.is_device_gone() => Err(e),
        Err(_) => Ok(false),
    }
}

/// Adds one to the hop limit: this machine is one router hop, though the kernel forwards a packet twice.
fn give_back_hop(packet: &mut [u8]) {
    let hop_limit = match packet.first().map(|byte| byte >> 4) {
        Some(4) => packet.get(8),
        Some(6) => packet.get(7),
        _ => None,
    };
    if let Some(hop_limit) = hop_limit.and_then(|limit| limit.checked_add(1)) {
        wire::set_hop_limit(packet, hop_limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 header with a right checksum and the given time to live.
    fn ipv4(ttl: u8) -> [u8; 20] {
        let mut packet = [0; 20];
        (packet[0], packet[8]) = (0x45, 1);
        let sum = !(0x4500u16 + 0x0100);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        assert!(wire::set_hop_limit(&mut packet, ttl));
        packet
    }

    #[test]
    fn the_second_hop_is_given_back() {
        for ttl in [1, 63, 254] {
            let mut packet = ipv4(ttl);
            assert!(wire::ipv4_checksum_is_valid(&packet));
            give_back_hop(&mut packet);
            assert_eq!(packet, ipv4(ttl + 1));
            let mut packet = [0; 40];
            (packet[0], packet[7]) = (0x60, ttl);
            give_back_hop(&mut packet);
            assert_eq!(packet[7], ttl + 1);
        }
        let mut packet = ipv4(255);
        give_back_hop(&mut packet);
        assert_eq!(packet, ipv4(255), "no more than 255");
    }

    #[test]
    fn anything_is_taken_without_panic() {
        for packet in [&mut [][..], &mut [0x45], &mut [0x60; 3], &mut [0; 64]] {
            give_back_hop(packet);
        }
    }
}
