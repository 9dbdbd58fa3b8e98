//! The simulator's end hosts against the kernel's: bulk downloads over five links, in virtual time.
//!
//! Both run the same files, `scenarios/endpoint-model-*.toml`. The kernel's figures are those of
//! `docs/endpoint-models.md`, which has the machine, the commands and the spread.

use parallel::in_parallel;
use scenario::{Case, Scenario};
use sim::{CaseRun, LogMode};

/// What the kernel made of a congestion control: means over all repetitions.
struct Kernel {
    case: &'static str,
    goodput_mbps: f64,
    /// Queueing delay of delivered packets.
    queue_ms: f64,
}

const fn kernel(case: &'static str, goodput_mbps: f64, queue_ms: f64) -> Kernel {
    Kernel { case, goodput_mbps, queue_ms }
}

/// Largest difference from the kernel in goodput, and in the mean round trip of a packet.
const TOLERANCE: f64 = 0.10;

/// Goodput in Mbit/s and mean queueing delay in ms of one run.
fn run(scenario: &Scenario, case: &Case, seed: u64) -> (f64, f64) {
    let plan = case.links(seed, &mut |_| unreachable!("no trace")).unwrap();
    let run = CaseRun::new(case, &plan, None, (seed, scenario.time_limit.0), LogMode::Hash);
    let outcome = run.run(&mut |_| ()).unwrap();
    assert!(outcome.problems.is_empty(), "{}: {:?}", case.name, outcome.problems);
    let figures = outcome.figures;
    (figures.transfer.goodput_mbps, figures.radio.queue_delay_ms.mean)
}

/// Compares every congestion control over the link of a scenario file; `base_ms` is its round trip
/// without a queue.
fn compare(text: &str, base_ms: f64, kernels: &[Kernel]) {
    let scenario = Scenario::from_toml("the scenario", text).unwrap();
    let has_loss = scenario.radio.down.as_ref().is_some_and(|down| down.loss.is_some());
    // Without random losses every seed gives the same figures.
    let seeds = if has_loss { scenario.repetitions as usize } else { 1 };
    let mut wrong = String::new();
    for kernel in kernels {
        let case = scenario.chosen(Some(kernel.case)).unwrap().remove(0);
        let runs = in_parallel(seeds, 2, |i| run(&scenario, &case, scenario.seed + i as u64));
        let mean = |of: fn(&(f64, f64)) -> f64| runs.iter().map(of).sum::<f64>() / seeds as f64;
        let (goodput, queue) = (mean(|r| r.0), mean(|r| r.1));
        let off = |simulated: f64, measured: f64| simulated / measured - 1.0;
        let goodput_off = off(goodput, kernel.goodput_mbps);
        let round_trip_off = off(base_ms + queue, base_ms + kernel.queue_ms);
        let line = format!(
            "{} {:5}  {goodput:7.3} Mbit/s, kernel {:7.3}, {:+5.1} %   queue {queue:8.2} ms, kernel {:8.2}, \
             {:+5.1} %   round trip {:+5.1} %\n",
            scenario.name,
            kernel.case,
            kernel.goodput_mbps,
            goodput_off * 100.0,
            kernel.queue_ms,
            off(queue, kernel.queue_ms) * 100.0,
            round_trip_off * 100.0,
        );
        print!("{line}");
        if goodput_off.abs() > TOLERANCE || round_trip_off.abs() > TOLERANCE {
            wrong += &line;
        }
    }
    assert!(wrong.is_empty(), "more than a tenth from the kernel:\n{wrong}");
}

#[test]
fn link_a_a_short_path_with_a_short_queue() {
    let kernels = [kernel("reno", 9.462, 10.76), kernel("cubic", 9.546, 13.04), kernel("bbr", 9.476, 11.77)];
    compare(include_str!("../../../../scenarios/endpoint-model-a.toml"), 20.0, &kernels);
}

#[test]
fn link_b_a_long_path_with_a_queue_of_its_bdp() {
    let kernels =
        [kernel("reno", 19.101, 32.16), kernel("cubic", 19.171, 43.43), kernel("bbr", 18.680, 6.17)];
    compare(include_str!("../../../../scenarios/endpoint-model-b.toml"), 60.0, &kernels);
}

#[test]
fn link_c_3g_with_a_deep_queue() {
    let kernels =
        [kernel("reno", 5.381, 844.66), kernel("cubic", 5.381, 1_031.44), kernel("bbr", 5.262, 22.03)];
    compare(include_str!("../../../../scenarios/endpoint-model-c.toml"), 62.0, &kernels);
}

#[test]
fn link_d_a_long_path_with_a_very_deep_queue() {
    let kernels =
        [kernel("reno", 19.177, 896.03), kernel("cubic", 19.172, 976.77), kernel("bbr", 18.767, 8.50)];
    compare(include_str!("../../../../scenarios/endpoint-model-d.toml"), 60.0, &kernels);
}

#[test]
fn link_e_random_loss() {
    let kernels = [kernel("reno", 5.903, 4.75), kernel("cubic", 5.695, 3.25), kernel("bbr", 9.380, 16.13)];
    compare(include_str!("../../../../scenarios/endpoint-model-e.toml"), 40.0, &kernels);
}
