//! [`AirThread`]: the thread of an emulator, and what every emulator does with its devices.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use io::{Interest, Tun, Waiter};
use units::Duration;

use crate::LabError;
use crate::error::Context;

/// Packets fetched from one device before the others and the due ones get their turn.
pub(crate) const BATCH: usize = 32;
/// Room for one packet of the devices' MTU.
pub(crate) const PACKET_LEN_MAX: usize = 2_048;
/// Above ordinary threads; the kernel's own time-critical threads run at 50.
const REALTIME_PRIORITY: u8 = 20;
/// Token of the socket that ends the thread; devices have their numbers.
pub(crate) const STOP: u64 = u64::MAX;

/// A running emulator that gives `T` at its end; dropping it stops it.
#[derive(Debug)]
pub(crate) struct AirThread<T> {
    stop: UnixStream,
    thread: Option<JoinHandle<Result<T, LabError>>>,
}

impl<T: Send + 'static> AirThread<T> {
    /// Starts `run` in a thread called `name`. It is to end when the socket that it gets is shut down, and is woken by
    /// bytes there. It has real-time priority if the flag is true: refused to who may not, packets are later, and that
    /// is stated.
    pub fn start(
        name: &str,
        run: impl FnOnce(&UnixStream, bool) -> Result<T, LabError> + Send + 'static,
    ) -> Result<Self, LabError> {
        let (stop, stopped) = UnixStream::pair().doing(|| "make a socket pair".to_owned())?;
        stopped.set_nonblocking(true).doing(|| "make a socket non-blocking".to_owned())?;
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&stopped, io::sched::set_realtime_priority(REALTIME_PRIORITY).is_ok()))
            .doing(|| "start the emulator's thread".to_owned())?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Wakes it; none when it has ended.
    pub fn wake(&self) -> Option<()> {
        (&self.stop).write_all(&[0]).ok()
    }

    /// True when it has ended by itself, which is an error.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops it and hands over what it gives.
    pub fn finish(mut self) -> Result<T, LabError> {
        self.end().unwrap_or_else(|| Err(LabError::Which("the emulator is stopped already".to_owned())))
    }
}

impl<T> AirThread<T> {
    fn end(&mut self) -> Option<Result<T, LabError>> {
        let thread = self.thread.take()?;
        // The other end hanging up wakes the thread.
        let _ = self.stop.shutdown(Shutdown::Both);
        let failed = |_| LabError::Which("the emulator's thread panicked".to_owned());
        Some(thread.join().map_err(failed).and_then(|result| result))
    }
}

impl<T> Drop for AirThread<T> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Waits for packets of `devices`, whose tokens are their numbers, and for [`STOP`].
pub(crate) fn waiter<'a>(
    spin_margin: Duration,
    devices: impl IntoIterator<Item = &'a Tun>,
    stopped: &UnixStream,
) -> Result<Waiter, LabError> {
    let waiter = Waiter::new(spin_margin)?;
    for (token, device) in (0..).zip(devices) {
        waiter.add(device, Interest::Read, token)?;
    }
    waiter.add(stopped, Interest::Read, STOP)?;
    Ok(waiter)
}

/// The next packet that a device has.
pub(crate) fn fetch(device: &Tun) -> Result<Option<Vec<u8>>, LabError> {
    let mut packet = vec![0; PACKET_LEN_MAX];
    let len = device.recv(&mut packet)?;
    Ok(len.map(|len| {
        packet.truncate(len);
        packet
    }))
}

/// Packets that the kernel dropped because they were not fetched from `devices` in time.
pub(crate) fn missed<'a>(devices: impl IntoIterator<Item = &'a Tun>) -> Result<u64, LabError> {
    let dropped = devices.into_iter().map(|device| device.stats().map(|stats| stats.tx_dropped));
    Ok(dropped.sum::<Result<u64, _>>()?)
}
