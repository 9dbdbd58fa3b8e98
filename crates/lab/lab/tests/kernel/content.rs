//! [`Content`]: bytes that a number decides, and their hash.

use std::io::{self, Read, Write};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sha2::{Digest, Sha256};

/// Bytes handled at a time.
const CHUNK: usize = 65_536;

/// SHA-256 of a transfer, and its length in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Print {
    pub len: u64,
    pub sha256: Vec<u8>,
}

/// The bytes that belong to a seed.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    pub seed: u64,
    pub len: u64,
}

impl Content {
    /// Writes all of it; gives the hash of what was written.
    pub fn write_to(self, to: &mut impl Write) -> io::Result<Print> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut hash = Sha256::new();
        let mut chunk = vec![0; CHUNK];
        let mut left = self.len;
        while left > 0 {
            let now = left.min(CHUNK as u64) as usize;
            random.fill_bytes(&mut chunk[..now]);
            hash.update(&chunk[..now]);
            to.write_all(&chunk[..now])?;
            left -= now as u64;
        }
        Ok(Print { len: self.len, sha256: hash.finalize().to_vec() })
    }

    /// The hash it has when it is whole.
    pub fn print(self) -> Print {
        self.write_to(&mut io::sink()).unwrap()
    }
}

/// Hashes what is read.
#[derive(Default)]
pub struct Reading {
    hash: Sha256,
    len: u64,
}

impl Reading {
    pub fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.len += bytes.len() as u64;
    }

    pub fn print(self) -> Print {
        Print { len: self.len, sha256: self.hash.finalize().to_vec() }
    }
}

/// Reads to the end of the stream.
pub fn read_to_end(from: &mut impl Read) -> io::Result<Print> {
    let mut reading = Reading::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(reading.print()),
            len => reading.add(&chunk[..len]),
        }
    }
}

/// Reads exactly `len` bytes.
pub fn read_exactly(from: &mut impl Read, len: u64) -> io::Result<Print> {
    let print = read_to_end(&mut from.take(len))?;
    if print.len == len { Ok(print) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
