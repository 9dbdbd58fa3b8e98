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
            ..Ack::default()
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
        ..Ack::default()
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

#[test]
fn the_first_limit_is_a_share_of_the_capacity() {
    let start = |permille| {
        let params = RateParams { start_permille: permille, ..RateParams::paper() };
        RateControl::new(params).control().pacing_rate
    };
    assert_eq!((start(1_000), start(250)), (Rate::from_kbps(5_600), Rate::from_kbps(1_400)));
    assert_eq!((start(0), start(9_000)), (RATE_MIN, Rate::from_kbps(5_600)));
}

#[test]
fn equation_5_as_often_as_it_is_asked_for() {
    let raised = |permille| {
        let mut feed =
            Feed::new(RateParams { raise_permille: permille, start_permille: 0, ..RateParams::paper() });
        feed.ack(0, MSS, 100);
        let after_one = feed.control.control().pacing_rate;
        (1..=10).for_each(|i| feed.ack(i * 20, MSS, 100));
        (after_one, feed.control.control().pacing_rate)
    };
    let steps = |n: u32| (0..n).fold(RATE_MIN.as_bps(), |r, _| r * 8 / 10 + 5_600_000 * 2 / 10);
    assert_eq!(raised(0), (Rate::from_bps(steps(1)), Rate::from_bps(steps(11))));
    assert_eq!(raised(1_000).1, Rate::from_bps(steps(3)));
    assert_eq!(raised(2_000).1, Rate::from_bps(steps(2)));
}

#[test]
fn a_late_acknowledgement_is_no_queue_where_round_trips_are_filtered() {
    let limit = |rtt_window| {
        let mut feed = Feed::new(RateParams { rtt_window, ..RateParams::paper() });
        feed.ack(0, MSS, 200);
        feed.ack(1_000, 250 * MSS, 200);
        // One of a bunch has waited for the uplink.
        feed.ack(1_010, MSS, 300);
        feed.control.control().pacing_rate
    };
    assert_eq!(limit(None), Rate::from_bps(250 * MSS * 8));
    assert_eq!(limit(Some(Duration::from_millis(50))), Rate::from_kbps(5_600));
    // A queue that lasts is one.
    let mut feed = Feed::new(RateParams::default());
    feed.ack(0, MSS, 200);
    feed.ack(1_000, 250 * MSS, 300);
    (0..=6).for_each(|i| feed.ack(1_010 + i * 10, MSS, 300));
    assert_eq!(feed.control.control().pacing_rate, Rate::from_bps(250 * MSS * 8));
}

#[test]
fn smoothed_round_trips_follow_slowly() {
    let mut feed = Feed::new(RateParams { rtt_permille: 125, ..RateParams::paper() });
    feed.ack(0, MSS, 200);
    feed.ack(1_000, 250 * MSS, 200);
    let limit = |feed: &Feed| feed.control.control().pacing_rate;
    let before = limit(&feed);
    // 7/8·200 + 1/8·400 = 225 ms, 246.9 ms, 266 ms.
    feed.ack(1_010, MSS, 400);
    feed.ack(1_020, MSS, 400);
    assert_eq!(limit(&feed), before);
    feed.ack(1_030, MSS, 400);
    assert_eq!(limit(&feed), Rate::from_bps(250 * MSS * 8));
}

#[test]
fn thresholds_over_the_base_move_with_it() {
    let params = RateParams { is_over_base: true, ..RateParams::paper() };
    let mut feed = Feed::new(params);
    feed.ack(0, MSS, 500);
    // A base of 500 ms: 760 ms is the threshold.
    feed.ack(1_000, 250 * MSS, 750);
    assert_eq!(feed.control.control().pacing_rate, Rate::from_kbps(5_600));
    feed.ack(1_010, MSS, 761);
    assert_eq!(feed.control.control().pacing_rate, Rate::from_bps(250 * MSS * 8));
    feed.ack(2_000, MSS, 639);
    assert!(feed.control.control().pacing_rate > Rate::from_bps(250 * MSS * 8));
}

