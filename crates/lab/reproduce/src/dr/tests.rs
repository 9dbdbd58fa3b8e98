use crate::CaseId;
use crate::given::{Made, aim, fact, missed, outcome, row};

#[test]
fn congestion_controls_are_compared_case_by_case() {
    let given = |h_tcp: f64| {
        outcome("dr-congestion-controls", &move |_, case, _| {
            let goodput = if case == "H-TCP, adaptive" { h_tcp } else { 4.8 };
            Some(Made::transfer(goodput, 60.0).dropping(7))
        })
    };
    let found = given(4.8);
    assert_eq!(
        aim(&found, "least goodput of adaptive ÷ the control alone").numbers(),
        "1.000 (at least 0.970)"
    );
    assert_eq!(row(&found, 0, "H-TCP")[2], "7 ± 0");
    // The propagation of 60 ms and the mean queue of 30.
    assert_eq!(row(&found, 0, "H-TCP")[6], "90 ± 0");
    let slower = given(4.6);
    assert!(!aim(&slower, "least goodput of adaptive ÷ the control alone").passed);
    assert!(!aim(&slower, "least goodput of adaptive ÷ DRWA").passed);
    // Round trips at the server need captures.
    assert_eq!(fact(&found, "vegas_rtt", 0), "(nothing measured)");
    assert_eq!(found.facts.show("there", None).unwrap(), "");
}

#[test]
fn a_static_window_is_a_case_of_its_own_on_each_link() {
    let found = outcome("dr-window-sweep", &|_, case, _| {
        Some(Made::transfer(if case == "LTE: 110208 B" { 12.0 } else { 11.0 }, 40.0))
    });
    assert_eq!(row(&found, 1, "110208 B")[2], "12.00 ± 0.00");
    assert_eq!(row(&found, 1, "196608 B")[2], "11.00 ± 0.00");
    // The best static window of LTE is better than DRWA, that of HSPA+ is not.
    assert!(!aim(&found, "LTE: throughput of DRWA ÷ the best static window").passed);
    assert!(aim(&found, "HSPA+: throughput of DRWA ÷ the best static window").passed);
    // Only the accelerator's round trip is known without captures: propagation and mean queue.
    assert_eq!(row(&found, 1, "adaptive")[1], "80 ± 0");
    assert_eq!(row(&found, 1, "adaptive")[5], "370 ± 0");
    assert_eq!(row(&found, 0, "HSPA+, DRWA")[0], "24 to 49");
    assert_eq!(row(&found, 0, "HSPA+, far server, DRWA")[2], "up to 51");
}

#[test]
fn a_shaped_sender_is_a_case_by_its_rate() {
    use super::figure_20::Sender;
    let names: Vec<String> = Sender::all().into_iter().map(CaseId::name).collect();
    assert_eq!((names.len(), names[0].as_str()), (12, "8000 kbit/s"));
    assert_eq!(names[10..], ["unshaped", "unshaped, adaptive"]);
    let given = |slow: f64| {
        outcome("dr-figure-20", &move |_, case, _| {
            let shaped = case.strip_suffix(" kbit/s").map(|kbps| kbps.parse::<f64>().unwrap() / 1e3);
            let sent = shaped.unwrap_or(8.0).min(5.0);
            Some(Made::transfer(if shaped == Some(0.4) { slow } else { sent }, 40.0))
        })
    };
    let reached = given(0.4);
    assert!(aim(&reached, "least share received of 2000 kbit/s and less").passed);
    assert_eq!((fact(&reached, "rate", 0), fact(&reached, "adaptive_rtt", 0)), ("5000".into(), "80".into()));
    assert_eq!(missed(&reached), ["adaptive ÷ not shaped, mean RTT"], "round trips need captures");
    assert!(!aim(&given(0.38), "least share received of 2000 kbit/s and less").passed);
    // Between 4,500 and 5,500.
    let fast = outcome("dr-figure-20", &|_, _, _| Some(Made::transfer(5.6, 40.0)));
    let missed = missed(&fast);
    assert_eq!(missed.iter().filter(|claim| claim.starts_with("received of 8000")).count(), 1, "{missed:?}");
}

#[test]
fn the_receivers_window_is_held_against_the_static_one_link_by_link() {
    let given = |bbr: f64, far: f64| {
        outcome("dr-receiver", &move |_, case, _| {
            let mbps = match case {
                "LTE, BBR, DRWA" => bbr,
                "HSPA+, far server, CUBIC, DRWA" => far,
                _ => 2.0,
            };
            Some(Made::transfer(mbps, 40.0))
        })
    };
    let found = given(1.97, 3.1);
    assert!(aim(&found, "LTE, BBR: throughput").passed);
    assert_eq!(aim(&found, "far server").numbers(), "0.550 (at least 0.510)");
    assert_eq!(row(&found, 0, "LTE, BBR")[4], "0.985");
    assert_eq!(fact(&found, "far_percent", 0), "55");
    // Round trips need captures.
    assert!(missed(&found).iter().all(|claim| claim.contains("RTT reduced")), "{:?}", missed(&found));
    let worse = given(1.95, 3.0);
    assert!(!aim(&worse, "LTE, BBR: throughput").passed && !aim(&worse, "far server").passed);
}

/// The far server is CUBIC's alone.
#[test]
fn every_case_of_the_receivers_files_is_looked_up() {
    let experiment = crate::chosen(&["dr-receiver".to_owned()]).unwrap()[0];
    for file in experiment.files {
        let cases = scenario::Scenario::from_toml(file.path, file.text).unwrap().resolved();
        assert_eq!(cases.len(), 18, "{}", file.path);
    }
}

/// Pages and second ports are the lab's: virtual time leaves those cases out, and is no error.
#[test]
fn what_only_the_lab_has_is_left_out_in_virtual_time() {
    let experiment = crate::chosen(&["dr-sharing".to_owned()]).unwrap()[0];
    let place = crate::Where::Sim { threads: 2, engine_of: &|_| Ok(None) };
    let (outcome, evidence) = crate::Context::new(experiment, place, None, &|_| {}).outcome().unwrap();
    assert!(outcome.checks.is_empty() && outcome.tables.is_empty() && outcome.figures.is_empty());
    let skipped = |record: &&crate::RunRecord| record.skipped.is_some();
    let left: Vec<&str> = evidence.runs.iter().filter(skipped).map(|run| run.case.as_str()).collect();
    assert_eq!(left.len(), 5 * 5, "{left:?}");
    assert!(left.iter().all(|case| case.starts_with("Against") || case.starts_with("Pages")), "{left:?}");
    let why = evidence.runs.iter().find_map(|run| run.skipped.as_deref());
    assert_eq!(why, Some("only the lab has `second_port`"));
    assert!(evidence.runs.iter().any(|run| run.case.starts_with("Three") && run.goodput_mbps > Some(4.0)));
}
