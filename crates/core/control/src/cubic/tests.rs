use super::*;
use crate::path::WindowPath;
use crate::{Controller, LossKind};

const MSS: u64 = 1_000;

fn params() -> CubicParams {
    CubicParams { mss: Bytes::new(MSS), hystart: false, ..CubicParams::default() }
}

fn cubic(params: CubicParams) -> WindowPath<Cubic> {
    WindowPath::new(Cubic::new(params), MSS)
}

fn segments(path: &WindowPath<Cubic>) -> u64 {
    path.controller.control().window.get() / MSS
}

/// Slow start to `segments`, a loss, and its recovery.
fn after_loss_at(target: u64, params: CubicParams, rtt_ms: u64) -> WindowPath<Cubic> {
    let mut path = cubic(params);
    while segments(&path) < target {
        path.round(rtt_ms);
    }
    path.controller.window.cwnd = target * MSS;
    path.lose(MSS, LossKind::Fast, true);
    path.recover(rtt_ms);
    path
}

#[test]
fn a_loss_leaves_seven_tenths() {
    let path = after_loss_at(100, params(), 100);
    assert_eq!(segments(&path), 70);
}

#[test]
fn the_reduction_is_a_parameter() {
    // [MA] cites a reduction by 0.2.
    let path = after_loss_at(100, CubicParams { beta_permille: 800, ..params() }, 100);
    assert_eq!(segments(&path), 80);
}

#[test]
fn the_window_is_back_after_k_seconds_and_waits_there() {
    // K = ∛((100 − 70) ÷ 0.4) = 4.217 s (RFC 9438 eq. (2)).
    let mut path = after_loss_at(100, params(), 100);
    let began = path.now;
    let mut at = Vec::new();
    while path.now.saturating_since(began) < Duration::from_secs(9) {
        path.round(100);
        at.push((path.now.saturating_since(began).as_millis(), segments(&path)));
    }
    let window_at = |ms: u64| at.iter().find(|(t, _)| *t >= ms).expect("within nine seconds").1;
    // W(t) by eq. (1), a round trip later at most: 0.4·(t − 4.217)³ + 100.
    for (ms, expected) in [(1_000, 87), (2_000, 96), (3_000, 99), (4_200, 100), (6_000, 102), (8_000, 122)] {
        let segments = window_at(ms);
        assert!(segments.abs_diff(expected) <= 3, "{segments} instead of {expected} segments after {ms} ms");
    }
}

#[test]
fn growth_follows_time_not_round_trips() {
    let grown = |rtt_ms| {
        let mut path = after_loss_at(400, params(), rtt_ms);
        let began = path.now;
        while path.now.saturating_since(began) < Duration::from_secs(8) {
            path.round(rtt_ms);
        }
        segments(&path)
    };
    let (short, long) = (grown(50), grown(200));
    assert!(short.abs_diff(long) * 20 <= long, "{short} and {long} segments");
}

#[test]
fn on_a_short_path_it_is_no_slower_than_reno() {
    // W_est grows by 3·(1 − 0.7) ÷ (1 + 0.7) = 0.529 segments per round: 40 rounds give 21 segments, and
    // 0.4·(0.4 s)³ on top of the loss would give nothing.
    let mut path = after_loss_at(20, params(), 10);
    for _ in 0..40 {
        path.round(10);
    }
    assert!((33..=38).contains(&segments(&path)), "{}", segments(&path));
}

#[test]
fn a_flow_that_lost_early_makes_room() {
    let mut path = after_loss_at(100, params(), 100);
    path.lose(MSS, LossKind::Fast, true);
    // At 70 segments, below the 100 of the last loss: fast convergence aims at 70·(1 + 0.7) ÷ 2.
    assert_eq!(path.controller.rule.w_max, 59_500);
    let mut path = after_loss_at(100, CubicParams { fast_convergence: false, ..params() }, 100);
    path.lose(MSS, LossKind::Fast, true);
    assert_eq!(path.controller.rule.w_max, 70_000);
}

#[test]
fn growth_per_round_trip_is_bounded() {
    let mut path = after_loss_at(10, params(), 1_000);
    for _ in 0..60 {
        let before = segments(&path);
        path.round(1_000);
        assert!(segments(&path) <= before * 3 / 2 + 1, "{before} to {}", segments(&path));
    }
}

#[test]
fn before_the_first_loss_a_twentieth_per_round_is_added() {
    let mut path = cubic(params());
    path.controller.window.ssthresh = 100 * MSS;
    while segments(&path) < 100 {
        path.round(10);
    }
    let before = segments(&path);
    path.round(10);
    let added = segments(&path) - before;
    assert!((4..=6).contains(&added), "{added} to {before}");
}

#[test]
fn a_time_out_forgets_the_window_of_the_last_loss() {
    let mut path = after_loss_at(100, params(), 100);
    path.lose(10 * MSS, LossKind::Timeout, true);
    assert_eq!(path.controller.rule.w_max, 0);
    assert_eq!(path.controller.window.ssthresh, 49_000);
}

#[test]
fn time_without_data_is_no_time_of_growth() {
    let mut path = after_loss_at(100, params(), 100);
    path.round(100);
    let before = segments(&path);
    path.now += Duration::from_secs(20);
    path.controller.on_send(&Sent {
        now: path.now,
        bytes: Bytes::new(MSS),
        in_flight: Bytes::ZERO,
        is_app_limited: true,
    });
    path.round(100);
    assert!(segments(&path) <= before + 10, "{before} to {}", segments(&path));
}

#[test]
fn hystart_leaves_slow_start_when_the_round_trip_rises() {
    let mut path = cubic(CubicParams { hystart: true, ..params() });
    for rtt_ms in [400, 400, 400] {
        path.round(rtt_ms);
    }
    assert!(path.controller.window.is_slow_start());
    assert_eq!(segments(&path), 80);
    // An eighth of 400 ms is more than 16 ms, the largest rise that is waited for. Acknowledgements
    // are 5 ms apart: no train.
    path.round(415);
    assert!(path.controller.window.is_slow_start());
    path.round(417);
    assert!(!path.controller.window.is_slow_start());
    let left_at = path.controller.window.ssthresh / MSS;
    assert!((160..200).contains(&left_at), "{left_at}: within the first samples of the round");
}

#[test]
fn hystart_leaves_slow_start_when_acknowledgements_fill_half_a_round_trip() {
    let mut path = cubic(CubicParams { hystart: true, ..params() });
    // 40 ms, acknowledgements a millisecond apart: 16 in a train are 16 ms, 32 are more than 20 ms.
    for segments in [10, 20, 40] {
        let began = path.now;
        for i in 0..segments {
            path.now = began + Duration::from_millis(40 + i);
            path.ack(MSS, 40, false);
        }
        path.fill();
    }
    assert!(!path.controller.window.is_slow_start());
    assert!((55..=65).contains(&(path.controller.window.ssthresh / MSS)));
}

#[test]
fn a_small_window_stays_in_slow_start() {
    let mut path = cubic(CubicParams { hystart: true, initial_window_segments: 2, ..params() });
    path.round(100);
    path.round(300);
    assert!(path.controller.window.is_slow_start());
}
