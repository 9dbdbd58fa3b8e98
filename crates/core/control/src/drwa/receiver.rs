//! \[DR\] as a receiver runs it that sees only segments: [`ReceiverDrwa`], a connection, and
//! [`SharedPath`], what the connections of an interface know together.
//!
//! ```text
//!   server ── data, TSecr ──▶ on_data ─────▶ round trips
//!          ◀── ACK, window ── on_ack ◀────── the kernel's ACK: bytes delivered, window lowered
//! ```
//!
//! The program in the kernel (`crates/linux/drwa/bpf/drwa.bpf.c`) does the same, and a test compares every
//! number of both after every segment. So times are whole microseconds here, and all numbers fit
//! 64 bits: a window 2³⁰ bytes, a round trip 60 s, the data of a round 2³² bytes.
//!
//! The paper changes the receiver's kernel, and counts bytes as they are copied to the application.
//! DEVIATION: who sees segments counts bytes as they are acknowledged in order. The application's
//! own pace shows in the kernel's window, which is never exceeded. Shown by
//! `tests::the_kernels_window_is_never_exceeded`.
//!
//! With [`ReceiverParams::paper`] the window is that of [`Drwa`](super::Drwa); shown by
//! `tests::with_the_papers_parameters_it_is_the_papers_window`.
//!
//! DEVIATION: the paper's windows share badly. Each has a remedy, and `paper` has none:
//!
//! - A connection that begins behind the queue of others takes it for a part of the path, and grows
//!   larger than they. So it starts with the RTT_min that is known of the host, or with the round
//!   trip of its handshake less the queue that others see. Shown by `queue_tests::a_late_one_knows_the_path`.
//!   A queue that has left is not taken off: who waited in it comes right behind what made it up
//!   ([`SharedPath::data_us`]). Shown by `queue_tests::one_after_another_sees_no_queue`. A handshake in which
//!   no data came is believed more than what is known of the host: a hand-over makes paths longer. Shown by
//!   `queue_tests::a_path_that_has_become_longer_is_seen_by_the_next`.
//! - λ·RTT_min ÷ RTT is the same for all windows of one queue, so shares stay what they were. So three
//!   quarters of a window follow the mean of the interface's cwnd_est: the sum stays, the shares
//!   become equal. Shown by `queue_tests::unequal_windows_become_equal`.
//! - A connection without DRWA fills the queue, and windows of those with DRWA shrink to nothing. So
//!   a queue of others makes RTT_min 2/λ of the round trip. cwnd_est becomes what the rate before fills of it: with
//!   α alone the way back would take a minute. Shown by `queue_tests::what_others_have_taken_is_back_in_seconds`. After `retry` the RTT_min before is believed again. Shown by
//!   `queue_tests::a_queue_of_others_is_given_in_to`. A longer path is learned in the same way:
//!   `queue_tests::a_path_that_becomes_longer_under_way_is_learned`.
//! - Whether the queue is of others is tried, where round trips have been above 5/4 of λ·RTT_min for
//!   `re_baseline`, or cwnd_est has lost a quarter and the round trip not a sixteenth: the window is halved for
//!   two rounds. A queue of ours becomes shorter: `queue_tests::a_capacity_that_falls_is_no_longer_path`.

use std::collections::BTreeMap;

use units::{Bytes, Duration, Instant, SeqNum, WindowScale};

use super::WindowField;

/// Parameters of [`ReceiverDrwa`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverParams {
    /// α: weight of the old estimate, in thousandths, 0 to 1000. 875 (7/8).
    pub alpha_permille: u32,
    /// λ: windows of a round trip that may be under way, in thousandths. 3000 (3).
    pub lambda_permille: u32,
    /// rwnd before the first round has ended. 64 KiB.
    pub initial_window: Bytes,
    /// Without a queue the estimate follows more data at once, and never less. True; false follows the paper.
    pub is_free_without_queue: bool,
    /// Time for which round trips must exceed what the window explains until RTT_min is learned anew. 2 s;
    /// `None` follows the paper.
    pub re_baseline: Option<Duration>,
    /// Time after which the RTT_min before that is believed again. 20 s; `None`: never.
    pub retry: Option<Duration>,
    /// Connections of the interface share what they know. True; false follows the paper.
    pub shares: bool,
    /// Round trips come from windows of data, also where timestamps are there. False.
    pub without_timestamps: bool,
}

