use crate::CaseId as _;
use crate::given::{Made, aim, fact, missed, outcome, points, row};

#[test]
fn figure_2_with_the_papers_values_reaches_its_aims_at_their_bounds() {
    let given = |adaptive: f64| {
        outcome("ma-figure-2", &|_, case, _| {
            Some(match case {
                "CUBIC" => Made::transfer(1.5, 10.0).over_time(&[1.0, 2.0, 3.0]),
                "accelerated" => Made::transfer(5.0, 4.0),
                "adaptive" => Made::transfer(adaptive, 47.0),
                other => panic!("{other}"),
            })
        })
    };
    let reached = given(4.9);
    assert_eq!(missed(&reached), [""; 0]);
    assert_eq!((fact(&reached, "gain", 3), fact(&reached, "adaptive", 1)), ("3.333".into(), "4.9".into()));
    assert_eq!(row(&reached, 0, "accelerated"), ["5.0", "5.00", "3.33", "4"]);
    assert_eq!(row(&reached, 0, "adaptive"), ["–", "4.90", "3.27", "47"]);
    assert_eq!(points(&reached, "goodput", 0, "CUBIC"), [(0.25, 1.0), (0.75, 2.0), (1.25, 3.0)]);
    assert_eq!(missed(&given(4.84)), ["adaptive ÷ accelerated"]);
}

/// Goodput that falls from 4 to 1 in the interval of a loss is a throughput loss of 75 %.
#[test]
fn figure_3_compares_the_interval_of_a_loss_with_the_one_before() {
    let found = outcome("ma-figure-3", &|scenario, case, _| {
        let series = match case {
            "UDP" => [4.0, 4.0, 3.6, 4.0],
            "adaptive" => [4.0, 4.0, 3.0, 4.0],
            _ => [4.0, 4.0, 1.0, 0.0],
        };
        let is_wide = scenario.ends_with("windows") && case == "Reno, 64 KB";
        let losses: &[f64] = if is_wide { &[0.1] } else { &[1.1] };
        Some(Made::transfer(4.0, 50.0).over_time(&series).losing(losses))
    });
    assert_eq!(missed(&found), [""; 0]);
    assert_eq!((fact(&found, "udp", 1), fact(&found, "reno", 1)), ("10.0".into(), "75.0".into()));
    assert_eq!((fact(&found, "adaptive", 1), fact(&found, "cubic", 1)), ("25.0".into(), "75.0".into()));
    assert_eq!(row(&found, 0, "CUBIC")[..2], ["85.3", "75.0 ± 0.0"]);
    assert!(row(&found, 0, "CUBIC")[2].starts_with("100.0"), "the worse of two intervals");
    // A loss in the first interval has nothing before it.
    let windows = row(&found, 1, "64 KB");
    assert_eq!((windows[0].as_str(), windows[1].as_str()), ("91.0", "–"));
    assert!(windows[3].starts_with("75.0"), "{windows:?}");
    let lost = outcome("ma-figure-3", &|_, _, _| {
        Some(Made::transfer(4.0, 0.0).over_time(&[4.0, 4.0, 3.0]).losing(&[1.1]))
    });
    let wanted = [
        "UDP's throughput loss, percent",
        "Reno's throughput loss over UDP's, percentage points",
        "CUBIC's throughput loss over UDP's, percentage points",
    ];
    assert_eq!(missed(&lost), wanted);
}

/// Goodput and round trip of UDP, one round trip a bin.
fn datagrams(goodput: &[f64], rtt: &[f64]) -> Made {
    let mut made = Made::udp(4.0, 287.0, 1.9).over_time(goodput);
    if let Some(udp) = &mut made.figures.udp {
        udp.rtt_series_ms = rtt.iter().map(|rtt| Some(*rtt)).collect();
    }
    made
}