#[test]
fn beta_may_wait_for_the_first_estimate() {
    let mut c = RateControl::new(RateParams { beta_waits_for_r: true, ..RateParams::paper() });
    c.on_ack(&Ack {
        now: Instant::from_millis(300),
        delivered: Bytes::new(MSS),
        delivered_total: Bytes::new(MSS),
        rtt: Some(Duration::from_millis(300)),
        rate: Some(RateSample {
            rate: Rate::from_kbps(900),
            delivered: Bytes::new(MSS),
            interval: Duration::from_millis(300),
            is_app_limited: false,
        }),
        ..Ack::default()
    });
    assert_eq!(c.control().pacing_rate, Rate::from_kbps(5_600));
}

#[test]
fn a_report_is_the_capacity() {
    let mut c = RateControl::new(RateParams { r_cap: Rate::from_mbps(100), ..RateParams::default() });
    let report = Feedback::new(Instant::from_millis(10), Duration::ZERO, Rate::from_mbps(3), Bytes::ZERO);
    c.on_feedback(&report);
    assert_eq!(c.control().pacing_rate, Rate::from_bps(2_896_000));
    // Without more reports it is what is configured again.
    c.on_ack(&Ack { now: Instant::from_millis(600), ..Ack::default() });
    assert_eq!(c.control().pacing_rate, Rate::from_mbps(100));
}

#[test]
fn a_learned_capacity_bounds_the_rate() {
    let params = RateParams {
        r_cap: Rate::from_mbps(100),
        r_cap_memory: Some(Duration::from_secs(10)),
        ..RateParams::default()
    };
    let rate = Rate::from_mbps(8);
    let mut fluid = Fluid::new(params, rate, Bytes::new(4_000));
    let delivered = fluid.run(BASE, 20);
    assert!(delivered >= rate.bytes_in(Duration::from_secs(19)), "{delivered}");
    let pace = fluid.control.control().pacing_rate;
    assert!(pace <= rate.mul_ratio(5, 4), "{pace}");
}

/// A fluid link: `rate`, a propagation delay that may change, and a queue.
struct Fluid {
    control: RateControl,
    rate: Rate,
    queue: Bytes,
    total: Bytes,
    now: Instant,
    recent_min: crate::WindowedMin<Duration>,
}

const STEP: Duration = Duration::from_millis(10);

impl Fluid {
    fn new(params: RateParams, rate: Rate, queue: Bytes) -> Self {
        let recent_min = crate::WindowedMin::new(Duration::from_secs(10));
        let control = RateControl::new(params);
        Self { control, rate, queue, total: Bytes::ZERO, now: Instant::ZERO, recent_min }
    }

    /// Runs for `seconds` over `base` of propagation; returns the bytes delivered.
    fn run(&mut self, base: Duration, seconds: u64) -> Bytes {
        let before = self.total;
        for _ in 0..seconds * 100 {
            self.now += STEP;
            let window = self.control.control().window;
            let pipe = self.rate.bytes_in(base);
            // A window smaller than the pipe is delivered once per round trip.
            let through = if window < pipe { Rate::from_transfer(window, base) } else { self.rate };
            let out = through.bytes_in(STEP).min(self.queue);
            self.queue -= out;
            self.total += out;
            let rtt = base + self.rate.time_for(self.queue);
            self.recent_min.update(rtt, self.now);
            if out > Bytes::ZERO {
                self.control.on_ack(&Ack {
                    now: self.now,
                    delivered: out,
                    delivered_total: self.total,
                    rtt: Some(rtt),
                    min_rtt: self.recent_min.get(),
                    rate: Some(RateSample {
                        rate: Rate::from_transfer(out, STEP),
                        delivered: out,
                        interval: STEP,
                        is_app_limited: false,
                    }),
                    in_flight: self.queue + pipe,
                    ..Ack::default()
                });
            }
            let control = self.control.control();
            let room = control.window.saturating_sub(self.queue + pipe);
            let least = if window < pipe { through.bytes_in(STEP) } else { Bytes::ZERO };
            self.queue += control.pacing_rate.bytes_in(STEP).min(room.max(least));
        }
        self.total - before
    }
}

const BASE: Duration = Duration::from_millis(50);

