//! The laws against a radio queue that carries a fixed number of bytes each millisecond.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::LossKind;

/// Packets of the tests, with headers.
const PACKET: u64 = 1_500;

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// A radio link behind the controller, a millisecond at a time; acknowledgements come `rtt_ms`
/// after their packet left the queue.
struct Radio {
    controller: WindowAdaptation,
    now_ms: u64,
    queue: u64,
    credit: u64,
    in_flight: u64,
    delivered: u64,
    acks: VecDeque<(u64, u64)>,
    reports: VecDeque<(u64, Feedback)>,
    carried_since_report: u64,
    /// Bytes the link could carry and had nothing to carry for.
    unused: u64,
    queue_max: u64,
    rtt_ms: u64,
    delay_ms: u64,
    /// Every so-many-th report is lost; zero for none.
    loses: u64,
    reported: u64,
}

impl Radio {
    fn new(params: WindowAdaptationParams) -> Self {
        Self {
            controller: WindowAdaptation::new(params),
            now_ms: 0,
            queue: 0,
            credit: 0,
            in_flight: 0,
            delivered: 0,
            acks: VecDeque::new(),
            reports: VecDeque::new(),
            carried_since_report: 0,
            unused: 0,
            queue_max: 0,
            rtt_ms: 20,
            delay_ms: 0,
            loses: 0,
            reported: 0,
        }
    }

    /// One millisecond in which the link can carry `capacity` bytes.
    fn step(&mut self, capacity: u64, has_reports: bool) {
        self.now_ms += 1;
        let now = ms(self.now_ms);
        self.credit += capacity;
        self.carried_since_report += capacity;
        while self.queue > 0 && self.credit >= PACKET {
            (self.queue, self.credit) = (self.queue - PACKET, self.credit - PACKET);
            self.acks.push_back((self.now_ms + self.rtt_ms, 1_448));
        }
        if self.queue == 0 {
            self.unused += self.credit;
            self.credit = 0;
        }
        while self.acks.front().is_some_and(|&(at, _)| at <= self.now_ms) {
            let Some((_, bytes)) = self.acks.pop_front() else { break };
            self.acknowledge(bytes, now);
        }
        if self.now_ms.is_multiple_of(10) {
            self.report(has_reports);
        }
        while self.reports.front().is_some_and(|&(at, _)| at <= self.now_ms) {
            let Some((_, report)) = self.reports.pop_front() else { break };
            let age = now.saturating_since(report.now);
            self.controller.on_feedback(&Feedback { now, age, ..report });
        }
        self.send(now);
    }

    fn acknowledge(&mut self, bytes: u64, now: Instant) {
        self.in_flight -= bytes;
        self.delivered += bytes;
        self.controller.on_ack(&Ack {
            now,
            delivered: Bytes::new(bytes),
            delivered_total: Bytes::new(self.delivered),
            rtt: Some(Duration::from_millis(self.rtt_ms)),
            min_rtt: Some(Duration::from_millis(self.rtt_ms)),
            in_flight: Bytes::new(self.in_flight),
            ..Ack::default()
        });
    }

    fn report(&mut self, has_reports: bool) {
        self.reported += 1;
        let bandwidth = Rate::from_transfer(Bytes::new(self.carried_since_report), Duration::from_millis(10));
        self.carried_since_report = 0;
        if has_reports && (self.loses == 0 || !self.reported.is_multiple_of(self.loses)) {
            let report = Feedback::new(ms(self.now_ms), Duration::ZERO, bandwidth, Bytes::new(self.queue));
            self.reports.push_back((self.now_ms + self.delay_ms, report));
        }
    }

    fn send(&mut self, now: Instant) {
        while self.in_flight + 1_448 <= self.controller.control().window.get() {
            let (bytes, in_flight) = (Bytes::new(1_448), Bytes::new(self.in_flight));
            self.controller.on_send(&Sent { now, bytes, in_flight, is_app_limited: false });
            self.in_flight += 1_448;
            self.queue += PACKET;
        }
        self.queue_max = self.queue_max.max(self.queue);
    }

    /// `n` milliseconds at `capacity` bytes each; then what is counted begins anew.
    fn settle(&mut self, n: u64, capacity: u64) {
        (0..n).for_each(|_| self.step(capacity, true));
        (self.unused, self.queue_max) = (0, 0);
    }
}

fn paper(law: Law) -> WindowAdaptationParams {
    WindowAdaptationParams::paper(law)
}

#[test]
fn equation_18_by_hand() {
    let params = paper(Law::PerStep);
    // 1.2 Mbit/s for 10 ms is one packet; 15 packets are wanted, 4 are there.
    let w = params.window(Rate::from_kbps(1_200), Bytes::new(4 * PACKET));
    assert_eq!(w, Bytes::new((1 + 15 - 4) * PACKET));
    assert_eq!(params.window(Rate::from_kbps(1_200), Bytes::new(16 * PACKET)), Bytes::ZERO);
    assert_eq!(params.window(Rate::from_kbps(1_200), Bytes::new(99 * PACKET)), Bytes::ZERO, "clipped");
    let half = WindowAdaptationParams { gain_permille: 500, ..params };
    assert_eq!(half.window(Rate::from_kbps(1_200), Bytes::new(5 * PACKET)), Bytes::new(6 * PACKET));
}

