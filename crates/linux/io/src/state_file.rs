//! [`StateFile`] and [`MappedState`]: state that one process writes and another one reads, in memory.

use std::fs::File;
use std::io::{Seek, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::IoError;
use crate::error::Context;

/// Seals against changes to a state that is complete.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;

/// A file in memory that is written once.
#[derive(Debug)]
pub struct StateFile {
    file: File,
}

impl StateFile {
    /// An empty one.
    ///
    /// # Errors
    /// When the kernel has no such file.
    pub fn create() -> Result<Self, IoError> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: takes a string that ends with zero, and numbers.
        let fd = unsafe { libc::memfd_create(c"cellerator-state".as_ptr(), flags) };
        if fd < 0 {
            return Err(IoError::last("make a file in memory"));
        }
        // SAFETY: a descriptor just made, that nobody else has.
        Ok(Self { file: unsafe { File::from_raw_fd(fd) } })
    }

    /// An empty one with memory for `len` bytes, which is not fetched any more when they are written.
    ///
    /// # Errors
    /// When the kernel has no such file, or not so much memory.
    pub fn with_memory_for(len: usize) -> Result<Self, IoError> {
        static PIECE: [u8; 64 * 1024] = [0; 64 * 1024];
        let mut state = Self::create()?;
        let mut left = len;
        while left > 0 {
            let piece = PIECE.len().min(left);
            state.append(&PIECE[..piece])?;
            left -= piece;
        }
        state.file.rewind().doing(|| "go to the start of a file in memory".to_owned())?;
        Ok(state)
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// When the kernel has no memory for them.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.file.write_all(bytes).doing(|| format!("write {} bytes to a file in memory", bytes.len()))
    }

    /// The descriptor of the complete state, which nobody can change any more.
    ///
    /// # Errors
    /// When the kernel does not say so.
    pub fn finish(mut self) -> Result<OwnedFd, IoError> {
        // There may have been memory for more.
        let cut = self.file.stream_position().and_then(|len| self.file.set_len(len));
        cut.doing(|| "cut a file in memory".to_owned())?;
        // SAFETY: takes an open descriptor and numbers.
        if unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } < 0 {
            return Err(IoError::last("fix what is in a file in memory"));
        }
        Ok(self.file.into())
    }
}

/// A complete state, in this process's memory.
#[derive(Debug)]
pub struct MappedState {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and is only read.
unsafe impl Send for MappedState {}
// SAFETY: as above.
unsafe impl Sync for MappedState {}

impl MappedState {
    /// The state behind `file`, which came from [`StateFile::finish`].
    ///
    /// # Errors
    /// It is no such file, or there is no room in the address space.
    pub fn open(file: BorrowedFd<'_>) -> Result<Self, IoError> {
        let doing = || "look at another process's state".to_owned();
        // SAFETY: takes an open descriptor and a number.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let len = File::from(file.try_clone_to_owned().doing(doing)?).metadata().doing(doing)?.len() as usize;
        // One that could change, or get shorter, would be another one than what was looked at.
        if seals < 0 || seals & SEALS != SEALS || len == 0 {
            let why = std::io::Error::from(std::io::ErrorKind::InvalidData);
            return Err(IoError::system("map another process's state: it is not complete", why));
        }
        // All of it is there: without further ado it comes into the address space, too.
        let flags = libc::MAP_PRIVATE | libc::MAP_POPULATE;
        // SAFETY: a new mapping at a place of the kernel's choice, of a file that is so long and stays so.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, flags, file.as_fd().as_raw_fd(), 0)
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { start, len }),
            _ => Err(IoError::last(format!("map {len} bytes of another process's state into memory"))),
        }
    }
}

impl Deref for MappedState {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes of a mapping that lives as long as `self`; by its seals nobody changes them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for MappedState {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap gave, and no reference into it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_has_written_the_other_reads_and_nobody_changes() {
        let mut file = StateFile::create().unwrap();
        file.append(b"first, ").unwrap();
        file.append(&[7; 100_000]).unwrap();
        assert!(MappedState::open(file.file.as_fd()).unwrap_err().to_string().contains("not complete"));
        let fd = file.finish().unwrap();
        let mapped = MappedState::open(fd.as_fd()).unwrap();
        assert_eq!((&mapped[..7], mapped.len(), mapped[100_006]), (&b"first, "[..], 100_007, 7));
        assert!(File::from(fd.try_clone().unwrap()).write_all(b"x").is_err());
        assert!(File::from(fd).set_len(10).is_err());
        // The memory that was fetched before is no part of it.
        let mut file = StateFile::with_memory_for(200_000).unwrap();
        file.append(&[7; 100]).unwrap();
        assert_eq!(MappedState::open(file.finish().unwrap().as_fd()).unwrap()[..], [7; 100]);
        let nothing = StateFile::create().unwrap().finish().unwrap();
        assert!(MappedState::open(nothing.as_fd()).is_err());
        assert!(MappedState::open(File::open("/dev/null").unwrap().as_fd()).is_err());
    }
}
