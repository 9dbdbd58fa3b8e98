//! State as bytes, so that it outlives the process: [`Stored`] writes a value and reads it again.
//!
//! Structures and enums derive it:
//!
//! ```
//! #[derive(stored::Stored)]
//! struct Pause {
//!     from: u64,
//!     #[stored(since(2, None))]
//!     round: Option<u32>,
//! }
//!
//! #[derive(stored::Stored)]
//! enum Phase {
//!     Start,
//!     Paused(Pause),
//! }
//!
//! let bytes = stored::to_bytes(&Phase::Paused(Pause { from: 7, round: None }));
//! let phase: Phase = stored::from_bytes(2, &bytes)?;
//! assert!(matches!(phase, Phase::Paused(Pause { from: 7, round: None })));
//! # Ok::<(), stored::StoredError>(())
//! ```
//!
//! The definition is the format: fields follow each other in its order, without names, and a variant is a byte,
//! its number in order or as [`derive@Stored`] is told. What writes it states a version, and what reads it is
//! told that version:
//!
//! - A field that came with version 2 has `#[stored(since(2, value))]`: from bytes of version 1 it is `value`.
//! - Fields lie in memory in another order where `#[stored(order(…))]` says the one of the format.
//! - A variant's number is never used for another one.
//! - Numbers are little-endian and have the length of their type. A list has its length in front (32
//!   bits), an `Option` a byte.
//! - [`Layouts`] have it all as text. A test compares that with a file, so that no change of a definition
//!   changes the format unnoticed.
//!
//! Bytes that no value has written give an error, never a panic, and never more memory than a multiple of
//! their own length. That a value can be read does not say that it makes sense: who reads bytes has to know
//! that they come from this program.

use std::any::Any;

#[cfg(test)]
extern crate self as stored;

pub use layout::Layouts;
pub use rare::{Absent, Rare};
pub use stored_derive::Stored;

mod collections;
mod layout;
mod numbers;
mod rare;

/// A value that can be written as bytes and read again.
pub trait Stored: Sized {
    /// Appends it to `out`.
    fn store(&self, out: &mut Writer);

    /// Reads what [`Stored::store`] has written, now or in an older version.
    ///
    /// # Errors
    /// The bytes end too soon, or no value is written so.
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError>;

    /// Adds how it is stored; the default is for what is stored by code of its own.
    fn layout(_layouts: &mut Layouts) {}

    /// Appends one after the other; bytes do so at once.
    #[doc(hidden)]
    fn store_all(values: &[Self], out: &mut Writer) {
        values.iter().for_each(|value| value.store(out));
    }

    /// Reads `len` of them; bytes do so at once.
    #[doc(hidden)]
    fn restore_list(len: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, StoredError> {
        (0..len).map(|_| from.value()).collect()
    }

    /// Reads `N` of them; numbers do so at once.
    #[doc(hidden)]
    fn restore_array<const N: usize>(from: &mut Reader<'_>) -> Result<[Self; N], StoredError> {
        let values = (0..N).map(|_| from.value()).collect::<Result<Vec<Self>, _>>()?;
        values.try_into().map_err(|_| StoredError::End { at: from.at(), what: "array" })
    }
}

/// Bytes that are no value, or none of this program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoredError {
    /// They end too soon.
    #[error("the stored state ends at byte {at}, within {what}")]
    End {
        /// Offset of the value.
        at: usize,
        /// Name of the value that was being read.
        what: &'static str,
    },
    /// No value is written so.
    #[error("byte {at} of the stored state makes no sense as {what}")]
    Senseless {
        /// Offset at which the value begins.
        at: usize,
        /// Name of the value that was expected.
        what: &'static str,
    },
    /// More follows than there should be.
    #[error("the stored state goes on for {left} bytes behind its end at byte {at}")]
    Rest {
        /// Offset at which it should end.
        at: usize,
        /// Bytes that follow.
        left: usize,
    },
}

/// Length of pieces that are handed on, bytes.
const PIECE_LEN: usize = 64 * 1024;

