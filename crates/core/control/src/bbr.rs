//! `bbr`: BBR version 1, as Linux has it.
//!
//! The bottleneck is described by two numbers that cannot be measured at the same time: its rate
//! shows when the queue is not empty, its round trip when it is. BBR keeps the largest delivery
//! rate of ten round trips and the smallest round trip of ten seconds, paces at the one and holds
//! about twice their product in flight; loss is no signal.
//!
//! ```text
//!   STARTUP ── no 25 % more in 3 rounds ──▶ DRAIN ── in flight ≤ BDP ──▶ PROBE_BW ◀──┐
//!   pace 2.89·B                             pace B÷2.89                 pace B·{5/4, 3/4, 1, 1, 1, 1, 1, 1}
//!      └───────────────────────────────────────┴── smallest RTT 10 s old ──▶ PROBE_RTT: 4 segments, 200 ms
//!
//!   B    = max delivery rate of 10 round trips         pacing rate = gain·B·99 %
//!   BDP  = B·RTprop                                    cwnd = cwnd gain·BDP + excess acknowledged + 3 bursts
//! ```
//!
//! | file | part |
//! |---|---|
//! | `bbr/model.rs` | B, RTprop, rounds, the BDP |
//! | `bbr/aggregation.rs` | what acknowledgements in bunches add to the window |
//! | `bbr/policer.rs` | the long-term rate behind a token bucket |
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00, N. Cardwell et al., "BBR:
//! Congestion-based congestion control", with what Linux added since: acknowledgement aggregation,
//! draining by what is in the network at the next departure, one per cent below the estimate.

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Control, Controller, Loss, LossKind, MSS_DEFAULT, Sent};

pub(crate) mod aggregation;
mod model;
mod policer;

use aggregation::Aggregation;
use model::Model;
use policer::Policer;

/// Parameters of [`Bbr`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct BbrParams {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// Seed of the phase in which PROBE_BW begins. Default 1.
    pub seed: u64,
}

impl Default for BbrParams {
    fn default() -> Self {
        Self { mss: MSS_DEFAULT, initial_window_segments: 10, seed: 1 }
    }
}

/// A gain in 256ths (Linux `BBR_UNIT`).
type Gain = u64;
const ONE: Gain = 256;
/// BBRHighGain: 2 ÷ ln 2, the smallest gain that doubles the rate every round (draft §4.3.2.1; Linux
/// `bbr_high_gain`).
const HIGH_GAIN: Gain = ONE * 2_885 / 1_000 + 1;
/// 1 ÷ BBRHighGain (draft §4.3.3; Linux `bbr_drain_gain`).
const DRAIN_GAIN: Gain = ONE * 1_000 / 2_885;
/// PROBE_BW holds two BDPs: delayed and bunched acknowledgements would stop it else (draft §4.2.3.2,
/// §4.3.4.3; Linux `bbr_cwnd_gain`).
const CWND_GAIN: Gain = 2 * ONE;
/// PROBE_BW's phases, each about a round trip: BBRGainCycleLen and the gains of draft §4.3.4.1 (Linux
/// `bbr_pacing_gain`).
const CYCLE: [Gain; 8] = [ONE * 5 / 4, ONE * 3 / 4, ONE, ONE, ONE, ONE, ONE, ONE];
/// BBRMinPipeCwnd: segments in flight in PROBE_RTT, and at least (draft §4.2.3.3, §4.3.5).
const SEGMENTS_MIN: u64 = 4;
/// ProbeRTTDuration: how long PROBE_RTT holds them (draft §4.3.5).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Rounds without [`FULL_GROWTH_PERCENT`] after which the pipe counts as full (draft §4.3.2.2).
const FULL_ROUNDS: u32 = 3;
/// A round without a quarter more has not grown (draft §4.3.2.2).
const FULL_GROWTH_PERCENT: u64 = 125;
/// Pacing rate in per cent of the estimate: less, for the queue to drain (Linux
/// `bbr_pacing_margin_percent`; the draft has none).
const PACING_PERCENT: u64 = 99;
/// Below it a burst is one segment, else at least two (draft §4.2.2; Linux `bbr_min_tso_rate`).
const LONE_SEGMENT_RATE: Rate = Rate::from_kbps(1_200);
/// Largest burst: 64 KB with the headers of a packet (draft §4.2.2; Linux `GSO_LEGACY_MAX_SIZE`,
/// `MAX_TCP_HEADER`).
const BURST_MAX: u64 = 65_535 - 320;
/// Round trip assumed before the first sample (draft §4.2.1).
const RTT_INITIAL: Duration = Duration::from_millis(1);

