//! [`Ordered`]: frames of one file in the order of time.
//!
//! A writer with several interfaces empties one buffer after the other, so that frames of different
//! interfaces lie in the file a little out of order. So do those of one interface, if it has several
//! queues, or if files were joined. Within an interface less than 100 ms is disorder and more is a clock
//! that was set: programs that keep clocks set them by more than that at once, and let them run slower
//! otherwise (ntpd's step threshold is 128 ms). Then the file's order stays: what lies there is what
//! happened.
//!
//! Whether a file of one interface is in order shows at its beginning, and frames that are in order pass
//! through untouched from there on. If it turns out later that they are not, the first that is late stays
//! where it is, and those behind it are put in order.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io::Read;

use units::{Duration, Instant};

use crate::error::CaptureError;
use crate::link::LinkType;
use crate::reader::{Health, Reader, Record};

/// Frames further apart in time than this are in order: writers empty their buffers at least once a second.
const APART: Duration = Duration::from_secs(1);
/// Frames of one interface so far back or more are not out of order: its clock was set.
const DISORDER: Duration = Duration::from_millis(100);
/// Number of frames of one interface in order after which those that follow are not held.
const IN_ORDER: u32 = 4_096;
/// Frames held at most.
const FRAMES_MAX: usize = 8_192;
/// Bytes of frames held at most.
const BYTES_MAX: usize = 8 << 20;

/// A frame of its own.
struct Held {
    /// Its time, or the latest of its interface so far, by which frames are put in order.
    key: Instant,
    /// It lies in the file behind a later one.
    was_behind: bool,
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

/// As [`Reader`], with the frames in the order of time.
pub struct Ordered<R> {
    reader: Reader<R>,
    /// None while there is one interface, and its frames are in order.
    merging: Option<Box<Merging>>,
    /// Time of the last frame that was given without being held.
    last: Instant,
    /// Frames that were put in order, before `merging` began.
    sorted: u64,
}

#[derive(Default)]
struct Merging {
    held: BinaryHeap<Reverse<Held>>,
    bytes: usize,
    current: Option<Held>,
    /// Latest time of each interface, and whether its last frame had a time of before, as after its clock was
    /// set.
    latest: Vec<(Instant, bool)>,
    /// Latest time of all.
    newest: Instant,
    frames: u64,
    /// Of them, since the last that was late.
    in_order: u32,
    /// Frames that lie in the file behind later ones, and were given before them.
    sorted: u64,
    /// The order of the last frame given.
    given: Instant,
    /// Outcome of the file, to be told behind what is held.
    ended: Option<Result<bool, CaptureError>>,
    /// Memory of frames that have been given.
    free_buffers: Vec<Vec<u8>>,
}

impl<R: Read> Ordered<R> {
    /// Takes a reader that has given nothing yet.
    #[must_use]
    pub fn new(reader: Reader<R>) -> Self {
        Self { reader, merging: Some(Box::default()), last: Instant::ZERO, sorted: 0 }
    }

    /// Frames so far that lie in the file behind later ones and were put in order.
    #[must_use]
    pub fn sorted(&self) -> u64 {
        self.sorted + self.merging.as_ref().map_or(0, |merging| merging.sorted)
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
            if let Some(moved) = merging.advance(&mut self.reader) {
                return moved;
            }
            // All that was held is given, and was in order.
            (self.last, self.sorted) = (merging.newest, self.sorted + merging.sorted);
            self.merging = None;
        }
        if !self.reader.advance()? {
            return Ok(false);
        }
        let time = self.reader.current().map_or(self.last, |record| record.time);
        let is_late = time < self.last && self.last.saturating_since(time) < DISORDER;
        if is_late || self.reader.health().interfaces > 1 {
            return self.begin();
        }
        self.last = time;
        Ok(true)
    }

    /// Puts frames in order from the current one on.
    #[cold]
    fn begin(&mut self) -> Result<bool, CaptureError> {
        let mut merging = Box::new(Merging { newest: self.last, given: self.last, ..Merging::default() });
        merging.latest.push((self.last, false));
        merging.hold(&self.reader);
        self.merging.insert(merging).advance(&mut self.reader).unwrap_or(Ok(false))
    }
}

impl Merging {
    /// Moves to the next frame; none when there is nothing to put in order any more.
    fn advance<R: Read>(&mut self, reader: &mut Reader<R>) -> Option<Result<bool, CaptureError>> {
        if let Some(given) = self.current.take() {
            self.free_buffers.push(given.bytes);
        }
        while self.ended.is_none() && !self.has_enough(reader.health().interfaces) {
            match reader.advance() {
                Ok(true) => self.hold(reader),
                ended => self.ended = Some(ended),
            }
        }
        match self.held.pop() {
            Some(Reverse(earliest)) => {
                self.bytes -= earliest.bytes.len();
                let is_moved = earliest.was_behind && earliest.key >= self.given;
                self.sorted += u64::from(is_moved);
                self.given = self.given.max(earliest.key);
                self.current = Some(earliest);
                Some(Ok(true))
            }
            None if self.ended.is_none() => None,
            None => Some(self.ended.take().unwrap_or(Ok(false))),
        }
    }

    /// True when the earliest frame held can be followed only by later ones.
    fn has_enough(&self, interfaces: u32) -> bool {
        let apart = if interfaces > 1 { APART } else { DISORDER };
        let is_in_order = interfaces <= 1 && self.in_order >= IN_ORDER;
        is_in_order
            || self.held.len() >= FRAMES_MAX
            || self.bytes >= BYTES_MAX
            || self.held.peek().is_some_and(|Reverse(held)| self.newest.saturating_since(held.key) > apart)
    }

    fn hold<R: Read>(&mut self, reader: &Reader<R>) {
        let Some(record) = reader.current() else { return };
        let interface = record.interface as usize;
        if interface >= self.latest.len() {
            self.latest.resize(interface + 1, (Instant::ZERO, false));
        }
        let (latest, was_set_back) = &mut self.latest[interface];
        // Whose time is far back lies there for another reason: a clock was set, or files were joined.
        let is_far_back = self.newest.saturating_since(record.time) > APART;
        let is_late = !*was_set_back && latest.saturating_since(record.time) < DISORDER;
        let key = match (is_far_back, is_late) {
            (true, _) => self.newest,
            (false, true) => record.time,
            (false, false) => record.time.max(*latest),
        };
        *latest = key.max(*latest);
        *was_set_back = key != record.time;
        let was_behind = key < self.newest;
        self.in_order = if was_behind { 0 } else { self.in_order.saturating_add(1) };
        self.newest = self.newest.max(key);
        let mut bytes = self.free_buffers.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(record.bytes);
        self.bytes += bytes.len();
        self.held.push(Reverse(Held {
            key,
            was_behind,
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
