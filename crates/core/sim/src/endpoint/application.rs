//! Actions of the application on a connection: it reads, and writes.

use units::{Bytes, Instant};

use super::config::{Closing, EndpointConfig, Reading, ReceiveWindow};
use super::connection::{AckDue, Connection};

impl Connection {
    /// Lets the application read and write; the offset of the first wrong byte if there is one.
    pub(super) fn run_application(&mut self, config: &EndpointConfig, now: Instant) -> Option<u64> {
        if self.is_quiet() {
            self.last_progress = now;
        }
        let wrong = self.read_some(config, now);
        self.program.begin_writes(config, now);
        self.program.write_some(config, &mut self.outbox);
        let is_done_writing = self.program.is_done_writing(&config.app);
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
}
