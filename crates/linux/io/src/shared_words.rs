//! [`SharedWords`]: a file as 32-bit words in memory, kept by the kernel when the process is killed.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU32;

use crate::IoError;
use crate::error::Context;
use crate::mapping::Mapping;

/// A new file whose content is memory: written without a system call, there for others after `kill -9`.
///
/// Each word is written whole. Its disk space is reserved, so that writing cannot fail for want of it.
#[derive(Debug)]
pub struct SharedWords {
    file: File,
    mapping: Mapping<AtomicU32>,
}

impl SharedWords {
    /// Makes the file, for this user only, with `len` words of zero, at least one.
    ///
    /// # Errors
    /// When it is there already, or the file system is full.
    pub fn create(path: &Path, len: usize) -> Result<Self, IoError> {
        let doing = || format!("create {}", path.display());
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path).doing(doing)?;
        let len = len.max(1);
        reserve(&file, len)?;
        let mapping = map(&file, len)?;
        Ok(Self { file, mapping })
    }

    /// The same without a name: for others who are given its descriptor.
    ///
    /// # Errors
    /// When the kernel has no such file, or no memory.
    pub fn create_without_name(len: usize) -> Result<Self, IoError> {
        // SAFETY: takes a string that ends with zero, and a number.
        let fd = unsafe { libc::memfd_create(c"cellerator-journal".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(IoError::last("make a file in memory"));
        }
        // SAFETY: a descriptor just made, that nobody else has.
        let file = unsafe { File::from_raw_fd(fd) };
        let len = len.max(1);
        reserve(&file, len)?;
        let mapping = map(&file, len)?;
        Ok(Self { file, mapping })
    }

    /// Another descriptor of the file.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn share(&self) -> Result<OwnedFd, IoError> {
        Ok(self.file.try_clone().doing(|| "copy the descriptor of a journal".to_owned())?.into())
    }

    /// Opens a file that was made so: by this process or by another one of this program, which may go on
    /// writing to it and make it longer.
    ///
    /// # Errors
    /// When it is not there, or holds no word.
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let doing = || format!("open {}", path.display());
        let file = OpenOptions::new().read(true).write(true).open(path).doing(doing)?;
        let mapping = map(&file, words_in(&file).doing(doing)?)?;
        Ok(Self { file, mapping })
    }

    /// Has the words of now, if another process has made it longer.
    ///
    /// # Errors
    /// When there is no room in the address space.
    pub fn refresh(&mut self) -> Result<(), IoError> {
        let len = words_in(&self.file).doing(|| "look at a journal".to_owned())?;
        if len > self.mapping.len() {
            self.mapping = map(&self.file, len)?;
        }
        Ok(())
    }

    /// Makes it longer; new words are zero.
    ///
    /// # Errors
    /// When the file system is full; then it is as before.
    pub fn grow(&mut self, len: usize) -> Result<(), IoError> {
        if len <= self.mapping.len() {
            return Ok(());
        }
        reserve(&self.file, len)?;
        self.mapping = map(&self.file, len)?;
        Ok(())
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU32] {
        self.mapping.words()
    }
}

const fn bytes(len: usize) -> usize {
    len * size_of::<AtomicU32>()
}

/// Number of words in a file; an error where there is none.
fn words_in(file: &File) -> std::io::Result<usize> {
    let len = file.metadata()?.len() as usize / size_of::<AtomicU32>();
    if len > 0 { Ok(len) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

/// Makes the file so long, with all of it on the disk: a page that cannot be had would kill the
/// process later.
fn reserve(file: &File, len: usize) -> Result<(), IoError> {
    // SAFETY: takes an open descriptor and numbers.
    let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes(len) as libc::off_t) };
    if error == 0 {
        return Ok(());
    }
    Err(std::io::Error::from_raw_os_error(error))
        .doing(|| format!("reserve {} bytes for a journal", bytes(len)))
}

fn map(file: &File, len: usize) -> Result<Mapping<AtomicU32>, IoError> {
    // SAFETY: the file is long enough and stays so: only this program has it for writing (mode 0600, or no name), which
    // writes its words as a whole and makes it longer only.
    unsafe { Mapping::new(file, len, "a file") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_is_written_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        let mut words = SharedWords::create(&path, 4).unwrap();
        assert!(SharedWords::create(&path, 4).unwrap_err().is_already_there());
        words.words()[3].store(7, Relaxed);
        let mut other = SharedWords::open(&path).unwrap();
        assert_eq!((other.words().len(), other.words()[3].load(Relaxed)), (4, 7));
        words.grow(5_000).unwrap();
        words.words()[4_999].store(9, Relaxed);
        assert_eq!((words.words().len(), words.words()[3].load(Relaxed)), (5_000, 7));
        other.refresh().unwrap();
        assert_eq!(other.words()[4_999].load(Relaxed), 9);
        drop(words);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, []).unwrap();
        assert!(SharedWords::open(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(SharedWords::open(&path).is_err());
        let word = |n: usize| u32::from_ne_bytes(bytes[4 * n..4 * n + 4].try_into().unwrap());
        assert_eq!((bytes.len(), word(0), word(3), word(4_999)), (20_000, 0, 7, 9));
    }
}
