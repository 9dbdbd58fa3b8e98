use proptest::prelude::*;

use super::*;
use crate::shared_link::{MSS, SharedLink};
use crate::{AnyController, Controller, NewReno, NewRenoParams};
use units::Bytes;

/// A connection with subflows of these windows and round trips, µs, beyond slow start.
fn connection(scheme: Scheme, subflows: &[(u64, u64)]) -> (Coupled, Vec<SubflowId>) {
    let mut made = Coupled::new(scheme);
    let ids = subflows.iter().map(|(window, srtt_us)| {
        let id = made.add(*window, 2).unwrap();
        made.on_round_trip(id, *srtt_us);
        id
    });
    let ids = ids.collect();
    (made, ids)
}

/// Two paths: ten segments in 100 ms, twenty in 50 ms.
const TWO: [(u64, u64); 2] = [(10, 100_000), (20, 50_000)];

#[test]
fn prices_are_those_of_the_formulas() {
    // x = 10/0.1 + 20/0.05 = 500; max(w/rtt²) = 20/0.05² = 8000; 500² ÷ 8000 = 31.25.
    let lia = [31, 31];
    // 10·500²·10 ÷ ((100 + 400)(4·100 + 400)) = 62.5; 10·500²·20 ÷ ((400 + 400)(4·400 + 400)) = 31.25.
    let balia = [62, 31];
    for (scheme, prices) in [
        (Scheme::Lia, lia),
        (Scheme::CoupledIncrease, [30, 30]),
        (Scheme::FullyCoupled, [30, 30]),
        (Scheme::CoupledDecrease, [10, 20]),
        (Scheme::Balia, balia),
    ] {
        let (made, ids) = connection(scheme, &TWO);
        assert_eq!([made.price(ids[0]), made.price(ids[1])], prices, "{}", scheme.name());
    }
}

#[test]
fn losses_take_what_the_formulas_say() {
    for (scheme, left) in [
        (Scheme::Lia, [5, 10]),
        (Scheme::CoupledIncrease, [5, 10]),
        // 20 − 30/2; 10 − 15 would be negative.
        (Scheme::FullyCoupled, [2, 5]),
        (Scheme::CoupledDecrease, [2, 5]),
        // a = 400/100, which counts as 3/2: 10 − 7.5, of which whole segments go. a = 1: half.
        (Scheme::Balia, [3, 10]),
    ] {
        for (which, left) in left.into_iter().enumerate() {
            let (mut made, ids) = connection(scheme, &TWO);
            made.on_loss(ids[which]);
            let own = made.subflow(ids[which]).unwrap();
            assert_eq!((own.window, own.ssthresh), (left, left), "{} {which}", scheme.name());
            let other = made.subflow(ids[1 - which]).unwrap();
            assert_eq!(other.window, TWO[1 - which].0, "the other subflow keeps its window");
        }
    }
}

#[test]
fn a_small_subflow_keeps_two_segments() {
    let (mut made, ids) = connection(Scheme::FullyCoupled, &[(3, 10_000), (200, 10_000)]);
    made.on_loss(ids[0]);
    assert_eq!(made.subflow(ids[0]).unwrap().window, 2);
}

#[test]
fn growth_is_counted_segment_by_segment() {
    let (mut made, ids) = connection(Scheme::CoupledIncrease, &TWO);
    // The price is 30 at first, and 31 once a window has grown.
    for (acked, window, credit) in [(20, 20, 20), (9, 20, 29), (1, 21, 0), (30, 21, 30), (1, 22, 0)] {
        made.on_ack(ids[1], acked, true);
        let own = made.subflow(ids[1]).unwrap();
        assert_eq!((own.window, own.credit), (window, credit));
    }
    made.on_ack(ids[1], 1_000, false);
    assert_eq!(made.subflow(ids[1]).unwrap().window, 22, "who does not use the window gets no larger one");
}

#[test]
fn slow_start_is_the_subflows_own_and_hands_over_what_is_left() {
    let mut made = Coupled::new(Scheme::FullyCoupled);
    let id = made.add(10, 16).unwrap();
    let _other = made.add(100, 2).unwrap();
    made.on_ack(id, 4, true);
    assert_eq!(made.subflow(id).unwrap().window, 14);
    made.on_ack(id, 5, true);
    let own = made.subflow(id).unwrap();
    assert_eq!((own.window, own.credit), (16, 3));
}

