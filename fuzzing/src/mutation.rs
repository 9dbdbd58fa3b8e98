//! [`Mutations`]: inputs made of others by chance, the same with every run: for machines without a fuzzer.

use crate::Target;

/// Inputs that a fuzzer would not make longer, bytes.
const LEN_MAX: usize = 16 * 1024;
/// Numbers that are often the edge of something.
const EDGES: [u64; 12] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u64::MAX];
/// The same as people write them, and words of JSON.
const WORDS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "null",
    "\"\"",
    "[]",
    "{}",
    "true",
];

/// Inputs for one target.
#[derive(Debug)]
pub struct Mutations<'a> {
    seeds: &'a [Vec<u8>],
    state: u64,
}

impl<'a> Mutations<'a> {
    /// Inputs made of `seeds`, the same for the same target and `seed`.
    #[must_use]
    pub fn new(target: &Target, seeds: &'a [Vec<u8>], seed: u64) -> Self {
        let name =
            target.name.bytes().fold(seed, |sum, byte| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
        let mut mutations = Self { seeds, state: name | 1 };
        (0..8).for_each(|_| _ = mutations.next());
        mutations
    }

    /// Vigna's xorshift64*.
    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }

    fn chosen(&mut self) -> &'a [u8] {
        let at = self.below(self.seeds.len());
        self.seeds.get(at).map_or(&[], Vec::as_slice)
    }

    /// The next input: bytes without a meaning, or a seed that was changed in some places.
    pub fn input(&mut self) -> Vec<u8> {
        if self.next().is_multiple_of(16) {
            let len = self.below(600);
            return (0..len).map(|_| self.next() as u8).collect();
        }
        let mut bytes = self.chosen().to_vec();
        for _ in 0..=self.below(6) {
            self.change(&mut bytes);
        }
        bytes.truncate(LEN_MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        let len = 1 + self.below(8);
        let end = (at + len).min(bytes.len());
        match self.next() % 10 {
            0 | 1 => {
                let bit = self.next() % 8;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            2 => {
                let value = self.next() as u8;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            3 => self.write_edge(bytes, at),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let more: Vec<u8> = (0..len).map(|_| self.next() as u8).collect();
                drop(bytes.splice(at..at, more));
            }
            6 => {
                let part =
                    bytes.get(at..).map_or_else(Vec::new, |rest| rest[..rest.len().min(len * 16)].to_vec());
                let to = self.below(bytes.len());
                drop(bytes.splice(to..to, part));
            }
            7 => bytes.truncate(at),
            8 => {
                let other = self.chosen();
                let (from, count) = (self.below(other.len()), 1 + self.below(200));
                let part = other.get(from..).unwrap_or_default();
                drop(bytes.splice(at..end, part[..part.len().min(count)].to_vec()));
            }
            _ => self.write_word(bytes, at),
        }
    }

    /// An edge of 1 to 8 bytes, either way round.
    fn write_edge(&mut self, bytes: &mut [u8], at: usize) {
        let (edge, len) = (EDGES[self.below(EDGES.len())], 1 << self.below(4));
        let little = edge.to_le_bytes();
        let is_big = self.next().is_multiple_of(2);
        let value = (0..len).map(|i: usize| if is_big { little[len - 1 - i] } else { little[i] });
        bytes.iter_mut().skip(at).zip(value).for_each(|(to, from)| *to = from);
    }

    /// A word in place of the number, or the quoted text, that begins behind `at`.
    fn write_word(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let word = WORDS[self.below(WORDS.len())];
        let is_part = |byte: &u8| byte.is_ascii_digit();
        let Some(from) = bytes.iter().skip(at).position(is_part).map(|more| at + more) else { return };
        let len = bytes.iter().skip(from).take_while(|byte| is_part(byte)).count();
        drop(bytes.splice(from..from + len, word.bytes()));
    }
}