#[test]
fn figure_4_correlates_goodput_with_the_round_trip_and_its_growth() {
    let falling = datagrams(&[4.0, 3.0, 2.0, 1.0, 2.0], &[100.0, 200.0, 300.0, 400.0, 300.0]);
    let found = outcome("ma-figure-4", &|_, _, _| Some(falling.clone()));
    assert_eq!(fact(&found, "plain", 3), "-1.000");
    assert_eq!(row(&found, 0, "UDP")[..3], ["287", "287 ± 0", "4.00 ± 0.00"]);
    assert!(aim(&found, "same over a bandwidth that holds").passed);
    // The growth is 100 at goodputs of 3, 2 and 1, and -100 at 2: hardly correlated.
    assert!(!aim(&found, "growth").passed);
    // In a queue that integrates what is missing, growth is all.
    let queue = datagrams(&[3.0, 5.0, 3.0, 5.0, 3.0], &[100.0, 0.0, 100.0, 0.0, 100.0]);
    let found = outcome("ma-figure-4", &|_, _, _| Some(queue.clone()));
    assert_eq!(fact(&found, "growth", 3), "-1.000");
    assert!(aim(&found, "growth").passed);
    assert_eq!(points(&found, "udp", 0, "goodput").len(), 5);
}

#[test]
fn figure_5_takes_the_smallest_gain_of_all_sizes() {
    let given = |worst: f64| {
        outcome("ma-figure-5", &|_, case, _| {
            let (flow, size) = case.rsplit_once(", ").unwrap();
            let mbps = match flow {
                "direct, 17 KB" => 1.5,
                "direct, 64 KB" => 3.0,
                _ if size == "256 KB" => worst,
                _ => 5.0,
            };
            Some(Made::transfer(mbps, 4.0))
        })
    };
    let reached = given(4.0);
    assert_eq!(missed(&reached), [""; 0]);
    assert_eq!((fact(&reached, "least_gain", 2), fact(&reached, "count", 0)), ("3.33".into(), "10".into()));
    assert_eq!(reached.facts.show("largest", None).unwrap(), "10 MB");
    assert_eq!(row(&reached, 0, "256 KB")[4], "2.67");
    let slower = given(1.49);
    assert_eq!(missed(&slower), ["accelerated ÷ direct with the same window, the smallest of all sizes"]);
}

#[test]
fn table_3_sets_its_aims_by_the_papers_own_ratios() {
    let given = |queue: f64| {
        outcome("ma-table-3", &move |_, case, _| {
            let (scheme, sent) = case.split_once(", ").unwrap();
            let sent: f64 = sent.trim_end_matches(" Mbit/s").parse().unwrap();
            let got = if matches!(scheme, "CUBIC" | "Westwood" | "Veno") { sent.min(1.45) } else { sent };
            Some(Made::transfer(got, if scheme == "adaptive" { queue } else { 54.0 }))
        })
    };
    let reached = given(54.0);
    assert_eq!(missed(&reached), [""; 0]);
    let bound = aim(&reached, "at 5.6 Mbit/s, as in the paper");
    assert!((bound.aim - 5.19 / 1.63).abs() < 1e-9, "{}", bound.numbers());
    assert_eq!(reached.checks.iter().filter(|check| check.claim.contains("as in the paper")).count(), 5);
    assert_eq!(reached.facts.show("plain", None).unwrap(), "1.45 (CUBIC), 1.45 (Westwood), 1.45 (Veno)");
    assert_eq!(missed(&given(54.1)), ["adaptive's queue p95 at 5.6 Mbit/s, ms, against accelerated's"]);
    // Without Westwood and Veno they are not named.
    let fewer = outcome("ma-table-3", &|_, case, _| {
        let is_there = !case.starts_with("Westwood") && !case.starts_with("Veno");
        is_there.then(|| Made::transfer(1.5, 54.0))
    });
    assert_eq!(fewer.facts.show("plain", None).unwrap(), "1.50 (CUBIC)");
    assert_eq!(row(&fewer, 0, "5.6")[4..6], ["1.65", "–"]);
}