/// Buffer that values are written to.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Appends bytes as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends how many values follow.
    #[inline]
    pub fn len_of_list(&mut self, len: usize) {
        u32::try_from(len).unwrap_or(u32::MAX).store(self);
    }

    /// Appends a text, as a `String` is stored.
    pub fn text(&mut self, text: &str) {
        self.len_of_list(text.len());
        self.bytes(text.as_bytes());
    }

    /// Hands on what was written so far, once it is a piece of some length, and goes on without it: what is
    /// handed on soon after it was written is in the processor's cache still.
    #[inline]
    pub fn hand_on(&mut self, take: &mut dyn FnMut(&[u8])) {
        if self.bytes.len() >= PIECE_LEN {
            self.hand_on_rest(take);
        }
    }

    /// Hands on all that was written and not handed on yet.
    pub fn hand_on_rest(&mut self, take: &mut dyn FnMut(&[u8])) {
        take(&self.bytes);
        self.bytes.clear();
    }

    /// All that was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Bytes that values are read from.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    version: u16,
    surroundings: Option<&'a dyn Any>,
}

impl<'a> Reader<'a> {
    /// Reads what was written in `version`.
    #[must_use]
    pub fn new(version: u16, bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, version, surroundings: None }
    }

    /// Adds what values need to come alive that no bytes hold, as memory of which they hold the place.
    #[must_use]
    pub fn within(self, surroundings: &'a dyn Any) -> Self {
        Self { surroundings: Some(surroundings), ..self }
    }

    /// Data that values need beside their bytes, if it is a `T`.
    #[must_use]
    pub fn surroundings<T: 'static>(&self) -> Option<&'a T> {
        self.surroundings?.downcast_ref()
    }

    /// The version of what is read.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Offset at which the next value begins.
    #[inline]
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The next value; its type says what it is.
    ///
    /// # Errors
    /// As [`Stored::restore`].
    #[inline]
    pub fn value<T: Stored>(&mut self) -> Result<T, StoredError> {
        T::restore(self)
    }

    /// The next `len` bytes, which are part of `what`.
    ///
    /// # Errors
    /// They end before that.
    #[inline]
    pub fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], StoredError> {
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        let bytes = bytes.ok_or(StoredError::End { at: self.bytes.len(), what })?;
        self.at += len;
        Ok(bytes)
    }

    /// The next `N` bytes, which are part of `what`.
    ///
    /// # Errors
    /// They end before that.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], StoredError> {
        let array = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let array = array.ok_or(StoredError::End { at: self.bytes.len(), what })?;
        self.at += N;
        Ok(*array)
    }

    /// Number of values of `what` that follow; each takes a byte at least.
    ///
    /// # Errors
    /// More than there are bytes.
    pub fn len_of_list(&mut self, what: &'static str) -> Result<usize, StoredError> {
        let at = self.at;
        let len = self.value::<u32>()? as usize;
        let left = self.bytes.len() - self.at;
        if len <= left { Ok(len) } else { Err(StoredError::Senseless { at, what }) }
    }

    /// The next text, which a `String` or [`Writer::text`] has stored.
    ///
    /// # Errors
    /// It ends too soon, or is none.
    pub fn text(&mut self) -> Result<&'a str, StoredError> {
        let at = self.at;
        let len = self.len_of_list("text")?;
        let bytes = self.bytes(len, "text")?;
        std::str::from_utf8(bytes).map_err(|_| Self::senseless(at, "text"))
    }

    /// The error for what was read from `at` on.
    #[must_use]
    pub fn senseless(at: usize, what: &'static str) -> StoredError {
        StoredError::Senseless { at, what }
    }

    /// Says that all has been read.
    ///
    /// # Errors
    /// When something follows.
    pub fn finish(&self) -> Result<(), StoredError> {
        let left = self.bytes.len() - self.at;
        if left == 0 { Ok(()) } else { Err(StoredError::Rest { at: self.at, left }) }
    }
}

/// `value` as bytes of the current version.
#[must_use]
pub fn to_bytes<T: Stored>(value: &T) -> Vec<u8> {
    let mut out = Writer::default();
    value.store(&mut out);
    out.into_bytes()
}

/// The value that is all of `bytes`, written in `version`.
///
/// # Errors
/// As [`Stored::restore`], or when something follows.
pub fn from_bytes<T: Stored>(version: u16, bytes: &[u8]) -> Result<T, StoredError> {
    let mut from = Reader::new(version, bytes);
    let value = from.value()?;
    from.finish()?;
    Ok(value)
}

#[cfg(test)]
mod tests;
