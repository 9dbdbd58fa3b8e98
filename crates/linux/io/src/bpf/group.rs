//! The root of the control groups (version 2), to which programs for sockets are attached.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::IoError;
use crate::error::Context;

const FSCONFIG_CMD_CREATE: libc::c_long = 6;
const CLOSE_ON_EXEC: libc::c_long = 1;

/// The root of the control groups that this process can see, whether or not it is mounted where this process
/// looks: `ip netns exec` hides what is mounted below `/sys`.
///
/// # Errors
/// When it is mounted nowhere, and the privilege to mount it is missing.
pub fn root_group() -> Result<OwnedFd, IoError> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let what = || "open the root of the control groups (cgroup2)".to_owned();
    match mounted(&table).and_then(|folder| File::open(folder).ok()) {
        Some(folder) => Ok(folder.into()),
        None => mount().doing(what),
    }
}

/// Root of the cgroup2 file system in a table of mounts.
fn mounted(table: &str) -> Option<String> {
    let of_line = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        (kind.starts_with("cgroup2 ") && root == "/").then(|| point.to_owned())
    };
    table.lines().find_map(of_line)
}

/// Mounts it where nobody else can see it; it goes with the descriptor.
fn mount() -> io::Result<OwnedFd> {
    let owned = |fd: libc::c_long| -> io::Result<OwnedFd> {
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    let name: &CStr = c"cgroup2";
    // SAFETY: fsopen takes a C string and flags.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, name.as_ptr(), CLOSE_ON_EXEC) })?;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: this command of fsconfig takes no key and no value.
    let made = unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0_i32)
    };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fsmount takes a descriptor and flags.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, 0_i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_found_among_mounts() {
        let table = "23 1 0:21 / /sys rw - sysfs sysfs rw\n\
                     30 23 0:26 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted(table).as_deref(), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mounted("30 23 0:26 /box /mnt rw - cgroup2 cgroup2 rw\n"), None, "only a part of it");
        assert_eq!(mounted("odd\n\n"), None);
    }
}
