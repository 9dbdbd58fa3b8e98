//! [`StreamBuffer`]: bytes of a stream, addressed by sequence number.

use stored::{Reader, Stored, StoredError, Writer};
use units::SeqNum;

use crate::ring::{NoMemory, Ring};

/// Smallest ring that is allocated.
const CAPACITY_MIN: usize = 4 * 1024;

/// Smallest ring that is trimmed.
const TRIMMED_MIN: usize = 128 * 1024;

/// Largest ring that is restored: no window is larger (RFC 7323 §2.3).
const RESTORED_MAX: usize = 1 << 30;

/// Place of the bytes of a [`StreamBuffer`], in memory that outlives the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferPlace {
    /// The place of its ring ([`crate::RingProvider::place_of`]).
    pub ring: u64,
    /// Bytes of the ring.
    pub capacity: u32,
    /// Sequence number of the first byte kept.
    pub start: SeqNum,
    /// Position of that byte in the ring.
    pub head: u32,
}

/// A window of a byte stream: a ring in which every byte has its place by its sequence number.
///
/// It grows by doubling as far as the owner writes, and holds no memory while it has never been
/// written to. It does not know which bytes are valid: that is the [`crate::Receiver`]'s business.
///
/// INVARIANT: at any point of time one ring holds all that is kept. A larger (or smaller) ring gets a whole
/// copy first, then it takes the place of the old one, then the old one is given back, untouched.
#[derive(Debug)]
pub struct StreamBuffer {
    /// Length zero or a power of two.
    ring: Ring,
    /// Sequence number of the first byte kept.
    start: SeqNum,
    /// Position of that byte in the ring.
    head: u32,
    /// Bytes from `start` to the end of the highest write.
    len: u32,
    /// The largest `len` since the last [`StreamBuffer::trim`].
    peak: u32,
}

impl StreamBuffer {
    /// An empty buffer whose first byte will be `start`, with memory of the heap.
    #[must_use]
    pub fn new(start: SeqNum) -> Self {
        Self::with_ring(start, Ring::on_heap())
    }

    /// An empty buffer whose first byte will be `start`, with `ring`, and more memory from where that comes
    /// from.
    #[must_use]
    pub fn with_ring(start: SeqNum, ring: Ring) -> Self {
        Self { ring, start, head: 0, len: 0, peak: 0 }
    }

    /// Place of its bytes, for another process to go on with them when this one has ended; none where they
    /// cannot be found then.
    #[must_use]
    pub fn place(&self) -> Option<BufferPlace> {
        let ring = self.ring.place()?;
        Some(BufferPlace { ring, capacity: self.ring.len() as u32, start: self.start, head: self.head })
    }

    /// The buffer that another process had at `place`, with its bytes before `end`; `origin` knows where its
    /// memory comes from.
    ///
    /// # Errors
    /// When there is no such memory, or less of it.
    pub fn found(place: &BufferPlace, end: SeqNum, origin: &Ring) -> Result<Self, NoMemory> {
        let BufferPlace { ring, capacity, start, head } = *place;
        // Behind the end of the stream it begins one later: the end has a number, too.
        let len = if end + 1 == start { 0 } else { end.distance_from(start) };
        let fits = (0..=i64::from(capacity)).contains(&i64::from(len)) && head < capacity;
        if !fits || !capacity.is_power_of_two() || capacity as usize > RESTORED_MAX {
            return Err(NoMemory);
        }
        let len = len.unsigned_abs();
        Ok(Self { ring: origin.take_over(ring, capacity as usize)?, start, head, len, peak: len })
    }

    /// Sequence number of the first byte kept.
    #[must_use]
    pub fn start(&self) -> SeqNum {
        self.start
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.len()
    }

    /// Bytes from the start to the end of the highest write, holes included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True when nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes room for what ends at `end`, so that writing it cannot fail.
    ///
    /// The caller bounds how far `end` may run ahead of the start: the ring grows to hold it.
    ///
    /// # Errors
    /// When there is no memory for it; then all is as before.
    pub fn reserve(&mut self, end: SeqNum) -> Result<(), NoMemory> {
        self.grow_to(end.distance_from(self.start).max(0).unsigned_abs())
    }

    fn grow_to(&mut self, needed: u32) -> Result<(), NoMemory> {
        let needed = needed as usize;
        if needed <= self.ring.len() { Ok(()) } else { self.resize(grown(needed)) }
    }

