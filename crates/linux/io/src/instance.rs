//! [`Instance`]: what a running instance has set up, on disk, so that the next start can undo what a
//! killed one left behind.
//!
//! Each instance has a directory `KIND-PID` with three files: `owner`, its process; `owner.lock`, locked with flock for
//! as long as somebody is responsible; and `record`, whatever the instance wrote down.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use units::Duration;

use crate::error::Context;
use crate::private_file::create_with_mode;
use crate::{Clock, IoError, ProcessId, put_in_place};

/// Directory where instances are kept by default; emptied by a restart of the machine.
pub const INSTANCE_DIRECTORY: &str = "/run/cellerator";

/// File with the owner of an instance, in its directory: its [`ProcessId`].
pub const OWNER: &str = "owner";

/// File that is locked for as long as somebody is responsible for an instance. Whoever can open a file can lock it: its
/// owner alone may open this one. Programs from before it look at the lock of the file `owner`, which has one, too.
const LOCK: &str = "owner.lock";

/// File with the record of an instance, in its directory.
pub const RECORD: &str = "record";

/// The same, since somebody undoes it or goes on with it because the instance has died: nobody else can take
/// it over from there ([`Instance::take_record`]).
pub const RECORD_OF_DEAD: &str = "record.dead";

/// Of the files that others find an instance by: its directory says who may.
const FOR_FINDERS: u32 = 0o644;

/// Time that a process that registers, or looks for what is left, waits for others that do.
const LOCKED_WITHIN: Duration = Duration::from_secs(2);

/// Pause before another look at a lock.
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(2);

/// A running instance, and its directory, which is removed when this is dropped.
///
/// Others may delete the directory, or the disk may be full when an instance that must go on begins: what is written
/// down is known here too, and [`Instance::restore`] writes it anew.
#[derive(Debug)]
pub struct Instance {
    base: PathBuf,
    path: PathBuf,
    owner: ProcessId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The locked files `owner.lock` and `owner`; none while there is no directory.
    locks: Option<[File; 2]>,
    /// Record that is written down, or is to be.
    record: Option<String>,
    is_written: bool,
    /// Another instance has it.
    is_given: bool,
}

/// An instance of another process.
#[derive(Clone, Debug)]
pub struct Running {
    /// Its process.
    pub owner: ProcessId,
    /// Its directory.
    pub path: PathBuf,
}

