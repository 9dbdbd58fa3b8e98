use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

/// `count` subscribers with `each` flows; `rtt` of the subscriber and the flow.
fn flows(names: &str, count: usize, each: usize, rtt: &dyn Fn(usize, usize) -> f64) -> Flows {
    let mut all = Flows::default();
    for subscriber in 0..count {
        all.subscribers.push(format!("{names}{subscriber}"));
        for number in 0..each {
            let rtt = rtt(subscriber, number);
            all.flows.push(Flow {
                subscriber,
                bytes: 1_000_000,
                duration_s: rtt / 50.0,
                is_complete: true,
                data_packets: 100,
                again: u64::from(subscriber.is_multiple_of(2)),
                rtt_p50_ms: Some(rtt),
                rtt_p95_ms: Some(rtt * 2.0),
            });
        }
    }
    all
}

/// Some spread that is no pattern of the numbers.
fn spread(a: usize, b: usize) -> f64 {
    ((a * 7_919 + b * 104_729 + 13) * 2_654_435_761 % 1_000) as f64 / 1_000.0
}

fn of(comparison: &DatasetComparison, measure: Measure) -> Effect {
    comparison.effects.iter().find(|effect| effect.measure == measure).unwrap().clone()
}

#[test]
fn a_change_is_found_and_none_is_not() {
    let before = flows("s", 60, 20, &|s, n| 50.0 + 40.0 * spread(s, 0) + 5.0 * spread(s, n));
    let after = flows("s", 60, 20, &|s, n| 40.0 + 40.0 * spread(s, 0) + 5.0 * spread(s, n + 50));
    let found = compare(("b", &before), ("a", &after), 1000, 1);
    assert_eq!((found.subscribers_in_both, found.before.flows), (60, 1200));
    let rtt = of(&found, Measure::RttP50);
    assert!((rtt.difference.unwrap() + 10.0).abs() < 2.0, "{rtt:?}");
    let [low, high] = rtt.difference_interval.unwrap();
    assert!(low <= -10.0 + 2.0 && high >= -10.0 - 2.0 && low < high && high < 0.0, "{rtt:?}");
    assert_eq!(rtt.verdict, Verdict::Better);
    assert_eq!(of(&found, Measure::Goodput).verdict, Verdict::Better);
    assert_eq!(of(&found, Measure::CompletionP95).verdict, Verdict::Better);
    assert_eq!(of(&found, Measure::Retransmitted).verdict, Verdict::Unclear);
    let back = compare(("a", &after), ("b", &before), 1000, 1);
    assert_eq!(of(&back, Measure::RttP50).verdict, Verdict::Worse);
    let same = compare(("b", &before), ("b", &before), 1000, 1);
    assert!(same.effects.iter().all(|effect| effect.verdict == Verdict::Unclear), "{same:?}");
    assert_eq!(found, compare(("b", &before), ("a", &after), 1000, 1), "the seed decides");
}

/// A population: subscribers that differ, with different numbers of flows that differ less.
struct Population {
    random: Xoshiro256PlusPlus,
    /// Subscriber and flow: deviations of the logarithm of the round-trip time.
    deviations: [f64; 2],
    median_ms: f64,
}

