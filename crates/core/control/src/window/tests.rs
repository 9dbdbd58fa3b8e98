use super::*;
use crate::path::WindowPath;
use crate::{NewReno, NewRenoParams};

const MSS: u64 = 1_000;

fn reno(segments: u64) -> WindowPath<NewReno> {
    let params =
        NewRenoParams { mss: Bytes::new(MSS), initial_window_segments: segments, ..NewRenoParams::default() };
    WindowPath::new(NewReno::new(params), MSS)
}

fn window(path: &WindowPath<NewReno>) -> u64 {
    path.controller.control().window.get()
}

#[test]
fn slow_start_ends_exactly_at_its_threshold() {
    let mut w = Window::new(Bytes::new(MSS), 10);
    w.ssthresh = 12_500;
    assert_eq!(w.slow_start(4_000), 1_500);
    assert_eq!((w.cwnd, w.is_slow_start()), (12_500, false));
}

#[test]
fn growth_is_the_same_whether_acknowledgements_come_one_by_one_or_together() {
    let (mut a, mut b) = (Window::new(Bytes::new(MSS), 10), Window::new(Bytes::new(MSS), 10));
    for _ in 0..40 {
        a.grow(5_000, 500);
    }
    for _ in 0..4 {
        b.grow(5_000, 5_000);
    }
    assert_eq!((a.cwnd, b.cwnd), (14_000, 14_000));
}

#[test]
fn a_price_that_falls_gives_one_segment_not_a_burst() {
    let mut w = Window::new(Bytes::new(MSS), 10);
    w.grow(1_000_000, 900_000);
    w.grow(2_000, 1_000);
    assert_eq!(w.cwnd, 11_000);
}

#[test]
fn reduction_sends_one_segment_for_every_two_acknowledged() {
    let mut path = reno(40);
    path.lose(MSS, LossKind::Fast, true);
    // The first retransmission left at once, although 39 segments are in flight and the threshold is 20.
    assert_eq!(path.in_flight, 40 * MSS);
    let mut sent = 0;
    for _ in 0..30 {
        let before = path.in_flight;
        path.ack(MSS, 50, true);
        path.fill();
        sent += (path.in_flight + MSS - before) / MSS;
    }
    // Half of what was delivered, less the retransmission that had left.
    assert!((14..=15).contains(&sent), "{sent}");
    assert!(path.in_flight >= 20 * MSS, "{}", path.in_flight);
}

#[test]
fn heavy_loss_is_followed_by_slow_start_up_to_the_threshold() {
    let mut path = reno(40);
    path.lose(35 * MSS, LossKind::Fast, true);
    let mut largest = 0;
    for _ in 0..60 {
        let before = path.in_flight;
        path.ack(MSS, 50, true);
        path.fill();
        assert!(path.in_flight <= before + MSS, "an acknowledgement releases two segments at most");
        largest = largest.max(path.in_flight);
    }
    assert_eq!(largest, 20 * MSS);
}

#[test]
fn recovery_ends_at_the_threshold() {
    let mut path = reno(40);
    path.lose(MSS, LossKind::Fast, true);
    path.recover(50);
    assert_eq!(window(&path), 20 * MSS);
}

#[test]
fn an_idle_window_does_not_grow() {
    let mut path = reno(10);
    let quarter = |path: &mut WindowPath<NewReno>, is_window_limited| {
        path.controller.on_ack(&Ack {
            delivered: Bytes::new(MSS),
            in_flight_before: Bytes::new(2 * MSS),
            is_window_limited,
            ..Ack::default()
        });
    };
    quarter(&mut path, false);
    assert_eq!(window(&path), 10 * MSS);
    quarter(&mut path, true);
    assert_eq!(window(&path), 11 * MSS);
}

#[test]
fn half_a_window_in_flight_is_enough_to_grow_in_slow_start_only() {
    let mut path = reno(10);
    let ack = Ack { delivered: Bytes::new(MSS), in_flight_before: Bytes::new(6 * MSS), ..Ack::default() };
    path.controller.on_ack(&ack);
    assert_eq!(window(&path), 11 * MSS);
    path.controller.window.ssthresh = 11 * MSS;
    path.controller.on_ack(&ack);
    assert_eq!(window(&path), 11 * MSS);
}

#[test]
fn a_needless_time_out_is_taken_back() {
    let mut path = reno(40);
    path.lose(40 * MSS, LossKind::Timeout, true);
    assert_eq!(window(&path), MSS);
    path.controller.on_undo(path.now);
    assert_eq!(window(&path), 40 * MSS);
    assert!(path.controller.window.is_slow_start());
    path.controller.on_undo(path.now);
    assert_eq!(window(&path), 40 * MSS);
}

#[test]
fn no_loss_takes_the_threshold_below_two_segments() {
    let mut path = reno(10);
    for _ in 0..5 {
        path.lose(100 * MSS, LossKind::Timeout, true);
    }
    assert_eq!(path.controller.window.ssthresh, 2 * MSS);
}

#[test]
fn an_acknowledgement_of_no_data_changes_nothing() {
    let mut path = reno(10);
    path.controller.on_ack(&Ack { is_window_limited: true, ..Ack::default() });
    assert_eq!(window(&path), 10 * MSS);
}