    /// Puts `bytes` at `seq`. What lies before the start is left out.
    ///
    /// # Errors
    /// When there is no memory for it; then nothing of it is written, and all is as before.
    pub fn write(&mut self, seq: SeqNum, bytes: &[u8]) -> Result<(), NoMemory> {
        let ahead = seq.distance_from(self.start);
        let (offset, bytes) = if ahead < 0 {
            let skip = (ahead.unsigned_abs() as usize).min(bytes.len());
            (0, &bytes[skip..])
        } else {
            (ahead.unsigned_abs(), bytes)
        };
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset + bytes.len() as u32;
        self.grow_to(end)?;
        let at = self.position(offset);
        let ring = self.ring.bytes_mut();
        let first = bytes.len().min(ring.len() - at);
        ring[at..at + first].copy_from_slice(&bytes[..first]);
        ring[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.len = self.len.max(end);
        self.peak = self.peak.max(end);
        Ok(())
    }

    /// Position in the ring of the byte `offset` behind the start; there is a ring.
    fn position(&self, offset: u32) -> usize {
        self.head.wrapping_add(offset) as usize & (self.ring.len() - 1)
    }

    /// The `len` bytes from `seq` as two slices, the second empty unless they wrap.
    ///
    /// Bytes outside what is kept are left out.
    #[must_use]
    pub fn slices(&self, seq: SeqNum, len: usize) -> (&[u8], &[u8]) {
        let ahead = seq.distance_from(self.start);
        if ahead < 0 || ahead.unsigned_abs() >= self.len {
            return (&[], &[]);
        }
        let offset = ahead.unsigned_abs();
        let len = len.min((self.len - offset) as usize);
        let at = self.position(offset);
        let ring = self.ring.bytes();
        let first = len.min(ring.len() - at);
        (&ring[at..at + first], &ring[..len - first])
    }

    /// Forgets everything before `seq`.
    pub fn advance_to(&mut self, seq: SeqNum) {
        let by = seq.distance_from(self.start);
        if by <= 0 {
            return;
        }
        let by = by.unsigned_abs();
        self.start = seq;
        if by >= self.len {
            self.head = 0;
            self.len = 0;
        } else {
            self.head = self.position(by) as u32;
            self.len -= by;
        }
    }

    /// Gives the memory back when nothing is kept.
    pub fn release_if_empty(&mut self) {
        if !self.ring.is_empty() {
            drop(self.take_ring());
        }
    }

    /// Gives back what was not needed since the last call: where less than a quarter of a large ring was,
    /// half of it or more. Where as much is kept as at the last call, and never was more, the stream seems to stand still:
    /// then the rest of the ring goes without memory until it is written to.
    ///
    /// What is kept is copied, so it is worth calling a few times a second at most.
    pub fn trim(&mut self) {
        let peak = std::mem::replace(&mut self.peak, self.len) as usize;
        if self.ring.len() > TRIMMED_MIN && peak < self.ring.len() / 4 {
            // Where there is no memory for a smaller one, it keeps what it has.
            let _ = self.resize(grown(2 * peak).max(TRIMMED_MIN));
        } else if self.ring.len() >= TRIMMED_MIN && peak == self.len() {
            let (head, end, capacity) = (self.head as usize, self.head as usize + peak, self.ring.len());
            if end <= capacity {
                self.ring.forget(0..head);
                self.ring.forget(end..capacity);
            } else {
                self.ring.forget(end - capacity..head);
            }
        }
    }

    /// Takes its memory away, which is nothing while anything is kept in it.
    pub fn take_ring(&mut self) -> Ring {
        if self.len > 0 {
            return self.ring.without_memory();
        }
        self.head = 0;
        self.ring.take()
    }

    /// Uses `ring` for what will be written, if it has no memory yet; the length must be a power of two, and
    /// whatever is in it does not matter.
    pub fn adopt(&mut self, ring: Ring) {
        if self.ring.is_empty() && ring.len().is_power_of_two() {
            self.ring = ring;
        }
    }

    /// Moves what is kept to a ring of `capacity` bytes, in which it has room.
    fn resize(&mut self, capacity: usize) -> Result<(), NoMemory> {
        let mut ring = self.ring.another(capacity)?;
        let (a, b) = self.slices(self.start, self.len());
        let (to_a, to_b) = ring.bytes_mut().split_at_mut(a.len());
        to_a.copy_from_slice(a);
        to_b[..b.len()].copy_from_slice(b);
        self.head = 0;
        let old = std::mem::replace(&mut self.ring, ring);
        drop(old);
        Ok(())
    }
}

impl Stored for StreamBuffer {
    /// Stores the place of its memory, where another process finds that; else the bytes it keeps.
    fn store(&self, out: &mut Writer) {
        let Self { ring, start, head, len, peak } = self;
        (*start, *head).store(out);
        (*len, *peak).store(out);
        (ring.len(), ring.place()).store(out);
        if ring.place().is_none() {
            let (a, b) = self.slices(self.start, self.len());
            out.bytes(a);
            out.bytes(b);
        }
    }

    /// Its memory comes from the [`Ring`] that surrounds the reader, from the heap if there is none.
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let at = from.at();
        let senseless = |_| Reader::senseless(at, "StreamBuffer");
        let (start, head) = from.value()?;
        let (len, peak) = from.value::<(u32, u32)>()?;
        let (capacity, place) = from.value::<(usize, Option<u64>)>()?;
        let is_ring = capacity == 0 || (capacity.is_power_of_two() && capacity <= RESTORED_MAX);
        if !is_ring || len as usize > capacity || head as usize >= capacity.max(1) {
            return Err(Reader::senseless(at, "StreamBuffer"));
        }
        let origin = from.surroundings::<Ring>().map_or_else(Ring::on_heap, Ring::without_memory);
        let mut buffer = Self { ring: origin, start, head, len: 0, peak };
        match place {
            Some(place) => {
                buffer.ring = buffer.ring.take_over(place, capacity).map_err(senseless)?;
                buffer.len = len;
            }
            None if capacity > 0 => {
                let kept = from.bytes(len as usize, "held data")?;
                buffer.ring = buffer.ring.another(capacity).map_err(senseless)?;
                buffer.write(start, kept).map_err(senseless)?;
                buffer.peak = peak;
            }
            None => {}
        }
        Ok(buffer)
    }
}

/// The size of a ring that holds `needed` bytes.
fn grown(needed: usize) -> usize {
    needed.next_power_of_two().max(CAPACITY_MIN)
}

#[cfg(test)]
mod tests;
