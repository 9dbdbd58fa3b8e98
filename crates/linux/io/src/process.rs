//! Processes: identity that survives the reuse of numbers, and a descriptor that tells of their end.

use std::ffi::CStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::str::FromStr;

use units::Duration;

use crate::error::Context;
use crate::{Clock, IoError, Waiter};

/// A process, told from a later one of the same number by its time of start. Written `pid:ticks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    pid: u32,
    start_ticks: u64,
}

impl ProcessId {
    /// This process.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn own() -> Result<Self, IoError> {
        Self::of(std::process::id())
    }

    /// The process that has number `pid` now.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(pid: u32) -> Result<Self, IoError> {
        let stat = Stat::of(pid).doing(|| format!("examine process {pid}"))?;
        Ok(Self { pid, start_ticks: stat.start_ticks })
    }

    /// The number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// True while the process exists and has not ended (a zombie has).
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_ok_and(|stat| stat.start_ticks == self.start_ticks)
    }

    /// True while it is alive and does not end: one that ends has closed some descriptors, and has yet to close others.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let is_it = |stat: Stat| stat.start_ticks == self.start_ticks && stat.flags & PF_EXITING == 0;
        Stat::of(self.pid).is_ok_and(is_it)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pid, self.start_ticks)
    }
}

impl FromStr for ProcessId {
    type Err = IoError;

    fn from_str(text: &str) -> Result<Self, IoError> {
        let parse = || {
            let (pid, ticks) = text.trim().split_once(':')?;
            Some(Self { pid: pid.parse().ok()?, start_ticks: ticks.parse().ok()? })
        };
        parse().ok_or_else(|| IoError::Invalid {
            what: format!("process '{text}'"),
            why: "wanted its number and start time, such as 1234:567890".to_owned(),
        })
    }
}

/// Gives the calling thread a name of up to 15 bytes. That of the main thread is the process's, as `ps`, `pgrep` and
/// `killall` know it; the kernel takes it from the path that was executed, which of `/proc/self/exe` is `exe`.
///
/// # Errors
/// When the kernel refuses, which it does not for the calling thread.
pub fn set_thread_name(name: &CStr) -> Result<(), IoError> {
    // SAFETY: PR_SET_NAME reads up to 16 bytes, and no further than the zero at which `name` ends.
    let done = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    if done < 0 { Err(IoError::last("name this thread")) } else { Ok(()) }
}

/// Flag of a thread that ends (Linux's `sched.h`). When the last descriptor of a process is closed because it ends, its
/// first thread has it.
const PF_EXITING: u64 = 0x4;

/// Fields of `/proc/PID/stat` (proc(5)).
#[derive(Clone, Copy, Debug)]
struct Stat {
    /// Flags of the first thread: field 9.
    flags: u64,
    /// Field 22.
    start_ticks: u64,
}

impl Stat {
    /// Those of process `pid`; an error for a zombie.
    fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The program's name, in parentheses, may itself contain spaces and parentheses.
        let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
        if matches!(fields.next(), Some("Z" | "X")) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let mut number = |skipped| fields.nth(skipped).and_then(|field| field.parse().ok());
        match (number(5), number(12)) {
            (Some(flags), Some(start_ticks)) => Ok(Self { flags, start_ticks }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// A descriptor of a process: readable when it has ended. Never means another process.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
    pid: u32,
}

impl PidFd {
    /// Opens the process that has number `pid` now.
    ///
    /// # Errors
    /// When there is none (Linux 5.3 or later is needed).
    pub fn open(pid: u32) -> Result<Self, IoError> {
        // SAFETY: pidfd_open takes two integers and no pointers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        match i32::try_from(fd) {
            // SAFETY: the kernel just created this descriptor (close-on-exec) for us alone.
            Ok(fd) if fd >= 0 => Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, pid }),
            _ => Err(IoError::last(format!("open process {pid}"))),
        }
    }

    /// A copy of the process's descriptor `number`.
    ///
    /// # Errors
    /// When it has none, this process may not trace it, or before Linux 5.6.
    pub fn descriptor(&self, number: i32) -> Result<OwnedFd, IoError> {
        // SAFETY: pidfd_getfd takes three integers and no pointers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.fd.as_raw_fd(), number, 0) };
        match i32::try_from(fd) {
            // SAFETY: the kernel just created this descriptor (close-on-exec) for us alone.
            Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(IoError::last(format!("take descriptor {number} of process {}", self.pid))),
        }
    }

    /// Sends a signal (`libc` number).
    ///
    /// # Errors
    /// When the process has ended and been waited for.
    pub fn send_signal(&self, signal: i32) -> Result<(), IoError> {
        // SAFETY: the descriptor is open, a null siginfo is allowed, and flags must be 0.
        let done = unsafe {
            let no_info = std::ptr::null::<libc::siginfo_t>();
            libc::syscall(libc::SYS_pidfd_send_signal, self.fd.as_raw_fd(), signal, no_info, 0)
        };
        if done < 0 {
            Err(IoError::last(format!("send signal {signal} to process {}", self.pid)))
        } else {
            Ok(())
        }
    }
}

