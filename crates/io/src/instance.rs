//! [`Instance`]: what a running instance has set up, on disk, so that the next start can undo what a
//! killed one left behind.
//!
//! Each instance has a directory `KIND-PID` with two files: `owner`, locked with flock for as long as
//! somebody is responsible, and `record`, whatever the instance wrote down.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use units::Duration;

use crate::error::Context;
use crate::private_file::create_with_mode;
use crate::{Clock, IoError, ProcessId, put_in_place};

/// Where instances are kept by default; emptied by a restart of the machine.
pub const INSTANCE_DIRECTORY: &str = "/run/cellerator";

/// Whose an instance is, in its directory: its [`ProcessId`].
pub const OWNER: &str = "owner";

/// What an instance wrote down, in its directory.
pub const RECORD: &str = "record";

/// The same, since somebody undoes it or goes on with it because the instance has died: nobody else can take
/// it over from there ([`Instance::take_record`]).
pub const RECORD_OF_DEAD: &str = "record.dead";

/// Of the files that others find an instance by: its directory says who may.
const FOR_FINDERS: u32 = 0o644;

/// How long who registers, or looks for what is left, waits for others that do.
const LOCKED_WITHIN: Duration = Duration::from_secs(2);

/// Pause before another look at a lock.
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(2);

/// The directory of a running instance; removed when dropped.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    lock: File,
}

/// An instance of another process.
#[derive(Clone, Debug)]
pub struct Running {
    /// Its process.
    pub owner: ProcessId,
    /// Its directory.
    pub path: PathBuf,
}

/// What an instance that is no longer running left behind. Holds its lock.
#[derive(Debug)]
pub struct Leftover {
    path: PathBuf,
    owner: Option<ProcessId>,
    _lock: File,
}

impl Instance {
    /// Registers this process as an instance of `kind` (such as `run` or `lab`) below `base`.
    ///
    /// # Errors
    /// When the directory cannot be written, or this process has an instance of that kind already.
    pub fn register(base: &Path, kind: &str) -> Result<Self, IoError> {
        let owner = ProcessId::own()?;
        let path = base.join(format!("{kind}-{}", owner.pid()));
        let _guard = lock_base(base)?;
        fs::DirBuilder::new().mode(0o700).create(&path).doing(|| format!("create {}", path.display()))?;
        let create = || -> io::Result<File> {
            let mut lock = create_with_mode(&path.join(OWNER), FOR_FINDERS)?;
            flock(&lock, libc::LOCK_EX)?;
            writeln!(lock, "{owner}")?;
            Ok(lock)
        };
        let lock = create().doing(|| format!("write {}/owner", path.display()))?;
        Ok(Self { path, lock })
    }

    /// The instances of `kind` below `base` whose process lives, in order of its number.
    ///
    /// # Errors
    /// When `base` exists and cannot be read.
    pub fn running(base: &Path, kind: &str) -> Result<Vec<Running>, IoError> {
        if !base.exists() {
            return Ok(Vec::new());
        }
        let alive = |path: PathBuf| {
            let owner = owner(&path).filter(ProcessId::is_alive)?;
            Some(Running { owner, path })
        };
        let mut running: Vec<Running> = instances(base, kind)?.into_iter().filter_map(alive).collect();
        running.sort_by_key(|instance| instance.owner.pid());
        Ok(running)
    }

    /// Writes down `text`, replacing what was written before, all or nothing.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn record(&self, text: &str) -> Result<(), IoError> {
        let new = self.path.join("record.new");
        create_with_mode(&new, FOR_FINDERS)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| put_in_place(&new, &self.path.join(RECORD)))
            .doing(|| format!("write {}", new.display()))
    }

    /// Takes what is written down at `record`, in another instance's directory, for its own: in one step, so
    /// that it is written down in one place at any time.
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn take_record(&self, record: &Path) -> Result<(), IoError> {
        fs::rename(record, self.path.join(RECORD)).doing(|| format!("take over {}", record.display()))
    }

    /// The instance's directory, for further files.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A share of the lock for another process: the instance counts as running until both are gone.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn share_lock(&self) -> Result<File, IoError> {
        self.lock.try_clone().doing(|| format!("copy the lock of {}", self.path.display()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nothing can be done about a failure; the next start finds the directory and removes it.
        drop(fs::remove_dir_all(&self.path));
    }
}

