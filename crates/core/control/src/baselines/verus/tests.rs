use super::*;
use crate::shared_link::{MSS, SharedLink};
use crate::{AnyController, ControllerConfig, CubicParams};

const EMPTY_MS: u64 = 40;

fn verus(ratio_permille: u64) -> AnyController {
    let params = VerusParams { mss: Bytes::new(MSS), ratio_permille, ..VerusParams::default() };
    ControllerConfig::Verus(params).build()
}

/// Mean round trip in milliseconds, utilisation in per cent.
fn over(rates: &[(u64, u64)], controller: AnyController) -> (u64, u64) {
    let mut link = SharedLink::new(rates, EMPTY_MS, 2_000_000).with(controller, 0);
    link.run_until(5_000);
    link.forget();
    link.run_until(40_000);
    (link.mean_wait().as_millis() + EMPTY_MS, link.utilisation())
}

#[test]
fn a_larger_r_trades_delay_for_throughput() {
    let mut before = (EMPTY_MS, 0);
    // Below R times the shortest, 40.7 ms, and a twentieth for what Dest swings by.
    for (ratio_permille, most_ms) in [(2_000, 85), (4_000, 170), (6_000, 255)] {
        let (mean_ms, utilisation) = over(&[(0, 12_000)], verus(ratio_permille));
        assert!(mean_ms > before.0 && mean_ms <= most_ms, "R {ratio_permille}: {mean_ms} ms");
        assert!(utilisation >= before.1.max(85), "R {ratio_permille}: {utilisation} %");
        before = (mean_ms, utilisation);
    }
}

/// Rates that halve, double and vanish.
const VARYING: [(u64, u64); 8] = [
    (0, 12_000),
    (8_000, 4_000),
    (12_000, 9_000),
    (15_000, 2_000),
    (18_000, 16_000),
    (23_000, 6_000),
    (27_000, 3_000),
    (30_000, 12_000),
];

#[test]
fn on_a_varying_link_cubic_s_delay_is_an_order_of_magnitude_above() {
    let cubic =
        ControllerConfig::Cubic(CubicParams { mss: Bytes::new(MSS), ..CubicParams::default() }).build();
    let (cubic_ms, _) = over(&VARYING, cubic);
    let (mean_ms, utilisation) = over(&VARYING, verus(2_000));
    assert!(mean_ms * 10 <= cubic_ms, "{mean_ms} ms, CUBIC {cubic_ms} ms");
    assert!(utilisation >= 60, "{utilisation} %");
}

/// A flow past slow start on a path of 40 ms, whose last epoch had a longest round trip of 50 ms.
fn settled() -> Verus {
    let mut controller = Verus::new(VerusParams { mss: Bytes::new(MSS), ..VerusParams::default() });
    controller.phase = Phase::Delay;
    controller.min_delay = Some(Duration::from_millis(40));
    controller.max_delay = Some(Duration::from_millis(50));
    controller.delay = Duration::from_millis(60);
    controller.in_flight = MSS;
    controller
}

#[test]
fn the_three_cases_of_an_epoch() {
    let delay_after = |max_ms: u64, epoch_ms: u64| {
        let mut controller = settled();
        controller.max_delay = Some(Duration::from_millis(max_ms));
        controller.epoch_max = Some(Duration::from_millis(epoch_ms));
        controller.close_epoch(Instant::from_millis(5));
        (controller.delay.as_millis(), controller.max_delay.unwrap().as_millis())
    };
    // Too long: δ2 less. Longer: δ1 less. Else: δ2 more. Dmax: a fifth of what was.
    assert_eq!(delay_after(90, 80), (58, 82));
    assert_eq!(delay_after(50, 60), (59, 58));
    assert_eq!(delay_after(50, 45), (62, 46));
}

#[test]
fn an_epoch_without_acknowledgements_counts_the_silence() {
    let mut controller = settled();
    controller.last_ack_at = Instant::ZERO;
    for epoch in 1..=40 {
        controller.close_epoch(Instant::from_millis(5 * epoch));
    }
    assert!(controller.delay < Duration::from_millis(60), "{}", controller.delay);
    assert!(controller.max_delay.unwrap() > Duration::from_millis(150));
}

#[test]
fn a_loss_leaves_seven_tenths_and_a_needless_time_out_nothing_less() {
    let loss = |kind| Loss {
        now: Instant::from_millis(1),
        lost: Bytes::new(MSS),
        kind,
        is_new_event: true,
        in_flight: Bytes::new(39 * MSS),
    };
    let mut controller = settled();
    controller.window = 40 * FRACTION;
    controller.on_loss(&loss(LossKind::Fast));
    assert!((27..=28).contains(&controller.segments()), "{}", controller.segments());
    assert_eq!(controller.phase, Phase::Loss);
    let mut controller = settled();
    controller.window = 90 * FRACTION;
    controller.on_loss(&loss(LossKind::Timeout));
    assert_eq!((controller.segments(), controller.phase), (40, Phase::SlowStart));
    controller.on_undo(Instant::from_millis(2));
    assert_eq!((controller.segments(), controller.phase), (90, Phase::Delay));
}