#[test]
fn a_needless_loss_is_taken_back_and_a_timeout_starts_again() {
    let (mut made, ids) = connection(Scheme::Balia, &TWO);
    made.on_loss(ids[1]);
    made.on_timeout(ids[1], 1);
    let own = made.subflow(ids[1]).unwrap();
    assert_eq!((own.window, own.ssthresh), (1, 10));
    // Only the live windows count: eleven segments.
    assert_eq!(made.total(), 11);
    made.on_undo(ids[1]);
    assert_eq!(made.subflow(ids[1]).unwrap().window, 20);
}

#[test]
fn places_are_limited_and_used_again() {
    let mut made = Coupled::new(Scheme::Lia);
    let ids: Vec<SubflowId> = (0..SUBFLOWS_MAX).map(|_| made.add(10, 20).unwrap()).collect();
    assert_eq!(made.add(10, 20), None);
    made.remove(ids[3]);
    assert_eq!((made.total(), made.subflow(ids[3])), (150, None));
    assert_eq!(made.add(10, 20).map(SubflowId::place), Some(3));
    assert_eq!(Scheme::ALL.map(|scheme| Scheme::named(scheme.name())), Scheme::ALL.map(Some));
    assert_eq!(Scheme::ALL.map(Scheme::number), [0, 1, 2, 3, 4]);
}

/// The formulas in floating point: price and window after a loss of the subflow at `r`.
#[expect(clippy::float_arithmetic, reason = "what the integers are compared with")]
fn exact(scheme: Scheme, subflows: &[(u64, u64)], r: usize) -> (f64, f64) {
    let w = |i: usize| subflows[i].0 as f64;
    let rtt = |i: usize| subflows[i].1 as f64;
    let all = 0..subflows.len();
    let total: f64 = all.clone().map(w).sum();
    let x: f64 = all.clone().map(|i| w(i) / rtt(i)).sum();
    let fastest = all.clone().map(|i| w(i) / rtt(i)).fold(0.0, f64::max);
    let own_rate = w(r) / rtt(r);
    let ratio = fastest / own_rate;
    let price = match scheme {
        Scheme::CoupledDecrease => w(r),
        Scheme::CoupledIncrease | Scheme::FullyCoupled => total,
        Scheme::Lia => {
            let alpha = total * all.map(|i| w(i) / rtt(i).powi(2)).fold(0.0, f64::max) / x.powi(2);
            1.0 / (alpha / total).min(1.0 / w(r))
        }
        Scheme::Balia => 1.0 / (own_rate / (rtt(r) * x.powi(2)) * (1.0 + ratio) / 2.0 * (4.0 + ratio) / 5.0),
    };
    let left = match scheme {
        Scheme::Lia | Scheme::CoupledIncrease => w(r) / 2.0,
        Scheme::FullyCoupled | Scheme::CoupledDecrease => w(r) - total / 2.0,
        Scheme::Balia => w(r) - w(r) / 2.0 * ratio.min(1.5),
    };
    (price, left.max(2.0))
}