#[test]
fn the_cap_drains_a_standing_queue() {
    // The link falls to an eighth: what is in flight becomes a queue.
    let (fast, slow) = (Rate::from_mbps(8), Rate::from_mbps(1));
    let params = RateParams { r_cap: fast, ..RateParams::default() };
    let mut paper = Fluid::new(RateParams { in_flight_cap: None, ..params }, fast, Bytes::new(4_000));
    let mut capped = Fluid::new(params, fast, Bytes::new(4_000));
    for fluid in [&mut paper, &mut capped] {
        fluid.run(BASE, 5);
        fluid.rate = slow;
        fluid.run(BASE, 20);
    }
    // 120 ms in flight less 50 ms of propagation leaves 70 ms of queue; without the cap it stays above β.
    assert!(capped.queue <= slow.bytes_in(Duration::from_millis(75)), "{}", capped.queue);
    assert!(paper.queue > slow.bytes_in(Duration::from_millis(180)), "{}", paper.queue);
}

#[test]
fn discards_shorten_the_queue_for_ten_seconds() {
    let rate = Rate::from_mbps(8);
    let params = RateParams { r_cap: rate, ..RateParams::default() };
    let mut fluid = Fluid::new(params, rate, Bytes::new(4_000));
    fluid.run(BASE, 20);
    let window = |fluid: &Fluid| fluid.control.control().window;
    let whole = window(&fluid);
    let (now, delivered_total) = (fluid.now, fluid.total);
    fluid.control.on_ack(&Ack { now, delivered_total, discarded: Bytes::new(1_448), ..Ack::default() });
    assert!(window(&fluid) < whole.mul_ratio(7, 10), "{} {whole}", window(&fluid));
    fluid.run(BASE, 9);
    assert!(window(&fluid) < whole.mul_ratio(7, 10), "{} {whole}", window(&fluid));
    fluid.run(BASE, 2);
    assert_eq!(window(&fluid), whole);
}

#[test]
fn discards_on_a_longer_path_leave_half_of_it_on_top() {
    let rate = Rate::from_mbps(8);
    let params = RateParams { r_cap: rate, ..RateParams::default() };
    let mut fluid = Fluid::new(params, rate, Bytes::new(4_000));
    let path = Duration::from_millis(64);
    fluid.run(path, 20);
    let (now, delivered_total) = (fluid.now, fluid.total);
    fluid.control.on_ack(&Ack { now, delivered_total, discarded: Bytes::new(1_448), ..Ack::default() });
    let capped = rate.time_for(fluid.control.control().window);
    assert!(capped >= path.mul_ratio(5, 4) && capped <= path.mul_ratio(7, 4), "{capped}");
}

#[test]
fn a_path_longer_than_the_cap_is_filled() {
    let rate = Rate::from_mbps(4);
    let long = Duration::from_millis(600);
    let params =
        RateParams { r_cap: Rate::from_mbps(8), alpha: long * 2, beta: long * 3, ..RateParams::default() };
    let mut fluid = Fluid::new(params, rate, Bytes::new(4_000));
    fluid.run(long, 20);
    let delivered = fluid.run(long, 10);
    assert!(
        delivered >= rate.bytes_in(Duration::from_secs(10)).saturating_sub(Bytes::new(50_000)),
        "{delivered}"
    );
}

#[test]
fn a_path_that_becomes_longer_is_noticed() {
    let rate = Rate::from_mbps(4);
    let mut fluid = Fluid::new(
        RateParams { r_cap: Rate::from_mbps(8), ..RateParams::default() },
        rate,
        Bytes::new(4_000),
    );
    fluid.run(BASE, 10);
    assert_eq!(fluid.control.smallest_rtt, fluid.recent_min.get().expect("a minimum"));
    let longer = Duration::from_millis(400);
    fluid.run(longer, 15);
    assert!(fluid.control.smallest_rtt >= longer, "{}", fluid.control.smallest_rtt);
}

#[test]
fn the_queue_of_our_own_is_not_taken_for_the_path() {
    let rate = Rate::from_mbps(4);
    let params = RateParams { r_cap: Rate::from_mbps(8), ..RateParams::default() };
    let mut fluid = Fluid::new(params, rate, Bytes::new(4_000));
    fluid.run(BASE, 120);
    assert!(fluid.queue <= rate.bytes_in(Duration::from_millis(75)), "{}", fluid.queue);
}
