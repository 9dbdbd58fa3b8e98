//! [`Window`]: a sliding view of a byte stream.

use std::io::{ErrorKind, Read};

use crate::error::CaptureError;

/// Bytes asked of the source at a time: large enough that the system call does not show, small
/// enough to leave the processor's caches to the flows.
const CHUNK: usize = 64 * 1024;

/// A sliding view of a byte stream: what has been read and not yet been consumed.
pub(crate) struct Window<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    consumed: u64,
    ended: bool,
}

impl<R: Read> Window<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; CHUNK], start: 0, end: 0, consumed: 0, ended: false }
    }

    /// Offset in the stream of the first byte of [`Window::bytes`].
    pub(crate) fn position(&self) -> u64 {
        self.consumed
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.consumed += count as u64;
    }

    /// Reads until `wanted` bytes are in view; gives the number in view, fewer only at the end of the stream.
    ///
    /// The buffer grows with the bytes that really come, not with what a header promises.
    #[inline]
    pub(crate) fn fill(&mut self, wanted: usize) -> Result<usize, CaptureError> {
        if self.end - self.start >= wanted {
            return Ok(self.end - self.start);
        }
        self.read_more(wanted)
    }

    #[cold]
    fn read_more(&mut self, wanted: usize) -> Result<usize, CaptureError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end < wanted && !self.ended {
            if self.end == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count.min(self.buffer.len() - self.end),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    return Err(CaptureError::Io { at: self.consumed + self.end as u64, error });
                }
            }
        }
        Ok(self.end)
    }
}
