//! [`Namespace`]: network namespaces by name, as `ip netns` keeps them.

use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde::{Deserialize, Serialize};

use crate::IoError;
use crate::error::Context;
use crate::netlink::Netlink;

mod host;
mod in_use;

pub use host::{CableEnd, Host, lay_cable};
pub use in_use::namespaces_in_use;

/// Directory where namespaces have their names; the same place as `ip netns`.
const DIRECTORY: &str = "/run/netns";

/// `SO_NETNS_COOKIE`.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// A handle on a network namespace, which lives at least as long as the handle.
///
/// Dropping the handle does not remove the name: see [`Namespace::remove`].
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

/// Identity of the network namespace that something was written down in. The number of its file is given to
/// another one as soon as it has gone; the cookie is not, until the machine starts anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceId {
    /// The number of its file.
    #[serde(rename = "namespace")]
    pub inode: u64,
    /// Its cookie, where it is known (Linux 5.14).
    #[serde(rename = "namespace_cookie", default)]
    pub cookie: Option<u64>,
}

impl NamespaceId {
    /// That of the calling thread.
    ///
    /// # Errors
    /// When its file cannot be examined.
    pub fn here() -> Result<Self, IoError> {
        Ok(Self { inode: Namespace::current()?.id()?, cookie: own_cookie().ok() })
    }

    /// True when both are the same one, as far as can be told.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let is_other = self.cookie.zip(other.cookie).is_some_and(|(own, others)| own != others);
        self.inode == other.inode && !is_other
    }
}

/// The cookie of the calling thread's namespace. A socket of any kind has it.
fn own_cookie() -> Result<u64, IoError> {
    let what = || "ask for the number of a network namespace".to_owned();
    let socket = UnixDatagram::unbound().doing(what)?;
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `cookie`, which has as many.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    if done < 0 { Err(IoError::last(what())) } else { Ok(cookie) }
}

/// Settings for starting a program in a namespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpawnOptions {
    /// Sent to the program when the *thread* that started it ends, so that nothing is left behind
    /// even after `kill -9` (`PR_SET_PDEATHSIG`; `libc` number, e.g. 15).
    pub death_signal: Option<i32>,
    /// Make the program the leader of a process group of its own: Ctrl-C does not reach it.
    pub own_process_group: bool,
}

impl SpawnOptions {
    /// Killed with the thread that started it, and not reached by Ctrl-C.
    pub const KILLED_WITH_PARENT: Self = Self { death_signal: Some(libc::SIGKILL), own_process_group: true };
}

/// A child that is killed when this is dropped.
#[derive(Debug)]
pub struct OwnedChild(Child);