/// Remainder of an instance that is no longer running. Holds its lock.
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
        let instance = Self::unregistered(base, kind)?;
        instance.make_directory(true)?;
        Ok(instance)
    }

    /// The same, for a process that must go on where the directory cannot be made: [`Instance::restore`] makes it
    /// later.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn register_sooner_or_later(base: &Path, kind: &str) -> Result<Self, IoError> {
        let instance = Self::unregistered(base, kind)?;
        // Who asks for it to be restored hears why it cannot be.
        drop(instance.make_directory(true));
        Ok(instance)
    }

    fn unregistered(base: &Path, kind: &str) -> Result<Self, IoError> {
        let owner = ProcessId::own()?;
        let path = base.join(format!("{kind}-{}", owner.pid()));
        Ok(Self { base: base.to_owned(), path, owner, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the directory, which `is_new` or may be there, and locks the files in it that are not locked yet.
    fn make_directory(&self, is_new: bool) -> Result<(), IoError> {
        let path = &self.path;
        let _guard = lock_base(&self.base)?;
        let made = fs::DirBuilder::new().mode(0o700).create(path).or_else(|error| {
            if !is_new && error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
        });
        made.doing(|| format!("create {}", path.display()))?;
        let lock = self.held(0).map_or_else(|| self.lock_new(), Ok);
        let lock = lock.doing(|| format!("write {}/{LOCK}", path.display()))?;
        let owner = self.held(1).map_or_else(|| self.lock_owner(), Ok);
        let owner = owner.doing(|| format!("write {}/{OWNER}", path.display()))?;
        self.state().locks = Some([lock, owner]);
        Ok(())
    }

    /// One of the locked files, if it is still in the directory: `owner.lock`, then `owner`.
    fn held(&self, number: usize) -> Option<File> {
        let state = self.state();
        let held = &state.locks.as_ref()?[number];
        let there = fs::metadata(self.path.join([LOCK, OWNER][number])).ok()?;
        let is_it = identity(&held.metadata().ok()?) == identity(&there);
        held.try_clone().ok().filter(|_| is_it)
    }

    /// Makes the file `owner.lock` and locks it.
    fn lock_new(&self) -> io::Result<File> {
        let lock = create_with_mode(&self.path.join(LOCK), 0o600)?;
        flock(&lock, libc::LOCK_EX).map(|()| lock)
    }

    /// Writes the file `owner` and locks it, or the one that is there and names this process.
    fn lock_owner(&self) -> io::Result<File> {
        let path = self.path.join(OWNER);
        if owner(&self.path) == Some(self.owner) {
            let lock = File::open(path)?;
            return if try_lock(&lock)? { Ok(lock) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        // Nobody else may open it before it is locked.
        let mut lock = create_with_mode(&path, 0o600)?;
        let written = flock(&lock, libc::LOCK_EX).and_then(|()| writeln!(lock, "{}", self.owner));
        let written = written.and_then(|()| lock.set_permissions(fs::Permissions::from_mode(FOR_FINDERS)));
        if written.is_err() {
            // One that names nobody is nobody's.
            let files = [&path, &self.path.join(LOCK)].map(fs::remove_file);
            drop((files, fs::remove_dir(&self.path)));
        }
        written.map(|()| lock)
    }

    /// Makes the directory anew if it is gone, with its locked files and what is written down; true when something
    /// was not there. Further files are lost.
    ///
    /// # Errors
    /// When it cannot be: the disk is full, as a rule.
    pub fn restore(&self) -> Result<bool, IoError> {
        let is_there = [0, 1].iter().all(|number| self.held(*number).is_some());
        if !is_there {
            self.make_directory(false)?;
        }
        let missing = {
            let state = self.state();
            let is_fine = state.is_given || state.is_written && self.path.join(RECORD).exists();
            state.record.clone().filter(|_| !is_fine)
        };
        let Some(record) = missing else { return Ok(!is_there) };
        self.write(&record)?;
        Ok(true)
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
        {
            let mut state = self.state();
            (state.record, state.is_written) = (Some(text.to_owned()), false);
        }
        self.write(text)
    }

    /// Writes down `text` as [`Instance::record`] does; where that fails, [`Instance::restore`] does it later.
    pub fn record_sooner_or_later(&self, text: &str) {
        // Whether it is written is looked at then.
        drop(self.record(text));
    }

    /// Record that is written down, or is to be; none before that, and when another instance has it.
    #[must_use]
    pub fn recorded(&self) -> Option<String> {
        let state = self.state();
        state.record.clone().filter(|_| !state.is_given)
    }

    /// Another instance has what is written down: it is not written anew.
    pub fn give(&self) {
        self.state().is_given = true;
    }

    fn write(&self, text: &str) -> Result<(), IoError> {
        let new = self.path.join("record.new");
        create_with_mode(&new, FOR_FINDERS)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| put_in_place(&new, &self.path.join(RECORD)))
            .doing(|| format!("write {}", new.display()))?;
        self.state().is_written = true;
        Ok(())
    }

    /// Takes what is written down at `record`, in another instance's directory, for its own: in one step, so
    /// that it is written down in one place at any time.
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn take_record(&self, record: &Path) -> Result<(), IoError> {
        fs::rename(record, self.path.join(RECORD)).doing(|| format!("take over {}", record.display()))?;
        let mut state = self.state();
        (state.record, state.is_written) = (fs::read_to_string(self.path.join(RECORD)).ok(), true);
        Ok(())
    }

    /// The instance's directory, for further files.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A share of the lock for another process: the instance counts as running until both are gone.
    ///
    /// # Errors
    /// When no descriptor is left, or there is no directory.
    pub fn share_lock(&self) -> Result<File, IoError> {
        let state = self.state();
        let none = || io::Error::from(io::ErrorKind::NotFound);
        let shared = state.locks.as_ref().ok_or_else(none).and_then(|[lock, _]| lock.try_clone());
        shared.doing(|| format!("copy the lock of {}", self.path.display()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.state().locks.is_none() {
            // It was never made, or is another one's.
            return;
        }
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
        Self::find_with(base, kind, "")
    }

    /// Those with a file `name` in their directory.
    ///
    /// # Errors
    /// When `base` exists and cannot be read.
    pub fn find_with(base: &Path, kind: &str, name: &str) -> Result<Vec<Self>, IoError> {
        if !base.exists() {
            return Ok(Vec::new());
        }
        let _guard = lock_base(base)?;
        let mut found = Vec::new();
        for path in instances(base, kind)?.into_iter().filter(|path| path.join(name).exists()) {
            let owner_file =
                || OpenOptions::new().read(true).append(true).create(true).open(path.join(OWNER));
            let Ok(file) = open_lock_of(&path, owner_file) else { continue };
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
            let file = open_lock_of(path, || File::open(path.join(OWNER)));
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

    /// Record of the instance, as it was last written, if anything.
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

/// The file whose lock says whether somebody is responsible for the instance at `path`: `owner_file` of an instance of a
/// program from before `owner.lock`.
fn open_lock_of(path: &Path, owner_file: impl FnOnce() -> io::Result<File>) -> io::Result<File> {
    match File::open(path.join(LOCK)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => owner_file(),
        lock => lock,
    }
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
        std::thread::park_timeout(LOCK_PAUSE);
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

/// Process that holds a lock on a file, as `process 17 (sleep)`.
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

/// Gives up a lock on what `file` is open at, also for who has a copy of the descriptor.
///
/// # Errors
/// Where the file system has no locks.
pub fn unlock(file: &impl AsFd) -> io::Result<()> {
    flock(file, libc::LOCK_UN)
}

/// A lock that belongs to the open file: it goes with the last descriptor of it, in any process.
fn flock(file: &impl AsFd, operation: libc::c_int) -> io::Result<()> {
    // SAFETY: flock takes an open descriptor and a flag, no pointers.
    let done = unsafe { libc::flock(file.as_fd().as_raw_fd(), operation) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_dead_are_leftovers() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("instances");
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
        instance.state().locks.iter().flatten().for_each(|file| unlock(file).unwrap());
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
    }

    #[test]
    fn what_others_delete_is_written_anew_unless_it_is_anothers() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("instances");
        let instance = Instance::register(&base, "run").unwrap();
        instance.record("one").unwrap();
        assert!(!instance.restore().unwrap(), "nothing is missing");
        let text = || fs::read_to_string(instance.path().join(RECORD)).ok();
        for deleted in [base.as_path(), instance.path()] {
            fs::remove_dir_all(deleted).unwrap();
            assert!(instance.restore().unwrap());
            assert_eq!(text().as_deref(), Some("one"));
        }
        for deleted in [OWNER, LOCK] {
            fs::remove_file(instance.path().join(deleted)).unwrap();
            assert!(instance.restore().unwrap(), "{deleted}");
            assert!(Leftover::find(&base, "run").unwrap().is_empty(), "locked anew");
            assert!(!instance.restore().unwrap(), "all is there");
        }
        fs::remove_file(instance.path().join(RECORD)).unwrap();
        instance.give();
        assert!(!instance.restore().unwrap() && text().is_none(), "another one has it");
        drop(instance);
        fs::remove_dir_all(&base).unwrap();

        // Where there can be no directory, an instance that must go on does without for a while.
        fs::write(&base, "in the way").unwrap();
        assert!(Instance::register(&base, "run").is_err());
        let instance = Instance::register_sooner_or_later(&base, "run").unwrap();
        instance.record_sooner_or_later("late");
        assert!(instance.restore().is_err() && instance.share_lock().is_err());
        assert_eq!(instance.recorded().as_deref(), Some("late"));
        fs::remove_file(&base).unwrap();
        assert!(instance.restore().unwrap());
        assert_eq!(fs::read_to_string(instance.path().join(RECORD)).unwrap(), "late");
    }

    #[test]
    fn who_locks_what_everybody_may_open_keeps_no_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("instances");
        let instance = Instance::register(&base, "run").unwrap();
        let path = instance.path().to_owned();
        let mode = |name| fs::metadata(path.join(name)).unwrap().mode() & 0o777;
        assert_eq!([LOCK, OWNER].map(mode), [0o600, 0o644]);
        let stranger = File::open(path.join(OWNER)).unwrap();
        assert!(!try_lock(&stranger).unwrap(), "programs from before see that it runs");
        // As after kill -9.
        fs::write(path.join(OWNER), "999999999:1").unwrap();
        instance.state().locks.iter().flatten().for_each(|file| unlock(file).unwrap());
        assert!(try_lock(&stranger).unwrap());
        assert!(!Leftover::is_any_being_undone(&base, "run").unwrap());
        assert_eq!(Leftover::find(&base, "run").unwrap().len(), 1);
        // As a program from before has left it: the lock of `owner` is all there is.
        fs::remove_file(path.join(LOCK)).unwrap();
        assert!(Leftover::is_any_being_undone(&base, "run").unwrap());
        assert!(Leftover::find(&base, "run").unwrap().is_empty());
        drop(stranger);
        assert_eq!(Leftover::find(&base, "run").unwrap().len(), 1);
    }

    #[test]
    fn a_lock_that_a_stranger_holds_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("instances");
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
    }

    #[test]
    fn a_lock_that_is_held_on_and_on_is_waited_for_no_longer_than_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("instances");
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
    }
}
