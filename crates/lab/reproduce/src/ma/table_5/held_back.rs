//! The other reading of the table: nothing is lost, and normal TCP stays at half the link because its
//! window does not hold a round trip.

use super::super::mean;
use super::{PAPER, milliseconds, ratio};
use crate::case_id::case_ids;
use crate::{Check, Context, ReproduceError, Runs, Source, Table, Value};

/// Durations of a repair, as the grid of `table-5-held-back.toml` has it, one for each column of the paper's
/// table.
const REPAIRS: [Repair; 4] = [Repair::Ms262, Repair::Ms247, Repair::Ms255, Repair::Ms285];
const AS_IN_PAPER: [Flow; 2] = [Flow::AsInPaper17, Flow::AsInPaper1024];
const ADAPTIVE: [Flow; 2] = [Flow::Adaptive17, Flow::Adaptive1024];

case_ids! {
    /// The cases of `ma/table-5-held-back.toml`.
    pub(super) enum Flow {
        Normal = "normal TCP, 1024 KB",
        Udp = "maximum UDP",
        AsInPaper17 = "as in the paper, 17 KB",
        AsInPaper1024 = "as in the paper, 1024 KB",
        // With the cap on the data in flight that `rate` has by default.
        Accelerated17 = "accelerated, 17 KB",
        Adaptive17 = "adaptive, 17 KB",
        Adaptive1024 = "adaptive, 1024 KB",
    }
}
case_ids! {
    /// Its grid: how long a repair takes.
    pub(super) enum Repair { Ms262 = "262 ms", Ms247 = "247 ms", Ms255 = "255 ms", Ms285 = "285 ms" }
}

/// Runs of the file.
pub(super) type HeldBack = Runs<(Flow, Repair)>;

/// The runs, all four columns in one.
pub(super) fn runs(context: &mut Context<'_>) -> Result<HeldBack, ReproduceError> {
    let scenario = context.scenario("ma/table-5-held-back.toml")?;
    context.run(&scenario)
}

/// The table, laid out as the paper's on its side.
pub(super) fn table(runs: &HeldBack) -> Table {
    let mut table = Table::new("Nothing is lost, repairs hold back what comes behind", "{RSRP, SINR}")
        .column(Source::Ours, "a repair takes", "ms", 0)
        .column(Source::Paper, Flow::Udp.label(), "Mbit/s", 0)
        .column(Source::Limit, Flow::Udp.label(), "Mbit/s", 1)
        .column(Source::Paper, "normal TCP", "Mbit/s", 0)
        .column(Source::Ours, Flow::Normal.label(), "Mbit/s", 1)
        .column(Source::Paper, "accelerated", "Mbit/s", 0)
        .columns(AS_IN_PAPER.map(|case| (Source::Ours, case.label())), "Mbit/s", 1)
        .column(Source::Paper, "÷ UDP", "", 3)
        .column(Source::Ratio, "as in the paper, 17 KB ÷ UDP", "", 3)
        .column(Source::Ours, "as in the paper, 17 KB, queue p95", "ms", 0)
        .columns(ADAPTIVE.map(|case| (Source::Adaptive, case.label())), "Mbit/s", 1)
        .column(Source::Ratio, "adaptive, 17 KB ÷ UDP", "", 3)
        .column(Source::Adaptive, "adaptive, 17 KB, queue p95", "ms", 0)
        .column(Source::Ours, Flow::Accelerated17.label(), "Mbit/s", 1)
        .column(Source::Ours, "accelerated, 17 KB, queue p95", "ms", 0);
    for (printed, repair) in PAPER.iter().zip(REPAIRS) {
        let goodput = |case: Flow| Value::from(runs.goodput((case, repair)));
        let queue = |case: Flow| Value::from(runs.queue_p95((case, repair)).map(|m| m.mean));
        let share = |case: Flow| Value::from(ratio(runs, (case, repair), (Flow::Udp, repair)));
        let mut values = vec![
            milliseconds(repair.label()).into(),
            printed.udp.into(),
            goodput(Flow::Udp),
            printed.normal.into(),
            goodput(Flow::Normal),
            printed.accelerated.into(),
        ];
        values.extend(AS_IN_PAPER.map(goodput));
        values.extend([printed.ratio().into(), share(AS_IN_PAPER[0]), queue(AS_IN_PAPER[0])]);
        values.extend(ADAPTIVE.map(goodput));
        values.extend([share(ADAPTIVE[0]), queue(ADAPTIVE[0])]);
        values.extend([goodput(Flow::Accelerated17), queue(Flow::Accelerated17)]);
        table.row(printed.signal, values);
    }
    table
}

/// The paper's own algorithm reaches the paper's share of UDP, whatever the client's window, and
/// `adaptive` as much with a shorter queue.
pub(super) fn checks(runs: &HeldBack) -> Vec<Check> {
    let mut checks = Vec::new();
    for (printed, repair) in PAPER.iter().zip(REPAIRS) {
        for case in AS_IN_PAPER.into_iter().chain(ADAPTIVE) {
            let claim = format!(
                "{}, over maximum UDP at {}, nothing lost, repairs hold back",
                case.label(),
                printed.signal
            );
            let share = ratio(runs, (case, repair), (Flow::Udp, repair)).unwrap_or(f64::NAN);
            // To the two digits that the paper's figures have.
            checks.push(Check::at_least(claim, share, (printed.ratio() * 100.0).floor() / 100.0));
        }
    }
    for (printed, repair) in PAPER.iter().zip(REPAIRS) {
        let queue = |case: Flow| mean(runs.queue_p95((case, repair)));
        let claim = format!(
            "adaptive's queue p95 at {}, ms, against the paper's algorithm, nothing lost, 17 KB",
            printed.signal
        );
        checks.push(Check::at_most(claim, queue(ADAPTIVE[0]), queue(AS_IN_PAPER[0])));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CaseId as _;
    use scenario::Scenario;

    /// The table looks its runs up by the times that the file has.
    #[test]
    fn repairs_are_those_of_the_file() {
        let file = super::super::EXPERIMENT
            .files
            .iter()
            .find(|f| f.path.ends_with("table-5-held-back.toml"))
            .unwrap();
        let cases = Scenario::from_toml(file.path, file.text).unwrap().resolved();
        for repair in REPAIRS {
            for case in Flow::all() {
                let name = (case, repair).name();
                let harq =
                    cases.iter().find(|c| c.name == name).unwrap().radio.down.clone().unwrap().harq.unwrap();
                assert!((harq.retry.0.as_millis_f64() - milliseconds(repair.label())).abs() < 1e-9, "{name}");
            }
        }
    }
}