#[test]
fn tables_1_and_4_measure_the_largest_factor_in_either_direction() {
    for (name, first, last) in [("ma-table-1", "0.8", "6.4"), ("ma-table-4", "1.6", "80")] {
        let first_rate = format!("{first} Mbit/s");
        let given = |factor: f64| {
            outcome(name, &|_, case, _| {
                let (flow, rate) = case.split_once(", ").unwrap();
                if flow == "adaptive" {
                    return Some(Made::transfer(4.0, 60.0));
                }
                let paper = super::udp_sweep::paper_rtt(name, rate).unwrap();
                let ours = if rate == first_rate { paper / factor } else { paper };
                Some(Made::udp(4.2, ours, 30.0))
            })
        };
        let reached = given(1.99);
        assert_eq!(missed(&reached), [""; 0], "{name}");
        assert_eq!(fact(&reached, "lost", 1), "30.0");
        let worse = given(2.01);
        assert_eq!(missed(&worse), ["largest factor between our round trip and the paper's"]);
        assert_eq!(aim(&worse, "largest factor").numbers(), "2.010 (at most 2.000)");
        assert_eq!(row(&worse, 0, last)[4..6], ["4.20", "4.00"]);
    }
}

/// Goodput in Mbit/s of a case of Table 5, nearly the paper's at {−64, 27}.
fn lte(case: &str, adaptive: f64) -> f64 {
    match case {
        _ if case.starts_with("maximum UDP") => 81.0,
        _ if case.starts_with("normal TCP") => 34.0,
        _ if case.starts_with("adaptive") => adaptive,
        _ => 78.5,
    }
}

#[test]
fn table_5_holds_each_share_of_udp_against_the_papers() {
    let given = |adaptive: f64| {
        outcome("ma-table-5", &move |_, case, _| {
            let queue = if case.starts_with("adaptive") { 50.0 } else { 60.0 };
            Some(Made::transfer(lte(case, adaptive), queue).losing(&[1.0, 2.0]))
        })
    };
    let reached = given(78.5);
    assert_eq!((missed(&reached), reached.checks.len()), (vec![], 44));
    let share = aim(&reached, "accelerated, 17 KB, over maximum UDP at {−64, 27}, as in the paper");
    assert!((share.aim - 74.0 / 81.0).abs() < 1e-9, "{}", share.numbers());
    // Where nothing is lost the paper's two digits are enough.
    let two_digits = aim(&reached, "as in the paper, 17 KB, over maximum UDP at {−64, 27}, nothing lost");
    assert!((two_digits.aim - 0.91).abs() < 1e-9, "{}", two_digits.numbers());
    assert_eq!(fact(&reached, "accelerated_large", 2), "0.97, 0.97, 0.97, 0.97");
    // Two events in the ten seconds of each run.
    assert_eq!(
        (fact(&reached, "least_fades", 2), fact(&reached, "most_events", 2)),
        ("0.20".into(), "0.20".into())
    );
    assert_eq!(row(&reached, 0, "{−90, 27}")[..2], ["53", "78.5 ± 0.0"]);
    // With 0.92 of UDP adaptive reaches the two strongest signals' bounds only.
    let slower = given(0.92 * 81.0);
    assert_eq!(missed(&slower).len(), 2 * 2 + 2 * 2);
    assert!(missed(&slower).iter().all(|claim| claim.starts_with("adaptive")), "{:?}", missed(&slower));
}

#[test]
fn names_of_cases_have_what_their_files_say_behind_them() {
    use super::table_5::{Flow, Losing};
    assert_eq!((Flow::Udp, Losing::ByTime).name(), "maximum UDP");
    assert_eq!((Flow::Udp, Losing::ByPacket).name(), "maximum UDP, losses by packet");
    assert_eq!(<(Flow, Losing)>::all().len(), 12);
}
