//! [`PacketPath`]: how packets come from the kernel and go back to it, whatever the devices are.

use std::os::fd::OwnedFd;

use engine::{Port, Transmit};
use io::{IoError, VnetHeader, Waiter};

/// A packet that came in, where its path keeps it: to be looked at and edited in place.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    /// Its virtio header: a super-packet, a partial checksum, or zeros.
    pub virtio: &'a VnetHeader,
    /// From the IP header on.
    pub packet: &'a mut [u8],
}

/// Packets that were read together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// Number of packets.
    pub len: usize,
    /// There are no more for now.
    pub is_last: bool,
}

/// Two sides, and packets between them and this process.
///
/// A path reads in batches of whatever size suits its devices; who uses it sees the packets of a
/// batch where they are kept and handles them in their order. Nothing is collected for sending:
/// what a flow may send at once is one super-packet already. Calls are dispatched statically, and
/// none of them allocates.
pub(crate) trait PacketPath: Send {
    /// Reads the next packets that came in on `from`, in the place of those read before.
    ///
    /// # Errors
    /// When the device is gone or down.
    fn receive(&mut self, from: Port) -> Result<Batch, IoError>;

    /// All of the batch, from the IP header on.
    fn batch(&self) -> impl Iterator<Item = &[u8]> + Clone;

    /// One of the batch.
    fn packet(&mut self, index: usize) -> Option<Received<'_>>;

    /// One of the batch is surely of the host that it names: what is in front of it tells how that is
    /// reached.
    fn trust(&mut self, _index: usize) {}

    /// Sends one of the batch, as it stands, out of the other side. False when the kernel refused it:
    /// it is lost then, as on any link.
    ///
    /// # Errors
    /// When the device is gone or down.
    fn forward(&mut self, index: usize) -> Result<bool, IoError>;

    /// Sends a packet of the processor's own making, as [`PacketPath::forward`] does.
    ///
    /// # Errors
    /// When the device is gone or down.
    fn send(&mut self, packet: &Transmit<'_>) -> Result<bool, IoError>;

    /// Copies of the queues that it reads, wired and mobile, by which packets wait there although this process
    /// has ended; none where that is not so.
    ///
    /// # Errors
    /// When no descriptor is left.
    fn share(&self) -> Result<Option<[OwnedFd; 2]>, IoError> {
        Ok(None)
    }

    /// Has `waiter` report packets of either side by its token: wired, then mobile.
    ///
    /// # Errors
    /// When a device is gone.
    fn watch(&self, waiter: &Waiter, tokens: [u64; 2]) -> Result<(), IoError>;
}
