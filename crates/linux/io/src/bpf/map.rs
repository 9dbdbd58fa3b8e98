//! [`HashMap`] and [`SharedArray`]: memory that a program in the kernel shares with this process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use super::system::{self, MapAttr, MapInfo};
use crate::IoError;
use crate::error::Context;
use crate::mapping::Mapping;

/// `BPF_MAP_TYPE_ARRAY`, `BPF_MAP_TYPE_LRU_HASH`.
const ARRAY: u32 = 2;
const LRU_HASH: u32 = 9;
/// `BPF_F_MMAPABLE`.
const MAPPABLE: u32 = 1 << 10;

/// Shape of a map, as the kernel states it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    kind: u32,
    key_len: u32,
    value_len: u32,
    entries_max: u32,
}

impl Shape {
    /// Fails unless `fd` is a map like this one.
    fn check(self, fd: BorrowedFd<'_>) -> Result<(), IoError> {
        let refused = |why: String| IoError::Invalid { what: "a BPF map of another process".to_owned(), why };
        let info = system::map_info(fd).map_err(|error| refused(format!("it is none ({error})")))?;
        let MapInfo { kind, key_len, value_len, entries_max, .. } = info;
        let found = Self { kind, key_len, value_len, entries_max };
        if found != self {
            return Err(refused(format!("it has {found}, and {self} are wanted")));
        }
        // Of a program the kernel tells something else by the same question.
        match system::has_zero_key(fd, self.key_len as usize, self.value_len as usize) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                Err(refused(format!("it is none ({error})")))
            }
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, key_len, value_len, entries_max } = self;
        write!(f, "{entries_max} elements of {key_len} and {value_len} bytes (kind {kind})")
    }
}

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

    /// The map for `entries_max` elements that another process has made, of which `fd` is a descriptor.
    ///
    /// # Errors
    /// When it is no such map, or of other sizes: the kernel would read and write as many bytes as the map's keys
    /// and values have, whatever K and V are.
    pub fn adopt(fd: OwnedFd, entries_max: u32) -> Result<Self, IoError> {
        let wanted = Shape { kind: LRU_HASH, key_len: K as u32, value_len: V as u32, entries_max };
        wanted.check(fd.as_fd())?;
        Ok(Self { fd })
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
    /// When it is no such array, of another length, or cannot be mapped.
    pub fn open(fd: OwnedFd, len: usize) -> Result<Self, IoError> {
        let len = len.max(1);
        let value_len = len.checked_mul(size_of::<AtomicU64>()).and_then(|len| u32::try_from(len).ok());
        let value_len = value_len.ok_or_else(|| IoError::Invalid {
            what: "a BPF array of another process".to_owned(),
            why: format!("it cannot have {len} words"),
        })?;
        let wanted = Shape { kind: ARRAY, key_len: size_of::<u32>() as u32, value_len, entries_max: 1 };
        wanted.check(fd.as_fd())?;
        // SAFETY: programs and processes write its words whole, and it has as many: a map keeps its length.
        let mapping = unsafe { Mapping::new(&fd, len, "a BPF array") }?;
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
