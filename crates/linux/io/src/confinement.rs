//! [`confine`]: a process that shows what others have told it, and needs nothing of the machine any more.
//!
//! Landlock (landlock(7)): no file, no new way to the network, no signal and no abstract socket of another process. What
//! is open stays usable. Where the kernel has less, as much is taken as it has.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::IoError;
use crate::error::Context;

/// `LANDLOCK_CREATE_RULESET_VERSION`.
const CREATE_RULESET_VERSION: libc::c_ulong = 1;

/// `LANDLOCK_ACCESS_FS_*` that each version of the interface has: number of bits, from version 1 on.
const FILE_ACCESS_BITS: [u32; 5] = [13, 14, 15, 15, 16];

/// `LANDLOCK_ACCESS_NET_BIND_TCP` and `_CONNECT_TCP`, from version 4 on.
const NETWORK_ACCESS: u64 = 0b11;

/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET` and `_SIGNAL`, from version 6 on.
const SCOPES: u64 = 0b11;

/// `struct landlock_ruleset_attr`.
#[repr(C)]
#[derive(Default)]
struct Ruleset {
    file_access: u64,
    network_access: u64,
    scopes: u64,
}

impl Ruleset {
    /// Everything that a version of the interface can deny.
    fn of(version: u32) -> Self {
        let known = FILE_ACCESS_BITS.len() as u32;
        let bits = FILE_ACCESS_BITS[(version.clamp(1, known) - 1) as usize];
        Self {
            file_access: (1 << bits) - 1,
            network_access: if version >= 4 { NETWORK_ACCESS } else { 0 },
            scopes: if version >= 6 { SCOPES } else { 0 },
        }
    }

    /// Length of the part of the structure that a version knows, bytes.
    fn len(version: u32) -> usize {
        match version {
            ..=3 => 8,
            4 | 5 => 16,
            _ => 24,
        }
    }
}

/// Degree of confinement that the kernel could give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// No file, and no new connection; `has_scopes` says whether signals and abstract sockets are kept away, too.
    Whole {
        /// Linux 6.12 or later.
        has_scopes: bool,
    },
    /// No file: the kernel cannot keep it from making connections (before Linux 6.7).
    Files,
    /// Nothing: the kernel has no Landlock, or it is switched off.
    Nothing,
}

/// Takes what a process that shows things needs least of: no program that it would start has more rights, other
/// processes of its user cannot look into its memory, and no image of it is written when it dies.
///
/// # Errors
/// When the kernel refuses.
pub fn forgo_privileges() -> Result<(), IoError> {
    let prctl = |option: libc::c_int, value: libc::c_ulong| {
        // SAFETY: both options take numbers and no pointers.
        let done = unsafe { libc::prctl(option, value, 0, 0, 0) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
        .and_then(|()| prctl(libc::PR_SET_DUMPABLE, 0))
        .doing(|| "give up privileges".to_owned())
}

/// Permissions that a confined process keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed<'a> {
    /// Files and directories, with all below, that it may read.
    pub read: &'a [&'a Path],
    /// Directories in which it may make, change and remove files.
    pub write: &'a [&'a Path],
    /// It may connect to anything, and look names up.
    pub network: bool,
}

impl Allowed<'_> {
    /// `LANDLOCK_ACCESS_FS_READ_FILE` and `_READ_DIR`.
    const READ: u64 = 1 << 2 | 1 << 3;

    /// The same, and `_WRITE_FILE`, `_REMOVE_FILE`, `_MAKE_REG`, `_REFER` and `_TRUNCATE`.
    const WRITE: u64 = Self::READ | 1 << 1 | 1 << 5 | 1 << 8 | 1 << 13 | 1 << 14;

    /// Paths with their permissions. What is not there yet is made in a directory that is.
    fn paths(&self) -> impl Iterator<Item = (&Path, u64)> {
        let read = self.read.iter().map(|path| (*path, Self::READ));
        read.chain(self.write.iter().map(|path| (*path, Self::WRITE)))
    }
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    access: u64,
    fd: libc::c_int,
}

/// `LANDLOCK_RULE_PATH_BENEATH`.
const RULE_PATH_BENEATH: libc::c_int = 1;

fn allow(ruleset: &OwnedFd, path: &Path, access: u64) -> Result<(), IoError> {
    let is_there = |path: &&Path| path.exists();
    let nearest = path.ancestors().find(is_there).unwrap_or(Path::new("/"));
    let doing = || format!("allow {} (Landlock)", nearest.display());
    let open = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(nearest).doing(doing)?;
    let rule = PathBeneath { access, fd: open.as_raw_fd() };
    // SAFETY: the kernel reads a structure of that kind, which `rule` is; both descriptors are open.
    let done = unsafe {
        let rule = &raw const rule;
        libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), RULE_PATH_BENEATH, rule, 0)
    };
    if done < 0 { Err(io::Error::last_os_error()).doing(doing) } else { Ok(()) }
}

/// Denies this thread, and all that it starts, whatever Landlock can deny, but for what is `allowed`.
/// [`forgo_privileges`] comes first. To be called before there are other threads.
///
/// # Errors
/// When the kernel has Landlock and refuses.
pub fn confine(allowed: &Allowed<'_>) -> Result<Confinement, IoError> {
    // SAFETY: with this flag the kernel reads no structure, and answers with a number.
    let version = unsafe {
        let nothing = std::ptr::null::<Ruleset>();
        libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, CREATE_RULESET_VERSION)
    };
    let Some(version) = u32::try_from(version).ok().filter(|version| *version > 0) else {
        return Ok(Confinement::Nothing);
    };
    let whole = Ruleset::of(version);
    let ruleset = Ruleset { network_access: if allowed.network { 0 } else { whole.network_access }, ..whole };
    // SAFETY: the kernel reads so many bytes of `ruleset`, which has as many.
    let fd = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, &raw const ruleset, Ruleset::len(version), 0)
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0);
    let fd = fd.ok_or_else(|| IoError::last("confine this process (Landlock)"))?;
    // SAFETY: the kernel just made this descriptor for us alone.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    for (path, access) in allowed.paths() {
        allow(&fd, path, access & ruleset.file_access)?;
    }
    // SAFETY: landlock_restrict_self takes an open descriptor and a number, no pointers.
    if unsafe { libc::syscall(libc::SYS_landlock_restrict_self, fd.as_raw_fd(), 0) } < 0 {
        return Err(IoError::last("confine this process (Landlock)"));
    }
    Ok(match version {
        ..=3 => Confinement::Files,
        _ => Confinement::Whole { has_scopes: version >= 6 },
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn each_version_is_asked_for_what_it_knows() {
        assert_eq!(
            [1, 2, 3, 5, 9].map(|version| Ruleset::of(version).file_access.count_ones()),
            [13, 14, 15, 16, 16]
        );
        assert_eq!([3, 4, 9].map(|version| Ruleset::of(version).network_access), [0, 3, 3]);
        assert_eq!([5, 6].map(|version| Ruleset::of(version).scopes), [0, 3]);
        assert_eq!([1, 4, 6].map(Ruleset::len), [8, 16, 24]);
    }

    /// In a thread of its own: it never gets back what it gives up.
    #[test]
    fn who_is_confined_can_use_what_is_open_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (mut own, mut other) = UnixStream::pair().unwrap();
        let confined = std::thread::spawn(move || {
            forgo_privileges().unwrap();
            let confinement = confine(&Allowed::default()).unwrap();
            let status = std::fs::read_to_string("/proc/thread-self/status");
            own.write_all(b"open").unwrap();
            let connected = TcpStream::connect(address).map(drop);
            let bound = TcpListener::bind("127.0.0.1:0").map(drop);
            (confinement, status, connected, bound, listener)
        });
        let (confinement, status, connected, bound, _listener) = confined.join().unwrap();
        let mut text = [0; 4];
        other.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"open");
        println!("this kernel can do: {confinement:?}");
        let is_denied = |result: io::Result<()>| {
            result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        if confinement != Confinement::Nothing {
            assert!(is_denied(status.map(drop)), "a file can be read");
        }
        if matches!(confinement, Confinement::Whole { .. }) {
            assert!(is_denied(connected) && is_denied(bound), "a connection can be made");
        }
        assert!(std::fs::read_to_string("/proc/self/status").is_ok(), "other threads keep their rights");
        // The memory of all threads is one.
        // SAFETY: PR_GET_DUMPABLE takes no pointers.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) }, 0);
    }

    #[test]
    fn what_is_allowed_can_be_done_and_what_lies_beside_it_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let [shown, kept, beside] = ["shown", "kept", "beside"].map(|name| folder.path().join(name));
        for made in [&shown, &kept, &beside] {
            std::fs::create_dir_all(made).unwrap();
            std::fs::write(made.join("file"), "text").unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (shown_there, kept_there, beside_there) = (shown.clone(), kept.clone(), beside.clone());
        let confined = std::thread::spawn(move || {
            let missing = shown_there.join("later");
            let allowed = Allowed { read: &[&shown_there, &missing], write: &[&kept_there], network: true };
            let confinement = confine(&allowed).unwrap();
            let may = |result: io::Result<()>| result.is_ok();
            let new = kept_there.join("new");
            let can = [
                may(std::fs::read_dir(&shown_there).map(drop)),
                may(std::fs::read(shown_there.join("file")).map(drop)),
                may(std::fs::write(&new, "text")
                    .and_then(|()| std::fs::rename(&new, kept_there.join("file")))),
                may(TcpStream::connect(address).map(drop)),
            ];
            let cannot = [
                may(std::fs::write(shown_there.join("file"), "other")),
                may(std::fs::read(beside_there.join("file")).map(drop)),
                may(std::fs::read_dir(&beside_there).map(drop)),
                may(std::fs::write(beside_there.join("new"), "")),
                may(std::os::unix::fs::symlink("/", kept_there.join("link"))),
            ];
            (confinement, can, cannot)
        });
        let (confinement, can, cannot) = confined.join().unwrap();
        assert_eq!(can, [true; 4]);
        if confinement != Confinement::Nothing {
            assert_eq!(cannot, [false; 5]);
        }
    }
}
