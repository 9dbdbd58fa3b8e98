//! [`Recovery`]: why a segment was sent again, as seen beside the sender.
//!
//! A capture shows no congestion state, but what a sender reacts to: acknowledgements, SACK, and silence. The
//! order of the questions is that of RFC 8985 and RFC 6298: a retransmission after silence is a timer's, one
//! after news of later data is fast recovery's. Whether it was needed is often known only later: from D-SACK
//! (RFC 2883, RFC 3708) or from the echo of a timestamp older than the retransmission (Eifel, RFC 3522).

use std::collections::VecDeque;

use serde::Serialize;
use units::{Duration, Instant};

use crate::smoothed_rtt::SmoothedRtt;
use crate::timestamps::is_newer;

/// Cause of the retransmission of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A SYN or SYN-ACK without answer.
    Syn,
    /// Retransmission time-out (RFC 6298): the first byte not acknowledged, after silence of the time-out.
    Rto,
    /// Repaired after a time-out, until everything sent before it was acknowledged.
    RtoRecovery,
    /// Something above was reported by SACK, or three duplicate acknowledgements came; until the end of that
    /// recovery (RFC 5681, RFC 6675, RFC 8985).
    Fast,
    /// Tail loss probe: the last segment, without news of loss, after two round trips of silence (RFC 8985
    /// §7).
    Tlp,
    /// None of the other causes fits.
    Unclear,
}

impl Cause {
    /// All, in the order of their numbers.
    pub(crate) const ALL: [Self; 6] =
        [Self::Syn, Self::Rto, Self::RtoRecovery, Self::Fast, Self::Tlp, Self::Unclear];
}

/// Evidence that a retransmission was not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SpuriousBy {
    /// The receiver reported it as a duplicate (RFC 2883).
    Dsack,
    /// The acknowledgement echoes a timestamp older than the repetition (Eifel, RFC 3522).
    Timestamp,
    /// It was acknowledged before it was sent again.
    Acknowledged,
}

/// Shortest retransmission time-out believed: Linux's 200 ms, less what timers and capture may be early.
const RTO_FLOOR: Duration = Duration::from_millis(180);
/// Retransmissions remembered to learn later that they were not needed.
const RECENT_MAX: usize = 512;

/// A retransmission that may turn out not to have been needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retransmission {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) time: Instant,
    stamp: Option<u32>,
    pub(crate) cause: Cause,
    spurious: Option<SpuriousBy>,
    was_reported: bool,
}

impl Retransmission {
    /// Evidence that this was not needed; meant for one of which that is known.
    pub(crate) fn spurious(&self) -> SpuriousBy {
        self.spurious.unwrap_or(SpuriousBy::Acknowledged)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    Open,
    Fast,
    AfterRto,
}

/// Facts known when a segment is sent again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetransmissionContext {
    pub(crate) now: Instant,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// End of all that was sent.
    pub(crate) next: u64,
    /// Everything below is acknowledged.
    pub(crate) una: u64,
    /// Time since the last segment either way that could have set this off.
    pub(crate) quiet: Duration,
    /// Time since the retransmission timer was started.
    pub(crate) since_progress: Duration,
    pub(crate) rtt: Option<SmoothedRtt>,
    /// Something above was SACKed, or three duplicate acknowledgements came.
    pub(crate) has_evidence: bool,
    pub(crate) uses_sack: bool,
    pub(crate) stamp: Option<u32>,
}

impl RetransmissionContext {
    /// Least silence before a retransmission time-out.
    fn rto(&self) -> Duration {
        self.rtt.map_or(RTO_FLOOR, |rtt| RTO_FLOOR.max((rtt.srtt + rtt.rttvar * 4).mul_ratio(9, 10)))
    }

    /// Longer than a sender that paces holds back a repair.
    fn pacing(&self) -> Duration {
        self.rtt.map_or(RTO_FLOOR, |rtt| rtt.srtt / 4)
    }

    /// Least silence before a tail loss probe: two round trips, where timers may be early by a tick.
    fn probe_time_out(&self) -> Duration {
        self.rtt.map_or(RTO_FLOOR, |rtt| (rtt.srtt * 2).mul_ratio(8, 10))
    }
}

/// The state of loss recovery of one sender, inferred.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovery {
    mode: Mode,
    /// Recovery ends when this is acknowledged.
    point: u64,
    /// Without SACK it ends when more than that is acknowledged: duplicate acknowledgements before may be those
    /// of repetitions that were not needed (RFC 6582 §4.1).
    ends_beyond: bool,
    /// End of all sent when the last tail loss probe went out.
    probed_at: Option<u64>,
    recent: VecDeque<Retransmission>,
    pub(crate) episodes: Episodes,
}

/// Recoveries entered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Episodes {
    /// By news of loss.
    pub(crate) fast: u64,
    /// By time-outs.
    pub(crate) time_outs: u64,
    /// Of the time-outs, those found to be spurious.
    pub(crate) undone: u64,
}

