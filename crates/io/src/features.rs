//! What this machine and this process can do, each lack in one clear line.

use std::fs;
use std::path::Path;

use crate::{IoError, Namespace};

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// Something this program may need of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Changing interfaces, routes and rules.
    NetworkAdministration,
    /// Reading packets from an interface.
    PacketSockets,
    /// Making and entering network namespaces.
    Namespaces,
    /// TUN devices.
    Tun,
    /// IPv6 in this namespace.
    Ipv6,
    /// Programs in the kernel.
    Bpf,
}

/// Checks that `feature` is there.
///
/// # Errors
/// One line that says what is missing and what to do.
pub fn require(feature: Feature) -> Result<(), IoError> {
    match feature {
        Feature::NetworkAdministration => {
            require_capability(CAP_NET_ADMIN, "CAP_NET_ADMIN", "change interfaces and routes")
        }
        Feature::PacketSockets => {
            require_capability(CAP_NET_RAW, "CAP_NET_RAW", "read packets from an interface")
        }
        Feature::Namespaces => {
            require_capability(CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "make network namespaces")?;
            Namespace::current().map(drop)
        }
        Feature::Tun => {
            require_capability(CAP_NET_ADMIN, "CAP_NET_ADMIN", "create TUN devices")?;
            require_path("/dev/net/tun", "load the driver with `modprobe tun`")
        }
        Feature::Bpf => {
            let what = "load BPF programs";
            // Who may administrate the system may this too (capabilities(7)).
            require_capability(CAP_SYS_ADMIN, "CAP_SYS_ADMIN", what)
                .or_else(|_| require_capability(CAP_BPF, "CAP_BPF", what))?;
            require_capability(CAP_NET_ADMIN, "CAP_NET_ADMIN", what)
        }
        Feature::Ipv6 => require_path("/proc/sys/net/ipv6", "the kernel runs without IPv6 (ipv6.disable=1)"),
    }
}

/// The program `name` as found in `PATH` or the administrator's directories, or `None`.
#[must_use]
pub fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(Into::into));
    directories.map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}

fn require_path(path: &str, remedy: &str) -> Result<(), IoError> {
    if Path::new(path).exists() {
        return Ok(());
    }
    Err(IoError::Missing { what: path.to_owned(), remedy: remedy.to_owned() })
}

fn require_capability(bit: u32, name: &'static str, what: &str) -> Result<(), IoError> {
    let status = fs::read_to_string("/proc/thread-self/status")
        .map_err(|error| IoError::system("read /proc/thread-self/status", error))?;
    if effective_capabilities(&status) >> bit & 1 == 1 {
        return Ok(());
    }
    Err(IoError::NotPrivileged { what: what.to_owned(), capability: name })
}

/// The `CapEff` line of a `/proc/PID/status`.
fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_status_file() {
        assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t0000000000003000\n") >> CAP_NET_ADMIN & 3, 3);
        assert_eq!(effective_capabilities("Name:\tx\n"), 0);
    }

    #[test]
    fn a_lack_is_one_line_with_a_remedy() {
        let error = require_path("/no/such/device", "load the driver with `modprobe x`").unwrap_err();
        assert_eq!(error.to_string(), "/no/such/device is missing: load the driver with `modprobe x`");
        let error = require_capability(63, "CAP_X", "do x").unwrap_err();
        assert_eq!(error.to_string(), "cannot do x: needs CAP_X; run as root");
    }

    #[test]
    fn programs_are_found() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-here").is_none());
    }
}
