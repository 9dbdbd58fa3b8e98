//! [`Pattern`]: a payload that any part of can be computed and checked alone.

use units::{GOLDEN_GAMMA, mix64};

/// A stream of bytes in which each byte follows from its offset and a seed.
///
/// No two offsets within reach look alike, so a byte put at the wrong place is found at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    seed: u64,
}

impl Pattern {
    /// The stream that belongs to `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Eight bytes of the stream (the finaliser of SplitMix64).
    const fn word(self, index: u64) -> [u8; 8] {
        mix64(self.seed.wrapping_add(index.wrapping_mul(GOLDEN_GAMMA))).to_le_bytes()
    }

    /// Writes the bytes from `offset` on into `out`.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        if offset.is_multiple_of(8) {
            let (words, rest) = out.as_chunks_mut::<8>();
            for (index, word) in words.iter_mut().enumerate() {
                *word = self.word(offset / 8 + index as u64);
            }
            let last = self.word(offset / 8 + words.len() as u64);
            rest.copy_from_slice(&last[..rest.len()]);
            return;
        }
        self.by_words(offset, out.len(), |at, word| {
            out[at..at + word.len()].copy_from_slice(word);
            true
        });
    }

    /// The offset of the first byte of `bytes` that is not the stream's, when `bytes` should begin
    /// at `offset`.
    #[must_use]
    pub fn first_mismatch(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        // Word by word from the first whole one on; the slow way says where.
        let head = ((8 - offset % 8) % 8).min(bytes.len() as u64) as usize;
        let (words, _) = bytes[head..].as_chunks::<8>();
        let first = (offset + head as u64) / 8;
        let are_right = words.iter().enumerate().all(|(index, word)| {
            u64::from_ne_bytes(*word) == u64::from_ne_bytes(self.word(first + index as u64))
        });
        if are_right {
            let tail = head + words.len() * 8;
            let ends = [(0, &bytes[..head]), (tail, &bytes[tail..])];
            return ends.into_iter().find_map(|(at, part)| self.first_wrong(offset + at as u64, part));
        }
        self.first_wrong(offset, bytes)
    }

    fn first_wrong(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut wrong = None;
        self.by_words(offset, bytes.len(), |at, word| {
            let here = &bytes[at..at + word.len()];
            if here != word {
                wrong = here.iter().zip(word).position(|(a, b)| a != b).map(|i| offset + (at + i) as u64);
            }
            wrong.is_none()
        });
        wrong
    }

    /// Hands out `len` bytes from `offset` in pieces, each with its place, until told to stop.
    fn by_words(self, offset: u64, len: usize, mut each: impl FnMut(usize, &[u8]) -> bool) {
        let mut at = 0;
        while at < len {
            let position = offset + at as u64;
            let skip = (position % 8) as usize;
            let word = self.word(position / 8);
            let end = 8.min(skip + len - at);
            if !each(at, &word[skip..end]) {
                return;
            }
            at += end - skip;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any part equals the same part of the whole; any changed byte is found at its offset.
        #[test]
        fn parts_agree_and_changes_are_found(seed: u64, from in 0usize..200, len in 1usize..100, flip in 0usize..100) {
            let pattern = Pattern::new(seed);
            let mut whole = [0; 300];
            pattern.fill(0, &mut whole);
            let mut part = vec![0; len];
            pattern.fill(from as u64, &mut part);
            prop_assert_eq!(&part[..], &whole[from..from + len]);
            prop_assert_eq!(pattern.first_mismatch(from as u64, &part), None);
            let flip = flip % len;
            part[flip] ^= 0x10;
            prop_assert_eq!(pattern.first_mismatch(from as u64, &part), Some((from + flip) as u64));
        }
    }
}
