//! [`Recovery`]: what was lost, and when to try again.
//!
//! Repair is SACK with RACK-TLP, and a retransmission time-out that starts with one segment and is taken back
//! when the original turns out to have been delivered. Without SACK duplicate acknowledgements are counted.
//! Each file is a section of a standard:
//!
//! | file | what | source |
//! |---|---|---|
//! | `rtt` | round trips, and the time-out they give | RFC 6298 §2 |
//! | `timers` | time-out, tail loss probe, reordering timer | RFC 6298 §5, RFC 8985 §7, §8 |
//! | `rack` | what is lost by time | RFC 8985 §6 |
//! | `deliveries` | what an acknowledgement and its SACK blocks deliver | RFC 6675 §4, RFC 2018, RFC 2883 |
//! | `duplicates` | what is lost by counting, where there is no SACK | RFC 5681 §3.2, RFC 6582 §3.2 |
//! | `f_rto` | whether a time-out was needed | RFC 5682 §3 |
//! | `tail_probe` | whether a tail loss probe was needed | RFC 8985 §7.4 |
//!
//! ```text
//!   acknowledgement ─▶ deliveries ─▶ f_rto ─▶ rack, duplicates ─▶ marks on the scoreboard ─▶ timers
//!   timer ─▶ reordering: rack │ tail probe: one segment │ time-out: all marked lost, f_rto judges
//! ```

mod deliveries;
mod duplicates;
mod f_rto;
mod rack;
mod rtt;
mod tail_probe;
mod timers;

use control::LossKind;
use units::{Duration, Instant, SeqNum};

use crate::interface::{SenderConfig, TimeoutOutcome};
use crate::scoreboard::{Entry, Scoreboard, SendOrder};

pub(crate) use duplicates::DUP_THRESHOLD;
pub(crate) use f_rto::Permit;
use f_rto::Timeout;
use rack::Rack;
pub use rtt::RttEstimator;
pub(crate) use timers::LossTimer;
use timers::Timers;

/// Losses that are known, and the timers that find them.
#[derive(Clone, Debug, stored::Stored)]
pub(crate) struct Recovery {
    rtt: RttEstimator,
    rack: Rack,
    timers: Timers,
    /// A time-out that is being recovered from, with all that was under way.
    timeout: Option<Timeout>,
    episode: Episode,
    /// Duplicate acknowledgements in a row (RFC 5681 §3.2).
    duplicate_acks: u32,
    /// Segments that one time-out sends at most.
    timeout_segments: u8,
    sack: bool,
}

/// Loss that is known of among the data under way. One at a time: where a recovery goes on no tail is probed.
#[derive(Clone, Copy, Debug, stored::Stored)]
enum Episode {
    /// Nothing.
    None,
    /// A tail loss probe has repeated a segment of `len` bytes: it is open whether that was lost.
    /// `end` is one past the highest number sent then (`TLP.end_seq`, RFC 8985 §7.4.1).
    Probed { end: SeqNum, len: u16 },
    /// Something was: recovery ends when all that had been sent then, up to here, is acknowledged
    /// (`RecoveryPoint`, RFC 6675 §5).
    Recovering(SeqNum),
}

impl Recovery {
    pub(crate) fn new(config: &SenderConfig) -> Self {
        Self {
            rtt: RttEstimator::default(),
            rack: Rack::new(config.start),
            timers: Timers::new(config.rto_max),
            timeout: None,
            episode: Episode::None,
            duplicate_acks: 0,
            timeout_segments: config.timeout_segments.max(1),
            sack: config.sack,
        }
    }

    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Takes over round trips that were measured before: the smoothed one, and the smallest.
    pub(crate) fn note_round_trip(&mut self, rtt: Duration, min: Option<Duration>, now: Instant) {
        self.rtt.take_over(rtt, min, now);
    }

    /// The peer reports SACK blocks.
    pub(crate) fn has_sack(&self) -> bool {
        self.sack
    }