impl Recovery {
    /// Says why `[start, end)` was sent again, and remembers it.
    pub(crate) fn on_retransmission(&mut self, s: &RetransmissionContext) -> Cause {
        let cause = self.cause(s);
        self.ends_beyond = !s.uses_sack && s.stamp.is_some();
        match cause {
            Cause::Rto => {
                // Further time-outs of one silence are one event.
                self.episodes.time_outs += u64::from(self.mode != Mode::AfterRto);
                (self.mode, self.point) = (Mode::AfterRto, s.next);
            }
            Cause::Fast if self.mode == Mode::Open => {
                self.episodes.fast += 1;
                (self.mode, self.point) = (Mode::Fast, s.next);
            }
            Cause::Tlp => self.probed_at = Some(s.next),
            _ => {}
        }
        self.remember(s, cause);
        cause
    }

    /// A SYN or SYN-ACK was sent again.
    pub(crate) fn on_syn_retransmission(&mut self, s: &RetransmissionContext) {
        self.remember(s, Cause::Syn);
    }

    fn cause(&self, s: &RetransmissionContext) -> Cause {
        let is_head = s.start <= s.una;
        let is_tail = s.end >= s.next;
        let has_probed = self.probed_at == Some(s.next);
        let could_probe = s.uses_sack && is_tail && !has_probed && !s.has_evidence && self.mode == Mode::Open;
        if could_probe && s.quiet >= s.probe_time_out() && (!is_head || s.quiet < s.rto() * 2) {
            return Cause::Tlp;
        }
        // Without SACK duplicate acknowledgements say nothing of what they acknowledge, and the first segment goes
        // again at news of progress or by the timer, whatever came in between.
        // A repair for news follows at once, but for pacing. Without timestamps a timer that has fired stays longer
        // than round trips say (RFC 6298 §5.7), so a pause must tell besides.
        let has_paused = s.stamp.is_some() || s.quiet >= s.pacing();
        let is_due = !s.uses_sack && has_paused && s.since_progress >= s.rto();
        if is_head && (s.quiet >= s.rto() || is_due) {
            return Cause::Rto;
        }
        match self.mode {
            Mode::AfterRto => Cause::RtoRecovery,
            Mode::Fast => Cause::Fast,
            Mode::Open if s.has_evidence => Cause::Fast,
            Mode::Open if s.quiet >= s.rto() => Cause::Rto,
            Mode::Open => Cause::Unclear,
        }
    }

    /// True from a repair to the acknowledgement of all that had been sent.
    pub(crate) fn is_repairing(&self) -> bool {
        self.mode != Mode::Open
    }

    /// Loss events so far.
    pub(crate) fn loss_events(&self) -> u64 {
        self.episodes.fast + self.episodes.time_outs
    }

