//! `bbr3`: BBR version 3.
//!
//! Version 1's model of rate and round trip, and a bound of what the path bears: a probe that loses
//! more than 2 % sets how much may be in flight, a loss between probes cuts rate and volume for the
//! time being. It probes every two to three seconds, or as often as Reno would, in place of every
//! eight round trips.
//!
//! ```text
//!   Startup ─▶ Drain ─▶ Down ─▶ Cruise ─▶ Refill ─▶ Up ─┐      every 5 s: ProbeRTT, half a BDP, 200 ms
//!   2.77       0.35     0.9 ▲   1         1         1.25│      pacing gains
//!                           └───────────────────────────┘
//!   Startup ends   three rounds without a quarter more, or over 2 % lost in more than 6 places of a round
//!   Down ends      in flight ≤ BDP, and 15 % below what the path bears
//!   Up ends        three rounds without a quarter more, or more than 2 % lost
//! ```
//!
//! | file | part |
//! |---|---|
//! | `bbr3/bounds.rs` | what losses say the path bears |
//! | `bbr3/flights.rs` | what was in flight when a segment left |
//! | `bbr/aggregation.rs` | acknowledgements in bunches, shared with version 1 |
//!
//! Source: draft-ietf-ccwg-bbr-02 (names of its constants in comments).
//!
//! DEVIATION: a lost segment is judged with the next rate sample, not by itself, since losses are
//! reported in bytes; ECN is not used. Places of loss are counted as acknowledgements that reported
//! one.

use units::{Bytes, Duration, Instant, Rate};

use crate::bbr::aggregation::Aggregation;
use crate::{Ack, Control, Controller, Loss, LossKind, MSS_DEFAULT, RateSample, Sent};

mod bounds;
mod flights;

use bounds::{Bounds, is_too_high};
use flights::{Flight, Flights};

/// Parameters of [`Bbr3`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct Bbr3Params {
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
    /// Seed of the time between probes. Default 1.
    pub seed: u64,
}

impl Default for Bbr3Params {
    fn default() -> Self {
        Self { mss: MSS_DEFAULT, initial_window_segments: 10, seed: 1 }
    }
}

/// BBRStartupFullLossCnt: places of loss in a round that end Startup (draft-ietf-ccwg-bbr-02 §5.3.1).
const STARTUP_LOSSES: u32 = 6;
/// Rounds without a quarter more after which the pipe is full (§5.3.1).
const FULL_ROUNDS: u32 = 3;
/// MinRTTFilterLen (§5.3.4).
const MIN_RTT_MEMORY: Duration = Duration::from_secs(10);
/// ProbeRTTInterval (§5.3.4).
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// ProbeRTTDuration (§5.3.4).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// BBRMinPipeCwnd, in segments (§5.6.4).
const SEGMENTS_MIN: u64 = 4;
/// 100 less BBRPacingMarginPercent (§5.6.2).
const PACING_PERCENT: u64 = 99;
/// Segments of a window that Reno adds in the time within which a probe comes at least (§5.3.3,
/// BBRIsRenoCoexistenceProbeTime).
const RENO_ROUNDS_MAX: u64 = 63;
/// Largest burst: 64 KB (§5.6.3).
const BURST_MAX: u64 = 64 * 1024;

/// Phase of its cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Phase {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    /// Time since which few enough bytes are in flight, and whether a round has passed.
    ProbeRtt(Option<(Instant, bool)>),
}

/// Phase of the probe that acknowledgements coming in belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum AckPhase {
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
    Refilling,
}

/// The search for a plateau of the delivery rate.
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
struct Plateau {
    rate: Rate,
    rounds: u32,
    is_found: bool,
}

/// Rounds of a window each (§5.5.1).
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
struct Round {
    ends_at: Bytes,
    /// This acknowledgement begins one.
    is_start: bool,
    since_probe: u64,
}

/// The cycle of probing for bandwidth (§5.3.3).
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Cycle {
    phase: Phase,
    acks: AckPhase,
    /// Time at which the probe before ended.
    since: Instant,
    /// Longest time to the next probe.
    wait: Duration,
    has_samples: bool,
}

/// Rise of the bound in Up (§5.3.3): rounds of it, acknowledged bytes, and bytes per segment.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Climb {
    rounds: u32,
    acked: u64,
    price: u64,
}