    /// Not all that had been sent when a loss was found has been acknowledged.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery_point().is_some()
    }

    /// Highest number sent when a loss was found.
    fn recovery_point(&self) -> Option<SeqNum> {
        match self.episode {
            Episode::Recovering(point) => Some(point),
            Episode::None | Episode::Probed { .. } => None,
        }
    }

    /// Duplicate acknowledgements in a row.
    pub(crate) fn duplicate_acks(&self) -> u32 {
        self.duplicate_acks
    }

    /// Segments may overtake each other on this path.
    pub(crate) fn sees_reordering(&self) -> bool {
        self.rack.sees_reordering()
    }

    /// True when something sent after `order` has been delivered.
    pub(crate) fn is_before_newest(&self, order: SendOrder) -> bool {
        self.rack.is_before_newest(order)
    }

    /// The peer could have answered it.
    pub(crate) fn has_had_time(&self, entry: &Entry, now: Instant) -> bool {
        now.saturating_since(entry.sent_at()) >= self.rtt.min().unwrap_or(Duration::MAX)
    }

    /// True when `entry` is overdue even if nothing later was delivered.
    pub(crate) fn is_overdue(&self, entry: &Entry, now: Instant) -> bool {
        self.rack.is_overdue(entry, &self.rtt, now)
    }

    /// Marks what time shows to be lost, and arms the timer for what is merely late (RFC 8985 §6.2 step 5);
    /// the bytes newly marked, and those of them that another sender had sent.
    pub(crate) fn detect_by_time(&mut self, board: &mut Scoreboard, now: Instant) -> (u32, u32) {
        let is_recovering = self.is_recovering() || self.timeout.is_some();
        let found = self.rack.detect(board, &self.rtt, is_recovering, now);
        self.timers.set_reordering(found.look_again);
        (found.lost, found.lost_before)
    }

    /// Begins a recovery of what is under way, if none is; true when it does.
    pub(crate) fn begin(&mut self, board: &Scoreboard) -> bool {
        let is_new = !self.is_recovering();
        if is_new {
            self.episode = Episode::Recovering(board.nxt());
        }
        is_new
    }

    /// Ends it when all that was under way has been acknowledged (RFC 6675 §5).
    pub(crate) fn end_if_done(&mut self, board: &Scoreboard) {
        if self.recovery_point().is_some_and(|point| board.una().is_at_or_after(point)) {
            self.episode = Episode::None;
            self.timeout = None;
            self.rack.on_recovery_end();
        }
    }

    /// Acts on a retransmission time-out: everything under way is suspect, and one segment goes first (RFC
    /// 6298 §5.4 to §5.6, RFC 8985 §6.3).
    pub(crate) fn on_timeout(&mut self, board: &mut Scoreboard, out: &mut TimeoutOutcome, now: Instant) {
        if board.front().is_some_and(|entry| entry.is_sacked) {
            board.forget_sacks(); // the peer reneged (RFC 2018 §8)
        }
        for index in 0..board.len() {
            // What was sent within a round trip may well arrive yet (RFC 8985 §6.3); without SACK nobody
            // would say so.
            let is_suspect = index == 0
                || !self.sack
                || board.entry(index).is_some_and(|entry| self.is_overdue(entry, now));
            out.lost += if is_suspect { board.mark_lost(index) } else { 0 };
        }
        out.is_new_loss |= self.timeout.is_none();
        out.is_timeout = true;
        out.kind = Some(LossKind::Timeout);
        self.timers.back_off(&self.rtt, now);
        let segments = self.timers.attempts().min(self.timeout_segments);
        // Of time-outs in a row the first one found what there was.
        let earlier = self.timeout.and_then(Timeout::point_if_undone).or(self.recovery_point());
        self.timeout = Some(Timeout::new(segments, earlier.unwrap_or(board.una())));
        self.episode = Episode::Recovering(board.nxt());
    }
}
