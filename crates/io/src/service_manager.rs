//! [`ServiceManager`]: what systemd, or another manager with its protocol, is told (sd_notify(3)).
//!
//! A datagram of lines `KEY=value`. The crate `sd-notify` does the same; these are its forty lines that are
//! needed here.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use units::Duration;

use crate::IoError;
use crate::error::Context;

/// Where the manager of this service listens.
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
}

/// How long the manager waits for a sign of life; none if it does not want any.
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
    fn what_is_told_arrives_at_a_path_and_at_a_name() {
        let path = std::env::temp_dir().join(format!("ct-io-notify-{}", std::process::id()));
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
