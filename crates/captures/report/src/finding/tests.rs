use super::*;
use crate::fixture::case_with;
use scenario::Scenario;
use scenario::results::{Distribution, RadioFigures, Transfer, WindowFigures};

fn result(cases: &[(&str, bool, f64, f64, f64)]) -> ScenarioResult {
    let mut text = "name = \"t\"\nwan.delay = \"5 ms\"\nradio.down = { rate = \"5.6 Mbit/s\", delay = \"26 ms\" }\nradio.up = { delay = \"26 ms\" }\n".to_owned();
    for (name, accelerated, ..) in cases {
        text += &format!("[[case]]\nname = \"{name}\"\naccelerator.enabled = {accelerated}\n");
    }
    let scenario = Scenario::from_toml("t.toml", &text).unwrap();
    let results = scenario.resolved().into_iter().zip(cases).map(|(settings, &(_, _, rate, used, p95))| {
        let figures = Figures {
            transfer: Transfer { goodput_mbps: rate, hashes_equal: true, ..Transfer::default() },
            radio: RadioFigures {
                utilisation: Some(used),
                queue_delay_ms: Distribution { p95, ..Distribution::default() },
                ..RadioFigures::default()
            },
            window: Some(WindowFigures { max_bytes: 17_664, median_bytes: 17_664, scale: 7 }),
            ..Figures::default()
        };
        case_with(settings, Some(figures))
    });
    let cases = results.collect();
    ScenarioResult { scenario, cases }
}

#[test]
fn accelerated_against_direct() {
    let r = result(&[("direct CUBIC", false, 2.2, 0.4, 3.0), ("accelerated", true, 5.28, 0.97, 12.0)]);
    assert_eq!(
        sentence(&r),
        "Accelerated delivers 5.28 Mbit/s, 2.4 times the 2.20 Mbit/s of direct CUBIC; 97 % of the link used \
         against 40 %; 95 % of packets queued for at most 12 ms against 3 ms; every file arrived unchanged."
    );
}

/// `cases` with one seed after the other: the rates of each.
fn repeated(cases: &[(&str, bool, &[f64])]) -> ScenarioResult {
    let seeds = cases[0].2.len();
    let mut all = result(&cases.iter().map(|(n, a, r)| (*n, *a, r[0], 0.9, 5.0)).collect::<Vec<_>>());
    all.scenario.repetitions = u32::try_from(seeds).unwrap();
    for seed in 1..seeds {
        let more = result(&cases.iter().map(|(n, a, r)| (*n, *a, r[seed], 0.9, 5.0)).collect::<Vec<_>>());
        all.cases.extend(more.cases.into_iter().map(|case| CaseResult { seed: 1 + seed as u64, ..case }));
    }
    all
}

#[test]
fn means_over_the_same_seeds_and_not_the_luckiest_run() {
    // The first direct run is the unluckiest, the last accelerated one the luckiest.
    let r = repeated(&[
        ("direct", false, &[3.0, 6.9, 7.1, 7.5, 6.1]),
        ("accelerated", true, &[5.6, 6.8, 7.2, 5.9, 5.5]),
    ]);
    let text = sentence(&r);
    assert!(
        text.starts_with("No gain in throughput: accelerated delivers 6.20 ±0.76 Mbit/s (mean of 5 seeds ± their deviation), as much as direct with 6.12 ±1.82"),
        "{text}"
    );
    // A tenth more, of which the seeds say nothing.
    let r = repeated(&[("direct", false, &[5.0, 7.0, 6.0]), ("accelerated", true, &[7.5, 5.6, 6.9])]);
    assert!(
        sentence(&r).contains("which 3 seeds cannot tell from the 6.00 ±1.00 of direct"),
        "{}",
        sentence(&r)
    );
    // Half a megabit more with every seed.
    let r = repeated(&[("direct", false, &[5.0, 7.0, 6.0]), ("accelerated", true, &[5.5, 7.6, 6.5])]);
    assert!(sentence(&r).contains("9 % more than direct with 6.00 ±1.00"), "{}", sentence(&r));
    // A seed that only one has run is left out.
    let mut r = repeated(&[("direct", false, &[5.0, 50.0]), ("accelerated", true, &[6.0, 6.0])]);
    r.cases.pop();
    assert!(
        sentence(&r).starts_with("Accelerated delivers 6.00 Mbit/s, 20 % more than direct with 5.00"),
        "{}",
        sentence(&r)
    );
}

#[test]
fn the_best_direct_control_is_the_one_to_beat() {
    let r = result(&[
        ("direct CUBIC", false, 2.0, 0.4, 3.0),
        ("accelerated", true, 4.0, 0.8, 12.0),
        ("direct BBR", false, 5.0, 0.97, 30.0),
    ]);
    let text = sentence(&r);
    assert!(
        text.starts_with("Less throughput: accelerated delivers 4.00 Mbit/s, 20 % less than direct BBR, the best of 2 direct cases, with 5.00; 80 % of the link used against 97 %"),
        "{text}"
    );
}

#[test]
fn a_long_queue_does_not_make_a_control_easier_to_beat() {
    let r = result(&[
        ("direct CUBIC", false, 6.93, 0.97, 2_237.0),
        ("direct BBR", false, 6.6, 0.86, 1_160.0),
        ("accelerated", true, 6.86, 0.94, 149.0),
    ]);
    let text = sentence(&r);
    assert!(
        text.starts_with(
            "Less delay: 95 % of packets queued for at most 149 ms against 2237 ms; accelerated delivers 6.86 Mbit/s, \
             as much as direct CUBIC"
        ),
        "{text}"
    );
    assert_eq!(text.matches("queued").count(), 1, "{text}");
}

#[test]
fn a_shorter_queue_is_worth_a_little_throughput_and_no_more() {
    for (rate, begins) in [(3.93, "Less delay: "), (3.7, "Less throughput: ")] {
        let r = result(&[("direct", false, 4.0, 0.99, 3_670.0), ("accelerated", true, rate, 0.97, 144.0)]);
        assert!(sentence(&r).starts_with(begins), "{}", sentence(&r));
    }
}

#[test]
fn a_window_that_limits_is_named() {
    assert_eq!(
        sentence(&result(&[("direct", false, 2.2, 0.4, 3.0)])),
        "Direct delivers 2.20 Mbit/s, 40 % of what the link offers: a receive window of 17.7 KB over a \
         round trip of 62 ms allows 2.28; the file arrived unchanged."
    );
}

#[test]
fn worse_and_broken_is_said_so() {
    let mut r = result(&[("direct", false, 4.0, 0.8, 500.0), ("accelerated", true, 3.0, 0.6, 50.0)]);
    r.cases[1].figures.as_mut().unwrap().transfer.hashes_equal = false;
    let text = sentence(&r);
    assert!(text.contains("25 % less than direct with 4.00"), "{text}");
    assert!(text.ends_with("the file did NOT arrive whole in: accelerated."), "{text}");
    r.cases.clear();
    assert_eq!(sentence(&r), "No case was run.");
}
