//! Choice of what leaves next: a probe, a repair, or new data.

use super::{Probe, Sender};
use crate::interface::{SendContext, Transmission};
use crate::recovery::Permit;
use crate::scoreboard::Entry;

impl Sender {
    /// True when there is something to send that neither the peer's window nor a recovery forbids.
    #[must_use]
    #[inline]
    pub fn wants_to_send(&self) -> bool {
        self.probe_due.is_some() || self.may_retransmit() || self.new_len(u32::MAX).is_some()
    }

    /// True when there is something to send that must not wait for room: a probe, or the oldest segment
    /// again.
    #[must_use]
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.probe_due.is_some() || (self.board.is_head_lost() && self.may_retransmit())
    }

    /// The next transmission to make, noted as made; `None` when there is none within the limits.
    pub fn poll(&mut self, mut context: SendContext<'_>) -> Option<Transmission> {
        match self.probe_due.take() {
            // An old number without data: the peer must answer with its window.
            Some(Probe::Window) => {
                let seq = self.board.una() - 1;
                return Some(Transmission {
                    seq,
                    len: 0,
                    fin: false,
                    is_retransmission: false,
                    is_probe: true,
                });
            }
            Some(Probe::TailLoss) => return self.send_tail_probe(&mut context),
            None => {}
        }
        if self.may_retransmit()
            && let Some(index) = self.board.first_lost()
        {
            return self.resend(index, &mut context);
        }
        let len = self.new_len(context.quantum)?;
        if len <= context.window_room {
            return Some(self.send_new(len, &mut context));
        }
        // With nothing under way one segment goes, or nothing would ever make room.
        let mss = self.board.mss();
        let segments = (context.window_room / mss).max(u32::from(context.is_path_idle));
        let len = len.min(segments.saturating_mul(mss));
        (len > 0).then(|| self.send_new(len, &mut context))
    }

    fn may_retransmit(&self) -> bool {
        if self.board.lost_bytes() == 0 {
            return false;
        }
        match self.recovery.permit() {
            Permit::OldestLost => true,
            Permit::None => false,
            // What a shut window discards a time-out may probe, no more.
            Permit::All => !self.window.discards_all(self.board.nxt()) && self.has_room_to_repair(),
        }
    }

    /// The window has room for what was lost, where the window is honoured.
    fn has_room_to_repair(&self) -> bool {
        let allowance = self.opportunism.allowance(self.window);
        if allowance == u32::MAX || !self.window.is_exceeded(self.board.nxt()) {
            return true;
        }
        let first = self.board.first_lost().and_then(|index| self.board.entry(index));
        first.is_some_and(|entry| entry.seq.is_before(self.window.right_edge() + allowance))
    }

    /// Bytes of new data the peer's window has room for, with the allowance beyond it.
    fn peer_room(&self) -> u32 {
        let within = i64::from(self.window.room(self.board.nxt()));
        let allowance = i64::from(self.opportunism.allowance(self.window));
        u32::try_from((within + allowance).max(0)).unwrap_or(u32::MAX)
    }

    /// Length of the next first transmission within `quantum`, or `None` when there is none to make.
    ///
    /// A segment shorter than the MSS is sent only when it ends what is available, or when the peer's
    /// window will not grow without an acknowledgement (RFC 9293 §3.8.6.2.1).
    pub(super) fn new_len(&self, quantum: u32) -> Option<u32> {
        if self.recovery.permit() != Permit::All {
            return None;
        }
        let unsent = self.unsent();
        if unsent == 0 {
            return self.queue.has_unsent_fin().then_some(0);
        }
        let mss = self.board.mss();
        let whole = quantum.max(mss) / mss * mss;
        let len = unsent.min(self.peer_room()).min(whole);
        if len == unsent || len == whole {
            return Some(len);
        }
        let full = len / mss * mss;
        if full == 0 && self.board.is_empty() && len > 0 {
            return Some(len);
        }
        (full > 0).then_some(full)
    }

    fn send_new(&mut self, len: u32, context: &mut SendContext<'_>) -> Transmission {
        let seq = self.board.nxt();
        let fin = self.queue.take_fin(seq + len);
        self.board.push(len + u32::from(fin), context.stamp());
        self.persist.on_send();
        self.recovery.on_send(&self.board, context.now);
        Transmission { seq, len, fin, is_retransmission: false, is_probe: false }
    }

    /// Sends an entry again, within the limits; the oldest one always, after a time-out one segment of it.
    fn resend(&mut self, index: usize, context: &mut SendContext<'_>) -> Option<Transmission> {
        let most = self.most_again(index == 0, context)?;
        let entry = *self.board.entry(index)?;
        let payload = entry.len() - u32::from(self.queue.is_fin(&entry));
        if payload > most {
            self.board.split_at(entry.seq + most);
        }
        let made = self.note_resent(index, context)?;
        self.persist.on_send();
        self.recovery.on_resend(&self.board, context.now);
        Some(made)
    }

    /// Bytes that may be sent again now, of the oldest entry or of another one.
    fn most_again(&self, is_oldest: bool, context: &SendContext<'_>) -> Option<u32> {
        let mss = self.board.mss();
        let is_after_timeout = self.recovery.permit() == Permit::OldestLost;
        match context.quantum.min(context.window_room) / mss * mss {
            _ if is_after_timeout && is_oldest => Some(mss),
            allowed if is_after_timeout && allowed >= mss => Some(mss),
            0 if is_oldest || context.window_room >= mss => Some(mss),
            0 => None,
            allowed => Some(allowed),
        }
    }

    /// Notes that the entry at `index` goes out again.
    fn note_resent(&mut self, index: usize, context: &mut SendContext<'_>) -> Option<Transmission> {
        let Entry { seq, end, .. } = *self.board.entry(index)?;
        self.board.on_retransmission(index, context.stamp());
        let fin = self.queue.is_fin_acked(end);
        let len = end.since(seq) - u32::from(fin);
        self.retransmitted_bytes += u64::from(len);
        self.opportunism.on_resend(self.board.nxt());
        Some(Transmission { seq, len, fin, is_retransmission: true, is_probe: false })
    }

    /// RFC 8985 §7.3: new data if there is any, or the last segment again.
    fn send_tail_probe(&mut self, context: &mut SendContext<'_>) -> Option<Transmission> {
        let mss = self.board.mss();
        let made = if self.unsent() > 0 && self.new_len(mss).is_some_and(|len| len > 0) {
            let len = self.unsent().min(mss).min(self.peer_room());
            self.send_new(len, context)
        } else {
            let last = *self.board.back()?;
            if last.len() > mss + 1 {
                self.board.split_at(last.end - mss);
            }
            let index = self.board.len().checked_sub(1)?;
            if self.board.entry(index)?.is_sacked {
                return None;
            }
            let made = self.note_resent(index, context)?;
            self.recovery.on_tail_again(&self.board, made.len);
            made
        };
        self.recovery.on_probe(context.now);
        Some(made)
    }
}
