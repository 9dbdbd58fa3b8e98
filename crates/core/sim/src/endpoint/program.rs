//! [`Program`]: what the application of an endpoint has done so far, and what it does next.

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant};

use super::Progress;
use super::config::{Application, Closing, EndpointConfig, Reading, ReceiveWindow};
use super::connection::{AckDue, Connection};

/// Marks of progress are at least this far apart.
const MARK_SPACING: Duration = Duration::from_millis(5);

/// Where an application is.
#[derive(Debug)]
pub(super) struct Program {
    /// Bytes written so far.
    pub written: u64,
    /// Bytes read so far.
    pub read: u64,
    pub has_closed: bool,
    /// Turns begun, and when the next one may.
    turns_begun: usize,
    pub turn_at: Option<Instant>,
    pub read_at: Option<Instant>,
    /// Bytes of the turns begun, and of all.
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
            turns_begun: 0,
            turn_at: None,
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

    fn note_read(&mut self, now: Instant) {
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
}

impl Connection {
    pub(super) fn progress(&self) -> Progress<'_> {
        let Program { first_read, last_read, marks, .. } = &self.program;
        Progress { first: *first_read, last: *last_read, marks }
    }

    pub(super) fn response_times(&self) -> &[Duration] {
        &self.program.response_times
    }

    /// Lets the application read and write; the offset of the first wrong byte if there is one.
    pub(super) fn run_application(&mut self, config: &EndpointConfig, now: Instant) -> Option<u64> {
        if self.is_quiet() {
            self.last_progress = now;
        }
        let wrong = self.read_some(config, now);
        self.begin_turns(config, now);
        self.write_some(config);
        let is_done_writing =
            self.program.turns_begun == config.app.turns.len() && self.program.written == self.program.total;
        if is_done_writing && (config.app.closing == Closing::AfterWriting || self.has_read_all()) {
            self.program.has_closed = true;
        }
        self.sender.set_available(config.isn + 1 + self.program.written as u32, self.program.has_closed);
        self.sender.refresh_timers(now);
        wrong
    }

    fn read_some(&mut self, config: &EndpointConfig, now: Instant) -> Option<u64> {
        let len = match config.app.reading {
            Reading::AtOnce => self.unread(),
            Reading::Slowly { bytes, every } => {
                if self.unread() == 0 {
                    return None;
                }
                let due = *self.program.read_at.get_or_insert(now + every);
                if now < due {
                    return None;
                }
                let len = u64::from(self.unread()).min(bytes) as u32;
                self.program.read_at = (len < self.unread()).then_some(now + every);
                len
            }
        };
        if len == 0 {
            return None;
        }
        let start = self.inbox.start();
        let (a, b) = self.inbox.slices(start, len as usize);
        let wrong = config.expects.first_mismatch(self.program.read, a);
        let wrong = wrong.or_else(|| config.expects.first_mismatch(self.program.read + a.len() as u64, b));
        self.program.read += u64::from(len);
        self.program.note_read(now);
        self.inbox.advance_to(start + len);
        self.grow(config, now);
        if let Some(drwa) = &mut self.drwa {
            drwa.on_delivered(Bytes::new(self.program.read), now);
        }
        let growth = self.receiver.window_growth(self.free());
        // RFC 9293 §3.8.6.2.2, with Linux's two segments.
        if growth >= (2 * self.agreed.mss).min(self.window_max() / 2).max(1) && self.acks.due == AckDue::No {
            self.acks.due = AckDue::Now;
        }
        let unacknowledged = self.receiver.next().since(self.acks.last_sent);
        if self.reads_later
            && matches!(self.acks.due, AckDue::Later(_))
            && unacknowledged > self.agreed.payload_max
        {
            self.acks.due = AckDue::Now;
        }
        wrong
    }

    fn grow(&mut self, config: &EndpointConfig, now: Instant) {
        if let ReceiveWindow::Growing { max, .. } = config.window
            && let Some(wanted) = self.auto_tuning.on_read(self.program.read, now)
        {
            let wanted = wanted.min(max.get()).min(u64::from(u32::MAX)) as u32;
            self.capacity = self.capacity.max(wanted);
        }
    }

    fn begin_turns(&mut self, config: &EndpointConfig, now: Instant) {
        let program = &mut self.program;
        while let Some(turn) = config.app.turns.get(program.turns_begun) {
            if program.read < turn.after_reading {
                return;
            }
            let at = *program.turn_at.get_or_insert(now + turn.pause);
            if now < at {
                return;
            }
            program.turns_begun += 1;
            program.allowed += turn.send;
            program.turn_at = None;
            if let Some(len) = config.app.response_len {
                program.asked.push_back((now, program.turns_begun as u64 * len));
            }
        }
    }

    fn write_some(&mut self, config: &EndpointConfig) {
        let program = &mut self.program;
        let room = u64::from(config.send_buffer).saturating_sub(self.outbox.len() as u64);
        let mut left = program.allowed.saturating_sub(program.written).min(room);
        let mut piece = [0; 4096];
        while left > 0 {
            let part = &mut piece[..left.min(4096) as usize];
            config.writes.fill(program.written, part);
            if self.outbox.write(config.isn + 1 + program.written as u32, part).is_err() {
                return; // what has not been written yet stays to be written
            }
            program.written += part.len() as u64;
            left -= part.len() as u64;
        }
    }
}
