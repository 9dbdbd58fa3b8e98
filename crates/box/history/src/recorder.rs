//! [`Recorder`]: asks an accelerator once in a while, and listens to what it tells of ended flows meanwhile.

use std::path::{Path, PathBuf};

use io::{Clock, Waiter};
use run::{AbReport, Answer, FlowEvent, Question, Snapshot, Wishes};
use telemetry::{Gatherer, Next, Stream};
use units::{Duration, Instant};

use crate::{FlowFigures, HistoryError, Slice, ab};

/// Interval of the search for an accelerator that has gone.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Time that it has to report what an A/B phase has shown.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// Recorder of one accelerator, and those that take its place.
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
    /// The A/B phase that a slice had last.
    phase: Option<AbReport>,
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
            phase: None,
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
        let slice = Slice::between(&old, new, Clock::wall_nanos() / 1_000_000, span_ms, &ended);
        Some(Slice { ab: self.news_of_phase().map(Box::new), ..slice })
    }

    /// The A/B phase that is under way, or was the last one, unless a slice has its end.
    fn news_of_phase(&mut self) -> Option<AbReport> {
        let new = phase(&self.directory, &self.name)?;
        let is_told = |old: &AbReport| ab::is_same(old, &new) && !old.phase.is_running;
        if self.phase.as_ref().is_some_and(is_told) {
            return None;
        }
        self.phase = Some(new.clone());
        Some(new)
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

/// Report of the A/B phase of the accelerator `name` below a directory: the one under way, or the last one.
/// None if there was none in its process, or nobody answers.
#[must_use]
pub fn phase(directory: &Path, name: &str) -> Option<AbReport> {
    let found = run::find(directory).unwrap_or_default().into_iter().find(|found| found.name == name)?;
    match found.ask_within(&Question::Ab, PATIENCE) {
        Ok(Answer::Ab(report)) => Some(*report),
        _ => None,
    }
}
