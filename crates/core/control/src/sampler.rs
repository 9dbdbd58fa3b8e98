//! Delivery-rate samples.
//!
//! How fast does the network deliver? Stamp every segment with the count of bytes delivered so far;
//! when it is acknowledged, the count has grown by what was delivered in one flight. Divide by the
//! longer of the time it took to send that flight and the time it took to acknowledge it, so that
//! acknowledgements which come in a bunch (radio scheduling, H15) do not read as a burst of capacity.
//!
//! ```text
//!   send ──┬─ stamp{delivered=D0, at T0} ─────────▶ ack: delivered=D1, now T1
//!   rate = (D1 − D0) ÷ max(T1 − T0, time from the flight's first to its last send)
//! ```
//!
//! Source: draft-ietf-ccwg-bbr §4.1 (delivery rate estimation).

use units::{Bytes, Duration, Instant, Rate};

/// State of the sampler that a segment remembers from the time it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, stored::Stored)]
pub struct SendStamp {
    /// Time at which it was sent.
    pub sent_at: Instant,
    /// Bytes delivered by then.
    delivered: Bytes,
    /// Time at which the last of those was reported.
    delivered_at: Instant,
    /// Time at which the first segment of the flight was sent.
    first_sent_at: Instant,
    /// The sender had nothing more to send then.
    is_app_limited: bool,
}

/// The rate at which one flight was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes over interval.
    pub rate: Rate,
    /// Bytes delivered in it.
    pub delivered: Bytes,
    /// The longer of its send and acknowledge times.
    pub interval: Duration,
    /// The sender could have sent more had it had data: the rate is a lower bound.
    pub is_app_limited: bool,
}

/// Counts deliveries and turns them into [`RateSample`]s.
#[derive(Clone, Debug, Default, stored::Stored)]
pub struct RateSampler {
    delivered: Bytes,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Deliveries up to this count were sent while data was short.
    app_limited_until: Bytes,
}

impl RateSampler {
    /// A sampler that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes delivered since the start.
    #[must_use]
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }

    /// The sender has been short of data, and what it sent then has not all been delivered.
    #[must_use]
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > Bytes::ZERO
    }

    /// Stamps a segment that leaves at `now`; `was_idle` when nothing was in flight before it.
    pub fn on_send(&mut self, was_idle: bool, now: Instant) -> SendStamp {
        if was_idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        SendStamp {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            is_app_limited: self.app_limited_until > Bytes::ZERO,
        }
    }

    /// Says that the sender ran out of data with `in_flight` bytes under way.
    pub fn mark_app_limited(&mut self, in_flight: Bytes) {
        self.app_limited_until = (self.delivered + in_flight).max(Bytes::new(1));
    }

    /// Counts `bytes` as delivered at `now`; `newest` is the stamp of the newest segment among them.
    ///
    /// Gives no sample when the interval is shorter than `min_rtt`: such a one comes from a
    /// retransmission that was acknowledged by the arrival of its original.
    pub fn on_delivered(
        &mut self,
        bytes: Bytes,
        newest: Option<&SendStamp>,
        min_rtt: Option<Duration>,
        now: Instant,
    ) -> Option<RateSample> {
        if bytes == Bytes::ZERO {
            return None;
        }
        self.delivered += bytes;
        self.delivered_at = now;
        if self.delivered > self.app_limited_until {
            self.app_limited_until = Bytes::ZERO;
        }
        let stamp = newest?;
        self.first_sent_at = stamp.sent_at;
        let send_time = stamp.sent_at.saturating_since(stamp.first_sent_at);
        let ack_time = now.saturating_since(stamp.delivered_at);
        let interval = send_time.max(ack_time);
        if interval.is_zero() || min_rtt.is_some_and(|min| interval < min) {
            return None;
        }
        let delivered = self.delivered - stamp.delivered;
        Some(RateSample {
            rate: Rate::from_transfer(delivered, interval),
            delivered,
            interval,
            is_app_limited: stamp.is_app_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes::new(1_000);

    /// Sends `n` segments `gap_ms` apart from time 0 and acknowledges them one by one at `ack_ms(i)`.
    fn last_sample(n: u64, gap_ms: u64, ack_ms: impl Fn(u64) -> u64) -> RateSample {
        let mut sampler = RateSampler::new();
        let mut stamps = Vec::new();
        let mut last = None;
        let mut acked = 0;
        for t in 0..=ack_ms(n - 1).max(n * gap_ms) {
            let now = Instant::from_millis(t);
            while acked < n && ack_ms(acked) == t && (acked as usize) < stamps.len() {
                let stamp: SendStamp = stamps[acked as usize];
                last = sampler.on_delivered(MSS, Some(&stamp), None, now).or(last);
                acked += 1;
            }
            if t % gap_ms == 0 && (stamps.len() as u64) < n {
                stamps.push(sampler.on_send(stamps.len() as u64 == acked, now));
            }
        }
        last.expect("a sample")
    }

    #[test]
    fn smooth_acks_give_the_link_rate() {
        // One 1000-byte segment every 2 ms = 4 Mbit/s, acknowledged 40 ms later each.
        let sample = last_sample(200, 2, |i| i * 2 + 40);
        let kbps = sample.rate.as_bps() / 1_000;
        assert!((3_900..=4_100).contains(&kbps), "{kbps} kbit/s");
    }

    #[test]
    fn h15_bunched_acks_do_not_read_as_capacity() {
        // The same flow, its ACKs held back and released every 20 ms.
        let sample = last_sample(200, 2, |i| (i * 2 + 40).div_ceil(20) * 20);
        let kbps = sample.rate.as_bps() / 1_000;
        assert!((3_600..=4_400).contains(&kbps), "{kbps} kbit/s");
    }

    #[test]
    fn app_limited_is_marked_and_cleared() {
        let mut sampler = RateSampler::new();
        let first = sampler.on_send(true, Instant::ZERO);
        sampler.mark_app_limited(MSS);
        let second = sampler.on_send(false, Instant::from_millis(1));
        let at = |ms| Instant::from_millis(ms);
        assert!(sampler.is_app_limited());
        assert!(!sampler.on_delivered(MSS, Some(&first), None, at(40)).expect("sample").is_app_limited);
        assert!(sampler.on_delivered(MSS, Some(&second), None, at(41)).expect("sample").is_app_limited);
        let third = sampler.on_send(true, at(50));
        assert!(!sampler.on_delivered(MSS, Some(&third), None, at(90)).expect("sample").is_app_limited);
    }

    #[test]
    fn an_interval_below_the_minimum_rtt_is_no_sample() {
        let mut sampler = RateSampler::new();
        let stamp = sampler.on_send(true, Instant::ZERO);
        let min = Some(Duration::from_millis(40));
        assert_eq!(sampler.on_delivered(MSS, Some(&stamp), min, Instant::from_millis(3)), None);
        assert_eq!(sampler.delivered(), MSS);
    }
}