proptest! {
    /// Integers and the formulas differ by 1.5 % and a segment at most, for round trips from 1 ms to 500 ms.
    #[test]
    #[expect(clippy::float_arithmetic, reason = "what the integers are compared with")]
    fn integers_follow_the_formulas(
        subflows in prop::collection::vec((2..5_000_u64, 1_000..100_000_u64), 1..9), which in 0..9_usize,
    ) {
        let r = which % subflows.len();
        for scheme in Scheme::ALL {
            let (made, ids) = connection(scheme, &subflows);
            let (price, left) = exact(scheme, &subflows, r);
            let ours = made.price(ids[r]) as f64;
            prop_assert!((ours - price).abs() <= price * 0.015 + 1.0, "{} {ours} {price}", scheme.name());
            let ours = made.threshold(ids[r]) as f64;
            prop_assert!((ours - left).abs() <= left * 0.015 + 1.0, "{} {ours} {left}", scheme.name());
        }
    }

    /// RFC 6356's second goal: no subflow grows faster than TCP, and none shrinks less at a loss than LIA's half,
    /// except by being small.
    #[test]
    fn no_subflow_grows_faster_than_tcp(
        subflows in prop::collection::vec((2..WINDOW_MAX, 1..10_000_000_u64), 1..17), which in 0..16_usize,
    ) {
        let r = which % subflows.len();
        for scheme in [Scheme::Lia, Scheme::CoupledIncrease, Scheme::FullyCoupled] {
            let (made, ids) = connection(scheme, &subflows);
            prop_assert!(made.price(ids[r]) >= subflows[r].0, "{}", scheme.name());
            prop_assert!(made.threshold(ids[r]) <= subflows[r].0.div_ceil(2).max(2), "{}", scheme.name());
        }
    }

    /// With one subflow each scheme is Reno, whatever happens.
    #[test]
    fn one_subflow_is_reno(
        events in prop::collection::vec((0..8_u8, 1..50_u64), 1..200), srtt_us in 1..1_000_000_u64,
    ) {
        for scheme in Scheme::ALL {
            let mut made = Coupled::new(scheme);
            let id = made.add(10, u64::MAX).unwrap();
            made.on_round_trip(id, srtt_us);
            let (mut window, mut ssthresh, mut credit) = (10_u64, u64::MAX, 0);
            for (kind, acked) in &events {
                if *kind == 0 {
                    made.on_loss(id);
                    // BALIA takes whole segments of the half: one more is left of an odd window.
                    let half = if scheme == Scheme::Balia { window.div_ceil(2) } else { window / 2 };
                    let odd = matches!(scheme, Scheme::FullyCoupled | Scheme::CoupledDecrease);
                    window = if odd { window - window / 2 } else { half }.max(2);
                    (ssthresh, credit) = (window, 0);
                } else {
                    made.on_ack(id, *acked, true);
                    let mut acked = *acked;
                    if window < ssthresh {
                        let grown = (window + acked).min(ssthresh);
                        (acked, window) = (acked - (grown - window), grown);
                    }
                    if acked > 0 {
                        let price = window;
                        if credit >= price {
                            (credit, window) = (0, window + 1);
                        }
                        credit += acked;
                        (window, credit) = (window + credit / price, credit % price);
                    }
                }
                let own = made.subflow(id).unwrap();
                prop_assert_eq!((own.window, own.credit), (window, credit), "{}", scheme.name());
            }
        }
    }
}

fn reno() -> Box<dyn Controller> {
    let params = NewRenoParams { mss: Bytes::new(MSS), ..NewRenoParams::default() };
    Box::new(AnyController::NewReno(NewReno::new(params)))
}

/// Bytes that two subflows of a connection and one TCP took of one link that drops at random, in ten minutes.
fn shared(scheme: Scheme) -> (u64, u64) {
    let group = CoupledGroup::new(scheme);
    let params = CoupledParams { mss: Bytes::new(MSS), ..CoupledParams::default() };
    let mut link = SharedLink::new(&[(0, 10_000)], 40, 100_000).dropping_early().with_boxed(reno(), 0);
    for start_ms in [300, 700] {
        link = link.with_boxed(Box::new(group.subflow(params).unwrap()), start_ms);
    }
    link.run_until(10_000);
    link.forget();
    link.run_until(610_000);
    (link.senders[1].delivered + link.senders[2].delivered, link.senders[0].delivered)
}

/// RFC 6356's second goal, in virtual time: two subflows in one queue take what one TCP takes, where losses do not
/// come in step. \[MP\]'s schemes without α need not.
#[test]
fn two_coupled_subflows_take_what_one_tcp_takes() {
    for (scheme, percents) in [
        (Scheme::Lia, 85..=115),
        (Scheme::Balia, 85..=115),
        (Scheme::FullyCoupled, 85..=115),
        // Without α: w_r = 2/(p·w) for each of n subflows, so w is √n of a TCP's √(2/p).
        (Scheme::CoupledIncrease, 125..=155),
        // Of two equal windows a loss takes one: w_r·w/2·p = 1, so w is √2 of a TCP's too.
        (Scheme::CoupledDecrease, 110..=155),
    ] {
        let (both, tcp) = shared(scheme);
        let percent = both * 100 / tcp;
        assert!(percents.contains(&percent), "{}: {percent} % of a TCP", scheme.name());
    }
}

#[test]
fn a_dropped_controller_leaves_its_connection() {
    let group = CoupledGroup::new(Scheme::Lia);
    let first = group.subflow(CoupledParams::default()).unwrap();
    let second = group.subflow(CoupledParams::default()).unwrap();
    assert_eq!(group.total(), 20);
    drop(first);
    assert_eq!((group.total(), second.name()), (10, "coupled"));
}
