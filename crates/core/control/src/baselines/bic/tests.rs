use super::*;
use crate::Controller;
use crate::path::WindowPath;

const MSS: u64 = 1_000;

fn bic(params: BicParams) -> WindowPath<Bic> {
    WindowPath::new(Bic::new(BicParams { mss: Bytes::new(MSS), ..params }), MSS)
}

fn segments(path: &WindowPath<Bic>) -> u64 {
    path.controller.control().window.get() / MSS
}

/// A loss at `target` segments and its recovery.
fn after_loss_at(target: u64) -> WindowPath<Bic> {
    let mut path = bic(BicParams::default());
    path.controller.window.ssthresh = target * MSS;
    path.controller.window.cwnd = target * MSS;
    path.fill();
    path.lose(MSS, LossKind::Fast, true);
    path.recover(100);
    path
}

/// Growth in a round, in segments.
fn step(path: &mut WindowPath<Bic>) -> u64 {
    let before = segments(path);
    path.round(100);
    segments(path) - before
}

#[test]
fn a_loss_leaves_four_fifths() {
    assert_eq!(segments(&after_loss_at(100)), 80);
}

#[test]
fn a_small_window_is_new_reno() {
    let mut path = after_loss_at(14);
    assert_eq!(segments(&path), 7);
    assert_eq!((step(&mut path), step(&mut path)), (1, 1));
}

#[test]
fn far_from_the_last_loss_steps_are_the_largest() {
    let mut path = after_loss_at(1_000);
    // 200 segments missing: a quarter would be 50, 16 is the most.
    for _ in 0..4 {
        let step = step(&mut path);
        assert!((15..=17).contains(&step), "{step}");
    }
}

#[test]
fn near_it_a_quarter_of_the_distance_is_closed_per_round() {
    let mut path = after_loss_at(200);
    // 40 missing: 10, then a quarter of 30, …
    let steps: Vec<u64> = (0..4).map(|_| step(&mut path)).collect();
    assert!((8..=10).contains(&steps[0]), "{steps:?}");
    assert!(steps.windows(2).all(|w| w[1] <= w[0]), "{steps:?}");
}

#[test]
fn at_it_the_window_waits_and_then_leaves_faster_and_faster() {
    let mut path = after_loss_at(200);
    let mut rounds = 0;
    while segments(&path) < 199 {
        step(&mut path);
        rounds += 1;
    }
    let waited = (0..10).map(|_| step(&mut path)).sum::<u64>();
    assert!(waited <= 4, "{waited} segments in ten rounds beside W_max, reached after {rounds}");
    while segments(&path) < 210 {
        step(&mut path);
    }
    let (first, later) = (step(&mut path), {
        while segments(&path) < 250 {
            step(&mut path);
        }
        step(&mut path)
    });
    assert!(first < later && later <= 17, "{first}, then {later}");
}

#[test]
fn a_flow_that_lost_early_makes_room() {
    let mut path = after_loss_at(200);
    path.lose(MSS, LossKind::Fast, true);
    assert_eq!(path.controller.rule.w_max, 144 * MSS, "160·(1 + 0.8) ÷ 2");
    let mut path = after_loss_at(200);
    path.controller.rule.params.fast_convergence = false;
    path.lose(MSS, LossKind::Fast, true);
    assert_eq!(path.controller.rule.w_max, 160 * MSS);
}

#[test]
fn a_time_out_forgets_the_window_of_the_last_loss() {
    let mut path = after_loss_at(200);
    path.lose(300 * MSS, LossKind::Timeout, true);
    assert_eq!(path.controller.rule.w_max, 0);
    assert_eq!(path.controller.window.ssthresh, 128 * MSS);
}

#[test]
fn before_the_first_loss_a_twentieth_per_round_is_added() {
    let mut path = bic(BicParams::default());
    path.controller.window.ssthresh = 100 * MSS;
    path.controller.window.cwnd = 100 * MSS;
    path.fill();
    let step = step(&mut path);
    assert!((5..=16).contains(&step), "{step}");
}

#[test]
fn the_values_of_the_paper_can_be_had() {
    let params = BicParams { step_max_segments: 32, beta_permille: 875, ..BicParams::default() };
    let mut path = bic(params);
    path.controller.window.ssthresh = 2_000 * MSS;
    path.controller.window.cwnd = 2_000 * MSS;
    path.fill();
    path.lose(MSS, LossKind::Fast, true);
    path.recover(100);
    assert_eq!(segments(&path), 1_750);
    let step = step(&mut path);
    assert!((31..=33).contains(&step), "{step}");
}
