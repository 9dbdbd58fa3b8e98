//! [`Caller`]: who is at the other end of a Unix socket, as the kernel knows it (unix(7)).

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// `SO_PEERGROUPS`.
const SO_PEERGROUPS: libc::c_int = 59;

/// Groups of a process at most (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;

/// Process that has connected, or has made the pair of sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its process.
    pub process: u32,
    /// Its user.
    pub uid: u32,
    /// Its groups.
    pub groups: Vec<u32>,
}

impl Caller {
    /// Process that has connected to a socket, as of then.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `credentials`, which has as many.
        let done = unsafe {
            let value = (&raw mut credentials).cast();
            libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &raw mut len)
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut groups = vec![0_u32; GROUPS_MAX];
        let mut len = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `groups`, which has as many.
        let done = unsafe {
            let value = groups.as_mut_ptr().cast();
            libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, SO_PEERGROUPS, value, &raw mut len)
        };
        groups.truncate(if done < 0 { 0 } else { len as usize / size_of::<u32>() });
        groups.push(credentials.gid);
        Ok(Self { process: credentials.pid.cast_unsigned(), uid: credentials.uid, groups })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (own, _other) = UnixStream::pair().unwrap();
        let caller = Caller::of(&own).unwrap();
        let data = std::fs::metadata("/proc/self").unwrap();
        assert_eq!((caller.process, caller.uid), (std::process::id(), data.uid()));
        assert!(caller.groups.contains(&data.gid()), "{caller:?}");
    }
}
