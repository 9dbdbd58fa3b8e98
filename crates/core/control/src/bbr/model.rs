//! The path: its largest delivery rate, its smallest round trip, and rounds to count time in.

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, RateSample, WindowedMax};

/// BtlBwFilterLen: memory of the delivery rate, in rounds (draft-cardwell-iccrg-bbr-congestion-control-00
/// §4.1.1.2).
const RATE_ROUNDS: u64 = 10;
/// RTpropFilterLen: memory of the smallest round trip (the same, §4.1.2.2).
const MIN_RTT_MEMORY: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, stored::Stored)]
pub(super) struct Model {
    /// Over rounds in place of time, see [`as_time`].
    rate: WindowedMax<Rate>,
    rounds: u64,
    /// Count of delivered bytes from which on sent data belongs to the next round.
    round_ends_at: Bytes,
    is_round_start: bool,
    /// The sender, not the path, limited the newest sample.
    is_limited: bool,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    /// Counts of delivered bytes between which PROBE_RTT held back the data sent.
    held_back: Option<(Bytes, Bytes)>,
}

/// The filter counts in rounds: a nanosecond each.
const fn as_time(rounds: u64) -> Instant {
    Instant::from_nanos(rounds)
}

/// Bytes that had been delivered when the sample's newest segment was sent.
fn delivered_at_send(sample: &RateSample, total: Bytes) -> Bytes {
    total.saturating_sub(sample.delivered)
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            rate: WindowedMax::new(Duration::from_nanos(RATE_ROUNDS)),
            rounds: 0,
            round_ends_at: Bytes::ZERO,
            is_round_start: false,
            is_limited: false,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            held_back: None,
        }
    }

    pub(super) fn max_rate(&self) -> Rate {
        self.rate.get().unwrap_or_default()
    }
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }
    pub(super) fn is_round_start(&self) -> bool {
        self.is_round_start
    }

    /// A round begins here, not where the last one ends.
    pub(super) fn begin_round(&mut self, delivered_total: Bytes) {
        self.round_ends_at = delivered_total;
    }

    /// Counts rounds; true when one begins.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> bool {
        self.is_round_start = false;
        if let Some(sample) = ack.rate {
            let sent_at = delivered_at_send(&sample, ack.delivered_total);
            if sent_at >= self.round_ends_at {
                self.round_ends_at = ack.delivered_total;
                self.rounds += 1;
                self.is_round_start = true;
            }
            let is_held_back =
                self.held_back.is_some_and(|(from, until)| from <= sent_at && sent_at <= until);
            self.is_limited = sample.is_app_limited || is_held_back;
        }
        self.is_round_start
    }

    /// The sender, not the path, limited the newest sample.
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }

    pub(super) fn take_rate(&mut self, sample: &RateSample) {
        if !self.is_limited || sample.rate >= self.max_rate() {
            self.rate.update(sample.rate, as_time(self.rounds));
        }
    }

    /// Ignores the rate of the data in flight now: it was sent in PROBE_RTT.
    pub(super) fn ignore_low_rates(&mut self, ack: &Ack) {
        let from = self.held_back.filter(|(_, until)| *until >= ack.delivered_total);
        let from = from.map_or(ack.delivered_total, |(from, _)| from);
        self.held_back = Some((from, ack.delivered_total + ack.in_flight));
    }

    /// Takes in a round trip; true when the smallest one was out of date before it.
    pub(super) fn update_min_rtt(&mut self, ack: &Ack) -> bool {
        let is_expired = ack.now.saturating_since(self.min_rtt_at) > MIN_RTT_MEMORY;
        if let Some(rtt) = ack.rtt
            && (is_expired || self.min_rtt.is_none_or(|min| rtt <= min))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        is_expired
    }

    /// PROBE_RTT is over: the next one is ten seconds away.
    pub(super) fn renew_min_rtt(&mut self, now: Instant) {
        self.min_rtt_at = now;
    }
}
