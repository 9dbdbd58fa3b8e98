//! The equations by hand, and a fluid model of one link for what follows from them.

use super::*;
use crate::{LossKind, RateSample};

const MSS: u64 = 1_448;

struct Feed {
    control: RateControl,
    total: u64,
}

impl Feed {
    fn new(params: RateParams) -> Self {
        Self { control: RateControl::new(params), total: 0 }
    }
    fn ack(&mut self, at_ms: u64, bytes: u64, rtt_ms: u64) {
        self.total += bytes;
        self.control.on_ack(&Ack {
            now: Instant::from_millis(at_ms),
            delivered: Bytes::new(bytes),
            delivered_total: Bytes::new(self.total),
            rtt: Some(Duration::from_millis(rtt_ms)),
            min_rtt: None,
            rate: None,
            in_flight: Bytes::ZERO,
        });
    }
}

#[test]
fn starts_at_the_capacity() {
    let c = RateControl::new(RateParams::paper());
    assert_eq!(c.control().pacing_rate, Rate::from_kbps(5_600));
    assert_eq!(c.control().window, Bytes::MAX);
    assert_eq!(c.bandwidth(), None);
}

#[test]
fn equation_3_needs_k_segments() {
    let mut feed = Feed::new(RateParams::paper());
    for i in 0..=249 {
        feed.ack(i * 4, MSS, 200);
    }
    assert_eq!(feed.control.bandwidth(), None);
    feed.ack(1_000, MSS, 200);
    // 250 segments in exactly one second.
    assert_eq!(feed.control.bandwidth(), Some(Rate::from_bps(250 * MSS * 8)));
}

#[test]
fn equation_3_is_the_same_for_stretched_acks() {
    let mut feed = Feed::new(RateParams::paper());
    for i in 0..=25 {
        feed.ack(i * 40, 10 * MSS, 200);
    }
    assert_eq!(feed.control.bandwidth(), Some(Rate::from_bps(250 * MSS * 8)));
}

#[test]
fn equation_4_weighs_by_lambda() {
    let mut feed = Feed::new(RateParams::paper());
    feed.ack(0, MSS, 200);
    feed.ack(1_000, 250 * MSS, 200);
    feed.ack(1_500, 250 * MSS, 200);
    let r1 = 250 * MSS * 8;
    let r2 = 2 * r1;
    assert_eq!(feed.control.bandwidth(), Some(Rate::from_bps(r1 * 8 / 10 + r2 * 2 / 10)));
}

#[test]
fn beta_takes_the_limit_to_the_estimate() {
    let mut feed = Feed::new(RateParams::paper());
    feed.ack(0, MSS, 200);
    feed.ack(1_000, 250 * MSS, 261);
    assert_eq!(feed.control.control().pacing_rate, Rate::from_bps(250 * MSS * 8));
}

#[test]
fn beta_before_the_first_estimate_uses_the_delivery_rate() {
    let mut c = RateControl::new(RateParams::paper());
    c.on_ack(&Ack {
        now: Instant::from_millis(300),
        delivered: Bytes::new(MSS),
        delivered_total: Bytes::new(MSS),
        rtt: Some(Duration::from_millis(300)),
        min_rtt: None,
        rate: Some(RateSample {
            rate: Rate::from_kbps(900),
            delivered: Bytes::new(MSS),
            interval: Duration::from_millis(300),
            is_app_limited: false,
        }),
        in_flight: Bytes::ZERO,
    });
    assert_eq!(c.control().pacing_rate, Rate::from_kbps(900));
}

#[test]
fn between_alpha_and_beta_nothing_changes() {
    let mut feed = Feed::new(RateParams::paper());
    feed.ack(0, MSS, 200);
    feed.ack(1_000, 250 * MSS, 300);
    let limit = feed.control.control().pacing_rate;
    feed.ack(1_010, MSS, 140);
    feed.ack(1_020, MSS, 260);
    assert_eq!(feed.control.control().pacing_rate, limit);
}

#[test]
fn equation_5_once_per_round_trip() {
    let mut feed = Feed::new(RateParams::paper());
    feed.ack(0, MSS, 100);
    feed.ack(1_000, 250 * MSS, 300);
    let low = feed.control.control().pacing_rate.as_bps();
    let step = |r: u64| r * 8 / 10 + 5_600_000 * 2 / 10;
    feed.ack(1_200, MSS, 100);
    assert_eq!(feed.control.control().pacing_rate.as_bps(), step(low));
    feed.ack(1_250, MSS, 100); // within the same round trip
    assert_eq!(feed.control.control().pacing_rate.as_bps(), step(low));
    feed.ack(1_300, MSS, 100);
    assert_eq!(feed.control.control().pacing_rate.as_bps(), step(step(low)));
}

#[test]
fn the_limit_stays_within_capacity() {
    let mut feed = Feed::new(RateParams::paper());
    feed.ack(0, MSS, 10);
    for i in 1..1_000 {
        feed.ack(i * 10, 100 * MSS, if i % 7 == 0 { 400 } else { 20 });
        let limit = feed.control.control().pacing_rate;
        assert!(limit <= Rate::from_kbps(5_600) && limit >= RATE_MIN, "{limit}");
    }
}

#[test]
fn loss_never_changes_the_rate() {
    let mut c = RateControl::new(RateParams::default());
    let before = c.control();
    c.on_loss(&Loss {
        now: Instant::ZERO,
        lost: Bytes::new(1 << 20),
        kind: LossKind::Timeout,
        is_new_event: true,
        in_flight: Bytes::ZERO,
    });
    assert_eq!(c.control(), before);
}

/// A fluid link of `rate` with 50 ms of propagation, its queue pre-filled; returns the queue after `seconds`.
fn queue_after(params: RateParams, rate: Rate, prefill: Bytes, seconds: u64) -> Bytes {
    let mut c = RateControl::new(params);
    let base = Duration::from_millis(50);
    let step = Duration::from_millis(10);
    let (mut queue, mut total, mut now) = (prefill, Bytes::ZERO, Instant::ZERO);
    for _ in 0..seconds * 100 {
        now += step;
        let out = rate.bytes_in(step).min(queue);
        queue -= out;
        total += out;
        let in_flight = queue + rate.bytes_in(base);
        if out > Bytes::ZERO {
            c.on_ack(&Ack {
                now,
                delivered: out,
                delivered_total: total,
                rtt: Some(base + rate.time_for(queue)),
                min_rtt: Some(base),
                rate: Some(RateSample { rate, delivered: out, interval: step, is_app_limited: false }),
                in_flight,
            });
        }
        let control = c.control();
        let room = control.window.saturating_sub(in_flight);
        queue += control.pacing_rate.bytes_in(step).min(room);
    }
    queue
}

#[test]
fn the_cap_drains_a_standing_queue() {
    let rate = Rate::from_mbps(4);
    let prefill = Bytes::new(500_000); // one second's worth
    let params = RateParams { r_cap: Rate::from_mbps(8), ..RateParams::default() };
    let paper = RateParams { in_flight_cap: None, ..params };
    let stands = queue_after(paper, rate, prefill, 20);
    let drained = queue_after(params, rate, prefill, 20);
    // 150 ms in flight less 50 ms of propagation leaves 100 ms of queue; without the cap it stays near β.
    assert!(drained <= rate.bytes_in(Duration::from_millis(105)), "{drained}");
    assert!(stands > rate.bytes_in(Duration::from_millis(180)), "{stands}");
}
