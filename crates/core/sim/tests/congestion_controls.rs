//! Every congestion control of the simulated hosts carries a download over a link with a queue of one BDP.

use scenario::{Case, Quantity, Scenario};
use sim::{CaseRun, LogMode};
use units::Bytes;

fn run(case: &Case, scenario: &Scenario) -> sim::CaseOutcome {
    let plan = case.links(scenario.seed, &mut |_| unreachable!("no trace")).unwrap();
    let run = CaseRun::new(case, &plan, None, (scenario.seed, scenario.time_limit.0), LogMode::Hash);
    run.run(&mut |_| ()).unwrap()
}

fn cases(link: &str, bytes: u64) -> (Scenario, Vec<Case>) {
    let text = include_str!("../../../../scenarios/congestion-controls.toml");
    let scenario = Scenario::from_toml("congestion-controls.toml", text).unwrap();
    let mut cases = scenario.resolved();
    cases.retain(|case| case.name.ends_with(link));
    for case in &mut cases {
        case.workload.size = Some(Quantity(Bytes::new(bytes)));
    }
    (scenario, cases)
}

#[test]
fn each_fills_most_of_the_link() {
    let (scenario, cases) = cases("one BDP", 20_000_000);
    assert_eq!(cases.len(), 11);
    for case in cases {
        let outcome = run(&case, &scenario);
        let goodput = outcome.figures.transfer.goodput_mbps;
        println!(
            "{:28} {goodput:6.2} Mbit/s  {:6.1} ms",
            case.name, outcome.figures.radio.queue_delay_ms.mean
        );
        assert!(outcome.problems.is_empty(), "{}: {:?}", case.name, outcome.problems);
        assert!(goodput > 14.0, "{}: {goodput} of 20 Mbit/s", case.name);
    }
}

#[test]
fn each_survives_random_loss_and_runs_twice_the_same() {
    let (scenario, cases) = cases("0.1 % loss", 3_000_000);
    for case in cases {
        let (first, second) = (run(&case, &scenario), run(&case, &scenario));
        assert!(first.problems.is_empty(), "{}: {:?}", case.name, first.problems);
        assert!(first.figures.transfer.hashes_equal, "{}", case.name);
        let hash = |outcome: &sim::CaseOutcome| outcome.simulation.log_hash.clone();
        assert_eq!(hash(&first), hash(&second), "{}", case.name);
    }
}