impl From<Child> for OwnedChild {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Deref for OwnedChild {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for OwnedChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // Already ended is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Namespace {
    /// Makes a namespace that `ip netns` also knows; only `lo`, switched off, is in it.
    ///
    /// # Errors
    /// When the name is taken or unsuitable, or the privilege is missing.
    pub fn create(name: &str) -> Result<Self, IoError> {
        let path = path_of(name)?;
        fs::create_dir_all(DIRECTORY).doing(|| format!("create {DIRECTORY}"))?;
        share_directory()?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o444)
            .open(&path)
            .doing(|| format!("create the namespace '{name}' ({})", path.display()))?;
        let made = on_own_thread(|| {
            // SAFETY: unshare takes flags only; it affects this thread, which ends right after.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
                return Err(IoError::last(format!("create the namespace '{name}'")));
            }
            mount(c"/proc/thread-self/ns/net", &c_path(&path)?, libc::MS_BIND)
                .doing(|| format!("name the namespace '{name}'"))
        });
        made.and_then(|made| made).inspect_err(|_| drop(fs::remove_file(&path)))?;
        Self::open(name)
    }

    /// The namespace called `name`.
    ///
    /// # Errors
    /// [`IoError::NoNamespace`] when there is none.
    pub fn open(name: &str) -> Result<Self, IoError> {
        let path = path_of(name)?;
        match File::open(&path) {
            Ok(file) => Ok(Self { name: name.to_owned(), file }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(IoError::NoNamespace { name: name.to_owned() })
            }
            Err(e) => Err(e).doing(|| format!("open the namespace '{name}'")),
        }
    }

    /// The calling thread's namespace.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn current() -> Result<Self, IoError> {
        let file =
            File::open("/proc/thread-self/ns/net").doing(|| "open this thread's namespace".to_owned())?;
        Ok(Self { name: "(current)".to_owned(), file })
    }

    /// The names of all named namespaces, in order.
    ///
    /// # Errors
    /// When the directory cannot be read; that it is missing means there are none.
    pub fn list() -> Result<Vec<String>, IoError> {
        let entries = match fs::read_dir(DIRECTORY) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e).doing(|| format!("list {DIRECTORY}")),
        };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Takes away the name. The namespace itself goes with its last process, socket and handle, and
    /// with it all its virtual interfaces.
    ///
    /// # Errors
    /// [`IoError::NoNamespace`] when there is none of that name.
    pub fn remove(name: &str) -> Result<(), IoError> {
        let path = path_of(name)?;
        let target = c_path(&path)?;
        // SAFETY: `target` is a NUL-terminated path. Failure (nothing mounted there, left by a
        // creation that was cut short) shows in the removal of the file below.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
        match fs::remove_file(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(IoError::NoNamespace { name: name.to_owned() })
            }
            result => result.doing(|| format!("remove the namespace '{name}'")),
        }
    }

    /// Its name; `(current)` for a handle from [`Namespace::current`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A number that no other namespace has at the same time; it is used again.
    ///
    /// # Errors
    /// When the handle cannot be examined.
    pub fn id(&self) -> Result<u64, IoError> {
        Ok(self.file.metadata().doing(|| format!("examine the namespace '{}'", self.name))?.ino())
    }

    /// The name of the network namespace with this [`Namespace::id`], where it has one that this process may see.
    #[must_use]
    pub fn name_of(id: u64) -> Option<String> {
        let is_it = |name: &String| Self::open(name).and_then(|it| it.id()).is_ok_and(|found| found == id);
        Self::list().ok()?.into_iter().find(is_it)
    }

    /// The number by which BPF programs know it (`SO_NETNS_COOKIE`).
    ///
    /// # Errors
    /// When the namespace cannot be entered, or the kernel is older than Linux 5.14.
    pub fn cookie(&self) -> Result<u64, IoError> {
        // Entering takes a privilege that asking does not.
        if self.id()? == Self::current()?.id()? { own_cookie() } else { self.run(own_cookie)? }
    }

    /// Moves the calling thread into the namespace for good: for threads that live there.
    ///
    /// # Errors
    /// When the privilege is missing.
    pub fn enter(&self) -> Result<(), IoError> {
        // SAFETY: setns takes an open descriptor and a flag and affects the calling thread only.
        let done = unsafe { libc::setns(self.file.as_raw_fd(), libc::CLONE_NEWNET) };
        if done < 0 { Err(IoError::last(format!("enter the namespace '{}'", self.name))) } else { Ok(()) }
    }

    /// Runs `job` in the namespace, on a thread of its own, and gives its result. Sockets, devices and
    /// netlink connections made there stay in the namespace wherever they are used later.
    ///
    /// # Errors
    /// When the namespace cannot be entered. A panic of `job` is passed on.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> Result<T, IoError> {
        on_own_thread(|| self.enter().map(|()| job()))?
    }

    /// Netlink in this namespace, from any thread.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn netlink(&self) -> Result<Netlink, IoError> {
        self.run(Netlink::open)?
    }

    /// Starts `command` in the namespace, as `ip netns exec` would: with a `/sys` that shows the
    /// namespace's devices and with the files of `/etc/netns/NAME/` in place of those in `/etc`.
    ///
    /// # Errors
    /// When the program is missing or the namespace cannot be entered.
    pub fn spawn(&self, mut command: Command, options: SpawnOptions) -> Result<Child, IoError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let file = self.file.try_clone().doing(|| format!("copy the handle of namespace '{}'", self.name))?;
        let binds = etc_files(&self.name)?;
        let parent = std::process::id();
        if options.own_process_group {
            command.process_group(0);
        }
        let setup = move || {
            if let Some(signal) = options.death_signal {
                die_with_parent(signal, parent)?;
            }
            enter_with_mounts(file.as_fd(), &binds)
        };
        // SAFETY: `setup` runs between fork and exec. It makes system calls only, on strings and
        // descriptors prepared before the fork; it does not allocate, lock or panic.
        unsafe { command.pre_exec(setup) };
        command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => IoError::Missing {
                what: format!("the program '{program}'"),
                remedy: "install it or give its path".to_owned(),
            },
            _ => IoError::system(format!("start '{program}' in namespace '{}'", self.name), error),
        })
    }
}