impl Default for ReceiverParams {
    fn default() -> Self {
        Self {
            alpha_permille: 875,
            lambda_permille: 3_000,
            initial_window: Bytes::from_kib(64),
            is_free_without_queue: true,
            re_baseline: Some(Duration::from_secs(2)),
            retry: Some(Duration::from_secs(20)),
            shares: true,
            without_timestamps: false,
        }
    }
}

impl ReceiverParams {
    /// The paper's algorithm without additions.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            is_free_without_queue: false,
            re_baseline: None,
            retry: None,
            shares: false,
            ..Self::default()
        }
    }
}

/// Longest round trip that is believed, µs.
const RTT_MAX_US: u64 = 60_000_000;
/// Largest window: 65,535 × 2¹⁴, rounded up (RFC 7323 §2.2).
const WINDOW_MAX: u64 = 1 << 30;
/// Most data of one round.
const DATA_MAX: u64 = u32::MAX as u64;
/// Fraction bits of an estimate, in 2⁻⁸ bytes.
const FRACTION_BITS: u32 = 8;
/// Largest cwnd_est, in 2⁻⁸ bytes, that is made of a rate: a window. Times a round trip it fits 64 bits.
const CWND_MAX: u64 = WINDOW_MAX << FRACTION_BITS;
/// Rounds with half a window: in the first the server waits, what it sends after that comes in the second.
const PROBE_ROUNDS: u64 = 2;
/// Silence after which a server had nothing to send, where no round trip is known yet.
const PAUSE_US: u64 = 1_000_000;
/// Time for which TSvals are watched until their unit is known.
const TICK_TIME_US: u64 = 100_000;
/// A slot lasts 2²⁰ µs.
const SLOT_SHIFT: u32 = 20;
/// Time for which a host's round trip is believed that nobody confirms.
const PEER_FORGOTTEN_US: u64 = 60_000_000;

/// Microseconds; never 0, which stands for "not yet".
fn micros(at: Instant) -> u64 {
    at.as_nanos() / 1_000
}

/// Sums over the connections that ended a round in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The second since the clock's start, of 2²⁰ µs.
    pub number: u32,
    /// Connections that ended a round.
    pub connections: u32,
    /// The sum of their cwnd_est, bytes.
    pub bytes: u64,
    /// The shortest RTT_est − RTT_min, µs.
    pub queue_us: u64,
}

/// State of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The shortest round trip, µs.
    pub rtt_min_us: u64,
    /// Time of the last round trip that this explains, µs.
    pub confirmed_us: u64,
}

/// State that the connections of an interface share.
#[derive(Clone, Debug, Default)]
pub struct SharedPath {
    /// This second.
    pub now: Slot,
    /// The second before, all zero when nobody ended a round in it.
    pub before: Slot,
    /// Time until which the queue is believed, µs: a connection with data ends a round, and tells of its
    /// queue, once per RTT_est. What it does not tell of again has drained after RTT_est and the queue.
    pub queue_until_us: u64,
    /// Time at which data last came to any connection, µs.
    pub data_us: u64,
    /// Peers by the other host's address: IPv4 in the first four bytes.
    pub peers: BTreeMap<[u8; 16], Peer>,
}

impl SharedPath {
    fn turn(&mut self, now_us: u64) {
        let number = (now_us >> SLOT_SHIFT) as u32;
        if self.now.number == number {
            return;
        }
        let follows = self.now.number.wrapping_add(1) == number;
        self.before = if follows { self.now } else { Slot::default() };
        self.now = Slot { number, queue_us: RTT_MAX_US, ..Slot::default() };
    }

