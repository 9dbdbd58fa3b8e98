//! [`PacketPath`]: how packets come from the kernel and go back to it, whatever the devices are.

use io::{IoError, VnetHeader, Waiter};

use crate::{Side, Transmit};

/// A packet that came in, where its path keeps it: to be looked at and edited in place.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    /// Its virtio header: a super-packet, a partial checksum, or zeros.
    pub virtio: &'a mut VnetHeader,
    /// From the IP header on.
    pub packet: &'a mut [u8],
}

/// Two sides, and packets between them and this process.
///
/// A path reads and writes in batches of whatever size suits its devices; who uses it sees one packet after the
/// other, the last one in place, and says with [`PacketPath::flush`] that no more is to follow for now. Calls are
/// dispatched statically, and none of them allocates.
pub(crate) trait PacketPath: Send {
    /// The next packet that came in on `from`; `None` when there is none now.
    ///
    /// # Errors
    /// When the device is gone or down.
    fn receive(&mut self, from: Side) -> Result<Option<Received<'_>>, IoError>;

    /// Sends the packet received last, as it stands, out of the other side. False when the kernel refused it:
    /// it is lost then, as on any link.
    ///
    /// # Errors
    /// When the device is gone or down.
    fn forward(&mut self) -> Result<bool, IoError>;

    /// Sends a packet of the processor's own making, as [`PacketPath::forward`] does.
    ///
    /// # Errors
    /// When the device is gone or down.
    fn send(&mut self, packet: &Transmit<'_>) -> Result<bool, IoError>;

    /// Hands over what has been collected for sending; gives how many packets per side the kernel refused.
    ///
    /// # Errors
    /// When a device is gone or down.
    fn flush(&mut self) -> Result<[u64; 2], IoError> {
        Ok([0; 2])
    }

    /// Has `waiter` report packets of either side by its token: wired, then mobile.
    ///
    /// # Errors
    /// When a device is gone.
    fn watch(&self, waiter: &Waiter, tokens: [u64; 2]) -> Result<(), IoError>;
}
