//! [`Ordered`]: frames of the interfaces of one file in the order of time.
//!
//! A writer with several interfaces empties one buffer after the other, so that frames of different
//! interfaces lie in the file a little out of order. Within an interface the file's order stays,
//! also when its clock steps back: what lies there is what happened. Files of one interface pass
//! through untouched.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io::Read;

use units::{Duration, Instant};

use crate::error::CaptureError;
use crate::link::LinkType;
use crate::reader::{Health, Reader, Record};

/// Frames further apart in time than this are in order: writers empty their buffers at least once a second.
const APART: Duration = Duration::from_secs(1);
/// Frames held at most.
const FRAMES_MAX: usize = 8_192;
/// Bytes of frames held at most.
const BYTES_MAX: usize = 8 << 20;

/// A frame of its own.
struct Held {
    /// The latest time of its interface so far, by which frames are put in order.
    key: Instant,
    /// In the order of the file.
    number: u64,
    time: Instant,
    interface: u32,
    link: LinkType,
    wire_len: u32,
    bytes: Vec<u8>,
}

impl Held {
    fn place(&self) -> (Instant, u64) {
        (self.key, self.number)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}
impl Eq for Held {}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

/// As [`Reader`], with the frames of several interfaces in the order of time.
pub struct Ordered<R> {
    reader: Reader<R>,
    /// None while there is one interface.
    merging: Option<Box<Merging>>,
}

#[derive(Default)]
struct Merging {
    held: BinaryHeap<Reverse<Held>>,
    bytes: usize,
    current: Option<Held>,
    /// Latest time of each interface.
    latest: Vec<Instant>,
    /// Latest time of all.
    newest: Instant,
    frames: u64,
    /// How the file ended, to be told behind what is held.
    ended: Option<Result<bool, CaptureError>>,
    /// Memory of frames that have been given.
    free_buffers: Vec<Vec<u8>>,
}

impl<R: Read> Ordered<R> {
    /// Takes a reader that has given nothing yet.
    #[must_use]
    pub fn new(reader: Reader<R>) -> Self {
        Self { reader, merging: None }
    }

    /// As [`Reader::health`].
    #[must_use]
    pub fn health(&self) -> &Health {
        self.reader.health()
    }

    /// As [`Reader::current`].
    #[inline]
    #[must_use]
    pub fn current(&self) -> Option<Record<'_>> {
        match &self.merging {
            None => self.reader.current(),
            Some(merging) => merging.current.as_ref().map(|held| Record {
                time: held.time,
                interface: held.interface,
                link: held.link,
                wire_len: held.wire_len,
                bytes: &held.bytes,
            }),
        }
    }

    /// As [`Reader::advance`].
    ///
    /// # Errors
    /// The file is cut or broken behind what has been given.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        if let Some(merging) = &mut self.merging {
            return merging.advance(&mut self.reader);
        }
        let has_more = self.reader.advance()?;
        if has_more && self.reader.health().interfaces > 1 {
            let mut merging = Box::<Merging>::default();
            merging.hold(&self.reader);
            return self.merging.insert(merging).advance(&mut self.reader);
        }
        Ok(has_more)
    }
}

impl Merging {
    fn advance<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<bool, CaptureError> {
        if let Some(given) = self.current.take() {
            self.free_buffers.push(given.bytes);
        }
        while self.ended.is_none() && !self.has_enough() {
            match reader.advance() {
                Ok(true) => self.hold(reader),
                ended => self.ended = Some(ended),
            }
        }
        match self.held.pop() {
            Some(Reverse(earliest)) => {
                self.bytes -= earliest.bytes.len();
                self.current = Some(earliest);
                Ok(true)
            }
            None => self.ended.take().unwrap_or(Ok(false)),
        }
    }

    /// True when the earliest frame held can be followed only by later ones.
    fn has_enough(&self) -> bool {
        self.held.len() >= FRAMES_MAX
            || self.bytes >= BYTES_MAX
            || self.held.peek().is_some_and(|Reverse(held)| self.newest.saturating_since(held.key) > APART)
    }

    fn hold<R: Read>(&mut self, reader: &Reader<R>) {
        let Some(record) = reader.current() else { return };
        let interface = record.interface as usize;
        if interface >= self.latest.len() {
            self.latest.resize(interface + 1, Instant::ZERO);
        }
        let latest = &mut self.latest[interface];
        // Whose time is far back lies there for another reason: a clock was set, or files were joined.
        let is_far_back = self.newest.saturating_since(record.time) > APART;
        *latest = if is_far_back { self.newest } else { record.time.max(*latest) };
        self.newest = self.newest.max(*latest);
        let mut bytes = self.free_buffers.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(record.bytes);
        self.bytes += bytes.len();
        self.held.push(Reverse(Held {
            key: *latest,
            number: self.frames,
            time: record.time,
            interface: record.interface,
            link: record.link,
            wire_len: record.wire_len,
            bytes,
        }));
        self.frames += 1;
    }
}
