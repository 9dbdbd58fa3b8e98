//! The figures of `make docs-congestion-paths` as Markdown: cases of scenarios, each with every congestion control.

use std::fmt::Write as _;

use figures::stats::mean;
use scenario::results::{CaseResult, Figures, Results};

/// As scenarios call them; the last one is what the others are compared with.
const CONTROLS: [&str; 3] = ["cubic", "bbr", "adaptive"];

/// Each path once, and its runs by control: of a case `PATH, CONTROL`.
fn paths(results: &Results) -> Vec<(&str, [Vec<&CaseResult>; 3])> {
    let mut paths: Vec<(&str, [Vec<&CaseResult>; 3])> = Vec::new();
    for case in results.scenarios.iter().flat_map(|result| &result.cases) {
        let (path, control) = case.name.rsplit_once(", ").unwrap();
        let place = CONTROLS.iter().position(|one| *one == control).unwrap();
        if !paths.iter().any(|(name, _)| *name == path) {
            paths.push((path, Default::default()));
        }
        paths.iter_mut().find(|(name, _)| *name == path).unwrap().1[place].push(case);
    }
    paths
}

/// The mean over the seeds.
fn over(runs: &[&CaseResult], figure: impl Fn(&CaseResult, &Figures) -> f64) -> f64 {
    mean(runs.iter().map(|run| figure(run, run.figures.as_ref().unwrap()))).unwrap()
}

/// Goodput over what the path carries: the policer's rate, or what the link offered.
fn share(run: &CaseResult, figures: &Figures) -> f64 {
    let down = run.settings.radio.down.as_ref().unwrap();
    let transfer = &figures.transfer;
    let offered_mbps = match &down.policer {
        Some(policer) => policer.rate.0.as_mbps_f64(),
        None => figures.radio.offered_bytes.unwrap() as f64 * 8e-6 / transfer.seconds,
    };
    transfer.goodput_mbps / offered_mbps
}

/// Of the packets that came to the link, those that it lost.
fn loss(_: &CaseResult, figures: &Figures) -> f64 {
    let radio = &figures.radio;
    let lost = (radio.dropped_full + radio.dropped_loss) as f64;
    lost / (lost + radio.queue_delay_ms.count as f64)
}

/// A row for each path: share, queue and loss by control.
pub fn markdown(results: &Results) -> String {
    let mut text =
        format!("| path | {} | adaptive ÷ better |\n|---|---|---|---|---|\n", CONTROLS.join(" | "));
    for (path, runs) in paths(results) {
        let _ = write!(text, "| {path} |");
        for of in &runs {
            let queue = over(of, |_, figures| figures.radio.queue_delay_ms.p95);
            let (share, loss) = (100.0 * over(of, share), 100.0 * over(of, loss));
            let _ = write!(text, " {share:.1} · {queue:.1} · {loss:.2} |");
        }
        let goodput = |place: usize| over(&runs[place], |_, figures| figures.transfer.goodput_mbps);
        let _ = writeln!(text, " {:.3} |", goodput(2) / goodput(0).max(goodput(1)));
    }
    text
}

