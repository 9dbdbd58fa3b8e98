//! [`Capabilities`]: what this process may do of what root may (capabilities(7)).

use std::{fs, io};

use crate::IoError;
use crate::error::Context;

/// A privilege that something here needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Open files whatever their permissions say.
    DacOverride = 1,
    /// Take capabilities out of the bounding set.
    SetPcap = 8,
    /// Change interfaces, routes, rules and packet filters.
    NetAdmin = 12,
    /// Packet and raw sockets.
    NetRaw = 13,
    /// Namespaces, and nearly everything else.
    SysAdmin = 21,
    /// Load BPF programs.
    Bpf = 39,
}

impl Capability {
    /// As capabilities(7) writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DacOverride => "CAP_DAC_OVERRIDE",
            Self::SetPcap => "CAP_SETPCAP",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetRaw => "CAP_NET_RAW",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::Bpf => "CAP_BPF",
        }
    }
}

/// A set of capabilities: one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Those in `all`.
    #[must_use]
    pub fn of(all: &[Capability]) -> Self {
        Self(all.iter().fold(0, |bits, one| bits | 1 << *one as u32))
    }

    /// Capabilities of this thread at the moment.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn effective() -> Result<Self, IoError> {
        let status = fs::read_to_string("/proc/thread-self/status")
            .doing(|| "read /proc/thread-self/status".to_owned())?;
        Ok(Self::in_status(&status))
    }

    /// The `CapEff` line of a `/proc/PID/status`.
    fn in_status(status: &str) -> Self {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        Self(line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0))
    }

    /// True when `one` is among them.
    #[must_use]
    pub fn has(self, one: Capability) -> bool {
        self.0 >> one as u32 & 1 == 1
    }

    /// These and `one`.
    #[must_use]
    pub fn with(self, one: Capability) -> Self {
        Self(self.0 | 1 << one as u32)
    }

    /// Gives up all others, for this thread and for every process that it starts, also as root: no program can
    /// bring them back. To be called before there are other threads.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn keep_only(self) -> Result<(), IoError> {
        self.bound().doing(|| "give up capabilities".to_owned())
    }

    fn bound(self) -> io::Result<()> {
        // Without this privilege the set below bounds what programs get just the same, but for setuid programs,
        // which `no_new_privs` stops.
        if Self::effective().is_ok_and(|own| own.has(Capability::SetPcap)) {
            for bit in 0..u64::BITS {
                // SAFETY: PR_CAPBSET_READ takes a number and no pointers.
                match unsafe { libc::prctl(libc::PR_CAPBSET_READ, libc::c_ulong::from(bit), 0, 0, 0) } {
                    // The kernel has no capability of that number, and none of a larger one.
                    ..=-1 => break,
                    1 if self.0 >> bit & 1 == 0 => {
                        // SAFETY: PR_CAPBSET_DROP takes a number and no pointers.
                        let done =
                            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(bit), 0, 0, 0) };
                        if done < 0 {
                            return Err(io::Error::last_os_error());
                        }
                    }
                    _ => {}
                }
            }
        }
        let mut header = Header { version: VERSION_3, process: 0 };
        let mut sets = [Sets::default(); 2];
        // SAFETY: of version 3 the kernel writes two structures to `sets`, and reads and writes `header`.
        if unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        for (set, wanted) in sets.iter_mut().zip([self.0 as u32, (self.0 >> 32) as u32]) {
            set.permitted &= wanted;
            set.effective = set.permitted;
            set.inheritable &= wanted;
        }
        // SAFETY: of version 3 the kernel reads two structures from `sets`, and `header`.
        if unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: PR_SET_NO_NEW_PRIVS takes numbers and no pointers.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION_3: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    process: libc::c_int,
}

/// `struct __user_cap_data_struct`: half of the bits of each set.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_from_the_status_file() {
        let both = Capabilities::of(&[Capability::NetAdmin, Capability::NetRaw]);
        assert_eq!(Capabilities::in_status("Name:\tx\nCapEff:\t0000000000003000\n"), both);
        assert!(both.has(Capability::NetAdmin) && !both.has(Capability::Bpf));
        assert_eq!(Capabilities::in_status("Name:\tx\n"), Capabilities::default());
        assert_eq!(Capability::Bpf.name(), "CAP_BPF");
        assert_eq!(Capabilities::of(&[Capability::NetAdmin]).with(Capability::NetRaw), both);
    }

    /// In a thread of its own: what it gives up, it never gets back.
    #[test]
    fn what_is_given_up_is_gone_for_programs_too() {
        if !Capabilities::effective().unwrap().has(Capability::SetPcap) {
            return;
        }
        let wanted = Capabilities::of(&[Capability::NetAdmin, Capability::Bpf]);
        let status = std::thread::spawn(move || {
            wanted.keep_only().unwrap();
            assert_eq!(Capabilities::effective().unwrap(), wanted);
            // As root, a program would have all that are in the bounding set.
            let output = std::process::Command::new("cat").arg("/proc/self/status").output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        });
        let status = status.join().unwrap();
        assert_eq!(Capabilities::in_status(&status), wanted, "{status}");
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        assert_ne!(Capabilities::effective().unwrap(), wanted, "other threads keep theirs");
    }
}
