//! [`Ring`]: memory for held data, and [`RingProvider`]: where it comes from.
//!
//! ```text
//!   StreamBuffer ── another(len) ──▶ Ring ──▶ the heap: tests, `sim`, `run` by default
//!                ◀── bytes, or none ──   └──▶ RingProvider (io: RingArena): memory that outlives a process
//!                ── dropped ──▶ given back
//! ```
//!
//! A ring knows where it comes from, even an empty one: a buffer that grows asks the ring it has for another.
//! So nothing else in the engine has to know of providers: no parameter, no generic type, and no byte more in
//! a flow's state. The bytes themselves are a slice in either case, so that reading and writing them costs no
//! call.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Memory that rings may lie in.
///
/// What it lends it must leave alone until that is given back; `'static` says that the memory stays as long
/// as the process does.
pub trait RingProvider: fmt::Debug + Send + Sync {
    /// Lends `len` bytes, a power of two, whatever is in them; none when there are none to lend.
    fn allocate(&self, len: usize) -> Option<&'static mut [u8]>;

    /// Takes back what it has lent. Where another process that has the memory after this one may look for
    /// what was in it, it leaves it untouched until [`RingProvider::recycle`].
    fn give_back(&self, memory: &'static mut [u8]);

    /// Nobody will look for anything in what was given back so far.
    fn recycle(&self) {}

    /// Hears that nobody needs what is in `memory`, a part of what it has lent: it may come to have another content.
    fn forget(&self, _memory: &mut [u8]) {}

    /// Place of `memory`, which it has lent, if another process with the same memory can find it there
    /// later ([`RingProvider::take_over`]).
    fn place_of(&self, _memory: &[u8]) -> Option<u64> {
        None
    }

    /// Lends what a process before this one had at `place`, with what is in it; none when there are no `len`
    /// bytes, or they are lent already.
    fn take_over(&self, _place: u64, _len: usize) -> Option<&'static mut [u8]> {
        None
    }
}

/// Memory of a power of two of bytes, or none; given back when it is dropped.
pub struct Ring(Memory);

enum Memory {
    Heap(Box<[u8]>),
    Lent { bytes: &'static mut [u8], provider: Arc<dyn RingProvider> },
}

impl Ring {
    /// No memory, and more of it comes from the heap.
    #[must_use]
    pub fn on_heap() -> Self {
        Self(Memory::Heap(Box::default()))
    }

    /// No memory, and more of it comes from `provider`.
    #[must_use]
    pub fn of_provider(provider: Arc<dyn RingProvider>) -> Self {
        Self(Memory::Lent { bytes: &mut [], provider })
    }

    /// No memory, from where this comes from.
    #[must_use]
    pub fn without_memory(&self) -> Self {
        match &self.0 {
            Memory::Heap(_) => Self::on_heap(),
            Memory::Lent { provider, .. } => Self::of_provider(Arc::clone(provider)),
        }
    }

    /// True when both have their memory from the same place.
    #[must_use]
    pub fn is_of_origin(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Memory::Heap(_), Memory::Heap(_)) => true,
            (Memory::Lent { provider: own, .. }, Memory::Lent { provider: other, .. }) => {
                Arc::ptr_eq(own, other)
            }
            _ => false,
        }
    }

    /// A ring of `len` bytes, a power of two, from where this comes from; whatever is in it does not matter.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn another(&self, len: usize) -> Result<Self, NoMemory> {
        match &self.0 {
            Memory::Heap(_) => Ok(Self(Memory::Heap(vec![0; len].into_boxed_slice()))),
            Memory::Lent { provider, .. } => {
                let bytes = provider.allocate(len).ok_or(NoMemory)?;
                debug_assert_eq!(bytes.len(), len);
                Ok(Self(Memory::Lent { bytes, provider: Arc::clone(provider) }))
            }
        }
    }

    /// Place at which another process can find its bytes, if it can.
    pub(crate) fn place(&self) -> Option<u64> {
        match &self.0 {
            Memory::Lent { bytes, provider } if !bytes.is_empty() => provider.place_of(bytes),
            Memory::Heap(_) | Memory::Lent { .. } => None,
        }
    }

    /// The ring of `len` bytes that lay at `place` before, from where this comes from.
    ///
    /// # Errors
    /// When it is not to be had there.
    pub(crate) fn take_over(&self, place: u64, len: usize) -> Result<Self, NoMemory> {
        let Memory::Lent { provider, .. } = &self.0 else { return Err(NoMemory) };
        let bytes = provider.take_over(place, len).ok_or(NoMemory)?;
        Ok(Self(Memory::Lent { bytes, provider: Arc::clone(provider) }))
    }

    /// Nobody will look any more for what was in the rings of this origin that were given back
    /// ([`RingProvider::recycle`]).
    #[inline]
    pub fn recycle(&self) {
        if let Memory::Lent { provider, .. } = &self.0 {
            provider.recycle();
        }
    }

    /// Its memory; an empty ring stays, of the same origin.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let empty = self.without_memory();
        std::mem::replace(self, empty)
    }

    /// Bytes of it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// True when it has no memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that what is in `range` of its bytes is not needed.
    pub(crate) fn forget(&mut self, range: Range<usize>) {
        if let Memory::Lent { bytes, provider } = &mut self.0
            && let Some(memory) = bytes.get_mut(range)
        {
            provider.forget(memory);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.0 {
            Memory::Heap(bytes) => bytes,
            Memory::Lent { bytes, .. } => bytes,
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Heap(bytes) => bytes,
            Memory::Lent { bytes, .. } => bytes,
        }
    }
}

impl Default for Ring {
    fn default() -> Self {
        Self::on_heap()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Memory::Lent { bytes, provider } = &mut self.0
            && !bytes.is_empty()
        {
            provider.give_back(std::mem::take(bytes));
        }
    }
}

impl fmt::Debug for Ring {
    /// Prints where it comes from and how long it is; not what is in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Memory::Heap(bytes) => write!(f, "{} B of the heap", bytes.len()),
            Memory::Lent { bytes, provider } => write!(f, "{} B of {provider:?}", bytes.len()),
        }
    }
}

/// There is no memory for what was to be kept; nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory for a ring of that size")
    }
}

impl std::error::Error for NoMemory {}