impl Population {
    fn of(seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { random, deviations: [0.5, 0.3], median_ms: 60.0 }
    }

    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of the standard normal distribution (Box and Muller).
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn subscribers(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.normal()).collect()
    }

    /// Flows of subscribers; the change makes all times `factor` times as long.
    fn flows(&mut self, names: &str, subscribers: &[f64], factor: f64) -> Flows {
        let mut all = Flows::default();
        for (subscriber, own) in subscribers.iter().enumerate() {
            all.subscribers.push(format!("{names}{subscriber}"));
            // Who has many flows has them on both sides; it says nothing of their times.
            for _ in 0..=own.to_bits() % 19 {
                let deviation = self.deviations[0] * own + self.deviations[1] * self.normal();
                let rtt = self.median_ms * factor * deviation.exp();
                all.flows.push(Flow {
                    subscriber,
                    bytes: 1_000_000,
                    duration_s: rtt / 50.0,
                    is_complete: true,
                    data_packets: 1_000,
                    again: rtt as u64 / 4,
                    rtt_p50_ms: Some(rtt),
                    rtt_p95_ms: Some(rtt * 2.0),
                });
            }
        }
        all
    }

    /// True value of a measure over all possible flows.
    fn truth(&self, measure: Measure, factor: f64) -> f64 {
        let variance: f64 = self.deviations.iter().map(|one| one * one).sum();
        let median = self.median_ms * factor;
        // Bytes in bits of 1,000,000 over the time; the 95th percentile of the normal distribution.
        match measure {
            Measure::Goodput => 8.0 * 50.0 / median,
            Measure::RttP50 => median,
            Measure::RttP95 => median * 2.0,
            Measure::CompletionP50 => median / 50.0,
            Measure::CompletionP95 => median / 50.0 * (1.644_853_6 * variance.sqrt()).exp(),
            // The mean of the lognormal distribution, a quarter of it of a thousand, rounded down.
            Measure::Retransmitted => (median * (variance / 2.0).exp() / 4.0 - 0.5) / 10.0,
        }
    }
}

/// Number of intervals of a hundred that hold the truth, by measure, and number of changes found.
fn coverage(seed: u64, trials: u64, count: usize, is_same: bool, factor: f64) -> Vec<(Measure, f64, f64)> {
    let mut held = [(0_u32, 0_u32); Measure::ALL.len()];
    for trial in seed..seed + trials {
        let mut population = Population::of(trial);
        let before = population.subscribers(count);
        let after = if is_same { before.clone() } else { population.subscribers(count) };
        let sides = [
            population.flows("x", &before, 1.0),
            population.flows(if is_same { "x" } else { "y" }, &after, factor),
        ];
        let found = compare(("b", &sides[0]), ("a", &sides[1]), 300, trial);
        assert_eq!(found.subscribers_in_both, if is_same { count } else { 0 });
        for (effect, (covered, clear)) in found.effects.iter().zip(&mut held) {
            let truth = population.truth(effect.measure, factor) - population.truth(effect.measure, 1.0);
            let Some([low, high]) = effect.difference_interval else {
                assert_eq!((effect.measure, effect.verdict), (Measure::CompletionP95, Verdict::TooFew));
                continue;
            };
            *covered += u32::from((low..=high).contains(&truth));
            *clear += u32::from(effect.verdict != Verdict::Unclear);
        }
    }
    let percent = |count: u32| f64::from(count) * 100.0 / trials as f64;
    let rows = Measure::ALL.iter().zip(held);
    rows.map(|(measure, (covered, clear))| (*measure, percent(covered), percent(clear))).collect()
}

/// Flows of a subscriber are alike: who takes them for independent says far too much.
#[test]
fn intervals_of_95_percent_hold_the_truth_in_95_percent() {
    // Those of few subscribers are wide rather than wrong: a median of eight can only be one of eight.
    for (count, most) in [(8, 99.5), (40, 97.0)] {
        let (mut all, mut seed) = (Vec::new(), 0);
        for is_same in [true, false] {
            for factor in [1.0, 0.7] {
                seed += 1_000;
                let mut rows = coverage(seed, 200, count, is_same, factor);
                // Of eight subscribers there are no intervals of a 95th percentile.
                rows.retain(|(measure, ..)| count >= measure.subscribers_min());
                for (measure, covered, clear) in &rows {
                    let what =
                        format!("{count} subscribers, the same: {is_same}, times {factor}: {measure:?}");
                    // Of 200, by chance: a deviation is 1.5 of a hundred.
                    assert!(*covered >= 90.0, "{what}: {covered} %");
                    assert!(factor < 1.0 || *clear <= 10.0, "{what}: {clear} % are said to have changed");
                }
                all.extend(rows);
            }
        }
        for measure in Measure::ALL {
            let of_measure = all.iter().filter(|(one, ..)| *one == measure).map(|(_, covered, _)| *covered);
            let Some(covered) = figures::stats::mean(of_measure) else { continue };
            println!("{count} subscribers, {measure:?}: {covered:.1} % of {} intervals", 4 * 200);
            let what = format!("{count} subscribers, {measure:?}");
            assert!((92.0..=most).contains(&covered), "{what}: {covered} % hold the truth");
        }
    }
}