    /// The queue of others that what comes now has waited in, µs.
    ///
    /// A queue hands on one packet after the other. So what waited in it comes right behind the data that it waited
    /// for. Where a quarter of the queue's time has passed since data came, there was no queue.
    fn queue_us(&self, now_us: u64) -> Option<u64> {
        let seen = [&self.before, &self.now].into_iter().filter(|slot| slot.connections > 0);
        let queue = seen.map(|slot| slot.queue_us).min()?;
        let is_behind_data = now_us.saturating_sub(self.data_us) * 4 <= queue;
        (is_behind_data && now_us <= self.queue_until_us).then_some(queue)
    }
}

/// Options that the SYNs of both hosts agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Agreed {
    /// The other host's initial sequence number.
    pub remote_isn: SeqNum,
    /// The window of the own SYN, bytes: SYNs are not scaled (RFC 7323 §2.2).
    pub syn_window: u16,
    /// Scale of the own windows.
    pub scale: WindowScale,
    /// MSS of the own SYN.
    pub mss: u16,
    /// Both SYNs had timestamps.
    pub timestamps: bool,
    /// The other host's address.
    pub remote: [u8; 16],
}

/// A segment with data that has come.
#[derive(Clone, Copy, Debug)]
pub struct DataIn {
    /// Its first number.
    pub seq: SeqNum,
    /// Payload, at least 1 byte; a super-packet may have 64 KiB.
    pub len: u32,
    /// TSecr.
    pub echo: Option<u32>,
}

/// A segment with ACK that goes out.
#[derive(Clone, Copy, Debug)]
pub struct AckOut {
    /// Sequence number that it acknowledges.
    pub ack: SeqNum,
    /// The window field as the kernel has it.
    pub window: u16,
    /// TSval.
    pub timestamp: Option<u32>,
    /// It carries data of its own.
    pub has_payload: bool,
}

/// The last round trip that the window explains, and what was under way in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explained {
    /// RTT_est, µs.
    pub rtt_us: u64,
    /// cwnd_est before, in 2⁻⁸ bytes.
    pub cwnd_est: u64,
}

/// The first of the round trips above λ·RTT_min, and what was under way in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Above {
    /// RTT_est, µs.
    pub rtt_us: u64,
    /// cwnd_est, in 2⁻⁸ bytes.
    pub cwnd_est: u64,
    /// The sum of all connections of the interface, bytes.
    pub all_bytes: u64,
}

/// The window is halved for some rounds: round trips become shorter where the queue is our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// RTT_est before, µs.
    pub rtt_us: u64,
    /// The smallest since, µs.
    pub least_us: u64,
    /// Number of rounds that have ended.
    pub rounds: u64,
}

/// Window that was told, and when; its answer gives a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// TSval, or the right edge.
    pub told: u32,
    /// µs, the lower 32 bits.
    pub at_us: u32,
}

/// A connection. Public fields are what the program in the kernel has too.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "bpf/drwa.h explains them")]
pub struct ReceiverDrwa {
    params: ReceiverParams,
    agreed: Agreed,
    mss: u64,
    field: WindowField,
    pub mark: Option<Mark>,
    taken: Option<Mark>,
    first: Option<Mark>,
    /// Unit of TSval, µs.
    pub tick_us: Option<u32>,
    pub is_tick_known: bool,
    best: Option<(u32, u64)>,
    data_us: Option<u64>,
    pauses: u32,
    pauses_known: u32,
    pub samples: u64,
    pub delivered: u64,
    began: Option<(u64, u64)>,
    pub cwnd_est: Option<u64>,
    pub rtt_est_us: Option<u64>,
    pub rtt_min_us: Option<u64>,
    pub window: Option<u64>,
    pub explained: Option<Explained>,
    /// Time at which the first of the round trips ended that the window does not explain, µs.
    pub unexplained_us: Option<u64>,
    pub above: Option<Above>,
    pub probe: Option<Probe>,
    pub before_us: Option<u64>,
    pub retry_us: Option<u64>,
    acked: SeqNum,
    timestamp: u32,
    pub round: u32,
    pub slot: u32,
}

