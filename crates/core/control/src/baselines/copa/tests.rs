use super::*;
use crate::shared_link::{MSS, SharedLink};
use crate::{AnyController, ControllerConfig, CubicParams};

fn params() -> CopaParams {
    CopaParams { mss: Bytes::new(MSS), ..CopaParams::default() }
}

fn copa() -> AnyController {
    ControllerConfig::Copa(params()).build()
}

/// Segments that a wait is on a link of `kbps`.
fn segments(wait: Duration, kbps: u64) -> u64 {
    Rate::from_kbps(kbps).bytes_in(wait).get() / MSS
}

#[test]
fn a_flow_alone_keeps_about_one_over_delta_segments_in_the_queue() {
    // [CO] §2.1, §2.3: 1 ÷ δ segments in equilibrium; it swings between none and 2.5 ÷ δ, 1.25 ÷ δ on
    // average.
    for delta_permille in [500, 100] {
        let controller = ControllerConfig::Copa(CopaParams { delta_permille, ..params() }).build();
        let mut link = SharedLink::new(&[(0, 12_000)], 40, 1_000_000).with(controller, 0);
        link.run_until(10_000);
        link.forget();
        link.run_until(30_000);
        let (mean, p95) = (segments(link.mean_wait(), 12_000), segments(link.wait(950), 12_000));
        let equilibrium = 1_000 / delta_permille;
        assert!(
            mean >= equilibrium / 2 && mean <= 2 * equilibrium,
            "δ {delta_permille}: {mean} segments on average"
        );
        assert!(p95 <= 5 * equilibrium / 2, "δ {delta_permille}: {p95} segments");
        assert!(link.utilisation() >= 95, "{} %", link.utilisation());
        let low = segments(link.wait(50), 12_000);
        assert!(low <= (p95 / 5).max(1), "δ {delta_permille}: the queue runs nearly empty, {low} segments");
        assert_eq!(link.senders[0].all_lost, 0);
    }
}

#[test]
fn two_flows_share_evenly_whoever_came_first() {
    let mut link = SharedLink::new(&[(0, 12_000)], 40, 1_000_000).with(copa(), 0).with(copa(), 5_000);
    link.run_until(10_000);
    link.forget();
    link.run_until(40_000);
    let (first, second) = (link.senders[0].delivered, link.senders[1].delivered);
    // Jain's index of two shares is at least 0.99 where they differ by less than a fifth.
    assert!(first.abs_diff(second) * 10 < first + second, "{first} and {second}");
    assert!(link.utilisation() >= 95, "{} %", link.utilisation());
    assert!(segments(link.mean_wait(), 12_000) <= 10, "{:?}", link.mean_wait());
}

#[test]
fn a_link_that_becomes_faster_is_filled_within_some_round_trips() {
    // v doubles: 60 segments more take ten round trips of 40 ms, not thirty at 1 ÷ δ = 2 a round trip.
    let mut link = SharedLink::new(&[(0, 3_000), (10_000, 15_000)], 40, 1_000_000).with(copa(), 0);
    link.run_until(10_400);
    link.forget();
    link.run_until(10_700);
    assert!(link.utilisation() >= 98, "{} %", link.utilisation());
}

#[test]
fn a_flow_that_fills_the_queue_does_not_starve_it() {
    let cubic = || {
        let params = CubicParams { mss: Bytes::new(MSS), ..CubicParams::default() };
        ControllerConfig::Cubic(params).build()
    };
    let share = |competitive| {
        let copa = ControllerConfig::Copa(CopaParams { competitive, ..params() }).build();
        let mut link = SharedLink::new(&[(0, 12_000)], 40, 60_000).with(copa, 0).with(cubic(), 0);
        link.run_until(10_000);
        link.forget();
        link.run_until(60_000);
        let (copa, cubic) = (link.senders[0].delivered, link.senders[1].delivered);
        copa * 100 / (copa + cubic)
    };
    let (with, without) = (share(true), share(false));
    assert!(with >= 30 && with > 2 * without, "{with} % with the competitive mode, {without} % without");
}

#[test]
fn losses_alone_do_not_slow_it() {
    let mut controller = Copa::new(params());
    let before = controller.control().window;
    controller.on_loss(&Loss {
        now: Instant::from_millis(1),
        lost: Bytes::new(MSS),
        kind: LossKind::Fast,
        is_new_event: true,
        in_flight: Bytes::new(9 * MSS),
    });
    assert_eq!(controller.control().window, before);
}

#[test]
fn a_needless_time_out_is_taken_back() {
    let mut controller = Copa::new(params());
    let before = controller.control().window;
    let timeout = Loss {
        now: Instant::from_millis(1),
        lost: before,
        kind: LossKind::Timeout,
        is_new_event: true,
        in_flight: Bytes::ZERO,
    };
    controller.on_loss(&timeout);
    assert_eq!(controller.control().window.get(), WINDOW_MIN_SEGMENTS * MSS);
    controller.on_undo(Instant::from_millis(2));
    assert_eq!(controller.control().window, before);
}

#[test]
fn velocity_doubles_after_three_windows_one_way_and_falls_when_it_turns() {
    let mut controller = Copa::new(params());
    controller.is_slow_start = false;
    let mut seen = Vec::new();
    for cwnd in [20, 30, 40, 50, 60, 70, 60, 50] {
        controller.cwnd = cwnd * MSS * FRACTION;
        controller.judge_direction();
        seen.push(controller.velocity);
    }
    assert_eq!(seen, [1, 1, 1, 2, 4, 8, 1, 1]);
}
