//! [`Sender`]: what to send, what was lost, when to try again.
//!
//! Repair is SACK with RACK-TLP (RFC 8985) and a retransmission time-out that starts with one segment and
//! is taken back when the original turns out to have been delivered (RFC 5682, SACK form). Without SACK
//! it counts duplicate acknowledgements (RFC 6582). How *much* may be sent is not decided here: the
//! caller's controller gives [`SendLimits`], and loss is only reported to it.

use control::{LossKind, RateSampler, SendStamp};
use units::{Duration, Instant, SeqNum};
use wire::SackBlocks;

use crate::rack::Rack;
use crate::rtt::RttEstimator;
use crate::scoreboard::{Scoreboard, SendOrder, Sent};

mod bet;
mod losses;
mod memory;
mod timers;

use bet::Bet;
pub use timers::TimeoutOutcome;
use timers::Timers;

/// Whether the peer's window limits what is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WindowPolicy {
    /// Never send beyond the window (RFC 9293).
    #[default]
    Honour,
    /// Send beyond it unless it is zero, betting that it will have moved by the time data arrives (\[MA\]).
    Opportunistic,
}

/// What a connection agreed on.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// First sequence number to send.
    pub start: SeqNum,
    /// Payload bytes per segment at most, options deducted.
    pub mss: u32,
    /// The peer reports SACK blocks.
    pub sack: bool,
    /// The peer's window in bytes at the start.
    pub window: u32,
    /// Whether it limits what is sent.
    pub policy: WindowPolicy,
    /// Longest retransmission time-out. After an outage the first attempt comes at most this late.
    pub rto_max: Duration,
    /// Segments that one time-out sends at most. The first in a row sends one, each further one twice as many, within the
    /// caller's room: the back-off takes nothing from the rate of attempts. 1 for RFC 6298's single one.
    pub timeout_segments: u8,
}

/// What the caller allows for one transmission.
#[derive(Clone, Copy, Debug)]
pub struct SendLimits {
    /// Payload bytes of one transmission at most: pacing's quantum. At least one segment is always tried.
    pub quantum: u32,
    /// Bytes that may still be added to what is in flight.
    pub window_room: u32,
}

/// One transmission to make now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// Number of its first byte.
    pub seq: SeqNum,
    /// Bytes of payload; may exceed the MSS, to be cut into segments by whoever sends it.
    pub len: u32,
    /// It ends the stream.
    pub fin: bool,
    /// It was sent before.
    pub is_retransmission: bool,
    /// It carries nothing and only asks for an acknowledgement.
    pub is_probe: bool,
}

/// An acknowledgement from the peer.
#[derive(Clone, Copy, Debug)]
pub struct AckIn<'a> {
    /// Its acknowledgement number.
    pub ack: SeqNum,
    /// Its window in bytes, scaled.
    pub window: u32,
    /// Its SACK blocks.
    pub sack: &'a SackBlocks,
    /// It also carries data, so that it is no duplicate (RFC 5681 §2).
    pub has_payload: bool,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckOutcome {
    /// Bytes the left edge moved by.
    pub acked: u32,
    /// Bytes newly reported as delivered, cumulatively or selectively.
    pub delivered: u32,
    /// Stamp of the newest transmission among them, for a rate sample.
    pub newest: Option<SendStamp>,
    /// Round trip of the newest segment that was sent only once.
    pub rtt: Option<Duration>,
    /// Bytes that reached the peer and were discarded by it, because they lay beyond its window (H18): the path has
    /// carried them as well as any.
    pub discarded: u32,
    /// The peer's window in bytes.
    pub window: u32,
    /// Bytes newly marked lost on the way; not those that will be discarded.
    pub lost: u32,
    /// A new recovery episode began.
    pub is_new_loss: bool,
    /// It repeats what was known: no new delivery, no window change.
    pub is_duplicate: bool,
    /// It reports something that arrived twice (D-SACK).
    pub has_d_sack: bool,
    /// It acknowledges what was never sent; nothing was changed.
    pub is_unacceptable: bool,
    /// SACK blocks that make no sense here (H12).
    pub invalid_sack_blocks: u32,
    /// A time-out turned out to be needless and was taken back.
    pub undid_timeout: bool,
    /// Not all that had been sent when a loss was found has been acknowledged.
    pub is_recovering: bool,
    /// The window is honoured for a while: the peer discards what is sent beyond it (H18).
    pub fell_back: bool,
}

