//! [`Signals`]: signals as a descriptor, so that everything is undone before the program ends.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::IoError;
use crate::error::Context;

/// Signals caught from now on for the rest of the process's life; readable when one has come.
#[derive(Debug)]
pub struct Signals {
    wake: UnixStream,
    last: Arc<AtomicUsize>,
    taken: AtomicUsize,
}

impl Signals {
    /// Catches the signals that end a program from outside: SIGINT, SIGTERM, SIGHUP.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn terminating() -> Result<Self, IoError> {
        Self::catch(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
    }

    /// Catches `signals` (`libc` numbers); those that cannot be caught are refused.
    ///
    /// # Errors
    /// When no descriptor is left or a signal cannot be caught.
    pub fn catch(signals: &[i32]) -> Result<Self, IoError> {
        let (wake, write) = UnixStream::pair().doing(|| "create a socket pair".to_owned())?;
        wake.set_nonblocking(true).doing(|| "make a socket non-blocking".to_owned())?;
        let last = Arc::new(AtomicUsize::new(0));
        for &signal in signals {
            if signal_hook::consts::FORBIDDEN.contains(&signal) {
                return Err(IoError::Invalid {
                    what: format!("signal {signal}"),
                    why: "it cannot be caught".to_owned(),
                });
            }
            let number = usize::try_from(signal).unwrap_or(0);
            let write = write.try_clone().doing(|| "copy a socket".to_owned())?;
            signal_hook::flag::register_usize(signal, Arc::clone(&last), number)
                .and_then(|_| signal_hook::low_level::pipe::register(signal, write))
                .doing(|| format!("catch signal {signal}"))?;
        }
        Ok(Self { wake, last, taken: AtomicUsize::new(0) })
    }

    /// The last signal that came since the last call (`libc` number), if any.
    #[must_use]
    pub fn take(&self) -> Option<i32> {
        let mut sink = [0; 64];
        while matches!((&self.wake).read(&mut sink), Ok(n) if n > 0) {}
        let signal = self.last.swap(0, Ordering::SeqCst);
        if signal != 0 {
            self.taken.store(signal, Ordering::SeqCst);
        }
        i32::try_from(signal).ok().filter(|signal| *signal != 0)
    }

    /// Signal that [`Signals::take`] gave last, for callers that only hear that there was a signal.
    #[must_use]
    pub fn taken(&self) -> Option<i32> {
        i32::try_from(self.taken.load(Ordering::SeqCst)).ok().filter(|signal| *signal != 0)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Ignores `signals` for the rest of the process's life.
pub fn ignore_signals(signals: &[i32]) {
    for &signal in signals {
        // SAFETY: SIG_IGN is a valid disposition and runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Interest, Waiter};
    use units::Duration;

    #[test]
    fn a_signal_wakes_the_waiter_and_is_named() {
        let signals = Signals::catch(&[libc::SIGUSR1, libc::SIGUSR2]).unwrap();
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&signals, Interest::Read, 1).unwrap();
        assert_eq!((signals.take(), signals.taken()), (None, None));
        signal_hook::low_level::raise(libc::SIGUSR2).unwrap();
        assert_eq!(waiter.wait(None).unwrap().len(), 1);
        assert_eq!(signals.take(), Some(libc::SIGUSR2));
        assert_eq!((signals.take(), signals.taken()), (None, Some(libc::SIGUSR2)));
        let soon = Clock::now() + Duration::from_millis(1);
        assert!(waiter.wait(Some(soon)).unwrap().is_empty(), "nothing is left to read");
        assert!(Signals::catch(&[libc::SIGKILL]).is_err());
    }
}
