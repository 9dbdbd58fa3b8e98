//! [`HashMap`] and [`SharedArray`]: memory that a program in the kernel shares with this process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use super::system::{self, MapAttr};
use crate::IoError;
use crate::error::Context;
use crate::mapping::Mapping;

/// `BPF_MAP_TYPE_ARRAY`, `BPF_MAP_TYPE_LRU_HASH`.
const ARRAY: u32 = 2;
const LRU_HASH: u32 = 9;
/// `BPF_F_MMAPABLE`.
const MAPPABLE: u32 = 1 << 10;

/// A hash map of keys with K bytes to values with V bytes; when it is full, what was not used for
/// longest gives way.
#[derive(Debug)]
pub struct HashMap<const K: usize, const V: usize> {
    fd: OwnedFd,
}

impl<const K: usize, const V: usize> HashMap<K, V> {
    /// A map for `entries_max` elements, whose memory is taken at once. Its name has 15 characters at most.
    ///
    /// # Errors
    /// When the privilege or the memory is missing.
    pub fn create(name: &str, entries_max: u32) -> Result<Self, IoError> {
        let attr = MapAttr {
            kind: LRU_HASH,
            key_len: K as u32,
            value_len: V as u32,
            entries_max,
            name: system::name(name),
            ..MapAttr::default()
        };
        let fd = system::create_map(attr).doing(|| format!("make the BPF map '{name}'"))?;
        Ok(Self { fd })
    }

    /// The map that another process has made, of which `fd` is a descriptor: with the same K and V.
    #[must_use]
    pub fn adopt(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Adds an element; false when its key is there already.
    ///
    /// # Errors
    /// When the kernel has no element to give at this moment.
    pub fn insert(&self, key: &[u8; K], value: &[u8; V]) -> Result<bool, IoError> {
        match system::insert(self.fd.as_fd(), key, value) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            result => result.map(|()| true).doing(|| "add to a BPF map".to_owned()),
        }
    }

    /// The value of a key that is there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn get(&self, key: &[u8; K]) -> Result<Option<[u8; V]>, IoError> {
        match system::look_up(self.fd.as_fd(), key) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            result => result.map(Some).doing(|| "look something up in a BPF map".to_owned()),
        }
    }

    /// Takes an element away; false when there is none.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove(&self, key: &[u8; K]) -> Result<bool, IoError> {
        match system::delete(self.fd.as_fd(), key) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            result => result.map(|()| true).doing(|| "delete from a BPF map".to_owned()),
        }
    }
}

impl<const K: usize, const V: usize> AsFd for HashMap<K, V> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An array of one element, some words of 64 bits, that is this process's memory too.
#[derive(Debug)]
pub struct SharedArray {
    fd: OwnedFd,
    mapping: Mapping<AtomicU64>,
}

impl SharedArray {
    /// An array with `len` words of zero. Its name has 15 characters at most.
    ///
    /// # Errors
    /// When the privilege or the memory is missing.
    pub fn create(name: &str, len: usize) -> Result<Self, IoError> {
        let len = len.max(1);
        let attr = MapAttr {
            kind: ARRAY,
            key_len: size_of::<u32>() as u32,
            value_len: (len * size_of::<AtomicU64>()) as u32,
            entries_max: 1,
            flags: MAPPABLE,
            name: system::name(name),
            ..MapAttr::default()
        };
        let fd = system::create_map(attr).doing(|| format!("make the BPF map '{name}'"))?;
        // SAFETY: the map was made for it with as many words, and programs write them whole.
        let mapping = unsafe { Mapping::new(&fd, len, "a BPF array") }?;
        Ok(Self { fd, mapping })
    }

    /// The array of `len` words that another process has made, of which `fd` is a descriptor.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn open(fd: OwnedFd, len: usize) -> Result<Self, IoError> {
        // SAFETY: programs and processes write its words whole. One that is shorter is not mapped: the kernel
        // compares the length with that of the map.
        let mapping = unsafe { Mapping::new(&fd, len.max(1), "a BPF array") }?;
        Ok(Self { fd, mapping })
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }
}

impl AsFd for SharedArray {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
