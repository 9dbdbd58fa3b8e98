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

fn of(comparison: &Comparison, measure: Measure) -> Effect {
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
    assert_eq!(rtt.verdict, "better");
    assert_eq!(of(&found, Measure::Goodput).verdict, "better");
    assert_eq!(of(&found, Measure::CompletionP95).verdict, "better");
    assert_eq!(of(&found, Measure::Retransmitted).verdict, "unclear");
    let back = compare(("a", &after), ("b", &before), 1000, 1);
    assert_eq!(of(&back, Measure::RttP50).verdict, "worse");
    let same = compare(("b", &before), ("b", &before), 1000, 1);
    assert!(same.effects.iter().all(|effect| effect.verdict == "unclear"), "{same:?}");
    assert_eq!(found, compare(("b", &before), ("a", &after), 1000, 1), "the seed decides");
}

/// Flows of a subscriber are alike: who takes them for independent says far too much.
#[test]
fn an_interval_is_of_subscribers_and_covers_what_it_says() {
    let mut covered = 0;
    let trials = 200;
    for trial in 0..trials {
        // Both sides are of the same population, so the difference is zero.
        let side = |from: usize| flows("x", 25, 30, &|s, n| 50.0 + 40.0 * spread(from + s, 0) + spread(s, n));
        let mut after = side(trial * 50 + 25);
        after.subscribers.iter_mut().for_each(|name| name.insert(0, 'y'));
        let found = compare(("b", &side(trial * 50)), ("a", &after), 300, 3);
        let [low, high] = of(&found, Measure::RttP50).difference_interval.unwrap();
        covered += usize::from(low <= 0.0 && high >= 0.0);
    }
    let share = covered as f64 / trials as f64;
    assert!((0.88..=1.0).contains(&share), "{share} of the intervals hold the truth");
}

#[test]
fn few_subscribers_give_no_interval_and_no_value_is_none() {
    let few = flows("s", 3, 100, &|_, _| 50.0);
    let found = compare(("b", &few), ("a", &few), 100, 1);
    let rtt = of(&found, Measure::RttP50);
    assert_eq!((rtt.before, rtt.difference_interval, rtt.verdict), (Some(50.0), None, "unclear"));
    let mut mute = flows("s", 10, 1, &|_, _| 50.0);
    mute.flows.iter_mut().for_each(|flow| (flow.rtt_p50_ms, flow.bytes) = (None, 10));
    let found = compare(("b", &mute), ("a", &few), 100, 1);
    assert_eq!((of(&found, Measure::RttP50).before, of(&found, Measure::Goodput).flows), (None, [0, 300]));
}
