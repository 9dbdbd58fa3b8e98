use super::*;
use scenario::Scenario;
use scenario::results::{Distribution, RadioFigures, Transfer, WindowFigures};

fn result(cases: &[(&str, bool, f64, f64, f64)]) -> ScenarioResult {
    let mut text = "name = \"t\"\nwan.delay = \"5 ms\"\nradio.down = { rate = \"5.6 Mbit/s\", delay = \"26 ms\" }\nradio.up = { delay = \"26 ms\" }\n".to_owned();
    for (name, accelerated, ..) in cases {
        text += &format!("[[case]]\nname = \"{name}\"\naccelerator.enabled = {accelerated}\n");
    }
    let scenario = Scenario::from_toml("t.toml", &text).unwrap();
    let results =
        scenario.resolved().into_iter().zip(cases).map(|(settings, &(name, _, rate, used, p95))| {
            CaseResult {
                name: name.to_owned(),
                repetition: 1,
                seed: 1,
                settings,
                accelerator_command: None,
                skipped: None,
                problems: Vec::new(),
                simulation: None,
                figures: Some(Figures {
                    transfer: Transfer { goodput_mbps: rate, hashes_equal: true, ..Transfer::default() },
                    radio: RadioFigures {
                        utilisation: Some(used),
                        queue_delay_ms: Distribution { p95, ..Distribution::default() },
                        ..RadioFigures::default()
                    },
                    window: Some(WindowFigures { max_bytes: 17_664, median_bytes: 17_664, scale: 7 }),
                    ..Figures::default()
                }),
            }
        });
    let cases = results.collect();
    ScenarioResult { scenario, cases }
}

#[test]
fn accelerated_against_direct() {
    let r = result(&[("direct CUBIC", false, 2.2, 0.4, 3.0), ("accelerated", true, 5.28, 0.97, 12.0)]);
    assert_eq!(
        sentence(&r),
        "Accelerated delivers 5.28 Mbit/s, 2.4 times the 2.20 Mbit/s of direct CUBIC, with 97 % of the link used against 40 %, and queues 95 % of its packets for at most 12 ms against 3 ms; every file arrived unchanged."
    );
}

#[test]
fn a_window_that_limits_is_named() {
    assert_eq!(
        sentence(&result(&[("direct", false, 2.2, 0.4, 3.0)])),
        "Direct delivers 2.20 Mbit/s, 40 % of what the link offers: a receive window of 17.7 KB over a round trip of 62 ms allows 2.28; the file arrived unchanged."
    );
}

#[test]
fn worse_and_broken_is_said_so() {
    let mut r = result(&[("direct", false, 4.0, 0.8, 500.0), ("accelerated", true, 3.0, 0.6, 50.0)]);
    r.cases[1].figures.as_mut().unwrap().transfer.hashes_equal = false;
    let text = sentence(&r);
    assert!(text.contains("25 % less than direct (4.00)"), "{text}");
    assert!(text.ends_with("the file did NOT arrive whole in: accelerated."), "{text}");
    r.cases.clear();
    assert_eq!(sentence(&r), "No case was run.");
}