/// The smallest round trip, and the probes for it (§5.3.4).
#[derive(Clone, Copy, Debug, Default, stored::Stored)]
struct MinRtt {
    min: Option<(Duration, Instant)>,
    /// The same with the shorter memory that times ProbeRTT.
    recent: Option<(Duration, Instant)>,
    /// Delivered and in flight when ProbeRTT last held data back.
    held_back_until: Bytes,
}

/// BBR version 3.
#[derive(Clone, Debug, stored::Stored)]
pub struct Bbr3 {
    mss: u64,
    initial_segments: u64,
    cycle: Cycle,
    bounds: Bounds,
    flights: Flights,
    aggregation: Aggregation,
    /// Largest rate of this probing cycle and of the one before.
    rates: [Rate; 2],
    round: Round,
    climb: Climb,
    plateau: Plateau,
    is_pipe_full: bool,
    rtt: MinRtt,
    delivered: Bytes,
    lost: u64,
    cwnd: u64,
    prior_cwnd: u64,
    pacing_rate: Rate,
    is_recovering: bool,
    is_restarting_from_idle: bool,
    random: u64,
}

impl Bbr3 {
    /// BBR in Startup.
    #[must_use]
    pub fn new(params: Bbr3Params) -> Self {
        let mss = params.mss.get().max(1);
        let cwnd = mss * params.initial_window_segments.max(1);
        let first_rate = Rate::from_transfer(Bytes::new(cwnd), Duration::from_millis(1));
        Self {
            mss,
            initial_segments: params.initial_window_segments.max(1),
            cycle: Cycle {
                phase: Phase::Startup,
                acks: AckPhase::ProbeStopping,
                since: Instant::ZERO,
                wait: Duration::ZERO,
                has_samples: false,
            },
            bounds: Bounds::default(),
            flights: Flights::default(),
            aggregation: Aggregation::default(),
            rates: [Rate::default(); 2],
            round: Round::default(),
            climb: Climb { rounds: 0, acked: 0, price: u64::MAX },
            plateau: Plateau::default(),
            is_pipe_full: false,
            rtt: MinRtt::default(),
            delivered: Bytes::ZERO,
            lost: 0,
            cwnd,
            prior_cwnd: 0,
            pacing_rate: first_rate.mul_ratio(277, 100),
            is_recovering: false,
            is_restarting_from_idle: false,
            random: params.seed,
        }
    }

    /// Largest rate of the last two probing cycles.
    fn max_rate(&self) -> Rate {
        self.rates[0].max(self.rates[1])
    }

    /// The estimated rate of the path, bounded by recent losses.
    #[must_use]
    pub fn bandwidth(&self) -> Rate {
        self.bounds.short_rate().map_or(self.max_rate(), |short| short.min(self.max_rate()))
    }

    /// Pacing gain in per cent.
    const fn pacing_gain(&self) -> u64 {
        match self.cycle.phase {
            Phase::Startup => 277,
            Phase::Drain => 35,
            Phase::Down => 90,
            Phase::Cruise | Phase::Refill | Phase::ProbeRtt(_) => 100,
            Phase::Up => 125,
        }
    }

    /// Window gain in per cent.
    const fn cwnd_gain(&self) -> u64 {
        match self.cycle.phase {
            Phase::Up => 225,
            Phase::ProbeRtt(_) => 50,
            _ => 200,
        }
    }

