//! Deliveries by an acknowledgement and its SACK blocks (RFC 6675 §4 `Update`, RFC 2018 §4, RFC 2883 §4).

use control::SendStamp;
use units::{Duration, Instant};

use super::Recovery;
use super::rack::Rack;
use crate::interface::{AckIn, AckOutcome};
use crate::scoreboard::{Entry, Scoreboard};

impl Recovery {
    /// Notes whether the first block reports something that came twice: it lies below the acknowledgement, or
    /// inside the second one (RFC 2883 §4).
    pub(crate) fn take_d_sack(&mut self, ack: &AckIn<'_>, board: &Scoreboard, out: &mut AckOutcome) {
        let mut blocks = ack.sack.iter();
        let Some(first) = blocks.next() else { return };
        let inside_second = blocks
            .next()
            .is_some_and(|b| first.start.is_at_or_after(b.start) && first.end.is_at_or_before(b.end));
        if first.end.is_at_or_before(ack.ack) || inside_second {
            out.has_d_sack = true;
            self.rack.on_d_sack(ack.ack, board.nxt());
        }
    }

    /// Takes off the scoreboard what `ack` acknowledges, and marks what its blocks report; true when
    /// something that was sent only once arrived.
    pub(crate) fn take_deliveries(
        &mut self,
        ack: &AckIn<'_>,
        board: &mut Scoreboard,
        out: &mut AckOutcome,
        now: Instant,
    ) -> bool {
        self.rack.on_acknowledgement(board.una());
        let entries_max = board.entries_max();
        let (min_rtt, is_judging) = (self.rtt.min(), self.is_judging());
        let rack = &mut self.rack;
        let (once, sent_again) = (None, None);
        let mut seen =
            Deliveries { rack, min_rtt, now, once, has_earlier: false, is_judging, sent_again, out };
        // What lay behind a hole may have arrived long before the repair let it be acknowledged: its time is
        // no round trip (Karn; Linux `FLAG_RETRANS_DATA_ACKED`). A peer without SACK says it no earlier.
        let is_repair = seen.take_acknowledged(ack, board);
        let behind_repair = seen.once.take_if(|_| is_repair);
        seen.take_blocks(ack, entries_max, board);
        let (once, sent_again) = (seen.once, seen.sent_again);
        let has_original = once.or(behind_repair).is_some() || seen.has_earlier;
        if let Some(entry) = sent_again.filter(|_| !has_original) {
            self.rack.on_delivered(&entry, min_rtt, now);
        }
        if let Some(stamp) = once {
            let rtt = now.saturating_since(stamp.sent_at);
            self.rtt.on_sample(rtt, now);
            out.rtt = Some(rtt);
        }
        if out.acked > 0 {
            self.duplicate_acks = 0;
            self.timers.on_progress();
        }
        has_original
    }
}

/// Collects what one acknowledgement delivered.
struct Deliveries<'a> {
    rack: &'a mut Rack,
    min_rtt: Option<Duration>,
    now: Instant,
    /// Newest of those sent only once.
    once: Option<SendStamp>,
    /// Something that another sender had sent, and nobody since.
    has_earlier: bool,
    /// A time-out is being judged: which copy of the segment sent again arrived is not known yet.
    is_judging: bool,
    /// Segment that the time-out sent again.
    sent_again: Option<Entry>,
    out: &'a mut AckOutcome,
}

impl Deliveries<'_> {
    /// Takes the data acknowledged cumulatively; true when it delivers some that had been sent again.
    fn take_acknowledged(&mut self, ack: &AckIn<'_>, board: &mut Scoreboard) -> bool {
        let una = board.una();
        let mut is_repair = false;
        if ack.ack.is_after(una) {
            board.acknowledge(ack.ack, |entry| {
                if !entry.is_sacked {
                    is_repair |= entry.is_retransmitted;
                    self.take(entry);
                }
            });
            self.out.acked = ack.ack.since(una);
        }
        is_repair
    }

    /// Takes the blocks, except those that repeat what was acknowledged or make no sense (H12).
    fn take_blocks(&mut self, ack: &AckIn<'_>, entries_max: usize, board: &mut Scoreboard) {
        for block in ack.sack.iter().skip(usize::from(self.out.has_d_sack)) {
            let is_empty = !block.start.is_before(block.end);
            if block.end.is_at_or_before(board.una()) && !is_empty {
                continue; // old news
            }
            if is_empty || block.end.is_after(board.nxt()) || block.start.is_before(board.una()) {
                self.out.invalid_sack_blocks += 1;
                continue;
            }
            board.sack(block.start, block.end, entries_max, |entry| self.take(entry));
        }
    }

    fn take(&mut self, entry: &Entry) {
        self.out.delivered += entry.len();
        if self.is_judging && entry.is_retransmitted {
            self.sent_again = Some(*entry);
        } else {
            self.rack.on_delivered(entry, self.min_rtt, self.now);
        }
        if self.out.newest.is_none_or(|stamp| stamp.sent_at <= entry.stamp.sent_at) {
            self.out.newest = Some(entry.stamp);
        }
        if entry.is_retransmitted {
            return;
        }
        let is_newest = self.once.is_none_or(|stamp| stamp.sent_at <= entry.stamp.sent_at);
        match entry.is_earlier() {
            true => self.has_earlier = true,
            false if is_newest => self.once = Some(entry.stamp),
            false => {}
        }
    }
}
