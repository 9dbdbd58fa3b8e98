//! `drwa`: a receive window that follows what the path delivers. \[DR\].
//!
//! An unmodified server fills a deep radio queue up to the receive window. So let the window be what the path
//! delivers in a round trip, times a factor, less the more of the round trip is queue:
//!
//! ```text
//!   once per RTT_est, when data has been delivered:
//!     RTT_min  ← min(RTT_min, RTT_est)
//!     cwnd_est ← α·cwnd_est + (1 − α)·data            first round: cwnd_est = data
//!     rwnd     ← λ·(RTT_min ÷ RTT_est)·cwnd_est        at least 2 MSS
//! ```
//!
//! A server that fills the window gets cwnd_est = rwnd, so the round trip settles at λ·RTT_min,
//! whatever the queue could hold. λ above 2 lets slow start double.
//!
//! What the paper's algorithm does in a receiver's kernel is split here: [`Drwa`] computes the
//! window from round trips and delivered bytes, and [`WindowField`] states it so that the right
//! edge never moves back. Who measures, a receiver or a box between the hosts, is not its business.
//!
//! DEVIATION: without a queue (RTT_est below 3/2 of RTT_min) the estimate rises to what was
//! delivered at once and never falls: α = 7/8 lets the window grow by a quarter per round trip,
//! where slow start doubles, and a server with little to say would be left with a window of two
//! segments for its next long answer. Shown by `tests::slow_start_is_not_held_back` and
//! `tests::a_quiet_server_keeps_its_window`; [`DrwaParams::paper`] has neither.
//!
//! DEVIATION: a round trip above 5/4 of λ·RTT_min cannot be the flow's own queue for long. After
//! `re_baseline` of nothing else RTT_min becomes the smallest of that time (H17). Shown by
//! `tests::a_longer_path_is_noticed`.

pub mod receiver;

use units::{Bytes, Duration, Instant, SeqNum, WindowScale};

/// Parameters of [`Drwa`]; the defaults are \[DR\]'s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct DrwaParams {
    /// α: weight of the old estimate, in thousandths, 0 to 1000. 875 (7/8).
    pub alpha_permille: u32,
    /// λ: windows of a round trip that may be under way, in thousandths. 3000 (3).
    pub lambda_permille: u32,
    /// rwnd before the first round has ended. 64 KiB: a receiver's window begins with as much, and
    /// what is allowed once cannot be taken back.
    pub initial_window: Bytes,
    /// Without a queue the estimate follows more data at once, and never less. True; false follows the paper.
    pub is_free_without_queue: bool,
    /// Time for which round trips must exceed what the window explains until RTT_min is learned
    /// anew. 10 s; `None` follows the paper.
    pub re_baseline: Option<Duration>,
}

impl Default for DrwaParams {
    fn default() -> Self {
        Self {
            alpha_permille: 875,
            lambda_permille: 3_000,
            initial_window: Bytes::from_kib(64),
            is_free_without_queue: true,
            re_baseline: Some(Duration::from_secs(10)),
        }
    }
}

impl DrwaParams {
    /// The paper's algorithm without additions, for reproduction.
    #[must_use]
    pub fn paper() -> Self {
        Self { is_free_without_queue: false, re_baseline: None, ..Self::default() }
    }
}

/// Fraction bits of an estimate, in 2⁻⁸ bytes: with α = 7/8 whole bytes would be lost to rounding.
const FRACTION_BITS: u32 = 8;

/// Round trips of a round, until it ends.
#[derive(Clone, Copy, Default, Debug, stored::Stored)]
struct Round {
    rtt_sum: Duration,
    rtts: u64,
}

/// \[DR\]'s dynamic receive window of one flow.
#[derive(Clone, Debug, stored::Stored)]
pub struct Drwa {
    params: DrwaParams,
    mss: Bytes,
    /// cwnd_est, with [`FRACTION_BITS`].
    cwnd_est: Option<u64>,
    rtt_est: Option<Duration>,
    rtt_min: Duration,
    window: Option<Bytes>,
    /// Time at which the round began, and the bytes delivered by then.
    began: Option<(Instant, Bytes)>,
    round: Round,
    /// Time since which round trips are longer than the window explains, and the smallest of them.
    unexplained: Option<(Instant, Duration)>,
}

impl Drwa {
    /// The initial window, for segments of `mss` bytes of payload.
    #[must_use]
    pub fn new(params: DrwaParams, mss: Bytes) -> Self {
        Self {
            params,
            mss: mss.max(Bytes::new(1)),
            cwnd_est: None,
            rtt_est: None,
            rtt_min: Duration::MAX,
            window: None,
            began: None,
            round: Round::default(),
            unexplained: None,
        }
    }

    /// rwnd: bytes the server may have under way.
    #[must_use]
    pub fn window(&self) -> Bytes {
        self.window.unwrap_or(self.params.initial_window)
    }

