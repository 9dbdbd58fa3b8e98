//! [`Departure`]: on which terms a flow leaves; [`HandBack`]: when one of which both directions
//! were taken over may be left to its hosts.
//!
//! A half that drains refuses what is new. But what it allowed before may be under way, beyond what
//! the peer itself allows, and the number behind it is on every bare acknowledgement of its sender.
//! So the peer does not believe these: they lie outside its window (RFC 9293 §3.10.7.4). One such
//! host does no harm: it believes its peer, repeats what was refused, and that brings the
//! acknowledgement with it. Two of them may block each other:
//!
//! ```text
//!   server   una ── at the client ── next ── refused ── nxt │ beyond the client's window
//!   client   una ── at the server ── next ── refused ── nxt │ beyond the server's window
//! ```
//!
//! It takes no loss: both send two segments at the same time, and both take the other's. From then
//! on each repeats what the other has, is refused as old, and answered with `nxt`, which is refused
//! too; for ever. (Linux says the end of the window in place of `nxt` where the window has shrunk,
//! BSD believes the acknowledgement in what is old; the RFC asks for neither.) So the uplink half
//! goes on to take what it has allowed, and stays until nothing of its sender's can lie beyond the
//! window of the peer.

use tcp::Receiver;
use units::{Duration, Instant, SeqNum};
use wire::{Tcp, TcpFlags};

use crate::memory::timer::Moment;
use crate::pass::PassReason;

/// Silence after which a sender of which nothing is missing has nothing under way: it would repeat
/// it (RFC 6298 §2: the first time-out is one second).
const QUIET: Duration = Duration::from_secs(3);

/// Time that a sender that has something under way may take to repeat it: the largest time-out (RFC
/// 6298 §2.5).
const REPEATS_WITHIN: Duration = Duration::from_secs(60);

/// Terms on which a flow leaves: nothing new is taken, and once nothing is owed it is handed back.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct Departure {
    /// Reason, where it leaves by itself: it does not behave.
    why: Option<PassReason>,
    /// Facts that have to be known before it is handed back.
    pub(super) hand_back: HandBack,
    /// Packets of it may have gone past us: what its hosts say of each other is believed.
    is_doubtful: bool,
}

impl Departure {
    /// Terms where the engine drains, or for the reason given later. `is_uplink_of_both`: see [`HandBack`].
    pub(crate) const fn new(is_uplink_of_both: bool) -> Self {
        Self { why: None, hand_back: HandBack::new(is_uplink_of_both), is_doubtful: false }
    }

    /// It leaves for this reason, if there is no earlier one.
    pub(crate) fn give_up(&mut self, reason: PassReason) {
        self.why.get_or_insert(reason);
    }

    /// Packets of it may have gone past us.
    pub(crate) fn doubt(&mut self) {
        self.is_doubtful = true;
        self.give_up(PassReason::Desynchronised);
    }

    /// True when packets of it may have gone past us.
    pub(crate) const fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Reason why it leaves.
    pub(crate) fn reason(&self) -> PassReason {
        self.why.unwrap_or(PassReason::Draining)
    }

    /// True when it takes what was allowed before.
    pub(crate) fn takes_allowed(&self) -> bool {
        // What does not retransmit would be waited for in vain.
        self.hand_back.takes_allowed && self.why != Some(PassReason::NotTcpLike)
    }
}

/// Knowledge of how much the source of a draining flow has under way.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct HandBack {
    /// It is the half that goes on to take what it has allowed.
    takes_allowed: bool,
    /// One past the highest number that the sender is known to have used.
    highest: Option<SeqNum>,
    /// It has said that nothing is under way.
    is_quiet: bool,
    /// Time at which it was heard last.
    since: Moment,
}

impl HandBack {
    pub(super) const fn new(takes_allowed: bool) -> Self {
        Self { takes_allowed, highest: None, is_quiet: false, since: Moment::NEVER }
    }

    /// Takes in a packet of the sender of a draining flow, of which all up to `next` has come.
    pub(super) fn note(&mut self, tcp: &Tcp, next: SeqNum, now: Instant) {
        let is_bare = tcp.payload_len == 0 && !tcp.flags.contains(TcpFlags::FIN);
        let end = tcp.seq_end();
        self.highest = Some(self.highest.map_or(end, |highest| highest.later_of(end)));
        let is_behind_all = self.highest.is_some_and(|highest| highest.is_at_or_before(next));
        // A bare number is behind all that was sent; a keep-alive or a window probe is one below.
        self.is_quiet = is_bare && is_behind_all && (tcp.seq == next || tcp.seq + 1 == next);
        self.since = Moment::at(now);
    }

    /// True when a flow that owes nothing, and whose last packet came at `last_activity`, may be
    /// left to its hosts although not all that its sender was ever allowed lies within the window
    /// of the peer.
    pub(super) fn is_due(&mut self, receiver: &Receiver, last_activity: Instant, now: Instant) -> bool {
        if self.is_quiet {
            return true;
        }
        let highest = self.highest.unwrap_or(receiver.highest());
        self.highest = Some(highest.later_of(receiver.highest()));
        self.since = Moment::at(self.since.get().unwrap_or(last_activity));
        self.due(receiver.next()).is_none_or(|due| now >= due)
    }

    /// Time at which it is known, if nothing comes meanwhile.
    pub(super) fn due(&self, next: SeqNum) -> Option<Instant> {
        let is_missing = self.highest.is_some_and(|highest| highest.is_after(next));
        Some(self.since.get()? + if is_missing { REPEATS_WITHIN } else { QUIET })
    }
}
