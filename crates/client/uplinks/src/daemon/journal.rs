//! [`Journal`]: what a daemon tells of what happens, and the recording of what it sees.

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;

use io::Clock;
use units::Instant;

use crate::UplinkError;
use crate::error::Context;
use crate::status::EventLine;

/// Number of the newest events that are kept for questions.
const EVENTS_KEPT: usize = 40;

/// Events, and what is missing or in the way on this machine.
pub(super) struct Journal<'a> {
    pub started: Instant,
    pub lacks: Vec<String>,
    pub conflicts: Vec<String>,
    pub events: VecDeque<EventLine>,
    tell: &'a mut dyn FnMut(&EventLine),
    pub recording: Option<std::io::BufWriter<std::fs::File>>,
}

impl<'a> Journal<'a> {
    /// Begins now, with a recording in a file where there is to be one.
    pub fn open(record: Option<&Path>, tell: &'a mut dyn FnMut(&EventLine)) -> Result<Self, UplinkError> {
        let recording = record.map(|path| {
            let file = std::fs::File::create(path).doing(|| format!("write {}", path.display()));
            file.map(std::io::BufWriter::new)
        });
        Ok(Self {
            started: Clock::now(),
            lacks: Vec::new(),
            conflicts: Vec::new(),
            events: VecDeque::new(),
            tell,
            recording: recording.transpose()?,
        })
    }

    /// Tells of a path, or with an empty name of the host.
    pub fn say(&mut self, path: &str, what: String) {
        let at_ms = Clock::now().saturating_since(self.started).as_millis();
        let line = EventLine { at_ms, path: path.to_owned(), what };
        (self.tell)(&line);
        if self.events.len() >= EVENTS_KEPT {
            self.events.pop_front();
        }
        self.events.push_back(line);
    }

    /// Adds a line to the recording.
    pub fn write_down(&mut self, line: &str) {
        if let Some(file) = &mut self.recording
            && writeln!(file, "{line}").is_err()
        {
            self.recording = None;
            self.say("", "the recording ends: its disk is full".to_owned());
        }
    }

    /// Ends the recording.
    pub fn finish(&mut self) {
        if let Some(file) = &mut self.recording {
            // What could not be written was told.
            let _ = file.flush();
        }
    }
}