impl Leftover {
    /// Instances of `kind` below `base` that nobody is responsible for any more, in order of name.
    ///
    /// # Errors
    /// When `base` exists and cannot be read.
    pub fn find(base: &Path, kind: &str) -> Result<Vec<Self>, IoError> {
        if !base.exists() {
            return Ok(Vec::new());
        }
        let _guard = lock_base(base)?;
        let mut found = Vec::new();
        for path in instances(base, kind)? {
            let Ok(file) = OpenOptions::new().read(true).append(true).create(true).open(path.join(OWNER))
            else {
                continue;
            };
            if !try_lock(&file).doing(|| format!("lock {}", path.display()))? {
                continue;
            }
            found.push(Self { owner: owner(&path), path, _lock: file });
        }
        Ok(found)
    }

    /// True when an instance of `kind` is still locked although its owner has ended: somebody is
    /// undoing it right now.
    ///
    /// # Errors
    /// When `base` exists and cannot be read.
    pub fn is_any_being_undone(base: &Path, kind: &str) -> Result<bool, IoError> {
        if !base.exists() {
            return Ok(false);
        }
        let _guard = lock_base(base)?;
        Ok(instances(base, kind)?.iter().any(|path| {
            let file = File::open(path.join(OWNER));
            let is_locked = file.is_ok_and(|file| matches!(try_lock(&file), Ok(false)));
            is_locked && owner(path).is_some_and(|owner| !owner.is_alive())
        }))
    }

    /// The process that left it, if it got as far as writing its number down.
    #[must_use]
    pub fn owner(&self) -> Option<ProcessId> {
        self.owner
    }

    /// Its directory, with whatever files it kept there.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the instance wrote down last, if anything.
    #[must_use]
    pub fn record(&self) -> Option<String> {
        let names = [RECORD, RECORD_OF_DEAD];
        names.iter().find_map(|name| fs::read_to_string(self.path.join(name)).ok())
    }

    /// Forgets it, once everything is undone.
    ///
    /// # Errors
    /// When the directory cannot be removed.
    pub fn forget(self) -> Result<(), IoError> {
        fs::remove_dir_all(&self.path).doing(|| format!("remove {}", self.path.display()))
    }
}

fn owner(path: &Path) -> Option<ProcessId> {
    fs::read_to_string(path.join(OWNER)).ok()?.parse().ok()
}

fn instances(base: &Path, kind: &str) -> Result<Vec<PathBuf>, IoError> {
    let prefix = format!("{kind}-");
    let entries = fs::read_dir(base).doing(|| format!("list {}", base.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(&prefix));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    Ok(paths)
}

/// Held while instances come and go, so that none is seen between its creation and its lock.
///
/// Whoever can open a file can keep it locked. So nobody else may open this one: one that others may open is replaced,
/// and who has that open has nothing.
fn lock_base(base: &Path) -> Result<File, IoError> {
    make_base(base).doing(|| format!("create {}", base.display()))?;
    let path = base.join("lock");
    let what = || format!("lock {}", path.display());
    let give_up = Clock::now() + LOCKED_WITHIN;
    loop {
        let file = open_lock(&path).doing(what)?;
        // Somebody may have replaced it since it was opened.
        let is_there = |file: &File| {
            Ok::<bool, io::Error>(identity(&file.metadata()?) == identity(&fs::metadata(&path)?))
        };
        if try_lock(&file).doing(what)? && is_there(&file).unwrap_or(false) {
            return Ok(file);
        }
        if Clock::now() > give_up {
            let who = holder_of(&file).unwrap_or_else(|| "another process".to_owned());
            let why = format!("{who} has held it for {LOCKED_WITHIN}: end that process, and try again");
            return Err(IoError::Refused { what: what(), why, log: String::new() });
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Makes the directory of all instances: everybody may enter it, its owner alone may change it.
fn make_base(base: &Path) -> io::Result<()> {
    if base.is_dir() {
        return Ok(());
    }
    if let Some(parent) = base.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o755).create(base) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => {
            result?;
            // Whatever the umask says.
            fs::set_permissions(base, fs::Permissions::from_mode(0o755))
        }
    }
}

fn identity(data: &fs::Metadata) -> (u64, u64) {
    (data.dev(), data.ino())
}

/// Opens the lock, which its owner alone may open.
fn open_lock(path: &Path) -> io::Result<File> {
    let open = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path);
    match open {
        Ok(file) if file.metadata().is_ok_and(|data| data.is_file() && data.mode() & 0o077 == 0) => Ok(file),
        Ok(_) => replace_lock(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
            made.or_else(|_| File::open(path))
        }
        // Another user has made it, or it is no file; this is that one's directory, or ours.
        Err(_) => replace_lock(path),
    }
}

/// Puts a new lock in the place of one that others may open, or that this user may not.
fn replace_lock(path: &Path) -> io::Result<File> {
    let new = path.with_extension(std::process::id().to_string());
    let file = create_with_mode(&new, 0o600)?;
    fs::rename(&new, path).inspect_err(|_| drop(fs::remove_file(&new)))?;
    Ok(file)
}

/// Which process holds a lock on a file, as `process 17 (sleep)`.
fn holder_of(file: &File) -> Option<String> {
    let inode = format!(":{}", file.metadata().ok()?.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let is_it = |line: &&str| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(1) == Some("FLOCK") && fields.nth(3).is_some_and(|id| id.ends_with(&inode))
    };
    let pid = locks.lines().find(is_it)?.split_ascii_whitespace().nth(4)?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("process {pid} ({})", name.trim()))
}

