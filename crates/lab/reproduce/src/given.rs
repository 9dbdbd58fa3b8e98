//! Results that tests make up, and what the experiments make of them.

use scenario::results::{CaseResult, Distribution, Figures, UdpFigures};
use scenario::{Case, Scenario};

use crate::prose::Ran;
use crate::{Check, Context, LossEvent, Outcome, RadioLog, Run, Seen, Where, chosen};

/// Results given for a run: the scenario's name, the case's, and which repetition.
pub(crate) type Given<'a> = &'a (dyn Fn(&str, &str, u32) -> Option<Made> + Sync);

/// A run that was never run.
#[derive(Clone, Default)]
pub struct Made {
    pub figures: Figures,
    pub radio: RadioLog,
    pub seen: Seen,
}

impl Made {
    /// A transfer over ten seconds, its queue's 95th percentile twice its mean.
    pub(crate) fn transfer(mbps: f64, queue_p95_ms: f64) -> Self {
        let mut figures = Figures::default();
        figures.transfer.goodput_mbps = mbps;
        figures.transfer.seconds = 10.0;
        figures.radio.queue_delay_ms =
            Distribution { p95: queue_p95_ms, mean: queue_p95_ms / 2.0, ..Distribution::default() };
        Self { figures, ..Self::default() }
    }

    /// Datagrams.
    pub(crate) fn udp(mbps: f64, rtt_ms: f64, loss_percent: f64) -> Self {
        let mut made = Self::transfer(mbps, 0.0);
        let rtt_ms = Some(Distribution { mean: rtt_ms, ..Distribution::default() });
        made.figures.udp = Some(UdpFigures { rtt_ms, loss: loss_percent / 100.0, ..UdpFigures::default() });
        made
    }

    /// Sets the share of its capacity that the link delivered, in percent.
    pub(crate) fn used(mut self, percent: f64) -> Self {
        self.figures.radio.utilisation = Some(percent / 100.0);
        self
    }

    /// Packets that the full queue dropped.
    pub(crate) fn dropping(mut self, packets: u64) -> Self {
        self.figures.radio.dropped_full = packets;
        self
    }

    /// Goodput over time, in bins of half a second.
    pub(crate) fn over_time(mut self, mbps: &[f64]) -> Self {
        self.figures.series.bin_s = 0.5;
        self.figures.series.goodput_mbps = mbps.to_vec();
        self
    }

    /// Packets lost at these times, one each.
    pub(crate) fn losing(mut self, seconds: &[f64]) -> Self {
        self.radio.losses = seconds.iter().map(|at_s| LossEvent { at_s: *at_s, packets: 1 }).collect();
        self.radio.delivered = 1_000;
        self
    }
}

/// The runs of `scenario`.
pub(crate) fn runs(scenario: &Scenario, given: Given<'_>) -> Vec<Run> {
    let mut runs = Vec::new();
    for repetition in 1..=scenario.repetitions {
        for case in scenario.resolved() {
            if let Some(made) = given(&scenario.name, &case.name, repetition) {
                runs.push(run(case, repetition, made));
            }
        }
    }
    runs
}

fn run(case: Case, repetition: u32, made: Made) -> Run {
    let result = CaseResult {
        figures: Some(made.figures),
        ..CaseResult::new(case, repetition, u64::from(repetition))
    };
    Run { result, radio: made.radio, seen: made.seen, repeated: 0 }
}

/// Outcome that the experiment of this name makes of it, told.
pub(crate) fn outcome(experiment: &str, given: Given<'_>) -> Outcome {
    let experiment = chosen(&[experiment.to_owned()]).unwrap()[0];
    let context = Context::new(experiment, Where::Given(given), None, &|_| {});
    let (mut outcome, _) = context.outcome().unwrap();
    experiment.prose().unwrap().tell(&mut outcome, Ran::Simulated).unwrap();
    outcome
}

/// The only aim whose claim has these words.
pub(crate) fn aim<'a>(outcome: &'a Outcome, words: &str) -> &'a Check {
    let found: Vec<&Check> = outcome.checks.iter().filter(|check| check.claim.contains(words)).collect();
    match found[..] {
        [one] => one,
        _ => panic!("{} aims with `{words}` in {:#?}", found.len(), outcome.checks),
    }
}

/// Claims of the aims that were missed.
pub(crate) fn missed(outcome: &Outcome) -> Vec<&str> {
    outcome.checks.iter().filter(|check| !check.passed).map(|check| check.claim.as_str()).collect()
}

/// The fields of a row as they are shown.
pub(crate) fn row(outcome: &Outcome, table: usize, label: &str) -> Vec<String> {
    let table = &outcome.tables[table];
    let row = table.rows.iter().find(|row| row.label == label);
    let row = row.unwrap_or_else(|| panic!("no row {label} in {:?}", table.title));
    table.shown().iter().map(|shown| shown.text(row)).collect()
}

/// A fact as text would show it.
pub(crate) fn fact(outcome: &Outcome, name: &str, decimals: usize) -> String {
    outcome.facts.show(name, Some(decimals)).unwrap()
}

/// The points of a series of a figure's panel.
pub(crate) fn points(outcome: &Outcome, figure: &str, panel: usize, series: &str) -> Vec<(f64, f64)> {
    let figure = outcome.figures.iter().find(|own| own.name == figure).unwrap();
    let found = figure.panels[panel].series.iter().find(|own| own.name == series);
    found.unwrap_or_else(|| panic!("no series {series}")).points.iter().map(|p| (p.x, p.y)).collect()
}