/// A time-out being recovered from (RFC 5682 §3).
#[derive(Clone, Copy, Debug)]
struct TimeoutEpisode {
    /// Highest number sent when it fired.
    recover: SeqNum,
    phase: TimeoutPhase,
    /// Segments it is still to send.
    left: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TimeoutPhase {
    /// The oldest segment is to be sent again, after several time-outs in a row more of them, and nothing else.
    FirstSegment,
    /// They were; until their fate is known nothing more is sent.
    Waiting,
    /// The loss was real: everything marked lost goes out.
    Recovering,
}

/// The sending half of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SenderConfig,
    board: Scoreboard,
    rack: Rack,
    rtt: RttEstimator,
    timers: Timers,
    /// One past the last byte that may be sent.
    data_end: SeqNum,
    /// The stream ends at `data_end`.
    has_fin: bool,
    fin_sent: bool,
    window: u32,
    /// Acknowledgement number the window came with (RFC 9293 §3.10.7.4).
    window_ack: SeqNum,
    /// Recovery ends when this is acknowledged.
    recover: Option<SeqNum>,
    timeout: Option<TimeoutEpisode>,
    duplicate_acks: u32,
    /// Of those, the ones that no discarded segment explains.
    unexplained_acks: u32,
    /// What was sent last when something was sent again: until more than that is acknowledged, copies may be on their way.
    resent_until: SeqNum,
    /// Ask for a transmission out of turn: a tail loss probe or a window probe.
    probe_due: Option<Probe>,
    retransmitted_bytes: u64,
    bet: Bet,
    /// Bytes that the peer will discard when they arrive: given up, but still on their way.
    doomed: u32,
    /// The last transmission that was given up like that.
    doomed_until: Option<SendOrder>,
    /// Smallest window told since the left edge moved last, and the widest ever.
    least_window: u32,
    widest_window: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Probe {
    /// RFC 8985 §7.3.
    TailLoss,
    /// RFC 9293 §3.8.6.1.
    Window,
}

impl Sender {
    /// A sender that has sent nothing.
    #[must_use]
    pub fn new(config: SenderConfig) -> Self {
        Self {
            board: Scoreboard::new(config.start),
            rack: Rack::new(config.start),
            rtt: RttEstimator::default(),
            timers: Timers::new(config.rto_max),
            data_end: config.start,
            has_fin: false,
            fin_sent: false,
            window: config.window,
            window_ack: config.start,
            recover: None,
            timeout: None,
            duplicate_acks: 0,
            unexplained_acks: 0,
            resent_until: config.start - 1,
            probe_due: None,
            retransmitted_bytes: 0,
            bet: Bet::default(),
            doomed: 0,
            doomed_until: None,
            least_window: config.window,
            widest_window: config.window,
            config,
        }
    }

