//! Costs by hand; a small elimination, whole and interrupted.

use super::*;

static NEVER: AtomicBool = AtomicBool::new(false);

fn cells(figures: &[(&str, &[(f64, f64)])]) -> Cells {
    let of = |&(share, queue_ms)| Figures { share, queue_ms, loss: 0.0 };
    figures.iter().map(|(name, seeds)| ((*name).to_owned(), seeds.iter().map(of).collect())).collect()
}

#[test]
fn a_term_costs_what_the_worst_cell_loses() {
    let law = cells(&[("a", &[(0.9, 50.0), (1.0, 60.0)]), ("b", &[(0.8, 20.0)])]);
    let of = |cells: &Cells| candidate("t", &law, cells, Tolerance::default());
    let same = of(&law);
    assert_eq!((same.cost, same.mean_share_percent, same.share_interval), (0.0, 0.0, Some(0.0)));
    // Half of what may be lost of the share in one, twice what may be added to the delay in the other.
    let worse = of(&cells(&[("a", &[(0.895_5, 50.0), (0.995, 60.0)]), ("b", &[(0.8, 22.0)])]));
    assert_eq!((worse.worst.as_str(), worse.queue_interval), ("b", None));
    assert!((worse.cost - 2.0).abs() < 1e-9 && (worse.queue_percent - 10.0).abs() < 1e-9, "{worse:?}");
    assert!((worse.mean_share_percent + 0.25).abs() < 1e-3, "{worse:?}");
    // A tenth of a millisecond is no difference, and what becomes better costs nothing.
    let better = of(&cells(&[("a", &[(0.99, 40.0), (1.0, 50.0)]), ("b", &[(0.8, 20.9)])]));
    assert_eq!((better.cost, better.cost.is_sign_positive()), (0.0, true), "{better:?}");
    let share = of(&cells(&[("a", &[(0.9, 50.0), (1.0, 60.0)]), ("b", &[(0.776, 10.0)])]));
    assert!((share.cost - 3.0).abs() < 1e-9 && (share.share_percent + 3.0).abs() < 1e-9, "{share:?}");
}

fn elimination(terms: &[&str]) -> Elimination {
    let spec = r#"
        traces = ["4g-lte-drive"]
        schemes = ["accel:adaptive"]
        seconds = 4
    "#;
    Elimination {
        specs: vec![toml::from_str(spec).unwrap()],
        cases: Vec::new(),
        terms: terms.iter().map(|term| (*term).to_owned()).collect(),
        rounds: 9,
        tolerance: Tolerance::default(),
        threads: 2,
    }
}

/// Nothing overflows on this link, and no time-out happens: those terms cost nothing. Without K the link
/// runs dry.
#[test]
fn what_a_link_does_not_need_goes_first() {
    let names = ["ceiling", "retry", "constant"];
    let result = elimination(&names).run("test".to_owned(), &|_| {}, &|_| {}, &NEVER).unwrap();
    assert!(result.is_complete);
    let went: Vec<_> = result.rounds.iter().filter_map(|round| round.goes.as_deref()).collect();
    assert!(went.contains(&"ceiling") && went.contains(&"retry"), "{went:?}");
    assert_eq!(result.rounds[0].candidates.len(), 3);
    assert_eq!(result.rounds[1].without, went[0]);
    let costs = result.rounds[0].candidates.iter().map(|candidate| candidate.cost);
    assert!(costs.is_sorted(), "the cheapest first");
    let tables = result.tables();
    assert_eq!(tables.len(), result.rounds.len());
    assert!(tables[0].0.starts_with("The whole law: "), "{}", tables[0].0);
    assert_eq!(tables[1].0, format!("Without {}: {} goes", went[0], went[1]));
}

#[test]
fn an_interrupted_elimination_gives_the_rounds_that_are_whole() {
    let is_over = AtomicBool::new(false);
    let count = Mutex::new(0);
    let stop = |progress: Progress<'_>| {
        let mut count = count.lock().unwrap();
        *count += 1;
        // The second round has begun.
        if *count > progress.of && progress.of == 2 {
            is_over.store(true, Ordering::Relaxed);
        }
    };
    let elimination = elimination(&["ceiling", "retry", "silence"]);
    let result = elimination.run(String::new(), &stop, &|_| {}, &is_over).unwrap();
    assert_eq!((result.is_complete, result.rounds.len()), (false, 1));
}

#[test]
fn a_grid_of_several_schemes_is_refused() {
    let mut two = elimination(&["ceiling"]);
    two.specs[0].schemes.push("accel:rate".to_owned());
    let error = two.run(String::new(), &|_| {}, &|_| {}, &NEVER).unwrap_err().to_string();
    assert!(error.contains("schemes") && error.contains("no parameters"), "{error}");
}

#[test]
fn an_unknown_term_is_named_with_those_there_are() {
    let error =
        elimination(&["gravity"]).run(String::new(), &|_| {}, &|_| {}, &NEVER).unwrap_err().to_string();
    assert!(error.contains("`gravity`") && error.contains("patience, headroom"), "{error}");
}

const SCENARIO: &str = r#"
    name = "short"
    repetitions = 2
    [radio.down]
    rate = "4 Mbit/s"
    [workload]
    size = "200 KB"
    [[case]]
    name = "adaptive"
    accelerator.enabled = true
    [[case]]
    name = "plain"
"#;

fn engine_of(case: &Case) -> Result<Option<EngineConfig>, String> {
    Ok(case.accelerator.enabled.unwrap_or(false).then(EngineConfig::default))
}

#[test]
fn cases_of_a_scenario_count_with_their_goodput() {
    let scenario = Scenario::from_toml("short.toml", SCENARIO).unwrap();
    let cases = CaseCell::all_of(&scenario, &mut |_| Err("none".to_owned()), &engine_of).unwrap();
    assert_eq!((cases.len(), cases[0].seed, cases[1].seed), (2, 1, 2));
    let elimination = Elimination { specs: Vec::new(), cases, ..elimination(&["retry"]) };
    let result = elimination.run(String::new(), &|_| {}, &|_| {}, &NEVER).unwrap();
    assert_eq!((result.cells, result.rounds[0].candidates[0].worst.as_str()), (1, "short, adaptive"));
    let (name, figures) = elimination.cases[0].run("none", &NEVER).unwrap();
    assert_eq!(name, "short, adaptive");
    assert!((1.0..4.0).contains(&figures.share), "{figures:?}");
}

#[test]
fn a_scenario_without_the_controller_is_refused() {
    let scenario = Scenario::from_toml("short.toml", SCENARIO).unwrap();
    let nobody = |_: &Case| Ok(None);
    let error = CaseCell::all_of(&scenario, &mut |_| Err("none".to_owned()), &nobody).unwrap_err();
    assert!(error.to_string().contains("adaptive"), "{error}");
}