/// Asks a process to end (SIGTERM) and waits for that; false when it has not ended within `limit`.
///
/// # Errors
/// When there is no such process, or it may not be signalled.
pub fn end_process(pid: u32, limit: Duration) -> Result<bool, IoError> {
    let process = ProcessId::of(pid)?;
    PidFd::open(pid)?.send_signal(libc::SIGTERM)?;
    let mut waiter = Waiter::new(Duration::ZERO)?;
    let give_up = Clock::now() + limit;
    while process.is_alive() {
        if Clock::now() > give_up {
            return Ok(false);
        }
        waiter.wait(Some(Clock::now() + Duration::from_millis(10)))?;
    }
    Ok(true)
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Raises the number of descriptors this process may have open to what it is allowed at most; gives
/// that number.
///
/// # Errors
/// When the system does not tell, or refuses.
pub fn raise_descriptor_limit() -> Result<u64, IoError> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live rlimit that the kernel writes.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } < 0 {
        return Err(IoError::last("ask for the limit of open descriptors"));
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is a live rlimit that the kernel only reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } < 0 {
        return Err(IoError::last("raise the limit of open descriptors"));
    }
    Ok(limit.rlim_cur)
}

/// Memory of this process that is in use (`VmRSS`), bytes; `None` where the kernel does not tell.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    resident_bytes_of(std::process::id())
}

/// The same of another process.
#[must_use]
pub fn resident_bytes_of(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Interest, Waiter};
    use std::process::Command;
    use units::Duration;

    #[test]
    fn a_thread_is_called_as_it_was_told() {
        set_thread_name(c"known-by-this").unwrap();
        assert_eq!(fs::read_to_string("/proc/thread-self/comm").unwrap(), "known-by-this\n");
    }

    #[test]
    fn identity_survives_text_and_ends_with_the_process() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_alive() && own.is_running());
        assert_eq!(own.to_string().parse::<ProcessId>().unwrap(), own);
        assert!(!ProcessId { start_ticks: own.start_ticks + 1, ..own }.is_alive(), "number reused");
        assert!("12".parse::<ProcessId>().is_err());
        let mut child = Command::new("true").spawn().unwrap();
        let id = ProcessId::of(child.id()).ok();
        child.wait().unwrap();
        assert!(id.is_none_or(|id| !id.is_alive() && !id.is_running()));
    }

    /// What a process keeps to its end is closed when it does not run any more.
    #[test]
    fn a_process_whose_descriptors_are_closed_because_it_ends_does_not_run() {
        use std::io::Read;
        for _ in 0..50 {
            let mut child =
                Command::new("sleep").arg("1000").stdout(std::process::Stdio::piped()).spawn().unwrap();
            let mut end = child.stdout.take().unwrap();
            let id = ProcessId::of(child.id()).unwrap();
            assert!(id.is_running());
            child.kill().unwrap();
            assert_eq!(end.read(&mut [0]).unwrap(), 0);
            assert!(!id.is_running());
            child.wait().unwrap();
        }
    }

    #[test]
    fn the_limit_of_descriptors_is_raised_once() {
        let limit = raise_descriptor_limit().unwrap();
        assert!(limit >= 64 && raise_descriptor_limit().unwrap() == limit);
    }

    #[test]
    fn a_process_descriptor_tells_of_its_end() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let fd = PidFd::open(child.id()).unwrap();
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&fd, Interest::Read, 1).unwrap();
        assert!(waiter.wait(Some(Clock::now() + Duration::from_millis(2))).unwrap().is_empty());
        fd.send_signal(libc::SIGKILL).unwrap();
        assert_eq!(waiter.wait(None).unwrap().len(), 1);
        child.wait().unwrap();
        assert!(fd.send_signal(libc::SIGKILL).unwrap_err().is_not_there());
    }
}
