use super::*;
use crate::path::WindowPath;
use crate::{Controller, LossKind};

const MSS: u64 = 1_000;

fn rule() -> HighSpeedRule {
    HighSpeed::new(HighSpeedParams::default()).rule
}

fn highspeed() -> WindowPath<HighSpeed> {
    let params = HighSpeedParams { mss: Bytes::new(MSS), ..HighSpeedParams::default() };
    WindowPath::new(HighSpeed::new(params), MSS)
}

fn segments(path: &WindowPath<HighSpeed>) -> u64 {
    path.controller.control().window.get() / MSS
}

#[test]
fn the_values_of_appendix_b() {
    // RFC 3649 Appendix B: the smallest window of each whole a(w), and b(w) rounded to hundredths.
    for (window, a, b) in [
        (38, 1, 50),
        (118, 2, 44),
        (221, 3, 41),
        (347, 4, 38),
        (495, 5, 37),
        (663, 6, 35),
        (851, 7, 34),
        (1_058, 8, 33),
        (1_284, 9, 32),
        (1_529, 10, 31),
        (1_793, 11, 30),
        (2_076, 12, 29),
    ] {
        let increase = rule().increase_permille(window);
        assert!(increase.abs_diff(a * 1_000) <= 20 * a, "a({window}) = {increase} ‰ instead of {a}");
        let decrease = (rule().decrease_ppm(window) + 5_000) / 10_000;
        assert!(decrease.abs_diff(b) <= 1, "b({window}) = {decrease} % instead of {b} %");
    }
}

#[test]
fn small_windows_are_new_reno() {
    for window in [1, 2, 10, 38] {
        assert_eq!(rule().increase_permille(window), 1_000);
        assert_eq!(rule().decrease_ppm(window), 500_000);
    }
}

#[test]
fn the_largest_window_has_the_smallest_decrease() {
    assert_eq!(rule().decrease_ppm(83_000), 100_000);
    assert_eq!(rule().decrease_ppm(1_000_000), 100_000);
    assert_eq!(rule().increase_permille(1_000_000), rule().increase_permille(83_000));
    // RFC 3649 §5: a(83000) = 70 (Table 2 gives 71 at 84,035).
    let a = rule().increase_permille(83_000);
    assert!((69_000..=72_000).contains(&a), "{a}");
}

#[test]
fn increase_rises_and_decrease_falls_with_the_window() {
    let mut last = (0, u64::MAX);
    for window in (38..83_000).step_by(97) {
        let next = (rule().increase_permille(window), rule().decrease_ppm(window));
        assert!(next.0 >= last.0 && next.1 <= last.1, "{window}: {last:?} to {next:?}");
        last = next;
    }
}

#[test]
fn a_window_of_221_grows_by_three_segments_and_loses_two_fifths() {
    let mut path = highspeed();
    path.controller.window.ssthresh = 221 * MSS;
    path.controller.window.cwnd = 221 * MSS;
    path.fill();
    for expected in [224, 227, 230] {
        path.round(100);
        assert!(segments(&path).abs_diff(expected) <= 1, "{} instead of {expected}", segments(&path));
    }
    path.controller.window.cwnd = 221 * MSS;
    path.lose(MSS, LossKind::Fast, true);
    let kept = path.controller.window.ssthresh / MSS;
    assert!((130..=133).contains(&kept), "{kept}: 221·(1 − 0.41)");
}

#[test]
fn the_decrease_at_the_top_is_a_parameter() {
    let at_top = |permille| {
        let params = HighSpeedParams { high_decrease_permille: permille, ..HighSpeedParams::default() };
        HighSpeed::new(params).rule.decrease_ppm(83_000)
    };
    assert_eq!((at_top(200), at_top(500), at_top(900)), (200_000, 500_000, 500_000));
}
