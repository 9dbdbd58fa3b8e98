use super::*;
use crate::Controller;
use crate::path::WindowPath;

const MSS: u64 = 1_000;

fn veno() -> WindowPath<Veno> {
    let params = VenoParams { mss: Bytes::new(MSS), ..VenoParams::default() };
    WindowPath::new(Veno::new(params), MSS)
}

/// Controller in avoidance with `segments`, after rounds of 100 ms and then two of `rtt_ms`.
fn at(segments: u64, rtt_ms: u64) -> WindowPath<Veno> {
    let mut path = veno();
    path.controller.window.ssthresh = segments * MSS;
    path.controller.window.cwnd = segments * MSS;
    path.fill();
    for rtt in [100, 100, rtt_ms, rtt_ms] {
        path.round(rtt);
        path.controller.window.cwnd = segments * MSS;
    }
    path
}

fn segments(path: &WindowPath<Veno>) -> u64 {
    path.controller.control().window.get() / MSS
}

#[test]
fn a_loss_without_a_queue_costs_a_fifth() {
    // N = 50·(105 − 100) ÷ 105 = 2.4 segments, fewer than 3.
    let mut path = at(50, 105);
    path.lose(MSS, LossKind::Fast, true);
    path.recover(105);
    assert_eq!(segments(&path), 40);
}

#[test]
fn a_loss_with_a_queue_costs_half() {
    // N = 50·(110 − 100) ÷ 110 = 4.5 segments.
    let mut path = at(50, 110);
    path.lose(MSS, LossKind::Fast, true);
    path.recover(110);
    assert_eq!(segments(&path), 25);
}

#[test]
fn the_cost_of_a_random_loss_is_a_parameter() {
    let mut path = at(50, 100);
    path.controller.rule.params.random_loss_permille = 900;
    path.lose(MSS, LossKind::Fast, true);
    path.recover(100);
    assert_eq!(segments(&path), 45);
}

#[test]
fn a_time_out_halves_whatever_the_queue() {
    let mut path = at(50, 100);
    path.lose(100 * MSS, LossKind::Timeout, true);
    assert_eq!(path.controller.window.ssthresh, 25 * MSS);
    assert_eq!(segments(&path), 1);
}

#[test]
fn with_a_queue_it_grows_at_half_the_speed() {
    let growth = |rtt_ms| {
        let mut path = at(50, rtt_ms);
        let before = segments(&path);
        for _ in 0..8 {
            path.round(rtt_ms);
        }
        segments(&path) - before
    };
    assert_eq!(growth(100), 8);
    assert_eq!(growth(120), 4);
}

#[test]
fn one_slow_acknowledgement_is_no_queue() {
    let mut path = at(50, 100);
    path.ack(MSS, 400, false);
    path.fill();
    path.round(100);
    path.lose(MSS, LossKind::Fast, true);
    assert_eq!(path.controller.window.ssthresh / MSS, 40);
}

#[test]
fn without_a_round_trip_a_loss_is_random() {
    let mut path = veno();
    path.lose(MSS, LossKind::Fast, true);
    assert_eq!(path.controller.window.ssthresh, 8 * MSS);
}

#[test]
fn the_queue_is_the_share_of_the_window_beyond_the_base() {
    let mut window = Window::new(Bytes::new(MSS), 60);
    let ms = Duration::from_millis;
    assert_eq!(queued(&window, ms(100), ms(100)), 0);
    assert_eq!(queued(&window, ms(100), ms(150)), 20 * MSS);
    assert_eq!(queued(&window, ms(100), ms(50)), 0, "never negative");
    window.cwnd = 3 * MSS;
    assert_eq!(queued(&window, ms(100), ms(300)), 2 * MSS);
}
