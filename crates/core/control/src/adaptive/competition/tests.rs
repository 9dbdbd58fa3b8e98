//! Looks by hand, and downloads beside others on one link.

use super::*;
use crate::shared_link::SharedLink;
use crate::{Adaptive, AdaptiveParams, NewReno, NewRenoParams, RateSample, Term, Terms};

const MSS: u64 = 1_000;
/// 8 Mbit/s: a segment each millisecond.
const SEGMENT: Duration = Duration::from_millis(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A law with `window` in flight beside `others`, in a queue behind a link of 8 Mbit/s and 20 ms.
struct Bench {
    law: Competition,
    now: Instant,
    window: u64,
}

impl Bench {
    fn new(window: u64) -> Self {
        Self { law: Competition::new(), now: Instant::from_millis(1_000), window }
    }

    /// A segment is acknowledged after `rtt`, `in_flight` under way.
    fn ack(&mut self, rtt: Duration, in_flight: u64) {
        let seen = Observation {
            rtt: Some(rtt),
            floor: ms(20),
            usual: ms(30),
            near: ms(2),
            mean: Rate::from_mbps(8),
            window: Bytes::new(self.window),
            in_flight: Bytes::new(in_flight),
            least: Bytes::new(4 * MSS),
            is_limited: true,
            now: self.now,
            left: self.now,
        };
        let (now, delivered) = (self.now, Bytes::new(MSS));
        let rate = Rate::from_transfer(Bytes::new(self.window), rtt).min(seen.mean);
        let rate = Some(RateSample {
            rate,
            delivered: Bytes::new(self.window),
            interval: rtt,
            is_app_limited: false,
        });
        self.law.on_ack(&Ack { now, delivered, rtt: Some(rtt), rate, ..Ack::default() }, &seen);
    }

    /// `time` alone on the link: C is 8 Mbit/s.
    fn alone(&mut self, time: Duration) {
        for _ in 0..time.as_millis() {
            self.now += SEGMENT;
            self.ack(ms(30), self.window);
        }
    }

    /// A long wait until a look begins.
    fn wait(&mut self, rtt: Duration) {
        for _ in 0..2_000 {
            self.now += SEGMENT;
            self.ack(rtt, self.window);
            if self.law.look.is_some() {
                return;
            }
        }
        panic!("it was never suspicious");
    }

    /// A look at a queue in which others have `others`, on a link `slower` times as slow as before.
    fn look(&mut self, others: u64, slower: u64) {
        let least = Bytes::new(4 * MSS);
        let kept = self.law.window(Bytes::ZERO, least).get();
        self.ack(ms(200), kept);
        let round_trip = SEGMENT * ((kept + others) / MSS * slower);
        self.now += round_trip;
        self.ack(round_trip, self.window);
        while self.law.look.is_some() {
            self.now += SEGMENT * slower;
            self.ack(round_trip, self.window);
        }
    }
}

#[test]
fn a_look_finds_what_others_have_in_flight_and_two_let_it_compete() {
    let mut bench = Bench::new(40 * MSS);
    bench.alone(ms(3_000));
    bench.wait(ms(200));
    bench.look(160 * MSS, 1);
    // A segment is taken for one more or less at the ends.
    assert!(bench.law.others.abs_diff(160 * MSS) <= 8 * MSS, "{} bytes", bench.law.others);
    assert!(!bench.law.is_competing(), "one look is no proof");
    bench.now += SEGMENT;
    bench.ack(ms(200), 40 * MSS);
    bench.look(180 * MSS, 1);
    assert!(bench.law.is_competing());
    let window = bench.law.window(Bytes::ZERO, Bytes::ZERO).get();
    assert!(window.abs_diff(170 * MSS) <= 10 * MSS, "{window} bytes");
}

#[test]
fn a_link_become_slower_is_nobody() {
    let mut bench = Bench::new(40 * MSS);
    bench.alone(ms(3_000));
    bench.wait(ms(200));
    // Five times as slow: what is kept takes as long as 80 segments of others would have taken.
    bench.look(0, 5);
    assert_eq!((bench.law.others, bench.law.found), (0, 0));
    assert!(bench.law.refused_until > bench.now);
}

#[test]
fn a_look_whose_reason_is_known_meanwhile_holds_no_window() {
    let mut bench = Bench::new(40 * MSS);
    bench.alone(ms(3_000));
    bench.wait(ms(200));
    let least = Bytes::new(4 * MSS);
    bench.ack(ms(200), bench.law.window(Bytes::ZERO, least).get());
    let whole = Bytes::new(200 * MSS);
    assert_eq!(bench.law.window(whole, least).get(), 40 * MSS, "as much as before the look");
    bench.law.forget_suspicion();
    assert_eq!(bench.law.window(whole, least), whole);
    bench.ack(ms(200), 40 * MSS);
    assert!(bench.law.look.is_none(), "it takes another suspicion");
}

#[test]
fn a_look_after_which_data_is_lost_says_nothing() {
    let mut bench = Bench::new(40 * MSS);
    bench.alone(ms(3_000));
    bench.wait(ms(200));
    bench.ack(ms(200), 20 * MSS);
    bench.now += ms(200);
    bench.ack(ms(200), 40 * MSS);
    let (now, lost, in_flight) = (bench.now, Bytes::new(MSS), Bytes::new(39 * MSS));
    bench.law.on_loss(&Loss { now, lost, kind: LossKind::Fast, is_new_event: true, in_flight }, true);
    bench.ack(ms(200), 40 * MSS);
    assert!(bench.law.look.is_none() && bench.law.found == 0 && bench.law.others == 0);
    assert_eq!(bench.law.refused_for, REFUSED, "nobody was not found either");
}

/// The share of the first of two senders, in per cent, from the tenth to the fortieth second.
fn share(without: Terms, other: impl Controller + 'static, queue: u64) -> u64 {
    let params = AdaptiveParams { mss: Bytes::new(MSS), without, ..AdaptiveParams::default() };
    let mut link = SharedLink::new(&[(0, 16_000)], 40, queue)
        .with_boxed(Box::new(Adaptive::new(params)), 0)
        .with_boxed(Box::new(other), 2_000);
    link.run_until(10_000);
    link.forget();
    link.run_until(40_000);
    let got: Vec<u64> = link.senders.iter().map(|sender| sender.delivered).collect();
    got[0] * 100 / got.iter().sum::<u64>()
}

#[test]
fn it_shares_with_one_that_fills_a_deep_queue_slowly_or_at_once() {
    let mss = Bytes::new(MSS);
    let cubic = || Cubic::new(CubicParams { mss, ..CubicParams::default() });
    // It doubles its window each round trip, until it loses data.
    let reno = || NewReno::new(NewRenoParams { mss, ..NewRenoParams::default() });
    let (none, without) = (Terms::NONE, Terms::NONE.with(Term::Competition));
    let shares = [share(none, cubic(), 2_000_000), share(none, reno(), 2_000_000)];
    assert!(shares.iter().all(|share| (35..=65).contains(share)), "{shares:?} %");
    let starved = share(without, cubic(), 2_000_000);
    assert!(starved < 25, "{starved} %");
}

#[test]
fn alone_on_a_link_that_varies_it_never_competes() {
    let rates: Vec<(u64, u64)> =
        (0..60).map(|n| (n * 700, [16_000, 3_000, 9_000, 1_500][n as usize % 4])).collect();
    let run = |without| {
        let params = AdaptiveParams { mss: Bytes::new(MSS), without, ..AdaptiveParams::default() };
        let mut link = SharedLink::new(&rates, 40, 4_000_000).with_boxed(Box::new(Adaptive::new(params)), 0);
        link.run_until(2_000);
        link.forget();
        link.run_until(40_000);
        (link.utilisation(), link.wait(950).as_millis())
    };
    let (with, without) = (run(Terms::NONE), run(Terms::NONE.with(Term::Competition)));
    assert!(with.0 + 1 >= without.0, "{with:?} against {without:?}");
    assert!(with.1 <= without.1 * 105 / 100, "{with:?} against {without:?}");
}