#[test]
fn per_step_holds_the_queue_at_its_aim() {
    let mut radio = Radio::new(paper(Law::PerStep));
    // 6 Mbit/s: five packets a step.
    radio.settle(500, 750);
    (0..1_000).for_each(|_| radio.step(750, true));
    assert_eq!(radio.unused, 0);
    // After a report the queue is w + q̂ = q0 + b·τ.
    assert!(radio.queue_max <= (15 + 5 + 1) * PACKET, "{}", radio.queue_max / PACKET);
    assert!(radio.queue_max >= (15 + 4) * PACKET, "{}", radio.queue_max / PACKET);
}

#[test]
fn the_two_readings_differ_by_what_the_path_holds() {
    let run = |law: Law, rtt_ms: u64| {
        let mut radio = Radio::new(paper(law));
        radio.rtt_ms = rtt_ms;
        radio.settle(500, 1_500);
        (0..1_000).for_each(|_| radio.step(1_500, true));
        radio.unused / PACKET
    };
    assert_eq!(run(Law::PerStep, 100), 0);
    // 100 ms hold 100 packets, and the window is q0 + b·τ = 25 at most.
    let unused = run(Law::InFlight, 100);
    assert!((700..800).contains(&unused), "{unused}");
    assert_eq!(run(Law::InFlight, 5), 0);
}

#[test]
fn late_reports_make_the_plain_law_swing_and_not_the_predictive_one() {
    let run = |law: Law| {
        let mut radio = Radio::new(paper(law));
        radio.delay_ms = 100;
        radio.settle(6_000, 1_500);
        (0..2_000).for_each(|_| radio.step(1_500, true));
        (radio.unused / PACKET, radio.queue_max / PACKET)
    };
    let (plain_unused, plain_queue) = run(Law::PerStep);
    let (unused, queue) = run(Law::Predictive);
    // Ten steps are decided by the same news: ten times the aim is sent, then nothing.
    assert!(plain_queue > 100, "{plain_queue}");
    assert!(queue < 50 && unused < 100, "{queue} packets, {unused} unused of 2000, plain {plain_unused}");
}

#[test]
fn every_third_report_may_be_lost() {
    for loses in [0, 3] {
        let mut radio = Radio::new(paper(Law::Predictive));
        (radio.delay_ms, radio.loses) = (20, loses);
        radio.settle(6_000, 1_500);
        (0..2_000).for_each(|_| radio.step(1_500, true));
        assert!(radio.unused < 100 * PACKET, "{}", radio.unused / PACKET);
        assert!(radio.queue_max < 50 * PACKET, "{}", radio.queue_max / PACKET);
    }
}

#[test]
fn the_queue_is_as_long_as_the_variation_asks_for() {
    let run = |capacity: fn(u64) -> u64| {
        let mut radio = Radio::new(paper(Law::Predictive));
        radio.delay_ms = 20;
        (0..20_000).for_each(|n| radio.step(capacity(n), true));
        radio.controller.predictor.target()
    };
    let steady = run(|_| 1_500);
    // 100 ms at twice the mean, 100 ms at nothing.
    let bursty = run(|n| if n / 100 % 2 == 0 { 3_000 } else { 0 });
    assert!(steady < Duration::from_millis(15), "{steady}");
    assert!(bursty > steady.mul_ratio(3, 2), "{bursty} against {steady}");
}

#[test]
fn without_reports_rate_controls_and_a_report_takes_over_again() {
    let mut radio = Radio::new(paper(Law::Predictive));
    assert!(!radio.controller.is_informed());
    let fallback = RateControl::new(radio.controller.params.fallback).control();
    assert_eq!(radio.controller.control(), fallback);
    radio.settle(1_000, 1_500);
    assert!(radio.controller.is_informed());
    (0..600).for_each(|_| radio.step(1_500, false));
    assert!(!radio.controller.is_informed(), "half a second without news");
    (0..2_000).for_each(|_| radio.step(1_500, false));
    assert_eq!(radio.unused, 0, "`rate` keeps the link busy");
    (0..20).for_each(|_| radio.step(1_500, true));
    assert!(radio.controller.is_informed());
}

#[test]
fn a_report_that_says_for_how_long_it_holds_is_believed() {
    let mut controller = WindowAdaptation::new(paper(Law::Predictive));
    let report = Feedback::new(ms(100), Duration::from_millis(20), Rate::from_mbps(8), Bytes::ZERO);
    controller.on_feedback(&Feedback { validity: Duration::from_secs(3), ..report });
    let sent = |now| Sent { now, bytes: Bytes::new(1), in_flight: Bytes::ZERO, is_app_limited: false };
    controller.on_send(&sent(ms(3_080)));
    assert!(controller.is_informed());
    controller.on_send(&sent(ms(3_081)));
    assert!(!controller.is_informed());
}