    /// RTT_est of the round that ended last.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt_est
    }

    /// Takes in the round trip of the handshake: RTT_min is at most that, however long the first
    /// rounds queue.
    pub fn on_handshake(&mut self, rtt: Duration) {
        if !rtt.is_zero() {
            self.rtt_min = self.rtt_min.min(rtt);
        }
    }

    /// Takes in a round trip from the server to the receiving application and back.
    pub fn on_rtt(&mut self, rtt: Duration) {
        self.round.rtt_sum += rtt;
        self.round.rtts += 1;
    }

    /// Takes in that `total` bytes have been delivered since the start; true when a round has ended
    /// and the window is a new one.
    pub fn on_delivered(&mut self, total: Bytes, now: Instant) -> bool {
        let Some((since, before)) = self.began else {
            self.began = Some((now, total));
            return false;
        };
        let Some(rtt) = self.measured_rtt() else { return false };
        let elapsed = now.saturating_since(since);
        if elapsed < rtt || elapsed.is_zero() {
            return false;
        }
        // The acknowledgement that ends a round comes late where acknowledgements are bunched: what
        // one round trip delivered is its share.
        let data = (total - before).mul_ratio(rtt.as_nanos(), elapsed.as_nanos());
        self.end_round(rtt, data, now);
        (self.began, self.round) = (Some((now, total)), Round::default());
        true
    }

    /// The server has had nothing to send: the time of it belongs to no round.
    pub fn on_pause(&mut self) {
        (self.began, self.round) = (None, Round::default());
    }

    /// The mean of the round, or that of the one before where no round trip could be measured.
    fn measured_rtt(&self) -> Option<Duration> {
        if self.round.rtts == 0 { self.rtt_est } else { Some(self.round.rtt_sum / self.round.rtts) }
    }

    fn end_round(&mut self, rtt: Duration, data: Bytes, now: Instant) {
        self.rtt_est = Some(rtt);
        self.rtt_min = self.rtt_min.min(rtt);
        self.re_baseline(rtt, now);
        let estimate = self.estimate(rtt, data);
        self.cwnd_est = Some(estimate);
        let cwnd = Bytes::new(estimate >> FRACTION_BITS);
        let window = cwnd
            .mul_ratio(u64::from(self.params.lambda_permille), 1_000)
            .mul_ratio(self.rtt_min.as_nanos(), rtt.as_nanos().max(1));
        self.window = Some(window.max(self.mss + self.mss));
    }

    fn estimate(&self, rtt: Duration, data: Bytes) -> u64 {
        let data = data.get().min(u64::MAX >> (FRACTION_BITS + 10)) << FRACTION_BITS;
        let Some(old) = self.cwnd_est else { return data };
        let has_queue = rtt > self.rtt_min.mul_ratio(3, 2);
        if self.params.is_free_without_queue && !has_queue {
            return old.max(data);
        }
        let alpha = u64::from(self.params.alpha_permille.min(1_000));
        (old * alpha + data * (1_000 - alpha)) / 1_000
    }

    fn re_baseline(&mut self, rtt: Duration, now: Instant) {
        let Some(after) = self.params.re_baseline else { return };
        let explained = self.rtt_min.mul_ratio(u64::from(self.params.lambda_permille) * 5, 4_000);
        if rtt <= explained {
            self.unexplained = None;
            return;
        }
        let (since, smallest) = self.unexplained.map_or((now, rtt), |(since, least)| (since, least.min(rtt)));
        self.unexplained = Some((since, smallest));
        if now.saturating_since(since) >= after {
            self.rtt_min = smallest;
            self.unexplained = None;
        }
    }
}

/// The window field of one flow's acknowledgements: lowered to a limit, never beyond the receiver's
/// own window, and never so that the right edge moves back (RFC 9293 §3.8.6).
#[derive(Clone, Copy, Debug, stored::Stored)]
pub struct WindowField {
    scale: WindowScale,
    /// One past the last number the sender was ever allowed.
    edge: SeqNum,
}

impl WindowField {
    /// `edge` is what the handshake allowed; `scale` that of the receiver's windows.
    #[must_use]
    pub fn new(edge: SeqNum, scale: WindowScale) -> Self {
        Self { scale, edge }
    }

    /// One past the last number the sender was ever allowed.
    #[must_use]
    pub fn edge(&self) -> SeqNum {
        self.edge
    }

    /// The field for an acknowledgement of `ack` in which the receiver says `own`; noted as told.
    ///
    /// Rounded up to the scale's unit: less would take back a part of what was allowed.
    pub fn lower(&mut self, ack: SeqNum, own: u16, limit: Bytes) -> u16 {
        let promised = self.edge.distance_from(ack).max(0).unsigned_abs();
        let least = limit.get().max(u64::from(promised));
        let field = own.min(least.div_ceil(1 << self.scale.shift()).min(u64::from(u16::MAX)) as u16);
        self.edge = self.edge.later_of(ack + self.scale.window(field));
        field
    }
}

#[cfg(test)]
#[path = "drwa/tests.rs"]
mod tests;
