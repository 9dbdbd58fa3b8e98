//! [`StreamBuffer`]: bytes of a stream, addressed by sequence number.

use units::SeqNum;

/// Smallest ring that is allocated.
const CAPACITY_MIN: usize = 4 * 1024;

/// Smallest ring that is trimmed.
const TRIMMED_MIN: usize = 128 * 1024;

/// A window of a byte stream: a ring in which every byte has its place by its sequence number.
///
/// It grows by doubling as far as the owner writes, and holds no memory while it has never been
/// written to. It does not know which bytes are valid: that is the [`crate::Receiver`]'s business.
#[derive(Clone, Debug)]
pub struct StreamBuffer {
    /// Length zero or a power of two.
    ring: Vec<u8>,
    /// Sequence number of the first byte kept.
    start: SeqNum,
    /// Where that byte is in the ring.
    head: usize,
    /// Bytes from `start` to the end of the highest write.
    len: usize,
    /// The largest `len` since the last [`StreamBuffer::trim`].
    peak: usize,
}

impl StreamBuffer {
    /// An empty buffer whose first byte will be `start`.
    #[must_use]
    pub fn new(start: SeqNum) -> Self {
        Self { ring: Vec::new(), start, head: 0, len: 0, peak: 0 }
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

    /// Bytes of memory it would hold after a write of `len` bytes at `seq`.
    #[must_use]
    pub fn capacity_for(&self, seq: SeqNum, len: usize) -> usize {
        let end = seq.distance_from(self.start).max(0).unsigned_abs() as usize + len;
        if end <= self.ring.len() { self.ring.len() } else { grown(end) }
    }

    /// Bytes from the start to the end of the highest write, holes included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts `bytes` at `seq`. What lies before the start is left out.
    ///
    /// The caller bounds how far `seq` may run ahead of the start: the ring grows to hold it.
    pub fn write(&mut self, seq: SeqNum, bytes: &[u8]) {
        let ahead = seq.distance_from(self.start);
        let (offset, bytes) = if ahead < 0 {
            let skip = (ahead.unsigned_abs() as usize).min(bytes.len());
            (0, &bytes[skip..])
        } else {
            (ahead.unsigned_abs() as usize, bytes)
        };
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        self.reserve(end);
        let at = (self.head + offset) & (self.ring.len() - 1);
        let first = bytes.len().min(self.ring.len() - at);
        self.ring[at..at + first].copy_from_slice(&bytes[..first]);
        self.ring[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.len = self.len.max(end);
        self.peak = self.peak.max(end);
    }

    /// The `len` bytes from `seq` as two slices, the second empty unless they wrap.
    ///
    /// Bytes outside what is kept are left out.
    #[must_use]
    pub fn slices(&self, seq: SeqNum, len: usize) -> (&[u8], &[u8]) {
        let ahead = seq.distance_from(self.start);
        if ahead < 0 || ahead.unsigned_abs() as usize >= self.len {
            return (&[], &[]);
        }
        let offset = ahead.unsigned_abs() as usize;
        let len = len.min(self.len - offset);
        let at = (self.head + offset) & (self.ring.len() - 1);
        let first = len.min(self.ring.len() - at);
        (&self.ring[at..at + first], &self.ring[..len - first])
    }

    /// Forgets everything before `seq`.
    pub fn advance_to(&mut self, seq: SeqNum) {
        let by = seq.distance_from(self.start);
        if by <= 0 {
            return;
        }
        let by = by.unsigned_abs() as usize;
        self.start = seq;
        if by >= self.len {
            self.head = 0;
            self.len = 0;
        } else {
            self.head = (self.head + by) & (self.ring.len() - 1);
            self.len -= by;
        }
    }

    /// Gives the memory back when nothing is kept.
    pub fn release_if_empty(&mut self) {
        if self.len == 0 {
            self.ring = Vec::new();
            self.head = 0;
        }
    }

    /// Gives back what was not needed since the last call: where less than a quarter of a large ring was, half of it or more.
    ///
    /// What is kept is copied, so it is worth calling a few times a second at most.
    pub fn trim(&mut self) {
        let peak = std::mem::replace(&mut self.peak, self.len);
        if self.ring.len() > TRIMMED_MIN && peak < self.ring.len() / 4 {
            self.resize(grown(2 * peak).max(TRIMMED_MIN));
        }
    }

    /// Takes its memory away, which is nothing while anything is kept in it.
    pub fn take_ring(&mut self) -> Vec<u8> {
        if self.len > 0 {
            return Vec::new();
        }
        self.head = 0;
        std::mem::take(&mut self.ring)
    }

    /// Uses `ring` for what will be written, if it has no memory yet; the length must be a power of two, and whatever is
    /// in it does not matter.
    pub fn adopt(&mut self, ring: Vec<u8>) {
        if self.ring.is_empty() && ring.len().is_power_of_two() {
            self.ring = ring;
        }
    }

    fn reserve(&mut self, needed: usize) {
        if needed <= self.ring.len() {
            return;
        }
        self.resize(grown(needed));
    }

    /// Moves what is kept to a ring of `capacity` bytes, in which it has room.
    fn resize(&mut self, capacity: usize) {
        let mut ring = vec![0; capacity];
        let (a, b) = if self.len == 0 { (&[][..], &[][..]) } else { self.slices(self.start, self.len) };
        ring[..a.len()].copy_from_slice(a);
        ring[a.len()..a.len() + b.len()].copy_from_slice(b);
        self.ring = ring;
        self.head = 0;
    }
}

/// The size of a ring that holds `needed` bytes.
fn grown(needed: usize) -> usize {
    needed.next_power_of_two().max(CAPACITY_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(buffer: &StreamBuffer, seq: SeqNum, len: usize) -> Vec<u8> {
        let (a, b) = buffer.slices(seq, len);
        [a, b].concat()
    }

    proptest! {
        /// Against a plain vector: whatever is written can be read back at its number, across the wrap.
        #[test]
        fn behaves_like_an_indexed_stream(
            isn: u32,
            ops in proptest::collection::vec((0usize..9_000, 1usize..5_000, 0usize..4_000), 1..40),
        ) {
            let origin = SeqNum::new(isn);
            let mut buffer = StreamBuffer::new(origin);
            let mut model: Vec<Option<u8>> = Vec::new();
            let mut start = 0usize;
            for (i, (ahead, len, advance)) in ops.into_iter().enumerate() {
                let at = start + ahead;
                let bytes: Vec<u8> = (0..len).map(|k| (i * 31 + k) as u8).collect();
                buffer.write(origin + at as u32, &bytes);
                if model.len() < at + len { model.resize(at + len, None); }
                for (k, b) in bytes.iter().enumerate() { model[at + k] = Some(*b); }
                start += advance;
                buffer.advance_to(origin + start as u32);
                prop_assert_eq!(buffer.len(), model.len().saturating_sub(start));
                for (pos, byte) in model.iter().enumerate().skip(start) {
                    if let Some(byte) = byte {
                        prop_assert_eq!(read(&buffer, origin + pos as u32, 1), vec![*byte]);
                    }
                }
            }
        }
    }

    #[test]
    fn what_lies_before_the_start_is_left_out() {
        let mut buffer = StreamBuffer::new(SeqNum::new(100));
        buffer.write(SeqNum::new(97), b"abcdef");
        assert_eq!(read(&buffer, SeqNum::new(100), 10), b"def");
        buffer.write(SeqNum::new(50), b"old");
        assert_eq!(buffer.len(), 3);
        assert_eq!(read(&buffer, SeqNum::new(99), 1), b"");
    }

    #[test]
    fn a_ring_much_too_large_is_trimmed_while_in_use() {
        let mut buffer = StreamBuffer::new(SeqNum::new(7));
        buffer.write(SeqNum::new(7), &vec![1; 1 << 20]);
        buffer.advance_to(SeqNum::new(7 + (1 << 20) - 3));
        buffer.write(SeqNum::new(7 + (1 << 20)), b"abc");
        buffer.trim();
        assert_eq!(buffer.capacity(), 1 << 20, "all of it was in use a moment ago");
        buffer.write(SeqNum::new(7 + (1 << 20) + 3), &vec![2; 100_000]);
        buffer.trim();
        assert_eq!(buffer.capacity(), 1 << 18);
        assert_eq!(read(&buffer, SeqNum::new(7 + (1 << 20) - 3), 7), [1, 1, 1, b'a', b'b', b'c', 2]);
        assert_eq!(buffer.len(), 100_006);
        buffer.advance_to(SeqNum::new(7 + (1 << 20) + 100_000));
        buffer.trim();
        buffer.trim();
        assert_eq!((buffer.capacity(), buffer.len()), (TRIMMED_MIN, 3));
    }

    #[test]
    fn memory_is_given_back() {
        let mut buffer = StreamBuffer::new(SeqNum::new(0));
        assert_eq!(buffer.capacity(), 0);
        buffer.write(SeqNum::new(0), &[7; 10_000]);
        assert_eq!(buffer.capacity(), 16_384);
        buffer.release_if_empty();
        assert_eq!(buffer.capacity(), 16_384);
        buffer.advance_to(SeqNum::new(10_000));
        buffer.release_if_empty();
        assert_eq!(buffer.capacity(), 0);
        buffer.write(SeqNum::new(10_000), b"again");
        assert_eq!(read(&buffer, SeqNum::new(10_000), 5), b"again");
    }
}
