use super::*;
use crate::Controller;
use crate::path::WindowPath;

const MSS: u64 = 1_000;

fn vegas() -> WindowPath<Vegas> {
    let params = VegasParams { mss: Bytes::new(MSS), ..VegasParams::default() };
    WindowPath::new(Vegas::new(params), MSS)
}

fn segments(path: &WindowPath<Vegas>) -> u64 {
    path.controller.control().window.get() / MSS
}

/// Controller in avoidance with `segments` and a base of 100 ms.
fn at(segments: u64) -> WindowPath<Vegas> {
    let mut path = vegas();
    path.controller.window.ssthresh = segments * MSS;
    path.controller.window.cwnd = segments * MSS;
    path.fill();
    path.round(100);
    path.in_flight = 0;
    path.controller.rule.rounds = Rounds::default();
    path.controller.rule.step = Step::Hold;
    path.controller.window.cwnd = segments * MSS;
    path.fill();
    path
}

/// The window after ten rounds of `rtt_ms`.
fn after_ten_rounds(rtt_ms: u64) -> u64 {
    let mut path = at(50);
    for _ in 0..10 {
        path.round(rtt_ms);
    }
    segments(&path)
}

#[test]
fn without_a_queue_it_grows_by_a_segment_per_round() {
    assert!((59..=61).contains(&after_ten_rounds(100)), "{}", after_ten_rounds(100));
}

#[test]
fn with_a_queue_it_shrinks_by_a_segment_per_round() {
    assert!((39..=43).contains(&after_ten_rounds(150)), "{}", after_ten_rounds(150));
}

#[test]
fn between_alpha_and_beta_it_stays() {
    // 50·(106 − 100) ÷ 106 = 2.8 segments.
    let after = after_ten_rounds(106);
    assert!((49..=51).contains(&after), "{after}");
}

#[test]
fn slow_start_doubles_every_other_round() {
    let mut path = vegas();
    let mut windows = Vec::new();
    for _ in 0..7 {
        path.round(100);
        windows.push(segments(&path));
    }
    let doublings = windows.windows(2).filter(|w| w[1] >= w[0] * 2 - 1).count();
    let rests = windows.windows(2).filter(|w| w[1] <= w[0] + 1).count();
    assert_eq!((doublings, rests), (3, 3), "{windows:?}");
}

#[test]
fn slow_start_ends_with_what_fits_without_a_queue() {
    let mut path = vegas();
    while segments(&path) < 80 {
        path.round(100);
    }
    let before = segments(&path);
    // A round of 125 ms: a fifth of the window waits.
    while path.controller.window.is_slow_start() {
        path.round(125);
    }
    let after = segments(&path);
    assert!(after >= before * 4 / 5 && after < before * 2, "{before} to {after}");
    path.round(125);
    assert!(!path.controller.window.is_slow_start());
}

#[test]
fn a_loss_leaves_three_quarters_and_a_time_out_half() {
    let mut path = at(40);
    path.lose(MSS, LossKind::Fast, true);
    assert_eq!(path.controller.window.ssthresh, 30 * MSS);
    let mut path = at(40);
    path.lose(40 * MSS, LossKind::Timeout, true);
    assert_eq!((path.controller.window.ssthresh, segments(&path)), (20 * MSS, 1));
}

#[test]
fn with_two_samples_a_round_it_grows_as_new_reno() {
    let mut path = at(2);
    // However much waits: two samples do not say so.
    for _ in 0..2 {
        path.round(400);
    }
    assert_eq!(segments(&path), 3);
    // Three do: 3·(400 − 100) ÷ 400 = 2.25 segments wait, which is neither too few nor too many.
    for _ in 0..4 {
        path.round(400);
    }
    assert_eq!(segments(&path), 3);
}

#[test]
fn it_never_shrinks_below_two_segments() {
    let mut path = at(8);
    for _ in 0..40 {
        path.round(900);
    }
    assert!((2..=4).contains(&segments(&path)), "{}", segments(&path));
    assert!(!path.controller.window.is_slow_start());
}

#[test]
fn it_settles_with_two_to_four_segments_in_the_queue() {
    // A link of one segment per millisecond behind 100 ms: 100 segments fill it, each one more adds
    // a millisecond.
    let mut path = vegas();
    for _ in 0..400 {
        let in_flight = path.in_flight / MSS;
        path.round(in_flight.max(100));
    }
    let queue = segments(&path) - 100;
    assert!((2..=5).contains(&queue), "{queue}");
}
