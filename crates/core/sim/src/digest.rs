//! [`Digest`]: one number for all that a run sent, when, and what it counted.
//!
//! A change of shape leaves it as it is; a change of behaviour does not.

use engine::Stats;
use units::Instant;

/// A number over words, in their order (FNV-1a, by words of 64 bits).
///
/// Two runs have the same one when they made the same packets at the same nanoseconds and counted the same.
/// It finds changes that nobody intended; it withstands no forger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl core::fmt::Display for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Digest {
    /// Adds one word.
    #[must_use]
    pub const fn and(self, word: u64) -> Self {
        Self((self.0 ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23))
    }

    /// Adds another digest.
    #[must_use]
    pub const fn and_digest(self, other: Self) -> Self {
        self.and(other.0)
    }

    /// Adds the letters of a text and its length.
    #[must_use]
    pub fn and_text(self, text: &str) -> Self {
        text.bytes().fold(self.and(text.len() as u64), |digest, byte| digest.and(byte.into()))
    }

    /// Adds every counter, by name and by reason.
    #[must_use]
    pub fn and_counters(self, stats: &Stats) -> Self {
        let named = stats.named().into_iter();
        let digest = named.fold(self, |digest, (name, value)| digest.and_text(name).and(value));
        stats.passed.iter().fold(digest, |digest, &passed| digest.and(passed))
    }

    /// Adds the packets of a log, their times, and when the run ended.
    pub(crate) const fn and_packets(self, log_hash: u64, packets: u64, ended_at: Instant) -> Self {
        self.and(log_hash).and(packets).and(ended_at.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_and_its_place_count() {
        let of = |words: &[u64]| words.iter().fold(Digest::default(), |digest, &word| digest.and(word));
        assert_eq!(of(&[1, 2, 3]), of(&[1, 2, 3]));
        assert_ne!(of(&[1, 2, 3]), of(&[1, 3, 2]));
        assert_ne!(of(&[1, 2, 3]), of(&[1, 2]));
        assert_ne!(of(&[0]), of(&[]));
        assert_ne!(
            Digest::default().and_text("a").and_text("bc"),
            Digest::default().and_text("ab").and_text("c")
        );
    }

    #[test]
    fn a_counter_that_moves_is_seen() {
        let mut stats = Stats::default();
        let before = Digest::default().and_counters(&stats);
        stats.timeouts_undone += 1;
        let after = Digest::default().and_counters(&stats);
        assert_ne!(before, after);
        stats.passed[3] += 1;
        assert_ne!(Digest::default().and_counters(&stats), after);
    }
}
