use super::*;
use crate::Controller;
use crate::path::WindowPath;

const MSS: u64 = 1_000;

fn htcp() -> WindowPath<HTcp> {
    let params = HTcpParams { mss: Bytes::new(MSS), ..HTcpParams::default() };
    WindowPath::new(HTcp::new(params), MSS)
}

fn segments(path: &WindowPath<HTcp>) -> u64 {
    path.controller.control().window.get() / MSS
}

/// A loss at `segments`, after rounds of `low_ms` and `high_ms`, and its recovery.
fn lose_at(path: &mut WindowPath<HTcp>, segments: u64, low_ms: u64, high_ms: u64) {
    path.in_flight = 0;
    path.controller.window.ssthresh = segments * MSS;
    for rtt_ms in [low_ms, low_ms, high_ms, high_ms] {
        path.controller.window.cwnd = segments * MSS;
        path.fill();
        path.round(rtt_ms);
    }
    path.controller.window.cwnd = segments * MSS;
    path.lose(MSS, LossKind::Fast, true);
    path.recover(high_ms);
}

#[test]
fn alpha_by_hand() {
    let mut path = htcp();
    let rule = &mut path.controller.rule;
    rule.beta_permille = 500;
    // 2·(1 − ½)·α = α = 1 + 10·t + (t ÷ 2)², t seconds beyond the first.
    for (ms, permille) in [(0, 1_000), (1_000, 1_000), (2_000, 11_250), (3_000, 22_000), (11_000, 126_000)] {
        assert_eq!(rule.increase_permille(Instant::from_millis(ms)), permille, "after {ms} ms");
    }
    rule.beta_permille = 800;
    assert_eq!(rule.increase_permille(Instant::from_millis(3_000)), 22_000 * 2 / 5);
}

#[test]
fn in_its_first_second_it_grows_as_new_reno() {
    let mut path = htcp();
    lose_at(&mut path, 40, 50, 50);
    let before = segments(&path);
    for _ in 0..10 {
        path.round(50);
    }
    assert_eq!(segments(&path), before + 10);
}

#[test]
fn growth_is_faster_the_longer_no_loss_came() {
    let mut path = htcp();
    lose_at(&mut path, 200, 100, 100);
    let mut steps = Vec::new();
    for _ in 0..5 {
        let before = segments(&path);
        for _ in 0..10 {
            path.round(100);
        }
        steps.push(segments(&path) - before);
    }
    assert!(steps.is_sorted(), "{steps:?}");
    // Second five: α is about 1 + 10·3.5 + 3, ten rounds of it.
    assert!((300..500).contains(&steps[4]), "{steps:?}");
}

#[test]
fn the_first_loss_halves() {
    let mut path = htcp();
    lose_at(&mut path, 100, 100, 120);
    assert_eq!(segments(&path), 50);
}

#[test]
fn a_steady_path_is_left_full_and_its_queue_empty() {
    let mut path = htcp();
    lose_at(&mut path, 100, 100, 140);
    lose_at(&mut path, 100, 100, 140);
    // β = RTT_min ÷ RTT_max = 100 ÷ 140.
    assert_eq!(path.controller.rule.beta_permille, 714);
    assert_eq!(segments(&path), 71);
}

#[test]
fn beta_stays_within_its_bounds() {
    let mut path = htcp();
    lose_at(&mut path, 100, 100, 105);
    lose_at(&mut path, 100, 100, 105);
    assert_eq!(path.controller.rule.beta_permille, 800);
    lose_at(&mut path, 100, 100, 400);
    lose_at(&mut path, 100, 100, 400);
    assert_eq!(path.controller.rule.beta_permille, 500);
}

#[test]
fn a_changed_throughput_halves() {
    let mut path = htcp();
    lose_at(&mut path, 100, 100, 110);
    lose_at(&mut path, 100, 100, 110);
    assert_eq!(path.controller.rule.beta_permille, 800);
    // Half as much per round trip.
    lose_at(&mut path, 50, 100, 110);
    assert_eq!(path.controller.rule.beta_permille, 500);
}

#[test]
fn a_time_out_forgets_the_path() {
    let mut path = htcp();
    lose_at(&mut path, 100, 100, 110);
    lose_at(&mut path, 100, 100, 110);
    path.controller.window.cwnd = 100 * MSS;
    path.lose(200 * MSS, LossKind::Timeout, true);
    assert_eq!((segments(&path), path.controller.window.ssthresh), (1, 50 * MSS));
    assert_eq!(path.controller.rule.throughput_before, None);
}

#[test]
fn bounds_given_the_wrong_way_round_are_put_right() {
    let params = HTcpParams { beta_min_permille: 900, beta_max_permille: 100, ..HTcpParams::default() };
    let rule = HTcp::new(params).rule;
    assert_eq!((rule.params.beta_min_permille, rule.params.beta_max_permille), (900, 900));
}