/// A row for each control: how unlike its flows are.
pub fn flows(results: &Results) -> String {
    let mut text = "| flows | control | slowest, Mbit/s | fastest, Mbit/s | fastest ÷ slowest | at most | used, % | queue \
                    p95, ms |\n|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for (path, runs) in paths(results) {
        for (control, of) in CONTROLS.iter().zip(&runs) {
            let rates = |figures: &Figures| -> Vec<f64> {
                let mut rates: Vec<f64> =
                    figures.transfer.flows.iter().map(|flow| flow.goodput_mbps).collect();
                rates.sort_by(f64::total_cmp);
                rates
            };
            let slowest = over(of, |_, figures| rates(figures)[0]);
            let fastest = over(of, |_, figures| *rates(figures).last().unwrap());
            let unlike = |figures: &Figures| rates(figures).last().unwrap() / rates(figures)[0];
            let worst = of.iter().map(|run| unlike(run.figures.as_ref().unwrap())).fold(0.0, f64::max);
            let _ = writeln!(
                text,
                "| {path} | {control} | {slowest:.2} | {fastest:.2} | {:.2} | {worst:.2} | {:.1} | {:.0} |",
                over(of, |_, figures| unlike(figures)),
                100.0 * over(of, |_, figures| figures.radio.utilisation.unwrap()),
                over(of, |_, figures| figures.radio.queue_delay_ms.p95),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use scenario::Scenario;
    use scenario::results::{Distribution, Flow, MadeBy, RadioFigures, SCHEMA, ScenarioResult, Transfer};

    use super::*;

    /// Two seeds of a path with a policer of 20 Mbit/s or a rate of 10; `goodput` by control, Mbit/s.
    fn results(down: &str, goodput: [f64; 3]) -> Results {
        let text = format!("name = \"t\"\nradio.down = {down}\n[[case]]\nname = \"a path, 5 ms\"\n");
        let scenario = Scenario::from_toml("t.toml", &text).unwrap();
        let settings = scenario.resolved().remove(0);
        let one = |repetition: u32, (control, mbps): (&str, f64)| {
            // The second seed has a Mbit/s more.
            let mbps = mbps + f64::from(repetition - 1);
            let flow = |goodput_mbps| Flow { goodput_mbps, ..Flow::default() };
            let radio = RadioFigures {
                offered_bytes: Some(2_500_000),
                utilisation: Some(0.5),
                queue_delay_ms: Distribution { count: 96, p95: 7.0, ..Distribution::default() },
                dropped_full: 3,
                dropped_loss: 1,
                ..RadioFigures::default()
            };
            let flows = vec![flow(mbps / 4.0), flow(mbps / 2.0), flow(mbps / 4.0)];
            let transfer = Transfer { seconds: 2.0, goodput_mbps: mbps, flows, ..Transfer::default() };
            CaseResult {
                name: format!("a path, 5 ms, {control}"),
                repetition,
                seed: 1,
                settings: settings.clone(),
                accelerator_command: None,
                skipped: None,
                problems: Vec::new(),
                doubts: Vec::new(),
                figures: Some(Figures { transfer, radio, ..Figures::default() }),
                simulation: None,
            }
        };
        let cases = [1, 2].into_iter().flat_map(|n| CONTROLS.into_iter().zip(goodput).map(move |of| (n, of)));
        let cases = cases.map(|(n, of)| one(n, of)).collect();
        Results {
            schema: SCHEMA.to_owned(),
            made_by: MadeBy::default(),
            scenarios: vec![ScenarioResult { scenario, cases }],
            pictures: Vec::new(),
            interrupted: None,
        }
    }

    #[test]
    fn shares_are_of_what_the_path_carries_and_compared_with_the_better_of_the_others() {
        let made = markdown(&results("{ rate = \"10 Mbit/s\" }", [7.5, 5.5, 6.5]));
        let row = "| a path, 5 ms | 80.0 · 7.0 · 4.00 | 60.0 · 7.0 · 4.00 | 70.0 · 7.0 · 4.00 | 0.875 |\n";
        assert!(made.ends_with(row), "{made}");
        let policed = results("{ policer = { rate = \"20 Mbit/s\", burst = \"64 KB\" } }", [7.5, 9.5, 19.5]);
        assert!(markdown(&policed).contains("| 40.0 · 7.0 · 4.00 | 50.0 · 7.0 · 4.00 | 100.0 ·"));
        assert!(markdown(&policed).ends_with("| 2.000 |\n"));
    }

    #[test]
    fn flows_are_compared_with_each_other() {
        let made = flows(&results("{ rate = \"10 Mbit/s\" }", [7.5, 5.5, 6.5]));
        assert!(made.contains("| a path, 5 ms | cubic | 2.00 | 4.00 | 2.00 | 2.00 | 50.0 | 7 |\n"), "{made}");
    }
}
