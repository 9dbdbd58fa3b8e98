//! [`Merged`]: several captures in the order of time.

use std::collections::VecDeque;
use std::io::Read;

use units::Instant;

use crate::compression::Stream;
use crate::error::CaptureError;
use crate::order::Ordered;
use crate::reader::{Health, Reader, Record};

/// Something that can be opened, perhaps later.
pub trait CaptureSource {
    /// Name for messages.
    fn name(&self) -> String;
    /// Opens it from the start.
    ///
    /// # Errors
    /// It cannot be opened or read.
    fn open(&self) -> std::io::Result<Stream>;
    /// False for what gives its bytes only once, like standard input.
    fn can_reopen(&self) -> bool {
        true
    }
}

/// A file that gave less than all.
#[derive(Debug)]
pub struct Problem {
    /// Name of the source.
    pub name: String,
    /// Error, with its position.
    pub error: CaptureError,
}

struct Active {
    index: usize,
    reader: Ordered<Stream>,
}

/// Reads several captures in the order of time.
///
/// Rotated files follow each other, files that overlap in time are interleaved, and only files that
/// overlap are open at the same time. Equal times keep the order of the sources. The frames of one
/// file are put in the order of time where it has them a little out of it; see [`Ordered`].
pub struct Merged<S> {
    sources: Vec<S>,
    /// Not yet open, by the time of their first packet.
    waiting: VecDeque<(Instant, usize)>,
    active: Vec<Active>,
    /// Index in `active` of the source that holds the current packet.
    current: Option<usize>,
    healths: Vec<Health>,
    /// Frames of each source that were put in order.
    sorted: Vec<u64>,
    problems: Vec<Problem>,
    /// Capture point of each source.
    points: Vec<u16>,
    points_used: u16,
}

impl<S: CaptureSource> Merged<S> {
    /// Looks at the first packet of each source to learn their order.
    ///
    /// What cannot be read at all becomes a [`Problem`].
    pub fn new(sources: Vec<S>) -> Self {
        let healths = vec![Health::default(); sources.len()];
        let mut merged = Self {
            waiting: VecDeque::new(),
            active: Vec::new(),
            current: None,
            healths,
            sorted: vec![0; sources.len()],
            problems: Vec::new(),
            points: vec![0; sources.len()],
            points_used: 0,
            sources,
        };
        let only = merged.sources.len() == 1;
        let mut waiting = Vec::new();
        for index in 0..merged.sources.len() {
            let Some(active) = merged.start(index) else { continue };
            let time = active.reader.current().map_or(Instant::ZERO, |record| record.time);
            if only || !merged.sources[index].can_reopen() {
                merged.place(&active);
                merged.active.push(active);
            } else {
                waiting.push((time, index));
            }
        }
        waiting.sort_unstable();
        merged.waiting = waiting.into();
        merged
    }

    /// Counts of each source, in the order given.
    #[must_use]
    pub fn healths(&self) -> &[Health] {
        &self.healths
    }

    /// Frames of each source that lie in it behind later ones and were put in order, in the order given.
    #[must_use]
    pub fn sorted(&self) -> &[u64] {
        &self.sorted
    }

    /// Sources that gave less than all so far.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The capture point of a source: files that follow each other in time come from one, as
    /// rotated files do; a file that starts within another comes from another place, and may hold
    /// the same packets.
    #[inline]
    #[must_use]
    pub fn point(&self, source: usize) -> u16 {
        self.points.get(source).copied().unwrap_or(0)
    }

    /// The packet that [`Merged::advance`] moved to, with the index of its source.
    #[inline]
    #[must_use]
    pub fn current(&self) -> Option<(usize, Record<'_>)> {
        let active = self.active.get(self.current?)?;
        Some((active.index, active.reader.current()?))
    }

    /// Moves to the next packet; false at the end of all sources.
    #[inline]
    pub fn advance(&mut self) -> bool {
        if let Some(at) = self.current.take() {
            self.step(at);
        }
        if self.active.len() == 1 && self.waiting.is_empty() {
            self.current = Some(0);
            return true;
        }
        self.choose()
    }

    /// Moves one reader on; removes it at its end.
    #[inline]
    fn step(&mut self, at: usize) {
        let Some(active) = self.active.get_mut(at) else { return };
        match active.reader.advance() {
            Ok(true) => {}
            ended => {
                let index = active.index;
                self.healths[index] = *active.reader.health();
                self.sorted[index] = active.reader.sorted();
                if let Err(error) = ended {
                    self.problems.push(Problem { name: self.sources[index].name(), error });
                }
                self.active.remove(at);
            }
        }
    }

    fn choose(&mut self) -> bool {
        loop {
            let earliest = self
                .active
                .iter()
                .enumerate()
                .filter_map(|(at, active)| Some((active.reader.current()?.time, active.index, at)))
                .min();
            match (self.waiting.front().copied(), earliest) {
                (Some((time, index)), earliest) if earliest.is_none_or(|(t, ..)| time < t) => {
                    self.waiting.pop_front();
                    if let Some(active) = self.start(index) {
                        self.place(&active);
                        self.active.push(active);
                    }
                }
                (_, Some((_, _, at))) => {
                    self.current = Some(at);
                    return true;
                }
                (_, None) => return false,
            }
        }
    }

    /// Gives a source that starts now its capture point: the lowest that no open file has.
    fn place(&mut self, active: &Active) {
        let is_taken = |point: &u16| self.active.iter().any(|other| self.points[other.index] == *point);
        let point = (0..self.points_used).find(|point| !is_taken(point)).unwrap_or(self.points_used);
        self.points_used = self.points_used.max(point.saturating_add(1));
        self.points[active.index] = point;
    }

    /// Opens a source and moves to its first packet; none, with a problem noted, if there is none.
    fn start(&mut self, index: usize) -> Option<Active> {
        let source = &self.sources[index];
        let opened = source.open().map_err(|error| CaptureError::Io { at: 0, error });
        let first = |reader| {
            let mut reader = Ordered::new(reader);
            Ok((reader.advance()?, reader))
        };
        match opened.and_then(Reader::new).and_then(first) {
            Ok((true, reader)) => Some(Active { index, reader }),
            Ok((false, reader)) => {
                self.healths[index] = *reader.health();
                None
            }
            Err(error) => {
                let name = source.name();
                if !self.problems.iter().any(|problem| problem.name == name) {
                    self.problems.push(Problem { name, error });
                }
                None
            }
        }
    }
}

impl<R: Read + Send + 'static> CaptureSource for std::sync::Mutex<Option<R>> {
    fn name(&self) -> String {
        "-".to_owned()
    }
    fn open(&self) -> std::io::Result<Stream> {
        let taken = self.lock().ok().and_then(|mut held| held.take());
        taken.map_or_else(|| Err(std::io::Error::other("already read")), crate::decompressed)
    }
    fn can_reopen(&self) -> bool {
        false
    }
}
