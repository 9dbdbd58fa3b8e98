//! [`AirThread`]: the thread of an emulator.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use crate::LabError;
use crate::error::Context;

/// A running emulator that gives `T` at its end; dropping it stops it.
pub(crate) struct AirThread<T> {
    stop: UnixStream,
    thread: Option<JoinHandle<Result<T, LabError>>>,
}

impl<T: Send + 'static> AirThread<T> {
    /// Starts `run`, which is to end when the socket that it gets is shut down, and is woken by bytes there.
    pub fn start(
        run: impl FnOnce(&UnixStream) -> Result<T, LabError> + Send + 'static,
    ) -> Result<Self, LabError> {
        let (stop, stopped) = UnixStream::pair().doing(|| "make a socket pair".to_owned())?;
        stopped.set_nonblocking(true).doing(|| "make a socket non-blocking".to_owned())?;
        let thread = std::thread::Builder::new()
            .name("air".to_owned())
            .spawn(move || run(&stopped))
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