    /// The oldest unacknowledged number.
    #[must_use]
    pub fn una(&self) -> SeqNum {
        self.board.una()
    }
    /// The next number to send.
    #[must_use]
    pub fn nxt(&self) -> SeqNum {
        self.board.nxt()
    }
    /// Bytes believed to be in the network, those included that the peer will discard.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.board.in_flight().saturating_add(self.doomed)
    }
    /// True when nothing waits for an acknowledgement.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.board.is_empty()
    }
    /// The peer's window in bytes.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.window
    }
    /// Round-trip figures of this connection.
    #[must_use]
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    /// Payload bytes sent more than once.
    #[must_use]
    pub fn retransmitted_bytes(&self) -> u64 {
        self.retransmitted_bytes
    }
    /// Largest payload of one segment.
    #[must_use]
    pub fn mss(&self) -> u32 {
        self.config.mss
    }
    /// Changes whether the peer's window limits what is sent.
    pub fn set_window_policy(&mut self, policy: WindowPolicy) {
        self.config.policy = policy;
    }
    /// Lowers the segment size, because the path turned out narrower (RFC 1191); returns the bytes under way that
    /// were too long for it and are to be sent again.
    pub fn on_path_mtu(&mut self, mss: u32) -> u32 {
        let mss = mss.max(64);
        let old = self.config.mss;
        if mss >= old {
            return 0;
        }
        self.config.mss = mss;
        let mut lost = 0;
        for index in 0..self.board.len() {
            // The last segment of an entry may have fitted; it is no harm to send it again.
            if self.board.entry(index).is_some_and(|e| e.len() > mss) {
                lost += self.board.mark_lost(index);
            }
        }
        lost
    }

    /// Says that bytes up to `end` may be sent, and whether the stream ends there.
    pub fn set_available(&mut self, end: SeqNum, fin: bool) {
        self.data_end = self.data_end.later_of(end);
        self.has_fin |= fin && end == self.data_end;
    }

    /// True when everything, the end included, has been acknowledged.
    #[must_use]
    pub fn is_fin_acked(&self) -> bool {
        self.fin_sent && self.board.una() == self.data_end + 1
    }

    /// True when all data has been acknowledged; a FIN need not be.
    #[must_use]
    pub fn is_data_acked(&self) -> bool {
        self.board.una().is_at_or_after(self.data_end)
    }

    /// Sends beyond the window, and has not had to stop that (H18).
    fn is_opportunistic(&self) -> bool {
        self.config.policy == WindowPolicy::Opportunistic && !self.bet.is_paused()
    }

    /// Bytes that may be under way beyond the window.
    fn stake(&self) -> u32 {
        if self.is_opportunistic() && self.window > 0 { self.bet.stake() } else { 0 }
    }

    /// One past the last number the peer's window allows.
    fn right_edge(&self) -> SeqNum {
        self.window_ack + self.window
    }

    /// Bytes of new data the peer's window has room for.
    fn peer_room(&self) -> u32 {
        let within = i64::from(self.right_edge().distance_from(self.board.nxt()));
        u32::try_from((within + i64::from(self.stake())).max(0)).unwrap_or(u32::MAX)
    }

    /// Bytes waiting to be sent for the first time.
    #[must_use]
    pub fn unsent(&self) -> u32 {
        self.data_end.distance_from(self.board.nxt()).max(0).unsigned_abs()
    }

    /// True when there is something to send that neither the peer's window nor a recovery forbids.
    #[must_use]
    pub fn wants_to_send(&self) -> bool {
        self.probe_due.is_some() || self.may_retransmit() || self.new_len(u32::MAX).is_some()
    }

    /// True when there is something to send that must not wait for room: a probe, or the oldest segment again.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.probe_due.is_some() || (self.is_head_lost() && self.may_retransmit())
    }

    fn may_retransmit(&self) -> bool {
        if self.board.lost_bytes() == 0 {
            return false;
        }
        match self.timeout_phase() {
            Some(TimeoutPhase::FirstSegment) => true,
            Some(TimeoutPhase::Waiting) => false,
            _ => !self.discards_all() && self.may_repair(),
        }
    }

    /// All that is under way was sent beyond a window that has shut: a time-out may probe it, no more.
    fn discards_all(&self) -> bool {
        self.window == 0 && self.is_beyond_window()
    }

    /// More is under way than the window holds: it was sent opportunistically, or the window has shrunk.
    fn is_beyond_window(&self) -> bool {
        self.board.nxt().is_after(self.right_edge())
    }

    /// The window has room for what was lost, where the window is honoured.
    fn may_repair(&self) -> bool {
        let stake = self.stake();
        if stake == u32::MAX || !self.is_beyond_window() {
            return true;
        }
        let first = self.board.first_lost().and_then(|index| self.board.entry(index));
        first.is_some_and(|entry| entry.seq.is_before(self.right_edge() + stake))
    }

    fn timeout_phase(&self) -> Option<TimeoutPhase> {
        self.timeout.map(|t| t.phase)
    }

    /// Length of the next first transmission within `quantum`, or `None` when there is none to make.
    ///
    /// A segment shorter than the MSS is sent only when it ends what is available, or when the peer's
    /// window will not grow without an acknowledgement (RFC 9293 §3.8.6.2.1).
    fn new_len(&self, quantum: u32) -> Option<u32> {
        if self.timeout_phase().is_some_and(|phase| phase != TimeoutPhase::Recovering) {
            return None;
        }
        let unsent = self.unsent();
        if unsent == 0 {
            return (self.has_fin && !self.fin_sent).then_some(0);
        }
        let room = self.peer_room();
        let mss = self.config.mss.max(1);
        let whole = quantum.max(mss) / mss * mss;
        let len = unsent.min(room).min(whole);
        if len == unsent || len == whole {
            return Some(len);
        }
        let full = len / mss * mss;
        if full == 0 && self.board.is_empty() && len > 0 {
            return Some(len);
        }
        (full > 0).then_some(full)
    }

    /// The next transmission to make at `now`, noted as made; `None` when there is none within the limits.
    pub fn poll(
        &mut self,
        limits: SendLimits,
        sampler: &mut RateSampler,
        is_path_idle: bool,
        now: Instant,
    ) -> Option<Transmission> {
        if let Some(probe) = self.probe_due.take() {
            return self.send_probe(probe, sampler, is_path_idle, now);
        }
        if self.may_retransmit()
            && let Some(index) = self.board.first_lost()
        {
            return self.resend(index, limits, sampler, is_path_idle, now);
        }
        let len = self.new_len(limits.quantum)?;
        if len > limits.window_room {
            let mss = self.config.mss.max(1);
            // With nothing under way one segment goes, or nothing would ever make room.
            let segments = (limits.window_room / mss).max(u32::from(is_path_idle));
            let len = len.min(segments.saturating_mul(mss));
            return (len > 0).then(|| self.send_new(len, sampler, is_path_idle, now));
        }
        Some(self.send_new(len, sampler, is_path_idle, now))
    }

    fn send_new(
        &mut self,
        len: u32,
        sampler: &mut RateSampler,
        is_path_idle: bool,
        now: Instant,
    ) -> Transmission {
        let seq = self.board.nxt();
        let fin = self.has_fin && seq + len == self.data_end;
        self.fin_sent |= fin;
        let stamp = sampler.on_send(is_path_idle, now);
        self.board.push(len + u32::from(fin), stamp);
        self.timers.on_send(&self.rtt, self.outstanding_segments(), self.allows_tail_probe(), now);
        Transmission { seq, len, fin, is_retransmission: false, is_probe: false }
    }

    /// Sends an entry again, within the limits; the oldest one always, after a time-out one segment of it.
    fn resend(
        &mut self,
        index: usize,
        limits: SendLimits,
        sampler: &mut RateSampler,
        is_path_idle: bool,
        now: Instant,
    ) -> Option<Transmission> {
        let mss = self.config.mss.max(1);
        let is_first = self.timeout_phase() == Some(TimeoutPhase::FirstSegment);
        let allowed = limits.quantum.min(limits.window_room) / mss * mss;
        let most = match allowed {
            _ if is_first && index == 0 => mss,
            allowed if is_first && allowed >= mss => mss,
            0 if index == 0 || limits.window_room >= mss => mss,
            0 => return None,
            allowed => allowed,
        };
        let entry = *self.board.entry(index)?;
        let payload = entry.len() - u32::from(self.is_fin_entry(&entry));
        if payload > most {
            self.board.split_at(entry.seq + most);
        }
        let entry = *self.board.entry(index)?;
        let stamp = sampler.on_send(is_path_idle, now);
        self.board.retransmitted(index, stamp);
        if let Some(episode) = self.timeout.as_mut().filter(|_| is_first) {
            episode.left = episode.left.saturating_sub(1);
            if episode.left == 0 {
                episode.phase = TimeoutPhase::Waiting;
            }
        }
        self.timers.on_send(&self.rtt, self.outstanding_segments(), self.allows_tail_probe(), now);
        Some(self.as_retransmission(&entry))
    }

    fn is_fin_entry(&self, entry: &Sent) -> bool {
        self.fin_sent && entry.end == self.data_end + 1
    }

    fn as_retransmission(&mut self, entry: &Sent) -> Transmission {
        let fin = self.is_fin_entry(entry);
        let len = entry.len() - u32::from(fin);
        self.retransmitted_bytes += u64::from(len);
        self.resent_until = self.board.nxt();
        Transmission { seq: entry.seq, len, fin, is_retransmission: true, is_probe: false }
    }

    fn send_probe(
        &mut self,
        probe: Probe,
        sampler: &mut RateSampler,
        is_path_idle: bool,
        now: Instant,
    ) -> Option<Transmission> {
        if probe == Probe::Window {
            // An old number without data: the peer must answer with its window.
            return Some(Transmission {
                seq: self.board.una() - 1,
                len: 0,
                fin: false,
                is_retransmission: false,
                is_probe: true,
            });
        }
        let mss = self.config.mss.max(1);
        if self.unsent() > 0 && self.new_len(mss).is_some_and(|len| len > 0) {
            let len = self.unsent().min(mss).min(self.peer_room());
            let sent = self.send_new(len, sampler, is_path_idle, now);
            // RFC 8985 §7.3: new data is a probe as well, and the time-out comes next.
            self.timers.on_probe(&self.rtt, now);
            return Some(sent);
        }
        let last = *self.board.back()?;
        if last.len() > mss + 1 {
            self.board.split_at(last.end - mss);
        }
        let index = self.board.len().checked_sub(1)?;
        let entry = *self.board.entry(index)?;
        if entry.is_sacked {
            return None;
        }
        let stamp = sampler.on_send(is_path_idle, now);
        self.board.retransmitted(index, stamp);
        self.timers.on_probe(&self.rtt, now);
        Some(self.as_retransmission(&entry))
    }

    /// Segments between the oldest unacknowledged number and the next one, a FIN alone included: an entry may hold many.
    fn outstanding_segments(&self) -> u32 {
        self.board.nxt().since(self.board.una()).div_ceil(self.config.mss.max(1))
    }

    /// RFC 8985 §7.2: a probe helps when a SACK can answer it and no recovery is under way.
    fn allows_tail_probe(&self) -> bool {
        self.config.sack && self.recover.is_none() && self.timeout.is_none()
    }

    /// Takes in an acknowledgement.
    pub fn on_ack(&mut self, ack: &AckIn<'_>, now: Instant) -> AckOutcome {
        let mut out = AckOutcome::default();
        if ack.ack.is_after(self.board.nxt()) {
            out.is_unacceptable = true;
            return out;
        }
        let old_window = (self.window, self.window_ack);
        let was_shut = self.discards_all();
        self.update_window(ack);
        self.take_d_sack(ack, &mut out);
        let was_alive = self.take_deliveries(ack, &mut out, now);
        if out.acked > 0 {
            (self.duplicate_acks, self.unexplained_acks) = (0, 0);
            self.timers.on_progress();
        }
        self.note_window(out.acked > 0);
        out.window = self.window;
        let is_duplicate = out.acked == 0
            && ack.ack == self.board.una()
            && !ack.has_payload
            && (self.window, self.window_ack) == old_window
            && !self.board.is_empty();
        out.is_duplicate = is_duplicate && out.delivered == 0;
        let is_explained = self.count_doomed(out.is_duplicate && !out.has_d_sack, &mut out);
        self.judge_bet(old_window.0, &mut out);
        self.judge_timeout(was_shut, was_alive, &mut out);
        self.detect_losses(is_duplicate, is_explained, &mut out, now);
        self.end_recovery();
        if out.lost > 0 && self.recover.is_none() {
            self.recover = Some(self.board.nxt());
            out.is_new_loss = true;
        }
        out.is_recovering = self.recover.is_some();
        // Not for an acknowledgement without news: a peer that uploads sends those all the time.
        if out.acked > 0 || out.delivered > 0 || out.lost > 0 {
            self.timers.rearm(&self.rtt, self.outstanding_segments(), self.allows_tail_probe(), now);
        }
        self.arm_persist(now);
        out
    }

    /// Takes for sent and acknowledged what the peer has of elsewhere, up to `to`, of the data that may be sent; it has all that was sent.
    /// Does nothing otherwise.
    pub fn skip_to(&mut self, to: SeqNum) {
        if self.board.una() == self.board.nxt()
            && to.is_after(self.board.nxt())
            && to.is_at_or_before(self.data_end)
        {
            self.board.skip_to(to);
            self.window_ack = to;
        }
    }

    /// RFC 9293 §3.10.7.4: the window of an older acknowledgement is not taken.
    fn update_window(&mut self, ack: &AckIn<'_>) {
        if ack.ack.is_before(self.window_ack) {
            return;
        }
        self.window = ack.window;
        self.window_ack = ack.ack;
    }

    /// RFC 2883 §4: a first block below the acknowledgement, or inside the second one.
    fn take_d_sack(&mut self, ack: &AckIn<'_>, out: &mut AckOutcome) {
        let mut blocks = ack.sack.iter();
        let Some(first) = blocks.next() else { return };
        let inside_second = blocks
            .next()
            .is_some_and(|b| first.start.is_at_or_after(b.start) && first.end.is_at_or_before(b.end));
        if first.end.is_at_or_before(ack.ack) || inside_second {
            out.has_d_sack = true;
            self.rack.on_d_sack(ack.ack, self.board.nxt());
        }
    }

    /// True when something that was sent only once arrived.
    fn take_deliveries(&mut self, ack: &AckIn<'_>, out: &mut AckOutcome, now: Instant) -> bool {
        self.rack.on_acknowledgement();
        let entries_max = self.entries_max();
        let is_judging =
            self.config.sack && self.timeout_phase().is_some_and(|phase| phase != TimeoutPhase::Recovering);
        let min_rtt = self.rtt.min();
        let mut seen =
            Deliveries { rack: &mut self.rack, min_rtt, now, once: None, is_judging, sent_again: None, out };
        let old_una = self.board.una();
        let mut is_repair = false;
        if ack.ack.is_after(old_una) {
            self.board.acknowledge(ack.ack, |entry| {
                if !entry.is_sacked {
                    is_repair |= entry.is_retransmitted;
                    seen.on(entry);
                }
            });
            seen.out.acked = ack.ack.since(old_una);
        }
        // What lay behind a hole may have arrived long before the repair let it be acknowledged: its time is no round
        // trip (Karn; Linux `FLAG_RETRANS_DATA_ACKED`). A peer without SACK says it no earlier.
        let behind_repair = seen.once.take_if(|_| is_repair);
        let (una, nxt) = (self.board.una(), self.board.nxt());
        for (i, block) in ack.sack.iter().enumerate() {
            if i == 0 && seen.out.has_d_sack {
                continue;
            }
            if block.end.is_at_or_before(una) && block.start.is_before(block.end) {
                continue; // old news
            }
            if !block.start.is_before(block.end) || block.end.is_after(nxt) || block.start.is_before(una) {
                seen.out.invalid_sack_blocks += 1;
                continue;
            }
            self.board.sack(block.start, block.end, entries_max, |entry| seen.on(entry));
        }
        let (once, sent_again) = (seen.once, seen.sent_again);
        let was_alive = once.or(behind_repair).is_some();
        if let Some(entry) = sent_again.filter(|_| !was_alive) {
            self.rack.on_delivered(&entry, min_rtt, now);
        }
        if let Some(stamp) = once {
            let rtt = now.saturating_since(stamp.sent_at);
            self.rtt.on_sample(rtt, now);
            out.rtt = Some(rtt);
        }
        was_alive
    }

    /// RFC 5682 §3: did the segment that timed out, or only its acknowledgement, go missing?
    fn judge_timeout(&mut self, was_shut: bool, was_alive: bool, out: &mut AckOutcome) {
        let Some(episode) = self.timeout else { return };
        if out.delivered == 0 {
            if was_shut && self.window > 0 && episode.phase == TimeoutPhase::Waiting {
                // What probed the shut window was discarded like the rest.
                self.timeout = Some(TimeoutEpisode { phase: TimeoutPhase::Recovering, ..episode });
                out.lost += self.board.mark_lost(0);
            }
            return;
        }
        if self.config.sack && was_alive && episode.phase != TimeoutPhase::Recovering {
            // Something sent only once, and before the time-out, arrived: the flight was alive.
            self.board.unmark_all_lost();
            self.timeout = None;
            out.undid_timeout = true;
            return;
        }
        if let Some(episode) = self.timeout.as_mut() {
            episode.phase = TimeoutPhase::Recovering;
        }
        if self.board.una().is_at_or_after(episode.recover) {
            self.timeout = None;
        }
    }

    fn end_recovery(&mut self) {
        if self.recover.is_some_and(|recover| self.board.una().is_at_or_after(recover)) {
            self.recover = None;
            self.rack.on_recovery_end();
        }
    }

    /// The peer's window is shut (or too small for a segment) and nothing under way will bring news of it.
    fn arm_persist(&mut self, now: Instant) {
        let is_stuck = self.board.is_empty() && self.unsent() > 0 && self.new_len(u32::MAX).is_none();
        self.timers.set_persist(is_stuck, self.rtt.rto(), now);
    }

    /// When [`Sender::on_timeout`] wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline(self.board.is_empty())
    }

    /// Says that data or window may have changed without an acknowledgement.
    pub fn refresh_timers(&mut self, now: Instant) {
        self.arm_persist(now);
    }

    /// Acts on every timer that is due; calling it early does nothing.
    pub fn on_timeout(&mut self, now: Instant) -> TimeoutOutcome {
        let mut out = TimeoutOutcome::default();
        if self.timers.take_reordering(now) {
            self.board.take_lowest_marked();
            let mut lost = self.detect_by_time(now);
            lost += self.lose_behind(now).0;
            self.report_loss(lost, LossKind::Fast, &mut out);
        }
        if self.timers.take_persist(now) {
            self.probe_due = Some(Probe::Window);
            out.sent_probe = true;
        }
        if !self.board.is_empty() {
            if self.timers.take_tail_probe(now) {
                self.probe_due = Some(Probe::TailLoss);
                out.sent_probe = true;
                self.timers.arm_rto(&self.rtt, now);
            } else if self.timers.take_rto(now) {
                self.on_rto(&mut out, now);
            }
        }
        self.arm_persist(now);
        out
    }

    fn is_overdue(&self, index: usize, now: Instant) -> bool {
        self.board.entry(index).is_some_and(|e| self.rack.is_overdue(e, &self.rtt, now))
    }

    fn report_loss(&mut self, lost: u32, kind: LossKind, out: &mut TimeoutOutcome) {
        if lost > 0 {
            out.lost += lost;
            out.kind = Some(kind);
            if self.recover.is_none() {
                self.recover = Some(self.board.nxt());
                out.is_new_loss = true;
            }
        }
    }

    /// RFC 6298 §5.4–5.6, RFC 8985 §6.3: everything under way is suspect, one segment goes first.
    fn on_rto(&mut self, out: &mut TimeoutOutcome, now: Instant) {
        if self.board.front().is_some_and(|e| e.is_sacked) {
            self.board.forget_sacks(); // the peer reneged
        }
        self.doomed = 0;
        let mut lost = 0;
        for index in 0..self.board.len() {
            // What was sent within a round trip may well arrive yet (RFC 8985 §6.3); without SACK nobody would say so.
            let is_suspect = index == 0 || !self.config.sack || self.is_overdue(index, now);
            lost += if is_suspect { self.board.mark_lost(index) } else { 0 };
        }
        let is_first = self.timeout.is_none();
        self.timers.back_off(&self.rtt, now);
        let left = self.timers.attempts().min(self.config.timeout_segments.max(1));
        let phase = TimeoutPhase::FirstSegment;
        self.timeout = Some(TimeoutEpisode { recover: self.board.nxt(), phase, left });
        self.recover = Some(self.board.nxt());
        out.is_timeout = true;
        out.lost += lost;
        out.kind = Some(LossKind::Timeout);
        out.is_new_loss |= is_first;
    }
}

/// Collects what one acknowledgement delivered.
struct Deliveries<'a> {
    rack: &'a mut Rack,
    min_rtt: Option<Duration>,
    now: Instant,
    /// Newest of those sent only once.
    once: Option<SendStamp>,
    /// A time-out is being judged: which copy of the segment sent again arrived is not known yet.
    is_judging: bool,
    /// That segment.
    sent_again: Option<Sent>,
    out: &'a mut AckOutcome,
}

impl Deliveries<'_> {
    fn on(&mut self, entry: &Sent) {
        self.out.delivered += entry.len();
        if self.is_judging && entry.is_retransmitted {
            self.sent_again = Some(*entry);
        } else {
            self.rack.on_delivered(entry, self.min_rtt, self.now);
        }
        if self.out.newest.is_none_or(|s| s.sent_at <= entry.stamp.sent_at) {
            self.out.newest = Some(entry.stamp);
        }
        if !entry.is_retransmitted && self.once.is_none_or(|s| s.sent_at <= entry.stamp.sent_at) {
            self.once = Some(entry.stamp);
        }
    }
}

#[cfg(test)]
mod tests;
