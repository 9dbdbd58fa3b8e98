//! [`Program`]: what the application of an endpoint has done so far, and what it does next.

use std::collections::VecDeque;

use tcp::StreamBuffer;
use units::{Duration, Instant};

use super::ReadProgress;
use super::config::{Application, EndpointConfig};

/// Marks of progress are at least this far apart.
const MARK_SPACING: Duration = Duration::from_millis(5);

/// Progress of an application.
#[derive(Debug)]
pub(super) struct Program {
    /// Bytes written so far.
    pub written: u64,
    /// Bytes read so far.
    pub read: u64,
    pub has_closed: bool,
    /// Writes begun, and when the next one may.
    writes_begun: usize,
    pub write_at: Option<Instant>,
    pub read_at: Option<Instant>,
    /// Bytes of the writes begun, and of all.
    allowed: u64,
    total: u64,
    first_read: Option<Instant>,
    last_read: Option<Instant>,
    marks: Vec<(Instant, u64)>,
    /// Requests that wait for their responses: when each was written, and bytes read once its
    /// response is there.
    asked: VecDeque<(Instant, u64)>,
    response_times: Vec<Duration>,
}

impl Program {
    pub(super) fn new(app: &Application) -> Self {
        Self {
            written: 0,
            read: 0,
            has_closed: false,
            writes_begun: 0,
            write_at: None,
            read_at: None,
            allowed: 0,
            total: app.total(),
            first_read: None,
            last_read: None,
            marks: Vec::new(),
            asked: VecDeque::new(),
            response_times: Vec::new(),
        }
    }

    /// Notes that something was read.
    pub(super) fn note_read(&mut self, now: Instant) {
        self.first_read.get_or_insert(now);
        self.last_read = Some(now);
        match self.marks.last() {
            Some((at, _)) if now.saturating_since(*at) < MARK_SPACING => {}
            _ => self.marks.push((now, self.read)),
        }
        while let Some(&(asked, _)) = self.asked.front().filter(|(_, end)| self.read >= *end) {
            self.asked.pop_front();
            self.response_times.push(now.saturating_since(asked));
        }
    }

    pub(super) fn progress(&self) -> ReadProgress<'_> {
        let Self { first_read, last_read, marks, .. } = self;
        ReadProgress { first: *first_read, last: *last_read, marks }
    }

    pub(super) fn response_times(&self) -> &[Duration] {
        &self.response_times
    }

    /// Begins the writes that are due.
    pub(super) fn begin_writes(&mut self, config: &EndpointConfig, now: Instant) {
        while let Some(write) = config.app.writes.get(self.writes_begun) {
            if self.read < write.after_reading {
                return;
            }
            let at = *self.write_at.get_or_insert(now + write.pause);
            if now < at {
                return;
            }
            self.writes_begun += 1;
            self.allowed += write.send;
            self.write_at = None;
            if let Some(len) = config.app.response_len {
                self.asked.push_back((now, self.writes_begun as u64 * len));
            }
        }
    }

    /// Writes what the writes so far allow, as much as `outbox` has room for.
    pub(super) fn write_some(&mut self, config: &EndpointConfig, outbox: &mut StreamBuffer) {
        let room = u64::from(config.send_buffer).saturating_sub(outbox.len() as u64);
        let mut left = self.allowed.saturating_sub(self.written).min(room);
        let mut piece = [0; 4096];
        while left > 0 {
            let part = &mut piece[..left.min(4096) as usize];
            config.writes.fill(self.written, part);
            if outbox.write(config.isn + 1 + self.written as u32, part).is_err() {
                return; // what has not been written yet stays to be written
            }
            self.written += part.len() as u64;
            left -= part.len() as u64;
        }
    }

    /// All that is to be written has been.
    pub(super) fn is_done_writing(&self, app: &Application) -> bool {
        self.writes_begun == app.writes.len() && self.written == self.total
    }
}