    const fn is_in_cycle(&self) -> bool {
        matches!(self.cycle.phase, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }

    fn burst(&self) -> u64 {
        (self.pacing_rate.as_bps() / 8 / 1_000).min(BURST_MAX).max(2 * self.mss) / self.mss * self.mss
    }

    /// `percent` of the BDP at `rate`.
    fn bdp(&self, rate: Rate, percent: u64) -> u64 {
        let Some((rtt, _)) = self.rtt.min else { return self.initial_segments * self.mss };
        rate.bytes_in(rtt).get().saturating_mul(percent) / 100
    }

    fn with_bursts(&self, volume: u64) -> u64 {
        let probing = if self.cycle.phase == Phase::Up { 2 * self.mss } else { 0 };
        volume.max(3 * self.burst()).max(SEGMENTS_MIN * self.mss) + probing
    }

    fn in_flight_target(&self) -> u64 {
        self.with_bursts(self.bdp(self.bandwidth(), 100))
    }

    fn next_random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    fn begin_round(&mut self) {
        self.round.ends_at = self.delivered;
    }

    fn reset_plateau(&mut self, rate: Rate) {
        self.plateau = Plateau { rate, rounds: 0, is_found: false };
    }

    fn enter_down(&mut self, now: Instant) {
        self.bounds.forget_round();
        self.climb.price = u64::MAX;
        self.round.since_probe = self.next_random() % 2;
        self.cycle.wait = Duration::from_millis(2_000 + self.next_random() % 1_000);
        self.cycle.since = now;
        self.cycle.acks = AckPhase::ProbeStopping;
        self.begin_round();
        self.cycle.phase = Phase::Down;
    }

    fn enter_refill(&mut self) {
        self.bounds.forget_short();
        (self.climb.rounds, self.climb.acked) = (0, 0);
        self.cycle.acks = AckPhase::Refilling;
        self.begin_round();
        self.cycle.phase = Phase::Refill;
    }

    fn enter_up(&mut self, sample: &RateSample) {
        self.cycle.has_samples = true;
        self.cycle.acks = AckPhase::ProbeStarting;
        self.begin_round();
        self.reset_plateau(sample.rate);
        self.cycle.phase = Phase::Up;
        self.steepen();
    }

    /// Each round in Up the bound rises twice as fast.
    fn steepen(&mut self) {
        let growth = self.mss << self.climb.rounds.min(30);
        self.climb.rounds = (self.climb.rounds + 1).min(30);
        self.climb.price = (self.cwnd / growth).max(1) * self.mss;
    }

    fn update_round(&mut self, sent_at: Bytes, sample: &RateSample, is_limited: bool) {
        self.round.is_start = sent_at >= self.round.ends_at;
        if self.round.is_start {
            self.begin_round();
            self.round.since_probe += 1;
        }
        if !is_limited || sample.rate >= self.max_rate() {
            self.rates[0] = self.rates[0].max(sample.rate);
        }
    }

    fn check_pipe(&mut self, sample: &RateSample, is_limited: bool) {
        if self.plateau.is_found || is_limited {
            return;
        }
        if sample.rate >= self.plateau.rate.mul_ratio(125, 100) {
            self.reset_plateau(sample.rate);
        } else if self.round.is_start {
            self.plateau.rounds += 1;
            self.plateau.is_found = self.plateau.rounds >= FULL_ROUNDS;
            self.is_pipe_full |= self.plateau.is_found;
        }
    }

    fn check_startup_loss(&mut self, flight: Option<Flight>) {
        let is_heavy = self.bounds.losses_in_round() > STARTUP_LOSSES
            && flight.is_some_and(|flight| is_too_high(flight, self.lost));
        if self.cycle.phase == Phase::Startup && self.is_recovering && is_heavy {
            self.is_pipe_full = true;
            self.bounds.long = Some(self.bdp(self.max_rate(), 100).max(self.bounds.latest_volume()));
        }
    }

    /// Long-term bound: down when a probe was too much, up when it was not.
    fn adapt_long_bound(&mut self, ack: &Ack, flight: Option<Flight>, is_limited: bool) {
        if self.round.is_start {
            if self.cycle.acks == AckPhase::ProbeStarting {
                self.cycle.acks = AckPhase::ProbeFeedback;
            } else if self.cycle.acks == AckPhase::ProbeStopping && self.is_in_cycle() && !is_limited {
                // The samples of a probe are complete: its largest rate becomes the last cycle's.
                self.rates = [Rate::default(), self.rates[0].max(self.rates[1].min(self.rates[0]))];
                self.cycle.acks = AckPhase::Refilling;
            }
        }
        let Some(flight) = flight else { return };
        if is_too_high(flight, self.lost) {
            if self.cycle.has_samples {
                self.cycle.has_samples = false;
                if !is_limited {
                    self.bounds.cut(flight, self.in_flight_target().min(self.cwnd));
                }
                if self.cycle.phase == Phase::Up {
                    self.enter_down(ack.now);
                }
            }
            return;
        }
        let Some(long) = self.bounds.long else { return };
        self.bounds.long = Some(long.max(flight.in_flight));
        if self.cycle.phase == Phase::Up {
            self.raise_long_bound(ack);
        }
    }

    fn raise_long_bound(&mut self, ack: &Ack) {
        if let Some(long) = self.bounds.long.filter(|long| ack.is_window_limited && self.cwnd >= *long) {
            self.climb.acked += ack.delivered.get();
            let segments = self.climb.acked / self.climb.price;
            self.climb.acked -= segments * self.climb.price;
            self.bounds.long = Some(long + segments * self.mss);
            if self.round.is_start {
                self.steepen();
            }
        }
    }

    fn advance_cycle(&mut self, ack: &Ack, sample: &RateSample) {
        let in_flight = ack.in_flight.get();
        match self.cycle.phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(ack.now) => self.enter_refill(),
            Phase::Down => {
                let has_room = self.bounds.with_headroom(self.mss).is_none_or(|most| in_flight <= most);
                if has_room && in_flight <= self.with_bursts(self.bdp(self.max_rate(), 100)) {
                    self.cycle.phase = Phase::Cruise;
                }
            }
            Phase::Refill if self.round.is_start => self.enter_up(sample),
            Phase::Up => {
                if ack.is_window_limited && self.bounds.long.is_some_and(|long| self.cwnd >= long) {
                    self.reset_plateau(sample.rate);
                } else if self.plateau.is_found {
                    self.enter_down(ack.now);
                }
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Instant) -> bool {
        let reno_rounds = self.in_flight_target().min(self.cwnd) / self.mss;
        now.saturating_since(self.cycle.since) > self.cycle.wait
            || self.round.since_probe >= reno_rounds.min(RENO_ROUNDS_MAX)
    }

    fn update_min_rtt(&mut self, rtt: Duration, now: Instant) -> bool {
        let age = |at: Instant| now.saturating_since(at);
        let is_due = self.rtt.recent.is_some_and(|(_, at)| age(at) > PROBE_RTT_INTERVAL);
        if self.rtt.recent.is_none_or(|(min, _)| rtt < min) || is_due {
            self.rtt.recent = Some((rtt, now));
        }
        let candidate = self.rtt.recent.unwrap_or((rtt, now));
        if self.rtt.min.is_none_or(|(min, at)| candidate.0 < min || age(at) > MIN_RTT_MEMORY) {
            self.rtt.min = Some(candidate);
        }
        is_due
    }

    fn probe_rtt_window(&self) -> u64 {
        self.bdp(self.bandwidth(), 50).max(SEGMENTS_MIN * self.mss)
    }

    fn check_probe_rtt(&mut self, ack: &Ack, is_due: bool) {
        if is_due && !self.is_restarting_from_idle && !matches!(self.cycle.phase, Phase::ProbeRtt(_)) {
            self.save_cwnd();
            self.cycle.phase = Phase::ProbeRtt(None);
            self.cycle.acks = AckPhase::ProbeStopping;
            self.begin_round();
        }
        if let Phase::ProbeRtt(state) = self.cycle.phase {
            self.rtt.held_back_until = ack.delivered_total + ack.in_flight;
            match state {
                None if ack.in_flight.get() <= self.probe_rtt_window() => {
                    self.cycle.phase = Phase::ProbeRtt(Some((ack.now + PROBE_RTT_TIME, false)));
                    self.begin_round();
                }
                None => {}
                Some((until, has_round_passed)) => {
                    let has_round_passed = has_round_passed || self.round.is_start;
                    self.cycle.phase = Phase::ProbeRtt(Some((until, has_round_passed)));
                    if has_round_passed && ack.now > until {
                        self.leave_probe_rtt(ack.now);
                    }
                }
            }
        }
        self.is_restarting_from_idle = false;
    }

    fn leave_probe_rtt(&mut self, now: Instant) {
        self.rtt.recent = self.rtt.recent.map(|(min, _)| (min, now));
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.bounds.forget_short();
        if self.is_pipe_full {
            self.enter_down(now);
            self.cycle.phase = Phase::Cruise;
        } else {
            self.cycle.phase = Phase::Startup;
        }
    }

    fn save_cwnd(&mut self) {
        let is_good = !self.is_recovering && !matches!(self.cycle.phase, Phase::ProbeRtt(_));
        self.prior_cwnd = if is_good { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    fn take_first_rtt(&mut self, rtt: Duration) {
        if self.rtt.min.is_none() {
            let rate = Rate::from_transfer(Bytes::new(self.cwnd), rtt.max(Duration::from_micros(1)));
            self.pacing_rate = rate.mul_ratio(277, 100);
        }
    }

    fn set_pacing_rate(&mut self, gain: u64) {
        let rate = self.bandwidth().mul_ratio(gain * PACING_PERCENT, 10_000);
        if !rate.is_zero() && (self.is_pipe_full || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn set_cwnd(&mut self, ack: &Ack) {
        let allowance = if self.is_pipe_full { self.aggregation.allowance(self.bandwidth()) } else { 0 };
        let most = self.with_bursts(self.bdp(self.bandwidth(), self.cwnd_gain()) + allowance);
        let acked = ack.delivered.get();
        let least = SEGMENTS_MIN * self.mss;
        if self.is_pipe_full {
            self.cwnd = (self.cwnd + acked).min(most);
        } else if self.cwnd < most || ack.delivered_total.get() < self.initial_segments * self.mss {
            self.cwnd += acked;
        }
        let long = match self.cycle.phase {
            Phase::ProbeRtt(_) => {
                self.cwnd = self.cwnd.min(self.probe_rtt_window());
                self.bounds.with_headroom(self.mss)
            }
            Phase::Cruise => self.bounds.with_headroom(self.mss),
            Phase::Down | Phase::Refill | Phase::Up => self.bounds.long,
            Phase::Startup | Phase::Drain => None,
        };
        let bound = long.unwrap_or(u64::MAX).min(self.bounds.short_volume().unwrap_or(u64::MAX));
        self.cwnd = self.cwnd.min(bound.max(least)).max(least);
    }

    fn follow_recovery(&mut self, ack: &Ack) {
        if self.is_recovering && !ack.is_recovering {
            self.is_recovering = false;
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
    }

    /// BBRCheckDrain: drains the queue of Startup, and goes on when no more than a BDP is in flight.
    fn check_drain(&mut self, ack: &Ack) {
        if self.cycle.phase == Phase::Startup && self.is_pipe_full {
            self.cycle.phase = Phase::Drain;
        }
        if self.cycle.phase == Phase::Drain && ack.in_flight.get() <= self.in_flight_target() {
            self.enter_down(ack.now);
        }
    }

    /// The model, the phase, and what they say, in the draft's order.
    fn take_sample(&mut self, ack: &Ack, sample: &RateSample) {
        let sent_at = ack.delivered_total.saturating_sub(sample.delivered);
        let flight = self.flights.find(sent_at);
        let is_limited = sample.is_app_limited || sent_at <= self.rtt.held_back_until;
        self.bounds.on_sample(ack, sample);
        self.update_round(sent_at, sample, is_limited);
        let is_probing = matches!(self.cycle.phase, Phase::Startup | Phase::Refill | Phase::Up);
        self.bounds.adapt(is_probing, self.max_rate(), self.cwnd);
        self.aggregation.on_ack(ack, self.bandwidth(), self.round.is_start, self.cwnd);
        self.check_pipe(sample, is_limited);
        self.check_startup_loss(flight);
        self.check_drain(ack);
        if self.is_pipe_full {
            self.adapt_long_bound(ack, flight, is_limited);
            self.advance_cycle(ack, sample);
        }
        if self.round.is_start {
            self.bounds.begin_round();
        }
        self.bounds.advance(sample);
    }
}

impl Controller for Bbr3 {
    fn name(&self) -> &'static str {
        "bbr3"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.delivered = ack.delivered_total;
        if let Some(rtt) = ack.rtt {
            self.take_first_rtt(rtt);
        }
        self.round.is_start = false;
        if ack.delivered > Bytes::ZERO {
            self.follow_recovery(ack);
            if let Some(sample) = ack.rate {
                self.take_sample(ack, &sample);
            }
        }
        let is_due = ack.rtt.is_some_and(|rtt| self.update_min_rtt(rtt, ack.now));
        if ack.delivered > Bytes::ZERO {
            self.check_probe_rtt(ack, is_due);
            self.set_pacing_rate(self.pacing_gain());
            self.set_cwnd(ack);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.lost += loss.lost.get();
        self.bounds.on_loss(self.delivered);
        if loss.is_new_event {
            self.save_cwnd();
            self.is_recovering = true;
            self.cwnd = loss.in_flight.get() + self.mss;
        }
        if loss.kind == LossKind::Timeout {
            self.cwnd = loss.in_flight.get() + self.mss;
        }
    }

    fn on_send(&mut self, sent: &Sent) {
        if sent.in_flight == Bytes::ZERO && sent.is_app_limited {
            self.is_restarting_from_idle = true;
            self.aggregation.restart(sent.now);
            match self.cycle.phase {
                Phase::ProbeRtt(Some((until, _))) if sent.now > until => self.leave_probe_rtt(sent.now),
                _ if self.is_in_cycle() => self.set_pacing_rate(100),
                _ => {}
            }
        }
        self.flights.on_send(self.delivered, (sent.in_flight + sent.bytes).get(), self.lost);
    }

    fn on_undo(&mut self, _now: Instant) {
        self.reset_plateau(Rate::default());
        self.bounds.forget_short();
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
#[path = "bbr3/tests.rs"]
mod tests;
