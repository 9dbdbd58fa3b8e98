//! [`ServiceManager`]: what systemd, or another manager with its protocol, is told (sd_notify(3)), and the open
//! descriptors that it keeps (`FDSTORE=1`).
//!
//! A datagram of lines `KEY=value`. The crate `sd-notify` does the same; these are its forty lines that are
//! needed here.

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use units::Duration;

use crate::IoError;
use crate::descriptors::send_datagram;
use crate::error::Context;

/// Address on which the manager of this service listens.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl ServiceManager {
    /// The manager that has started this process or one before it; none where there is none.
    ///
    /// # Errors
    /// When its address cannot be one.
    pub fn find() -> Result<Option<Self>, IoError> {
        let address = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty());
        address.as_deref().map(Self::at).transpose()
    }

    fn at(address: &OsStr) -> Result<Self, IoError> {
        let open = || {
            let address = match address.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
                path => SocketAddr::from_pathname(Path::new(OsStr::from_bytes(path)))?,
            };
            let socket = UnixDatagram::unbound()?;
            // It must not keep packets waiting.
            socket.set_nonblocking(true)?;
            Ok(Self { socket, address })
        };
        open().doing(|| format!("speak with the service manager at {}", address.display()))
    }

    /// Tells lines `KEY=value`.
    ///
    /// # Errors
    /// When it does not listen, or its socket is full.
    pub fn tell(&self, lines: &str) -> Result<(), IoError> {
        let told = self.socket.send_to_addr(lines.as_bytes(), &self.address);
        told.map(drop).doing(|| "speak with the service manager".to_owned())
    }

    /// Has it keep `descriptor` until the service has ended for good, and give it to the next start
    /// ([`take_stored`]). `name` has letters, digits and `-`.
    ///
    /// # Errors
    /// As [`ServiceManager::tell`].
    pub fn store(&self, name: &str, descriptor: BorrowedFd<'_>) -> Result<(), IoError> {
        let send = || {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.connect_addr(&self.address)?;
            // It would let go of a socket at whose other end nobody is.
            send_datagram(&socket, format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0").as_bytes(), descriptor)
        };
        send().doing(|| "have the service manager keep a descriptor".to_owned())
    }

    /// Makes it let go of all that it keeps under `name`.
    ///
    /// # Errors
    /// As [`ServiceManager::tell`].
    pub fn forget(&self, name: &str) -> Result<(), IoError> {
        self.tell(&format!("FDSTOREREMOVE=1\nFDNAME={name}"))
    }
}

/// The first descriptor that a manager gives (sd_listen_fds(3)).
const FIRST_GIVEN: RawFd = 3;

/// Takes what the manager gives this process of what it keeps: names and descriptors. It goes on keeping them.
///
/// To be called once: whoever has them closes them.
#[must_use]
pub fn take_stored() -> Vec<(String, OwnedFd)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Vec::new();
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let count = number("LISTEN_FDS").unwrap_or(0).min(names.split(':').count() as u32);
    let given = (FIRST_GIVEN..).zip(names.split(':')).take(count as usize);
    given.filter_map(|(number, name)| Some((name.to_owned(), close_for_programs(number)?))).collect()
}

/// The open descriptor of this number, which programs that this process starts do not get.
fn close_for_programs(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: F_SETFD takes a number and a flag, no pointers.
    let done = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: it is open, and by the protocol of LISTEN_FDS this process's own; nothing else here knows of it.
    (done == 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Time that the manager waits for a sign of life; none if it does not want any.
///
/// `WATCHDOG_PID` is not looked at: whoever goes on in the place of a process has its duties.
#[must_use]
pub fn sign_of_life_within() -> Option<Duration> {
    let text = std::env::var("WATCHDOG_USEC").ok()?;
    text.parse().ok().filter(|micros| *micros > 0).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_comes_with_its_name() {
        use std::io::Write;
        use std::os::fd::AsFd;
        use std::os::unix::net::UnixStream;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let listener = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager::at(path.as_os_str()).unwrap();
        let (mut own, theirs) = UnixStream::pair().unwrap();
        own.write_all(b"kept").unwrap();
        drop(own);
        manager.store("run-7", theirs.as_fd()).unwrap();
        manager.forget("run-7").unwrap();
        drop(theirs);
        let mut bytes = [0; 64];
        let listener = UnixStream::from(OwnedFd::from(listener));
        let (len, stored) = crate::receive_with_descriptors(&listener, &mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"FDSTORE=1\nFDNAME=run-7\nFDPOLL=0");
        let [stored] = stored.try_into().unwrap();
        let (len, none) = crate::receive_with_descriptors(&listener, &mut bytes).unwrap();
        assert_eq!((&bytes[..len], none.len()), (&b"FDSTOREREMOVE=1\nFDNAME=run-7"[..], 0));
        let mut kept = String::new();
        std::io::Read::read_to_string(&mut UnixStream::from(stored), &mut kept).unwrap();
        assert_eq!(kept, "kept", "what was sent before waits in it");
    }

    #[test]
    fn what_is_told_arrives_at_a_path_and_at_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("ct-io-notify-{}", std::process::id());
        let named = SocketAddr::from_abstract_name(&name).unwrap();
        let listeners = [
            (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
            (UnixDatagram::bind_addr(&named).unwrap(), format!("@{name}")),
        ];
        for (listener, address) in listeners {
            ServiceManager::at(OsStr::new(&address)).unwrap().tell("READY=1\nMAINPID=7").unwrap();
            let mut bytes = [0; 64];
            let len = listener.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..len], b"READY=1\nMAINPID=7");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(ServiceManager::at(path.as_os_str()).unwrap().tell("READY=1").unwrap_err().is_not_there());
    }
}