impl Namespace {
    /// Starts `command` as [`Namespace::spawn`] does; it is killed when what this gives is dropped, and at the latest
    /// with this thread.
    ///
    /// # Errors
    /// As there.
    pub fn spawn_owned(&self, command: Command) -> Result<OwnedChild, IoError> {
        self.spawn(command, SpawnOptions::KILLED_WITH_PARENT).map(OwnedChild)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Has `command` killed with `signal` when the *thread* that starts it ends (`PR_SET_PDEATHSIG`).
pub fn set_death_signal(command: &mut Command, signal: i32) {
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and makes system calls only.
    unsafe { command.pre_exec(move || die_with_parent(signal, parent)) };
}

/// Between fork and exec: asks for `signal` on the parent's death, and makes sure it is not dead yet.
fn die_with_parent(signal: i32, parent: u32) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes one integer and no pointers.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::c_long::from(signal)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::getppid() }.cast_unsigned() != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

/// Between fork and exec: enters the namespace and gives the program its own view of `/sys` and `/etc`.
fn enter_with_mounts(namespace: BorrowedFd<'_>, binds: &[(CString, CString)]) -> io::Result<()> {
    // SAFETY: setns and unshare take a descriptor that is open and flags, no pointers.
    unsafe {
        check(libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET))?;
        check(libc::unshare(libc::CLONE_NEWNS))?;
    }
    mount(c"none", c"/", libc::MS_SLAVE | libc::MS_REC)?;
    // SAFETY: a NUL-terminated path; failure means that /sys was not mounted, which is no harm.
    unsafe { libc::umount2(c"/sys".as_ptr(), libc::MNT_DETACH) };
    // SAFETY: all strings are NUL-terminated and the data pointer may be null.
    unsafe {
        check(libc::mount(c"sysfs".as_ptr(), c"/sys".as_ptr(), c"sysfs".as_ptr(), 0, std::ptr::null()))?;
    }
    for (from, to) in binds {
        mount(from, to, libc::MS_BIND)?;
    }
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn mount(from: &CStr, to: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: both paths are NUL-terminated; type and data are ignored for these flags and may be null.
    check(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), c"none".as_ptr(), flags, std::ptr::null()) })
}

/// Lets mounts below the directory reach all mount namespaces, as `ip netns add` does, so that a
/// name removed in one of them is removed in all.
fn share_directory() -> Result<(), IoError> {
    let directory = c_path(Path::new(DIRECTORY))?;
    let shared = libc::MS_SHARED | libc::MS_REC;
    let result = match mount(c"", &directory, shared) {
        // Not a mount point yet: make it one.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
            mount(&directory, &directory, libc::MS_BIND | libc::MS_REC)
                .and_then(|()| mount(c"", &directory, shared))
        }
        result => result,
    };
    result.doing(|| format!("share {DIRECTORY}"))
}

/// Files of `/etc/netns/NAME/` that have a counterpart in `/etc`, as pairs to bind.
fn etc_files(name: &str) -> Result<Vec<(CString, CString)>, IoError> {
    let Ok(entries) = fs::read_dir(Path::new("/etc/netns").join(name)) else { return Ok(Vec::new()) };
    let mut binds = Vec::new();
    for entry in entries.flatten() {
        let target = Path::new("/etc").join(entry.file_name());
        if target.exists() {
            binds.push((c_path(&entry.path())?, c_path(&target)?));
        }
    }
    Ok(binds)
}

fn path_of(name: &str) -> Result<PathBuf, IoError> {
    let is_fine = !name.is_empty()
        && name.len() <= 128
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c));
    if is_fine {
        Ok(Path::new(DIRECTORY).join(name))
    } else {
        Err(IoError::Invalid {
            what: format!("namespace name '{name}'"),
            why: "letters, digits and - _ + . are allowed, not beginning with a dot".to_owned(),
        })
    }
}

fn c_path(path: &Path) -> Result<CString, IoError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| IoError::Invalid {
        what: format!("path '{}'", path.display()),
        why: "it must not contain a zero byte".to_owned(),
    })
}

/// Runs `job` on a thread that ends with it, so that a change of namespace does not spread.
fn on_own_thread<T: Send>(job: impl FnOnce() -> T + Send) -> Result<T, IoError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("namespace".to_owned())
            .spawn_scoped(scope, job)
            .doing(|| "start a thread".to_owned())?;
        thread.join().map_err(|panic| std::panic::resume_unwind(panic))
    })
}

/// A host for one test; fails loudly without root.
#[cfg(test)]
pub(crate) fn test_host(what: &str) -> Host {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("ct-io-{what}-{}-{number}", std::process::id());
    Host::create(&name).unwrap_or_else(|e| panic!("this test needs root: {e}"))
}

#[cfg(test)]
mod tests;
