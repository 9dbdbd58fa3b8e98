//! [`Mapping`]: words of memory that others have too.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::IoError;

/// A word that whoever shares it changes as a whole.
pub(crate) trait Word: Sync {}

impl Word for AtomicU32 {}
impl Word for AtomicU64 {}

/// Words shared through a descriptor; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping<W: Word> {
    start: NonNull<W>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and is only reached through `&[W]`, which any
// thread may use.
unsafe impl<W: Word> Send for Mapping<W> {}
// SAFETY: as above.
unsafe impl<W: Word> Sync for Mapping<W> {}

impl<W: Word> Mapping<W> {
    /// Maps the first `len` words behind `fd`, one at least, for reading and writing; `what` it is
    /// for the error.
    ///
    /// # Safety
    /// Behind `fd` there is as much memory, and it does not get shorter; others change its words as
    /// a whole only.
    pub unsafe fn new(fd: &impl AsFd, len: usize, what: &str) -> Result<Self, IoError> {
        let bytes = len.checked_mul(size_of::<W>()).ok_or_else(|| IoError::Invalid {
            what: what.to_owned(),
            why: format!("{len} words are more than memory has"),
        })?;
        // SAFETY: a new mapping at a place of the kernel's choice; the caller answers for the length.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast::<W>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { start, len }),
            _ => Err(IoError::last(format!("map {what} into memory"))),
        }
    }

    /// Number of elements.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The words.
    pub fn words(&self) -> &[W] {
        // SAFETY: `start` is the page-aligned begin of a mapping of `len` words that lives as long
        // as `self`; whoever else has them changes each atomically, by the promise made to `new`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<W: Word> Drop for Mapping<W> {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap gave, and no reference into it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len * size_of::<W>()) };
    }
}
