use super::*;
use crate::shared_link::{MSS, SharedLink};
use crate::{AnyController, ControllerConfig};

const EMPTY_MS: u64 = 40;

/// Rates that halve, double and vanish, over a queue of seconds.
const VARYING: [(u64, u64); 8] = [
    (0, 12_000),
    (5_000, 4_000),
    (9_000, 9_000),
    (12_000, 2_000),
    (15_000, 16_000),
    (20_000, 6_000),
    (24_000, 3_000),
    (27_000, 12_000),
];

fn c2tcp(target_ms: u64) -> AnyController {
    let target = Duration::from_millis(target_ms);
    ControllerConfig::C2tcp(C2tcpParams { mss: Bytes::new(MSS), target, ..C2tcpParams::default() }).build()
}

/// Mean round trip in milliseconds and utilisation in per cent over the varying link.
fn over_the_varying_link(controller: AnyController) -> (u64, u64) {
    let mut link = SharedLink::new(&VARYING, EMPTY_MS, 4_000_000).with(controller, 0);
    link.run_until(2_000);
    link.forget();
    link.run_until(40_000);
    (link.mean_wait().as_millis() + EMPTY_MS, link.utilisation())
}

#[test]
fn the_mean_round_trip_is_near_its_target_where_cubic_s_is_seconds() {
    let cubic =
        ControllerConfig::Cubic(CubicParams { mss: Bytes::new(MSS), ..CubicParams::default() }).build();
    let (cubic_ms, _) = over_the_varying_link(cubic);
    for target_ms in [80, 100, 150] {
        let (mean_ms, utilisation) = over_the_varying_link(c2tcp(target_ms));
        assert!(mean_ms * 4 >= target_ms * 2 && mean_ms * 4 <= target_ms * 5, "{mean_ms} ms of {target_ms}");
        assert!(cubic_ms >= 5 * mean_ms, "{mean_ms} ms, CUBIC {cubic_ms} ms");
        assert!(utilisation >= 70, "{utilisation} %");
    }
}

#[test]
fn a_larger_target_buys_throughput() {
    let (tight, loose) = (over_the_varying_link(c2tcp(60)), over_the_varying_link(c2tcp(200)));
    assert!(tight.0 < loose.0 && tight.1 < loose.1, "{tight:?} and {loose:?} ms and %");
}

/// One acknowledgement of a segment.
fn ack(ms: u64, rtt_ms: u64) -> Ack {
    Ack {
        now: Instant::from_millis(ms),
        delivered: Bytes::new(MSS),
        delivered_total: Bytes::new(MSS * (ms + 1)),
        rtt: Some(Duration::from_millis(rtt_ms)),
        in_flight: Bytes::new(20 * MSS),
        in_flight_before: Bytes::new(21 * MSS),
        is_window_limited: true,
        ..Ack::default()
    }
}

fn fixed_alpha() -> C2tcp {
    C2tcp::new(C2tcpParams { mss: Bytes::new(MSS), tuning_period: None, ..C2tcpParams::default() })
}

#[test]
fn one_short_round_trip_within_the_interval_keeps_the_window() {
    let mut controller = fixed_alpha();
    controller.on_ack(&ack(0, 40));
    // Setpoint and interval are 60 ms.
    for ms in 1..200 {
        controller.on_ack(&ack(ms, if ms % 50 == 0 { 55 } else { 90 }));
    }
    assert!(controller.control().window.get() >= 10 * MSS, "{}", controller.control().window);
}

#[test]
fn an_interval_without_one_starts_again_from_one_segment_ever_sooner() {
    let mut controller = fixed_alpha();
    controller.on_ack(&ack(0, 40));
    let mut starts = Vec::new();
    for ms in 1..250 {
        let before = controller.control().window;
        controller.on_ack(&ack(ms, 90));
        if controller.control().window < before {
            starts.push(ms);
        }
    }
    // 60 ms after the first late one; then 60 ÷ √1, 60 ÷ √2, … after each.
    assert_eq!(starts, [62, 123, 166, 201, 232]);
}

#[test]
fn the_tuner_moves_alpha_towards_the_target_and_no_further_than_its_bounds() {
    let mut controller = C2tcp::new(C2tcpParams { mss: Bytes::new(MSS), ..C2tcpParams::default() });
    let mut run = |from: u64, rtt_ms: u64| {
        (from..from + 501)
            .for_each(|ms| controller.tune(Duration::from_millis(rtt_ms), Instant::from_millis(ms)));
        controller.alpha_percent
    };
    // 150·(1 + (100 − 80) ÷ 160) = 168; 168·(1 − 2·(125 − 100) ÷ 125) = 100.8.
    assert_eq!(run(0, 80), 168);
    assert_eq!(run(500, 125), 100);
    assert_eq!(run(1_000, 500), 100);
    assert_eq!(run(1_500, 1), 1_000);
}