impl ReceiverDrwa {
    /// A connection whose handshake took `handshake_us`; `None` when its SYN was repeated (Karn).
    #[must_use]
    pub fn new(
        params: ReceiverParams,
        agreed: Agreed,
        handshake: Option<Duration>,
        now: Instant,
        path: &mut SharedPath,
    ) -> Self {
        let first = agreed.remote_isn + 1;
        let has_timestamps = agreed.timestamps && agreed.mss > 12;
        let mss = agreed.mss.max(1) - if has_timestamps { 12 } else { 0 };
        let mut new = Self {
            params,
            agreed,
            mss: u64::from(mss),
            field: WindowField::new(first + u32::from(agreed.syn_window), agreed.scale),
            mark: None,
            taken: None,
            first: None,
            tick_us: None,
            is_tick_known: false,
            best: None,
            data_us: None,
            pauses: 0,
            pauses_known: 0,
            samples: 0,
            delivered: 0,
            began: None,
            cwnd_est: None,
            rtt_est_us: None,
            rtt_min_us: None,
            window: None,
            explained: None,
            unexplained_us: None,
            above: None,
            probe: None,
            before_us: None,
            retry_us: None,
            acked: first,
            timestamp: 0,
            round: 0,
            slot: 0,
        };
        if let Some(rtt) = handshake {
            new.on_handshake((rtt.as_nanos() / 1_000).clamp(1, RTT_MAX_US), micros(now), path);
        }
        new
    }

    fn on_handshake(&mut self, rtt_us: u64, now_us: u64, path: &mut SharedPath) {
        self.rtt_min_us = Some(rtt_us);
        if !self.params.shares {
            return;
        }
        path.turn(now_us);
        // Where nothing came between the SYN and its answer, no queue of ours was in between.
        let may_have_waited = path.data_us + rtt_us >= now_us;
        let known = path.peers.get_mut(&self.agreed.remote);
        if let Some(peer) = known.filter(|peer| now_us - peer.confirmed_us < PEER_FORGOTTEN_US) {
            if may_have_waited {
                self.rtt_min_us = Some(rtt_us.min(peer.rtt_min_us));
            } else {
                // So the path is another since, as after a hand-over.
                *peer = Peer { rtt_min_us: rtt_us, confirmed_us: now_us };
            }
        } else if let Some(queue) = path.queue_us(now_us).filter(|queue| *queue < rtt_us) {
            // A queue of theirs is at most λ − 1 round trips. A longer one than the handshake has left in part.
            let least = rtt_us * 1_000 / u64::from(self.params.lambda_permille.max(1));
            self.rtt_min_us = Some((rtt_us - queue).max(least.min(rtt_us)).max(1));
        }
    }

    fn by_timestamps(&self) -> bool {
        self.agreed.timestamps && !self.params.without_timestamps
    }

    /// Takes in a segment with data from the other host.
    pub fn on_data(&mut self, data: &DataIn, now: Instant, path: &mut SharedPath) {
        let now_us = micros(now);
        if self.params.shares {
            path.data_us = now_us;
        }
        let patience = self.rtt_est_us.map_or(PAUSE_US, |rtt| 2 * rtt);
        let is_after_silence = self.data_us.is_some_and(|last| now_us - last > patience);
        let echo = data.echo.unwrap_or(0);
        let knew_all = data.seq == self.acked && (!self.by_timestamps() || echo == self.timestamp);
        self.data_us = Some(now_us);
        if is_after_silence && knew_all {
            // The server knew all our acknowledgements, and had nothing to send before: no round trip.
            self.pauses += 1;
            self.taken = self.mark;
            return;
        }
        let Some(mark) = self.mark.filter(|mark| self.taken != Some(*mark)) else { return };
        let elapsed = u64::from((now_us as u32).wrapping_sub(mark.at_us));
        let answered_after = if self.by_timestamps() {
            match data.echo.map(|echo| (echo.wrapping_sub(mark.told)).cast_signed()) {
                None | Some(..0) => return,
                Some(0) => Some(elapsed),
                // A server that sends in bunches answers a later acknowledgement of the bunch.
                Some(ticks) => {
                    let later = self.tick_us.map(|tick| u64::from(ticks.unsigned_abs()) * u64::from(tick));
                    later.and_then(|later| elapsed.checked_sub(later)).filter(|rtt| *rtt > 0)
                }
            }
        } else {
            if !SeqNum::new(mark.told).is_before(data.seq + data.len) {
                return;
            }
            Some(elapsed)
        };
        self.taken = Some(mark);
        if let Some(rtt) = answered_after {
            let rtt = rtt.clamp(1, RTT_MAX_US);
            let best = self.best.filter(|(round, _)| *round == self.round).map_or(rtt, |(_, b)| b.min(rtt));
            self.best = Some((self.round, best));
            self.samples += 1;
        }
    }