/// State of BBR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Mode {
    Startup,
    Drain,
    /// Probes in this phase of [`CYCLE`], since then.
    ProbeBw {
        phase: usize,
        since: Instant,
    },
    ProbeRtt(ProbeRtt),
}

/// PROBE_RTT: until few enough segments are in flight, then for a while and a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum ProbeRtt {
    Emptying,
    Holding { until: Instant, has_round_passed: bool },
}

/// The sender's state of repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Repair {
    None,
    Recovery,
    Timeout,
}

/// BBR version 1.
#[derive(Clone, Debug, stored::Stored)]
pub struct Bbr {
    mss: u64,
    initial_segments: u64,
    mode: Mode,
    model: Model,
    policer: Policer,
    aggregation: Aggregation,
    cwnd: u64,
    /// Window to be restored after a recovery or PROBE_RTT.
    prior_cwnd: u64,
    pacing_rate: Rate,
    has_rtt: bool,
    /// B when it last grew by a quarter, and rounds since.
    full_rate: Rate,
    full_rounds: u32,
    is_pipe_full: bool,
    repair: Repair,
    /// First round of a recovery: as much is sent as is acknowledged.
    conserves_packets: bool,
    is_restarting_from_idle: bool,
    /// Earliest departure of the next segment.
    next_send: Instant,
    /// State of the generator of PROBE_BW's first phase.
    random: u64,
}

impl Bbr {
    /// BBR in STARTUP.
    #[must_use]
    pub fn new(params: BbrParams) -> Self {
        let mss = params.mss.get().max(1);
        let cwnd = mss * params.initial_window_segments.max(1);
        let first_rate = Rate::from_transfer(Bytes::new(cwnd), RTT_INITIAL);
        Self {
            mss,
            initial_segments: params.initial_window_segments.max(1),
            mode: Mode::Startup,
            model: Model::new(),
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            cwnd,
            prior_cwnd: 0,
            pacing_rate: paced(first_rate, HIGH_GAIN),
            has_rtt: false,
            full_rate: Rate::from_bps(0),
            full_rounds: 0,
            is_pipe_full: false,
            repair: Repair::None,
            conserves_packets: false,
            is_restarting_from_idle: false,
            next_send: Instant::ZERO,
            random: params.seed,
        }
    }

    /// The estimated rate of the path.
    #[must_use]
    pub fn bandwidth(&self) -> Rate {
        self.policer.rate().unwrap_or(self.model.max_rate())
    }

