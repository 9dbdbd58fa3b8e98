//! [`BufferPool`]: memory of small stream buffers, and of notes of what is under way, that is passed
//! from flow to flow.
//!
//! A flow that sends a little now and then needs them for a round trip. A flow that gets the
//! memory given back last finds it in the processor's caches, and idle flows hold none.

use stored::{Reader, Stored, StoredError, Writer};
use tcp::{Ring, ScoreboardMemory, Sender, StreamBuffer};

/// Largest ring that is passed on; what a larger one costs to grow again is more than it saves.
const RING_MAX: usize = 16 * 1024;

/// Smallest ring there is.
const RING_MIN: usize = 4 * 1024;

/// Sizes: 4, 8 and 16 KiB.
const SIZES: usize = (RING_MAX / RING_MIN).ilog2() as usize + 1;

/// Memory of each size that is kept for the next ones, in bytes.
const KEPT: usize = 4 << 20;

/// Senders' notes that are kept: what 250,000 segments a second and a round trip of 30 ms need,
/// less than 16 MiB.
const ENTRIES_KEPT: usize = 8_192;

/// Memory that no flow uses.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    /// Rings by their size.
    rings: [Vec<Ring>; SIZES],
    entries: Vec<ScoreboardMemory>,
    /// A ring without memory that knows where more comes from: of it flows have theirs.
    origin: Ring,
}

/// One of the sizes; the smallest by default.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, stored::Stored)]
pub(crate) struct RingSize(u8);

impl RingSize {
    /// Size that `len` bytes need, if they are few enough.
    fn of(len: usize) -> Option<Self> {
        let size = len.next_power_of_two().max(RING_MIN);
        (size <= RING_MAX).then(|| Self((size / RING_MIN).ilog2() as u8))
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl BufferPool {
    /// Rings come from where `origin` comes from, from here on; those of elsewhere are passed on no more.
    pub(crate) fn set_origin(&mut self, origin: Ring) {
        self.rings = Default::default();
        self.origin = origin;
    }

    /// Allows memory given back so far to be used again: every flow's state is in the journal.
    pub(crate) fn recycle(&self) {
        self.origin.recycle();
    }

    /// A ring without memory, for a buffer that begins.
    pub(crate) fn no_memory(&self) -> Ring {
        self.origin.without_memory()
    }

    /// Gives memory for `len` bytes to a buffer that has none, if there is any: as much as it had
    /// before, or it would have to grow again.
    pub(crate) fn lend(&mut self, len: usize, before: RingSize, buffer: &mut StreamBuffer) {
        if len > 0
            && buffer.capacity() == 0
            && let Some(size) = RingSize::of(len)
            && let Some(ring) = self.rings.get_mut(size.max(before).index()).and_then(Vec::pop)
        {
            buffer.adopt(ring);
        }
    }

    /// Takes the memory of a small buffer that has nothing to keep, and notes how much it was.
    pub(crate) fn take_back(&mut self, was: &mut RingSize, buffer: &mut StreamBuffer) {
        if buffer.capacity() == 0 || !buffer.is_empty() {
            return;
        }
        let Some(size) = RingSize::of(buffer.capacity()) else { return };
        *was = size;
        let Some(rings) = self.rings.get_mut(size.index()) else { return };
        let ring = buffer.take_ring();
        if rings.len() < KEPT / ring.len().max(1) && ring.is_of_origin(&self.origin) {
            rings.push(ring);
        }
    }

    /// Gives memory to a sender that is about to send, if it has none and there is any.
    pub(crate) fn lend_entries(&mut self, sender: &mut Sender) {
        if sender.lacks_memory()
            && let Some(memory) = self.entries.pop()
        {
            sender.adopt_memory(memory);
        }
    }

    /// Takes that memory if nothing is under way.
    pub(crate) fn take_entries(&mut self, sender: &mut Sender) {
        if self.entries.len() < ENTRIES_KEPT
            && let Some(memory) = sender.take_memory()
        {
            self.entries.push(memory);
        }
    }
}

impl BufferPool {
    /// Says how much memory of each size it keeps: nothing is in it.
    pub(crate) fn store(&self, out: &mut Writer) {
        self.rings.each_ref().map(Vec::len).store(out);
    }

    /// Takes as much memory as one of before had, from its own origin.
    ///
    /// # Errors
    /// As [`Stored::restore`].
    pub(crate) fn fill(&mut self, from: &mut Reader<'_>) -> Result<(), StoredError> {
        let counts: [usize; SIZES] = from.value()?;
        for (size, (rings, count)) in self.rings.iter_mut().zip(counts).enumerate() {
            let len = RING_MIN << size;
            let more: Vec<Ring> =
                (rings.len()..count.min(KEPT / len)).map_while(|_| self.origin.another(len).ok()).collect();
            rings.extend(more);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use units::SeqNum;

    use super::*;

    #[test]
    fn memory_goes_from_flow_to_flow() {
        let start = SeqNum::new(7);
        let (mut one, mut other) = (StreamBuffer::new(start), StreamBuffer::new(start));
        let mut pool = BufferPool::default();
        let mut was = RingSize::default();
        pool.lend(100, was, &mut one);
        assert_eq!(one.capacity(), 0, "there is none yet");
        one.write(start, &[1; 5_000]).unwrap();
        pool.take_back(&mut was, &mut one);
        assert_eq!(one.capacity(), 8_192, "it is in use");
        one.advance_to(start + 5_000);
        pool.take_back(&mut was, &mut one);
        pool.lend(100, RingSize::default(), &mut other);
        assert_eq!((one.capacity(), other.capacity()), (0, 0), "none of that size");
        pool.lend(100, was, &mut one);
        assert_eq!(one.capacity(), 8_192, "as before");
        pool.take_back(&mut was, &mut one);
        pool.lend(4_097, RingSize::default(), &mut other);
        assert_eq!(other.capacity(), 8_192);
        other.write(start, b"abc").unwrap();
        assert_eq!(other.slices(start, 10), (&b"abc"[..], &[][..]));
    }

    #[test]
    fn large_ones_and_too_many_are_left() {
        let start = SeqNum::new(0);
        let mut pool = BufferPool::default();
        let emptied = |len: usize| {
            let mut buffer = StreamBuffer::new(start);
            buffer.write(start, &vec![0; len]).unwrap();
            buffer.advance_to(start + len as u32);
            buffer
        };
        let mut was = RingSize::default();
        let mut large = emptied(RING_MAX + 1);
        pool.take_back(&mut was, &mut large);
        assert_eq!(large.capacity(), 2 * RING_MAX);
        for _ in 0..KEPT / RING_MAX + 10 {
            pool.take_back(&mut was, &mut emptied(RING_MAX));
        }
        assert_eq!(pool.rings[SIZES - 1].len(), KEPT / RING_MAX);
    }
}
