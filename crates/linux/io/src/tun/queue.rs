//! [`TunQueue`]: one of a device's queues, where packets are read and written.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use units::Bytes;

use crate::error::Context;
use crate::{IoError, VNET_HEADER_LEN, VnetHeader};

/// Most pieces of one packet for [`TunQueue::send_vectored`].
pub const PIECES_MAX: usize = 7;

/// A queue of a TUN device: what the kernel hands over here comes out nowhere else. The device
/// vanishes with its last queue.
///
/// It is non-blocking. Watch it with [`crate::Waiter`].
#[derive(Debug)]
pub struct TunQueue {
    pub(super) file: File,
    pub(super) name: String,
    pub(super) has_vnet_header: bool,
}

impl TunQueue {
    /// A queue that another process has opened, of a device with virtio headers named `name`: packets that
    /// wait in it are read here.
    #[must_use]
    pub fn adopt(queue: OwnedFd, name: &str) -> Self {
        Self { file: File::from(queue), name: name.to_owned(), has_vnet_header: true }
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that stand before each packet: [`VNET_HEADER_LEN`] with GSO, else 0.
    #[must_use]
    pub fn header_len(&self) -> usize {
        if self.has_vnet_header { VNET_HEADER_LEN } else { 0 }
    }

    /// Receives what the device has: with GSO the virtio header, then the packet. `None` when it has
    /// nothing now. `buffer` should hold [`crate::PACKET_LEN_MAX`] plus [`TunQueue::header_len`];
    /// more is cut off.
    ///
    /// # Errors
    /// When the device is gone ([`IoError::is_device_gone`]).
    pub fn recv(&self, buffer: &mut [u8]) -> Result<Option<usize>, IoError> {
        self.received((&self.file).read(buffer))
    }

    /// Receives one packet with its virtio header apart (zeros where there is none); gives the
    /// packet's length, or `None` when there is nothing now. `packet` should hold
    /// [`crate::PACKET_LEN_MAX`]; more is cut off.
    ///
    /// # Errors
    /// When the device is gone ([`IoError::is_device_gone`]).
    pub fn recv_split(&self, header: &mut VnetHeader, packet: &mut [u8]) -> Result<Option<usize>, IoError> {
        if !self.has_vnet_header {
            *header = [0; VNET_HEADER_LEN];
            return self.recv(packet);
        }
        let mut pieces = [IoSliceMut::new(header), IoSliceMut::new(packet)];
        let len = self.received((&self.file).read_vectored(&mut pieces))?;
        Ok(len.map(|len| len.saturating_sub(VNET_HEADER_LEN)))
    }

    fn received(&self, result: io::Result<usize>) -> Result<Option<usize>, IoError> {
        match result {
            Ok(len) => Ok(Some(len)),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(e).doing(|| format!("receive from '{}'", self.name)),
        }
    }

    /// Sends one packet in one system call: what stands in `buffer` as [`TunQueue::recv`] gives it.
    ///
    /// # Errors
    /// When the device is gone or down ([`IoError::is_device_gone`]), or the packet is malformed.
    pub fn send(&self, buffer: &[u8]) -> Result<(), IoError> {
        (&self.file).write(buffer).map(drop).doing(|| format!("send on '{}'", self.name))
    }

    /// Sends one packet, super-packets of up to 64 KB included, in one system call and without
    /// joining its pieces first. Where packets come bare the header is left out. At most
    /// [`PIECES_MAX`] pieces.
    ///
    /// # Errors
    /// When the device is gone or down ([`IoError::is_device_gone`]), or the header does not fit the packet.
    pub fn send_vectored(&self, header: &VnetHeader, pieces: &[IoSlice<'_>]) -> Result<(), IoError> {
        let mut all = [IoSlice::new(&[]); PIECES_MAX + 1];
        let mut used = 0;
        if self.has_vnet_header {
            all[0] = IoSlice::new(header);
            used = 1;
        }
        let Some(room) = all.get_mut(used..used + pieces.len()).filter(|_| pieces.len() <= PIECES_MAX) else {
            return Err(IoError::Invalid {
                what: format!("a packet of {} pieces", pieces.len()),
                why: format!("at most {PIECES_MAX} are sent in one call"),
            });
        };
        room.copy_from_slice(pieces);
        used += pieces.len();
        (&self.file).write_vectored(&all[..used]).map(drop).doing(|| {
            let len: usize = pieces.iter().map(|piece| piece.len()).sum();
            format!("send a packet of {} on '{}'", Bytes::from(len), self.name)
        })
    }
}

impl AsFd for TunQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