    /// The window field to send instead of the kernel's, of a segment with ACK.
    pub fn on_ack(&mut self, ack: &AckOut, now: Instant, path: &mut SharedPath) -> u16 {
        let now_us = micros(now);
        if let Some(timestamp) = ack.timestamp {
            self.timestamp = timestamp;
            self.learn_tick(timestamp, now_us);
        }
        if self.acked.is_before(ack.ack) {
            self.delivered += u64::from(ack.ack.since(self.acked));
            self.acked = ack.ack;
        }
        self.on_delivered(now_us, path);
        let limit = self.window.unwrap_or(self.params.initial_window.get());
        let field = self.field.lower(ack.ack, ack.window, Bytes::new(limit));
        self.set_mark(ack, now_us);
        field
    }

    /// One past the last number that the other host was ever allowed.
    #[must_use]
    pub fn edge(&self) -> SeqNum {
        self.field.edge()
    }

    /// Finds out what TSval counts: milliseconds, or microseconds where a route says so.
    fn learn_tick(&mut self, timestamp: u32, now_us: u64) {
        let Some(first) = self.first else {
            self.first = Some(Mark { told: timestamp, at_us: now_us as u32 });
            return;
        };
        let elapsed = u64::from((now_us as u32).wrapping_sub(first.at_us));
        if self.is_tick_known || elapsed < TICK_TIME_US {
            return;
        }
        let ticks = u64::from(timestamp.wrapping_sub(first.told));
        let fits = |tick: u32| (ticks * u64::from(tick)).abs_diff(elapsed) <= 4_000 + elapsed / 64;
        self.tick_us = [1_000, 1].into_iter().find(|tick| fits(*tick));
        self.is_tick_known = true;
    }

    fn set_mark(&mut self, ack: &AckOut, now_us: u64) {
        if self.mark.is_some() && self.taken != self.mark {
            return;
        }
        let told = if self.by_timestamps() {
            let Some(value) = ack.timestamp else { return };
            let is_new = self.mark.is_none_or(|mark| mark.told.wrapping_sub(value).cast_signed() < 0);
            // What carries data is answered when the other program has thought about it.
            if ack.has_payload || !is_new {
                return;
            }
            value
        } else {
            self.edge().get()
        };
        self.mark = Some(Mark { told, at_us: now_us as u32 });
    }

    fn on_delivered(&mut self, now_us: u64, path: &mut SharedPath) {
        if self.pauses_known != self.pauses {
            self.pauses_known = self.pauses;
            self.began = None;
            self.round = self.round.wrapping_add(1);
        }
        let Some((since, before)) = self.began else {
            self.began = Some((now_us, self.delivered));
            return;
        };
        let best = self.best.filter(|(round, _)| *round == self.round).map(|(_, rtt)| rtt);
        let Some(rtt) = best.or(self.rtt_est_us) else { return };
        let elapsed = now_us - since;
        if elapsed < rtt || elapsed == 0 {
            return;
        }
        // A round ends late where acknowledgements are bunched: a round trip's share of it counts.
        let data = (self.delivered - before).min(DATA_MAX) * rtt / elapsed;
        self.end_round(rtt, data, now_us, path);
        self.began = Some((now_us, self.delivered));
        self.round = self.round.wrapping_add(1);
    }

