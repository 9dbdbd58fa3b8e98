//! [`Recorder`]: asks an accelerator once in a while, and listens to what it tells of ended flows meanwhile.

use std::path::{Path, PathBuf};

use io::{Clock, Waiter};
use run::{FlowEvent, Snapshot, Wishes};
use telemetry::{Gatherer, Next, Stream};
use units::{Duration, Instant};

use crate::{FlowFigures, HistoryError, Slice};

/// So often it is looked for an accelerator that has gone.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What records one accelerator, and those that take its place.
#[derive(Debug)]
pub struct Recorder {
    directory: PathBuf,
    name: String,
    gatherer: Gatherer,
    stream: Option<Stream>,
    every: Duration,
    /// The last look: when, and what was seen.
    last: Option<(Instant, Snapshot)>,
    ended: Vec<FlowFigures>,
    next_at: Instant,
}

impl Recorder {
    /// One of the accelerator called `name` below a directory, which gives a slice in each `every`.
    #[must_use]
    pub fn new(directory: &Path, name: &str, every: Duration) -> Self {
        Self {
            directory: directory.to_owned(),
            name: name.to_owned(),
            gatherer: Gatherer::new(directory, vec![name.to_owned()]),
            stream: None,
            every,
            last: None,
            ended: Vec::new(),
            next_at: Clock::now(),
        }
    }

    /// Listens for a moment; a slice when one is complete. While the accelerator is not there, there is none.
    ///
    /// # Errors
    /// The connection fails otherwise than by its end.
    pub fn turn(&mut self) -> Result<Option<Slice>, HistoryError> {
        if Clock::now() >= self.next_at {
            self.next_at = Clock::now() + self.every;
            return Ok(self.look());
        }
        let Some(stream) = &mut self.stream else {
            self.find();
            return Ok(None);
        };
        match stream.next_line()? {
            Next::Line(line) => {
                if let Ok(FlowEvent::FlowEnded(record)) = serde_json::from_str(&line) {
                    self.ended.extend(FlowFigures::of(&record));
                }
            }
            Next::Nothing => {}
            Next::End => self.stream = None,
        }
        Ok(None)
    }

    /// The slice up to this moment, before the recorder ends.
    pub fn look(&mut self) -> Option<Slice> {
        let snapshot = self.gatherer.ask().into_iter().find_map(|answer| answer.snapshot)?;
        let now = Clock::now();
        let ended = std::mem::take(&mut self.ended);
        let (since, old) = self.last.replace((now, snapshot))?;
        let (_, new) = self.last.as_ref()?;
        let span_ms = now.saturating_since(since).as_millis();
        Some(Slice::between(&old, new, Clock::wall_nanos() / 1_000_000, span_ms, &ended))
    }

    /// Listens to the accelerator if it is there, and else waits a moment.
    fn find(&mut self) {
        let found = run::find(&self.directory).unwrap_or_default();
        let wishes = Wishes { ended: true, ..Wishes::default() };
        let is_it = |found: &run::Found| found.name == self.name;
        let found = found.into_iter().find(is_it);
        self.stream = found.and_then(|found| Stream::open(&self.directory, &found, wishes).ok());
        if self.stream.is_none()
            && let Ok(mut waiter) = Waiter::new(Duration::ZERO)
        {
            // An error is as the end of the wait.
            drop(waiter.wait(Some(Clock::now() + LOOK_EVERY)));
        }
    }
}