/// Takes a lock on `file` unless another open descriptor of it has one; true when it is ours. It
/// goes with the file.
///
/// # Errors
/// Where the file system has no locks.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, libc::LOCK_EX | libc::LOCK_NB) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        result => result.map(|()| true),
    }
}

/// A lock that belongs to the open file: it goes with the last descriptor of it, in any process.
fn flock(file: &File, operation: libc::c_int) -> io::Result<()> {
    // SAFETY: flock takes an open descriptor and a flag, no pointers.
    let done = unsafe { libc::flock(file.as_raw_fd(), operation) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_dead_are_leftovers() {
        let base = std::env::temp_dir().join(format!("ct-io-instance-{}", std::process::id()));
        assert!(Leftover::find(&base, "run").unwrap().is_empty());
        let instance = Instance::register(&base, "run").unwrap();
        assert!(Instance::register(&base, "run").unwrap_err().is_already_there());
        instance.record("one").unwrap();
        instance.record("two").unwrap();
        assert!(Leftover::find(&base, "run").unwrap().is_empty(), "this process is alive");
        assert!(!Leftover::is_any_being_undone(&base, "run").unwrap());
        let running = Instance::running(&base, "run").unwrap();
        assert_eq!((running.len(), running[0].path.as_path()), (1, instance.path()));
        assert!(Instance::running(&base, "lab").unwrap().is_empty());

        // As after kill -9: the lock goes with the descriptor, the directory stays.
        let share = instance.share_lock().unwrap();
        let path = instance.path().to_owned();
        fs::write(path.join(OWNER), "999999999:1").unwrap();
        assert!(Leftover::is_any_being_undone(&base, "run").unwrap());
        assert!(Instance::running(&base, "run").unwrap().is_empty());
        flock(&instance.lock, libc::LOCK_UN).unwrap();
        drop(share);
        assert!(Leftover::find(&base, "lab").unwrap().is_empty(), "another kind");
        let mut found = Leftover::find(&base, "run").unwrap();
        assert_eq!(found.len(), 1);
        assert!(Leftover::find(&base, "run").unwrap().is_empty(), "taken by the first finder");
        let leftover = found.remove(0);
        assert_eq!(leftover.record().as_deref(), Some("two"));
        assert_eq!(leftover.owner().map(|owner| owner.pid()), Some(999_999_999));
        leftover.forget().unwrap();
        assert!(!path.exists());
        drop(instance);

        let instance = Instance::register(&base, "run").unwrap();
        drop(instance);
        assert!(!path.exists(), "a clean end leaves nothing");
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_lock_that_a_stranger_holds_is_replaced() {
        let base = std::env::temp_dir().join(format!("ct-io-stranger-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        // As an earlier program has made it: anybody may open it.
        fs::write(base.join("lock"), "").unwrap();
        fs::set_permissions(base.join("lock"), fs::Permissions::from_mode(0o644)).unwrap();
        let held = File::open(base.join("lock")).unwrap();
        flock(&held, libc::LOCK_EX).unwrap();
        let began = Clock::now();
        let instance = Instance::register(&base, "run").unwrap();
        assert!(Clock::now().saturating_since(began) < LOCKED_WITHIN, "it waited");
        let mode = fs::metadata(base.join("lock")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop((held, instance));
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_lock_that_is_held_on_and_on_is_waited_for_no_longer_than_it_takes() {
        let base = std::env::temp_dir().join(format!("ct-io-held-{}", std::process::id()));
        let held = lock_base(&base).unwrap();
        let began = Clock::now();
        let error = Instance::register(&base, "run").unwrap_err().to_string();
        let waited = Clock::now().saturating_since(began);
        assert!(waited < LOCKED_WITHIN * 5, "{waited}");
        let own = format!("process {} (", std::process::id());
        assert!(
            error.contains(&own) && error.contains("end that process") && error.lines().count() == 1,
            "{error}"
        );
        drop(held);
        drop(Instance::register(&base, "run").unwrap());
        fs::remove_dir_all(base).unwrap();
    }
}