    fn remember(&mut self, s: &RetransmissionContext, cause: Cause) {
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Retransmission {
            start: s.start,
            end: s.end,
            time: s.now,
            stamp: s.stamp,
            cause,
            spurious: None,
            was_reported: false,
        });
    }

    /// The cumulative acknowledgement moved from `old` to `new`, echoing `echo`; calls `found` for each
    /// retransmission that is now known not to have been needed.
    pub(crate) fn on_ack(
        &mut self,
        old: u64,
        new: u64,
        echo: Option<u32>,
        mut found: impl FnMut(&Retransmission),
    ) {
        if let Some(echo) = echo {
            let mut undo = false;
            // Only the segment at the old edge: the echo is that of the segment that moved the edge (RFC 7323
            // §4.3).
            for retransmission in self.recent.iter_mut().filter(|r| r.start <= old && old < r.end) {
                let is_older = retransmission.stamp.is_some_and(|stamp| is_newer(stamp, echo));
                if is_older && retransmission.spurious.is_none() && retransmission.cause != Cause::Syn {
                    retransmission.spurious = Some(SpuriousBy::Timestamp);
                    undo = true;
                    found(retransmission);
                }
            }
            if undo && self.mode == Mode::AfterRto {
                self.episodes.undone += 1;
                self.mode = Mode::Open;
            }
        }
        if new >= self.point + u64::from(self.ends_beyond) {
            self.mode = Mode::Open;
        }
    }

    /// The receiver reported `[start, end)` as a duplicate; false if no retransmission explains it.
    pub(crate) fn on_dsack(&mut self, start: u64, end: u64, mut found: impl FnMut(&Retransmission)) -> bool {
        let explains = |r: &&mut Retransmission| r.start < end && start < r.end && !r.was_reported;
        let Some(retransmission) = self.recent.iter_mut().rev().find(explains) else { return false };
        retransmission.was_reported = true;
        if retransmission.spurious.replace(SpuriousBy::Dsack).is_none() {
            found(retransmission);
        }
        true
    }

    /// The last retransmission was of bytes already acknowledged.
    pub(crate) fn last_was_acknowledged(&mut self) {
        if let Some(last) = self.recent.back_mut() {
            last.spurious = Some(SpuriousBy::Acknowledged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    fn situation(quiet_ms: u64) -> RetransmissionContext {
        RetransmissionContext {
            now: Instant::from_millis(1_000),
            start: 0,
            end: 10,
            next: 100,
            una: 0,
            quiet: Duration::from_millis(quiet_ms),
            since_progress: Duration::from_millis(quiet_ms),
            rtt: Some(SmoothedRtt { srtt: RTT, rttvar: Duration::from_millis(5) }),
            has_evidence: false,
            uses_sack: true,
            stamp: Some(500),
        }
    }

    #[test]
    fn news_of_later_data_is_fast_and_silence_a_timer() {
        let mut recovery = Recovery::default();
        assert_eq!(
            recovery.on_retransmission(&RetransmissionContext { has_evidence: true, ..situation(1) }),
            Cause::Fast
        );
        // Until the end of recovery the rest goes without new evidence.
        assert_eq!(
            recovery.on_retransmission(&RetransmissionContext { start: 10, end: 20, ..situation(0) }),
            Cause::Fast
        );
        assert_eq!(recovery.on_retransmission(&situation(240)), Cause::Rto);
        assert_eq!(
            recovery.on_retransmission(&RetransmissionContext { start: 10, end: 20, ..situation(0) }),
            Cause::RtoRecovery
        );
        recovery.on_ack(0, 100, None, |_| {});
        assert_eq!(
            recovery.on_retransmission(&RetransmissionContext {
                start: 100,
                end: 110,
                next: 110,
                ..situation(1)
            }),
            Cause::Unclear
        );
    }

    #[test]
    fn the_tail_is_probed_once_then_the_timer_fires() {
        let mut recovery = Recovery::default();
        let tail = RetransmissionContext { start: 90, end: 100, ..situation(82) };
        assert_eq!(recovery.on_retransmission(&tail), Cause::Tlp);
        assert_eq!(
            recovery.on_retransmission(&RetransmissionContext {
                una: 90,
                quiet: Duration::from_millis(240),
                ..tail
            }),
            Cause::Rto
        );
        let without_sack = RetransmissionContext {
            uses_sack: false,
            una: 90,
            quiet: Duration::from_millis(240),
            since_progress: Duration::from_millis(240),
            ..tail
        };
        assert_eq!(Recovery::default().on_retransmission(&without_sack), Cause::Rto);
    }

    #[test]
    fn without_sack_the_timer_runs_through_duplicate_acknowledgements() {
        let reno = RetransmissionContext { uses_sack: false, has_evidence: true, ..situation(1) };
        let mut recovery = Recovery::default();
        assert_eq!(recovery.on_retransmission(&reno), Cause::Fast);
        // The repair was lost; duplicate acknowledgements come all the time.
        let since_progress = Duration::from_millis(240);
        assert_eq!(recovery.on_retransmission(&RetransmissionContext { since_progress, ..reno }), Cause::Rto);
        let with_sack = RetransmissionContext { uses_sack: true, since_progress, ..reno };
        let mut other = Recovery::default();
        assert_eq!([(); 2].map(|()| other.on_retransmission(&with_sack)), [Cause::Fast; 2]);
        // All that was outstanding is acknowledged: what follows belongs to the recovery until more is.
        recovery.on_ack(0, 100, None, |_| {});
        let next = RetransmissionContext { start: 100, end: 110, next: 200, una: 100, ..reno };
        assert_eq!(recovery.on_retransmission(&next), Cause::RtoRecovery);
        recovery.on_ack(100, 110, None, |_| {});
        let after = RetransmissionContext { start: 110, end: 120, una: 110, ..next };
        assert_eq!(recovery.on_retransmission(&after), Cause::Fast);
    }

    #[test]
    fn needless_repetitions_are_found_once() {
        let mut recovery = Recovery::default();
        recovery.on_retransmission(&situation(240));
        let mut found = Vec::new();
        recovery.on_ack(0, 50, Some(499), |retransmission| found.push(retransmission.spurious));
        assert!(recovery.on_dsack(0, 10, |retransmission| found.push(retransmission.spurious)));
        assert!(
            !recovery.on_dsack(0, 10, |retransmission| found.push(retransmission.spurious)),
            "one retransmission explains one report"
        );
        assert_eq!(found, [Some(SpuriousBy::Timestamp)]);
        // Undone: what follows is no recovery after a time-out.
        assert_eq!(
            recovery.on_retransmission(&RetransmissionContext {
                start: 50,
                end: 60,
                una: 50,
                ..situation(1)
            }),
            Cause::Unclear
        );
        recovery.on_ack(50, 60, Some(500), |_| panic!("the retransmission itself was echoed"));
    }
}
