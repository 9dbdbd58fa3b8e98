use crate::given::{Made, aim, fact, missed, outcome, row};

#[test]
fn figure_6_finds_the_network_farthest_from_the_table() {
    let found = outcome("mp-figure-6", &|scenario, case, _| {
        let is_adaptive = scenario.ends_with("-adaptive");
        let queue = if is_adaptive && case == "Sprint 3G" { 301.0 } else { 300.0 };
        Some(Made::transfer(if is_adaptive { 0.98 } else { 1.0 }, queue))
    });
    // What captures would show is not there: nothing is measured, and that is a miss.
    assert_eq!(aim(&found, "farthest mean").numbers(), "nothing measured (at most 0.150)");
    assert_eq!(aim(&found, "least goodput").numbers(), "0.980 (at least 0.970)");
    assert_eq!(aim(&found, "largest queue").numbers(), "1.003 (at most 1.000)");
    assert_eq!(missed(&found).len(), 2);
    assert_eq!(row(&found, 0, "Sprint 3G"), ["0.31", "–", "0.98", "300", "301"]);
}

#[test]
fn tables_count_the_links_on_which_adaptive_has_the_shorter_queue() {
    for (name, links, one) in [("mp-table-2", 10, "RCN Wi-Fi"), ("mp-table-4", 7, "AT&T 4G, Boston")] {
        let found = outcome(name, &|scenario, case, _| {
            let is_longer = scenario.ends_with("-adaptive") && case == one;
            Some(Made::transfer(10.0, if is_longer { 101.0 } else { 100.0 }))
        });
        let share = aim(&found, "links with a shorter queue");
        assert!(
            !share.passed && (share.measured.unwrap() - f64::from(links - 1) / f64::from(links)).abs() < 1e-9
        );
        assert_eq!(fact(&found, "shorter", 0), (links - 1).to_string());
        assert_eq!(fact(&found, "links", 0), links.to_string());
        assert_eq!(aim(&found, "least goodput").numbers(), "1.000 (at least 0.970)");
        assert_eq!(aim(&found, "farthest handshake").measured, None);
        assert_eq!(row(&found, 1, one)[3..5], ["100 ± 0", "101 ± 0"]);
    }
}

#[test]
fn table_ii_prints_the_papers_spread() {
    let found = outcome("mp-table-2", &|_, _, _| None);
    assert_eq!(row(&found, 0, "UMass Wi-Fi")[..3], ["18.32 ± 0.87", "–", "39.9 ± 16.8"]);
    assert_eq!(missed(&found).len(), found.checks.len(), "nothing was measured");
}

#[test]
fn what_needs_several_paths_has_the_papers_values_and_no_aim() {
    let found = outcome("mp-multi-path", &|_, _, _| None);
    assert!(found.checks.is_empty() && found.figures.is_empty());
    assert_eq!(row(&found, 0, "4G zone while driving"), ["10.48", "7.79", "1.35"]);
    assert!(found.we_see.contains("one path each"), "{}", found.we_see);
}