    fn end_round(&mut self, rtt: u64, data: u64, now_us: u64, path: &mut SharedPath) {
        self.rtt_est_us = Some(rtt);
        let was_halved = self.probe.is_some();
        let rtt_min =
            self.re_baseline(rtt, self.rtt_min_us.map_or(rtt, |least| least.min(rtt)), now_us, path);
        self.rtt_min_us = Some(rtt_min);
        let known = self.cwnd_est.filter(|_| was_halved);
        let estimate = known.unwrap_or_else(|| self.estimate(rtt, rtt_min, data << FRACTION_BITS));
        self.cwnd_est = Some(estimate);
        let own = estimate >> FRACTION_BITS;
        let cwnd = if self.params.shares { self.share(own, rtt, rtt_min, now_us, path) } else { own };
        let window = (cwnd * u64::from(self.params.lambda_permille) / 1_000).min(WINDOW_MAX) * rtt_min / rtt;
        // What the round trip has become in the meantime does not count: half of what it was.
        let window = self.probe.map_or(window, |probe| (window * rtt / probe.rtt_us / 2).min(window));
        self.window = Some(window.max(2 * self.mss));
    }

    fn estimate(&self, rtt: u64, rtt_min: u64, data: u64) -> u64 {
        let Some(old) = self.cwnd_est.filter(|old| *old > 0) else { return data };
        let has_queue = rtt * 2 > rtt_min * 3;
        // What others fill is no empty path: a window that doubles into it would take all of it.
        if self.params.is_free_without_queue && !has_queue && self.before_us.is_none() {
            return old.max(data);
        }
        let alpha = u64::from(self.params.alpha_permille);
        (old * alpha + data * (1_000 - alpha)) / 1_000
    }

    /// True when a queue of λ round trips, and a quarter, explains the round trip. Without the quarter where
    /// RTT_min has been given in to others: they may still be filling.
    fn is_explained(&self, rtt: u64, rtt_min: u64) -> bool {
        let quarters = if self.before_us.is_some() { 4 } else { 5 };
        rtt * 4_000 <= rtt_min * u64::from(self.params.lambda_permille) * quarters
    }

    /// RTT_min, learned anew when nothing of ours explains the round trips, or tried again.
    ///
    /// Long round trips may still be ours, where the capacity has fallen. A probe tells: half a window empties half
    /// of a queue of ours, and with λ ≥ 2 the link stays full.
    fn re_baseline(&mut self, rtt: u64, mut rtt_min: u64, now_us: u64, path: &mut SharedPath) -> u64 {
        let Some(after) = self.params.re_baseline else { return rtt_min };
        if self.retry_us.is_some_and(|retry| now_us >= retry) {
            rtt_min = rtt_min.min(self.before_us.unwrap_or(rtt_min));
            (self.before_us, self.retry_us, self.unexplained_us) = (None, None, None);
        }
        let Some(probe) = self.probe else {
            let has_shrunk_in_vain = self.has_shrunk_in_vain(rtt, rtt_min, now_us, path);
            let is_unexplained_for = self.is_unexplained_for(rtt, rtt_min, now_us);
            if has_shrunk_in_vain || is_unexplained_for.is_some_and(|us| us >= after.as_nanos() / 1_000) {
                self.probe = Some(Probe { rtt_us: rtt, least_us: rtt, rounds: 0 });
            }
            return rtt_min;
        };
        let probe = Probe { least_us: probe.least_us.min(rtt), rounds: probe.rounds + 1, ..probe };
        self.probe = Some(probe).filter(|probe| probe.rounds < PROBE_ROUNDS);
        if self.probe.is_some() {
            return rtt_min;
        }
        let explained = self.explained.filter(|_| self.unexplained_us.is_some());
        let explained = explained.map(|last| (last.cwnd_est, last.rtt_us));
        let before = explained.or(self.above.map(|first| (first.cwnd_est, first.rtt_us)));
        (self.unexplained_us, self.above) = (None, None);
        let own = self.cwnd_est.unwrap_or(0) >> FRACTION_BITS;
        let all = self.of_all(own, now_us, path);
        // Half of the window is `own / all / 2` of a queue that is ours; where five eighths of that went, most of it is.
        let is_own = (probe.rtt_us - probe.least_us) * 16 * all >= probe.rtt_us * 5 * own;
        if is_own {
            return rtt_min;
        }
        if let (Some(retry), None) = (self.params.retry, self.before_us) {
            self.before_us = Some(rtt_min);
            self.retry_us = Some(now_us + retry.as_nanos() / 1_000);
        }
        // What it has lost since, others have taken. The rate it had before fills more of longer round trips; less a
        // quarter, because the window is twice that until the queue has grown.
        let longer = |before_rtt: u64| (probe.least_us * 3 / 4).max(before_rtt);
        let filled = before.map(|(cwnd, rtt)| (cwnd.min(CWND_MAX) * longer(rtt) / rtt).min(CWND_MAX));
        self.cwnd_est = self.cwnd_est.max(filled);
        // What others fill is matched, not exceeded: the round trip settles at twice theirs.
        (probe.least_us * 2_000 / u64::from(self.params.lambda_permille.max(1))).clamp(1, rtt)
    }

