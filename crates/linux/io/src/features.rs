//! Abilities of this machine and this process, each lack in one clear line.

use std::path::Path;

use crate::{Capabilities, Capability, IoError, Namespace};

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
            require_capability(Capability::NetAdmin, "change interfaces and routes")
        }
        Feature::PacketSockets => require_capability(Capability::NetRaw, "read packets from an interface"),
        Feature::Namespaces => {
            require_capability(Capability::SysAdmin, "make network namespaces")?;
            Namespace::current().map(drop)
        }
        Feature::Tun => {
            require_capability(Capability::NetAdmin, "create TUN devices")?;
            require_path("/dev/net/tun", "load the driver with `modprobe tun`")
        }
        Feature::Bpf => {
            let what = "load BPF programs";
            // Who may administrate the system may this too (capabilities(7)).
            require_capability(Capability::SysAdmin, what)
                .or_else(|_| require_capability(Capability::Bpf, what))?;
            require_capability(Capability::NetAdmin, what)
        }
        Feature::Ipv6 => require_path("/proc/sys/net/ipv6", "the kernel runs without IPv6 (ipv6.disable=1)"),
    }
}

/// The program `name` as found in `PATH` or the administrator's directories, or `None`.
#[must_use]
pub fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories =
        std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(Into::into));
    directories.map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}

fn require_path(path: &str, remedy: &str) -> Result<(), IoError> {
    if Path::new(path).exists() {
        return Ok(());
    }
    Err(IoError::Missing { what: path.to_owned(), remedy: remedy.to_owned() })
}

fn require_capability(capability: Capability, what: &str) -> Result<(), IoError> {
    if Capabilities::effective()?.has(capability) {
        return Ok(());
    }
    Err(IoError::NotPrivileged { what: what.to_owned(), capability: capability.name() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_is_one_line_with_a_remedy() {
        let error = require_path("/no/such/device", "load the driver with `modprobe x`").unwrap_err();
        assert_eq!(error.to_string(), "/no/such/device is missing: load the driver with `modprobe x`");
        let capability = Capability::Bpf.name();
        let error = IoError::NotPrivileged { what: "do x".to_owned(), capability };
        assert_eq!(error.to_string(), "cannot do x: needs CAP_BPF; run as root");
    }

    #[test]
    fn programs_are_found() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-here").is_none());
    }
}