    fn pacing_gain(&self) -> Gain {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw { .. } if self.policer.rate().is_some() => ONE,
            Mode::ProbeBw { phase, .. } => CYCLE[phase % CYCLE.len()],
            Mode::ProbeRtt(_) => ONE,
        }
    }

    fn cwnd_gain(&self) -> Gain {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw { .. } => CWND_GAIN,
            Mode::ProbeRtt(_) => ONE,
        }
    }

    /// Bytes of one burst: a millisecond's worth.
    fn burst(&self) -> u64 {
        let bytes = (self.pacing_rate.as_bps() / 8 / 1_024).min(BURST_MAX);
        let least = if self.pacing_rate < LONE_SEGMENT_RATE { 1 } else { 2 };
        (bytes / self.mss).clamp(least, 127) * self.mss
    }

    /// `gain`·BDP at `rate`, whole segments.
    fn bdp(&self, rate: Rate, gain: Gain) -> u64 {
        let Some(rtt) = self.model.min_rtt() else { return self.initial_segments * self.mss };
        let bits =
            u128::from(rate.as_bps()) * u128::from(rtt.as_nanos()) * u128::from(gain) / u128::from(ONE);
        let segments = bits.div_ceil(8_000_000_000 * u128::from(self.mss));
        u64::try_from(segments).unwrap_or(u64::MAX / self.mss).min(u64::MAX / self.mss / 2) * self.mss
    }

    /// Adds what the bursts at sender and receiver hold, so that the pipe is full in spite of them.
    fn with_bursts(&self, window: u64) -> u64 {
        let segments = (window + 3 * self.burst()).div_ceil(self.mss).next_multiple_of(2);
        let probing = matches!(self.mode, Mode::ProbeBw { phase: 0, .. });
        (segments + if probing { 2 } else { 0 }) * self.mss
    }

    fn in_flight_target(&self, gain: Gain) -> u64 {
        self.with_bursts(self.bdp(self.model.max_rate(), gain))
    }

    /// Bytes that will be in the network when the next segment leaves.
    fn in_network_at_departure(&self, in_flight: u64, now: Instant) -> u64 {
        let wait = self.next_send.saturating_since(now);
        let burst = if self.pacing_gain() > ONE { self.burst() } else { 0 };
        (in_flight + burst).saturating_sub(self.bandwidth().bytes_in(wait).get())
    }

    /// The mode's own reasons to end, in Linux's order.
    fn advance(&mut self, ack: &Ack) {
        self.advance_cycle(ack);
        self.judge_pipe(ack);
        self.check_drain(ack);
        self.probe_rtt(ack);
    }

    /// BBRCheckDrain: drains the queue of STARTUP, and goes on when no more than a BDP is in flight.
    fn check_drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.is_pipe_full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain
            && self.in_network_at_departure(ack.in_flight.get(), ack.now) <= self.in_flight_target(ONE)
        {
            self.enter_probe_bw(ack.now);
        }
    }

    fn advance_cycle(&mut self, ack: &Ack) {
        let Mode::ProbeBw { phase, since } = self.mode else { return };
        let is_full_length = self.model.min_rtt().is_some_and(|rtt| ack.now.saturating_since(since) > rtt);
        let gain = self.pacing_gain();
        let in_network = self.in_network_at_departure(ack.in_flight_before.get(), ack.now);
        let is_done = if gain > ONE {
            is_full_length && (ack.lost > Bytes::ZERO || in_network >= self.in_flight_target(gain))
        } else if gain < ONE {
            is_full_length || in_network <= self.in_flight_target(ONE)
        } else {
            is_full_length
        };
        if is_done {
            self.mode = Mode::ProbeBw { phase: (phase + 1) % CYCLE.len(), since: ack.now };
        }
    }

    /// The pipe is full when three rounds have not brought a quarter more.
    fn judge_pipe(&mut self, ack: &Ack) {
        let is_limited = ack.rate.is_none() || self.model.is_limited();
        if self.is_pipe_full || !self.model.is_round_start() || is_limited {
            return;
        }
        if self.model.max_rate() >= self.full_rate.mul_ratio(FULL_GROWTH_PERCENT, 100) {
            self.full_rate = self.model.max_rate();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.is_pipe_full = self.full_rounds >= FULL_ROUNDS;
    }

    /// Anywhere in the cycle but its draining phase, so that flows do not probe together.
    fn enter_probe_bw(&mut self, now: Instant) {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let phase = match (self.random >> 33) as usize % (CYCLE.len() - 1) {
            0 => 0,
            n => n + 1,
        };
        self.mode = Mode::ProbeBw { phase, since: now };
    }

    fn leave_probe_rtt(&mut self, now: Instant) {
        self.model.renew_min_rtt(now);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.is_pipe_full {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn probe_rtt(&mut self, ack: &Ack) {
        let is_expired = self.model.update_min_rtt(ack);
        if is_expired && !self.is_restarting_from_idle && !matches!(self.mode, Mode::ProbeRtt(_)) {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt(ProbeRtt::Emptying);
        }
        if let Mode::ProbeRtt(state) = self.mode {
            self.model.ignore_low_rates(ack);
            match state {
                ProbeRtt::Emptying if ack.in_flight.get() <= SEGMENTS_MIN * self.mss => {
                    let until = ack.now + PROBE_RTT_TIME;
                    self.mode = Mode::ProbeRtt(ProbeRtt::Holding { until, has_round_passed: false });
                    self.model.begin_round(ack.delivered_total);
                }
                ProbeRtt::Emptying => {}
                ProbeRtt::Holding { until, has_round_passed } => {
                    let has_round_passed = has_round_passed || self.model.is_round_start();
                    self.mode = Mode::ProbeRtt(ProbeRtt::Holding { until, has_round_passed });
                    if has_round_passed && ack.now > until {
                        self.leave_probe_rtt(ack.now);
                    }
                }
            }
        }
        if ack.delivered > Bytes::ZERO {
            self.is_restarting_from_idle = false;
        }
    }

    fn save_cwnd(&mut self) {
        let is_good = self.repair == Repair::None && !matches!(self.mode, Mode::ProbeRtt(_));
        self.prior_cwnd = if is_good { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    fn set_pacing_rate(&mut self, gain: Gain) {
        let rate = paced(self.bandwidth(), gain);
        if self.is_pipe_full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// The first round trip replaces the assumed one.
    fn take_first_rtt(&mut self, rtt: Duration) {
        if !self.has_rtt {
            self.has_rtt = true;
            let rate = Rate::from_transfer(Bytes::new(self.cwnd), rtt.max(Duration::from_micros(1)));
            self.pacing_rate = paced(rate, HIGH_GAIN);
        }
    }

    /// Lets one segment leave for one acknowledged in the first round of a recovery; true while it lasts.
    fn conserve(&mut self, ack: &Ack) -> bool {
        let repair = match (ack.is_recovering, self.repair) {
            (false, _) => Repair::None,
            (true, Repair::Timeout) => Repair::Timeout,
            (true, _) => Repair::Recovery,
        };
        self.cwnd = self.cwnd.saturating_sub(ack.lost.get()).max(self.mss);
        let carried = ack.in_flight.get() + ack.delivered.get();
        if repair == Repair::Recovery && self.repair != Repair::Recovery {
            self.conserves_packets = true;
            self.model.begin_round(ack.delivered_total);
            self.cwnd = carried;
        } else if repair == Repair::None && self.repair != Repair::None {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.conserves_packets = false;
        }
        self.repair = repair;
        if self.conserves_packets {
            self.cwnd = self.cwnd.max(carried);
        }
        self.conserves_packets
    }

    fn set_cwnd(&mut self, ack: &Ack) {
        if !self.conserve(ack) {
            let acked = ack.delivered.get();
            let mut target = self.bdp(self.bandwidth(), self.cwnd_gain());
            if self.is_pipe_full {
                target += self.aggregation.allowance(self.bandwidth());
            }
            let target = self.with_bursts(target);
            let first = self.initial_segments * self.mss;
            if self.is_pipe_full {
                self.cwnd = (self.cwnd + acked).min(target);
            } else if self.cwnd < target || ack.delivered_total.get() < first {
                self.cwnd += acked;
            }
            self.cwnd = self.cwnd.max(SEGMENTS_MIN * self.mss);
        }
        if matches!(self.mode, Mode::ProbeRtt(_)) {
            self.cwnd = self.cwnd.min(SEGMENTS_MIN * self.mss);
        }
    }
}

/// The rate to pace at for an estimate.
pub(crate) fn paced(rate: Rate, gain: Gain) -> Rate {
    rate.mul_ratio(gain * PACING_PERCENT, ONE * 100)
}

impl Controller for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.take_first_rtt(rtt);
        }
        if ack.delivered == Bytes::ZERO {
            // The handshake's round trip.
            self.model.update_min_rtt(ack);
            return;
        }
        if self.model.on_ack(ack) {
            self.conserves_packets = false;
        }
        if let Some(sample) = ack.rate {
            let is_probing = matches!(self.mode, Mode::ProbeBw { .. });
            let is_limited = self.model.is_limited();
            if self.policer.on_sample(ack, self.model.is_round_start(), is_limited, is_probing) {
                self.enter_probe_bw(ack.now);
            }
            self.model.take_rate(&sample);
            self.aggregation.on_ack(ack, self.bandwidth(), self.model.is_round_start(), self.cwnd);
        }
        self.advance(ack);
        self.set_pacing_rate(self.pacing_gain());
        self.set_cwnd(ack);
    }

    fn on_loss(&mut self, loss: &Loss) {
        if loss.is_new_event {
            self.save_cwnd();
        }
        self.policer.count_loss(loss.lost);
        if loss.kind == LossKind::Timeout {
            self.repair = Repair::Timeout;
            self.conserves_packets = false;
            self.full_rate = Rate::from_bps(0);
            self.cwnd = loss.in_flight.get() + self.mss;
        }
    }

    fn on_send(&mut self, sent: &Sent) {
        if sent.in_flight == Bytes::ZERO && sent.is_app_limited {
            self.is_restarting_from_idle = true;
            self.aggregation.restart(sent.now);
            match self.mode {
                Mode::ProbeBw { .. } => self.set_pacing_rate(ONE),
                Mode::ProbeRtt(ProbeRtt::Holding { until, .. }) if sent.now > until => {
                    self.leave_probe_rtt(sent.now);
                }
                _ => {}
            }
        }
        self.next_send = self.next_send.max(sent.now) + self.pacing_rate.time_for(sent.bytes);
    }

    fn on_undo(&mut self, now: Instant) {
        self.full_rate = Rate::from_bps(0);
        self.full_rounds = 0;
        self.policer.reset(now);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn control(&self) -> Control {
        Control {
            window: Bytes::new(self.cwnd),
            pacing_rate: self.pacing_rate,
            send_quantum: Bytes::new(self.burst()),
        }
    }
}

#[cfg(test)]
#[path = "bbr/tests.rs"]
mod tests;