/// The same subscribers on both sides tell a small change that others do not.
#[test]
fn who_is_on_both_sides_is_compared_with_himself() {
    let clear = |is_same| coverage(0, 60, 40, is_same, 0.85)[1].2;
    let (same, others) = (clear(true), clear(false));
    assert!(same > 2.0 * others, "found with the same {same} %, with others {others} %");
}

#[test]
fn few_subscribers_give_no_interval_and_that_is_said() {
    let few = flows("s", 3, 100, &|_, _| 50.0);
    let found = compare(("b", &few), ("a", &few), 100, 1);
    let rtt = of(&found, Measure::RttP50);
    assert_eq!((rtt.before, rtt.difference_interval, rtt.verdict), (Some(50.0), None, Verdict::TooFew));
    assert!(crate::shown::notes(&found).contains("fewer than 5 subscribers"), "{found:?}");
    assert!(crate::shown::table(&found).to_string().contains("too few"));
    // A 95th percentile rests on the few slowest: it needs more.
    let some = flows("s", 10, 20, &|s, n| 50.0 + spread(s, n));
    let found = compare(("b", &some), ("a", &some), 100, 1);
    assert_eq!(of(&found, Measure::CompletionP50).verdict, Verdict::Unclear);
    assert_eq!(of(&found, Measure::CompletionP95).verdict, Verdict::TooFew);
    let mut mute = flows("s", 10, 1, &|_, _| 50.0);
    mute.flows.iter_mut().for_each(|flow| (flow.rtt_p50_ms, flow.bytes) = (None, 10));
    let found = compare(("b", &mute), ("a", &few), 100, 1);
    assert_eq!((of(&found, Measure::RttP50).before, of(&found, Measure::Goodput).flows), (None, [0, 300]));

    // Many subscribers, but only four of them have what is measured.
    let mut most_are_mute = flows("s", 50, 3, &|s, n| 50.0 + spread(s, n));
    most_are_mute.flows.iter_mut().filter(|flow| flow.subscriber > 3).for_each(|flow| flow.rtt_p50_ms = None);
    let whole = flows("s", 50, 3, &|s, n| 70.0 + spread(s, n));
    let found = compare(("b", &most_are_mute), ("a", &whole), 200, 1);
    let rtt = of(&found, Measure::RttP50);
    assert_eq!((rtt.subscribers, rtt.difference_interval, rtt.verdict), ([4, 50], None, Verdict::TooFew));
    assert!(of(&found, Measure::RttP95).difference_interval.is_some());
}

#[test]
fn a_share_that_was_zero_has_no_change_in_percent() {
    let side = |names, again: &dyn Fn(usize) -> u64| {
        let mut side = flows(names, 20, 2, &|s, n| 50.0 + spread(s, n));
        side.flows.iter_mut().for_each(|flow| flow.again = again(flow.subscriber));
        side
    };
    let clean = side("s", &|_| 0);
    let found =
        of(&compare(("b", &clean), ("a", &side("s", &|s| 1 + s as u64)), 300, 1), Measure::Retransmitted);
    assert_eq!((found.before, found.change_percent, found.change_interval_percent), (Some(0.0), None, None));
    assert_eq!(found.verdict, Verdict::Worse);
    // One of twenty had any: some samples have none of it, and the change has no upper end.
    let rare = side("s", &|s| u64::from(s == 7));
    let found =
        of(&compare(("b", &rare), ("a", &side("s", &|s| 1 + s as u64)), 300, 1), Measure::Retransmitted);
    assert!(found.change_percent.is_some() && found.change_interval_percent.is_none(), "{found:?}");
    let none = of(&compare(("b", &clean), ("a", &clean), 300, 1), Measure::Retransmitted);
    assert_eq!((none.difference_interval, none.verdict), (Some([0.0, 0.0]), Verdict::Unclear));
}
