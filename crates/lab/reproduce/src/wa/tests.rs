use super::figure_3::Scheme;
use crate::given::{Made, aim, fact, missed, outcome, points, row};

#[test]
fn figure_3_wants_newreno_between_two_bounds() {
    let given = |old: f64| {
        outcome("wa-figure-3", &move |_, case, _| {
            let (used, queue) = match case {
                _ if case == Scheme::Old.label() => (old, 6_000.0),
                "10 ms, 2007" => (99.0, 100.0),
                _ => (98.0, 1_400.0),
            };
            Some(Made::transfer(0.2, queue).used(used).dropping(3))
        })
    };
    let reached = given(85.5);
    assert_eq!(missed(&reached), [""; 0]);
    assert_eq!((fact(&reached, "old", 1), fact(&reached, "proxy", 1)), ("85.5".into(), "98.0".into()));
    let old = row(&reached, 0, Scheme::Old.label());
    assert_eq!(
        (old[0].as_str(), old[1].as_str(), old[3].as_str(), old[5].as_str()),
        ("190.4", "85.5", "85.5", "3")
    );
    assert_eq!(row(&reached, 0, Scheme::Adaptive.label())[..2], ["–", "–"]);
    assert_eq!(row(&reached, 1, "10 ms"), ["85.5", "99.0", "98.0"]);
    // Too little and too much are both a miss, each of its own aim.
    for (old, bound) in [(83.9, "(at least 84.0)"), (87.6, "(at most 87.5)")] {
        let outside = given(old);
        assert_eq!(missed(&outside), ["link used by NewReno of 2007, percent (paper 84 to 86)"]);
        let miss = outside.checks.iter().find(|check| !check.passed).unwrap();
        assert!(miss.numbers().ends_with(bound), "{}", miss.numbers());
    }
}

#[test]
fn figure_7_without_samples_of_the_queue_has_nothing_to_show() {
    let found = outcome("wa-figure-7", &|_, case, _| {
        Some(Made::transfer(1.0, 100.0).used(if case == "adaptive" { 99.0 } else { 90.0 }))
    });
    assert_eq!(aim(&found, "packets dropped under the proxy").measured, Some(0.0));
    assert_eq!(aim(&found, "adaptive ÷ NewReno").numbers(), "1.100 (at least 1.000)");
    assert_eq!(aim(&found, "queue deviation").numbers(), "nothing measured (at most 0.500)");
    assert_eq!(missed(&found).len(), 3, "those of the queue: {:?}", missed(&found));
    assert_eq!(fact(&found, "queue", 1), "(nothing measured)");
}

#[test]
fn table_1_has_four_aims_for_each_t() {
    let given = |drops: u64| {
        outcome("wa-table-1", &move |_, case, _| {
            Some(match case.split_once(", ").unwrap() {
                ("T = 20 ms", "proxy, (18) per step") => {
                    Made::transfer(1.4, 100.0).used(93.5).dropping(drops)
                }
                (_, "proxy, (18) per step") => Made::transfer(1.4, 100.0).used(99.5),
                (_, "adaptive") => Made::transfer(1.4, 90.0).used(99.0),
                _ => Made::transfer(1.0, 200.0).used(80.0).dropping(5),
            })
        })
    };
    let reached = given(4);
    assert_eq!((missed(&reached), reached.checks.len()), (vec![], 12));
    assert_eq!(
        (fact(&reached, "proxy_2s", 1), fact(&reached, "reno_20ms", 1)),
        ("99.5".into(), "80.0".into())
    );
    assert_eq!(missed(&given(5)), ["T = 20 ms: drops, proxy less NewReno"]);
    assert_eq!(
        row(&reached, 1, "adaptive"),
        ["99.0", "0", "90", "99.0", "0", "90", "99.0", "0", "90"].map(|text| if text.contains('.') {
            format!("{text} ± 0.0")
        } else {
            format!("{text} ± 0")
        })
    );
    let paper = points(&reached, "link_used", 0, "NewReno, paper");
    assert_eq!(paper, [(0.02, 15.04), (0.2, 48.32), (2.0, 58.26)]);
}

#[test]
fn collapse_holds_newreno_under_and_the_proxy_over_its_bounds() {
    let found = outcome("wa-table-1-collapse", &|_, case, _| {
        let used = if case.ends_with("proxy") { 99.0 } else { 50.0 };
        Some(Made::transfer(1.0, 100.0).used(used))
    });
    let wanted = ["T = 20 ms, rates held: NewReno, percent (paper 15.0)"];
    assert_eq!(missed(&found), wanted);
    assert_eq!((fact(&found, "fades_2s", 0), fact(&found, "held_proxy", 0)), ("50".into(), "99".into()));
    // The paper's column is the proxy's beside the proxy's rows.
    assert_eq!(row(&found, 0, "fades, 200 ms")[0], "58.3");
    assert_eq!(row(&found, 0, "fades, 200 ms, proxy")[0], "99.7");
    assert_eq!(points(&found, "link_used", 0, "fades, 200 ms").len(), 3);
}