#[test]
fn losses_change_nothing() {
    let mut radio = Radio::new(paper(Law::PerStep));
    radio.settle(500, 750);
    let before = radio.controller.control();
    for kind in [LossKind::Fast, LossKind::Timeout] {
        radio.controller.on_loss(&Loss {
            now: ms(radio.now_ms),
            lost: Bytes::new(10 * 1_448),
            kind,
            is_new_event: true,
            in_flight: Bytes::new(radio.in_flight),
        });
    }
    assert_eq!(radio.controller.control(), before);
}

#[test]
fn a_segment_may_always_be_in_flight() {
    for law in [Law::PerStep, Law::InFlight, Law::Predictive] {
        let mut controller = WindowAdaptation::new(paper(law));
        let full = Feedback::new(ms(10), Duration::ZERO, Rate::ZERO, Bytes::new(900_000));
        controller.on_feedback(&full);
        // What waits there is not ours; the predictive law adds its two packets to it.
        let segments = if law == Law::Predictive { 2 } else { 1 };
        assert_eq!(controller.control().window.get() / 1_448, segments, "{law:?}");
    }
}

#[test]
fn an_overtaken_report_is_ignored() {
    let mut controller = WindowAdaptation::new(paper(Law::PerStep));
    let new = Feedback::new(ms(50), Duration::ZERO, Rate::from_mbps(12), Bytes::ZERO);
    controller.on_feedback(&new);
    let before = controller.control();
    let old = Feedback::new(ms(51), Duration::from_millis(20), Rate::ZERO, Bytes::new(90_000));
    controller.on_feedback(&old);
    assert_eq!(controller.control(), before);
}

#[test]
fn reports_without_a_queue_or_without_a_bandwidth_still_control() {
    let run = |strip: fn(Feedback) -> Feedback| {
        let mut radio = Radio::new(paper(Law::Predictive));
        radio.delay_ms = 20;
        for n in 0..8_000 {
            radio.reports.iter_mut().for_each(|(_, report)| *report = strip(*report));
            radio.step(1_500, true);
            if n == 6_000 {
                (radio.unused, radio.queue_max) = (0, 0);
            }
        }
        (radio.unused / PACKET, radio.queue_max / PACKET)
    };
    let (unused, queue) = run(|report| Feedback { queue: None, ..report });
    assert!(unused < 200 && queue < 60, "{unused} {queue}");
}

#[test]
fn a_throughput_is_raised_until_a_queue_shows_that_it_is_the_bandwidth() {
    let mut controller = WindowAdaptation::new(paper(Law::Predictive));
    let mut at = 0;
    let mut report = |queue: u64| {
        at += 10;
        controller.on_feedback(&Feedback {
            is_throughput: true,
            ..Feedback::new(ms(at), Duration::ZERO, Rate::from_mbps(1), Bytes::new(queue))
        });
        controller.predictor.bandwidth().unwrap()
    };
    let first = report(0);
    (0..30).for_each(|_| assert!(report(0) >= first));
    let raised = report(0);
    assert!(raised > first.mul_ratio(4, 1), "{raised}");
    (0..60).for_each(|_| assert!(report(60_000) <= raised));
    let found = report(60_000);
    assert!(found < Rate::from_kbps(1_100), "{found}");
}

proptest! {
    /// Whatever is reported, nothing overflows, the window has room for a segment, and the same
    /// news give the same limits.
    #[test]
    fn any_reports_are_survived(
        news in proptest::collection::vec((0u64..3_000, any::<u64>(), any::<u64>(), 0u64..1_000, any::<bool>()), 1..50),
        law in prop_oneof![Just(Law::PerStep), Just(Law::InFlight), Just(Law::Predictive)],
    ) {
        let run = || {
            let mut controller = WindowAdaptation::new(paper(law));
            let mut at = 0;
            news.iter().map(|&(pause, rate, queue, age, is_throughput)| {
                at += pause;
                let (rate, queue) = (Rate::from_bps(rate >> (at % 60)), Bytes::new(queue >> (at % 60)));
                let report = Feedback::new(ms(at), Duration::from_millis(age), rate, queue);
                controller.on_feedback(&Feedback { is_throughput, ..report });
                let in_flight = Bytes::new(at);
                controller.on_send(&Sent { now: ms(at), bytes: Bytes::new(1_448), in_flight, is_app_limited: false });
                controller.control()
            }).collect::<Vec<_>>()
        };
        let controls = run();
        prop_assert!(controls.iter().all(|control| control.window >= Bytes::new(1_448)));
        prop_assert_eq!(controls, run());
    }
}