    /// Time for which round trips have been unexplained, µs.
    fn is_unexplained_for(&mut self, rtt: u64, rtt_min: u64, now_us: u64) -> Option<u64> {
        if self.is_explained(rtt, rtt_min) {
            self.explained = Some(Explained { rtt_us: rtt, cwnd_est: self.cwnd_est.unwrap_or(0) });
            self.unexplained_us = None;
            return None;
        }
        Some(now_us - *self.unexplained_us.get_or_insert(now_us))
    }

    /// True when cwnd_est has lost a quarter, and the round trip above λ·RTT_min has not lost a sixteenth
    /// with it, as that of a queue of ours would. All connections of the interface have to have lost as much.
    fn has_shrunk_in_vain(&mut self, rtt: u64, rtt_min: u64, now_us: u64, path: &mut SharedPath) -> bool {
        if rtt * 1_000 <= rtt_min * u64::from(self.params.lambda_permille) {
            self.above = None;
            return false;
        }
        let Some(cwnd_est) = self.cwnd_est.filter(|estimate| *estimate > 0) else { return false };
        let all_bytes = self.of_all(cwnd_est >> FRACTION_BITS, now_us, path);
        let now = Above { rtt_us: rtt, cwnd_est, all_bytes };
        let first = self.above.filter(|first| rtt * 16 > first.rtt_us * 15).unwrap_or(now);
        self.above = Some(first);
        cwnd_est * 4 <= first.cwnd_est * 3 && all_bytes * 4 <= first.all_bytes * 3
    }

    /// Bytes of all connections of the interface in the last second, and at least this one's.
    fn of_all(&self, own: u64, now_us: u64, path: &mut SharedPath) -> u64 {
        if !self.params.shares {
            return own;
        }
        path.turn(now_us);
        path.before.bytes.max(own)
    }

    /// cwnd_est as the window is to use it: three quarters are the mean of the interface's connections.
    fn share(&mut self, cwnd: u64, rtt: u64, rtt_min: u64, now_us: u64, path: &mut SharedPath) -> u64 {
        path.turn(now_us);
        if self.before_us.is_none() {
            self.publish(rtt, rtt_min, now_us, path);
        }
        if self.slot != path.now.number {
            self.slot = path.now.number;
            path.now.connections += 1;
            path.now.bytes += cwnd;
        }
        let queue = rtt - rtt_min;
        path.now.queue_us = path.now.queue_us.min(queue);
        path.queue_until_us = path.queue_until_us.max(now_us + rtt + queue);
        if path.before.connections < 2 {
            return cwnd;
        }
        let mean = path.before.bytes / u64::from(path.before.connections);
        // Many small ones do not starve a large one.
        ((cwnd + 3 * mean) / 4).max(cwnd / 2)
    }

    fn publish(&self, rtt: u64, rtt_min: u64, now_us: u64, path: &mut SharedPath) {
        let known = path.peers.entry(self.agreed.remote);
        let peer = known.or_insert(Peer { rtt_min_us: u64::MAX, confirmed_us: now_us });
        let is_forgotten = now_us - peer.confirmed_us >= PEER_FORGOTTEN_US;
        if is_forgotten || rtt_min < peer.rtt_min_us {
            *peer = Peer { rtt_min_us: rtt_min, confirmed_us: now_us };
        } else if self.is_explained(rtt, peer.rtt_min_us) {
            peer.confirmed_us = now_us;
        }
    }
}

#[cfg(test)]
#[path = "receiver/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "receiver/queue_tests.rs"]
mod queue_tests;
