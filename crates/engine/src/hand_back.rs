//! [`HandBack`]: when a flow of which both directions were taken over may be left to its hosts.
//!
//! A half that drains refuses what is new. But what it allowed before may be under way, beyond what the peer itself allows, and the number behind
//! it is on every bare acknowledgement of its sender. So the peer does not believe these: they lie outside its window (RFC 9293 §3.10.7.4). One such
//! host does no harm: it believes its peer, repeats what was refused, and that brings the acknowledgement with it. Two of them may block each other:
//!
//! ```text
//!   server   una ── at the client ── next ── refused ── nxt │ beyond the client's window
//!   client   una ── at the server ── next ── refused ── nxt │ beyond the server's window
//! ```
//!
//! It takes no loss: both send two segments at the same time, and both take the other's. From then on each repeats what the other has, is refused
//! as old, and answered with `nxt`, which is refused too; for ever. (Linux says the end of the window in place of `nxt` where the window has shrunk,
//! BSD believes the acknowledgement in what is old; the RFC asks for neither.) So the uplink half goes on to take what it has allowed, and
//! stays until nothing of its sender's can lie beyond the window of the peer.

use tcp::Receiver;
use units::{Duration, Instant, SeqNum};
use wire::{Tcp, TcpFlags};

use crate::timer::Moment;

/// A sender of which nothing is missing and from which nothing comes for so long has nothing under way: it would repeat it (RFC 6298 §2: the
/// first time-out is one second).
const QUIET: Duration = Duration::from_secs(3);

/// How long a sender that has something under way may take to repeat it: the largest time-out (RFC 6298 §2.5).
const REPEATS_WITHIN: Duration = Duration::from_secs(60);

/// What is known of how much the sender of a draining flow has under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandBack {
    /// It is the half that goes on to take what it has allowed.
    takes_allowed: bool,
    /// One past the highest number that the sender is known to have used.
    highest: Option<SeqNum>,
    /// It has said that nothing is under way.
    is_quiet: bool,
    /// When it was heard last.
    since: Moment,
}

impl HandBack {
    pub(crate) const fn new(takes_allowed: bool) -> Self {
        Self { takes_allowed, highest: None, is_quiet: false, since: Moment::NEVER }
    }

    /// True when a draining flow is to take what was allowed before the drain.
    pub(crate) const fn takes_allowed(&self) -> bool {
        self.takes_allowed
    }

    /// Takes in a packet of the sender of a draining flow, of which all up to `next` has come.
    pub(crate) fn note(&mut self, tcp: &Tcp, next: SeqNum, now: Instant) {
        let is_bare = tcp.payload_len == 0 && !tcp.flags.contains(TcpFlags::FIN);
        let end = tcp.seq_end();
        self.highest = Some(self.highest.map_or(end, |highest| highest.later_of(end)));
        let is_behind_all = self.highest.is_some_and(|highest| highest.is_at_or_before(next));
        // A bare number is behind all that was sent; a keep-alive or a window probe is one below.
        self.is_quiet = is_bare && is_behind_all && (tcp.seq == next || tcp.seq + 1 == next);
        self.since = Moment::at(now);
    }

    /// True when a flow that owes nothing, and whose last packet came at `last_activity`, may be left to its hosts although not all that its
    /// sender was ever allowed lies within the window of the peer.
    pub(crate) fn is_due(&mut self, receiver: &Receiver, last_activity: Instant, now: Instant) -> bool {
        if self.is_quiet {
            return true;
        }
        let highest = self.highest.unwrap_or(receiver.highest());
        self.highest = Some(highest.later_of(receiver.highest()));
        self.since = Moment::at(self.since.get().unwrap_or(last_activity));
        self.due(receiver.next()).is_none_or(|due| now >= due)
    }

    /// When it is, if nothing comes meanwhile.
    pub(crate) fn due(&self, next: SeqNum) -> Option<Instant> {
        let is_missing = self.highest.is_some_and(|highest| highest.is_after(next));
        Some(self.since.get()? + if is_missing { REPEATS_WITHIN } else { QUIET })
    }
}
