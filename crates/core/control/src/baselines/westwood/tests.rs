use super::*;
use crate::path::WindowPath;
use crate::{Controller, LossKind};

const MSS: u64 = 1_000;

fn westwood() -> WindowPath<Westwood> {
    let params = WestwoodParams { mss: Bytes::new(MSS), ..WestwoodParams::default() };
    WindowPath::new(Westwood::new(params), MSS)
}

fn plus() -> WindowPath<WestwoodPlus> {
    let params = WestwoodPlusParams { mss: Bytes::new(MSS), ..WestwoodPlusParams::default() };
    WindowPath::new(WestwoodPlus::new(params), MSS)
}

/// Keeps the window at `segments` for `rounds` round trips.
fn hold<E: Estimator>(
    path: &mut WindowPath<WindowControl<WestwoodRule<E>>>,
    segments: u64,
    rounds: u64,
    rtt_ms: u64,
) {
    path.controller.window.ssthresh = segments * MSS;
    path.controller.window.cwnd = segments * MSS;
    path.fill();
    for _ in 0..rounds {
        path.round(rtt_ms);
        path.controller.window.cwnd = segments * MSS;
    }
}

fn kbps<E: Estimator>(path: &WindowPath<WindowControl<WestwoodRule<E>>>) -> u64 {
    path.controller.rule.estimator.rate().expect("an estimate").as_bps() / 1_000
}

fn threshold<E: Estimator>(path: &WindowPath<WindowControl<WestwoodRule<E>>>) -> u64 {
    path.controller.window.ssthresh / MSS
}

#[test]
fn both_find_the_rate_of_even_acknowledgements() {
    // 50 segments of 1000 bytes in 100 ms are 4 Mbit/s.
    let mut path = westwood();
    hold(&mut path, 50, 100, 100);
    assert!((3_900..=4_100).contains(&kbps(&path)), "{}", kbps(&path));
    let mut path = plus();
    hold(&mut path, 50, 100, 100);
    assert!((3_900..=4_100).contains(&kbps(&path)), "{}", kbps(&path));
}

#[test]
fn a_random_loss_keeps_the_window_that_fills_the_path() {
    let mut path = plus();
    hold(&mut path, 50, 100, 100);
    path.lose(MSS, LossKind::Fast, true);
    assert!((48..=50).contains(&threshold(&path)), "{} of 50 segments without a queue", threshold(&path));
    path.recover(100);
    assert_eq!(path.controller.control().window.get() / MSS, threshold(&path));
}

#[test]
fn a_loss_with_a_queue_gives_the_queue_up() {
    let mut path = plus();
    hold(&mut path, 25, 20, 100);
    // Twice the window at the same rate: half of it waits.
    hold(&mut path, 50, 100, 200);
    path.lose(MSS, LossKind::Fast, true);
    assert!((23..=27).contains(&threshold(&path)), "{}", threshold(&path));
    let mut path = westwood();
    hold(&mut path, 25, 20, 100);
    hold(&mut path, 50, 100, 200);
    path.lose(MSS, LossKind::Fast, true);
    assert!((23..=27).contains(&threshold(&path)), "{}", threshold(&path));
}

#[test]
fn a_time_out_starts_over_with_that_threshold() {
    let mut path = westwood();
    hold(&mut path, 40, 100, 100);
    path.lose(100 * MSS, LossKind::Timeout, true);
    assert_eq!(path.controller.control().window.get(), MSS);
    assert!((38..=40).contains(&threshold(&path)), "{}", threshold(&path));
}

#[test]
fn without_an_estimate_it_halves() {
    let mut path = westwood();
    path.lose(MSS, LossKind::Fast, true);
    assert_eq!(threshold(&path), 5);
    let mut path = plus();
    path.lose(MSS, LossKind::Fast, true);
    assert_eq!(threshold(&path), 5);
}

#[test]
fn a_loss_never_raises_the_window() {
    let mut path = plus();
    hold(&mut path, 50, 50, 100);
    path.controller.window.cwnd = 20 * MSS;
    path.lose(MSS, LossKind::Fast, true);
    assert_eq!(threshold(&path), 20);
}

#[test]
fn the_filter_of_2001_follows_its_formula() {
    let mut filter = PerAck { tau: Duration::from_millis(500), last: None, pending: 0, rate: 0, sample: 0 };
    let mut ack = |ms, bytes| {
        filter.on_ack(&Ack { now: Instant::from_millis(ms), delivered: Bytes::new(bytes), ..Ack::default() });
        filter.rate
    };
    assert_eq!(ack(0, 1_000), 0);
    // b₁ = 8 Mbit/s over 1 ms, b₀ = 0: (999·0 + 1·8) ÷ 1001.
    assert_eq!(ack(1, 1_000), 8_000_000 / 1_001);
    // b₂ = 8 Mbit/s: (999·B̂₁ + 8 + 8) ÷ 1001.
    assert_eq!(ack(2, 1_000), (999 * 7_992 + 16_000_000) / 1_001);
}

#[test]
fn acknowledgements_of_one_instant_are_one_sample() {
    let mut filter = PerAck { tau: Duration::from_millis(500), last: None, pending: 0, rate: 0, sample: 0 };
    for ms in 0..2_000u64 {
        // Two kilobytes every two milliseconds, in two acknowledgements at once.
        for _ in 0..if ms % 2 == 0 { 2 } else { 0 } {
            filter.on_ack(&Ack {
                now: Instant::from_millis(ms),
                delivered: Bytes::new(1_000),
                ..Ack::default()
            });
        }
    }
    assert!((7_800_000..8_100_000).contains(&filter.rate), "{}", filter.rate);
}

#[test]
fn compressed_acknowledgements_mislead_2001_and_not_plus() {
    // 25 segments per 100 ms, 2 Mbit/s, whose acknowledgements come a microsecond apart at the end of each.
    let run = |controller: &mut dyn Controller| {
        let mut total = 0;
        for round in 1..=100u64 {
            for i in 0..25u64 {
                total += MSS;
                controller.on_ack(&Ack {
                    now: Instant::from_millis(round * 100) + Duration::from_micros(i),
                    delivered: Bytes::new(MSS),
                    delivered_total: Bytes::new(total),
                    rtt: Some(Duration::from_millis(100)),
                    ..Ack::default()
                });
            }
        }
    };
    let (mut old, mut new) = (westwood().controller, plus().controller);
    run(&mut old);
    run(&mut new);
    let rate = |rate: Option<Rate>| rate.expect("an estimate").as_bps() / 1_000;
    let (old, new) = (rate(old.rule.estimator.rate()), rate(new.rule.estimator.rate()));
    assert!((1_900..=2_100).contains(&new), "{new}");
    assert!(old > 2_500, "{old}: the known weakness");
}

#[test]
fn silence_lowers_the_estimate_of_2001() {
    let mut path = westwood();
    hold(&mut path, 50, 100, 100);
    let before = kbps(&path);
    path.now += Duration::from_secs(3);
    path.ack(MSS, 100, false);
    assert!(kbps(&path) < before / 5, "{before} to {}", kbps(&path));
}
